// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 5, time.UTC)

func TestRecord(t *testing.T) {
	var s WindowsInstanceStatus
	var want []string
	for n := range MaxHistory + 3 {
		if err := s.Record(NewOperation(OperationDrain, fmt.Sprint(n), OriginUser, "alice", noon)); err != nil {
			t.Fatal(err)
		}
		before := *s.DeepCopy()
		if err := s.Record(NewOperation(OperationReboot, "x", OriginUser, "bob", noon)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("drain-%d, requested by alice at 2026-01-02T12:00:00Z, is pending", n)) {
			t.Errorf("a second one: got %v", err)
		}
		if diff := cmp.Diff(before, s); diff != "" {
			t.Errorf("what was refused was recorded (-before +after):\n%s", diff)
		}
		s.Operation.Phase = OperationSucceeded
		want = append([]string{fmt.Sprintf("drain-%d", n)}, want...)
	}
	var got []string
	for _, o := range s.Operations() {
		got = append(got, o.ID)
	}
	if diff := cmp.Diff(want[:MaxHistory+1], got); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	first := &Operation{ID: "drain-0", Type: OperationDrain, Phase: OperationPending, RequestedBy: "alice", Origin: OriginUser, RequestedAt: metav1.NewTime(noon.Truncate(time.Second))}
	if diff := cmp.Diff(first, NewOperation(OperationDrain, "0", OriginUser, "alice", noon)); diff != "" {
		t.Errorf("a new operation (-want +got):\n%s", diff)
	}
}

// TestGivesWay: what the controller asks for anyway, and for which a host waits untouched, ends for what a person asks for.
func TestGivesWay(t *testing.T) {
	step := func(name string, state OperationStepState) OperationStep {
		s := OperationStep{Name: name, State: state}
		if state != StepPending {
			s.StartedAt = new(metav1.NewTime(noon))
		}
		return s
	}
	for _, tt := range []struct {
		name string
		edit func(*Operation)
		// want: it ends for another one of the controller. toPeople: it ends for what a person asks for.
		want, toPeople bool
	}{
		{"it waits with updates of Windows", func(*Operation) {}, true, true},
		{"it waits for a configuration that an annotation asks for", func(o *Operation) {
			o.Type, o.Cause, o.Impact, o.AdmittedImpact = OperationReconfigure, CauseVersionChanged, ImpactDrain, ImpactNone
		}, true, true},
		{"it waits for one that it had then", func(o *Operation) {
			o.Type, o.Cause, o.Impact, o.AdmittedImpact, o.Revision = OperationReconfigure, CauseVersionChanged, ImpactDrain, ImpactNone, "r-1"
		}, true, true},
		{"what an annotation asks for has become an update", func(o *Operation) {
			o.Type, o.Cause, o.Impact, o.AdmittedImpact, o.Revision = OperationReconfigure, CauseVersionChanged, ImpactDrain, ImpactNone, "r-2"
		}, false, true},
		{"an update waits", func(o *Operation) { o.Type, o.Cause = OperationReconfigure, "" }, false, true},
		{"a removal waits", func(o *Operation) { o.Type, o.Cause = OperationRemove, "" }, false, false},
		{"a person asked for it", func(o *Operation) { o.Origin = OriginUser }, false, false},
		{"it has its slot", func(o *Operation) { o.AdmittedImpact = ImpactReboot }, false, false},
		{"it downloads", func(o *Operation) { o.Steps[0].State = StepPending }, false, false},
		{"it has no such step", func(o *Operation) { o.Steps = nil }, false, false},
		{"its Node is cordoned", func(o *Operation) { o.Steps[1] = step(StepCordon, StepSucceeded) }, false, false},
		{"its host was changed", func(o *Operation) { o.HostChanged = true }, false, false},
		{"it has ended", func(o *Operation) { o.Phase = OperationFailed }, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := NewOperation(OperationReboot, "1", OriginController, ControllerRequester, noon)
			o.Phase, o.Cause, o.Steps = OperationRunning, CauseWindowsUpdates, []OperationStep{step(StepWaitForSlot, StepRunning), step(StepCordon, StepPending)}
			tt.edit(o)
			s := WindowsInstanceStatus{Operation: o, CurrentRevision: "r-1", DesiredRevision: "r-2"}
			if s.GivesWay() != tt.want {
				t.Errorf("it gives way: %v", !tt.want)
			}
			if err := s.Record(NewOperation(OperationReconfigure, "2", OriginController, ControllerRequester, noon)); (err == nil) == o.Active() {
				t.Errorf("the controller records another one: %v", err)
			}
			s = WindowsInstanceStatus{Operation: o, CurrentRevision: "r-1", DesiredRevision: "r-2"}
			if err := s.Record(NewOperation(OperationDrain, "2", OriginUser, "alice", noon)); (err != nil) != (o.Active() && !tt.toPeople) {
				t.Fatalf("a person asks for something else: %v", err)
			}
			if tt.toPeople && (s.Operation.ID != "drain-2" || s.History[0].ID != o.ID || s.History[0].Phase != OperationCanceled || s.History[0].CancelRequestedAt != nil ||
				s.History[0].FinishedAt == nil || s.History[0].Message != "It waited for its slot and was not continued, because alice has asked for operation drain-2." || !o.Active()) {
				t.Errorf("recorded %+v", s)
			}
			if tt.toPeople && !s.History[0].Withdrawn() {
				t.Error("somebody has canceled it")
			}
		})
	}
	if (&WindowsInstanceStatus{}).GivesWay() || (*Operation)(nil).Withdrawn() {
		t.Error("none gives way")
	}
}

