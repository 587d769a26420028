// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package base

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// AuthorizeCredentials returns nil when the user of the request may have our programs use
// credentials for an object, and else an [apierrors.StatusError] that names the missing
// permission. Credentials are the Secret of that name in the namespace of the object, or
// the cluster-wide key when secret is empty. Our programs log in with them wherever an
// instance says: without this check, whoever may write instances could send anybody's
// credentials anywhere.
//
// A Secret needs the verb get on it, which is the right to use it oneself. The
// cluster-wide key needs the verb use on windowscredentials cluster. Both are checked in
// the namespace of the object, as for SecurityContextConstraints. That says whose objects may
// have the key used, and not on which machines: an address may be that of any machine, so
// that whoever may use the key in one namespace may have it log in to all that accept it. It
// fails closed, see [Require].
func AuthorizeCredentials(ctx context.Context, a authorizer.Authorizer, resource schema.GroupResource, object metav1.Object, secret string) error {
	wanted := getSecret(ctx, object.GetNamespace(), secret)
	right := fmt.Sprintf("its hosts would be logged in to with Secret %q: that needs the verb get on secrets %q in namespace %q", secret, secret, wanted.Namespace)
	if secret == "" {
		wanted.Verb, wanted.APIGroup, wanted.APIVersion = v1alpha1.VerbUse, v1alpha1.GroupName, v1alpha1.SchemeGroupVersion.Version
		wanted.Resource, wanted.Name = v1alpha1.ResourceCredentials, v1alpha1.CredentialsCluster
		right = fmt.Sprintf("its hosts would be logged in to with the cluster-wide key: that needs the verb use on %s.%s %q in namespace %q; or name a Secret of the namespace in credentialsSecretRef",
			v1alpha1.ResourceCredentials, v1alpha1.GroupName, v1alpha1.CredentialsCluster, wanted.Namespace)
	}
	return Require(ctx, a, wanted, func(why string) error {
		return apierrors.NewForbidden(resource, object.GetName(), fmt.Errorf("%s (%s)", right, why))
	})
}

// AuthorizeBastion is the same for the Secret of a bastion: whoever names it in an object has our programs log in with it where
// that object says, and gets connections made behind the bastion.
func AuthorizeBastion(ctx context.Context, a authorizer.Authorizer, resource schema.GroupResource, object metav1.Object, secret string) error {
	wanted := getSecret(ctx, object.GetNamespace(), secret)
	return Require(ctx, a, wanted, func(why string) error {
		return apierrors.NewForbidden(resource, object.GetName(), fmt.Errorf("its bastion would be logged in to with Secret %q: that needs the verb get on secrets %q in namespace %q (%s)", secret, secret, wanted.Namespace, why))
	})
}

// getSecret is the right to read a Secret.
func getSecret(ctx context.Context, namespace, name string) authorizer.AttributesRecord {
	user, _ := genericapirequest.UserFrom(ctx)
	return authorizer.AttributesRecord{
		User:            user,
		Verb:            "get",
		Namespace:       namespace,
		APIVersion:      "v1",
		Resource:        "secrets",
		Name:            name,
		ResourceRequest: true,
	}
}
