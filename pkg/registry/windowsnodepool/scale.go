// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"context"
	"errors"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	scaleapi "k8s.io/client-go/scale/scheme"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// ScaleSource reads and writes the replicas of MachineSets. Its errors are
// [apierrors.StatusError]s that speak of the MachineSet: NotFound, also where there is
// no Machine API at all, Conflict where the resourceVersion has passed, Forbidden where
// the MachineSet is none of ours to scale, or another API has the authority over it.
type ScaleSource interface {
	// Get returns the scale of the MachineSet. Of its metadata only the resourceVersion and
	// the managed fields, which say who set the replicas, are used.
	Get(ctx context.Context, namespace, machineSet string) (*scaleapi.Scale, error)
	// Update sets the replicas of the MachineSet to those of scale if it still has the
	// resourceVersion of scale, and returns its scale then.
	Update(ctx context.Context, namespace, machineSet string, scale *scaleapi.Scale, options metav1.PatchOptions) (*scaleapi.Scale, error)
}

// ScaleREST serves the subresource scale. It stores nothing: the MachineSet behind the
// pool is the one authority on how many hosts there are to be, so that kubectl scale,
// autoscalers and whoever edits the MachineSet agree.
//
// The resourceVersion of a Scale is that of the MachineSet, so that a change based on
// an old number is refused; the UID is that of the pool.
type ScaleREST struct {
	pools  rest.Getter
	source ScaleSource
}

var (
	_ rest.Patcher                  = &ScaleREST{}
	_ rest.GroupVersionKindProvider = &ScaleREST{}
	_ rest.TableConvertor           = &ScaleREST{}
)

// New implements [rest.Storage].
func (*ScaleREST) New() runtime.Object { return &scaleapi.Scale{} }

// Destroy implements [rest.Storage]. The store is shared with [REST], which destroys it.
func (*ScaleREST) Destroy() {}

// GroupVersionKind implements [rest.GroupVersionKindProvider]: discovery names it, by
// which clients find out that pools can be scaled.
func (*ScaleREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return autoscalingv1.SchemeGroupVersion.WithKind("Scale")
}

// Get implements [rest.Getter].
func (r *ScaleREST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	pool, machineSet, err := r.machineSet(ctx, name, "get")
	if err != nil {
		return nil, err
	}
	current, err := r.source.Get(ctx, pool.Namespace, machineSet)
	if err != nil {
		return nil, sourceError(pool, machineSet, err)
	}
	return scaleOf(pool, current), nil
}

// maxScaleAttempts bounds how often a change that was not based on any
// resourceVersion is tried again when somebody else changes the MachineSet.
const maxScaleAttempts = 5

// Update implements [rest.Updater]; patches come here too. The handler of patches
// allows creation for server-side apply, and for nothing else.
func (r *ScaleREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, validate rest.ValidateObjectUpdateFunc, apply bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	pool, machineSet, err := r.machineSet(ctx, name, "update")
	if err != nil {
		return nil, false, err
	}
	for attempt := 1; ; attempt++ {
		current, err := r.source.Get(ctx, pool.Namespace, machineSet)
		if err != nil {
			return nil, false, sourceError(pool, machineSet, err)
		}
		scale := scaleOf(pool, current)
		if apply {
			takeForApplied(scale.ManagedFields, options.FieldManager)
		}
		wanted, err := wantedScale(ctx, info, scale, validate)
		if err != nil {
			return nil, false, err
		}
		current.Spec.Replicas = wanted.Spec.Replicas
		updated, err := r.source.Update(ctx, pool.Namespace, machineSet, current, metav1.PatchOptions{
			FieldManager: fieldManager(options, wanted), DryRun: options.DryRun,
		})
		// A request with a resourceVersion of its own does not get past wantedScale again.
		if apierrors.IsConflict(err) && attempt < maxScaleAttempts {
			continue
		}
		if err != nil {
			return nil, false, sourceError(pool, machineSet, err)
		}
		return scaleOf(pool, updated), false, nil
	}
}

// ConvertToTable implements [rest.TableConvertor].
func (*ScaleREST) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return base.Table(obj, options, scaleColumns, func(scale *scaleapi.Scale, name, age string) []any {
		return []any{name, int64(scale.Spec.Replicas), int64(scale.Status.Replicas), age}
	})
}

var scaleColumns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the pool."},
	{Name: "Desired", Type: "integer", Description: "Desired number of Machines of the MachineSet."},
	{Name: "Current", Type: "integer", Description: "Number of Machines that exist."},
	{Name: "Age", Type: "string", Description: "Time since the pool was created."},
}

