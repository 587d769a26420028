// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package trustedca keeps the ConfigMap by which hosts on OpenShift come to the authorities that the cluster trusts:
// OpenShift writes them into each ConfigMap with a certain label. Elsewhere it does nothing: there the ConfigMap
// belongs to people.
//
// The package must not import another controller, nor the packages that serve the API, nor
// those that speak to hosts.
package trustedca

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
)

const (
	// controllerName names the controller in logs and metrics.
	controllerName = "windows-trusted-ca"
	// interval is how often it is checked whether the cluster is one of OpenShift, as long as it seems to be none: one that has lost its
	// Infrastructure gets it back.
	interval = 10 * time.Minute
)

// Reconciler makes the ConfigMap. There is only one, so what a request says does not matter.
type Reconciler struct {
	// live reads from the API server: it happens rarely.
	live   client.Reader
	client client.Client
	// namespace is that of the operator.
	namespace string
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// SetupWithManager adds the controller to mgr, whose scheme must know config.openshift.io/v1. Namespace is that of the
// operator. The ConfigMap is watched by a cache of its own, whatever that of mgr is restricted to.
//
// RBAC it needs:
//
//	""                    configmaps       get list watch create   in the namespace of the operator
//	config.openshift.io   infrastructures  get                     in the cluster
//	machineconfiguration.openshift.io   controllerconfigs   get   in the cluster
func SetupWithManager(mgr ctrl.Manager, namespace string) error {
	r := &Reconciler{live: mgr.GetAPIReader(), client: mgr.GetClient(), namespace: namespace}
	start, one, err := watch.ConfigMaps(mgr, cache.ByObject{
		Namespaces: map[string]cache.Config{namespace: {}},
		Field:      fields.OneTermEqualSelector("metadata.name", cluster.TrustedCAConfigMap),
	}, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: cluster.TrustedCAConfigMap}})
	if err != nil {
		return fmt.Errorf("watching the ConfigMap of trusted authorities: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		WatchesRawSource(start).
		WatchesRawSource(one).
		WithOptions(watch.Options(1)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller of trusted authorities: %w", err)
	}
	return nil
}

// Reconcile makes the ConfigMap where there is none. One that is there stays as it is, whoever made it: without the
// label its authorities are those of its author, see decision 66.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	platform, err := object.Platform(ctx, r.live)
	switch {
	case errors.Is(err, object.ErrNoPlatform): // it is OpenShift, whatever its platform is
	case err != nil:
		return reconcile.Result{}, err
	case platform == "":
		return reconcile.Result{RequeueAfter: interval}, nil
	}
	key := client.ObjectKey{Namespace: r.namespace, Name: cluster.TrustedCAConfigMap}
	if err = r.live.Get(ctx, key, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		if err != nil {
			err = fmt.Errorf("reading ConfigMap %s: %w", key, err)
		}
		return reconcile.Result{}, err
	}
	err = r.client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{cluster.InjectTrustedCALabel: "true"},
	}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, fmt.Errorf("making ConfigMap %s: %w", key, err)
	}
	log.FromContext(ctx).Info("ConfigMap made, for OpenShift to write the authorities of the cluster into", "configMap", key)
	return reconcile.Result{}, nil
}