// TestHistoryHasNoSteps: but what is decided by them is still known, also of operations that
// an earlier release put there with their steps.
func TestHistoryHasNoSteps(t *testing.T) {
	at := func(step string) Operation {
		return Operation{ID: step, Phase: OperationFailed, Message: "why", Steps: []OperationStep{{Name: StepConnect}, {Name: step, StartedAt: new(metav1.NewTime(noon))}, {Name: StepApply}}}
	}
	s := WindowsInstanceStatus{Operation: new(at(StepPlan)), History: []Operation{at(StepCordon)}}
	applied := at(StepApply)
	applied.Steps = applied.Steps[:2]
	s.History = append(s.History, applied)
	before := s.DeepCopy()
	if err := s.Record(NewOperation(OperationDrain, "1", OriginUser, "alice", noon)); err != nil {
		t.Fatal(err)
	}
	want := []Operation{
		{ID: StepPlan, Phase: OperationFailed, Message: "why"},
		{ID: StepCordon, Phase: OperationFailed, Message: "why"},
		{ID: StepApply, Phase: OperationFailed, Message: "why", HostChanged: true},
	}
	if diff := cmp.Diff(want, s.History); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	for i, o := range before.Operations() {
		if got := s.History[i].MayHaveChangedHost(); got != o.MayHaveChangedHost() || got != (o.ID == StepApply) {
			t.Errorf("%s: changed the host: %v", o.ID, got)
		}
	}
}

