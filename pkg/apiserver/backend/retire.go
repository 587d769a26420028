// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/apiservice"
	"github.com/openshift/windows-instance-api/pkg/notfound"
)

// retireInterval is between attempts to delete the APIService.
const retireInterval = time.Second

// RetireWithNamespace deletes our APIService as soon as our own namespace is being deleted.
// Our Service, our account and this process go with the namespace, in any order, and while there
// is an APIService that nobody answers for, neither that namespace nor any other one can end.
// It returns when the handler is added; what it starts ends with ctx.
func RetireWithNamespace(ctx context.Context, namespaces cache.SharedInformer, client dynamic.Interface, own string) error {
	deleted := make(chan struct{}, 1)
	check := func(obj any) {
		if namespace, ok := obj.(*corev1.Namespace); ok && namespace.Name == own && namespace.DeletionTimestamp != nil {
			select {
			case deleted <- struct{}{}:
			default: // it is known already
			}
		}
	}
	if _, err := namespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: check, UpdateFunc: func(_, obj any) { check(obj) },
	}); err != nil {
		return fmt.Errorf("watching namespace %s: %w", own, err)
	}
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-deleted:
		}
		klog.InfoS("Our namespace is being deleted: deleting our APIService, so that no namespace waits for it", "namespace", own, "apiService", apiservice.Name)
		retire := func(ctx context.Context) (bool, error) {
			err := deleteAPIService(ctx, client, own)
			if err != nil {
				klog.ErrorS(err, "Deleting our APIService; trying again", "apiService", apiservice.Name)
			}
			return err == nil, nil
		}
		if err := wait.PollUntilContextCancel(ctx, retireInterval, true, retire); err != nil {
			klog.ErrorS(err, "Our APIService was not deleted: delete it by hand, or namespaces stay in Terminating", "apiService", apiservice.Name)
		}
	}()
	return nil
}

// deleteAPIService deletes our APIService, unless it leads to an installation elsewhere.
func deleteAPIService(ctx context.Context, client dynamic.Interface, own string) error {
	services := client.Resource(apiservice.Resource)
	service, err := services.Get(ctx, apiservice.Name, metav1.GetOptions{})
	if notfound.Object(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if apiservice.Namespace(service) != own {
		return nil
	}
	uid := service.GetUID()
	err = services.Delete(ctx, apiservice.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if notfound.Object(err) || apierrors.IsConflict(err) {
		return nil // it is gone, or another one
	}
	return err
}
