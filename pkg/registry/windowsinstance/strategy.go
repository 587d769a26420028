// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package windowsinstance serves WindowsInstance and its subresources: the stored
// object with its rules, the table that kubectl prints, actions, logs and sessions. It is
// one package because the subresources share the store, the limits of streams and the
// conversion to the served version, and the server installs them together. What it
// needs of hosts it declares as small interfaces of its own; it must not import
// the packages that reach hosts (host and what is below it), nor any controller.
package windowsinstance

import (
	"context"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/validation"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// instanceStrategy holds the rules of the main resource.
type instanceStrategy struct{ base.Strategy }

var (
	_ rest.RESTCreateStrategy = instanceStrategy{}
	_ rest.RESTUpdateStrategy = instanceStrategy{}
	_ rest.RESTDeleteStrategy = instanceStrategy{}
)

func newStrategy(scheme *runtime.Scheme) instanceStrategy {
	return instanceStrategy{base.NewStrategy(scheme)}
}

func (instanceStrategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	instance := obj.(*windows.WindowsInstance)
	instance.Status = windows.WindowsInstanceStatus{HostKeys: givenHostKeys(instance)}
	instance.Generation = 1
}

// givenHostKeys takes the host keys that an instance has from the one before it. They come with its creation, so
// that it never trusts the first key that anybody presents. Those that cannot be read stay, and are refused.
func givenHostKeys(instance *windows.WindowsInstance) []windows.HostKeyStatus {
	given, err := v1alpha1.TakeHostKeys(&instance.ObjectMeta)
	if err != nil {
		return nil
	}
	var keys []windows.HostKeyStatus
	for _, key := range given {
		keys = append(keys, windows.HostKeyStatus{
			Type: key.Type, Fingerprint: key.Fingerprint, Key: key.Key, FirstSeen: key.FirstSeen, TrustedBy: windows.HostKeyTrust(key.TrustedBy),
		})
	}
	return keys
}

func (instanceStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	newInstance, oldInstance := obj.(*windows.WindowsInstance), old.(*windows.WindowsInstance)
	newInstance.Status = oldInstance.Status
	newInstance.Generation = base.NextGeneration(newInstance, oldInstance, newInstance.Spec, oldInstance.Spec)
}

func (instanceStrategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return validation.ValidateWindowsInstance(obj.(*windows.WindowsInstance))
}

func (instanceStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validation.ValidateWindowsInstanceUpdate(obj.(*windows.WindowsInstance), old.(*windows.WindowsInstance))
}

// statusStrategy holds the rules of the subresource status: the spec cannot be
// changed through it.
type statusStrategy struct{ instanceStrategy }

// GetResetFields names the fields that a request to the status cannot set.
func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return base.StatusResetFields()
}

func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	newInstance, oldInstance := obj.(*windows.WindowsInstance), old.(*windows.WindowsInstance)
	newInstance.Spec = oldInstance.Spec
	base.KeepMetadata(newInstance, oldInstance)
}

func (statusStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validation.ValidateWindowsInstanceStatusUpdate(obj.(*windows.WindowsInstance), old.(*windows.WindowsInstance))
}

// getAttrs returns what selectors can select by.
func getAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	instance, err := base.As[*windows.WindowsInstance](obj)
	if err != nil {
		return nil, nil, err
	}
	return instance.Labels, selectableFields(instance), nil
}

// selectableFields must hold what v1alpha1 accepts as field selectors.
func selectableFields(instance *windows.WindowsInstance) fields.Set {
	set := fields.Set{
		"spec.address":      instance.Spec.Address,
		"spec.poolRef.name": poolName(instance),
		"status.node.name":  nodeName(instance),
		"status.phase":      string(instance.Status.Phase),
	}
	return generic.AddObjectMetaFieldsSet(set, &instance.ObjectMeta, true)
}

func poolName(instance *windows.WindowsInstance) string {
	if instance.Spec.PoolRef == nil {
		return ""
	}
	return instance.Spec.PoolRef.Name
}

func nodeName(instance *windows.WindowsInstance) string {
	if instance.Status.Node == nil {
		return ""
	}
	return instance.Status.Node.Name
}
