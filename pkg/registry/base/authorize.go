// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package base

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
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
