// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package options holds the settings of windows-controller: their flags, their
// defaults and what is wrong with them. It starts nothing and contacts nobody;
// cmd/controller does.
package options

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/openshift/windows-instance-api/pkg/controller/instance"
	"github.com/openshift/windows-instance-api/pkg/controller/operation"
	"github.com/openshift/windows-instance-api/pkg/controller/rollout"
	"github.com/openshift/windows-instance-api/pkg/desired/flags"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// namespaceVariable is the environment variable with the namespace of our pod.
const namespaceVariable = "POD_NAMESPACE"

// Options are the settings as flags give them.
type Options struct {
	// Kubeconfig is a file that says where the cluster is. Empty: the cluster that the
	// process runs in.
	Kubeconfig string
	// Namespace is that of the operator.
	Namespace string
	// InstancesConfigMap is the ConfigMap in Namespace that lists hosts.
	InstancesConfigMap string
	// RemoveWithoutConfirmation removes all hosts at once when the ConfigMap that lists
	// them goes, as the Windows Machine Config Operator does.
	RemoveWithoutConfirmation bool
	// PrivateKeySecret is the Secret in Namespace with the cluster-wide key.
	PrivateKeySecret string

	// LeaderElect has one of several processes work while the others wait.
	LeaderElect bool
	// LeaderElectionNamespace has the Lease. Empty: Namespace.
	LeaderElectionNamespace string

	// MetricsBindAddress serves /metrics over TLS to those who may read it; "0" serves none.
	MetricsBindAddress string
	// MetricsCertDir has tls.crt and tls.key. Empty: a self-signed certificate.
	MetricsCertDir string
	// HealthProbeBindAddress serves /healthz, /livez and /readyz; "0" serves none.
	HealthProbeBindAddress string

	// AgentDir has the builds of the agent.
	AgentDir string
	// AllowedHostCIDRs open ranges of addresses that are refused by default.
	AllowedHostCIDRs []string
	// RefusedHostCIDRs close further ranges: the networks of services and pods.
	RefusedHostCIDRs []string
	// DialTimeout is how long a host gets to answer at each step of a connection.
	DialTimeout time.Duration
	// MaxHostConnections is how many SSH connections are open at one time.
	MaxHostConnections int
	// ConcurrentProbes is how many hosts that are new or answered last time are looked at at one time.
	ConcurrentProbes int
	// ConcurrentSlowProbes is the same for hosts that did not answer in time last time.
	ConcurrentSlowProbes int
	// ProbeTimeout bounds one look at a host.
	ProbeTimeout time.Duration
	// ConcurrentOperations is how many operations that somebody asked for are carried out at one time.
	ConcurrentOperations int
	// RecheckInterval is how often a host with which all is well is looked at.
	RecheckInterval time.Duration

	// Desired says what hosts shall be like.
	Desired flags.Flags
	// MaxDisruptiveOperations is how many hosts are drained or restarted at one time
	// because what they shall be like has changed.
	MaxDisruptiveOperations int
	// HostUploadLimit and TotalUploadLimit bound what is sent to each host and to all
	// together, in bytes a second, as quantities. Empty: no limit.
	HostUploadLimit, TotalUploadLimit string
}

