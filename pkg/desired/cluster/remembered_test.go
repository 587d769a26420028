// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// A document is built again if something of it has changed, and only then; what is remembered of it is what it would be.
func TestRevisionsAreRemembered(t *testing.T) {
	c, s := sourceWithKey(t)
	built := 0
	s.remembered.build = func(in document.Inputs) (*document.Result, error) {
		built++
		return document.Build(in)
	}
	host, other := instance(), instance()
	host.UID, other.UID, other.Name, other.Status.Addresses = "host", "other", "other", []string{"10.0.0.99"}
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: "pool"}}
	var node *corev1.Node
	refresh := func() {
		t.Helper()
		if _, err := s.refresh(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		change func()
		builds int
	}{
		{"the first time", func() {}, 2},
		{"again", func() {}, 0},
		{"the operation has gone on", func() { host.Status.Operation = &v1alpha1.Operation{ID: "1", Message: "It goes on."} }, 0},
		{"the cluster was read again", refresh, 0},
		{"it has another address", func() { host.Status.Addresses = []string{"10.0.0.77"} }, 1},
		{"the template of its pool has changed", func() { pool.Spec.Template.Kubelet = &v1alpha1.KubeletTemplate{MaxPods: ptr.To[int32](77)} }, 2},
		{"it has become a Node", func() { node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1"}} }, 2},
		{"its kubelet has reported", func() { node.ResourceVersion = "7" }, 0},
		{"the cluster has changed", func() {
			dns := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-dns"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.77"}}
			if err := c.Create(t.Context(), dns); err != nil {
				t.Fatal(err)
			}
			refresh()
		}, 2},
		{"again with all of that", func() {}, 0},
	} {
		tt.change()
		built = 0
		for _, i := range []*v1alpha1.WindowsInstance{host, other} {
			revision, waiting, warnings, err := s.Revision(t.Context(), i, pool, node)
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			want, err := s.last.snapshot.Build(Host{Instance: i, Pool: pool, Node: node})
			if err != nil {
				t.Fatal(err)
			}
			if revision != want.Revision || len(waiting) != len(want.Waiting) || !slices.Equal(warnings, want.Warnings) {
				t.Errorf("%s: %s is to have %s, waiting %v, warnings %v; want %+v", tt.name, i.Name, revision, waiting, warnings, want)
			}
		}
		if built != tt.builds {
			t.Errorf("%s: %d documents were built, want %d", tt.name, built, tt.builds)
		}
	}
}
