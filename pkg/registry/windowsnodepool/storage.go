// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
)

// Storage holds the storage of the resource and of its subresource.
type Storage struct {
	Pool   *REST
	Status *StatusREST
}

// NewStorage builds the storage of WindowsNodePool. scheme knows the internal and
// the served types; optsGetter says where objects are kept.
func NewStorage(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter) (*Storage, error) {
	strategy := newStrategy(scheme)
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &windows.WindowsNodePool{} },
		NewListFunc:               func() runtime.Object { return &windows.WindowsNodePoolList{} },
		DefaultQualifiedResource:  windows.Resource("windowsnodepools"),
		SingularQualifiedResource: windows.Resource("windowsnodepool"),
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		ResetFieldsStrategy:       strategy,
		TableConvertor:            tableConvertor{},
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: optsGetter}); err != nil {
		return nil, fmt.Errorf("completing the store of windowsnodepools: %w", err)
	}
	statusStore := *store
	status := statusStrategy{strategy}
	statusStore.UpdateStrategy = status
	statusStore.ResetFieldsStrategy = status
	return &Storage{Pool: &REST{store}, Status: &StatusREST{store: &statusStore}}, nil
}

// REST serves the resource itself.
type REST struct {
	*genericregistry.Store
}

var (
	_ rest.StandardStorage    = &REST{}
	_ rest.ShortNamesProvider = &REST{}
	_ rest.CategoriesProvider = &REST{}
)

// ShortNames implements [rest.ShortNamesProvider].
func (*REST) ShortNames() []string { return []string{"wnp"} }

// Categories implements [rest.CategoriesProvider].
func (*REST) Categories() []string { return []string{"windows"} }

// StatusREST serves the subresource status.
type StatusREST struct {
	store *genericregistry.Store
}

var (
	_ rest.Patcher             = &StatusREST{}
	_ rest.TableConvertor      = &StatusREST{}
	_ rest.ResetFieldsStrategy = &StatusREST{}
)

// New implements [rest.Storage].
func (*StatusREST) New() runtime.Object { return &windows.WindowsNodePool{} }

// Destroy implements [rest.Storage]. The store is shared with [REST], which destroys it.
func (*StatusREST) Destroy() {}

// Get implements [rest.Getter]; a patch needs it.
func (r *StatusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update implements [rest.Updater]. A status is never created by updating it.
func (r *StatusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, create, update, false, options)
}

// GetResetFields implements [rest.ResetFieldsStrategy].
func (r *StatusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

// ConvertToTable implements [rest.TableConvertor].
func (r *StatusREST) ConvertToTable(ctx context.Context, obj runtime.Object, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}
