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
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
)

// TestDeletedRevisions: somebody deletes what hosts have or go back to, and it is made again as it was. What nobody needs stays deleted.
func TestDeletedRevisions(t *testing.T) {
	k := newKeeper(t)
	told := func(want ...string) {
		t.Helper()
		if len(k.events.Events) != len(want) {
			t.Errorf("it tells %d times, want %q", len(k.events.Events), want)
		}
		for len(k.events.Events) > 0 {
			if event := <-k.events.Events; len(want) == 0 || !strings.HasPrefix(event, "Warning "+eventNotRestored+" ") || !strings.Contains(event, want[0]) {
				t.Errorf("it tells %q, want %q", event, want)
			}
		}
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	watched := remembersDeleted{handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: metav1.GetControllerOf(o).Name}}}
	}), k.Reconciler}
	remove := func(deleted *appsv1.ControllerRevision) {
		t.Helper()
		if err := client.IgnoreNotFound(k.c.Delete(t.Context(), deleted)); err != nil {
			t.Fatal(err)
		}
		watched.Delete(t.Context(), event.DeleteEvent{Object: deleted}, queue)
	}

	has, hadBefore, worked, old, newest := k.keep("1").Name, k.keep("2").Name, k.keep("3").Name, k.keep("4").Name, k.keep("5").Name
	noted := k.read(worked)
	noted.Annotations = map[string]string{v1alpha1.UndoOverAnnotation: "2026-03-01T12:00:00Z"}
	if err := k.c.Update(t.Context(), noted); err != nil {
		t.Fatal(err)
	}
	k.pool.Status.WorkedRevisions = []string{worked}
	k.instances = []*v1alpha1.WindowsInstance{{Status: v1alpha1.WindowsInstanceStatus{PoolRevision: has, PreviousPoolRevision: hadBefore}}}
	// One that somebody had made by hand, for programs of their own, and one of a pool that had the name before.
	forged := newRevision(k.pool, hadBefore, []byte(`{"spec":{"template":{"nodeLabels":{"rack":"6"}}}}`), 2)
	former := k.read(has)
	former.OwnerReferences[0].UID = "former"

	for _, name := range []string{has, hadBefore, worked, old} {
		remove(k.read(name))
	}
	remove(forged)
	remove(former)
	if queue.Len() != 1 {
		t.Errorf("%d pools are looked at", queue.Len())
	}
	k.refused = apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), has, errors.New("exceeded quota"))
	if again := k.restoreRevisions(t.Context(), k.pool, k.instances); again != restoreAgain {
		t.Errorf("it is refused, and tried again after %s", again)
	}
	told("exceeded quota")
	if again := k.restoreRevisions(t.Context(), k.pool, k.instances); again != restoreAgain {
		t.Errorf("it is refused again, and tried again after %s", again)
	}
	told() // once
	k.refused = apierrors.NewServerTimeout(appsv1.Resource("controllerrevisions"), "create", 1)
	if again := k.restoreRevisions(t.Context(), k.pool, k.instances); again != restoreAgain {
		t.Errorf("nobody answers, and it is tried again after %s", again)
	}
	told()
	k.refused = nil
	k.restore()
	for number, name := range []string{has, hadBefore, worked} {
		kept, err := k.kept(t.Context(), k.pool, name)
		if found := k.read(name); err != nil || kept == nil || found.Revision != int64(number+1) {
			t.Errorf("revision %d is %+v: %v", number+1, found, err)
		}
	}
	if got := k.read(worked); got.Annotations[v1alpha1.UndoOverAnnotation] == "" {
		t.Errorf("what was noted in it is lost: %+v", got)
	}
	if got := k.read(old); got != nil {
		t.Errorf("nobody needs %+v", got)
	}
	// That of now keeps its number as well, before any host has it.
	remove(k.read(newest))
	k.restore()
	if got := k.read(newest); got == nil || got.Revision != 5 {
		t.Errorf("the newest is %+v", got)
	}
	// It may be there again already.
	watched.Delete(t.Context(), event.DeleteEvent{Object: k.read(newest)}, queue)
	k.restore()
	// Somebody has removed its label, with which it is deleted for those who watch it, or given it that of another pool.
	for _, labels := range []map[string]string{nil, {v1alpha1.PoolLabel: "other", "theirs": "x"}} {
		labeled := k.read(worked)
		unlabeled := labeled.DeepCopy()
		unlabeled.Labels = labels
		if err := k.c.Update(t.Context(), unlabeled); err != nil {
			t.Fatal(err)
		}
		if labels == nil {
			watched.Delete(t.Context(), event.DeleteEvent{Object: labeled}, queue)
		} else {
			watched.Update(t.Context(), event.UpdateEvent{ObjectOld: labeled, ObjectNew: trimmed(unlabeled)}, queue)
		}
		k.restore()
		if got := k.read(worked); got.Labels[v1alpha1.PoolLabel] != "p" || got.Labels["theirs"] != labels["theirs"] || got.Revision != 3 || got.Annotations[v1alpha1.UndoOverAnnotation] == "" {
			t.Errorf("it had the labels %v, and is %+v", labels, got)
		}
	}
	told()
	// Another one has got its number meanwhile.
	lost := k.read(worked)
	remove(lost)
	taken := k.read(hadBefore)
	taken.Revision = lost.Revision
	if err := k.c.Update(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	k.restore()
	if got := k.read(worked); got.Revision != 2 {
		t.Errorf("its number %d was taken, and it has %d", lost.Revision, got.Revision)
	}
	// Somebody has made another one of its name.
	kept := k.read(worked)
	remove(k.read(worked))
	other := newRevision(k.pool, worked, []byte("{}"), 3)
	if err := k.c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if again := k.restoreRevisions(t.Context(), k.pool, k.instances); again != restoreAgain {
		t.Errorf("there is another one, and it is tried again after %s", again)
	}
	told("kubectl delete controllerrevisions.apps " + worked + " -n ns")
	if err := k.c.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	k.restore()
	if got := k.read(worked); got == nil || !bytes.Equal(got.Data.Raw, kept.Data.Raw) {
		t.Errorf("got %+v", got)
	}
	// What is of no pool is not remembered: nobody would look at it again.
	for _, owner := range []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "u", Controller: new(true)},
		{APIVersion: v1alpha1.GroupName + "/v9", Kind: "WindowsNodePool", Name: "p", UID: "uid", Controller: new(true)},
	} {
		foreign := newRevision(k.pool, "x-1", []byte("{}"), 1)
		foreign.OwnerReferences = []metav1.OwnerReference{owner}
		if k.rememberDeleted(t.Context(), foreign); len(k.deleted) != 0 {
			t.Errorf("it remembers %v", k.deleted)
		}
	}
	for n := range maxDeleted + 1 {
		other := revision.Revision{Template: v1alpha1.PoolTemplate{NodeLabels: map[string]string{"rack": fmt.Sprint(n)}}}
		data, err := other.Encode()
		if err != nil {
			t.Fatal(err)
		}
		k.rememberDeleted(t.Context(), newRevision(k.pool, revision.Name(k.pool, data), data, 1))
	}
	if got := len(k.deleted[client.ObjectKeyFromObject(k.pool)]); got != maxDeleted {
		t.Errorf("it remembers %d", got)
	}
	needed := newRevision(k.pool, worked, kept.Data.Raw, 3)
	stored := &v1alpha1.WindowsNodePool{}
	if err := k.c.Get(t.Context(), client.ObjectKeyFromObject(k.pool), stored); err != nil {
		t.Fatal(err)
	}
	stored.Status.CurrentRevision = worked
	if err := k.c.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	if k.rememberDeleted(t.Context(), needed); k.deleted[client.ObjectKeyFromObject(k.pool)][worked] == nil {
		t.Error("what others have made and deleted keeps it from what the pool goes back to")
	}
	if k.forget(client.ObjectKeyFromObject(k.pool)); len(k.deleted) != 0 {
		t.Errorf("the pool is gone, and it remembers %v", k.deleted)
	}
}
