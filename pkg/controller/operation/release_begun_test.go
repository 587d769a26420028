// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// cancels has somebody request the end of the operation, which the process is told.
func (f *fixture) cancels(r *Reconciler) {
	f.t.Helper()
	f.edit(func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation.CancelRequestedAt, i.Status.Operation.CancelRequestedBy = new(metav1.NewTime(time.Now())), "bob"
	})
	f.reconcile(r)
}

// runs records one more operation, which a user asks for, and runs it.
func (f *fixture) runs(id string, t v1alpha1.OperationType) *v1alpha1.Operation {
	f.t.Helper()
	f.edit(func(i *v1alpha1.WindowsInstance) {
		o := v1alpha1.NewOperation(t, "x", v1alpha1.OriginUser, "alice", time.Now())
		o.ID = id
		if err := i.Status.Record(o); err != nil {
			f.t.Fatal(err)
		}
	})
	return f.finish()
}

// killedAt ends the process when it has recorded that the host is about to be asked, or right before that.
func (f *fixture) killedAt(recorded bool) {
	f.t.Helper()
	probe := releasing(f.t) // which of the writes that is
	at := 0
	found := false
	probe.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
		if !after && !found {
			at++
			found = i.Status.Operation.ReleaseBegun
		}
		return nil
	}
	probe.finish()
	f.interrupt(at, false)
	f.edit(func(i *v1alpha1.WindowsInstance) { i.Status.Operation.ReleaseBegun = recorded })
	if got := f.get().Status.Operation; got.ReleaseBegun != recorded || !got.Active() || f.host.released {
		f.t.Fatalf("after %d writes it is %+v, released %v", at, got, f.host.released)
	}
}

// TestReleaseBegun: that a release begins on the host is known before it does. It is taken back where the host was surely not changed, and
// in no other case: then the same completes it.
func TestReleaseBegun(t *testing.T) {
	t.Parallel()
	always := func(err error) func() error { return func() error { return err } }
	for name, tt := range map[string]struct {
		set func(*fixture)
		// run runs the operation. Nil: [fixture.finish].
		run   func(*fixture) *v1alpha1.Operation
		phase v1alpha1.OperationPhase
		begun bool
	}{
		"the host does not let WMCO in":         {set: func(f *fixture) { f.host.peer = &host.Peer{} }, phase: v1alpha1.OperationFailed},
		"the host is away before":               {set: func(f *fixture) { f.failWith("LoginBare", errRefusedPort) }, phase: v1alpha1.OperationFailed},
		"the host is never reached":             {set: func(f *fixture) { f.host.fail["Release"] = always(errRefusedPort) }, phase: v1alpha1.OperationFailed},
		"the host does not let us in any more":  {set: func(f *fixture) { f.host.fail["Release"] = always(errNoLogin) }, phase: v1alpha1.OperationFailed},
		"the host refuses":                      {set: func(f *fixture) { f.host.refuses = "it is locked" }, phase: v1alpha1.OperationFailed},
		"the host has begun and fails":          {set: func(f *fixture) { f.host.servicesFail = "access is denied" }, phase: v1alpha1.OperationFailed, begun: true},
		"no answer ever comes":                  {set: func(f *fixture) { f.host.fail["Release"] = always(errLost) }, phase: v1alpha1.OperationFailed, begun: true},
		"the answer is lost, and the host away": {set: func(f *fixture) { f.host.fail["Release"] = firstThen(errLost, errRefusedPort) }, phase: v1alpha1.OperationFailed, begun: true},
		"the answer is lost once":               {set: func(f *fixture) { f.host.fail["Release"] = firstThen(errLost, nil) }, phase: v1alpha1.OperationSucceeded},
		"its pool is gone": {set: func(f *fixture) {
			i := f.get()
			i.Spec.PoolRef = &v1alpha1.PoolReference{Name: "gone"}
			if err := f.raw.Update(f.t.Context(), i); err != nil {
				f.t.Fatal(err)
			}
		}, phase: v1alpha1.OperationSucceeded},
		"canceled before": {run: func(f *fixture) *v1alpha1.Operation {
			r, stop := f.process()
			defer stop()
			f.host.fail["LoginBare"] = func() error {
				f.cancels(r)
				return errRefusedPort
			}
			f.reconcile(r)
			return f.waitForEnd()
		}, phase: v1alpha1.OperationCanceled},
		"canceled while the host cannot be reached": {run: func(f *fixture) *v1alpha1.Operation {
			r, stop := f.process()
			defer stop()
			f.host.fail["Release"] = func() error {
				f.cancels(r)
				return errRefusedPort
			}
			f.reconcile(r)
			return f.waitForEnd()
		}, phase: v1alpha1.OperationFailed},
		"killed before it was recorded, and the host is away": {set: func(f *fixture) { f.killedAt(false); f.host.fail["Release"] = always(errRefusedPort) }, phase: v1alpha1.OperationFailed},
		"killed when it was recorded, and the host is away":   {set: func(f *fixture) { f.killedAt(true); f.host.fail["Release"] = always(errRefusedPort) }, phase: v1alpha1.OperationFailed, begun: true},
		"killed when it was recorded, and canceled": {set: func(f *fixture) { f.killedAt(true) }, run: func(f *fixture) *v1alpha1.Operation {
			f.edit(func(i *v1alpha1.WindowsInstance) {
				i.Status.Operation.CancelRequestedAt, i.Status.Operation.CancelRequestedBy = new(metav1.NewTime(time.Now())), "bob"
			})
			return f.finish()
		}, phase: v1alpha1.OperationCanceled, begun: true},
		"killed when it was recorded": {set: func(f *fixture) { f.killedAt(true) }, phase: v1alpha1.OperationSucceeded},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := releasing(t)
			if tt.set != nil {
				tt.set(f)
			}
			if tt.run == nil {
				tt.run = (*fixture).finish
			}
			op := tt.run(f)
			status := f.get().Status
			if op.Phase != tt.phase || op.ReleaseBegun != tt.begun || (status.ReleaseBegunBy() != nil) != tt.begun {
				t.Fatalf("it is %s: %s: %+v", op.Phase, op.Message, status)
			}
			says := strings.Contains(op.Message, "nothing configures it by itself: release it again: kubectl windows release win-1 -n windows-hosts; to keep it: kubectl windows reconfigure win-1 -n windows-hosts")
			if says != tt.begun || tt.phase != v1alpha1.OperationSucceeded && !tt.begun && !strings.HasSuffix(op.Message, "Nothing was changed.") {
				t.Errorf("it says %s", op.Message)
			}
			if tt.phase == v1alpha1.OperationSucceeded {
				f.checkReleased(op)
				return
			}
			if !status.MayHaveChangedHost() || status.ReleasedBy() != nil || !object.Ours(f.node()) {
				t.Errorf("the host is not ours any more: %+v", status)
			}
			clear(f.host.fail)
			f.host.servicesFail, f.host.refuses, f.host.peer = "", "", nil
			f.checkReleased(f.runs("op-2", v1alpha1.OperationRelease))
			if begun := f.get().Status.ReleaseBegunBy(); begun != nil {
				t.Errorf("nobody knows about %+v", begun)
			}
		})
	}
}

