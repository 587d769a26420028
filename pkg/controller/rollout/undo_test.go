// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
)

// undonePool is a pool whose hosts a and b worked with one revision, and work with another one now, as host c does, which is new.
func undonePool(t *testing.T) (f *rollbackPool, before, now string) {
	t.Helper()
	f = newRollbackPool(t, "a", "b", "c")
	f.payloadOf("1")
	f.goesBack = func(document.Payload) (string, bool, bool) { return "", false, true }
	before = f.pass().Status.UpdateRevision
	workWith(t, f.client, before, "a", "b", "c")
	f.pass()
	f.payloadOf("2")
	f.want(13)
	now = f.pass().Status.UpdateRevision
	workWith(t, f.client, now, "a", "b", "c")
	for _, name := range []string{"a", "b", "c"} {
		f.host(name, func(i *v1alpha1.WindowsInstance) {
			i.Status.CurrentRevision = i.Status.DesiredRevision
			if name != "c" { // which is new
				i.Status.PreviousPoolRevision = before
			}
		})
	}
	if got := f.pass().Status; got.CurrentRevision != now || !slices.Equal(got.WorkedRevisions, []string{before, now}) {
		t.Fatalf("%s and %s worked: %+v", before, now, got)
	}
	return f, before, now
}

// payloadOf gives hosts other programs.
func (f *rollbackPool) payloadOf(digit string) {
	f.payload = func() (document.Payload, bool) {
		return document.Payload{Files: []document.PayloadFile{{Name: "kubelet.exe", Path: `C:\k\kubelet.exe`, Version: "v1.36." + digit, SHA256: strings.Repeat(digit, 64)}}}, true
	}
}

// undoes has somebody ask for a revision to be undone, as the API records it.
func (f *rollbackPool) undoes(undo *v1alpha1.PoolUndo) *v1alpha1.WindowsNodePool {
	f.Helper()
	pool := f.pass()
	if undo != nil && undo.RequestedAt == nil {
		undo.RequestedBy, undo.RequestedAt = "alice", new(metav1.NewTime(f.time))
	}
	pool.Spec.UpdateStrategy.RollingUpdate.Undo = undo
	pool.Generation++
	if err := f.client.Update(f.Context(), pool); err != nil {
		f.Fatal(err)
	}
	return f.pass()
}

// TestUndo: all hosts that can go back do, the pool says so until somebody resumes it or it has another template, and nothing goes back to
// what was undone.
func TestUndo(t *testing.T) {
	f, before, now := undonePool(t)
	pool := f.undoes(&v1alpha1.PoolUndo{Revision: now, To: before, Reason: "pods\nhang"})
	back := pool.Status.RolledBack
	at := pool.Spec.UpdateStrategy.RollingUpdate.Undo.RequestedAt.UTC().Format("2006-01-02T15:04:05Z")
	if back == nil || back.Revision != now || back.To != before || back.RequestedBy != "alice" || !slices.Equal(back.WithoutPrograms, []string{"c"}) ||
		back.Message != "Pinned to revision 1 ("+before+") since "+at+" by alice: pods hang." {
		t.Fatalf("%s is undone: %+v", now, back)
	}
	if s := pool.Status; s.CurrentRevision != before || !slices.Equal(s.WorkedRevisions, []string{before}) || s.UpdatedReplicas != 0 {
		t.Errorf("status %+v", s)
	}
	if event := <-f.events.Events; !strings.Contains(event, "Normal Undone Pinned to revision 1") || len(f.events.Events) > 0 {
		t.Errorf("event %q, and %d more", event, len(f.events.Events))
	}
	for name, want := range map[string]string{"a": before, "b": before, "c": ""} {
		if got := revision.BackTo(f.host(name), pool, now); got != want {
			t.Errorf("%s is to have %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"a", "b"} {
		f.host(name, func(i *v1alpha1.WindowsInstance) {
			i.Status = hadRevision(name, before).Status
			i.Status.CurrentRevision, i.Status.DesiredRevision = before, before
		})
	}
	pool = f.pass()
	updated := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionUpdated)
	if pool.Status.UpdatedReplicas != 2 || updated.Reason != v1alpha1.ReasonUndone || updated.Status != metav1.ConditionFalse ||
		!strings.Contains(updated.Message, "2 of 3 hosts of the pool have gone back. Pinned to revision 1 (") || !strings.Contains(updated.Message, "cannot go back to "+before+", for example because neither they nor windows-controller have its programs, and keep the revision they worked with last: c.") || !strings.Contains(updated.Message, "kubectl windows rollout resume p -n ns") {
		t.Errorf("%d are back: %+v", pool.Status.UpdatedReplicas, updated)
	}
	if meta.IsStatusConditionTrue(pool.Status.Conditions, v1alpha1.ConditionDegraded) {
		t.Error("it is degraded")
	}
	// What it needs comes back.
	f.goesBack = func(document.Payload) (string, bool, bool) { return "", true, true }
	f.host("c", func(i *v1alpha1.WindowsInstance) {
		i.Status = hadRevision("c", before).Status
		i.Status.CurrentRevision, i.Status.DesiredRevision = before, before
	})
	pool = f.pass()
	if updated := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionUpdated); updated.Status != metav1.ConditionTrue || updated.Reason != v1alpha1.ReasonUndone || pool.Status.RolledBack.WithoutPrograms != nil {
		t.Errorf("all are back: %+v", updated)
	}

	resumed := f.pass()
	resumed.Spec.UpdateStrategy.RollingUpdate.ResumedAt = new(back.Time)
	if err := f.client.Update(t.Context(), resumed); err != nil {
		t.Fatal(err)
	}
	if got := f.pass().Status; got.RolledBack != nil || got.CurrentRevision != before || !slices.Equal(got.WorkedRevisions, []string{before}) {
		t.Errorf("it is resumed: %+v", got)
	}
	f.time = f.time.Add(settleTime)
	if pool = f.undoes(&v1alpha1.PoolUndo{Revision: now, To: before}); !pool.Status.RolledBack.ByPerson() {
		t.Errorf("it is undone again: %+v", pool.Status)
	}
	if f.want(14); f.pass().Status.RolledBack != nil {
		t.Error("it has another template, and something is undone")
	}
}