// New returns the defaults.
func New() *Options {
	return &Options{
		InstancesConfigMap:     wmco.InstancesConfigMap,
		PrivateKeySecret:       wmco.PrivateKeySecret,
		LeaderElect:            true,
		MetricsBindAddress:     ":8443",
		HealthProbeBindAddress: ":8081",
		AgentDir:               "/usr/share/windows-instance-api/agent",
		DialTimeout:            10 * time.Second,
		MaxHostConnections:     1024,
		ConcurrentProbes:       instance.DefaultConcurrentProbes,
		ConcurrentSlowProbes:   instance.DefaultConcurrentSlowProbes,
		ProbeTimeout:           instance.DefaultProbeTimeout,
		ConcurrentOperations:   operation.DefaultConcurrent,
		RecheckInterval:        instance.DefaultRecheckInterval,

		MaxDisruptiveOperations: rollout.DefaultDisruptions,
	}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "File that says where the cluster is and who we are there. Default: the cluster that the process runs in.")
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "Namespace of the operator, with the ConfigMap of hosts and the cluster-wide key. Default: the value of "+namespaceVariable+", else "+wmco.Namespace+".")
	fs.StringVar(&o.InstancesConfigMap, "instances-configmap", o.InstancesConfigMap, "Name of the ConfigMap that lists hosts.")
	fs.BoolVar(&o.RemoveWithoutConfirmation, "remove-without-confirmation", o.RemoveWithoutConfirmation, "Remove all hosts at once when the whole ConfigMap is deleted or emptied, instead of asking for a confirmation on its pool.")
	fs.StringVar(&o.PrivateKeySecret, "private-key-secret", o.PrivateKeySecret, "Name of the Secret with the cluster-wide key, under private-key.pem.")

	fs.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "Have one of several processes work while the others wait to take over.")
	fs.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", o.LeaderElectionNamespace, "Namespace of the Lease that decides who works. Default: the value of --namespace.")

	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", o.MetricsBindAddress, "Where to serve /metrics, over TLS and only to those whom the cluster lets read it; 0 serves none.")
	fs.StringVar(&o.MetricsCertDir, "metrics-cert-dir", o.MetricsCertDir, "Directory with tls.crt and tls.key for /metrics, which are read again when they change. Default: a certificate that the process signs itself.")
	fs.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", o.HealthProbeBindAddress, "Where to serve /healthz, /livez and /readyz; 0 serves none.")

	fs.StringVar(&o.AgentDir, "agent-dir", o.AgentDir, "Directory with windows-node-agent.exe, which is put on hosts.")
	fs.StringSliceVar(&o.AllowedHostCIDRs, "allowed-host-cidrs", o.AllowedHostCIDRs, "Address ranges in which hosts may be although they are refused by default: loopback, link-local, multicast and unspecified, metadata services of clouds, the API server of the cluster and this process itself.")
	fs.StringSliceVar(&o.RefusedHostCIDRs, "refused-host-cidrs", o.RefusedHostCIDRs, "Address ranges in which no host may be: set it to the service and pod networks of the cluster. It wins over --allowed-host-cidrs.")
	fs.DurationVar(&o.DialTimeout, "dial-timeout", o.DialTimeout, "How long a host gets to answer: once for the TCP connection, once for the SSH handshake and once for logging in.")
	fs.IntVar(&o.MaxHostConnections, "max-host-connections", o.MaxHostConnections, "How many SSH connections are open at one time.")
	fs.IntVar(&o.ConcurrentProbes, "concurrent-probes", o.ConcurrentProbes, "How many hosts that are new or answered last time are looked at at one time.")
	fs.IntVar(&o.ConcurrentSlowProbes, "concurrent-slow-probes", o.ConcurrentSlowProbes, "How many hosts that did not answer in time last time are looked at at one time, besides the others.")
	fs.DurationVar(&o.ProbeTimeout, "probe-timeout", o.ProbeTimeout, "How long one look at a host may take as a whole, with the transfer of the agent if it is not there.")
	fs.IntVar(&o.ConcurrentOperations, "concurrent-operations", o.ConcurrentOperations, "How many operations that somebody asked for, such as drains and reboots, are carried out at one time; those beyond wait.")
	fs.DurationVar(&o.RecheckInterval, "recheck-interval", o.RecheckInterval, "How often a host with which all is well is looked at, give or take a fifth.")

	o.Desired.AddFlags(fs)
	fs.IntVar(&o.MaxDisruptiveOperations, "max-disruptive-operations", o.MaxDisruptiveOperations, "How many hosts of all pools are drained or restarted at one time because what they shall be like has changed; those beyond wait. Changes that disturb no pod do not count, nor does what people ask for.")
	fs.StringVar(&o.HostUploadLimit, "host-upload-limit", o.HostUploadLimit, "How many bytes a second are sent to each host while it is set up, as 10Mi. Default: no limit.")
	fs.StringVar(&o.TotalUploadLimit, "total-upload-limit", o.TotalUploadLimit, "How many bytes a second are sent to all hosts together while they are set up, as 100Mi. Default: no limit.")
}

// UploadLimits returns HostUploadLimit and TotalUploadLimit in bytes a second; zero is no limit.
func (o *Options) UploadLimits() (host, total int64, err error) {
	var errs []error
	parse := func(flag, value string) int64 {
		if value == "" {
			return 0
		}
		quantity, err := resource.ParseQuantity(value)
		if err != nil || quantity.Value() < minUploadLimit {
			errs = append(errs, fmt.Errorf("--%s: %q is no quantity of at least 16Ki bytes a second, as 10Mi", flag, value))
		}
		return quantity.Value()
	}
	host, total = parse("host-upload-limit", o.HostUploadLimit), parse("total-upload-limit", o.TotalUploadLimit)
	return host, total, errors.Join(errs...)
}

