// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/scale"
	scaleapi "k8s.io/client-go/scale/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/openshift/windows-instance-api/pkg/registry/windowsnodepool"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// MachineSets reads and scales MachineSets of the Machine API. It changes them through
// their own subresource scale, so that nothing but the number of replicas can change,
// and kube-apiserver records whose number it is.
type MachineSets struct {
	sets   client.Reader
	scales scale.ScalesGetter
}

var _ windowsnodepool.ScaleSource = (*MachineSets)(nil)

// machineSetResource is the resource of MachineSets.
var machineSetResource = machinev1beta1.GroupVersion.WithResource("machinesets")

// NewMachineSets makes clients for the cluster of config. There need not be a Machine
// API in it.
func NewMachineSets(config *rest.Config) (*MachineSets, error) {
	scheme := runtime.NewScheme()
	if err := machinev1beta1.Install(scheme); err != nil {
		return nil, fmt.Errorf("making the scheme: %w", err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // kube-apiserver has limits of its own that are fair to others
	// MachineSets are custom resources, which have no protobuf form.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	// The resource is known, so nothing is discovered, which would fail without a Machine API.
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{machinev1beta1.GroupVersion})
	mapper.Add(machinev1beta1.GroupVersion.WithKind("MachineSet"), meta.RESTScopeNamespace)
	sets, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("making a client for MachineSets: %w", err)
	}
	// Patches name their resource and need no resolver of kinds.
	scales, err := scale.NewForConfig(rest.CopyConfig(config), mapper, dynamic.LegacyAPIPathResolverFunc, nil)
	if err != nil {
		return nil, fmt.Errorf("making a client for their scales: %w", err)
	}
	return &MachineSets{sets: sets, scales: scales}, nil
}

// Get implements [windowsnodepool.ScaleSource].
func (m *MachineSets) Get(ctx context.Context, namespace, name string) (*scaleapi.Scale, error) {
	set, err := m.get(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	// The same as kube-apiserver does for the scale of a custom resource.
	managed, err := managedfields.NewScaleHandler(set.ManagedFields, machinev1beta1.GroupVersion, managedfields.ResourcePathMappings{
		machinev1beta1.GroupVersion.String(): fieldpath.MakePathOrDie("spec", "replicas"),
	}).ToSubresource()
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("reading whose the replicas are: %w", err))
	}
	return &scaleapi.Scale{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: set.ResourceVersion, ManagedFields: managed},
		Spec:       scaleapi.ScaleSpec{Replicas: ptr.Deref(set.Spec.Replicas, 1)}, // the default of the Machine API
		Status:     scaleapi.ScaleStatus{Replicas: set.Status.Replicas, Selector: &set.Spec.Selector},
	}, nil
}

// get returns a MachineSet of Windows. A pool may be created by everybody who may create pools
// and may name any MachineSet of its namespace; scaling it must not be a way to the
// machines of others.
func (m *MachineSets) get(ctx context.Context, namespace, name string) (*machinev1beta1.MachineSet, error) {
	set := &machinev1beta1.MachineSet{}
	if err := m.sets.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, set); err != nil {
		return nil, explainMachineSetError(name, err)
	}
	if os := set.Spec.Template.Labels[wmco.MachineOSLabel]; os != wmco.MachineOSWindows {
		return nil, apierrors.NewForbidden(machinev1beta1.Resource("machinesets"), name, fmt.Errorf(
			"its Machines are not of Windows: the label %s of its template is %q, want %q", wmco.MachineOSLabel, os, wmco.MachineOSWindows))
	}
	return set, nil
}

// Update implements [windowsnodepool.ScaleSource].
func (m *MachineSets) Update(ctx context.Context, namespace, name string, change *scaleapi.Scale, options metav1.PatchOptions) (*scaleapi.Scale, error) {
	set, err := m.get(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if err := refuseOfAnotherAPI(set, change.Spec.Replicas); err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": autoscalingv1.SchemeGroupVersion.String(),
		"kind":       "Scale",
		"metadata":   map[string]any{"name": name, "namespace": namespace, "resourceVersion": change.ResourceVersion},
		"spec":       map[string]any{"replicas": change.Spec.Replicas},
	})
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("encoding the change: %w", err))
	}
	scaled, err := m.scales.Scales(namespace).Patch(ctx, machineSetResource, name, types.MergePatchType, body, options)
	if err != nil {
		return nil, explainMachineSetError(name, err)
	}
	return &scaleapi.Scale{
		ObjectMeta: scaled.ObjectMeta,
		Spec:       scaleapi.ScaleSpec{Replicas: scaled.Spec.Replicas},
		Status:     scaleapi.ScaleStatus{Replicas: scaled.Status.Replicas, Selector: change.Status.Selector},
	}, nil
}

// refuseOfAnotherAPI is why a MachineSet of which another API has the authority is not scaled: its controller does not act on the number, and the number is
// changed back to that of the other API. Nil: the Machine API has it, as in all clusters without Cluster API. It is no conflict: ours and kubectl try
// those again.
func refuseOfAnotherAPI(set *machinev1beta1.MachineSet, replicas int32) error {
	var why string
	switch authority := set.Status.AuthoritativeAPI; authority {
	case "", machinev1beta1.MachineAuthorityMachineAPI:
		return nil
	case machinev1beta1.MachineAuthorityMigrating:
		why = "another API takes it over, or gives it back (status.authoritativeAPI is Migrating), so a number has no effect now: try again when that has ended"
	default:
		why = fmt.Sprintf("Cluster API has the authority over it (status.authoritativeAPI is %s), so a number has no effect here. Scale the MachineSet of Cluster API: "+
			"oc scale machinesets.cluster.x-k8s.io %s -n %s --replicas=%d", authority, set.Name, wmco.ClusterAPINamespace, replicas) // its copy has the same name
	}
	return apierrors.NewForbidden(machinev1beta1.Resource("machinesets"), set.Name, errors.New(why))
}

// explainMachineSetError turns an error of kube-apiserver into one that a user who scales a
// pool understands.
func explainMachineSetError(name string, err error) error {
	resource := machinev1beta1.Resource("machinesets")
	var status apierrors.APIStatus
	switch {
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		// Not the object is missing, but its resource.
		missing := apierrors.NewNotFound(resource, name)
		missing.ErrStatus.Message = "this cluster has no Machine API (" + machinev1beta1.GroupVersion.String() + "), so there is no MachineSet that could be scaled"
		return missing
	case apierrors.IsForbidden(err):
		// It is this server that may not. The user was let through.
		return apierrors.NewInternalError(fmt.Errorf("windows-apiserver lacks rights, see artifacts/rbac: %w", err))
	case errors.As(err, &status):
		return err
	default:
		return apierrors.NewServiceUnavailable(fmt.Sprintf("kube-apiserver does not answer: %v", err))
	}
}
