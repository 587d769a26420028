// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose/preflight"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// What a probe saw holds for an instance with the same trusted keys, or with the key that it brought.
func TestApplies(t *testing.T) {
	ours, theirs := newKey(t, "host"), newKey(t, "other")
	fresh := newInstance("win-1", "10.1.42.1")
	pinned := func(key host.Key) *v1alpha1.WindowsInstance {
		instance := newInstance("win-1", "10.1.42.1")
		instance.Spec.HostKeys = []string{key.String()}
		return instance
	}
	for _, tt := range []struct {
		name     string
		seen     *observation
		instance *v1alpha1.WindowsInstance
		want     bool
	}{
		{"nothing has changed", &observation{pins: pinsOf(fresh)}, fresh, true},
		{"its key was recorded", &observation{pins: pinsOf(fresh), presented: ours}, pinned(ours), true},
		{"another key is trusted now", &observation{pins: pinsOf(fresh), presented: ours}, pinned(theirs), false},
		{"it presented no key", &observation{pins: pinsOf(fresh)}, pinned(ours), false},
		{"it failed", &observation{pins: pinsOf(fresh), presented: ours, err: errors.New("no")}, pinned(ours), false},
		{"it was logged in to with another key", &observation{pins: pinsOf(pinned(theirs)), report: &report{}}, pinned(ours), false},
	} {
		if got := applies(tt.seen, tt.instance); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// Where a known host is counts once it was found there, and where an unknown one is counts at once.
// Nothing of that is written to the object of the cache.
func TestWhereAHostIs(t *testing.T) {
	addresses := []string{"10.1.42.7"}
	for _, tt := range []struct {
		name    string
		machine string
		seen    *observation
		// wantAddresses are those that the instance stands for, seenAt and foundAt those of the instance
		// that others are compared with, and of the one whose Node is looked for.
		wantAddresses, seenAt, foundAt []string
		wantMachine                    string
	}{
		{"nobody looked", "", nil, nil, []string{"10.1.42.1"}, []string{"10.1.42.1"}, ""},
		{"an unknown one, not logged in to", "", &observation{addresses: addresses}, addresses, []string{"10.1.42.1"}, []string{"10.1.42.1"}, ""},
		{"an unknown one", "", &observation{addresses: addresses, report: &report{machineID: "m"}}, addresses, addresses, addresses, "m"},
		{"a known one, not logged in to", "m", &observation{addresses: addresses}, nil, []string{"10.1.42.1"}, []string{"10.1.42.1"}, "m"},
		{"a known one", "m", &observation{addresses: addresses, report: &report{machineID: "m"}}, addresses, []string{"10.1.42.1"}, []string{"10.1.42.1"}, "m"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			instance := newInstance("win-1", "10.1.42.1")
			instance.Status.MachineID, instance.Status.Addresses = tt.machine, []string{"10.1.42.1"}
			before := instance.DeepCopy()
			seen, found := seenAs(instance, tt.seen), foundAt(instance, tt.seen)
			got := [][]string{addressesOf(instance, tt.seen), seen.Status.Addresses, found.Status.Addresses}
			if diff := gocmp.Diff([][]string{tt.wantAddresses, tt.seenAt, tt.foundAt}, got); diff != "" || seen.Status.MachineID != tt.wantMachine {
				t.Errorf("machine %q (-want +got)\n%s", seen.Status.MachineID, diff)
			}
			if !gocmp.Equal(instance, before) {
				t.Error("the object of the cache was changed")
			}
		})
	}
}

// What a probe says counts for the host that it was made of, and one that came to no conclusion leaves
// what was seen before.
func TestTracker(t *testing.T) {
	key := types.NamespacedName{Namespace: testNamespace, Name: "win-1"}
	instance := newInstance("win-1", "10.1.42.1")
	late := &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonCanceled, Err: context.Canceled}
	if !diagnose.IsInconclusive(late) {
		t.Fatal("a probe that was ended is taken for a finding")
	}
	before := &observation{uid: instance.UID, contact: "c", finished: testNow, report: &report{}}
	for _, tt := range []struct {
		name     string
		next     observation
		wantLast bool // it is the last one now
		want     outcome
	}{
		{"it failed", observation{err: errors.New("no"), hung: true}, true, outcomeFailed},
		{"it was ended", observation{err: late, hung: true}, false, outcomeFailed},
		{"its Secret could not be read", observation{err: &host.CredentialsError{Unread: true}}, false, outcomeFailed},
		{"it is well", observation{report: &report{}}, true, outcomeHealthy},
		{"the host was to be contacted in another way", observation{contact: "d"}, false, outcomeHealthy},
		{"the instance was another one", observation{uid: "other"}, false, outcomeHealthy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tracker := newTracker()
			well := func(want int, when string) {
				t.Helper()
				if got := tracker.countWell(); got != want {
					t.Errorf("%s: all is well with %d hosts, want %d", when, got, want)
				}
			}
			tracker.observe(key, before, 0.5) // nobody knows it
			tracker.renew(key)
			if got := tracker.forget(key); got != nil {
				t.Errorf("got %v before it was known", got)
			}
			known, replaced := tracker.sync(key, instance, "c", func() history { return history{outcome: outcomeRestored} })
			if known.history.outcome != outcomeRestored || known.last != nil || replaced != nil {
				t.Errorf("got %+v", known)
			}
			well(1, "a former process knew it")
			tracker.observe(key, before, 0.5)
			well(1, "it was probed")
			next := tt.next
			next.uid, next.contact, next.finished = cmp.Or(next.uid, instance.UID), cmp.Or(next.contact, "c"), testNow.Add(time.Minute)
			tracker.observe(key, &next, 0.5)
			known, _ = tracker.sync(key, instance, "c", nil)
			if (known.last == &next) != tt.wantLast || known.history.outcome != tt.want || known.history.hung != (next.hung && tt.wantLast) {
				t.Errorf("last is it: %v, history %+v", known.last == &next, known.history)
			}
			if tt.want == outcomeHealthy {
				well(1, "it is healthy")
			} else {
				well(0, "it is not")
			}
			tracker.renew(key)
			well(0, "it is probed at once")
			if renewed, _ := tracker.sync(key, instance, "c", nil); renewed.history != (history{hung: known.history.hung}) {
				t.Errorf("renewed: got %+v", renewed.history)
			}
			tracker.observe(key, before, 0.5)
			well(1, "it was probed again")
			if _, replaced := tracker.sync(key, instance, "another", nil); !reflect.DeepEqual(replaced, contacted(instance)) {
				t.Errorf("contacted in another way: got %v", replaced)
			}
			well(0, "it is contacted in another way")
			if got := tracker.forget(key); !reflect.DeepEqual(got, contacted(instance)) {
				t.Errorf("forgotten: got %v", got)
			}
		})
	}
}