// TestUndoRefused: what the controller has not recorded as working, what is not kept as it was, and what no host can have, is not gone back
// to, and the pool says why.
func TestUndoRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(f *rollbackPool, undo *v1alpha1.PoolUndo)
		want string // empty: it is not refused, and nothing happens
	}{
		{"it did not work", func(f *rollbackPool, undo *v1alpha1.PoolUndo) {
			pool := f.pass()
			pool.Status.WorkedRevisions = []string{undo.Revision}
			if err := f.client.Status().Update(f.Context(), pool); err != nil {
				f.Fatal(err)
			}
		}, "is none that all hosts of the pool worked with"},
		{"somebody has changed it", func(f *rollbackPool, undo *v1alpha1.PoolUndo) {
			kept := &appsv1.ControllerRevision{}
			if err := f.client.Get(f.Context(), client.ObjectKey{Namespace: "ns", Name: undo.To}, kept); err != nil {
				f.Fatal(err)
			}
			kept.Data.Raw = []byte(strings.ReplaceAll(string(kept.Data.Raw), "1111", "2222"))
			if err := f.client.Update(f.Context(), kept); err != nil {
				f.Fatal(err)
			}
		}, "no longer exists as it was kept"},
		{"its kubelet is too old", func(f *rollbackPool, _ *v1alpha1.PoolUndo) {
			f.goesBack = func(document.Payload) (string, bool, bool) { return "its kubelet is too old", false, true }
		}, "Its kubelet is too old."},
		{"nobody has its programs", func(f *rollbackPool, _ *v1alpha1.PoolUndo) {
			for _, name := range []string{"a", "b"} {
				f.host(name, func(i *v1alpha1.WindowsInstance) { i.Status.PreviousPoolRevision = "" })
			}
		}, "Neither the hosts nor windows-controller have the programs"},
		{"the cluster was not read yet", func(f *rollbackPool, _ *v1alpha1.PoolUndo) {
			f.goesBack = func(document.Payload) (string, bool, bool) { return "", false, false }
		}, ""},
		{"it is about another revision", func(_ *rollbackPool, undo *v1alpha1.PoolUndo) { undo.Revision = "p-0" }, ""},
		{"nobody has asked", func(_ *rollbackPool, undo *v1alpha1.PoolUndo) { undo.RequestedAt = &metav1.Time{} }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, before, now := undonePool(t)
			undo := &v1alpha1.PoolUndo{Revision: now, To: before}
			tt.edit(f, undo)
			pool := f.undoes(undo)
			c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionDegraded)
			if pool.Status.RolledBack != nil || (c.Reason == v1alpha1.ReasonUndoRefused) != (tt.want != "") || !strings.Contains(c.Message, tt.want) {
				t.Errorf("undone %+v, %s", pool.Status.RolledBack, c.Message)
			}
			if tt.want != "" && (c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, `kubectl patch wnp p -n ns --type=merge -p '{"spec":{"updateStrategy":{"rollingUpdate":{"undo":null}}}}'`)) {
				t.Errorf("it says %+v", c)
			}
		})
	}
}

