// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// BootstrapperToken is the name of the Secret with the token of the node-bootstrapper.
const BootstrapperToken = bootstrapperName + "-token"

// bootstrapper are the objects by which new Linux nodes join: an account that may request client certificates of nodes,
// and its token, which the token controller fills in.
func bootstrapper() []client.Object {
	account := metav1.ObjectMeta{Namespace: MachineConfigNamespace, Name: bootstrapperName}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: account},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "system-bootstrap-node-bootstrapper"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
		},
		bootstrapperToken(),
	}
}

func bootstrapperToken() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: MachineConfigNamespace, Name: BootstrapperToken, Annotations: map[string]string{corev1.ServiceAccountNameKey: bootstrapperName},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
}

// keepToken stands in for the Machine Config Operator, which makes the Secret of the token again when it is deleted: that
// is how the token is rotated.
func keepToken(mgr ctrl.Manager) error {
	c, token := mgr.GetClient(), client.ObjectKeyFromObject(bootstrapperToken())
	return ctrl.NewControllerManagedBy(mgr).Named("token of the node-bootstrapper").For(&corev1.Secret{}).
		Complete(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			if request.NamespacedName != token {
				return reconcile.Result{}, nil
			}
			if err := c.Get(ctx, token, &corev1.Secret{}); client.IgnoreNotFound(err) != nil || err == nil {
				return reconcile.Result{}, err
			}
			return reconcile.Result{}, c.Create(ctx, bootstrapperToken())
		}))
}