// What was seen is valid since the probe began, and if that is not known any more since it ended.
func TestValidSince(t *testing.T) {
	seen := &observation{started: testNow.Add(-time.Minute), finished: testNow}
	for _, tt := range []struct {
		known remembered
		want  time.Time
	}{
		{remembered{history: history{at: testNow}}, testNow},
		{remembered{last: seen, history: history{at: testNow}}, seen.started},
		{remembered{last: seen, history: history{at: testNow.Add(time.Minute)}}, testNow.Add(time.Minute)},
	} {
		if got := validSince(tt.known); !got.Equal(tt.want) {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// Only a Node that was ready can be lost.
func TestLostNode(t *testing.T) {
	ready := func(status metav1.ConditionStatus) *v1alpha1.WindowsInstanceStatus {
		s := &v1alpha1.WindowsInstanceStatus{}
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: v1alpha1.ConditionNodeReady, Status: status})
		return s
	}
	for _, before := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
		for _, after := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
			if got := lostNode(ready(before), ready(after)); got != (before == metav1.ConditionTrue && after == metav1.ConditionFalse) {
				t.Errorf("%s, then %s: got %v", before, after, got)
			}
		}
	}
}

// The metrics tell ends of probes apart.
func TestResultOf(t *testing.T) {
	instance := newInstance("win-1", "10.1.42.1")
	for _, tt := range []struct {
		seen observation
		want string
	}{
		{observation{report: &report{}}, "Healthy"},
		{observation{report: &report{findings: []preflight.Finding{{Severity: preflight.Error}}}}, v1alpha1.ReasonFindings},
		{observation{}, eventHostKeyRecorded},
		{observation{duplicate: true}, v1alpha1.ReasonDuplicateHost},
		{observation{unconfirmed: true}, v1alpha1.ReasonHostKeyUnconfirmed},
		{observation{unheld: true}, v1alpha1.ReasonLoggedIn},
		{observation{failed: diagnose.StageLogin, err: &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonCanceled, Err: context.Canceled}}, "NotConcluded"},
		{observation{failed: diagnose.StageLogin, err: &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionRefused}}, v1alpha1.ReasonConnectionRefused},
	} {
		if got := resultOf(&tt.seen, instance); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// The phase says what is being done to a host, while it is.
func TestOperationPhase(t *testing.T) {
	for operation, want := range map[v1alpha1.OperationType]v1alpha1.WindowsInstancePhase{
		v1alpha1.OperationDrain: v1alpha1.InstanceDraining, v1alpha1.OperationReboot: v1alpha1.InstanceRebooting, v1alpha1.OperationUncordon: "",
		v1alpha1.OperationReconfigure: v1alpha1.InstanceConfiguring, v1alpha1.OperationRemove: v1alpha1.InstanceRemoving,
	} {
		for _, phase := range []v1alpha1.OperationPhase{v1alpha1.OperationPending, v1alpha1.OperationRunning, v1alpha1.OperationFailed} {
			if got := (&v1alpha1.Operation{Type: operation, Phase: phase}).HostPhase(); phase == v1alpha1.OperationRunning && got != want || phase != v1alpha1.OperationRunning && got != "" {
				t.Errorf("%s %s: got %q", operation, phase, got)
			}
		}
	}
}

// Of a machine that can say less of itself than before, the most that was known is kept.
func TestMergeMachine(t *testing.T) {
	for _, tt := range []struct{ recorded, now, want string }{
		{"", "f/i", "f/i"}, {"", "/i", "/i"}, {"f/i", "/i", "f/i"}, {"f/i", "f/", "f/i"}, {"f/i", "g/j", "g/j"}, {"f/i", "", "f/i"},
	} {
		if got := mergeMachine(tt.recorded, tt.now); got != tt.want {
			t.Errorf("%q, then %q: got %q, want %q", tt.recorded, tt.now, got, tt.want)
		}
	}
}

// A service that could not be read may be a kubelet.
func TestHasKubelet(t *testing.T) {
	for _, tt := range []struct {
		name  string
		facts api.Facts
		want  bool
	}{
		{"nothing", api.Facts{}, false},
		{"another service", api.Facts{Services: []api.Service{{Name: "sshd"}}}, false},
		{"a kubelet", api.Facts{Services: []api.Service{{Name: "Kubelet"}}}, true},
		{"something else was not read", api.Facts{Errors: []api.FactError{{Area: "disks"}}}, false},
		{"services were not read", api.Facts{Errors: []api.FactError{{Area: "services"}}}, true},
		{"a service was not read", api.Facts{Errors: []api.FactError{{Area: "services/kubelet"}}}, true},
	} {
		if got := tt.facts.MayHaveService(wmco.KubeletService); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
	facts := goodFacts()
	facts.Name.FQDN, facts.Configuration.NodeName = "win-1.example.com", "ip-10-0-0-5.ec2.internal"
	if got := systemStatus(facts); got.FQDN != "win-1.example.com" || got.NodeName != "ip-10-0-0-5.ec2.internal" || got.CPUs != 4 {
		t.Errorf("got %+v", got)
	}
}
