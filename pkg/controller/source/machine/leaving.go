// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/origin"
)

// Leaving says whether the Machine that an instance comes from is being deleted and still there, so that the Machine API may wait for pods on its
// Node. It is not for an instance that comes from none, nor where there is no Machine API.
func Leaving(ctx context.Context, reader client.Reader, instance *v1alpha1.WindowsInstance) (bool, error) {
	owner := origin.Machine(instance)
	if owner == nil {
		return false, nil
	}
	found, err := object.Get(ctx, reader, types.NamespacedName{Namespace: instance.Namespace, Name: owner.Name}, &machinev1beta1.Machine{})
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return found != nil && found.UID == owner.UID && !found.DeletionTimestamp.IsZero(), err
}
