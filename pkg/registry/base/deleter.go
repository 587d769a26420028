// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package base

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// User names of kube-controller-manager, which deletes on behalf of the cluster: those of its
// service accounts with --use-service-account-credentials, and the one that all of it has without.
var (
	garbageCollector    = serviceaccount.MakeUsername("kube-system", "generic-garbage-collector")
	namespaceController = serviceaccount.MakeUsername("kube-system", "namespace-controller")
)

const controllerManager = "system:kube-controller-manager"

// Deleters knows those who delete without being people.
type Deleters struct {
	// Controllers are the user names of our controller.
	Controllers []string
	// NamespaceDeleted returns since when a namespace is being deleted, or a time long ago if there is
	// none. Zero: it stays.
	NamespaceDeleted func(ctx context.Context, namespace string) (time.Time, error)
}

// Controller says whether our controller makes the request.
func (d Deleters) Controller(ctx context.Context) bool { return userIs(ctx, d.Controllers...) }

// Cluster says whether garbage collection or the deletion of a namespace makes the request.
func (d Deleters) Cluster(ctx context.Context) bool {
	return userIs(ctx, garbageCollector, namespaceController, controllerManager)
}

// EndOfNamespace returns since when a namespace is being deleted, if the request is part of
// that, or one of our controller, which ends what a namespace has left that is gone. Zero: it is not.
func (d Deleters) EndOfNamespace(ctx context.Context, namespace string) (time.Time, error) {
	if d.NamespaceDeleted == nil || !d.Controller(ctx) && !userIs(ctx, namespaceController, controllerManager) {
		return time.Time{}, nil
	}
	since, err := d.NamespaceDeleted(ctx, namespace)
	if err != nil {
		return time.Time{}, apierrors.NewInternalError(fmt.Errorf("reading whether namespace %s is being deleted: %w", namespace, err))
	}
	return since, nil
}

func userIs(ctx context.Context, names ...string) bool {
	user, ok := genericapirequest.UserFrom(ctx)
	return ok && slices.Contains(names, user.GetName())
}
