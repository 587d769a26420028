// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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
		{name: "with a user that no host has", data: map[string]string{"10.1.42.0": "username=a*b"}},
		{name: "in another namespace", data: map[string]string{"10.1.42.0": "username=a"}, edit: func(i *v1alpha1.WindowsInstance) { i.Namespace = "other" }},
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

// Of a ConfigMap that is being deleted nothing is asked; one that cannot be read may ask for the host.
func TestAsksOfNoUsableConfigMap(t *testing.T) {
	going := configMapOf(fleet(1))
	going.Finalizers, going.DeletionTimestamp = []string{"example.com/f"}, new(metav1.NewTime(time.Unix(1, 0)))
	f := newFixture(t, going)
	instance := made("10.1.42.0")
	o := Options{Namespace: theConfigMap.Namespace, Name: theConfigMap.Name}
	if got, err := Asks(t.Context(), f, o, &instance); got || err != nil {
		t.Errorf("it is being deleted: got %v, %v", got, err)
	}
	broken := errors.New("etcd is slow")
	unreadable := interceptor.NewClient(f.WithWatch, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		},
	})
	if got, err := Asks(t.Context(), unreadable, o, &instance); got || !errors.Is(err, broken) {
		t.Errorf("it cannot be read: got %v, %v", got, err)
	}
}
