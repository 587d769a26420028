// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
)

// TestDeletedRevisions: somebody deletes what hosts have or go back to, and it is made again as it was. What nobody needs stays deleted.
func TestDeletedRevisions(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}}
	var refused error
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if refused != nil {
				return refused
			}
			return c.Create(ctx, o, opts...)
		},
	}).WithIndex(&appsv1.ControllerRevision{}, metav1.ObjectNameField, byName).Build()
	events := record.NewFakeRecorder(10)
	r := &Reconciler{
		client: c, applier: &apply.Applier{Client: c, Live: c, FieldManager: fieldManager}, deleted: map[types.NamespacedName]map[string]*appsv1.ControllerRevision{},
		reporter: message.NewReporter(events, scheme),
	}
	told := func(want ...string) {
		t.Helper()
		if len(events.Events) != len(want) {
			t.Errorf("it tells %d times, want %q", len(events.Events), want)
		}
		for len(events.Events) > 0 {
			if event := <-events.Events; len(want) == 0 || !strings.HasPrefix(event, "Warning "+eventNotRestored+" ") || !strings.Contains(event, want[0]) {
				t.Errorf("it tells %q, want %q", event, want)
			}
		}
	}
	keep := func(rack string) string {
		t.Helper()
		pool.Spec.Template.NodeLabels = map[string]string{"rack": rack}
		name, err := r.keepRevision(t.Context(), pool, nil)
		if err != nil {
			t.Fatal(err)
		}
		pool.Status.UpdateRevision = name
		return name
	}
	read := func(name string) *appsv1.ControllerRevision {
		t.Helper()
		found := &appsv1.ControllerRevision{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, found); apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			t.Fatal(err)
		}
		return found
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	watched := remembersDeleted{handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: metav1.GetControllerOf(o).Name}}}
	}), r}
	remove := func(deleted *appsv1.ControllerRevision) {
		t.Helper()
		if err := client.IgnoreNotFound(c.Delete(t.Context(), deleted)); err != nil {
			t.Fatal(err)
		}
		watched.Delete(t.Context(), event.DeleteEvent{Object: deleted}, queue)
	}

	has, hadBefore, worked, old, newest := keep("1"), keep("2"), keep("3"), keep("4"), keep("5")
	noted := read(worked)
	noted.Annotations = map[string]string{v1alpha1.UndoOverAnnotation: "2026-03-01T12:00:00Z"}
	if err := c.Update(t.Context(), noted); err != nil {
		t.Fatal(err)
	}
	pool.Status.WorkedRevisions = []string{worked}
	instances := []*v1alpha1.WindowsInstance{{Status: v1alpha1.WindowsInstanceStatus{PoolRevision: has, PreviousPoolRevision: hadBefore}}}
	// One that somebody had made by hand, for programs of their own, and one of a pool that had the name before.
	forged := newRevision(pool, hadBefore, []byte(`{"spec":{"template":{"nodeLabels":{"rack":"6"}}}}`), 2)
	former := read(has)
	former.OwnerReferences[0].UID = "former"

	for _, name := range []string{has, hadBefore, worked, old} {
		remove(read(name))
	}
	remove(forged)
	remove(former)
	if queue.Len() != 1 {
		t.Errorf("%d pools are looked at", queue.Len())
	}
	refused = apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), has, errors.New("exceeded quota"))
	if again := r.restoreRevisions(t.Context(), pool, instances); again != restoreAgain {
		t.Errorf("it is refused, and tried again after %s", again)
	}
	told("exceeded quota")
	if again := r.restoreRevisions(t.Context(), pool, instances); again != restoreAgain {
		t.Errorf("it is refused again, and tried again after %s", again)
	}
	told() // once
	refused = apierrors.NewServerTimeout(appsv1.Resource("controllerrevisions"), "create", 1)
	if again := r.restoreRevisions(t.Context(), pool, instances); again != restoreAgain {
		t.Errorf("nobody answers, and it is tried again after %s", again)
	}
	told()
	refused = nil
	restored := func() {
		t.Helper()
		if again := r.restoreRevisions(t.Context(), pool, instances); again != 0 || len(r.deleted) != 0 {
			t.Errorf("it remembers %v, and tries again after %s", r.deleted, again)
		}
	}
	restored()
	for number, name := range []string{has, hadBefore, worked} {
		kept, err := r.kept(t.Context(), pool, name)
		if found := read(name); err != nil || kept == nil || found.Revision != int64(number+1) {
			t.Errorf("revision %d is %+v: %v", number+1, found, err)
		}
	}
	if got := read(worked); got.Annotations[v1alpha1.UndoOverAnnotation] == "" {
		t.Errorf("what was noted in it is lost: %+v", got)
	}
	if got := read(old); got != nil {
		t.Errorf("nobody needs %+v", got)
	}
	// That of now keeps its number as well, before any host has it.
	remove(read(newest))
	restored()
	if got := read(newest); got == nil || got.Revision != 5 {
		t.Errorf("the newest is %+v", got)
	}
	// It may be there again already.
	watched.Delete(t.Context(), event.DeleteEvent{Object: read(newest)}, queue)
	restored()
	// Somebody has removed its label, or given it that of another pool, with which it is deleted for those who watch it.
	for _, labels := range []map[string]string{nil, {v1alpha1.PoolLabel: "other", "theirs": "x"}} {
		unlabeled := read(worked)
		unlabeled.Labels = labels
		if err := c.Update(t.Context(), unlabeled); err != nil {
			t.Fatal(err)
		}
		unlabeled.Labels = pool.RevisionLabels()
		watched.Delete(t.Context(), event.DeleteEvent{Object: unlabeled}, queue)
		restored()
		if got := read(worked); got.Labels[v1alpha1.PoolLabel] != "p" || got.Labels["theirs"] != labels["theirs"] || got.Revision != 3 || got.Annotations[v1alpha1.UndoOverAnnotation] == "" {
			t.Errorf("it had the labels %v, and is %+v", labels, got)
		}
	}
	told()
	// Somebody has made another one of its name.
	kept := read(worked)
	remove(read(worked))
	other := newRevision(pool, worked, []byte("{}"), 3)
	if err := c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if again := r.restoreRevisions(t.Context(), pool, instances); again != restoreAgain {
		t.Errorf("there is another one, and it is tried again after %s", again)
	}
	told("kubectl delete controllerrevisions.apps " + worked + " -n ns")
	if err := c.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	restored()
	if got := read(worked); got == nil || !bytes.Equal(got.Data.Raw, kept.Data.Raw) {
		t.Errorf("got %+v", got)
	}
	// What is of no pool is not remembered: nobody would look at it again.
	for _, owner := range []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "u", Controller: new(true)},
		{APIVersion: v1alpha1.GroupName + "/v9", Kind: "WindowsNodePool", Name: "p", UID: "uid", Controller: new(true)},
	} {
		foreign := newRevision(pool, "x-1", []byte("{}"), 1)
		foreign.OwnerReferences = []metav1.OwnerReference{owner}
		if r.rememberDeleted(foreign); len(r.deleted) != 0 {
			t.Errorf("it remembers %v", r.deleted)
		}
	}
	for n := range maxDeleted + 1 {
		other := revision.Revision{Template: v1alpha1.PoolTemplate{NodeLabels: map[string]string{"rack": fmt.Sprint(n)}}}
		data, err := other.Encode()
		if err != nil {
			t.Fatal(err)
		}
		r.rememberDeleted(newRevision(pool, revision.Name(pool, data), data, 1))
	}
	if got := len(r.deleted[client.ObjectKeyFromObject(pool)]); got != maxDeleted {
		t.Errorf("it remembers %d", got)
	}
	if r.forget(client.ObjectKeyFromObject(pool)); len(r.deleted) != 0 {
		t.Errorf("the pool is gone, and it remembers %v", r.deleted)
	}
}
