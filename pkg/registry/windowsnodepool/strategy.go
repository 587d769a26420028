// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package windowsnodepool serves WindowsNodePool: the stored object with its rules
// and the table that kubectl prints. It must not import any controller.
package windowsnodepool

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/validation"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// poolStrategy holds the rules of the main resource.
type poolStrategy struct{ base.Strategy }

var (
	_ rest.RESTCreateStrategy = poolStrategy{}
	_ rest.RESTUpdateStrategy = poolStrategy{}
	_ rest.RESTDeleteStrategy = poolStrategy{}
)

func newStrategy(scheme *runtime.Scheme) poolStrategy {
	return poolStrategy{base.NewStrategy(scheme)}
}

func (poolStrategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	pool := obj.(*windows.WindowsNodePool)
	pool.Status = windows.WindowsNodePoolStatus{}
	recordUndo(ctx, pool, &windows.WindowsNodePool{}, time.Now())
	pool.Generation = 1
}

func (poolStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	newPool, oldPool := obj.(*windows.WindowsNodePool), old.(*windows.WindowsNodePool)
	newPool.Status = oldPool.Status
	recordUndo(ctx, newPool, oldPool, time.Now())
	newPool.Generation = base.NextGeneration(newPool, oldPool, specOf(newPool), specOf(oldPool))
}

// specOf is what the generation counts the changes of. No taints are something else than the
// default taint, but equal to it in a comparison that takes an empty list for none.
func specOf(pool *windows.WindowsNodePool) any {
	return struct {
		Spec          windows.WindowsNodePoolSpec
		DefaultTaints bool
	}{pool.Spec, pool.Spec.Template.NodeTaints == nil}
}

func (poolStrategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	pool := obj.(*windows.WindowsNodePool)
	return append(validation.ValidateWindowsNodePool(pool), validateResumed(pool, &windows.WindowsNodePool{}, time.Now())...)
}

func (poolStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	newPool, oldPool := obj.(*windows.WindowsNodePool), old.(*windows.WindowsNodePool)
	return append(validation.ValidateWindowsNodePoolUpdate(newPool, oldPool), validateResumed(newPool, oldPool, time.Now())...)
}

// statusStrategy holds the rules of the subresource status: the spec cannot be
// changed through it.
type statusStrategy struct{ poolStrategy }

// GetResetFields names the fields that a request to the status cannot set.
func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return base.StatusResetFields()
}

func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	newPool, oldPool := obj.(*windows.WindowsNodePool), old.(*windows.WindowsNodePool)
	newPool.Spec = oldPool.Spec
	base.KeepMetadata(newPool, oldPool)
}

func (statusStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validation.ValidateWindowsNodePoolStatusUpdate(obj.(*windows.WindowsNodePool), old.(*windows.WindowsNodePool))
}
