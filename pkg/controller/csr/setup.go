// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"context"
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	policy "github.com/openshift/windows-instance-api/pkg/controller/csr/policy"
)

const (
	// controllerName names the controller in logs and metrics.
	controllerName = "windows-csr"
	// workers is how many requests are decided about at the same time.
	workers = 4
)

// CacheByObject restricts what the cache of a manager keeps of requests: not those for
// ordinary clients, of which a cluster may have many, and of the others what is needed.
func CacheByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&certificatesv1.CertificateSigningRequest{}: {
		Field:     fields.OneTermNotEqualSelector("spec.signerName", certificatesv1.KubeAPIServerClientSignerName),
		Transform: strip,
	}}
}

// strip drops from a request what it is not decided by. What is still pending with a
// kubelet's signer is written back when it is approved, so it stays as it is but for the
// managed fields, which an update that has none does not change.
func strip(object any) (any, error) {
	request, ok := object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return object, nil
	}
	request.ManagedFields = nil
	if isPending(request) {
		return request, nil
	}
	request.Annotations = nil
	request.Spec.Request, request.Spec.Extra, request.Spec.Groups = nil, nil, nil
	if len(request.Status.Conditions) > 0 {
		// A signer issues only what a condition approves.
		request.Status.Certificate = nil
	}
	return request, nil
}

// SetupWithManager adds the controller to mgr, whose cache should be restricted by
// [CacheByObject] and whose scheme must know machine.openshift.io/v1beta1.
//
// RBAC it needs, in all namespaces:
//
//	certificates.k8s.io   certificatesigningrequests           get list watch
//	certificates.k8s.io   certificatesigningrequests/approval  update
//	certificates.k8s.io   signers                              approve (kubernetes.io/kube-apiserver-client-kubelet, kubernetes.io/kubelet-serving)
//	""                    events                               create patch
//	""                    nodes                                get list watch
//	machine.openshift.io  machines                             get list watch
//	windows.openshift.io  windowsinstances                     get list watch
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	r := newReconciler(mgr.GetClient(), o)
	err := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&certificatesv1.CertificateSigningRequest{}, builder.WithPredicates(pending)).
		Watches(&v1alpha1.WindowsInstance{}, handler.EnqueueRequestsFromMapFunc(r.pendingRequests), builder.WithPredicates(identityChanged)).
		WithOptions(watch.Options(workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the CSR controller: %w", err)
	}
	return nil
}

// pending lets requests of kubelets pass as long as they are pending, and once more
// when they are so no longer.
var pending = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return isPending(e.Object) },
	UpdateFunc: func(e event.UpdateEvent) bool { return isPending(e.ObjectOld) || isPending(e.ObjectNew) },
	DeleteFunc: func(e event.DeleteEvent) bool { return isPending(e.Object) },
}

func isPending(object client.Object) bool {
	request, ok := object.(*certificatesv1.CertificateSigningRequest)
	return ok && concerns(request) && !policy.Decided(request)
}

// identityChanged lets pass what may change by what a host is recognized, or whether its requests are ours to approve.
var identityChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.WindowsInstance)
		after, okAfter := e.ObjectNew.(*v1alpha1.WindowsInstance)
		return okBefore && okAfter && (identity.Changed(before, after) || leftToOthers(before) != leftToOthers(after) || hostnameTaken(before) != hostnameTaken(after))
	},
}

// pendingRequests returns the requests that are pending: those that were refused or not
// known whose they are, when an instance changed.
func (r *Reconciler) pendingRequests(ctx context.Context, _ client.Object) []reconcile.Request {
	var requests certificatesv1.CertificateSigningRequestList
	if err := r.client.List(ctx, &requests, client.UnsafeDisableDeepCopy); err != nil {
		// The cache answers, so that this does not happen while it runs.
		log.FromContext(ctx).Error(err, "Looking up the CSRs that are pending")
		return nil
	}
	var out []reconcile.Request
	for i := range requests.Items {
		if isPending(&requests.Items[i]) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&requests.Items[i])})
		}
	}
	return out
}
