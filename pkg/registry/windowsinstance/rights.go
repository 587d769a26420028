// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// right is one besides that to write instances: a verb on a resource that exists in RBAC
// rules only, with the name of the instance, in its namespace.
type right struct {
	verb, resource string
}

// require returns nil when the user of the request has the right for an instance. What says
// what needs it, and doing what the authorizer is asked. It fails closed: without a user or
// an answer nobody has it.
func (r right) require(ctx context.Context, a authorizer.Authorizer, instance *windows.WindowsInstance, what, doing string) error {
	forbidden := func(why string) error {
		return apierrors.NewForbidden(windows.Resource("windowsinstances"), instance.Name, fmt.Errorf(
			"%s needs the verb %q on %s.%s %q in namespace %q: %s", what, r.verb, r.resource, v1alpha1.GroupName, instance.Name, instance.Namespace, why))
	}
	who, _ := genericapirequest.UserFrom(ctx)
	return base.Require(ctx, a, authorizer.AttributesRecord{
		User:            who,
		Verb:            r.verb,
		Namespace:       instance.Namespace,
		APIGroup:        v1alpha1.GroupName,
		APIVersion:      v1alpha1.SchemeGroupVersion.Version,
		Resource:        r.resource,
		Name:            instance.Name,
		ResourceRequest: true,
	}, doing, forbidden)
}