// TestUndoStays: what was accepted holds while the cluster cannot be read and when its revision is gone, whose absence the hosts tell of.
func TestUndoStays(t *testing.T) {
	f, before, now := undonePool(t)
	want := f.undoes(&v1alpha1.PoolUndo{Revision: now, To: before}).Status.RolledBack
	f.host("a", func(i *v1alpha1.WindowsInstance) {
		i.Status = hadRevision("a", before).Status
		i.Status.CurrentRevision, i.Status.DesiredRevision = before, before
	})
	f.goesBack = func(document.Payload) (string, bool, bool) { return "its kubelet is too old", true, true }
	pool := f.pass()
	if got := pool.Status; got.RolledBack == nil || !got.RolledBack.Time.Equal(&want.Time) || !slices.Equal(got.RolledBack.WithoutPrograms, []string{"b", "c"}) ||
		!strings.Contains(meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionDegraded).Message, "can no longer go back to it: Its kubelet is too old. Hosts that have gone back keep it") {
		t.Errorf("the API servers are newer: %+v", got)
	}
	for name, want := range map[string]string{"a": before, "b": "", "c": ""} { // those on their way back turn round
		if got := revision.BackTo(f.host(name), pool, now); got != want {
			t.Errorf("%s is to have %q, want %q", name, got, want)
		}
	}
	f.goesBack = func(document.Payload) (string, bool, bool) { return "", false, true }
	if got := f.pass().Status; !slices.Equal(got.RolledBack.WithoutPrograms, []string{"c"}) || meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionDegraded) {
		t.Errorf("they are not any more: %+v", got)
	}
	f.goesBack = func(document.Payload) (string, bool, bool) { return "", false, false }
	if got := f.pass().Status.RolledBack; got == nil || !slices.Equal(got.WithoutPrograms, want.WithoutPrograms) {
		t.Errorf("the cluster is not read: %+v", got)
	}
	for _, name := range []string{now, before} {
		kept := &appsv1.ControllerRevision{}
		kept.Namespace, kept.Name = "ns", name
		if err := f.client.Delete(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
		f.pass()
		if got := f.pass().Status.RolledBack; !got.ByPerson() {
			t.Errorf("ControllerRevision %s is gone: %+v", name, got)
		}
	}
	for len(f.events.Events) > 0 {
		<-f.events.Events
	}
	if f.undoes(nil).Status.RolledBack != nil {
		t.Error("nobody asks for it any more, and it is undone")
	}
	f.pass()
	if event := <-f.events.Events; event != "Normal RollbackEnded Hosts get revision "+now+" again, which alice had undone." || len(f.events.Events) > 0 {
		t.Errorf("event %q, and %d more", event, len(f.events.Events))
	}
}

// TestDescribeRollbackEnd: whoever looks at a pool learns that hosts get again what was kept from them, or what follows it.
func TestDescribeRollbackEnd(t *testing.T) {
	broke := &v1alpha1.PoolRollback{Revision: "p-2", To: "p-1"}
	for newest, want := range map[string]string{
		"p-2": "Hosts get revision p-2 again, which was rolled back because it broke hosts.",
		"p-3": "Hosts get revision p-3, as the template or the payload was changed. It follows revision p-2, which was rolled back because it broke hosts.",
	} {
		if got := describeRollbackEnd(broke, newest); got != want {
			t.Errorf("%s: %s", newest, got)
		}
	}
}

