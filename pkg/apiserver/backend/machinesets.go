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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/openshift/windows-instance-api/pkg/registry/windowsnodepool"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// MachineSets reads and scales MachineSets of the Machine API. It changes them through
// their own subresource scale, so that nothing but the number of replicas can change,
// and kube-apiserver records whose number it is.
type MachineSets struct {
	client rest.Interface
}

var _ windowsnodepool.ScaleSource = (*MachineSets)(nil)

// NewMachineSets makes a client for the cluster of config. There need not be a Machine
// API in it.
func NewMachineSets(config *rest.Config) (*MachineSets, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{machinev1beta1.Install, autoscalingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config = rest.CopyConfig(config)
	config.QPS = -1 // kube-apiserver has limits of its own that are fair to others
	config.APIPath = "/apis"
	config.GroupVersion = &machinev1beta1.GroupVersion
	// MachineSets are custom resources, which have no protobuf form.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &MachineSets{client}, nil
}

// Get implements [windowsnodepool.ScaleSource].
func (m *MachineSets) Get(ctx context.Context, namespace, name string) (*windowsnodepool.MachineSetScale, error) {
	set, err := m.get(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	// The same as kube-apiserver makes of a custom resource when it is asked for its scale.
	managed, err := managedfields.NewScaleHandler(set.ManagedFields, machinev1beta1.GroupVersion, managedfields.ResourcePathMappings{
		machinev1beta1.GroupVersion.String(): fieldpath.MakePathOrDie("spec", "replicas"),
	}).ToSubresource()
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("reading whose the replicas are: %w", err))
	}
	// The Machine API takes no number for one.
	replicas := int32(1)
	if set.Spec.Replicas != nil {
		replicas = *set.Spec.Replicas
	}
	return &windowsnodepool.MachineSetScale{
		ResourceVersion: set.ResourceVersion,
		Replicas:        replicas,
		CurrentReplicas: set.Status.Replicas,
		Selector:        &set.Spec.Selector,
		ManagedFields:   managed,
	}, nil
}

// get returns a MachineSet of Windows. A pool may be made by anybody who may make pools
// and may name any MachineSet of its namespace; scaling it must not be a way to the
// machines of others.
func (m *MachineSets) get(ctx context.Context, namespace, name string) (*machinev1beta1.MachineSet, error) {
	set := &machinev1beta1.MachineSet{}
	err := m.client.Get().Namespace(namespace).Resource("machinesets").Name(name).Do(ctx).Into(set)
	if err != nil {
		return nil, explainMachineSetError(name, err)
	}
	if os := set.Spec.Template.Labels[wmco.MachineOSLabel]; os != wmco.MachineOSWindows {
		return nil, apierrors.NewForbidden(machinev1beta1.Resource("machinesets"), name, fmt.Errorf(
			"its Machines are not of Windows: the label %s of its template is %q, want %q", wmco.MachineOSLabel, os, wmco.MachineOSWindows))
	}
	return set, nil
}

// Update implements [windowsnodepool.ScaleSource].
func (m *MachineSets) Update(ctx context.Context, namespace, name string, current *windowsnodepool.MachineSetScale, change windowsnodepool.ScaleChange) (*windowsnodepool.MachineSetScale, error) {
	body, err := json.Marshal(map[string]any{
		"apiVersion": autoscalingv1.SchemeGroupVersion.String(),
		"kind":       "Scale",
		"metadata":   map[string]any{"name": name, "namespace": namespace, "resourceVersion": current.ResourceVersion},
		"spec":       map[string]any{"replicas": change.Replicas},
	})
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("encoding the change: %w", err))
	}
	options := &metav1.PatchOptions{FieldManager: change.FieldManager, DryRun: change.DryRun}
	scale := &autoscalingv1.Scale{}
	err = m.client.Patch(types.MergePatchType).Namespace(namespace).Resource("machinesets").Name(name).SubResource("scale").
		VersionedParams(options, metav1.ParameterCodec).Body(body).Do(ctx).Into(scale)
	if err != nil {
		return nil, explainMachineSetError(name, err)
	}
	return &windowsnodepool.MachineSetScale{
		ResourceVersion: scale.ResourceVersion,
		Replicas:        scale.Spec.Replicas,
		CurrentReplicas: scale.Status.Replicas,
		Selector:        current.Selector,
		ManagedFields:   scale.ManagedFields,
	}, nil
}

// explainMachineSetError says what an error of kube-apiserver means to somebody who
// scales a pool.
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
