// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned"
	"github.com/openshift/windows-instance-api/pkg/hostaccess"
	"github.com/openshift/windows-instance-api/pkg/hostagent"
	"github.com/openshift/windows-instance-api/pkg/registry/windowsinstance"
	"github.com/openshift/windows-instance-api/pkg/sshpool"
	"github.com/openshift/windows-instance-api/pkg/streamserver"
)

// hostOptions are the flags about reaching hosts.
type hostOptions struct {
	namespace      string
	privateKey     string
	agentDir       string
	allowed        []string
	dialTimeout    time.Duration
	maxConnections int
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
	fs.StringSliceVar(&o.allowed, "allowed-host-cidrs", o.allowed, "Address ranges in which hosts may be although they are refused by default: loopback, link-local and multicast.")
	fs.DurationVar(&o.dialTimeout, "dial-timeout", o.dialTimeout, "How long a host gets to answer: once for the TCP connection, once for the SSH handshake and once for logging in.")
	fs.IntVar(&o.maxConnections, "max-host-connections", o.maxConnections, "How many SSH connections are open at one time.")
}

// validate reports everything that is wrong with the flags.
func (o *hostOptions) validate() error {
	var errs []error
	if _, err := o.allowedPrefixes(); err != nil {
		errs = append(errs, err)
	}
	if o.dialTimeout <= 0 || o.maxConnections <= 0 {
		errs = append(errs, errors.New("--dial-timeout and --max-host-connections must be greater than 0"))
	}
	return errors.Join(errs...)
}

// allowedPrefixes returns allowed in the form that programs use.
func (o *hostOptions) allowedPrefixes() ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, 0, len(o.allowed))
	for _, s := range o.allowed {
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("--allowed-host-cidrs: %w", err)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

// access builds what reaches hosts. The returned function ends all connections.
func (o *hostOptions) access(kube kubernetes.Interface, own versioned.Interface) (*hostaccess.Access, func(), error) {
	prefixes, err := o.allowedPrefixes()
	if err != nil {
		return nil, nil, err
	}
	agents, err := hostaccess.LoadBundle(o.agentDir)
	if err != nil {
		return nil, nil, fmt.Errorf("--agent-dir: %w", err)
	}
	pool := sshpool.New(sshpool.Options{
		DialTimeout:      o.dialTimeout,
		HandshakeTimeout: o.dialTimeout,
		MaxConns:         o.maxConnections,
		MaxConnsPerHost:  16,
		AllowAddress:     hostaccess.AddressPolicy(prefixes),
	})
	registerPoolMetrics(pool)
	access := hostaccess.New(hostaccess.Options{
		Pool: pool,
		ReadSecret: func(ctx context.Context, namespace, name string) (map[string][]byte, error) {
			secret, err := kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return secret.Data, nil
		},
		ReadPool: func(ctx context.Context, namespace, name string) (*v1alpha1.WindowsNodePool, error) {
			return own.WindowsV1alpha1().WindowsNodePools(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		ClusterCredentials: types.NamespacedName{Namespace: o.namespace, Name: o.privateKey},
		Agents:             agents,
	})
	return access, func() {
		if err := pool.Close(); err != nil {
			klog.ErrorS(err, "Closing the connections to hosts")
		}
	}, nil
}

// registerPoolMetrics shows the connections to hosts on /metrics.
func registerPoolMetrics(pool *sshpool.Pool) {
	gauge := func(name, help string, value func(sshpool.Stats) int) {
		legacyregistry.RawMustRegister(metrics.NewGaugeFunc(&metrics.GaugeOpts{
			Namespace: "windows_apiserver", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
		}, func() float64 { return float64(value(pool.Stats())) }))
	}
	gauge("ssh_connections", "SSH connections to hosts that are open.", func(s sshpool.Stats) int { return s.Connections })
	gauge("ssh_sessions", "Sessions on these connections.", func(s sshpool.Stats) int { return s.Sessions })
	gauge("ssh_dials_in_flight", "SSH connections being made.", func(s sshpool.Stats) int { return s.Dialing })
}

// logOpener is hostaccess as the registry wants it.
type logOpener struct {
	access *hostaccess.Access
}

var _ windowsinstance.LogOpener = logOpener{}

// OpenLog implements [windowsinstance.LogOpener].
func (o logOpener) OpenLog(ctx context.Context, instance *v1alpha1.WindowsInstance, request hostagent.LogRequest) (windowsinstance.LogStream, error) {
	stream, err := o.access.Logs(ctx, instance, request)
	if err != nil {
		return nil, hostaccess.StatusError(instance.Name, err)
	}
	return stream, nil
}

// sessionOpener is hostaccess as the registry wants it.
type sessionOpener struct {
	access *hostaccess.Access
}

var _ windowsinstance.SessionOpener = sessionOpener{}

// OpenSession implements [windowsinstance.SessionOpener]. The terminal gets its size from
// the client, right after it is connected.
func (o sessionOpener) OpenSession(ctx context.Context, instance *v1alpha1.WindowsInstance, request windowsinstance.SessionRequest) (streamserver.Session, error) {
	exec := hostaccess.ExecRequest{Command: request.Command}
	if request.TTY {
		exec.TTY = &sshpool.PTY{}
	}
	s, err := o.access.Exec(ctx, instance, exec)
	if err != nil {
		return nil, hostaccess.StatusError(instance.Name, err)
	}
	return session{s, instance.Name}, nil
}

// DialPort implements [windowsinstance.SessionOpener].
func (o sessionOpener) DialPort(ctx context.Context, instance *v1alpha1.WindowsInstance, port int) (net.Conn, error) {
	return o.access.Dial(ctx, instance, port)
}

// session is an SSH session as streamserver wants it.
type session struct {
	*sshpool.Session
	instance string
}

// Stdin implements [streamserver.Session].
func (s session) Stdin() io.WriteCloser { return s.Session.Stdin }

// Stdout implements [streamserver.Session].
func (s session) Stdout() io.Reader { return s.Session.Stdout }

// Stderr implements [streamserver.Session].
func (s session) Stderr() io.Reader { return s.Session.Stderr }

// Wait implements [streamserver.Session].
func (s session) Wait() (exitCode int, err error) {
	err = s.Session.Wait()
	var exit *sshpool.ExitError
	if errors.As(err, &exit) {
		return exit.Code, nil
	}
	if err != nil {
		return 0, hostaccess.StatusError(s.instance, err)
	}
	return 0, nil
}

// planner is hostaccess as the registry wants it.
type planner struct {
	access *hostaccess.Access
}

var _ windowsinstance.Planner = planner{}

// Plan implements [windowsinstance.Planner].
func (p planner) Plan(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error) {
	changes, err := p.access.Plan(ctx, instance)
	if err != nil {
		return nil, hostaccess.StatusError(instance.Name, err)
	}
	return changes, nil
}

// inspector is hostaccess as the registry wants it.
type inspector struct {
	access *hostaccess.Access
}

var _ windowsinstance.Inspector = inspector{}

// Inspect implements [windowsinstance.Inspector].
func (i inspector) Inspect(ctx context.Context, instance *v1alpha1.WindowsInstance) (*v1alpha1.WindowsInstanceInspection, error) {
	inspection, err := i.access.Inspect(ctx, instance)
	if err != nil {
		return nil, hostaccess.StatusError(instance.Name, err)
	}
	return inspection, nil
}
