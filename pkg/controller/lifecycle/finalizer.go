// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// held says whether the object has our finalizer.
func (s snapshot) held() bool {
	return controllerutil.ContainsFinalizer(s.instance, v1alpha1.HostFinalizer)
}

// patchFinalizers changes our finalizer of the object that was decided about, and of no other.
func (r *Reconciler) patchFinalizers(ctx context.Context, instance *v1alpha1.WindowsInstance, change func(client.Object, string) bool) error {
	changed := instance.DeepCopy()
	if !change(changed, v1alpha1.HostFinalizer) {
		return nil
	}
	if err := r.client.Patch(ctx, changed, client.MergeFromWithOptions(instance, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("changing the finalizer: %w", err)
	}
	return nil
}
