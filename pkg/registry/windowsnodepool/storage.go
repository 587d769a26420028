// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// Storage holds the storage of the resource and of its subresource.
type Storage struct {
	Pool   *REST
	Status *base.StatusREST
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
	return &Storage{Pool: &REST{store}, Status: base.NewStatusREST(store, statusStrategy{strategy})}, nil
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
