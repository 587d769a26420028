// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package userdata

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// watcher wakes the Reconciler when something has changed that it reads. It begins when there is a Machine API:
// elsewhere our account may not watch these objects, and need not. What it may not watch is noticed after interval.
type watcher struct {
	client      metadata.Interface
	credentials types.NamespacedName
	served      func(context.Context) (bool, error)
	// changed takes one event, which stands for all that have not been taken.
	changed chan event.GenericEvent
}

var (
	_ manager.Runnable               = &watcher{}
	_ manager.LeaderElectionRunnable = &watcher{}
)

// NeedLeaderElection says that only the leader keeps the Secrets.
func (w *watcher) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable. It returns when nothing of it runs any more.
func (w *watcher) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName(controllerName)
	check := func(ctx context.Context) (bool, error) {
		served, err := w.served(ctx)
		if err != nil {
			logger.Error(err, "Cannot tell whether there is a Machine API, trying again")
		}
		return served, nil
	}
	if wait.PollUntilContextCancel(ctx, interval, true, check) != nil {
		return nil // the manager ends, and so does the wait
	}
	w.wake()
	secrets, deployments := corev1.SchemeGroupVersion.WithResource("secrets"), appsv1.SchemeGroupVersion.WithResource("deployments")
	var running sync.WaitGroup
	defer running.Wait()
	for _, one := range []struct {
		resource        schema.GroupVersionResource
		namespace, name string
	}{
		{secrets, w.credentials.Namespace, w.credentials.Name},
		{secrets, wmco.MachineAPINamespace, wmco.UserDataSecret},
		{deployments, wmco.Namespace, wmco.Deployment},
	} {
		informer := metadatainformer.NewFilteredMetadataInformer(w.client, one.resource, one.namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, one.name).String()
		}).Informer()
		if err := w.follow(informer); err != nil {
			return fmt.Errorf("watching %s %s/%s: %w", one.resource.Resource, one.namespace, one.name, err)
		}
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	return nil
}

// follow has an informer wake the Reconciler.
func (w *watcher) follow(informer cache.SharedIndexInformer) error {
	if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		log.FromContext(ctx).V(2).Info("A watch for the user data of Machines has ended, and is tried again", "cause", err.Error())
	}); err != nil {
		return err
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.wake() },
		UpdateFunc: func(any, any) { w.wake() },
		DeleteFunc: func(any) { w.wake() },
	})
	return err
}

// wake never blocks.
func (w *watcher) wake() {
	select {
	case w.changed <- event.GenericEvent{Object: secret(wmco.MachineAPINamespace)}:
	default:
	}
}
