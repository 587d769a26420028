// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"errors"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// configurations knows what hosts shall be like, for dry runs. It reads the cluster each
// time: dry runs are rare, and an answer of a minute ago would be a wrong one.
type configurations struct {
	cluster  client.Reader
	own      versioned.Interface
	settings cluster.Settings
}

// newConfigurations makes what reads the cluster that config is about.
func newConfigurations(config *rest.Config, own versioned.Interface, settings cluster.Settings) (*configurations, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, configv1.Install} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("making the scheme: %w", err)
		}
	}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client for the cluster: %w", err)
	}
	return &configurations{cluster: reader, own: own, settings: settings}, nil
}

// of returns what the host of an instance shall be like. joins says that it is no node yet,
// and will get credentials to join, which a dry run does not issue.
func (c *configurations) of(ctx context.Context, instance *v1alpha1.WindowsInstance) (bundle *config.Bundle, joins bool, err error) {
	if openShift, err := cluster.IsOpenShift(ctx, c.cluster); err != nil || openShift {
		return nil, false, err // the controller puts nothing but the agent on these hosts
	}
	inputs, err := cluster.Read(ctx, c.cluster, c.settings)
	if err != nil {
		return nil, false, err
	}
	host := cluster.Host{Instance: instance}
	if ref := instance.Spec.PoolRef; ref != nil {
		host.Pool, err = c.own.WindowsV1alpha1().WindowsNodePools(instance.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			host.Pool, err = nil, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("reading pool %s: %w", ref.Name, err)
		}
	}
	if ref := instance.Status.Node; ref != nil {
		node := &corev1.Node{}
		switch err := c.cluster.Get(ctx, client.ObjectKey{Name: ref.Name}, node); {
		case err == nil && node.UID == ref.UID:
			host.Node = node
		case client.IgnoreNotFound(err) != nil:
			return nil, false, fmt.Errorf("reading Node %s: %w", ref.Name, err)
		}
	}
	result, err := inputs.Build(host)
	if err != nil {
		return nil, false, err
	}
	return &result.Bundle, host.Node == nil, nil
}

// Plan implements [windowsinstance.Planner].
func (h hosts) Plan(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error) {
	var bundle *config.Bundle
	joins := false
	if h.configurations != nil {
		var err error
		if bundle, joins, err = h.configurations.of(ctx, instance); err != nil {
			return nil, unplannable(instance.Name, err)
		}
	}
	changes, err := h.access.Plan(ctx, instance, bundle)
	if err != nil {
		return nil, host.StatusError(instance.Name, err)
	}
	if joins {
		changes = append(changes, v1alpha1.PlannedChange{
			Kind: "File", Name: wmco.BootstrapKubeconfigPath, Action: "Create", Impact: v1alpha1.ImpactNone,
			Message: "The host is no node yet: it gets credentials to join with, which are made for it at that time and are good for an hour at most.",
		})
	}
	return changes, nil
}

// unplannable is the error about a host of which nobody can say what it shall be like.
func unplannable(name string, err error) error {
	var missing *cluster.InputError
	if errors.As(err, &missing) {
		return apierrors.NewConflict(v1alpha1.Resource("windowsinstances"), name, missing)
	}
	if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("what the host %s shall be like cannot be found out: %v", name, err))
	}
	return apierrors.NewConflict(v1alpha1.Resource("windowsinstances"), name, fmt.Errorf("what it shall be like is not possible: %w", err))
}