// TestAdoptionBegun: what keeps a host from being adopted is found out before anything is changed on it, which the history still knows.
func TestAdoptionBegun(t *testing.T) {
	began := new(metav1.NewTime(noon))
	steps := func(adopt *metav1.Time) []OperationStep {
		return []OperationStep{{Name: StepConnect, State: StepSucceeded, StartedAt: began}, {Name: StepCompare, State: StepFailed, StartedAt: began}, {Name: StepAdopt, State: StepPending, StartedAt: adopt}}
	}
	for name, tt := range map[string]struct {
		op   Operation
		want bool
	}{
		"no further than compared":  {Operation{Type: OperationAdopt, StartedAt: began, Steps: steps(nil)}, false},
		"it has begun to change it": {Operation{Type: OperationAdopt, StartedAt: began, Steps: steps(began)}, true},
		"it has not begun":          {Operation{Type: OperationAdopt}, false},
		"by an earlier release":     {Operation{Type: OperationAdopt, StartedAt: began}, true},
		"refused by an earlier one": {Operation{Type: OperationAdopt, StartedAt: began, Message: "Node win-1 has no annotation. Nothing was changed."}, false},
		"another operation":         {Operation{Type: OperationDrain, StartedAt: began}, false},
	} {
		tt.op.Phase = OperationFailed
		s := WindowsInstanceStatus{Operation: &tt.op}
		if got := tt.op.AdoptionBegun(); got != tt.want {
			t.Errorf("%s: got %t", name, got)
		}
		for n := range 2 { // it moves on in the history
			if err := s.Record(&Operation{ID: fmt.Sprint(n), Type: OperationDrain, Phase: OperationFailed}); err != nil {
				t.Fatal(err)
			}
			if got := s.History[n].AdoptionBegun(); got != tt.want {
				t.Errorf("%s, in the history: got %t", name, got)
			}
		}
	}
}

