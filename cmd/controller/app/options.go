// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"crypto/tls"
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
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/openshift/windows-instance-api/pkg/controller/instance"
	"github.com/openshift/windows-instance-api/pkg/controller/lifecycle"
	"github.com/openshift/windows-instance-api/pkg/controller/operation"
	"github.com/openshift/windows-instance-api/pkg/controller/rollout"
	"github.com/openshift/windows-instance-api/pkg/controller/source/configmap"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/flags"
	hostoptions "github.com/openshift/windows-instance-api/pkg/host/options"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// namespaceVariable is the environment variable with the namespace of our pod.
const namespaceVariable = "POD_NAMESPACE"

// options are the settings of windows-controller as flags give them.
type options struct {
	// Kubeconfig is a file that says where the cluster is. Empty: the cluster that the
	// process runs in.
	Kubeconfig string
	// InstancesConfigMap is the ConfigMap in the namespace of Hosts that lists hosts.
	InstancesConfigMap string
	// MaxRemovals is how many hosts of a source, or of deleted instances, may be removed within RemovalWindow before somebody
	// confirms it, as a number or a percentage.
	MaxRemovals string
	// RemovalWindow is the time that MaxRemovals is about.
	RemovalWindow time.Duration
	// RemoveWithoutConfirmation removes all hosts that have no entry, or whose instances are deleted, at once, as the Windows
	// Machine Config Operator does.
	RemoveWithoutConfirmation bool

	// LeaderElect has one of several processes work while the others wait.
	LeaderElect bool
	// LeaderElectionNamespace has the Lease. Empty: the namespace of Hosts.
	LeaderElectionNamespace string
	// LeaderElectLeaseDuration is for how long others wait for a leader that does not renew the Lease any more, LeaderElectRenewDeadline
	// how long a leader that cannot renew it goes on, and LeaderElectRetryPeriod how often each of them tries.
	LeaderElectLeaseDuration, LeaderElectRenewDeadline, LeaderElectRetryPeriod time.Duration

	// MetricsBindAddress serves /metrics over TLS to those who may read it; "0" serves none.
	MetricsBindAddress string
	// MetricsCertDir has tls.crt and tls.key. Empty: a self-signed certificate.
	MetricsCertDir string
	// TLSMinVersion is the oldest version of TLS for /metrics, and TLSCipherSuites are those of TLS 1.2. Empty: the defaults of Go.
	TLSMinVersion   string
	TLSCipherSuites []string
	// HealthProbeBindAddress serves /healthz, /livez and /readyz; "0" serves none.
	HealthProbeBindAddress string

	// Hosts are those about reaching hosts.
	Hosts *hostoptions.Options
	// ConcurrentProbes is how many hosts that are new or answered last time are probed at one time.
	ConcurrentProbes int
	// ConcurrentSlowProbes is the same for hosts that did not answer in time last time.
	ConcurrentSlowProbes int
	// ProbeTimeout bounds one probe of a host.
	ProbeTimeout time.Duration
	// ConcurrentOperations is how many operations run at one time, and how many drains, reboots and restarts of services that people have requested do besides.
	ConcurrentOperations int
	// MissingNamespaceTimeout is for how long objects stay whose namespace does not exist.
	MissingNamespaceTimeout time.Duration
	// NodeSettleTime is for how long a Node must stay ready after what disturbs its pods.
	NodeSettleTime time.Duration
	// RecheckInterval is how often a host with which all is well is probed.
	RecheckInterval time.Duration

	// Desired are those about the desired configuration of hosts.
	Desired flags.Flags
	// APIServerSettleTime is for how long no API server may have been older before hosts get a newer kubelet.
	APIServerSettleTime time.Duration
	// MaxDisruptiveOperations is how many hosts of all pools are drained, restarted, repaired or removed at one time, unless people have
	// asked for it.
	MaxDisruptiveOperations int
	// HostUploadLimit and TotalUploadLimit bound what is sent to each host and to all
	// together, in bytes a second, as quantities. Empty: no limit.
	HostUploadLimit, TotalUploadLimit string
}

