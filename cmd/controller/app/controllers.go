// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/controller/instance"
	"github.com/openshift/windows-instance-api/pkg/controller/keys"
	"github.com/openshift/windows-instance-api/pkg/controller/lifecycle"
	"github.com/openshift/windows-instance-api/pkg/controller/node"
	"github.com/openshift/windows-instance-api/pkg/controller/operation"
	"github.com/openshift/windows-instance-api/pkg/controller/policies"
	"github.com/openshift/windows-instance-api/pkg/controller/rollout"
	"github.com/openshift/windows-instance-api/pkg/controller/services"
	"github.com/openshift/windows-instance-api/pkg/controller/source/configmap"
	"github.com/openshift/windows-instance-api/pkg/controller/source/machine"
	"github.com/openshift/windows-instance-api/pkg/controller/trustedca"
	"github.com/openshift/windows-instance-api/pkg/controller/userdata"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/version"
)

// controllers adds every controller to a manager.
type controllers struct {
	ctrl.Manager
	hosts    hosts
	kube     kubernetes.Interface
	recorder record.EventRecorder
	// ready waits until hosts can be connected to.
	ready func(ctx context.Context) error
	// leads says whether this process still has the hosts of the cluster.
	leads   func(ctx context.Context) (bool, error)
	options *options
	// keys are those that hosts are to accept.
	keys *keys.Current
	// rollout decides which hosts are updated.
	rollout *rollout.Scheduler

	// desired is nil when hosts are watched and not configured.
	desired *cluster.Source
	// metadata watches what is read one by one. It is nil without desired.
	metadata metadata.Interface
}

// configure has hosts configured with a payload, if there is one.
func (c *controllers) configure(p *payload.Set) error {
	if p == nil {
		return nil
	}
	settings := c.options.Desired.Settings(p, c.hosts.AgentPath(), c.options.Hosts.Namespace)
	settings.ServerVersion = cluster.Settle(cluster.ServerVersion(c.GetConfig()), c.options.APIServerSettleTime)
	var err error
	if c.metadata, err = metadata.NewForConfigAndClient(c.GetConfig(), c.GetHTTPClient()); err != nil {
		return fmt.Errorf("making a client that watches the inputs of configurations: %w", err)
	}
	c.desired, err = cluster.NewSource(cluster.Options{
		Live: cluster.Live{
			Cluster:   c.GetAPIReader(),
			ReadPool:  poolReader(c.GetClient()),
			Revisions: c.GetClient(),
			Settings:  settings,
		},
		Client:   c.GetClient(),
		Metadata: c.metadata,
		Issuer:   csr.NewIssuer(c.GetClient(), c.kube, c.options.Hosts.Namespace),
	})
	return err
}

// add adds the controllers. ctx bounds what they need of the cluster for that.
func (c *controllers) add(ctx context.Context) error {
	for _, add := range []func(context.Context) error{
		c.addSources, c.addConfiguration, c.addOperation, c.addCSR, c.addInstance, c.addKeys, c.addPolicies,
	} {
		if err := add(ctx); err != nil {
			return err
		}
	}
	promauto.With(ctrlmetrics.Registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "windows_inputs_wrong",
		Help: "Inputs of the configuration of hosts that are missing in the cluster or cannot be used. Hosts stay as they are because of them, wholly or in part. 0 where hosts are only watched.",
	}, c.inputsWrong)
	if c.desired == nil {
		return nil
	}
	if err := ctrlmetrics.Registry.Register(exporterExpiry{c.desired.ExporterExpires}); err != nil {
		return fmt.Errorf("registering the metric of the certificate of metrics: %w", err)
	}
	// Last: whoever wants to know of changes has said so by now.
	return c.Add(c.desired)
}

// inputsWrong says how many inputs are wrong.
func (c *controllers) inputsWrong() float64 {
	if c.desired == nil {
		return 0
	}
	return float64(c.desired.InputsWrong())
}