// TestUndoIsOver: a request that has ended by another template, or by other programs, does not come alive when the pool has that revision
// again, though it is still in the spec. Another one does.
func TestUndoIsOver(t *testing.T) {
	for _, tt := range []struct {
		name string
		// away gives the pool another revision, and again the one that was undone.
		away, again func(f *rollbackPool)
		forgotten   bool
	}{
		{"another template", func(f *rollbackPool) { f.want(14) }, func(f *rollbackPool) { f.want(13) }, false},
		{"other programs", func(f *rollbackPool) { f.payloadOf("3") }, func(f *rollbackPool) { f.payloadOf("2") }, false},
		{"its ControllerRevision was deleted meanwhile", func(f *rollbackPool) { f.want(14) }, func(f *rollbackPool) { f.want(13) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, before, now := undonePool(t)
			if !f.undoes(&v1alpha1.PoolUndo{Revision: now, To: before}).Status.RolledBack.ByPerson() {
				t.Fatal("it is not undone")
			}
			tt.away(f)
			if got := f.pass().Status; got.UpdateRevision == now || got.RolledBack != nil {
				t.Fatalf("the pool has another revision: %+v", got)
			}
			if tt.forgotten {
				kept := &appsv1.ControllerRevision{}
				kept.Namespace, kept.Name = "ns", now
				if err := f.client.Delete(t.Context(), kept); err != nil {
					t.Fatal(err)
				}
			}
			tt.again(f)
			pool := f.pass()
			if got := pool.Status; got.UpdateRevision != now || got.RolledBack != nil || pool.Undo(now) == nil || meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionDegraded) {
				t.Fatalf("the pool has it again: %+v", got)
			}
			kept := &appsv1.ControllerRevision{}
			kept.Namespace, kept.Name = "ns", now
			if err := f.client.Delete(t.Context(), kept); err != nil {
				t.Fatal(err)
			}
			f.pass()
			if got := f.pass().Status; got.RolledBack != nil || f.client.Get(t.Context(), client.ObjectKeyFromObject(kept), kept) != nil {
				t.Fatalf("its ControllerRevision was deleted while the pool had it again: %+v", got)
			}
			f.time = f.time.Add(settleTime)
			if !f.undoes(&v1alpha1.PoolUndo{Revision: now, To: before}).Status.RolledBack.ByPerson() {
				t.Error("somebody asks for it again, and it is not undone")
			}
		})
	}
}

// TestUndoneTwice: a second request that is not accepted, or not known to be yet, does not give hosts again what was undone.
func TestUndoneTwice(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(f *rollbackPool, undo *v1alpha1.PoolUndo)
		want string // empty: nothing is refused
		// keep are those that keep what they have.
		keep []string
	}{
		{"nobody has its programs", func(f *rollbackPool, undo *v1alpha1.PoolUndo) {
			pool := f.pass()
			older := revision.Of(pool, document.Payload{Files: []document.PayloadFile{{Name: "kubelet.exe", Path: `C:\k\kubelet.exe`, SHA256: strings.Repeat("9", 64)}}})
			data, err := older.Encode()
			if err != nil {
				f.Fatal(err)
			}
			undo.To = revision.Name(pool, data)
			if err := f.client.Create(f.Context(), newRevision(pool, undo.To, data, 9)); err != nil {
				f.Fatal(err)
			}
			pool.Status.WorkedRevisions = append([]string{undo.To}, pool.Status.WorkedRevisions...)
			if err := f.client.Status().Update(f.Context(), pool); err != nil {
				f.Fatal(err)
			}
		}, "Neither the hosts nor windows-controller have the programs", []string{"c"}},
		{"it did not work", func(_ *rollbackPool, undo *v1alpha1.PoolUndo) { undo.To = "p-0" }, "is none that all hosts of the pool worked with", []string{"c"}},
		{"its kubelet is too old", func(f *rollbackPool, _ *v1alpha1.PoolUndo) {
			f.goesBack = func(document.Payload) (string, bool, bool) { return "its kubelet is too old", false, true }
		}, "Its kubelet is too old.", []string{"a", "b", "c"}}, // so is that of the first one
		{"the cluster was not read yet", func(f *rollbackPool, _ *v1alpha1.PoolUndo) {
			f.goesBack = func(document.Payload) (string, bool, bool) { return "", false, false }
		}, "", []string{"c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, before, now := undonePool(t)
			first := f.undoes(&v1alpha1.PoolUndo{Revision: now, To: before}).Status.RolledBack
			f.time = f.time.Add(settleTime)
			undo := &v1alpha1.PoolUndo{Revision: now, To: before, Reason: "pods hang"}
			tt.edit(f, undo)
			pool := f.undoes(undo)
			if got := pool.Status.RolledBack; !got.ByPerson() || got.To != before || !got.Time.Equal(&first.Time) || !slices.Equal(got.WithoutPrograms, tt.keep) {
				t.Fatalf("the first one is %+v", got)
			}
			if got := revision.BackTo(f.host("a"), pool, now); got != before && !slices.Contains(tt.keep, "a") {
				t.Errorf("a is to have %q", got)
			}
			c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionDegraded)
			if (c.Reason == v1alpha1.ReasonUndoRefused) != (tt.want != "") || !strings.Contains(c.Message, tt.want) || tt.want != "" && !strings.Contains(c.Message, "stays undone as it was, to "+before) {
				t.Errorf("it says %+v", c)
			}
		})
	}
}

