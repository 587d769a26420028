// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// NamespaceDeleted reads since when a namespace is being deleted; one that does not exist was deleted
// long ago. The zero time means that it stays.
func NamespaceDeleted(kube kubernetes.Interface) func(ctx context.Context, name string) (time.Time, error) {
	return func(ctx context.Context, name string) (time.Time, error) {
		namespace, err := kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if gone(err) {
			return time.Unix(0, 0), nil
		}
		if err != nil || namespace.DeletionTimestamp == nil {
			return time.Time{}, err
		}
		return namespace.DeletionTimestamp.Time, nil
	}
}

// gone says whether an error means that an object does not exist, as opposed to what something in front
// of kube-apiserver answers while that is away.
func gone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}
