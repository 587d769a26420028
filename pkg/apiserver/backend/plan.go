// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// NewDesired returns what reads the desired configuration of hosts from the cluster of
// config, and pools with readPool.
func NewDesired(config *rest.Config, readPool PoolReader, settings cluster.Settings) (*cluster.Live, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cluster.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("making the scheme: %w", err)
		}
	}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client for the cluster: %w", err)
	}
	settings.ServerVersion = cluster.ServerVersion(config)
	return &cluster.Live{Cluster: reader, ReadPool: readPool, Settings: settings}, nil
}

// Plan implements [windowsinstance.Planner].
func (h *Hosts) Plan(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error) {
	var bundle *config.Bundle
	joins := false
	if h.desired != nil {
		result, unjoined, err := h.desired.Build(ctx, instance)
		if err != nil {
			return nil, unplannable(instance.Name, err)
		}
		if result != nil {
			bundle, joins = &result.Bundle, unjoined
		}
	}
	planned, err := h.agents.Plan(ctx, instance, bundle)
	changes, err := answer(instance, planned, err)
	if err != nil {
		return nil, err
	}
	if joins {
		changes = append(changes, v1alpha1.PlannedChange{
			Kind: "File", Name: wmco.BootstrapKubeconfigPath, Action: "Create", Impact: v1alpha1.ImpactNone,
			Message: "The host is no node yet: it gets credentials to join with, which are created for it then and are valid for an hour at most.",
		})
	}
	return changes, nil
}

// Adoptable implements [windowsinstance.Adopter].
func (h *Hosts) Adoptable(ctx context.Context, instance *v1alpha1.WindowsInstance) error {
	if h.desired == nil {
		return nil // without a payload nothing is read of the cluster here; the controller asks that, too, when it takes the host over
	}
	if err := h.desired.Adoptable(ctx, instance); err != nil {
		return unplannable(instance.Name, err)
	}
	return nil
}

// PlanAdoption implements [windowsinstance.Adopter].
func (h *Hosts) PlanAdoption(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error) {
	if h.desired == nil {
		changes, err := h.Plan(ctx, instance)
		if err != nil {
			return nil, err
		}
		return slices.Concat([]v1alpha1.PlannedChange{ofAdoption(nil)}, changes), nil
	}
	if instance.Status.Node == nil {
		return nil, apierrors.NewConflict(v1alpha1.Resource("windowsinstances"), instance.Name, agentclient.ErrNothingToAdopt)
	}
	// What the update takes away depends on that the host has a configuration by then. The version of WMCO only tells one that was adopted before.
	adopted := instance.DeepCopy()
	adopted.Status.CurrentRevision = wmco.AdoptedRevision("")
	built, _, err := h.desired.Build(ctx, adopted)
	if err != nil {
		return nil, unplannable(instance.Name, err)
	}
	planned, err := h.agents.PlanUpdateOfAdopted(ctx, instance, built.Adoption(instance.Status.Node.Name, ""))
	if refused := unadoptable(instance.Name, err); refused != nil {
		return nil, refused
	}
	changes, err := answer(instance, planned, err)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]v1alpha1.PlannedChange{ofAdoption(built.Warnings)}, changes), nil
}

// unadoptable is the error about a host that has answered that it cannot be adopted, so that trying again does not help. Nil: it has not.
func unadoptable(name string, err error) error {
	if refused := agentclient.AdoptionRefused(err); refused != nil {
		return apierrors.NewConflict(v1alpha1.Resource("windowsinstances"), name, refused)
	}
	return nil
}

// ofAdoption is what an adoption itself changes. It says what there is to know of the update that follows.
func ofAdoption(warnings []string) v1alpha1.PlannedChange {
	text := "Now: the WMCO daemon is removed and Windows starts the services; nothing else changes. The changes below, and the removal of what WMCO left, wait for the next update."
	if len(warnings) > 0 {
		text += " Warnings: " + strings.Join(warnings, "; ") + "."
	}
	return v1alpha1.PlannedChange{Kind: string(api.KindService), Name: wmco.WICDService, Action: string(api.ActionDelete), Impact: v1alpha1.ImpactNone, Message: text}
}

// unplannable is the error about a host whose desired configuration cannot be built.
func unplannable(name string, err error) error {
	if missing, ok := errors.AsType[*cluster.InputError](err); ok {
		return apierrors.NewConflict(v1alpha1.Resource("windowsinstances"), name, missing)
	}
	if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown || isUnanswered(err) {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("the desired configuration of the host %s cannot be read: %v", name, err))
	}
	return apierrors.NewConflict(v1alpha1.Resource("windowsinstances"), name, fmt.Errorf("its desired configuration is not possible: %w", err))
}

// isUnanswered says whether the API server of the cluster was asked, and has not answered.
func isUnanswered(err error) bool {
	_, network := errors.AsType[net.Error](err) // so is a [*url.Error], whatever is behind it
	return network || errors.Is(err, context.Canceled)
}
