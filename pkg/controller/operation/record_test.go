// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// recordings are the steps that run, and the last message, of each write of the record, as it is stored.
func (f *fixture) recordings() *[]string {
	written := &[]string{}
	f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
		if after {
			f.mu.Lock()
			defer f.mu.Unlock()
			*written = append(*written, running(i.Status.Operation)+": "+i.Status.Operation.Message)
		}
		return nil
	}
	return written
}

// running names the step of an operation that runs. Empty: none does.
func running(op *v1alpha1.Operation) string {
	for _, s := range op.Steps {
		if s.State == v1alpha1.StepRunning {
			return s.Name
		}
	}
	return ""
}

// TestStepsAreRecordedTogether: what changes something is recorded before it begins, and everything else together with that.
func TestStepsAreRecordedTogether(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		op   v1alpha1.Operation
		set  func(*fixture)
		want string
		// nodes is how often the Node is read.
		nodes int
		// facts is how often the host is asked for what there is to know of it, and digests how often for the digest of the agent, for
		// which that reads all of its program.
		facts, digests int
	}{
		"a change that restarts services": {
			op: reconfigureOperation(), set: func(f *fixture) { f.host.impact = config.ImpactRestart },
			want: "Connect Apply Apply ", facts: 2, digests: 2, nodes: 8,
		},
		"a change that needs a drain": {
			op: reconfigureOperation(), set: func(f *fixture) { f.host.impact = config.ImpactDrain },
			want: "Connect WaitForSlot WaitForSlot Cordon Drain Apply Apply Uncordon ", facts: 2, digests: 2, nodes: 10,
		},
		"a host that has what is desired": {
			op: reconfigureOperation(), set: func(f *fixture) { f.host.is, f.host.recorded = "new", "new" },
			want: "Connect ", facts: 2, digests: 2, nodes: 7,
		},
		"a drain": {op: drainOperation(), set: func(*fixture) {}, want: "Cordon Evict ", nodes: 3},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(tt.op, configuredBefore))
			f.configure()
			tt.set(f)
			written := f.recordings()
			op := f.finish()
			var steps []string
			for _, w := range *written {
				step, _, _ := strings.Cut(w, ":")
				steps = append(steps, step)
			}
			if got := strings.Join(steps, " "); op.Phase != v1alpha1.OperationSucceeded || got != tt.want {
				t.Errorf("it is %s: %s; these ran when it was recorded: %q, want %q", op.Phase, op.Message, got, tt.want)
			}
			if facts, digests := f.host.count("Facts"), f.host.count("AgentDigest"); facts != tt.facts || digests != tt.digests {
				t.Errorf("it was asked %d times, and %d times for the digest; want %d and %d", facts, digests, tt.facts, tt.digests)
			}
			if got := f.requests("get Node"); got > tt.nodes {
				t.Errorf("its Node was read %d times, want %d at most", got, tt.nodes)
			}
			for _, s := range op.Steps {
				if !s.Ended() || s.Message == "" {
					t.Errorf("step %s is %s: %q", s.Name, s.State, s.Message)
				}
			}
		})
	}
}

// TestWaitsAreRecordedWhenTheyAreLong: what a step waits for can be seen if that takes long, and is not written otherwise.
func TestWaitsAreRecordedWhenTheyAreLong(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ lingers, writes int }{
		"a quarter of a second": {lingers: 1, writes: 0},
		"four seconds":          {lingers: 4, writes: 1},
		"a minute":              {lingers: 20, writes: 1},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootForce)))
			f.host.lingers = tt.lingers
			written := f.recordings()
			op := f.finish()
			var waits []string
			for _, w := range *written {
				if strings.Contains(w, "going down") {
					waits = append(waits, w)
				}
			}
			if op.Phase != v1alpha1.OperationSucceeded || len(waits) != tt.writes {
				t.Errorf("it is %s: %s; what it waits for was written as %q, want it %d times", op.Phase, op.Message, waits, tt.writes)
			}
		})
	}
}

// TestNotesArePostponedOnce: what is noted again and again is written as soon as the oldest of it is due.
func TestNotesArePostponedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootForce)))
		r, stop := f.process()
		defer stop()
		e := f.executing(r, v1alpha1.StepBoot)
		defer e.stopRecordingLate()
		for n := range 3 {
			e.note(func(status *v1alpha1.WindowsInstanceStatus) { status.Operation.Message = fmt.Sprintf("Note %d.", n) })
			e.recordLate(t.Context())
			<-time.After(noteInterval * 3 / 4)
			synctest.Wait()
			if got, want := f.get().Status.Operation.Message == fmt.Sprintf("Note %d.", n), n == 1; got != want {
				t.Errorf("note %d is written: %t, want %t", n, got, want)
			}
		}
	})
}

