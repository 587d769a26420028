// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/apiserver/backend"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/flags"
	"github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// hostOptions are the flags about reaching hosts.
type hostOptions struct {
	namespace      string
	privateKey     string
	agentDir       string
	allowed        []string
	refused        []string
	dialTimeout    time.Duration
	maxConnections int
	desired        flags.Flags
}

func newHostOptions() *hostOptions {
	return &hostOptions{
		namespace:      "openshift-windows-machine-config-operator",
		privateKey:     "cloud-private-key",
		agentDir:       "/usr/share/windows-instance-api/agent",
		dialTimeout:    10 * time.Second,
		maxConnections: 1024,
	}
}

func (o *hostOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.namespace, "namespace", o.namespace, "Namespace of the Secret with the cluster-wide key.")
	fs.StringVar(&o.privateKey, "private-key-secret", o.privateKey, "Name of the Secret with the cluster-wide key, under private-key.pem.")
	fs.StringVar(&o.agentDir, "agent-dir", o.agentDir, "Directory with windows-node-agent.exe, which is put on hosts.")
	fs.StringSliceVar(&o.allowed, "allowed-host-cidrs", o.allowed, "Address ranges in which hosts may be although they are refused by default: loopback, link-local, multicast and unspecified, metadata services of clouds, the API server of the cluster and this process itself.")
	fs.StringSliceVar(&o.refused, "refused-host-cidrs", o.refused, "Address ranges in which no host may be: set it to the service and pod networks of the cluster. It wins over --allowed-host-cidrs.")
	fs.DurationVar(&o.dialTimeout, "dial-timeout", o.dialTimeout, "How long a host gets to answer: once for the TCP connection, once for the SSH handshake and once for logging in.")
	fs.IntVar(&o.maxConnections, "max-host-connections", o.maxConnections, "How many SSH connections are open at one time.")
	o.desired.AddFlags(fs)
}

// validate reports everything that is wrong with the flags.
func (o *hostOptions) validate() error {
	var errs []error
	if _, err := o.addressRules(); err != nil {
		errs = append(errs, err)
	}
	if o.dialTimeout <= 0 || o.maxConnections <= 0 {
		errs = append(errs, errors.New("--dial-timeout and --max-host-connections must be greater than 0"))
	}
	errs = append(errs, o.desired.Validate()...)
	return errors.Join(errs...)
}

// addressRules returns allowed and refused in the form that programs use.
func (o *hostOptions) addressRules() (host.AddressRules, error) {
	return host.ParseAddressRules(o.allowed, o.refused)
}

// access builds what reaches hosts. The returned function ends all connections.
func (o *hostOptions) access(kube kubernetes.Interface, own versioned.Interface) (*host.Access, func(), error) {
	rules, err := o.addressRules()
	if err != nil {
		return nil, nil, err
	}
	ours, err := host.OurAddresses()
	if err != nil {
		return nil, nil, err
	}
	agents, err := host.LoadBundle(o.agentDir)
	if err != nil {
		return nil, nil, fmt.Errorf("--agent-dir: %w", err)
	}
	pool := ssh.New(ssh.Options{
		DialTimeout:      o.dialTimeout,
		HandshakeTimeout: o.dialTimeout,
		MaxConns:         o.maxConnections,
		MaxConnsPerHost:  16,
		AllowAddress:     rules.Policy(ours),
	})
	registerPoolMetrics(pool)
	access := host.New(host.Options{
		Pool: pool,
		ReadSecret: func(ctx context.Context, namespace, name string) (map[string][]byte, error) {
			secret, err := kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return secret.Data, nil
		},
		ReadPool:           poolReader(own),
		ClusterCredentials: types.NamespacedName{Namespace: o.namespace, Name: o.privateKey},
		Agents:             agents,
	})
	return access, func() {
		if err := pool.Close(); err != nil {
			klog.ErrorS(err, "Closing the connections to hosts")
		}
	}, nil
}

// desiredConfigurations returns what knows the desired configurations of hosts; nil without a payload.
func (o *hostOptions) desiredConfigurations(ctx context.Context, config *rest.Config, own versioned.Interface, agentPath string) (*cluster.Live, error) {
	shipped, err := o.desired.Open(ctx)
	if shipped == nil || err != nil {
		return nil, err
	}
	settings := o.desired.Settings(shipped, agentPath, o.namespace)
	// The manifest is all that a plan needs.
	if err := shipped.Close(); err != nil {
		return nil, fmt.Errorf("--payload: %w", err)
	}
	return backend.NewDesired(config, poolReader(own), settings)
}

// poolReader reads pools from this server itself.
func poolReader(own versioned.Interface) backend.PoolReader {
	return func(ctx context.Context, namespace, name string) (*v1alpha1.WindowsNodePool, error) {
		return own.WindowsV1alpha1().WindowsNodePools(namespace).Get(ctx, name, metav1.GetOptions{})
	}
}

// registerPoolMetrics shows the connections to hosts on /metrics.
func registerPoolMetrics(pool *ssh.Pool) {
	gauge := func(name, help string, value func(ssh.Stats) int) {
		legacyregistry.RawMustRegister(metrics.NewGaugeFunc(&metrics.GaugeOpts{
			Namespace: "windows_apiserver", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
		}, func() float64 { return float64(value(pool.Stats())) }))
	}
	gauge("ssh_connections", "SSH connections to hosts that are open.", func(s ssh.Stats) int { return s.Connections })
	gauge("ssh_sessions", "Sessions on these connections.", func(s ssh.Stats) int { return s.Sessions })
	gauge("ssh_dials_in_flight", "SSH connections being made.", func(s ssh.Stats) int { return s.Dialing })
}