// addSources adds what makes pools and instances.
func (c *controllers) addSources(context.Context) error {
	configMaps := configMapOptions(c.options)
	configMaps.Recorder = c.recorder
	if err := configmap.SetupWithManager(c, configMaps); err != nil {
		return err
	}
	if err := machine.SetupWithManager(c, machine.Options{Recorder: c.recorder, UserDataOutdated: c.userDataOutdated}); err != nil {
		return err
	}
	o := rollout.Options{
		Disruptions: c.options.MaxDisruptiveOperations, Recorder: c.recorder, Registerer: ctrlmetrics.Registry,
		Update: c.update, Impact: c.impact, RemoveWithoutConfirmation: c.options.RemoveWithoutConfirmation,
		Keys: c.keys.Of, KeysChanged: c.keys.Changed(), Leads: c.leads,
	}
	if c.desired != nil {
		o.Retried = lifecycle.Retried
		o.Payload, o.GoesBack, o.Changed = c.desired.Payload, c.desired.GoesBack, c.desired.Changed()
	}
	c.rollout = rollout.NewScheduler(c.GetClient(), o)
	return c.rollout.SetupWithManager(c)
}

// userDataOutdated says why new Machines would not authorize the key that is in use. Where hosts are only watched nothing is
// replaced.
func (c *controllers) userDataOutdated(ctx context.Context) (string, error) {
	if c.desired == nil {
		return "the controller has no payload (--payload), and only watches hosts.", nil
	}
	return userdata.Outdated(ctx, c.GetAPIReader(), c.options.Hosts.ClusterCredentials())
}

// addConfiguration adds what decides about hosts, their Nodes and what is published of them.
func (c *controllers) addConfiguration(ctx context.Context) error {
	// Hosts that were configured before are cleaned when they go, also without a payload.
	most, _ := c.options.maxRemovals() // it was validated
	if err := lifecycle.SetupWithManager(ctx, c, lifecycle.Options{
		Managed: c.desired != nil, Recorder: c.recorder, Registerer: ctrlmetrics.Registry,
		MaxRemovals: most, RemovalWindow: c.options.RemovalWindow, RemoveWithoutConfirmation: c.options.RemoveWithoutConfirmation, Wanted: c.wanted,
		MissingNamespaceTimeout: c.options.MissingNamespaceTimeout, Leads: c.leads,
		MachineLeaving: func(ctx context.Context, instance *v1alpha1.WindowsInstance) (bool, error) {
			return machine.Leaving(ctx, c.GetClient(), instance)
		},
	}); err != nil || c.desired == nil {
		return err
	}
	release := services.Version(version.Version)
	if err := node.SetupWithManager(ctx, c, node.Options{
		Version: release, Namespace: c.options.Hosts.Namespace, Recorder: c.recorder,
		WMCOEnded: func(ctx context.Context) (bool, error) { return cluster.OtherOperatorEnded(ctx, c.GetAPIReader()) },
	}); err != nil {
		return err
	}
	if err := trustedca.SetupWithManager(c, c.options.Hosts.Namespace); err != nil {
		return err
	}
	if err := userdata.SetupWithManager(c, userdata.Options{
		Credentials: c.options.Hosts.ClusterCredentials(), Metadata: c.metadata, Recorder: c.recorder,
	}); err != nil {
		return err
	}
	return services.SetupWithManager(c, services.Options{
		Source: c.desired, Namespace: c.options.Hosts.Namespace, Version: release, Recorder: c.recorder,
	})
}

// update says whether a host is to get another configuration. Where hosts are only watched none is.
func (c *controllers) update(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, now time.Time) (due time.Time, ok bool) {
	if c.desired == nil {
		return time.Time{}, false
	}
	return lifecycle.Update(instance, pool, now)
}

// impact asks a host what that costs.
func (c *controllers) impact(ctx context.Context, instance *v1alpha1.WindowsInstance) (v1alpha1.ChangeImpact, string, error) {
	if err := c.ready(ctx); err != nil {
		return "", "", err
	}
	return (&operation.Preview{Hosts: c.hosts, Configuration: c.desired, Kube: c.kube, Labels: c.nodeLabels}).Impact(ctx, instance)
}

