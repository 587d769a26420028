// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// Represented says why a host must not be changed for an instance, empty if it may be: another
// instance stands for it, or is changing it. It is asked right before a host is changed for the
// first time, after that was recorded: of two instances that were logged in to at the same moment, at
// least one then learns of the other. cache has the indexes of [SetupWithManager], and says only which
// instances may have the host; what they are like is read from live. home is the namespace of the operator.
func Represented(ctx context.Context, cache, live client.Reader, instance *v1alpha1.WindowsInstance, home string) (string, error) {
	others, err := sharing(ctx, cache, instance)
	if err != nil {
		return "", err
	}
	for _, cached := range others {
		other, err := object.Get(ctx, live, client.ObjectKeyFromObject(cached), &v1alpha1.WindowsInstance{})
		switch {
		case err != nil:
			return "", err
		case other == nil || other.UID == instance.UID || !sharesHost(other, instance):
		case identity.StandsFor(other, instance, home):
			return describeDuplicate(instance, other, home), nil
		case identity.HasHostOf(other, instance) && changing(other.Status.Operation):
			name, _ := nameOf(other, instance, home)
			return fmt.Sprintf("%s is being configured with the same host.", name), nil
		}
	}
	return "", nil
}

// changing says whether an operation is about to change what its host is configured with, or does.
func changing(o *v1alpha1.Operation) bool {
	step := map[v1alpha1.OperationType]string{v1alpha1.OperationReconfigure: v1alpha1.StepApply, v1alpha1.OperationAdopt: v1alpha1.StepAdopt}
	if !o.Active() || step[o.Type] == "" {
		return false
	}
	begins := o.FindStep(step[o.Type])
	return begins != nil && begins.StartedAt != nil
}
