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

// Guard has check asked about an object before next is. next may be nil.
func Guard[T runtime.Object](check func(ctx context.Context, obj T) error, next rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		typed, err := As[T](obj)
		if err != nil {
			return err
		}
		if err := check(ctx, typed); err != nil {
			return err
		}
		if next == nil {
			return nil
		}
		return next(ctx, obj)
	}
}

// GuardUpdate has check asked about a change before next is. next may be nil.
func GuardUpdate[T runtime.Object](check func(ctx context.Context, obj, old T) error, next rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		typed, err := As[T](obj)
		if err != nil {
			return err
		}
		typedOld, err := As[T](old)
		if err != nil {
			return err
		}
		if err := check(ctx, typed, typedOld); err != nil {
			return err
		}
		if next == nil {
			return nil
		}
		return next(ctx, obj, old)
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
