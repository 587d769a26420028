// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"context"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// allObjectsAuthorizer first asks whether a user may do the same to all objects, in all namespaces. The authorizer behind it keeps
// answers for some seconds, one for each name, so that windows-controller, which may do it to all, would cost a SubjectAccessReview
// for each host. Where the answer is not yes, it asks about the object. See decision 81.
type allObjectsAuthorizer struct {
	authorizer.Authorizer

	// users are the names of those about whom it asks so.
	users []string
}

// objects are the resources that have objects; others of our API group exist in RBAC rules only, and rights to them are given by name.
var objects = []string{"windowsinstances", "windowsnodepools"}

// Authorize implements authorizer.Authorizer.
func (o allObjectsAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if user := a.GetUser(); user != nil && slices.Contains(o.users, user.GetName()) && a.GetAPIGroup() == v1alpha1.GroupName && slices.Contains(objects, a.GetResource()) {
		decision, reason, err := o.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: user, Verb: a.GetVerb(), APIGroup: a.GetAPIGroup(), APIVersion: a.GetAPIVersion(),
			Resource: a.GetResource(), Subresource: a.GetSubresource(), ResourceRequest: true,
		})
		if err != nil || decision == authorizer.DecisionAllow {
			return decision, reason, err // who does not answer this does not answer about one object either
		}
	}
	return o.Authorizer.Authorize(ctx, a)
}