// TestResumedBreaksAgain: what somebody has undone and resumed is rolled back when an update with it fails on a host that went down with it before, and
// was not ready since; not on one that worked with it.
func TestResumedBreaksAgain(t *testing.T) {
	for _, tt := range []struct {
		name string
		// meanwhile is what becomes of the host between its update and the attempt that fails.
		meanwhile func(f *rollbackPool, worked, newest string)
		rollsBack bool
	}{
		{"its Node is down since it got it", func(f *rollbackPool, worked, newest string) {
			f.host("a", goesDown(f.time))
			f.undoes(&v1alpha1.PoolUndo{Revision: newest, To: worked})
			f.resumes()
		}, true},
		{"it could not go back", func(f *rollbackPool, worked, newest string) {
			f.host("a", goesDown(f.time))
			f.undoes(&v1alpha1.PoolUndo{Revision: newest, To: worked})
			f.host("a", triedAgain, func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "r-0" }, breaksAt(f.time))
			f.resumes()
			f.host("a", func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "r-13" })
		}, true},
		{"somebody tries again at once, and nobody has undone it", func(f *rollbackPool, _, _ string) { f.host("a", goesDown(f.time)) }, true},
		{"its Node was ready again", func(f *rollbackPool, worked, newest string) {
			f.host("a", goesDown(f.time))
			f.undoes(&v1alpha1.PoolUndo{Revision: newest, To: worked})
			f.resumes()
			f.host("a", nodeDownSince(f.time.Add(downFor)))
		}, false},
		{"it went down hours after it got it", func(f *rollbackPool, worked, newest string) {
			f.host("a", goesDown(f.time), nodeDownSince(f.time.Add(2*blamedFor)))
			f.time = f.time.Add(2 * blamedFor)
			f.undoes(&v1alpha1.PoolUndo{Revision: newest, To: worked})
			f.resumes()
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newRollbackPool(t, "a", "b", "c")
			workWith(t, f.client, f.pass().Status.UpdateRevision, "a", "b", "c")
			worked := f.pass().Status.CurrentRevision
			f.want(13)
			newest := f.pass().Status.UpdateRevision
			workWith(t, f.client, newest, "a") // its Node was ready for a moment
			tt.meanwhile(f, worked, newest)
			f.time = f.time.Add(time.Minute)
			f.host("a", triedAgain, breaksAt(f.time))
			f.time = f.time.Add(downFor)
			back := f.pass().Status.RolledBack
			if tt.rollsBack != (back != nil) {
				t.Fatalf("rolled back is %+v", back)
			}
			if back != nil && (back.ByPerson() || back.Revision != newest || back.To != worked || !slices.Equal(back.Instances, []string{"a"}) || !strings.Contains(back.Message, "op-failed changed host a and failed")) {
				t.Errorf("rolled back is %+v", back)
			}
		})
	}
}

// resumes has somebody resume the pool, as the command does.
func (f *rollbackPool) resumes() {
	f.Helper()
	pool := f.pass()
	pool.Spec.UpdateStrategy.RollingUpdate.Undo, pool.Spec.UpdateStrategy.RollingUpdate.ResumedAt = nil, new(metav1.NewTime(f.time))
	if err := f.client.Update(f.Context(), pool); err != nil {
		f.Fatal(err)
	}
	if got := f.pass().Status.RolledBack; got != nil {
		f.Fatalf("it is resumed: %+v", got)
	}
}

// triedAgain has a host have another operation next.
func triedAgain(i *v1alpha1.WindowsInstance) {
	i.Status.History = append([]v1alpha1.Operation{*i.Status.Operation}, i.Status.History...)
}

