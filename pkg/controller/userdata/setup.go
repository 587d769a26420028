// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package userdata

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
)

// controllerName names the controller in logs and metrics.
const controllerName = "windows-user-data"

// SetupWithManager adds the controller to mgr, whose scheme must know config.openshift.io/v1. It is for a
// controller that configures hosts.
//
// RBAC it needs, all of it by name:
//
//	config.openshift.io   infrastructures   get                           in the cluster
//	machineconfiguration.openshift.io controllerconfigs get               in the cluster
//	""                    namespaces        get                           in the cluster
//	""                    nodes             list                          in the cluster
//	""                    secrets           get list watch                that of the credentials
//	""                    secrets           get                           windows-keys-in-use beside that
//	""                    secrets           get list watch patch create   windows-user-data in openshift-machine-api
//	""                    secrets           get patch create              windows-user-data in openshift-cluster-api, if there is one
//	apps                  deployments       get list watch                that of WMCO
//	""                    events            create patch                  in the namespaces of windows-user-data
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	r := &Reconciler{
		live:        mgr.GetAPIReader(),
		client:      mgr.GetClient(),
		recorder:    o.Recorder,
		problems:    message.NewReporter(o.Recorder, mgr.GetScheme()),
		credentials: o.Credentials,
	}
	w := &watcher{client: o.Metadata, credentials: o.Credentials, served: r.served, changed: make(chan event.GenericEvent, 1)}
	if err := mgr.Add(w); err != nil {
		return fmt.Errorf("adding the watches of the controller of user data: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		WatchesRawSource(source.Channel(w.changed, &handler.EnqueueRequestForObject{})).
		WithOptions(watch.Options(1)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller of user data: %w", err)
	}
	return nil
}
