// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/apiserver/backend"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/metrics"
	"github.com/openshift/windows-instance-api/pkg/host/networks"
	hostoptions "github.com/openshift/windows-instance-api/pkg/host/options"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// connectionsPerHost is how many connections to one host are open at one time: many people
// may read logs of one host.
const connectionsPerHost = 16

// newHosts makes what reaches hosts. The returned function ends all connections.
func newHosts(o *hostoptions.Options, received func(bytes int), known *networks.Networks, kube kubernetes.Interface, own versioned.Interface) (connector *host.Connector, agents *agentclient.Client, closePool func(), err error) {
	connections, err := o.Connections(known.Kind)
	if err != nil {
		return nil, nil, nil, err
	}
	connections.MaxConnsPerHost, connections.Received = connectionsPerHost, received
	builds, err := o.Agents()
	if err != nil {
		return nil, nil, nil, err
	}
	pool := ssh.New(connections)
	legacyregistry.RawMustRegister(metrics.NewCollector("windows_apiserver", pool.Stats))
	connector = host.New(host.Options{
		Pool: pool,
		ReadSecret: func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
			return kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		ReadPool:           poolReader(own),
		ClusterCredentials: o.ClusterCredentials(),
	})
	agents = agentclient.New(agentclient.Options{Hosts: connector, Pool: pool, Agents: builds})
	return connector, agents, func() {
		if err := pool.Close(); err != nil {
			klog.ErrorS(err, "Closing the connections to hosts")
		}
	}, nil
}

// newDesired makes what knows the desired configurations of hosts; nil without a payload.
func newDesired(ctx context.Context, o *options, config *rest.Config, own versioned.Interface, agentPath string) (*cluster.Live, error) {
	shipped, err := o.desired.Open(ctx)
	if shipped == nil || err != nil {
		return nil, err
	}
	settings := o.desired.Settings(shipped, agentPath, o.hosts.Namespace)
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
