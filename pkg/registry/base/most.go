// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package base

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
)

// AtMost returns a check of creations that refuses what would be more than most objects in a namespace;
// zero allows any number. A ResourceQuota does not count objects of aggregated API servers. It counts those
// of the watch cache, so that a few more may come in at one time. Our controller is not limited: it makes
// those that its sources have.
func AtMost[T runtime.Object](store *genericregistry.Store, most int, controllers Deleters) func(ctx context.Context, obj T) error {
	return func(ctx context.Context, obj T) error {
		if most == 0 || controllers.Controller(ctx) {
			return nil
		}
		list, err := store.List(ctx, &metainternalversion.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("counting the objects of the namespace: %w", err))
		}
		if meta.LenList(list) < most {
			return nil
		}
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		resource := store.DefaultQualifiedResource
		return apierrors.NewForbidden(resource, accessor.GetName(), fmt.Errorf(
			"namespace %s has as many %s as it may have, %d; delete those that are not needed, use another namespace, or raise --max-objects-per-namespace of windows-apiserver",
			genericapirequest.NamespaceValue(ctx), resource.Resource, most))
	}
}
