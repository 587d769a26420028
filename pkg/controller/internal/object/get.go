// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package object

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Get reads into obj and returns it, or nil when there is no such object.
func Get[T client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, obj T) (T, error) {
	var none T
	if err := reader.Get(ctx, key, obj); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return none, nil
		}
		return none, fmt.Errorf("read %T %s: %w", obj, key, err)
	}
	return obj, nil
}

// Delete deletes exactly obj, not another object that took its name since. That it
// is gone already is no error.
func Delete(ctx context.Context, c client.Client, obj client.Object) error {
	uid := obj.GetUID()
	err := c.Delete(ctx, obj, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
	}
	return nil
}
