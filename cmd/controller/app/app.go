// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package app wires windows-controller: its flags, its manager and its controllers.
package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/openshift/windows-instance-api/pkg/version"
)

// Client-side limits of requests to the cluster. The server has limits of its own
// that are fair to others; these only tame a mistake of ours.
const (
	clientQPS   = 400
	clientBurst = 800
)

// NewCommand returns the command that runs the controller until its context is done.
func NewCommand() *cobra.Command {
	o := newOptions()
	cmd := &cobra.Command{
		Use:   "windows-controller",
		Short: "Manage Windows hosts: make WindowsInstances from their sources, and healthy nodes of their hosts",
		Long: `windows-controller turns the windows-instances ConfigMap and MachineSets into
WindowsNodePools and WindowsInstances, connects to each host over SSH, makes it a
node, and drains, updates, restarts, repairs and removes it as its pool and people
say. The status of its WindowsInstance says how it is. Several may run; one of them
works and the others wait.

In a pod, --namespace is by default that of the pod, which POD_NAMESPACE names.`,
		Version:      version.Version,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.complete()
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

// run works until ctx is done or something fails.
func run(ctx context.Context, o *options) error {
	ctrl.SetLogger(klog.Background())
	config, err := clientConfig(o.Kubeconfig)
	if err != nil {
		return err
	}
	health, err := newHealthServer(ctx, o.HealthProbeBindAddress)
	if err != nil {
		return err
	}
	cluster, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for the cluster: %w", err)
	}
	klog.InfoS("Starting windows-controller", "version", version.Version, "namespace", o.Hosts.Namespace)

	// Probes are answered from the beginning: waiting for the API is no reason to be restarted.
	group, ctx := errgroup.WithContext(ctx)
	work, stop := context.WithCancel(ctx)
	group.Go(func() error { return health.run(work) })
	group.Go(func() error {
		defer stop()
		if !waitForInstallation(work, cluster, o.Hosts.Namespace, health) {
			return nil
		}
		// Whatever runs by then ends when the API is served from elsewhere.
		group.Go(func() error { return watchInstallation(work, cluster, o.Hosts.Namespace) })
		return runManager(work, config, cluster, o, health)
	})
	return group.Wait()
}

// clientConfig says where the cluster is.
func clientConfig(kubeconfig string) (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, fmt.Errorf("not running in a cluster: set --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	config.UserAgent = "windows-controller/" + version.Version
	config.QPS, config.Burst = clientQPS, clientBurst
	return config, nil
}
