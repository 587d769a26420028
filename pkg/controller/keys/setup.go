// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
)

const (
	// controllerName names the controller in logs and metrics.
	controllerName = "windows-keys"
	// gather is how long changes of instances are gathered: while a key is rotated there are many.
	gather = time.Second
	// interval is how often the Secrets are read: they are not watched.
	interval = time.Minute
)

// SetupWithManager adds the controller to a manager. Secrets are read and written by its client, which must not cache
// them.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	r := newReconciler(mgr.GetClient(), o)
	secretsOf := handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.enqueue(e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.enqueue(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.enqueue(e.Object, q)
		},
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		Watches(&v1alpha1.WindowsInstance{}, secretsOf, builder.WithPredicates(credentialsChanged)).
		Watches(&v1alpha1.WindowsNodePool{}, secretsOf, builder.WithPredicates(secretChanged)).
		WithOptions(watch.Options(1)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller of keys: %w", err)
	}
	return nil
}

// enqueue has the Secrets of the namespaces looked at in which that of an instance, or of the instances of a pool, may be.
func (r *Reconciler) enqueue(object client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for _, namespace := range []string{object.GetNamespace(), r.Cluster.Namespace} {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}}, gather)
	}
}

// credentialsChanged lets pass what may change which keys are needed.
var credentialsChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.WindowsInstance)
		after, okAfter := e.ObjectNew.(*v1alpha1.WindowsInstance)
		return okBefore && okAfter && (before.Generation != after.Generation ||
			!equality.Semantic.DeepEqual(before.Status.Credentials, after.Status.Credentials) ||
			reasonOf(before, v1alpha1.ConditionCredentialsCurrent) != reasonOf(after, v1alpha1.ConditionCredentialsCurrent))
	},
}

// secretChanged lets pass that a pool names another Secret or bastion: nothing changes of instances that can be logged in to with either.
var secretChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.WindowsNodePool)
		after, okAfter := e.ObjectNew.(*v1alpha1.WindowsNodePool)
		return okBefore && okAfter && (!equality.Semantic.DeepEqual(before.Spec.Template.CredentialsSecretRef, after.Spec.Template.CredentialsSecretRef) ||
			!equality.Semantic.DeepEqual(before.Spec.Template.Bastion, after.Spec.Template.Bastion))
	},
}

func reasonOf(instance *v1alpha1.WindowsInstance, condition string) string {
	if c := meta.FindStatusCondition(instance.Status.Conditions, condition); c != nil {
		return c.Reason
	}
	return ""
}
