// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// Asks says whether the ConfigMap has an entry for an instance. It had none when the instance was
// deleted: then the entry was put back, and an instance of that name follows. live is no cache.
func Asks(ctx context.Context, live client.Reader, o Options, instance *v1alpha1.WindowsInstance) (bool, error) {
	configMap := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	if !belongs(instance, configMap) || instance.Namespace != configMap.Namespace {
		return false, nil
	}
	cm, err := object.Get(ctx, live, configMap, &corev1.ConfigMap{})
	if err != nil || cm == nil || !cm.DeletionTimestamp.IsZero() {
		return false, err
	}
	for key, value := range cm.Data {
		// An entry that is wrong is reported where it is used.
		if entry, err := parseEntry(key, value); err == nil && entry.isOf(instance) {
			return true, nil
		}
	}
	return false, nil
}
