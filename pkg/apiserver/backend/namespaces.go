// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/openshift/windows-instance-api/pkg/notfound"
)

// NamespaceDeleted reads since when a namespace is being deleted; one that does not exist was deleted
// long ago. The zero time means that it stays.
func NamespaceDeleted(kube kubernetes.Interface) func(ctx context.Context, name string) (time.Time, error) {
	return func(ctx context.Context, name string) (time.Time, error) {
		namespace, err := kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if notfound.Object(err) {
			return time.Unix(0, 0), nil
		}
		if err != nil || namespace.DeletionTimestamp == nil {
			return time.Time{}, err
		}
		return namespace.DeletionTimestamp.Time, nil
	}
}