// newOptions returns the defaults.
func newOptions() *options {
	hosts := hostoptions.New()
	hosts.Namespace = defaultNamespace()
	return &options{
		InstancesConfigMap:       wmco.InstancesConfigMap,
		MaxRemovals:              configmap.DefaultMaxRemovals,
		RemovalWindow:            configmap.DefaultRemovalWindow,
		LeaderElect:              true,
		LeaderElectLeaseDuration: defaultLeaseDuration,
		LeaderElectRenewDeadline: defaultRenewDeadline,
		LeaderElectRetryPeriod:   defaultRetryPeriod,
		MetricsBindAddress:       ":8443",
		HealthProbeBindAddress:   ":8081",
		Hosts:                    hosts,
		ConcurrentProbes:         instance.DefaultConcurrentProbes,
		ConcurrentSlowProbes:     instance.DefaultConcurrentSlowProbes,
		ProbeTimeout:             instance.DefaultProbeTimeout,
		ConcurrentOperations:     operation.DefaultConcurrent,
		NodeSettleTime:           operation.DefaultSettle,

		MissingNamespaceTimeout: lifecycle.DefaultMissingNamespaceTimeout,
		RecheckInterval:         instance.DefaultRecheckInterval,

		APIServerSettleTime:     cluster.DefaultSettleTime,
		MaxDisruptiveOperations: rollout.DefaultDisruptions,
	}
}

// defaultNamespace is that of our pod, else that of WMCO.
func defaultNamespace() string {
	if namespace := os.Getenv(namespaceVariable); namespace != "" {
		return namespace
	}
	return wmco.Namespace
}

// addFlags adds the flags.
func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "File with the address of the cluster and our credentials there. Default: the cluster that the process runs in.")
	o.Hosts.AddFlags(fs)
	fs.StringVar(&o.InstancesConfigMap, "instances-configmap", o.InstancesConfigMap, "Name of the ConfigMap in --namespace that lists hosts.")
	fs.StringVar(&o.MaxRemovals, "max-removals", o.MaxRemovals, "How many hosts of a pool may be removed within --removal-window without a confirmation on the pool: a number, or a percentage of its hosts, which allows at least one. What would exceed it removes none and asks first. What the Machine API removes does not count.")
	fs.DurationVar(&o.RemovalWindow, "removal-window", o.RemovalWindow, "The time that --max-removals is about.")
	fs.BoolVar(&o.RemoveWithoutConfirmation, "remove-without-confirmation", o.RemoveWithoutConfirmation, "Remove all hosts without an entry in the ConfigMap at once, also when it is deleted or emptied, as the Windows Machine Config Operator does, and the hosts of all instances that are deleted; --max-removals does not count then.")

	fs.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "Have one of several processes work while the others wait to take over.")
	fs.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", o.LeaderElectionNamespace, "Namespace of the Lease that decides who works. Default: the value of --namespace.")
	fs.DurationVar(&o.LeaderElectLeaseDuration, "leader-elect-lease-duration", o.LeaderElectLeaseDuration, "How long the others wait for a leader that was lost with its node, or killed. One that ends in good order makes way to the first that looks. Whole seconds, and at least --leader-elect-renew-deadline and --leader-elect-retry-period together.")
	fs.DurationVar(&o.LeaderElectRenewDeadline, "leader-elect-renew-deadline", o.LeaderElectRenewDeadline, "How long a leader goes on that could not renew its Lease, before it ends.")
	fs.DurationVar(&o.LeaderElectRetryPeriod, "leader-elect-retry-period", o.LeaderElectRetryPeriod, "How often the leader renews its Lease. The others look after 1 to 2.2 times that whether they may lead.")

	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", o.MetricsBindAddress, "Where to serve /metrics, over TLS and only to those whom the cluster lets read it; 0 serves none.")
	fs.StringVar(&o.MetricsCertDir, "metrics-cert-dir", o.MetricsCertDir, "Directory with tls.crt and tls.key for /metrics, which are read again when they change. Default: a certificate that the process signs itself.")
	fs.StringVar(&o.TLSMinVersion, "tls-min-version", o.TLSMinVersion, "Oldest version of TLS for /metrics. Possible values: "+strings.Join(cliflag.TLSPossibleVersions(), ", ")+". Default: that of Go, which is VersionTLS12.")
	fs.StringSliceVar(&o.TLSCipherSuites, "tls-cipher-suites", o.TLSCipherSuites, "Cipher suites for /metrics with TLS 1.2; those of TLS 1.3 cannot be chosen. Default: those of Go. Possible values: "+strings.Join(cliflag.PreferredTLSCipherNames(), ", ")+".")
	fs.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", o.HealthProbeBindAddress, "Where to serve /healthz, /livez and /readyz; 0 serves none.")

	fs.IntVar(&o.ConcurrentProbes, "concurrent-probes", o.ConcurrentProbes, "How many hosts that are new or answered last time are probed at one time.")
	fs.IntVar(&o.ConcurrentSlowProbes, "concurrent-slow-probes", o.ConcurrentSlowProbes, "How many hosts that did not answer in time last time are probed at one time, besides the others.")
	fs.DurationVar(&o.ProbeTimeout, "probe-timeout", o.ProbeTimeout, "How long one probe of a host may take as a whole, with the transfer of the agent if the host does not have it.")
	fs.IntVar(&o.ConcurrentOperations, "concurrent-operations", o.ConcurrentOperations, "How many operations, such as configurations, updates and removals, run at the same time; further ones wait. Drains, reboots and restarts of services that people request have as many workers of their own. Uncordons do not count, nor operations that wait for a disruption slot or have waited more than five minutes for their host.")
	fs.DurationVar(&o.MissingNamespaceTimeout, "missing-namespace-timeout", o.MissingNamespaceTimeout, "For how long instances and pools stay whose namespace does not exist, as after a restore of the cluster from a backup that is older than it; 0: they are deleted at once. Their hosts are left as they are.")
	fs.DurationVar(&o.NodeSettleTime, "node-settle-time", o.NodeSettleTime, "For how long a Node must stay ready after a configuration or a restart that disturbs its pods, before that has succeeded and the next host follows; 0: it need not.")
	fs.DurationVar(&o.RecheckInterval, "recheck-interval", o.RecheckInterval, "How often a host with which all is well is probed, give or take a fifth. In large fleets it is less often: ten of these hosts are probed in a second at most, as of 3,000 hosts with 5m.")

	o.Desired.AddFlags(fs)
	fs.DurationVar(&o.APIServerSettleTime, "api-server-settle-time", o.APIServerSettleTime, "For how long no API server may have answered with an older version before hosts get the kubelet of a newer payload, where --payload has several; 0 where there is one API server.")
	fs.IntVar(&o.MaxDisruptiveOperations, "max-disruptive-operations", o.MaxDisruptiveOperations, "How many hosts of all pools are drained, restarted or removed at one time; those beyond wait. Changes that disturb no pod do not count, nor do restarts that people ask for and removals that they confirm.")
	fs.StringVar(&o.HostUploadLimit, "host-upload-limit", o.HostUploadLimit, "How many bytes a second are sent to each host while it is configured, as 10Mi. Default: no limit.")
	fs.StringVar(&o.TotalUploadLimit, "total-upload-limit", o.TotalUploadLimit, "How many bytes a second are sent to all hosts together while they are configured, as 100Mi. Default: no limit.")
}