// machineSet returns a pool and the name of the MachineSet behind it. Other sources
// have no number that could be set: 405 says what to do instead.
func (r *ScaleREST) machineSet(ctx context.Context, name, action string) (*windows.WindowsNodePool, string, error) {
	obj, err := r.pools.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, "", err
	}
	pool, err := base.As[*windows.WindowsNodePool](obj)
	if err != nil {
		return nil, "", err
	}
	source := &pool.Spec.Source
	if source.MachineSet != nil {
		return pool, source.MachineSet.Name, nil
	}
	why := "its hosts are WindowsInstances created by hand: create or delete those that name the pool in spec.poolRef"
	if source.ConfigMap != nil {
		why = fmt.Sprintf("its hosts are the entries of ConfigMap %s/%s: add or remove entries there", pool.Namespace, source.ConfigMap.Name)
	}
	status := apierrors.NewMethodNotSupported(scaleResource, action)
	status.ErrStatus.Message = fmt.Sprintf("WindowsNodePool %q cannot be scaled: %s", name, why)
	return nil, "", status
}

// scaleResource is how errors name what cannot be done.
var scaleResource = windows.Resource("windowsnodepools/scale")

// scaleOf is the Scale of a pool. Without a UID, a patch would take it for one that
// does not exist.
func scaleOf(pool *windows.WindowsNodePool, machineSet *scaleapi.Scale) *scaleapi.Scale {
	scale := machineSet.DeepCopy()
	scale.ObjectMeta = metav1.ObjectMeta{
		Name:              pool.Name,
		Namespace:         pool.Namespace,
		UID:               pool.UID,
		CreationTimestamp: pool.CreationTimestamp,
		ResourceVersion:   scale.ResourceVersion,
		ManagedFields:     scale.ManagedFields,
	}
	return scale
}

// wantedScale returns the Scale that a request makes of the current one, or why it is refused.
func wantedScale(ctx context.Context, info rest.UpdatedObjectInfo, current *scaleapi.Scale, validate rest.ValidateObjectUpdateFunc) (*scaleapi.Scale, error) {
	if p := info.Preconditions(); p != nil && p.UID != nil && *p.UID != current.UID {
		return nil, apierrors.NewConflict(scaleResource, current.Name, fmt.Errorf(
			"the request is about the pool with UID %s, and the UID of this one is %s", *p.UID, current.UID))
	}
	obj, err := info.UpdatedObject(ctx, current)
	if err != nil {
		return nil, err
	}
	wanted, err := base.As[*scaleapi.Scale](obj)
	if err != nil {
		return nil, err
	}
	if wanted.ResourceVersion != "" && wanted.ResourceVersion != current.ResourceVersion {
		return nil, apierrors.NewConflict(scaleResource, current.Name, fmt.Errorf(
			"the MachineSet behind the pool has been changed; apply your change to the latest version and try again"))
	}
	if wanted.Spec.Replicas < 0 {
		return nil, apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), current.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), wanted.Spec.Replicas, "must be greater than or equal to 0"),
		})
	}
	if validate != nil {
		if err := validate(ctx, wanted.DeepCopy(), current.DeepCopy()); err != nil {
			return nil, err
		}
	}
	return wanted, nil
}

// takeForApplied lets a field manager that applies a Scale own what it has set before.
// kube-apiserver takes no server-side apply for the scale of a custom resource, so that
// what was applied here is recorded as an update; its manager would be in conflict with
// itself the next time.
func takeForApplied(entries []metav1.ManagedFieldsEntry, manager string) {
	for i := range entries {
		if entries[i].Manager == manager && entries[i].Subresource == "scale" {
			entries[i].Operation = metav1.ManagedFieldsOperationApply
		}
	}
}

// fieldManager is who makes a change. Clients that do not say so are named after their program:
// the last that set the replicas of the wanted Scale.
func fieldManager(options *metav1.UpdateOptions, wanted *scaleapi.Scale) string {
	if options.FieldManager != "" || len(wanted.ManagedFields) == 0 {
		return options.FieldManager
	}
	last := wanted.ManagedFields[0]
	for _, entry := range wanted.ManagedFields[1:] {
		if last.Time.Before(entry.Time) {
			last = entry
		}
	}
	return last.Manager
}

// sourceError says of an error about a MachineSet which pool it is about.
func sourceError(pool *windows.WindowsNodePool, machineSet string, err error) error {
	about := fmt.Sprintf("scaling WindowsNodePool %q by MachineSet %s/%s", pool.Name, pool.Namespace, machineSet)
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("%s: %w", about, err))
	}
	changed := status.ErrStatus
	changed.Message = about + ": " + changed.Message
	return &apierrors.StatusError{ErrStatus: changed}
}
