// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration"
)

func TestReconcile(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	pool := &v1alpha1.WindowsNodePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Generation: 1},
		Spec:       v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}},
	}
	elsewhere := edited(ready("c"), func(i *v1alpha1.WindowsInstance) { i.Namespace = "other" })
	ofAnother := edited(ready("d"), func(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef.Name = "q" })
	ofNone := edited(ready("e"), func(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef = nil })

	writes := 0
	c := fake.NewClientBuilder().
		WithScheme(scheme).
		WithIndex(&v1alpha1.WindowsInstance{}, object.PoolIndex, object.IndexPool).
		WithTypeConverters(applyconfiguration.NewTypeConverter(scheme), managedfields.NewDeducedTypeConverter()).
		WithStatusSubresource(&v1alpha1.WindowsNodePool{}, &v1alpha1.WindowsInstance{}).
		WithReturnManagedFields().
		WithObjects(pool, ready("a"), edited(ready("b"), notReady), elsewhere, ofAnother, ofNone).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceApply: func(ctx context.Context, c client.Client, sub string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
				writes++
				return c.SubResource(sub).Apply(ctx, obj, opts...)
			},
		}).
		Build()
	now := time.Date(2026, 3, 1, 12, 0, 0, 999, time.UTC)
	blocked := holdup{}
	r := &Reconciler{
		client:    c,
		applier:   &apply.Applier{Client: c, Live: c, FieldManager: fieldManager},
		now:       func() time.Time { return now },
		blockedBy: func(poolKey) holdup { return blocked }, seen: map[types.NamespacedName]revisionSeen{},
		reporter: message.NewReporter(&record.FakeRecorder{}, scheme),
	}
	key := client.ObjectKeyFromObject(pool)
	pass := func() v1alpha1.WindowsNodePoolStatus {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		var got v1alpha1.WindowsNodePool
		if err := c.Get(t.Context(), key, &got); err != nil {
			t.Fatal(err)
		}
		return got.Status
	}

	if got := pass(); got.UpdateRevision == "" || got.CurrentRevision != "" {
		t.Errorf("revisions %q, %q: what hosts say may be about the template before", got.UpdateRevision, got.CurrentRevision)
	}
	now = now.Add(settleTime)
	if got := pass(); got.CurrentRevision != "" {
		t.Errorf("revision %q, which no host has had", got.CurrentRevision)
	}
	workWith(t, c, pass().UpdateRevision, "a", "b")
	writes = 0
	first := pass()
	if first.CurrentRevision != first.UpdateRevision {
		t.Errorf("revisions %q, %q", first.UpdateRevision, first.CurrentRevision)
	}
	writes = 1
	if first.Replicas != 2 || first.ReadyReplicas != 1 || first.DesiredReplicas != 2 || first.Phase != v1alpha1.PoolProgressing {
		t.Errorf("status %+v, want 1 of 2 ready", first)
	}
	now = now.Add(time.Hour)
	if diff := cmp.Diff(first, pass()); diff != "" || writes != 1 {
		t.Errorf("%d writes for one change; status (-before +after):\n%s", writes, diff)
	}

	blocked = holdup{text: "a waits"}
	if got := pass(); got.BlockedBy != blocked.text || writes != 2 {
		t.Errorf("blocked by %q after %d writes", got.BlockedBy, writes)
	}
	blocked = holdup{}
	if got := pass(); got.BlockedBy != "" || writes != 3 {
		t.Errorf("blocked by %q after %d writes", got.BlockedBy, writes)
	}
	writes = 1

	// The times of conditions tell of changes of their status and of nothing else.
	var instance v1alpha1.WindowsInstance
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "b"}, &instance); err != nil {
		t.Fatal(err)
	}
	failed(&instance)
	if err := c.Status().Update(t.Context(), &instance); err != nil {
		t.Fatal(err)
	}
	second := pass()
	if writes != 2 || second.Phase != v1alpha1.PoolDegraded {
		t.Errorf("%d writes, phase %s, want 2, Degraded", writes, second.Phase)
	}
	changed := func(conditionType string) bool {
		before, after := meta.FindStatusCondition(first.Conditions, conditionType), meta.FindStatusCondition(second.Conditions, conditionType)
		return !before.LastTransitionTime.Equal(&after.LastTransitionTime)
	}
	if !changed(v1alpha1.ConditionDegraded) || changed(v1alpha1.ConditionPaused) {
		t.Errorf("want a new time for Degraded only:\nbefore %+v\nafter %+v", first.Conditions, second.Conditions)
	}

	if err := c.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Errorf("a pool that is gone: %v", err)
	}
}