// minUploadLimit keeps a mistake of units from making a transfer take for ever.
const minUploadLimit = 16 << 10

// Complete fills in what depends on other settings and on the environment.
func (o *Options) Complete() {
	if o.Namespace == "" {
		o.Namespace = os.Getenv(namespaceVariable)
	}
	if o.Namespace == "" {
		o.Namespace = wmco.Namespace
	}
	if o.LeaderElectionNamespace == "" {
		o.LeaderElectionNamespace = o.Namespace
	}
}

// Validate returns everything that is wrong at once.
func (o *Options) Validate() error {
	var errs []error
	add := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--"+flag+": "+format, args...))
	}
	namespaces := map[string]string{"namespace": o.Namespace}
	if o.LeaderElectionNamespace != o.Namespace { // else it is said once
		namespaces["leader-election-namespace"] = o.LeaderElectionNamespace
	}
	for flag, name := range namespaces {
		for _, text := range utilvalidation.IsDNS1123Label(name) {
			add(flag, "%q is no namespace: %s", name, text)
		}
	}
	for flag, name := range map[string]string{"instances-configmap": o.InstancesConfigMap, "private-key-secret": o.PrivateKeySecret} {
		for _, text := range utilvalidation.IsDNS1123Subdomain(name) {
			add(flag, "%q is no name of an object: %s", name, text)
		}
	}
	for flag, address := range map[string]string{"metrics-bind-address": o.MetricsBindAddress, "health-probe-bind-address": o.HealthProbeBindAddress} {
		if err := checkBindAddress(address); err != nil {
			add(flag, "%w", err)
		}
	}
	if o.MetricsBindAddress != "0" && o.MetricsBindAddress == o.HealthProbeBindAddress {
		add("metrics-bind-address", "%s is that of --health-probe-bind-address as well", o.MetricsBindAddress)
	}
	if o.MetricsCertDir != "" {
		for _, name := range []string{"tls.crt", "tls.key"} {
			if _, err := os.Stat(filepath.Join(o.MetricsCertDir, name)); err != nil {
				add("metrics-cert-dir", "%w", err)
			}
		}
	}
	if o.Kubeconfig != "" {
		if _, err := os.Stat(o.Kubeconfig); err != nil {
			add("kubeconfig", "%w", err)
		}
	}
	if info, err := os.Stat(o.AgentDir); err != nil {
		add("agent-dir", "%w", err)
	} else if !info.IsDir() {
		add("agent-dir", "%s is no directory", o.AgentDir)
	}
	if _, err := o.AddressRules(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, o.Desired.Validate()...)
	if _, _, err := o.UploadLimits(); err != nil {
		errs = append(errs, err)
	}
	for flag, n := range map[string]int{
		"max-host-connections": o.MaxHostConnections, "concurrent-probes": o.ConcurrentProbes, "concurrent-slow-probes": o.ConcurrentSlowProbes,
		"concurrent-operations": o.ConcurrentOperations, "max-disruptive-operations": o.MaxDisruptiveOperations,
	} {
		if n < 1 {
			add(flag, "%d is less than 1", n)
		}
	}
	for flag, d := range map[string]time.Duration{"dial-timeout": o.DialTimeout, "probe-timeout": o.ProbeTimeout, "recheck-interval": o.RecheckInterval} {
		if d < time.Second {
			add(flag, "%s is less than a second", d)
		}
	}
	// Maps have no order, and people like to see the same errors in the same order.
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return utilerrors.NewAggregate(errs)
}

// AddressRules returns AllowedHostCIDRs and RefusedHostCIDRs in the form that programs use.
func (o *Options) AddressRules() (host.AddressRules, error) {
	return host.ParseAddressRules(o.AllowedHostCIDRs, o.RefusedHostCIDRs)
}

// checkBindAddress accepts 0, for none, and host:port.
func checkBindAddress(address string) error {
	if address == "0" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is neither 0 nor of the form host:port", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q has no port from 1 to 65535", address)
	}
	return nil
}
