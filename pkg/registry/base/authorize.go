// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package base

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Require requires a permission beyond the verb of a request. It returns nil when the user
// of wanted has it, what forbidden makes of the reason when not, and an internal error when
// the authorizer fails. It fails closed: without a user, an authorizer or an answer nobody
// has the permission.
func Require(ctx context.Context, a authorizer.Authorizer, wanted authorizer.Attributes, forbidden func(why string) error) error {
	if a == nil {
		return apierrors.NewInternalError(errors.New("no authorizer is configured"))
	}
	if wanted.GetUser() == nil {
		return forbidden("the request has no user")
	}
	decision, reason, err := a.Authorize(ctx, wanted)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("authorizing %s on %s: %w", wanted.GetVerb(), wanted.GetResource(), err))
	}
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if reason == "" {
		reason = "no role grants it"
	}
	return forbidden(reason)
}

// RequireVerb requires a right besides that to write an object: a verb on a resource that
// exists in RBAC rules only, with the name of the object, in its namespace. Action is what requires it. It fails closed, see
// [Require].
func RequireVerb(ctx context.Context, a authorizer.Authorizer, of schema.GroupResource, object metav1.Object, verb, resource, action string) error {
	user, _ := genericapirequest.UserFrom(ctx)
	return Require(ctx, a, authorizer.AttributesRecord{
		User:            user,
		Verb:            verb,
		Namespace:       object.GetNamespace(),
		APIGroup:        v1alpha1.GroupName,
		APIVersion:      v1alpha1.SchemeGroupVersion.Version,
		Resource:        resource,
		Name:            object.GetName(),
		ResourceRequest: true,
	}, func(why string) error {
		return apierrors.NewForbidden(of, object.GetName(), fmt.Errorf(
			"%s needs the verb %q on %s.%s %q in namespace %q: %s", action, verb, resource, v1alpha1.GroupName, object.GetName(), object.GetNamespace(), why))
	})
}
