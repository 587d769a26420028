// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"context"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// wideAuthorizer asks about some users first whether they may do something to all objects of a resource of ours, in every namespace. What
// is behind it remembers answers for some seconds, but one for each name: windows-controller, which has the right to all of them, would be
// asked about for each host.
type wideAuthorizer struct {
	authorizer.Authorizer

	users []string
}

// Authorize implements authorizer.Authorizer.
func (w wideAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if user := a.GetUser(); user != nil && slices.Contains(w.users, user.GetName()) && a.IsResourceRequest() && a.GetAPIGroup() == v1alpha1.GroupName {
		all := authorizer.AttributesRecord{
			User: user, Verb: a.GetVerb(), APIGroup: a.GetAPIGroup(), APIVersion: a.GetAPIVersion(),
			Resource: a.GetResource(), Subresource: a.GetSubresource(), ResourceRequest: true,
		}
		if decision, reason, err := w.Authorizer.Authorize(ctx, all); err == nil && decision == authorizer.DecisionAllow {
			return decision, reason, nil
		}
	}
	return w.Authorizer.Authorize(ctx, a)
}
