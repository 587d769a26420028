// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"context"
	"fmt"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// Storage holds the storage of the resource and of each subresource.
type Storage struct {
	Pool   *REST
	Status *base.StatusREST
	Scale  *ScaleREST
}

// Options are what the storage needs from the rest of the server.
type Options struct {
	// Scheme knows the internal and the served types.
	Scheme *runtime.Scheme
	// RESTOptionsGetter says where objects are kept.
	RESTOptionsGetter generic.RESTOptionsGetter
	// Authorizer decides what goes beyond the verb of a request: who may hand which
	// credentials to the hosts of a pool.
	Authorizer authorizer.Authorizer
	// MachineSets are what the scale of a pool reads and writes.
	MachineSets ScaleSource
	// Deleters are those who delete without being people.
	Deleters base.Deleters
	// MaxPerNamespace is how many pools a namespace may have; zero is any number.
	MaxPerNamespace int
	// Members returns the names of the instances in the namespace of a request that name a pool.
	Members func(ctx context.Context, pool string) ([]string, error)
}

// NewStorage builds the storage of WindowsNodePool and its subresources.
func NewStorage(o Options) (*Storage, error) {
	strategy := newStrategy(o.Scheme)
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
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: o.RESTOptionsGetter}); err != nil {
		return nil, fmt.Errorf("completing the store of windowsnodepools: %w", err)
	}
	return &Storage{
		Pool:   &REST{Store: store, credentials: credentialGuard{o.Authorizer}, bastion: bastionGuard{o.Authorizer}, deletion: deleteGuard{o.Deleters, o.Members}, atMost: base.AtMost[*windows.WindowsNodePool](store, o.MaxPerNamespace, o.Deleters)},
		Status: base.NewStatusREST(store, statusStrategy{strategy}),
		Scale:  &ScaleREST{pools: store, source: o.MachineSets},
	}, nil
}

// REST serves the resource itself.
type REST struct {
	*genericregistry.Store
	credentials credentialGuard
	bastion     bastionGuard
	deletion    deleteGuard
	atMost      func(ctx context.Context, pool *windows.WindowsNodePool) error
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

// Create adds the checks of how many there may be, of who may hand which credentials to the hosts of a pool, and of who may say
// through what they are reached.
func (r *REST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return r.Store.Create(ctx, obj, base.Guard(validate, r.credentials.checkCreate, r.bastion.checkCreate, r.atMost), options)
}

// Update adds the same checks, and that of what is undone. Server-side apply creates through here, too.
func (r *REST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, force bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.Store.Update(ctx, name, info, base.Guard(create, r.credentials.checkCreate, r.bastion.checkCreate, r.atMost), base.GuardUpdate(update, r.credentials.checkUpdate, r.bastion.checkUpdate, checkUndo), force, options)
}

// Delete adds the guard against deleting a pool that has hosts.
func (r *REST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return r.Store.Delete(ctx, name, base.Guard(validate, r.deletion.check), options)
}

// DeleteCollection adds the same guard.
func (r *REST) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.Store.DeleteCollection(ctx, base.Guard(validate, r.deletion.check), options, list)
}