// TestSlowStepsAreRecorded: a step that takes long can be seen while it runs, and what is written meanwhile is no conflict.
func TestSlowStepsAreRecorded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		takes time.Duration
		// theirs: somebody else writes the status at the same time.
		theirs bool
		want   bool
	}{
		"long":                             {takes: 3 * noteInterval, want: true},
		"no time":                          {takes: noteInterval / 2},
		"long, while others write as well": {takes: 3 * noteInterval, theirs: true, want: true},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation(), configuredBefore))
			f.configure()
			f.host.is, f.host.recorded = "new", "new"
			asked := false
			f.host.fail["Facts"] = func() error {
				if !asked {
					asked = true
					if tt.theirs {
						f.edit(func(i *v1alpha1.WindowsInstance) { i.Status.CurrentRevision = "theirs" })
					}
					<-time.After(tt.takes)
				}
				return nil
			}
			written := f.recordings()
			op := f.finish()
			if op.Phase != v1alpha1.OperationSucceeded || tt.theirs && f.get().Status.CurrentRevision != "theirs" {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			seen := strings.Contains(strings.Join(*written, "\n"), "Facts: "+steps[v1alpha1.StepFacts].description)
			if seen != tt.want {
				t.Errorf("that it runs was recorded: %v, want %v: %q", seen, tt.want, *written)
			}
		})
	}
}

// TestSlowPlansAreRecorded: so it is where a step asks the host what would have to be done to it, for which that takes long.
func TestSlowPlansAreRecorded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		set  func(*fixture)
		edit change
		// slow is which of these questions takes long.
		slow int
		want string
	}{
		"before anything is done":        {func(f *fixture) { f.host.impact = config.ImpactRestart }, configuredBefore, 1, v1alpha1.StepPlan},
		"of a host that becomes a node":  {(*fixture).registers, withoutNode, 1, v1alpha1.StepPlan},
		"with the credentials to join":   {(*fixture).registers, withoutNode, 2, v1alpha1.StepPlan},
		"before Windows is restarted":    {func(f *fixture) { f.host.impact, f.host.needsReboot = config.ImpactReboot, 1 }, configuredBefore, 2, v1alpha1.StepRestart},
		"whether it has what is desired": {func(f *fixture) { f.host.impact = config.ImpactRestart }, configuredBefore, 2, v1alpha1.StepVerify},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation(), tt.edit))
			f.configure()
			tt.set(f)
			asked := 0
			f.host.fail["Plan"] = func() error {
				if asked++; asked == tt.slow {
					<-time.After(4 * time.Minute)
				}
				return nil
			}
			written := f.recordings()
			op := f.finish()
			if op.Phase != v1alpha1.OperationSucceeded || asked < tt.slow {
				t.Errorf("it is %s: %s; it was asked %d times", op.Phase, op.Message, asked)
			}
			if text := tt.want + ": " + steps[tt.want].describe(op.Node); !slices.Contains(*written, text) {
				t.Errorf("%q was never recorded: %q", text, *written)
			}
		})
	}
}

// TestSlowSignerIsRecorded: what a host joins with may take minutes until it is signed, which is said meanwhile, and not any more after it. Where it takes
// no time nothing of it is written.
func TestSlowSignerIsRecorded(t *testing.T) {
	t.Parallel()
	for name, takes := range map[string]time.Duration{"two minutes": 2 * time.Minute, "no time": 0} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation()))
			f.configure().signs = takes
			f.registers()
			written := f.recordings()
			if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded || op.JoinsAs != testNode {
				t.Errorf("it is %s as %q: %s", op.Phase, op.JoinsAs, op.Message)
			}
			said := 0
			for _, text := range *written {
				if strings.Contains(text, "Plan: Preparing what the host becomes Node "+testNode+" with: its certificate has to be signed by kube-controller-manager, which may take minutes.") {
					said++
				}
			}
			if want := map[bool]int{true: 1}[takes > 0]; said != want {
				t.Errorf("it was said in %d writes, want %d: %q", said, want, *written)
			}
		})
	}
}

// TestSlowPlanIsNotLost: what a step has noted itself is recorded also where it took so long that its begin was written meanwhile.
func TestSlowPlanIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation(), configuredBefore))
		f.configure()
		f.host.impact = config.ImpactRestart
		f.host.fail["Plan"] = func() error {
			<-time.After(3 * noteInterval)
			return nil
		}
		if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded || op.Impact != v1alpha1.ImpactRestart || op.Revision != "new" {
			t.Errorf("it is %s: %s; it has impact %q and revision %q", op.Phase, op.Message, op.Impact, op.Revision)
		}
	})
}

// TestNotedIsForgotten: what cannot be recorded is not tried again for ever, and the step is run again.
func TestNotedIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(drainOperation()))
		f.configure()
		r, stop := f.process()
		defer stop()
		e := f.executing(r, v1alpha1.StepConnect)
		e.note(func(s *v1alpha1.WindowsInstanceStatus) { s.Operation.Message = "noted" })
		if e.operation().Message != "noted" || f.get().Status.Operation.Message == "noted" {
			t.Errorf("it is %q, and %q is recorded", e.operation().Message, f.get().Status.Operation.Message)
		}
		if err := e.load(t.Context()); err != nil || e.operation().Message != "noted" {
			t.Errorf("read again, it is %q: %v", e.operation().Message, err)
		}
		ended := make(chan struct{})
		close(ended)
		if err := e.runSteps(t.Context(), ended); err != nil && !errors.Is(err, errOver) || f.get().Status.Operation.Message == "noted" {
			t.Errorf("%q is recorded: %v", f.get().Status.Operation.Message, err)
		}
	})
}
