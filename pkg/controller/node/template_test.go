// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
)

// TestUndoneTemplate: labels go back with the template that somebody has undone, as it was kept, and not with one that broke hosts. What
// cannot go back has those of what it works with.
func TestUndoneTemplate(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(back *v1alpha1.PoolRollback, kept *appsv1.ControllerRevision)
		// has: the host works with the revision that is kept, and not with that of now.
		has  bool
		want string // the rack; none: labels stay as they are
	}{
		{name: "undone", edit: func(*v1alpha1.PoolRollback, *appsv1.ControllerRevision) {}, want: "before"},
		{name: "it broke hosts", edit: func(b *v1alpha1.PoolRollback, _ *appsv1.ControllerRevision) {
			b.RequestedBy, b.Instances = "", []string{testInstance}
		}, want: "now"},
		{name: "the host cannot go back", edit: func(b *v1alpha1.PoolRollback, _ *appsv1.ControllerRevision) {
			b.WithoutPrograms = []string{testInstance}
		}, want: "now"},
		{name: "the host cannot go back, and works with an earlier one", edit: func(b *v1alpha1.PoolRollback, _ *appsv1.ControllerRevision) {
			b.To, b.WithoutPrograms = "pool-0", []string{testInstance}
		}, has: true, want: "before"},
		{name: "the pool has another one by now", edit: func(b *v1alpha1.PoolRollback, _ *appsv1.ControllerRevision) { b.Revision = "p-0" }, want: "now"},
		{name: "somebody has changed it", edit: func(_ *v1alpha1.PoolRollback, o *appsv1.ControllerRevision) {
			o.Data.Raw = []byte(`{"spec":{"template":{"nodeLabels":{"rack":"forged"}}}}`)
		}, want: ""},
		{name: "it is gone", edit: func(b *v1alpha1.PoolRollback, o *appsv1.ControllerRevision) { b.To, o.Name = o.Name, "another" }, want: ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := newPool(map[string]string{"rack": "before"})
			pool.UID = "p"
			before := revision.Of(pool, document.Payload{})
			data, err := before.Encode()
			if err != nil {
				t.Fatal(err)
			}
			kept := &appsv1.ControllerRevision{
				ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: revision.Name(pool, data), OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "p", Name: "pool", UID: "p", Controller: new(true)}}},
				Data:       runtime.RawExtension{Raw: data},
			}
			pool.Spec.Template.NodeLabels = map[string]string{"rack": "now"}
			back := &v1alpha1.PoolRollback{Revision: "p-1", To: kept.Name, RequestedBy: "alice"}
			tt.edit(back, kept)
			pool.Status.UpdateRevision, pool.Status.RolledBack = "p-1", back
			hosted := host()
			if tt.has {
				hosted.Status.PoolRevision = kept.Name
			}
			s := newSetup(t, []client.Object{pool, kept, hosted, registered()}...)
			s.reconcile()
			if got := s.node().Labels["rack"]; got != tt.want {
				t.Errorf("it has %q, want %q", got, tt.want)
			}
		})
	}
}