// TestUndoOfARollback: hosts that were about to go back by themselves when somebody undoes the revision do so until they have.
func TestUndoOfARollback(t *testing.T) {
	f := newRollbackPool(t, "a", "b", "c")
	workWith(t, f.client, f.pass().Status.UpdateRevision, "a", "b", "c")
	worked := f.pass().Status.CurrentRevision
	f.want(13)
	newest := f.pass().Status.UpdateRevision
	workWith(t, f.client, newest, "a", "b")
	f.host("a", goesDown(f.time))
	f.host("b", goesDown(f.time))
	f.time = f.time.Add(downFor)
	back := f.pass().Status.RolledBack
	if back == nil || !slices.Equal(back.Instances, []string{"a", "b"}) {
		t.Fatalf("rolled back is %+v", back)
	}
	begins := func(i *v1alpha1.WindowsInstance) { // as the controller of instances records it
		i.Status.PoolRevision, i.Status.DesiredRevision = worked, "r-0"
		condition(v1alpha1.ConditionNodeReady, metav1.ConditionTrue, v1alpha1.ReasonNodeReady, 0)(i)
	}
	f.host("a", begins)
	f.host("b", begins, triedAgain, flaps(f.time)) // and is back
	f.time = f.time.Add(time.Minute)
	back = f.undoes(&v1alpha1.PoolUndo{Revision: newest, To: worked}).Status.RolledBack
	if !back.ByPerson() || !slices.Equal(back.Instances, []string{"a"}) {
		t.Fatalf("undone is %+v", back)
	}
	for name, want := range map[string]bool{"a": true, "b": false, "c": false} {
		if got := goesBack(f.host(name), back); got != want {
			t.Errorf("%s goes back: %v", name, got)
		}
	}
	f.time = f.time.Add(time.Minute)
	f.host("a", triedAgain, flaps(back.Time.Add(-time.Second)), func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation.FinishedAt, i.Status.CurrentRevision, i.Status.DesiredPoolRevision = new(metav1.NewTime(f.time)), i.Status.DesiredRevision, worked
	})
	if back = f.pass().Status.RolledBack; !back.ByPerson() || len(back.Instances) > 0 || goesBack(f.host("a"), back) {
		t.Errorf("all are back: %+v", back)
	}
}

// TestGoesBack: a host that is back gets its other updates as its pool says.
func TestGoesBack(t *testing.T) {
	back := &v1alpha1.PoolRollback{Revision: "p-2", To: "p-1", RequestedBy: "alice", WithoutPrograms: []string{"c"}}
	if !goesBack(hadRevision("a", "p-2"), back) || goesBack(hadRevision("b", "p-1"), back) || goesBack(hadRevision("c", "p-2"), back) || goesBack(hadRevision("a", "p-2"), nil) {
		t.Error("others go back")
	}
}

// TestDecideUndone: hosts go back within the bounds of their pool and its window, whatever canary and type say, and those that cannot say so.
func TestDecideUndone(t *testing.T) {
	pool := poolKey{"ns", "p"}
	of := func(name string, edit func(*host)) host {
		h := host{key: types.NamespacedName{Namespace: "ns", Name: name}, pool: pool, node: true, ready: true}
		edit(&h)
		return h
	}
	for _, tt := range []struct {
		name   string
		window *v1alpha1.MaintenanceWindow
		edit   func(broken *host)
		want   []string
	}{
		{"at any time", nil, nil, []string{"b"}},
		{"in a window", &v1alpha1.MaintenanceWindow{Schedule: "0 2 * * *", DurationSeconds: 3600}, nil, nil},
		{"a host is broken that cannot go back", nil, func(h *host) { h.keepsRevision = true }, []string{"b"}},
		{"a host is broken by going back", nil, func(*host) {}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			more := []host{}
			if tt.edit != nil {
				more = append(more, of("e", func(h *host) {
					h.broken = &v1alpha1.Operation{}
					tt.edit(h)
				}))
			}
			spec := v1alpha1.PoolUpdateStrategy{Type: v1alpha1.OnRequest, Window: tt.window}
			spec.RollingUpdate.Canary, spec.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1)), new(intstr.FromInt(1+len(more)))
			goesBack := func(h *host) { h.undoes, h.update, h.impact = true, true, v1alpha1.ImpactDrain }
			d := decide(state{
				now: rollbackStart, disruptions: 9, pools: map[poolKey]policy{pool: policyOf(&v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{UpdateStrategy: spec}}, 4)},
				hosts: append(more, of("a", func(h *host) { h.updated = true }), of("b", goesBack), of("c", goesBack), of("d", func(h *host) { h.updated, h.keepsRevision = true, true })),
			})
			var started []string
			for _, g := range d.start {
				started = append(started, g.key.Name)
			}
			if !slices.Equal(started, tt.want) {
				t.Errorf("started are %v, want %v", started, tt.want)
			}
			if why := d.waits[types.NamespacedName{Namespace: "ns", Name: "d"}]; why.kind != waitsForPrograms || !strings.Contains(why.describe(pool), "kubectl windows rollout resume p -n ns") {
				t.Errorf("d waits for %q", why.describe(pool))
			}
		})
	}
}
