// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package base

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Guard returns a validation that runs checks of an object before next, which may be nil.
func Guard[T runtime.Object](next rest.ValidateObjectFunc, checks ...func(ctx context.Context, obj T) error) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		typed, err := As[T](obj)
		if err != nil {
			return err
		}
		for _, check := range checks {
			if err := check(ctx, typed); err != nil {
				return err
			}
		}
		if next == nil {
			return nil
		}
		return next(ctx, obj)
	}
}

// GuardUpdate returns a validation that runs checks of a change before next, which may be nil.
func GuardUpdate[T runtime.Object](next rest.ValidateObjectUpdateFunc, checks ...func(ctx context.Context, obj, old T) error) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		typedOld, err := As[T](old)
		if err != nil {
			return err
		}
		guarded := func(ctx context.Context, typed T) error {
			for _, check := range checks {
				if err := check(ctx, typed, typedOld); err != nil {
					return err
				}
			}
			return nil
		}
		return Guard(func(ctx context.Context, obj runtime.Object) error {
			if next == nil {
				return nil
			}
			return next(ctx, obj, old)
		}, guarded)(ctx, obj)
	}
}

// As asserts the type of what a store hands out. The error is an internal one.
func As[T runtime.Object](obj runtime.Object) (T, error) {
	typed, ok := obj.(T)
	if !ok {
		return typed, apierrors.NewInternalError(fmt.Errorf("got a %T where a %T was expected", obj, typed))
	}
	return typed, nil
}
