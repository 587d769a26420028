// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package windowsnodepool serves WindowsNodePool: the stored object with its rules
// and the table that kubectl prints. It must not import any controller.
package windowsnodepool

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/validation"
)

// poolStrategy holds the rules of the main resource.
type poolStrategy struct {
	rest.DeclarativeValidation
	names.NameGenerator
}

var (
	_ rest.RESTCreateStrategy = poolStrategy{}
	_ rest.RESTUpdateStrategy = poolStrategy{}
	_ rest.RESTDeleteStrategy = poolStrategy{}
)

func newStrategy(scheme *runtime.Scheme) poolStrategy {
	return poolStrategy{rest.DeclarativeValidation{Scheme: scheme}, names.SimpleNameGenerator}
}

func (poolStrategy) NamespaceScoped() bool { return true }

// GetResetFields names the fields that a request to the main resource cannot set,
// so that server-side apply does not record the caller as their owner.
func (poolStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(v1alpha1.SchemeGroupVersion.String()): fieldpath.NewSet(fieldpath.MakePathOrDie("status")),
	}
}

func (poolStrategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	pool := obj.(*windows.WindowsNodePool)
	pool.Status = windows.WindowsNodePoolStatus{}
	pool.Generation = 1
}

func (poolStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	newPool, oldPool := obj.(*windows.WindowsNodePool), old.(*windows.WindowsNodePool)
	newPool.Status = oldPool.Status
	deletionStarted := oldPool.DeletionTimestamp == nil && newPool.DeletionTimestamp != nil
	if deletionStarted || !apiequality.Semantic.DeepEqual(oldPool.Spec, newPool.Spec) {
		newPool.Generation = oldPool.Generation + 1
	}
}

func (poolStrategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return validation.ValidateWindowsNodePool(obj.(*windows.WindowsNodePool))
}

func (poolStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validation.ValidateWindowsNodePoolUpdate(obj.(*windows.WindowsNodePool), old.(*windows.WindowsNodePool))
}

func (poolStrategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (poolStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (poolStrategy) Canonicalize(runtime.Object) {}

func (poolStrategy) AllowCreateOnUpdate(context.Context) bool { return false }

func (poolStrategy) AllowUnconditionalUpdate(context.Context) bool { return false }

// statusStrategy holds the rules of the subresource status: the spec cannot be
// changed through it.
type statusStrategy struct{ poolStrategy }

// GetResetFields names the fields that a request to the status cannot set.
func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(v1alpha1.SchemeGroupVersion.String()): fieldpath.NewSet(
			fieldpath.MakePathOrDie("spec"),
			fieldpath.MakePathOrDie("metadata", "labels"),
			fieldpath.MakePathOrDie("metadata", "annotations"),
			fieldpath.MakePathOrDie("metadata", "finalizers"),
			fieldpath.MakePathOrDie("metadata", "ownerReferences"),
		),
	}
}

func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	newPool, oldPool := obj.(*windows.WindowsNodePool), old.(*windows.WindowsNodePool)
	newPool.Spec = oldPool.Spec
	newPool.Labels = oldPool.Labels
	newPool.Annotations = oldPool.Annotations
	newPool.Finalizers = oldPool.Finalizers
	newPool.OwnerReferences = oldPool.OwnerReferences
}

func (statusStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validation.ValidateWindowsNodePoolStatusUpdate(obj.(*windows.WindowsNodePool), old.(*windows.WindowsNodePool))
}
