// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package base

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Credential is what a host is logged in with: a Secret in the namespace of whoever
// names it, or, with an empty name, the cluster-wide key.
type Credential struct {
	Secret string
}

// CredentialAuthorizer asks whether the user of a request may have our programs use a
// credential. They would log in with it wherever an instance says: without this, who
// may write instances could send anybody's credentials anywhere.
//
// A Secret needs the verb get on it, which is the right to use it oneself. The
// cluster-wide key needs the verb use on windowscredentials cluster. Both are asked in
// the namespace of the object that is written, as for SecurityContextConstraints: a
// ClusterRoleBinding grants the key everywhere, a RoleBinding to the hosts of one
// namespace.
type CredentialAuthorizer struct {
	authorizer authorizer.Authorizer
}

// NewCredentialAuthorizer returns a CredentialAuthorizer that asks a.
func NewCredentialAuthorizer(a authorizer.Authorizer) CredentialAuthorizer {
	return CredentialAuthorizer{a}
}

// Authorize returns nil when the user of the request may use the credential for an
// object, and else an [apierrors.StatusError] that names the right that is missing. It
// fails closed: without a user or an answer nobody may.
func (c CredentialAuthorizer) Authorize(ctx context.Context, resource schema.GroupResource, namespace, name string, credential Credential) error {
	wanted := authorizer.AttributesRecord{
		Verb:            "get",
		Namespace:       namespace,
		APIVersion:      "v1",
		Resource:        "secrets",
		Name:            credential.Secret,
		ResourceRequest: true,
	}
	right := fmt.Sprintf("its hosts would be logged in to with Secret %q: that needs the verb get on secrets %q in namespace %q", credential.Secret, credential.Secret, namespace)
	if credential.Secret == "" {
		wanted.Verb, wanted.APIGroup, wanted.APIVersion = v1alpha1.VerbUse, v1alpha1.GroupName, v1alpha1.SchemeGroupVersion.Version
		wanted.Resource, wanted.Name = v1alpha1.ResourceCredentials, v1alpha1.CredentialsCluster
		right = fmt.Sprintf("its hosts would be logged in to with the cluster-wide key: that needs the verb use on %s.%s %q in namespace %q; or name a Secret of the namespace in credentialsSecretRef",
			v1alpha1.ResourceCredentials, v1alpha1.GroupName, v1alpha1.CredentialsCluster, namespace)
	}
	forbidden := func(why string) error {
		return apierrors.NewForbidden(resource, name, fmt.Errorf("%s (%s)", right, why))
	}
	wanted.User, _ = genericapirequest.UserFrom(ctx)
	return Require(ctx, c.authorizer, wanted, "asking whether the credentials may be used", forbidden)
}
