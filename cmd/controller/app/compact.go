// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"unique"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// compactInstance keeps of an instance no memory that it does not use: lists that were decoded have room for more, and each word of the API, such
// as the type of a condition, would be there once for each of thousands of hosts. The cache is most of what the controller has in memory,
// and the less that is, the less often garbage is collected. Of the managed fields of the status it keeps who manages some, and not
// which: the controllers ask only which they have applied besides, and send none ([object.UpdateStatus]).
func compactInstance(cached any) (any, error) {
	decoded, ok := cached.(*v1alpha1.WindowsInstance)
	if !ok {
		return cached, nil
	}
	for n := range decoded.ManagedFields {
		if m := &decoded.ManagedFields[n]; m.Subresource != "" {
			m.FieldsV1 = nil
		}
	}
	i := decoded.DeepCopy() // whose lists are as long as they are
	for n := range i.Status.Conditions {
		c := &i.Status.Conditions[n]
		share(&c.Type)
		share(&c.Reason)
		share(&c.Status)
	}
	if i.Status.Operation != nil {
		compactOperation(i.Status.Operation)
	}
	for n := range i.Status.History {
		compactOperation(&i.Status.History[n])
	}
	for n := range i.ManagedFields {
		m := &i.ManagedFields[n]
		share(&m.Manager)
		share(&m.Operation)
		share(&m.APIVersion)
		share(&m.FieldsType)
		share(&m.Subresource)
	}
	return i, nil
}

func compactOperation(o *v1alpha1.Operation) {
	share(&o.Type)
	share(&o.Phase)
	share(&o.Origin)
	share(&o.Cause)
	share(&o.RequestedBy)
	share(&o.Revision)
	share(&o.PoolRevision)
	share(&o.Impact)
	share(&o.AdmittedImpact)
	for n := range o.Steps {
		share(&o.Steps[n].Name)
		share(&o.Steps[n].State)
	}
}

// share has equal strings be one in memory.
func share[S ~string](s *S) { *s = S(unique.Make(string(*s)).Value()) }
