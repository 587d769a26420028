// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package base is what the resources of our API have in common: the answers of their
// strategies that are always the same, their subresource status, and how they are
// turned into tables. It knows no resource, and imports only the served version for
// its name.
package base

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Strategy has the answers that are the same for all resources. A resource embeds it
// and adds how an object is prepared and validated.
type Strategy struct {
	rest.DeclarativeValidation
	names.NameGenerator
}

// NewStrategy returns a Strategy that validates by what scheme knows of the types.
func NewStrategy(scheme *runtime.Scheme) Strategy {
	return Strategy{rest.DeclarativeValidation{Scheme: scheme}, names.SimpleNameGenerator}
}

// NamespaceScoped says that objects live in namespaces.
func (Strategy) NamespaceScoped() bool { return true }

// WarningsOnCreate has none.
func (Strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// WarningsOnUpdate has none.
func (Strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// Canonicalize has nothing to do.
func (Strategy) Canonicalize(runtime.Object) {}

// AllowCreateOnUpdate says that PUT does not create. Server-side apply does.
func (Strategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate says that PUT needs the resourceVersion that it replaces.
func (Strategy) AllowUnconditionalUpdate(context.Context) bool { return false }

// GetResetFields names the fields that a request to the main resource cannot set,
// so that server-side apply does not record the caller as their owner.
func (Strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields(fieldpath.MakePathOrDie("status"))
}

// StatusResetFields names the fields that a request to the status cannot set: those
// that [KeepMetadata] keeps, and the spec.
func StatusResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields(
		fieldpath.MakePathOrDie("spec"),
		fieldpath.MakePathOrDie("metadata", "labels"),
		fieldpath.MakePathOrDie("metadata", "annotations"),
		fieldpath.MakePathOrDie("metadata", "finalizers"),
		fieldpath.MakePathOrDie("metadata", "ownerReferences"),
	)
}

func resetFields(paths ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(v1alpha1.SchemeGroupVersion.String()): fieldpath.NewSet(paths...),
	}
}

// NextGeneration is the generation of a changed object: it grows with each change of
// the spec, and when deletion begins.
func NextGeneration(changed, old metav1.Object, changedSpec, oldSpec any) int64 {
	deletionStarted := old.GetDeletionTimestamp() == nil && changed.GetDeletionTimestamp() != nil
	if deletionStarted || !apiequality.Semantic.DeepEqual(oldSpec, changedSpec) {
		return old.GetGeneration() + 1
	}
	return changed.GetGeneration()
}

// KeepMetadata takes back what a request to the status says of metadata.
func KeepMetadata(changed, old metav1.Object) {
	changed.SetLabels(old.GetLabels())
	changed.SetAnnotations(old.GetAnnotations())
	changed.SetFinalizers(old.GetFinalizers())
	changed.SetOwnerReferences(old.GetOwnerReferences())
}
