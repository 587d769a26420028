// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// A removal that waits for its next attempt, for whatever reason, holds up no others.
func TestStalled(t *testing.T) {
	remove := func(phase v1alpha1.OperationPhase, step string, state v1alpha1.OperationStepState) v1alpha1.Operation {
		return v1alpha1.Operation{Type: v1alpha1.OperationRemove, Phase: phase, StartedAt: &metav1.Time{}, Steps: []v1alpha1.OperationStep{{Name: step, State: state}}}
	}
	connects := remove(v1alpha1.OperationRunning, v1alpha1.StepConnect, v1alpha1.StepRunning)
	drains := remove(v1alpha1.OperationRunning, v1alpha1.StepDrain, v1alpha1.StepRunning)
	away := remove(v1alpha1.OperationFailed, v1alpha1.StepConnect, v1alpha1.StepFailed)
	refused := remove(v1alpha1.OperationFailed, v1alpha1.StepConnect, v1alpha1.StepSucceeded)
	blocked := remove(v1alpha1.OperationFailed, v1alpha1.StepDrain, v1alpha1.StepFailed)
	for _, tt := range []struct {
		name string
		ops  []v1alpha1.Operation // the newest first
		want bool
	}{
		{"its removal was not recorded yet", nil, false},
		{"it is tried for the first time", []v1alpha1.Operation{connects}, false},
		{"it is away", []v1alpha1.Operation{away}, true},
		{"it is tried again", []v1alpha1.Operation{connects, away}, true},
		{"it answers again", []v1alpha1.Operation{drains, away}, false},
		{"refused", []v1alpha1.Operation{refused}, true},
		{"refused, and tried again", []v1alpha1.Operation{connects, refused}, false},
		{"its pods do not leave", []v1alpha1.Operation{blocked}, true},
		{"its pods did not leave, and it is tried again", []v1alpha1.Operation{drains, blocked}, false},
	} {
		status := &v1alpha1.WindowsInstanceStatus{}
		if len(tt.ops) > 0 {
			status.Operation, status.History = &tt.ops[0], tt.ops[1:]
		}
		if got := Stalled(status); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// namesOf are the names of instances, sorted.
func namesOf(instances []*v1alpha1.WindowsInstance) []string {
	var out []string
	for _, instance := range instances {
		out = append(out, instance.Name)
	}
	slices.Sort(out)
	return out
}

func TestRation(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(name string, d time.Duration) v1alpha1.PoolRemoval {
		return v1alpha1.PoolRemoval{Name: name, Time: metav1.NewTime(now.Add(-d))}
	}
	confirmed := func(name string) v1alpha1.PoolRemoval {
		record := ago(name, time.Minute)
		record.Confirmed = true
		return record
	}
	tests := []struct {
		name    string
		hosts   int    // h00, h01, … were made two hours ago, and something of ours is on them
		bare    int    // n00, n01, … were made then, too, and nothing of ours is on their hosts
		young   int    // y00, y01, … were made a minute ago
		leaving string // those that are being deleted
		// how many of them wait for a host that does not answer
		unreached int
		remove    string // those that no entry asks for
		hold      bool
		recent    []v1alpha1.PoolRemoval
		limit     string // default: 10%
		now       string
		waiting   string
		held      bool
		later     int
		records   string // after the decision
	}{
		{name: "nothing", hosts: 3},
		{name: "one of one", hosts: 1, remove: "h00", now: "h00", records: "h00"},
		{name: "one of three", hosts: 3, remove: "h01", now: "h01", records: "h01"},
		{name: "two of three", hosts: 3, remove: "h01 h02", waiting: "h01 h02"},
		{name: "all but one", hosts: 5, remove: "h01 h02 h03 h04", waiting: "h01 h02 h03 h04"},
		{name: "a tenth", hosts: 20, remove: "h01 h02", now: "h01 h02", records: "h01 h02"},
		{name: "a bit more than a tenth", hosts: 29, remove: "h01 h02 h03", waiting: "h01 h02 h03"},
		{name: "instances whose host was never there", hosts: 3, bare: 30, remove: "h00 h01 h02", waiting: "h00 h01 h02"},
		{name: "only such instances", bare: 30, remove: "n00", now: "n00", records: "n00"},
		{name: "several of only such instances", bare: 30, remove: "n00 n01", waiting: "n00 n01"},
		{name: "hosts that have just come", hosts: 10, young: 90, remove: "h00 h01", waiting: "h00 h01"},
		{name: "the hosts of before go by their own number", hosts: 20, bare: 90, young: 90, remove: "h00 h01", now: "h00 h01", records: "h00 h01"},
		{name: "held", hosts: 20, remove: "h00", hold: true, waiting: "h00", held: true},
		{name: "held, and nothing to remove", hosts: 20, hold: true},
		{name: "held, and more than the limit", hosts: 20, remove: "h00 h01 h02", hold: true, waiting: "h00 h01 h02"},
		{name: "held after one has begun", hosts: 20, remove: "h00 h01", recent: []v1alpha1.PoolRemoval{ago("h00", time.Minute)}, hold: true, now: "h00", waiting: "h01", held: true, records: "h00"},
		{name: "another one within the hour", hosts: 2, remove: "h01", recent: []v1alpha1.PoolRemoval{ago("gone", 59*time.Minute)}, waiting: "h01", records: "gone"},
		{name: "another one after the hour", hosts: 2, remove: "h01", recent: []v1alpha1.PoolRemoval{ago("gone", time.Hour)}, now: "h01", records: "h01"},
		{name: "those that went count as hosts", hosts: 19, remove: "h01", recent: []v1alpha1.PoolRemoval{ago("gone", time.Minute)}, now: "h01", records: "gone h01"},
		{name: "being removed by whomever", hosts: 3, leaving: "h00", remove: "h01", waiting: "h01"},
		{name: "being removed, and recorded, counts once", hosts: 20, leaving: "h00", remove: "h01", recent: []v1alpha1.PoolRemoval{ago("h00", time.Minute)}, now: "h01", records: "h00 h01"},
		{name: "three at a time", hosts: 50, remove: "h01 h02 h03 h04 h05", now: "h01 h02 h03", later: 2, records: "h01 h02 h03"},
		{name: "dead hosts hold up no other", hosts: 49, leaving: "h02 h03 h04", unreached: 2, remove: "h05", now: "h05", records: "h05"},
		{name: "the next ones", hosts: 49, leaving: "h02 h03", remove: "h04 h05",
			recent: []v1alpha1.PoolRemoval{ago("gone", time.Minute), ago("h02", time.Minute), ago("h03", time.Minute)}, now: "h04", later: 1, records: "gone h02 h03 h04"},
		{name: "recorded, and not deleted when the controller died", hosts: 2, remove: "h01", recent: []v1alpha1.PoolRemoval{ago("h01", time.Minute)}, now: "h01", records: "h01"},
		{name: "recorded, not deleted, and more since", hosts: 5, remove: "h01 h02", recent: []v1alpha1.PoolRemoval{ago("h01", time.Minute)}, now: "h01", waiting: "h02", records: "h01"},
		{name: "recorded, not deleted, and put back", hosts: 3, remove: "h02", recent: []v1alpha1.PoolRemoval{ago("h01", time.Minute)}, now: "h02", records: "h02"},
		{name: "removed, and back as another instance", hosts: 3, remove: "h01", recent: []v1alpha1.PoolRemoval{ago("h00", 3*time.Hour), ago("h01", 2*time.Hour+time.Minute)}, now: "h01", records: "h01"},
		{name: "a record of another instance of the name", hosts: 2, remove: "h01", recent: []v1alpha1.PoolRemoval{ago("h01", 121*time.Minute)}, limit: "10%/3h", waiting: "h01", records: "h01"},
		{name: "a record from the future counts from now on", hosts: 2, remove: "h01", recent: []v1alpha1.PoolRemoval{ago("gone", -1000*time.Hour)}, waiting: "h01", records: "gone"},
		{name: "confirmed, and going", hosts: 20, remove: "h01 h02", recent: []v1alpha1.PoolRemoval{confirmed("h01")}, now: "h01 h02", records: "h01 h02"},
		{name: "confirmed counts as long as it is there", hosts: 2, remove: "h01", leaving: "h00", recent: []v1alpha1.PoolRemoval{confirmed("h00")}, waiting: "h01", records: "h00"},
		{name: "confirmed, and gone", hosts: 2, remove: "h01", recent: []v1alpha1.PoolRemoval{confirmed("gone")}, now: "h01", records: "h01"},
		{name: "a number", hosts: 4, remove: "h01 h02", limit: "2", now: "h01 h02", records: "h01 h02"},
		{name: "more than a number", hosts: 40, remove: "h01 h02 h03", limit: "2", waiting: "h01 h02 h03"},
		{name: "none", hosts: 40, remove: "h01", limit: "0", waiting: "h01"},
		{name: "no percentage is less than one", hosts: 40, remove: "h01", limit: "0%", now: "h01", records: "h01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := Request{Ours: map[string]*v1alpha1.WindowsInstance{}, Leaving: map[string]bool{}}
			add := func(n int, prefix string, age time.Duration, finalizers ...string) {
				for i := range n {
					name := fmt.Sprintf("%s%02d", prefix, i)
					q.Ours[name] = &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age)), Finalizers: finalizers}}
				}
			}
			add(tt.hosts, "h", 2*time.Hour, v1alpha1.HostFinalizer)
			add(tt.bare, "n", 2*time.Hour, "example.com/other")
			add(tt.young, "y", time.Minute, v1alpha1.HostFinalizer)
			q.Unreached, q.Hold = tt.unreached, tt.hold
			for name := range strings.FieldsSeq(tt.leaving) {
				q.Leaving[name] = true
			}
			for name := range strings.FieldsSeq(tt.remove) {
				q.Remove = append(q.Remove, q.Ours[name])
			}
			l := Limit{Most: intstr.FromString("10%"), Window: time.Hour}
			if most, window, found := strings.Cut(tt.limit, "/"); tt.limit != "" {
				l.Most = intstr.Parse(most)
				if found {
					l.Window, _ = time.ParseDuration(window)
				}
			}
			r := l.Decide(q, tt.recent, now)
			if r.Held != tt.held {
				t.Errorf("held: %t", r.Held)
			}
			r.Record(now, false, r.Now...)
			var records []string
			for _, record := range r.Recent {
				records = append(records, record.Name)
				if record.Time.After(now) {
					t.Errorf("the record of %s is of %s", record.Name, record.Time)
				}
			}
			got := []string{strings.Join(namesOf(r.Now), " "), strings.Join(namesOf(r.Waiting), " "), fmt.Sprint(r.Later), strings.Join(records, " ")}
			if diff := cmp.Diff([]string{tt.now, tt.waiting, fmt.Sprint(tt.later), tt.records}, got); diff != "" {
				t.Errorf("now, waiting, later, records (-want +got):\n%s", diff)
			}
		})
	}
}