// configureTLS has a server take the versions of TLS and the cipher suites of the flags. An error says what is none.
func (o *options) configureTLS(config *tls.Config) error {
	var errs []error
	version, err := cliflag.TLSVersion(o.TLSMinVersion)
	if err != nil {
		errs = append(errs, fmt.Errorf("--tls-min-version: %w", err))
	}
	suites, err := cliflag.TLSCipherSuites(o.TLSCipherSuites)
	if err != nil {
		errs = append(errs, fmt.Errorf("--tls-cipher-suites: %w", err))
	}
	if o.TLSMinVersion != "" {
		config.MinVersion = version
	}
	if len(suites) > 0 {
		config.CipherSuites = suites
	}
	return errors.Join(errs...)
}

// uploadLimits returns HostUploadLimit and TotalUploadLimit in bytes a second; zero is no limit.
func (o *options) uploadLimits() (host, total int64, err error) {
	var errs []error
	parse := func(flag, value string) int64 {
		if value == "" {
			return 0
		}
		quantity, _ := resource.ParseQuantity(value) // what is none is zero
		if quantity.Value() < minUploadLimit {
			errs = append(errs, fmt.Errorf("--%s: %q is no quantity of at least 16Ki bytes a second, as 10Mi", flag, value))
		}
		return quantity.Value()
	}
	host, total = parse("host-upload-limit", o.HostUploadLimit), parse("total-upload-limit", o.TotalUploadLimit)
	return host, total, errors.Join(errs...)
}

