// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package object

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// UpdateStatus writes the status of an instance, which becomes what is stored. It sends no managed fields: for a
// status the server goes on with those that it has. Its errors are those of the client.
func UpdateStatus(ctx context.Context, c client.Client, instance *v1alpha1.WindowsInstance) error {
	managed := instance.ManagedFields
	instance.ManagedFields = nil
	err := c.Status().Update(ctx, instance)
	if err != nil {
		instance.ManagedFields = managed
	}
	return err
}
