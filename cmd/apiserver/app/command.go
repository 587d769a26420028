// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package app wires windows-apiserver: its flags, its storage, and what reaches hosts.
package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/apiserver/backend"
	"github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned"
	"github.com/openshift/windows-instance-api/pkg/host/networks"
	"github.com/openshift/windows-instance-api/pkg/kubeclient"
	"github.com/openshift/windows-instance-api/pkg/storage/etcd"
	"github.com/openshift/windows-instance-api/pkg/version"
)

// NewCommand returns the command that runs the server until its context is done.
func NewCommand() *cobra.Command {
	o := newOptions()
	cmd := &cobra.Command{
		Use:   "windows-apiserver",
		Short: "Serve windows.openshift.io: Windows hosts as API objects, with live logs over SSH",
		Long: `windows-apiserver is an aggregated API server. It serves WindowsInstance and
WindowsNodePool and the live logs of hosts, behind kube-apiserver, which it asks who
a caller is and what they may do. It keeps its objects in an etcd of its own below
--data-dir, or in the cluster of --etcd-servers.`,
		Version:      version.Version,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	o.addFlags(cmd.Flags())
	globalflag.AddGlobalFlags(cmd.Flags(), cmd.Name())
	return cmd
}

func run(ctx context.Context, o *options) error {
	var endpoints []string
	storageFailed := make(<-chan error)
	if o.server.EmbeddedStorage() {
		etcd, err := etcd.StartEmbedded(ctx, o.server.DataDir)
		if err != nil {
			return err
		}
		// Last of all: what the server still writes while it stops must be kept.
		defer etcd.Close()
		endpoints, storageFailed = etcd.Endpoints(), etcd.Err()
	}
	config, err := o.server.Config(endpoints)
	if err != nil {
		return err
	}
	kube, err := clusterClient(config.Generic.ClientConfig)
	if err != nil {
		return fmt.Errorf("making a client for the cluster: %w", err)
	}
	own, err := versioned.NewForConfig(config.Generic.LoopbackClientConfig)
	if err != nil {
		return fmt.Errorf("making a client for this server: %w", err)
	}
	cluster, err := dynamic.NewForConfig(config.Generic.ClientConfig)
	if err != nil {
		return fmt.Errorf("making a client for the cluster: %w", err)
	}
	serving, err := newServing(ctx, o, config, kube, cluster)
	if err != nil {
		return err
	}
	legacyregistry.RawMustRegister(newExpiry(config.Generic.SecureServing.Cert))
	nodes, err := kubeclient.New(config.Generic.ClientConfig)
	if err != nil {
		return fmt.Errorf("making a client for Nodes: %w", err)
	}
	known, err := networks.Watch(ctx, nodes, cluster)
	if err != nil {
		return err
	}
	defer known.Close()
	known.WaitBriefly(ctx)
	connector, agents, closePool, err := newHosts(o.hosts, config.Extra.Memory.Received, known, kube, own)
	if err != nil {
		return err
	}
	defer closePool()
	desired, err := newDesired(ctx, o, config.Generic.ClientConfig, own, agents.AgentPath())
	if err != nil {
		return err
	}
	config.Extra.Hosts = backend.NewHosts(connector, agents, desired)
	config.Extra.Deleters.NamespaceDeleted = backend.NamespaceDeleted(kube)
	namespaces := config.Generic.SharedInformerFactory.Core().V1().Namespaces().Informer()
	if err := backend.RetireWithNamespace(ctx, namespaces, cluster, o.hosts.Namespace); err != nil {
		return err
	}
	sessionEvents, closeEvents := backend.NewSessionEvents(ctx, kube)
	defer closeEvents()
	config.Extra.SessionEvents = sessionEvents
	if config.Extra.MachineSets, err = backend.NewMachineSets(config.Generic.ClientConfig); err != nil {
		return fmt.Errorf("making a client for the Machine API: %w", err)
	}
	server, err := config.New() //nolint:contextcheck // its shutdown hook runs when the context is done
	if err != nil {
		return err
	}
	if err := serving.registerWhenReady(server, own.Discovery().RESTClient()); err != nil { //nolint:contextcheck // a start hook has the context of the server
		return fmt.Errorf("adding the start hook: %w", err)
	}
	// A server without storage only fails its callers: it ends, and is restarted.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan struct{})
	defer close(stopped)
	go func() {
		select {
		case err := <-storageFailed:
			cancel(fmt.Errorf("the embedded etcd failed: %w", err))
		case <-stopped:
		}
	}()
	klog.InfoS("Starting windows-apiserver", "version", version.Version)
	if err := server.PrepareRun().RunWithContext(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && cause != ctx.Err() { //nolint:errorlint // the same value, not the same kind
		return cause
	}
	return nil
}

// clusterClient makes the client that reads credentials. Each log that is opened costs a
// request, and the limit that client-go has by default, five a second, would be one for
// logs. kube-apiserver has limits of its own that are fair to others.
func clusterClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}
