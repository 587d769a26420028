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

// Require asks for a right that goes beyond the verb of a request. It returns nil when
// the user of wanted has it, what forbidden makes of the reason when not, and an
// internal error when asking fails, which doing names: "asking whether …". It fails
// closed: without a user, an authorizer or an answer nobody may.
func Require(ctx context.Context, a authorizer.Authorizer, wanted authorizer.Attributes, doing string, forbidden func(why string) error) error {
	if a == nil {
		return apierrors.NewInternalError(errors.New("no authorizer is configured"))
	}
	if wanted.GetUser() == nil {
		return forbidden("the request has no user")
	}
	decision, reason, err := a.Authorize(ctx, wanted)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("%s: %w", doing, err))
	}
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if reason == "" {
		reason = "no role grants it"
	}
	return forbidden(reason)
}
