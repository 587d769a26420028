// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package clusterapi

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Leaving says whether the Machine of Cluster API that an instance comes from is being deleted and still there, so that Cluster API may wait for
// pods on its Node. It is not for an instance that comes from none. It fails as long as nobody knows whether there are any.
func Leaving(ctx context.Context, machines *Machines, instance *v1alpha1.WindowsInstance) (bool, error) {
	if !belongs(instance) {
		return false, nil
	}
	found, err := machines.Get(ctx, client.ObjectKeyFromObject(instance))
	return found != nil && string(found.UID) == instance.Annotations[v1alpha1.MachineUIDAnnotation] && !found.DeletionTimestamp.IsZero(), err
}