// TestReconcileAfterAChange: a pool whose template was changed is not updated because its hosts have what they had: they learn of it a moment later.
// A change that costs nothing is over soon after that, and one who begins to look at the pool changes nothing of what is known.
func TestReconcileAfterAChange(t *testing.T) {
	f, before, _ := undonePool(t)
	look := func() (updated metav1.ConditionStatus, generation int64) {
		t.Helper()
		key, pool := client.ObjectKey{Namespace: "ns", Name: "p"}, &v1alpha1.WindowsNodePool{}
		if _, err := f.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		if err := f.client.Get(t.Context(), key, pool); err != nil {
			t.Fatal(err)
		}
		c, updating := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionUpdated), meta.IsStatusConditionTrue(pool.Status.Conditions, v1alpha1.ConditionUpdating)
		if updating != (c.Status == metav1.ConditionFalse) {
			t.Errorf("it is being updated: %v, and Updated is %+v", updating, c)
		}
		return c.Status, c.ObservedGeneration - pool.Generation
	}
	change := func(edit func(*v1alpha1.WindowsNodePool)) {
		t.Helper()
		pool := &v1alpha1.WindowsNodePool{}
		if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "p"}, pool); err != nil {
			t.Fatal(err)
		}
		edit(pool)
		pool.Generation++
		if err := f.client.Update(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
	}
	settles := func(what string) {
		t.Helper()
		for _, after := range []time.Duration{0, gatherTime, settleTime - gatherTime} {
			f.time = f.time.Add(after)
			want := metav1.ConditionFalse
			if after > gatherTime {
				want = metav1.ConditionTrue
			}
			if got, behind := look(); got != want || behind != 0 {
				t.Errorf("%s: Updated is %s of a generation %d older, want %s", what, got, behind, want)
			}
		}
	}
	f.seen = map[types.NamespacedName]revisionSeen{} // another process
	if got, _ := look(); got != metav1.ConditionTrue {
		t.Errorf("a process begins, and Updated is %s", got)
	}
	f.time = f.time.Add(settleTime)
	change(func(pool *v1alpha1.WindowsNodePool) { pool.Spec.UpdateStrategy.Type = v1alpha1.OnRequest })
	if got, behind := look(); got != metav1.ConditionTrue || behind != 0 {
		t.Errorf("the strategy was changed, and Updated is %s", got)
	}
	change(func(pool *v1alpha1.WindowsNodePool) { pool.Spec.Template.NodeLabels = map[string]string{"a": "b"} })
	settles("another template")
	change(func(pool *v1alpha1.WindowsNodePool) { pool.Spec.Template.NodeLabels = nil })
	settles("the same as before")
	f.undoes(&v1alpha1.PoolUndo{Revision: f.pass().Status.UpdateRevision, To: before, RequestedBy: "alice", RequestedAt: new(metav1.NewTime(f.time))})
	workWith(t, f.client, before, "a", "b")
	f.pass()
	change(func(pool *v1alpha1.WindowsNodePool) { pool.Spec.UpdateStrategy.RollingUpdate.Undo = nil })
	settles("what was undone")
	pool := &v1alpha1.WindowsNodePool{}
	if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "p"}, pool); err != nil {
		t.Fatal(err)
	}
	pool.Status.RolledBack = &v1alpha1.PoolRollback{Revision: pool.Status.UpdateRevision, To: before, Time: metav1.NewTime(f.time), Instances: []string{"a"}}
	if err := f.client.Status().Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	f.pass()
	f.time = f.time.Add(settleTime)
	change(func(pool *v1alpha1.WindowsNodePool) {
		pool.Spec.UpdateStrategy.RollingUpdate.ResumedAt = new(metav1.NewTime(f.time))
	})
	settles("what was rolled back")
}

// workWith has instances say that their hosts work with a revision of their pool.
func workWith(t *testing.T, c client.Client, revision string, names ...string) {
	t.Helper()
	for _, name := range names {
		i := &v1alpha1.WindowsInstance{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, i); err != nil {
			t.Fatal(err)
		}
		i.Status.PoolRevision = revision
		if err := c.Status().Update(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReconcileSaysWhatIsNotKept: while the API server refuses the revision of a corrected template, the pool says so, and the attempt is
// repeated.
func TestReconcileSaysWhatIsNotKept(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}}
	full := true
	c := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&v1alpha1.WindowsInstance{}, object.PoolIndex, object.IndexPool).
		WithTypeConverters(applyconfiguration.NewTypeConverter(scheme), managedfields.NewDeducedTypeConverter()).
		WithStatusSubresource(&v1alpha1.WindowsNodePool{}).WithReturnManagedFields().WithObjects(pool).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if full {
					return apierrors.NewForbidden(schema.GroupResource{Group: appsv1.GroupName, Resource: "controllerrevisions"}, o.GetName(), errors.New("exceeded quota: q"))
				}
				return c.Create(ctx, o, opts...)
			},
		}).Build()
	r := &Reconciler{
		client: c, applier: &apply.Applier{Client: c, Live: c, FieldManager: fieldManager}, now: time.Now,
		blockedBy: func(poolKey) holdup { return holdup{} }, seen: map[types.NamespacedName]revisionSeen{}, reporter: message.NewReporter(&record.FakeRecorder{}, scheme),
	}
	for _, full = range []bool{true, false} {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pool)})
		var got v1alpha1.WindowsNodePool
		if getErr := c.Get(t.Context(), client.ObjectKeyFromObject(pool), &got); getErr != nil {
			t.Fatal(getErr)
		}
		degraded := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionDegraded)
		if (err != nil) != full || degraded == nil || (degraded.Reason == v1alpha1.ReasonRevisionNotKept) != full || strings.Contains(degraded.Message, "exceeded quota: q") != full {
			t.Errorf("no room: %t; got %v and %+v", full, err, degraded)
		}
	}
}