// TestOperationMayHaveChangedHost: waiting changes nothing, nor does a step that ended before the agent
// reported a change. What an earlier release did not record is told by its steps.
func TestOperationMayHaveChangedHost(t *testing.T) {
	began := new(metav1.NewTime(noon))
	slot := OperationStep{Name: StepWaitForSlot, State: StepSucceeded, StartedAt: began}
	apply := OperationStep{Name: StepApply, State: StepFailed, StartedAt: began}
	for _, tt := range []struct {
		name string
		op   Operation
		want bool
	}{
		{"it waits", Operation{Steps: []OperationStep{slot, {Name: StepApply}}}, false},
		{"no change was reported", Operation{Steps: []OperationStep{slot, apply}}, false},
		{"a change was reported", Operation{Steps: []OperationStep{slot, apply}, HostChanged: true}, true},
		{"an earlier release, before it applied", Operation{Steps: []OperationStep{{Name: StepApply}}}, false},
		{"an earlier release, after", Operation{Steps: []OperationStep{apply}}, true},
		{"in the history", Operation{HostChanged: true}, true},
		{"in the history, and unchanged", Operation{}, false},
	} {
		if got := tt.op.MayHaveChangedHost(); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestMustJoinAgain: what an earlier release did not record is told by its steps.
func TestMustJoinAgain(t *testing.T) {
	steps := func(plan, join OperationStepState, message string) []OperationStep {
		return []OperationStep{{Name: StepPlan, State: plan}, {Name: StepJoin, State: join, Message: message}}
	}
	for _, tt := range []struct {
		name string
		op   Operation
		want bool
	}{
		{"it joins again", Operation{JoinsAgain: true, Steps: steps(StepSucceeded, StepRunning, "")}, true},
		{"it need not", Operation{Steps: steps(StepSucceeded, StepPending, "")}, false},
		{"in the history", Operation{JoinsAgain: true}, true},
		{"in the history, and it need not", Operation{}, false},
		{"an earlier release, not planned", Operation{Steps: steps(StepRunning, StepPending, "It joins again.")}, false},
		{"an earlier release", Operation{Steps: steps(StepSucceeded, StepPending, "It joins again.")}, true},
		{"an earlier release, while it joins", Operation{Steps: steps(StepSucceeded, StepRunning, "It joins again.")}, true},
		{"an earlier release, when it has joined", Operation{Steps: steps(StepSucceeded, StepSucceeded, "It has.")}, false},
		{"an earlier release, and it need not", Operation{Steps: steps(StepSucceeded, StepSkipped, "It is a Node.")}, false},
		{"a drain", Operation{Steps: []OperationStep{{Name: StepCordon, Message: "It is cordoned."}}}, false},
	} {
		if got := tt.op.MustJoinAgain(); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestHostUnreached(t *testing.T) {
	for _, tt := range []struct {
		phase OperationPhase
		step  OperationStep
		want  bool
	}{
		{OperationFailed, OperationStep{Name: StepConnect, State: StepFailed}, true},
		{OperationFailed, OperationStep{Name: StepCleanup, State: StepFailed}, false},
		{OperationFailed, OperationStep{Name: StepConnect, State: StepSucceeded}, false},
		{OperationCanceled, OperationStep{Name: StepConnect, State: StepCanceled}, false},
	} {
		if got := (&Operation{Phase: tt.phase, Steps: []OperationStep{tt.step}}).HostUnreached(); got != tt.want {
			t.Errorf("%s, %+v: got %v", tt.phase, tt.step, got)
		}
	}
}

// What is tried again or handed over is decided by whether an operation touched the host, also by
// one of the history, which has no steps.
func TestUntouched(t *testing.T) {
	step := func(name string, state OperationStepState) OperationStep {
		return OperationStep{Name: name, State: state}
	}
	began := new(metav1.NewTime(noon))
	for _, tt := range []struct {
		name      string
		op        Operation
		want      bool
		unreached bool
	}{
		{"it has not begun", Operation{Phase: OperationPending}, true, false},
		{"canceled before it began", Operation{Phase: OperationCanceled}, true, false},
		{"it connects", Operation{Phase: OperationRunning, StartedAt: began, Steps: []OperationStep{step(StepConnect, StepRunning), step(StepCordon, StepPending)}}, true, false},
		{"it could not connect", Operation{Phase: OperationFailed, StartedAt: began, Steps: []OperationStep{step(StepConnect, StepFailed), step(StepCordon, StepSkipped)}}, true, true},
		{"refused", Operation{Phase: OperationFailed, StartedAt: began, Steps: []OperationStep{step(StepConnect, StepSkipped), step(StepCordon, StepSkipped)}}, true, false},
		{"it cordons", Operation{Phase: OperationRunning, StartedAt: began, Steps: []OperationStep{step(StepConnect, StepSucceeded), step(StepCordon, StepRunning)}}, false, false},
		{"it could not be cleaned", Operation{Phase: OperationFailed, StartedAt: began, Steps: []OperationStep{step(StepConnect, StepSucceeded), step(StepCleanup, StepFailed)}}, false, false},
		{"of an earlier release's history", Operation{Phase: OperationFailed, StartedAt: began}, false, false},
	} {
		for _, o := range []Operation{tt.op, tt.op.archived()} {
			if tt.name == "refused" && len(o.Steps) == 0 {
				tt.unreached = true // nobody can tell any more, and nothing was done
			}
			if got := o.Untouched(); got != tt.want || o.HostUnreached() != tt.unreached {
				t.Errorf("%s, with %d steps: untouched %v, unreached %v", tt.name, len(o.Steps), got, o.HostUnreached())
			}
		}
	}
}

// TestHistoryForgetsNoChange: that a host was changed is known for as long as its instance exists,
// whatever was done to it since.
func TestHistoryForgetsNoChange(t *testing.T) {
	s := &WindowsInstanceStatus{}
	for i := range 3 * MaxHistory {
		o := NewOperation(OperationDrain, fmt.Sprint(i), OriginUser, "alice", noon)
		if i == 0 {
			o.Type, o.Steps = OperationReconfigure, []OperationStep{{Name: StepApply, State: StepFailed, StartedAt: &metav1.Time{Time: noon}}}
		}
		if err := s.Record(o); err != nil {
			t.Fatal(err)
		}
		s.Operation.Phase = OperationSucceeded
		if !s.MayHaveChangedHost() {
			t.Fatalf("after %d operations it is not known any more", i+1)
		}
	}
}

// TestHistoryKeepsWhatLasts: what decided last how the host works stays in the history as it was, however many attempts did nothing since; what a
// release followed does not count any more.
func TestHistoryKeepsWhatLasts(t *testing.T) {
	at := &metav1.Time{Time: noon}
	operation := func(id string, phase OperationPhase, step string) *Operation {
		o := NewOperation(OperationReconfigure, id, OriginController, ControllerRequester, noon)
		o.Phase, o.StartedAt, o.FinishedAt, o.Steps = phase, at, at, []OperationStep{{Name: step, State: StepFailed, StartedAt: at}}
		o.Node, o.Impact = &OperationNode{Name: "win-1"}, ImpactDrain
		return o
	}
	harmless, rejoins := operation("harmless", OperationFailed, StepApply), operation("rejoins", OperationFailed, StepApply)
	harmless.Impact, rejoins.JoinsAgain = ImpactNone, true
	restart := func(id string, cause OperationCause) *Operation {
		o := NewOperation(OperationReboot, id, OriginController, ControllerRequester, noon)
		o.Phase, o.StartedAt, o.FinishedAt, o.BootID, o.Cause = OperationSucceeded, at, at, "b", cause
		return o
	}
	released := NewOperation(OperationRelease, "released", OriginUser, "alice", noon)
	released.Phase, released.HostReleased = OperationSucceeded, true
	begun := NewOperation(OperationRelease, "begun", OriginUser, "alice", noon)
	begun.Phase, begun.ReleaseBegun = OperationFailed, true
	for name, tt := range map[string]struct {
		operations []*Operation // the oldest first
		want       []string     // those that stay, the newest first
	}{
		"success":                           {[]*Operation{operation("older", OperationSucceeded, StepApply), operation("worked", OperationSucceeded, StepApply)}, []string{"reconfigure-worked"}},
		"success that changed nothing":      {[]*Operation{operation("broke", OperationFailed, StepApply), operation("worked", OperationSucceeded, StepConnect)}, []string{"reconfigure-worked", "reconfigure-broke"}},
		"a failure that disturbed the host": {[]*Operation{operation("worked", OperationSucceeded, StepApply), operation("broke", OperationFailed, StepApply)}, []string{"reconfigure-broke"}},
		"a failure that cost nothing":       {[]*Operation{operation("worked", OperationSucceeded, StepApply), harmless}, []string{"reconfigure-harmless", "reconfigure-worked"}},
		"a host that could not join again":  {[]*Operation{operation("worked", OperationSucceeded, StepApply), rejoins}, []string{"reconfigure-rejoins", "reconfigure-worked"}},
		"a restart of the pool":             {[]*Operation{operation("worked", OperationSucceeded, StepApply), restart("due", CauseRestartRequested)}, []string{"reboot-due", "reconfigure-worked"}},
		"a restart, and a change since":     {[]*Operation{restart("due", CauseRestartPending), operation("worked", OperationSucceeded, StepApply), harmless}, []string{"reconfigure-harmless", "reconfigure-worked", "reboot-due"}},
		"a repair":                          {[]*Operation{operation("worked", OperationSucceeded, StepApply), restart("repair", CauseNodeNotReady)}, []string{"reconfigure-worked"}},
		"nothing that decided anything":     {[]*Operation{operation("connects", OperationFailed, StepConnect)}, nil},
		"success, and the host is released": {[]*Operation{operation("worked", OperationSucceeded, StepApply), released}, nil},
		"success, and a release has begun":  {[]*Operation{operation("worked", OperationSucceeded, StepApply), begun}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var s WindowsInstanceStatus
			for _, o := range tt.operations {
				if err := s.Record(o.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			var want []string
			for n := range 3 * MaxHistory {
				o := operation(fmt.Sprint(n), OperationFailed, StepConnect)
				if err := s.Record(o); err != nil {
					t.Fatal(err)
				}
				want = append([]string{o.ID}, want...)
			}
			want = append(want[1:1+MaxHistory-len(tt.want)], tt.want...) // the newest is not in the history
			var got []string
			for _, o := range s.History {
				got = append(got, o.ID)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
			if gapless := MaxHistory - len(tt.want); gapless < GaplessHistory {
				t.Errorf("only the first %d have no gap", gapless)
			}
		})
	}
}

// TestHistoryForgetsNoRemoval: that a removal had begun is known as long as it is tried again.
func TestHistoryForgetsNoRemoval(t *testing.T) {
	s, began := &WindowsInstanceStatus{}, &metav1.Time{Time: noon}
	for i := range 3 * MaxHistory {
		o := NewOperation(OperationRemove, fmt.Sprint(i), OriginController, ControllerRequester, noon)
		if err := s.Record(o); err != nil {
			t.Fatal(err)
		}
		if got, want := s.RemovalBegun(), i > 2; got != want {
			t.Fatalf("after %d removals: begun %v", i, got)
		}
		o.Phase, o.StartedAt, o.Steps = OperationFailed, began, []OperationStep{{Name: StepConnect, State: StepFailed}}
		if i == 2 {
			o.Steps = []OperationStep{{Name: StepDrain, State: StepFailed}}
		}
	}
}

// TestStatusMayHaveChangedHost: what was done to the host is told by the operations and the condition.
func TestStatusMayHaveChangedHost(t *testing.T) {
	changed := Operation{Type: OperationReconfigure, HostChanged: true}
	configured := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: ConditionConfigured, Reason: reason}}
	}
	for _, tt := range []struct {
		name   string
		status WindowsInstanceStatus
		want   bool
	}{
		{"nothing is known", WindowsInstanceStatus{}, false},
		{"a revision", WindowsInstanceStatus{CurrentRevision: "1", Conditions: configured(ReasonConfigured)}, true},
		{"the agent of a host that is only watched", WindowsInstanceStatus{CurrentRevision: "1", Conditions: configured(ReasonNotManaged)}, false},
		{"watched now, and configured before", WindowsInstanceStatus{CurrentRevision: "1", Conditions: configured(ReasonNotManaged), History: []Operation{changed}}, true},
		{"an operation that changed it", WindowsInstanceStatus{Operation: &changed}, true},
		{"one that ended before", WindowsInstanceStatus{Operation: &Operation{Type: OperationReconfigure, Steps: []OperationStep{{Name: StepApply, State: StepSkipped}}}}, false},
		{"only drains", WindowsInstanceStatus{History: make([]Operation, MaxHistory)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.status.MayHaveChangedHost(); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestReleasedHost: what was done to a host before it was released does not count, however long ago that is, and what was done to it
// since does.
func TestReleasedHost(t *testing.T) {
	configured := Operation{ID: "configured", Type: OperationReconfigure, Phase: OperationSucceeded, HostChanged: true}
	released := Operation{ID: "released", Type: OperationRelease, Phase: OperationSucceeded, HostReleased: true}
	failed := Operation{ID: "failed", Type: OperationRelease, Phase: OperationFailed}
	begun := Operation{ID: "begun", Type: OperationRelease, Phase: OperationFailed, ReleaseBegun: true}
	adopted := Operation{ID: "adopted", Type: OperationAdopt, Phase: OperationSucceeded, HostChanged: true}
	reboot := Operation{ID: "reboot", Type: OperationReboot, Phase: OperationSucceeded}
	for name, tt := range map[string]struct {
		newest              []Operation
		changed             bool
		releasedBy, newestC string
		begunBy             string
	}{
		"never released":                     {[]Operation{configured}, true, "", "configured", ""},
		"released":                           {[]Operation{released, configured}, false, "released", "", ""},
		"not completely":                     {[]Operation{failed, configured}, true, "", "configured", ""},
		"and something else":                 {[]Operation{reboot, released, configured}, false, "released", "", ""},
		"taken back":                         {[]Operation{adopted, released, configured}, true, "", "", ""},
		"configured since":                   {[]Operation{configured, released}, true, "", "configured", ""},
		"released once more":                 {[]Operation{released, adopted, released, configured}, false, "released", "", ""},
		"nothing was ever done":              {nil, false, "", "", ""},
		"maybe":                              {[]Operation{begun, configured}, true, "", "configured", "begun"},
		"maybe, and something else":          {[]Operation{reboot, begun, configured}, true, "", "configured", "begun"},
		"maybe, and again in vain":           {[]Operation{failed, begun, configured}, true, "", "configured", "begun"},
		"maybe, and then surely":             {[]Operation{released, begun, configured}, false, "released", "", ""},
		"maybe, and configured since":        {[]Operation{configured, begun, configured}, true, "", "configured", ""},
		"surely, taken back, and then maybe": {[]Operation{begun, adopted, released}, true, "", "", "begun"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &WindowsInstanceStatus{}
			for _, o := range slices.Backward(tt.newest) {
				if err := s.Record(new(o)); err != nil {
					t.Fatal(err)
				}
			}
			check := func() {
				t.Helper()
				id := func(o *Operation) string {
					if o == nil {
						return ""
					}
					return o.ID
				}
				if got := s.MayHaveChangedHost(); got != tt.changed || s.ChangedHost() != tt.changed {
					t.Errorf("changed: %v", got)
				}
				if got := id(s.ReleasedBy()); got != tt.releasedBy {
					t.Errorf("released by %q, want %q", got, tt.releasedBy)
				}
				if got := id(s.ReleaseBegunBy()); got != tt.begunBy {
					t.Errorf("a release has begun by %q, want %q", got, tt.begunBy)
				}
				if got := id(s.NewestOperation(OperationReconfigure)); got != tt.newestC {
					t.Errorf("the newest is %q, want %q", got, tt.newestC)
				}
			}
			check()
			for i := range 3 * MaxHistory {
				if err := s.Record(new(reboot)); err != nil {
					t.Fatal(err)
				}
				if got, released, begun := s.ChangedHost(), s.ReleasedBy(), s.ReleaseBegunBy(); got != tt.changed || (released != nil) != (tt.releasedBy != "") || (begun != nil) != (tt.begunBy != "") {
					t.Fatalf("after %d operations: changed %v, released by %+v, begun by %+v", i+1, got, released, begun)
				}
			}
		})
	}
}

// TestByController: a user may be called as they like, and what an earlier release recorded
// is told by the name.
func TestByController(t *testing.T) {
	for _, tt := range []struct {
		origin      OperationOrigin
		requestedBy string
		want        bool
	}{
		{OriginController, ControllerRequester, true},
		{OriginController, "renamed", true},
		{OriginUser, "alice", false},
		{OriginUser, ControllerRequester, false},
		{"", ControllerRequester, true},
		{"", "alice", false},
	} {
		if got := (&Operation{Origin: tt.origin, RequestedBy: tt.requestedBy}).ByController(); got != tt.want {
			t.Errorf("%q by %s: got %v", tt.origin, tt.requestedBy, got)
		}
	}
}

func TestCancel(t *testing.T) {
	s := WindowsInstanceStatus{Operation: NewOperation(OperationDrain, "1", OriginUser, "alice", noon)}
	for _, by := range []string{"bob", "carol"} {
		if err := s.Cancel("drain-1", by, noon.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if o := s.Operation; o.CancelRequestedBy != "bob" || !o.CancelRequestedAt.Equal(new(metav1.NewTime(noon.Add(time.Minute).Truncate(time.Second)))) {
			t.Errorf("%s: canceled by %s at %s", by, o.CancelRequestedBy, o.CancelRequestedAt)
		}
	}
	for want, s := range map[string]WindowsInstanceStatus{
		"never had any":               {},
		"has ended already: failed":   {Operation: &Operation{ID: "drain-1", Phase: OperationFailed}},
		"nor does any other":          {Operation: &Operation{ID: "drain-2", Phase: OperationFailed}},
		"drain-2, requested by alice": {Operation: NewOperation(OperationDrain, "2", OriginUser, "alice", noon)},
	} {
		if err := s.Cancel("drain-1", "bob", noon); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if s.Operation != nil && s.Operation.CancelRequestedAt != nil {
			t.Errorf("%q: canceled all the same", want)
		}
	}
}

func TestShortRevision(t *testing.T) {
	tests := []struct{ name, revision, want string }{
		{"a document", strings.Repeat("0123456789abcdef", 4), "0123456789ab"},
		{"an agent", "0123456789abcdef", "0123456789ab"},
		{"short already", "abc", "abc"},
		{"none", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ShortRevision(tt.revision); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestBlockedPod(t *testing.T) {
	tests := []struct {
		name string
		pod  BlockedPod
		want string
	}{
		{"by a budget", BlockedPod{Namespace: "shop", Name: "web-1", Budget: "web", Message: "needs 2 healthy\npods"}, "shop/web-1 (PodDisruptionBudget web): needs 2 healthy pods"},
		{"by something else", BlockedPod{Namespace: "shop", Name: "web-1", Message: "a webhook denied it"}, "shop/web-1: a webhook denied it"},
		{"without a reason", BlockedPod{Namespace: "shop", Name: "web-1", Budget: "web"}, "shop/web-1 (PodDisruptionBudget web)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.pod.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestFailedToDrainOtherwise: only a drain that failed, and options that differ in effect, have the next attempt come soon.
func TestFailedToDrainOtherwise(t *testing.T) {
	t.Parallel()
	pool := func(o PoolDrainOptions) *WindowsNodePool {
		return &WindowsNodePool{Spec: WindowsNodePoolSpec{UpdateStrategy: PoolUpdateStrategy{Drain: o}}}
	}
	hour := PoolDrainOptions{TimeoutSeconds: new(int64(3600))}
	failed := func(edit ...func(*Operation)) *Operation {
		o := &Operation{
			Type: OperationReconfigure, Phase: OperationFailed, Drain: PoolDrainOptions{}.Recorded(),
			Steps: []OperationStep{{Name: StepWaitForSlot, State: StepSucceeded}, {Name: StepDrain, State: StepFailed}},
		}
		for _, edit := range edit {
			edit(o)
		}
		return o
	}
	archived := func(o *Operation) *Operation {
		a := o.archived()
		return &a
	}
	for _, tt := range []struct {
		name string
		op   *Operation
		pool *WindowsNodePool
		want bool
	}{
		{"none", nil, pool(hour), false},
		{"more time", failed(), pool(hour), true},
		{"the same", failed(), pool(PoolDrainOptions{}), false},
		{"the same, in other words", failed(), pool(PoolDrainOptions{TimeoutSeconds: new(int64(DefaultDrainTimeoutSeconds)), Force: new(true), DeleteEmptyDirData: new(true)}), false},
		{"the same, in no pool", failed(), nil, false},
		{"it has left its pool", failed(func(o *Operation) { o.Drain = hour.Recorded() }), nil, true},
		{"pods without a controller may leave", failed(func(o *Operation) { o.Drain = PoolDrainOptions{Force: new(false)}.Recorded() }), pool(PoolDrainOptions{}), true},
		{"pods with data may leave", failed(func(o *Operation) { o.Drain = PoolDrainOptions{DeleteEmptyDirData: new(false)}.Recorded() }), pool(PoolDrainOptions{}), true},
		{"another grace period", failed(), pool(PoolDrainOptions{GracePeriodSeconds: new(int64(1))}), true},
		{"pods of dead kubelets are waited for", failed(), pool(PoolDrainOptions{SkipWaitForDeleteTimeoutSeconds: new(int32(0))}), true},
		{"an earlier release recorded it", failed(func(o *Operation) { o.Drain = nil }), pool(hour), false},
		{"it was canceled", failed(func(o *Operation) { o.Phase = OperationCanceled }), pool(hour), false},
		{"it was drained, and failed later", failed(func(o *Operation) { o.FindStep(StepDrain).State = StepSucceeded }), pool(hour), false},
		{"in the history", archived(failed()), pool(hour), true},
		{"in the history, of a host that was changed", archived(failed(func(o *Operation) { o.HostChanged = true })), pool(hour), false},
		{"in the history, of a host that was restarted", archived(failed(func(o *Operation) { o.Type, o.BootID = OperationReboot, "b" })), pool(hour), false},
	} {
		if got := tt.op.FailedToDrainOtherwise(tt.pool); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}