// maxRemovals returns MaxRemovals as the controller takes it.
func (o *options) maxRemovals() (intstr.IntOrString, error) {
	most := intstr.Parse(o.MaxRemovals)
	if most.Type == intstr.Int {
		if most.IntVal < 0 {
			return most, fmt.Errorf("%s is less than 0", o.MaxRemovals)
		}
		return most, nil
	}
	if percent, err := intstr.GetScaledValueFromIntOrPercent(&most, 100, false); err != nil || percent < 0 || percent > 100 {
		return most, fmt.Errorf("%q is neither a number nor a percentage from 0%% to 100%%", o.MaxRemovals)
	}
	return most, nil
}

// minUploadLimit keeps a mistake of units from making a transfer take for ever.
const minUploadLimit = 16 << 10

// complete fills in what depends on other settings and on the environment.
func (o *options) complete() {
	if o.Hosts.Namespace == "" {
		o.Hosts.Namespace = defaultNamespace()
	}
	if o.LeaderElectionNamespace == "" {
		o.LeaderElectionNamespace = o.Hosts.Namespace
	}
}

// validate returns everything that is wrong at once.
func (o *options) validate() error {
	var errs []error
	add := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--"+flag+": "+format, args...))
	}
	namespaces := map[string]string{"namespace": o.Hosts.Namespace}
	if o.LeaderElectionNamespace != o.Hosts.Namespace { // else it is said once
		namespaces["leader-election-namespace"] = o.LeaderElectionNamespace
	}
	// A leader tries to renew the Lease, which has whole seconds, when the period after the last renewal is over, and from then on until the deadline.
	if lease, least := o.LeaderElectLeaseDuration.Truncate(time.Second), o.LeaderElectRenewDeadline+o.LeaderElectRetryPeriod; lease < least {
		add("leader-elect-lease-duration", "it is %v in whole seconds, and must be at least as long as --leader-elect-renew-deadline and --leader-elect-retry-period together (%v), or two processes take themselves for the leader", lease, least)
	}
	// The period varies (client-go/tools/leaderelection).
	if least := time.Duration(leaderelection.JitterFactor * float64(o.LeaderElectRetryPeriod)); o.LeaderElectRenewDeadline <= least {
		add("leader-elect-renew-deadline", "it is %v, and must be longer than %v times --leader-elect-retry-period (%v), or the leader ends before it has tried again",
			o.LeaderElectRenewDeadline, leaderelection.JitterFactor, least)
	}
	if o.LeaderElectRetryPeriod < time.Second {
		add("leader-elect-retry-period", "it is %v, and must be at least a second", o.LeaderElectRetryPeriod)
	}
	for flag, name := range namespaces {
		for _, text := range utilvalidation.IsDNS1123Label(name) {
			add(flag, "%q is no namespace: %s", name, text)
		}
	}
	for flag, name := range map[string]string{"instances-configmap": o.InstancesConfigMap, "private-key-secret": o.Hosts.PrivateKeySecret} {
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
	if err := o.configureTLS(&tls.Config{}); err != nil {
		errs = append(errs, err)
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
	errs = append(errs, o.Hosts.Validate()...)
	errs = append(errs, o.Desired.Validate()...)
	if _, _, err := o.uploadLimits(); err != nil {
		errs = append(errs, err)
	}
	if _, err := o.maxRemovals(); err != nil {
		add("max-removals", "%w", err)
	}
	for flag, n := range map[string]int{
		"concurrent-probes": o.ConcurrentProbes, "concurrent-slow-probes": o.ConcurrentSlowProbes,
		"concurrent-operations": o.ConcurrentOperations, "max-disruptive-operations": o.MaxDisruptiveOperations,
	} {
		if n < 1 {
			add(flag, "%d is less than 1", n)
		}
	}
	durations := map[string]time.Duration{"probe-timeout": o.ProbeTimeout, "recheck-interval": o.RecheckInterval, "removal-window": o.RemovalWindow}
	if o.Hosts.DialTimeout > 0 { // else it is said once
		durations["dial-timeout"] = o.Hosts.DialTimeout
	}
	for flag, d := range durations {
		if d < time.Second {
			add(flag, "%s is less than a second", d)
		}
	}
	if o.APIServerSettleTime < 0 {
		add("api-server-settle-time", "%s is negative", o.APIServerSettleTime)
	}
	if o.MissingNamespaceTimeout < 0 {
		add("missing-namespace-timeout", "%s is negative", o.MissingNamespaceTimeout)
	}
	if o.NodeSettleTime < 0 {
		add("node-settle-time", "%s is negative", o.NodeSettleTime)
	}
	// Maps have no order, and people like to see the same errors in the same order.
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return utilerrors.NewAggregate(errs)
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