// nodeLabels says which labels the Node of an instance is to have.
func (c *controllers) nodeLabels(ctx context.Context, i *v1alpha1.WindowsInstance, n *corev1.Node) (map[string]string, error) {
	return node.Labels(ctx, identity.Nodes{Reader: c.GetClient(), Resolver: net.DefaultResolver, Namespace: c.options.Hosts.Namespace}, i, n)
}

// wanted says whether a source asks for the host of an instance again that was deleted. A Machine
// that is gone does not come back.
func (c *controllers) wanted(ctx context.Context, instance *v1alpha1.WindowsInstance) (bool, error) {
	return configmap.Asks(ctx, c.GetAPIReader(), configMapOptions(c.options), instance)
}

func (c *controllers) addOperation(context.Context) error {
	o := operation.Options{
		Hosts:      c.hosts,
		Ready:      c.ready,
		Kube:       c.kube,
		Recorder:   c.recorder,
		Concurrent: c.options.ConcurrentOperations,
		Policy:     c.rollout,
		Leads:      c.leads,
		Settle:     c.options.NodeSettleTime,
		Version:    services.Version(version.Version),
		Registerer: ctrlmetrics.Registry,
		Labels:     c.nodeLabels,
	}
	o.Superseded = func(ctx context.Context, instance *v1alpha1.WindowsInstance) (string, error) {
		return lifecycle.Superseded(ctx, c.GetClient(), c.wanted, instance, time.Now())
	}
	o.Adoptable = func(ctx context.Context) error { return cluster.EnsureNotComingBack(ctx, c.GetAPIReader()) }
	o.MachineAddress = func(ctx context.Context, name types.NamespacedName) (string, error) {
		return machine.AddressForWMCO(ctx, c.GetClient(), name)
	}
	o.Represented = func(ctx context.Context, i *v1alpha1.WindowsInstance) (string, error) {
		return instance.Represented(ctx, c.GetClient(), c.GetAPIReader(), i, c.options.Hosts.Namespace)
	}
	if c.desired != nil {
		o.Configuration = c.desired
	}
	return operation.SetupWithManager(c, o)
}

func (c *controllers) addCSR(context.Context) error {
	return csr.SetupWithManager(c, csr.Options{Kube: c.kube, Namespace: c.options.Hosts.Namespace, Recorder: c.recorder, Registerer: ctrlmetrics.Registry})
}

func (c *controllers) addPolicies(context.Context) error {
	return policies.SetupWithManager(c, policies.Options{Kube: c.kube, Namespace: c.options.Hosts.Namespace, Recorder: c.recorder, Registerer: ctrlmetrics.Registry})
}

func (c *controllers) addKeys(context.Context) error {
	return keys.SetupWithManager(c, keys.Options{
		Cluster: c.options.Hosts.ClusterCredentials(), ProbeTimeout: c.options.ProbeTimeout, Current: c.keys, Recorder: c.recorder, Registerer: ctrlmetrics.Registry,
	})
}

func (c *controllers) addInstance(context.Context) error {
	o := instance.Options{
		Hosts:                  c.hosts,
		Rotations:              &keys.Pacer{Client: c.GetClient(), Cluster: c.options.Hosts.ClusterCredentials(), Clock: clock.RealClock{}},
		Recorder:               c.recorder,
		Namespace:              c.options.Hosts.Namespace,
		ConcurrentProbes:       c.options.ConcurrentProbes,
		ConcurrentSlowProbes:   c.options.ConcurrentSlowProbes,
		ProbeTimeout:           c.options.ProbeTimeout,
		RecheckInterval:        c.options.RecheckInterval,
		Registerer:             ctrlmetrics.Registry,
		UpdateBlockedByChanged: c.rollout.UpdateBlockedByChanged(),
	}
	if c.desired != nil {
		o.Desired, o.Changed = c.desired, c.desired.Changed()
		o.UpdateBlockedBy = c.rollout.UpdateBlockedBy
		o.NodeSettled = func(ctx context.Context, i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, n *corev1.Node) (bool, error) {
			return node.Settled(ctx, c.GetClient(), i, pool, n)
		}
	}
	return instance.SetupWithManager(c, o) //nolint:contextcheck // what it starts ends with the manager
}