// firstThen gives an error the first time, and another one, or nil, then.
func firstThen(first, then error) func() error {
	asked := false
	return func() error {
		if !asked {
			asked = true
			return first
		}
		return then
	}
}

// TestReleaseIsUndone: who has a host configured that may have been released keeps it, also where there is nothing to change.
func TestReleaseIsUndone(t *testing.T) {
	t.Parallel()
	for name, nothing := range map[string]bool{"it was released": false, "it was not": true} {
		inBubble(t, name, func(t *testing.T) {
			f := releasing(t)
			f.host.fail["Release"] = func() error { return errLost }
			if op := f.finish(); !op.ReleaseBegun {
				t.Fatalf("it is %s: %s", op.Phase, op.Message)
			}
			clear(f.host.fail)
			if nothing {
				f.host.is, f.host.recorded = "new", "new" // as desired
			}
			op := f.runs("op-2", v1alpha1.OperationReconfigure)
			if status := f.get().Status; op.Phase != v1alpha1.OperationSucceeded || status.ReleaseBegunBy() != nil || !status.ChangedHost() {
				t.Errorf("it is %s: %s: %+v", op.Phase, op.Message, status)
			}
		})
	}
}

// TestRemoveWhatMayBeReleased: only the host knows whether its Node is ours to delete.
func TestRemoveWhatMayBeReleased(t *testing.T) {
	t.Parallel()
	for name, released := range map[string]bool{"it was": true, "it was not": false} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(removeOperation(), isBeingDeleted, func(i *v1alpha1.WindowsInstance) {
				i.Status.HostIP = "10.0.0.1"
				i.Status.History = []v1alpha1.Operation{
					{ID: "op-0", Type: v1alpha1.OperationRelease, Phase: v1alpha1.OperationFailed, ReleaseBegun: true},
					{ID: "op-00", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, HostChanged: true},
				}
			}))
			f.configure()
			want := map[string]string{}
			if released { // and WMCO may have met it since
				f.host.is, f.host.recorded = "", ""
				want["10.0.0.1"] = provenKey
			} else {
				f.host.is, f.host.recorded = testRevision, testRevision
			}
			f.met(map[string]string{"10.0.0.1": provenKey})
			op := f.finish()
			f.wantMet(want)
			if node := f.findNode(); op.Phase != v1alpha1.OperationSucceeded || (node != nil) != released || f.drain.runs > 0 == released {
				t.Errorf("it is %s: %s, %d drains, the Node is %+v", op.Phase, op.Message, f.drain.runs, node)
			}
		})
	}
}

// TestRemoveWhatWMCOHas: a status of before a release, as from a backup, says that the host is ours, and its Node that it is that of WMCO. The
// host knows.
func TestRemoveWhatWMCOHas(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		labels, annotations map[string]string
		ours                bool
	}{
		"it was released since":               {annotations: map[string]string{wmco.VersionAnnotation: "11.0.0"}},
		"and WMCO is about to take it on":     {annotations: map[string]string{wmco.DesiredVersionAnnotation: "11.0.0"}},
		"and WMCO configures it at this time": {labels: map[string]string{wmco.UpgradingLabel: "true"}},
		"its Node is to be written yet":       {annotations: map[string]string{wmco.VersionAnnotation: "11.0.0"}, ours: true},
	} {
		inBubble(t, name, func(t *testing.T) {
			ours := tt.ours
			f := newFixture(t, newInstance(removeOperation(), isBeingDeleted, func(i *v1alpha1.WindowsInstance) {
				i.Status.History = []v1alpha1.Operation{{ID: "op-0", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, HostChanged: true}}
			}))
			f.configure()
			node := f.node()
			node.Labels, node.Annotations = tt.labels, tt.annotations
			f.updateNode(node)
			if f.host.is, f.host.recorded = "", ""; ours {
				f.host.is, f.host.recorded = testRevision, testRevision
			}
			op := f.finish()
			if node := f.findNode(); op.Phase != v1alpha1.OperationSucceeded || (node == nil) != ours || (f.drain.runs > 0) != ours {
				t.Errorf("it is %s: %s, %d drains, the Node is %+v", op.Phase, op.Message, f.drain.runs, node)
			}
		})
	}
}
