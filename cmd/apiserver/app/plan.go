// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"errors"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
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

// newConfigurations makes what reads the cluster that config is about.
func newConfigurations(config *rest.Config, own versioned.Interface, settings cluster.Settings) (*cluster.Live, error) {
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
	return &cluster.Live{Cluster: reader, ReadPool: poolReader(own), Settings: settings}, nil
}

// Plan implements [windowsinstance.Planner].
func (h hosts) Plan(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error) {
	var bundle *config.Bundle
	joins := false
	if h.configurations != nil {
		desired, unjoined, err := h.configurations.Build(ctx, instance)
		if err != nil {
			return nil, unplannable(instance.Name, err)
		}
		if desired != nil {
			bundle, joins = &desired.Bundle, unjoined
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
