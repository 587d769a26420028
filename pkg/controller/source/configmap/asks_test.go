// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// An entry that was put back asks for the host that is about to be removed, and only if it is that
// host.
func TestAsks(t *testing.T) {
	for _, tt := range []struct {
		name string
		data map[string]string
		edit func(*v1alpha1.WindowsInstance)
		want bool
	}{
		{name: "put back", data: map[string]string{"10.1.42.0": "username=a"}, want: true},
		{name: "put back with another user", data: map[string]string{"10.1.42.0": "username=b"}, want: true},
		{name: "others", data: map[string]string{"10.1.42.1": "username=a"}},
		{name: "with a typing error", data: map[string]string{"10.1.42.0": "usrname=a"}},
		{name: "at another port", data: map[string]string{"10.1.42.0": "username=a\nport=2222"}},
		{name: "with another name", data: map[string]string{"10.1.42.0": "username=a\nname=b"}},
		{name: "no ConfigMap"},
		{name: "made by hand", data: map[string]string{"10.1.42.0": "username=a"}, edit: func(i *v1alpha1.WindowsInstance) { i.Annotations, i.ManagedFields = nil, nil }},
		{name: "its annotation was taken off", data: map[string]string{"10.1.42.0": "username=a", "10.1.42.1": "username=a"}, edit: func(i *v1alpha1.WindowsInstance) { i.Annotations = nil }, want: true},
		{name: "its annotation was taken off, and others are there", data: map[string]string{"10.1.42.1": "username=a"}, edit: func(i *v1alpha1.WindowsInstance) { i.Annotations = nil }},
		{name: "its address was changed", data: map[string]string{"10.1.42.0": "username=a"}, edit: func(i *v1alpha1.WindowsInstance) { i.Spec.Address = "10.9.9.9" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, emptyPool(), configMapOf(fleet(1)))
			f.settle()
			instance := f.instances()["10.1.42.0"]
			if tt.edit != nil {
				tt.edit(&instance)
			}
			if tt.data == nil {
				f.deleteConfigMap()
			} else {
				f.setData(tt.data)
			}
			got, err := Asks(t.Context(), f, Options{Namespace: theConfigMap.Namespace, Name: theConfigMap.Name}, &instance)
			if err != nil || got != tt.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
