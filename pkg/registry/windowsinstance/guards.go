// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// sourceGuard keeps people from deleting an instance that a ConfigMap or a
// MachineSet still asks for: it would come back a moment later. It never stands in
// the way of garbage collection, namespace deletion or the controller.
type sourceGuard struct {
	// writers are the user names of the controller.
	writers []string
}

// housekeepers are the service accounts of kube-controller-manager that delete
// on behalf of the cluster, run with --use-service-account-credentials (the
// name of the shared account without).
var housekeepers = []string{
	serviceaccount.MakeUsername("kube-system", "generic-garbage-collector"),
	serviceaccount.MakeUsername("kube-system", "namespace-controller"),
	"system:kube-controller-manager",
}

func (g sourceGuard) validateDelete(next rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return base.Guard(g.check, next)
}

func (g sourceGuard) check(ctx context.Context, instance *windows.WindowsInstance) error {
	source := instance.Annotations[v1alpha1.SourceAnnotation]
	if source == "" || instance.DeletionTimestamp != nil {
		return nil
	}
	if who, ok := genericapirequest.UserFrom(ctx); ok &&
		(slices.Contains(g.writers, who.GetName()) || slices.Contains(housekeepers, who.GetName())) {
		return nil
	}
	return apierrors.NewConflict(windows.Resource("windowsinstances"), instance.Name, fmt.Errorf(
		"the host is asked for by %s: remove it there and the instance goes too; "+
			"if that source is gone for good and no controller runs, remove the annotation %s and delete again",
		source, v1alpha1.SourceAnnotation))
}

// keyGuard asks for a right of its own before the keys that a host may present are
// changed: whoever changes them decides which machine our key logs in to.
type keyGuard struct {
	authorizer authorizer.Authorizer
}

// trustRight is the right to change the keys.
var trustRight = right{verb: v1alpha1.VerbTrust, resource: v1alpha1.ResourceHostKeys}

func (g keyGuard) validateUpdate(next rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return base.GuardUpdate(func(ctx context.Context, instance, old *windows.WindowsInstance) error {
		if slices.Equal(instance.Spec.HostKeys, old.Spec.HostKeys) {
			return nil
		}
		return trustRight.require(ctx, g.authorizer, instance, "changing spec.hostKeys", "asking whether the host key may be changed")
	}, next)
}
