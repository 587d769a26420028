// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// healthy is what a probe of a host sees that nothing speaks against.
func healthy(change ...func(*api.Facts)) *observation {
	facts := goodFacts()
	for _, c := range change {
		c(facts)
	}
	return &observation{
		started: testNow, finished: testNow, addresses: []string{"10.1.42.1"},
		contacted: true, verified: true, loggedIn: true, report: newReport(facts, testNow, testNow),
		peer: host.Peer{Address: netip.MustParseAddr("10.1.42.1")},
	}
}

// as is an observation of a host that has proven to have a key.
func (o *observation) as(key host.Key) *observation {
	o.peer.Key = key
	return o
}

// known is an instance whose host key was recorded on first use.
func known(t testing.TB) *v1alpha1.WindowsInstance {
	t.Helper()
	instance := newInstance("win-1", "10.1.42.1")
	instance.Status.ObservedGeneration = 1
	instance.Status.HostKeys = recordKeys(nil, append(trust(nil, nil, false, host.Key{}).keys, newKey(t, "host")), v1alpha1.TrustedOnFirstUse, metav1.NewTime(testNow.Add(-time.Hour)))
	return instance
}

// inspected is a known instance whose host was logged in to.
func inspected(t testing.TB) *v1alpha1.WindowsInstance {
	t.Helper()
	instance := known(t)
	instance.Status.Version, instance.Status.Addresses = "v1.2.3", []string{"10.1.42.1"}
	return instance
}

// operated is an instance whose host was logged in to, with an operation.
func operated(t *testing.T, kind v1alpha1.OperationType, phase v1alpha1.OperationPhase) *v1alpha1.WindowsInstance {
	t.Helper()
	instance := inspected(t)
	instance.Status.Operation = &v1alpha1.Operation{ID: "op-1", Type: kind, Phase: phase}
	return instance
}

func TestEvaluate(t *testing.T) {
	readyNode := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	refused := &observation{finished: testNow, addresses: []string{"10.1.42.1"}, failed: diagnose.StageLogin,
		err: &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionRefused}}

	for _, test := range []struct {
		name      string
		snapshot  snapshot
		want      []string
		wantPhase v1alpha1.WindowsInstancePhase
	}{
		{
			name:     "new",
			snapshot: snapshot{instance: newInstance("win-1", "10.1.42.1")},
			want: []string{"Resolved=Unknown/NotTried", "Reachable=Unknown/NotTried", "HostKeyTrusted=Unknown/NotTried", "Authenticated=Unknown/NotTried", "PreflightPassed=Unknown/NotTried",
				"Configured=Unknown/NotManaged", "RebootRequired=Unknown/NotTried", "UpToDate=Unknown/NotTried", "NodeReady=Unknown/NotTried", "Ready=Unknown/NotTried"},
			wantPhase: v1alpha1.InstancePending,
		},
		{
			name:     "all is well",
			snapshot: snapshot{instance: known(t), observation: healthy(), node: readyNode},
			want: []string{"Resolved=True/AddressResolved", "Reachable=True/SSHAnswers", "HostKeyTrusted=True/FirstUse", "Authenticated=True/LoggedIn", "PreflightPassed=True/PreflightPassed",
				"Configured=Unknown/NotManaged", "RebootRequired=False/NoRebootPending", "UpToDate=True/RevisionCurrent", "NodeReady=True/NodeReady", "Ready=True/AllChecksPassed"},
			wantPhase: v1alpha1.InstanceReady,
		},
		{
			name:     "host key read and to be recorded",
			snapshot: snapshot{instance: newInstance("win-1", "10.1.42.1"), observation: &observation{finished: testNow, addresses: []string{"10.1.42.1"}, presented: newKey(t, "host"), contacted: true}},
			want: []string{"Resolved=True/AddressResolved", "Reachable=True/SSHAnswers", "HostKeyTrusted=True/FirstUse", "Authenticated=Unknown/NotTried", "PreflightPassed=Unknown/NotTried",
				"Configured=Unknown/NotManaged", "RebootRequired=Unknown/NotTried", "UpToDate=Unknown/NotTried", "NodeReady=Unknown/NotTried", "Ready=Unknown/NotTried"},
			wantPhase: v1alpha1.InstanceConnecting,
		},
		{
			name:     "fit and no node",
			snapshot: snapshot{instance: known(t), observation: healthy()},
			want: []string{"Resolved=True/AddressResolved", "Reachable=True/SSHAnswers", "HostKeyTrusted=True/FirstUse", "Authenticated=True/LoggedIn", "PreflightPassed=True/PreflightPassed",
				"Configured=Unknown/NotManaged", "RebootRequired=False/NoRebootPending", "UpToDate=True/RevisionCurrent", "NodeReady=False/NoNode", "Ready=False/NoNode"},
			wantPhase: v1alpha1.InstanceConnected,
		},
		{
			name:     "node is not ready",
			snapshot: snapshot{instance: known(t), observation: healthy(), node: newNode("win-1", "10.1.42.1", corev1.ConditionUnknown)},
			want: []string{"Resolved=True/AddressResolved", "Reachable=True/SSHAnswers", "HostKeyTrusted=True/FirstUse", "Authenticated=True/LoggedIn", "PreflightPassed=True/PreflightPassed",
				"Configured=Unknown/NotManaged", "RebootRequired=False/NoRebootPending", "UpToDate=True/RevisionCurrent", "NodeReady=False/NodeNotReady", "Ready=False/NodeNotReady"},
			wantPhase: v1alpha1.InstanceConnected,
		},
		{
			name: "not fit, waiting for a restart, outdated",
			snapshot: snapshot{instance: known(t), node: readyNode, observation: healthy(func(f *api.Facts) {
				f.System.Build = 14393
				f.PendingReboot = api.PendingReboot{Pending: true, Reasons: []string{api.RebootWindowsUpdate}}
				f.Agent.SHA256 = strings.Repeat("f", 64)
			})},
			want: []string{"Resolved=True/AddressResolved", "Reachable=True/SSHAnswers", "HostKeyTrusted=True/FirstUse", "Authenticated=True/LoggedIn", "PreflightPassed=False/Findings",
				"Configured=Unknown/NotManaged", "RebootRequired=True/RebootPending", "UpToDate=False/RevisionOutdated", "NodeReady=True/NodeReady", "Ready=False/Findings"},
			wantPhase: v1alpha1.InstanceFailed,
		},
		{
			name:     "restarted by an operation",
			snapshot: snapshot{instance: operated(t, v1alpha1.OperationReboot, v1alpha1.OperationRunning), observation: refused, node: readyNode},
			want: []string{"Resolved=True/AddressResolved", "Reachable=False/ConnectionRefused", "HostKeyTrusted=Unknown/NotTried", "Authenticated=Unknown/NotTried", "PreflightPassed=Unknown/NotTried",
				"Configured=Unknown/NotManaged", "RebootRequired=Unknown/NotTried", "UpToDate=Unknown/NotTried", "NodeReady=True/NodeReady", "Ready=False/ConnectionRefused"},
			wantPhase: v1alpha1.InstanceRebooting,
		},
		{
			name:     "drained, and ready again",
			snapshot: snapshot{instance: operated(t, v1alpha1.OperationDrain, v1alpha1.OperationSucceeded), observation: healthy(), node: readyNode},
			want: []string{"Resolved=True/AddressResolved", "Reachable=True/SSHAnswers", "HostKeyTrusted=True/FirstUse", "Authenticated=True/LoggedIn", "PreflightPassed=True/PreflightPassed",
				"Configured=Unknown/NotManaged", "RebootRequired=False/NoRebootPending", "UpToDate=True/RevisionCurrent", "NodeReady=True/NodeReady", "Ready=True/AllChecksPassed"},
			wantPhase: v1alpha1.InstanceReady,
		},
		{
			name:     "nothing listens, while the node is ready",
			snapshot: snapshot{instance: inspected(t), observation: refused, node: readyNode},
			want: []string{"Resolved=True/AddressResolved", "Reachable=False/ConnectionRefused", "HostKeyTrusted=Unknown/NotTried", "Authenticated=Unknown/NotTried", "PreflightPassed=Unknown/NotTried",
				"Configured=Unknown/NotManaged", "RebootRequired=Unknown/NotTried", "UpToDate=Unknown/NotTried", "NodeReady=True/NodeReady", "Ready=False/ConnectionRefused"},
			wantPhase: v1alpha1.InstanceUnreachable,
		},
		{
			name:     "nothing listens, and it never was logged in to",
			snapshot: snapshot{instance: known(t), observation: refused, node: readyNode},
			want: []string{"Resolved=True/AddressResolved", "Reachable=False/ConnectionRefused", "HostKeyTrusted=Unknown/NotTried", "Authenticated=Unknown/NotTried", "PreflightPassed=Unknown/NotTried",
				"Configured=Unknown/NotManaged", "RebootRequired=Unknown/NotTried", "UpToDate=Unknown/NotTried", "NodeReady=Unknown/NotTried", "Ready=False/ConnectionRefused"},
			wantPhase: v1alpha1.InstanceUnreachable,
		},
		{
			name: "agent does not run",
			snapshot: snapshot{instance: known(t), observation: &observation{finished: testNow, addresses: []string{"10.1.42.1"}, contacted: true, verified: true, loggedIn: true,
				failed: diagnose.StageFacts, err: &agentclient.Error{Step: agentclient.StepUpload, Err: errors.New("disk full")}}},
			want: []string{"Resolved=True/AddressResolved", "Reachable=True/SSHAnswers", "HostKeyTrusted=True/FirstUse", "Authenticated=True/LoggedIn", "PreflightPassed=Unknown/AgentNotInstalled",
				"Configured=Unknown/NotManaged", "RebootRequired=Unknown/NotTried", "UpToDate=Unknown/NotTried", "NodeReady=False/NoNode", "Ready=False/AgentNotInstalled"},
			wantPhase: v1alpha1.InstanceFailed,
		},
		{
			name: "no credentials, and whose key it is could not be verified without",
			snapshot: snapshot{instance: known(t), observation: &observation{finished: testNow, addresses: []string{"10.1.42.1"}, contacted: true, presented: newRSAKey(t),
				failed: diagnose.StageLogin, err: &host.CredentialsError{Secret: "a/b", Err: errors.New("not found")}}},
			want: []string{"Resolved=True/AddressResolved", "Reachable=True/SSHAnswers", "HostKeyTrusted=Unknown/NotTried", "Authenticated=False/CredentialsMissing", "PreflightPassed=Unknown/NotTried",
				"Configured=Unknown/NotManaged", "RebootRequired=Unknown/NotTried", "UpToDate=Unknown/NotTried", "NodeReady=Unknown/NotTried", "Ready=False/CredentialsMissing"},
			wantPhase: v1alpha1.InstanceFailed,
		},
		{
			name: "no credentials, and another host key",
			snapshot: snapshot{instance: known(t), observation: &observation{finished: testNow, addresses: []string{"10.1.42.1"}, contacted: true, presented: newKey(t, "other"),
				failed: diagnose.StageLogin, err: &host.CredentialsError{Secret: "a/b", Err: errors.New("not found")}}},
			want: []string{"Resolved=True/AddressResolved", "Reachable=True/SSHAnswers", "HostKeyTrusted=False/HostKeyChanged", "Authenticated=False/CredentialsMissing", "PreflightPassed=Unknown/NotTried",
				"Configured=Unknown/NotManaged", "RebootRequired=Unknown/NotTried", "UpToDate=Unknown/NotTried", "NodeReady=Unknown/NotTried", "Ready=False/HostKeyChanged"},
			wantPhase: v1alpha1.InstanceFailed,
		},
		{
			name: "pin that cannot be read",
			snapshot: snapshot{instance: known(t), observation: &observation{finished: testNow, addresses: []string{"10.1.42.1"},
				failed: diagnose.StageHostKey, err: &unusableKeyError{errors.New("spec.hostKeys[0] is not a public key")}}},
			want: []string{"Resolved=True/AddressResolved", "Reachable=Unknown/NotTried", "HostKeyTrusted=Unknown/NotTried", "Authenticated=Unknown/NotTried", "PreflightPassed=Unknown/NotTried",
				"Configured=Unknown/NotManaged", "RebootRequired=Unknown/NotTried", "UpToDate=Unknown/NotTried", "NodeReady=Unknown/NotTried", "Ready=Unknown/NotTried"},
			wantPhase: v1alpha1.InstanceConnecting,
		},
		{
			name:     "new and paused",
			snapshot: snapshot{instance: newInstance("win-1", "10.1.42.1"), paused: "Paused."},
			want: []string{"Resolved=Unknown/Paused", "Reachable=Unknown/Paused", "HostKeyTrusted=Unknown/Paused", "Authenticated=Unknown/Paused", "PreflightPassed=Unknown/Paused",
				"Configured=Unknown/NotManaged", "RebootRequired=Unknown/Paused", "UpToDate=Unknown/Paused", "NodeReady=Unknown/NotTried", "Ready=Unknown/Paused"},
			wantPhase: v1alpha1.InstancePending,
		},
		{
			name:     "duplicate",
			snapshot: snapshot{instance: newInstance("win-1", "10.1.42.1"), duplicate: "Instance win-0 already represents this host."},
			want: []string{"Resolved=False/DuplicateHost", "Reachable=Unknown/NotTried", "HostKeyTrusted=Unknown/NotTried", "Authenticated=Unknown/NotTried", "PreflightPassed=Unknown/NotTried",
				"Configured=Unknown/NotManaged", "RebootRequired=Unknown/NotTried", "UpToDate=Unknown/NotTried", "NodeReady=Unknown/NotTried", "Ready=False/DuplicateHost"},
			wantPhase: v1alpha1.InstanceFailed,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.snapshot.revision, test.snapshot.now = testRevision, testNow
			got := evaluate(test.snapshot)
			if diff := cmp.Diff(test.want, conditionsOf(&got)); diff != "" {
				t.Errorf("conditions (-want +got)\n%s", diff)
			}
			if got.Phase != test.wantPhase {
				t.Errorf("got phase %s, want %s", got.Phase, test.wantPhase)
			}
			for _, c := range got.Conditions {
				if c.Message == "" || strings.Contains(c.Message, "%!") || c.ObservedGeneration != 1 || !c.LastTransitionTime.Time.Equal(testNow) {
					t.Errorf("bad condition %+v", c)
				}
			}

			wantSettled(t, test.snapshot, got)
		})
	}
}

// wantSettled wants that the same snapshot gives the same status later on: nothing is to be written.
func wantSettled(t *testing.T, s snapshot, status v1alpha1.WindowsInstanceStatus) {
	t.Helper()
	s.instance = s.instance.DeepCopy()
	s.instance.Status = status
	s.now = testNow.Add(time.Hour)
	if again := evaluate(s); !equality.Semantic.DeepEqual(status, again) {
		t.Errorf("an unchanged snapshot changed the status\n%s", cmp.Diff(status, again))
	}
}

func TestEvaluateKeepsTransitionTimes(t *testing.T) {
	instance := known(t)
	instance.Status = evaluate(snapshot{instance: instance, observation: healthy(), revision: testRevision, now: testNow})
	later := testNow.Add(time.Hour)

	got := evaluate(snapshot{instance: instance, observation: healthy(), node: newNode("win-1", "10.1.42.1", corev1.ConditionTrue), revision: testRevision, now: later})

	for _, c := range got.Conditions {
		want := testNow
		if c.Type == v1alpha1.ConditionNodeReady || c.Type == v1alpha1.ConditionReady {
			want = later
		}
		if !c.LastTransitionTime.Time.Equal(want) {
			t.Errorf("%s changed at %s, want %s", c.Type, c.LastTransitionTime, want)
		}
	}
}

// TestEvaluateNotReadyTimes: it is remembered when a Node went down of which nothing of ours took the services away, the last times.
func TestEvaluateNotReadyTimes(t *testing.T) {
	instance := known(t)
	status, at := &instance.Status, testNow
	becomes := func(ready corev1.ConditionStatus, edit func(*corev1.Node)) []metav1.Time {
		at = at.Add(time.Minute)
		node := newNode("win-1", "10.1.42.1", ready)
		edit(node)
		instance.Status = evaluate(snapshot{instance: instance, observation: healthy(), node: node, revision: testRevision, now: at})
		return status.NodeNotReadyTimes
	}
	as := func(*corev1.Node) {}
	if got := becomes(corev1.ConditionFalse, as); len(got) > 0 {
		t.Errorf("it was not ready before: %v", got)
	}
	becomes(corev1.ConditionTrue, as)
	if got := becomes(corev1.ConditionUnknown, as); len(got) != 1 || !got[0].Time.Equal(at.Truncate(time.Second)) {
		t.Errorf("it went down at %s: %v", at, got)
	}
	if got := becomes(corev1.ConditionFalse, as); len(got) != 1 {
		t.Errorf("it stays down: %v", got)
	}
	becomes(corev1.ConditionTrue, as)
	if got := becomes(corev1.ConditionFalse, func(n *corev1.Node) { n.UID = "another" }); len(got) != 1 {
		t.Errorf("it is another one: %v", got)
	}
	becomes(corev1.ConditionTrue, as)
	instance.Status.Operation = &v1alpha1.Operation{ID: "reboot-1", Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationRunning}
	if got := becomes(corev1.ConditionFalse, as); len(got) != 1 {
		t.Errorf("it is restarted: %v", got)
	}
	instance.Status.Operation = nil
	for range 9 {
		becomes(corev1.ConditionTrue, as)
		becomes(corev1.ConditionFalse, as)
	}
	if got := status.NodeNotReadyTimes; len(got) != maxNotReadyTimes || !got[maxNotReadyTimes-1].Time.Equal(at.Truncate(time.Second)) {
		t.Errorf("the last are %v", got)
	}
}

func TestEvaluatePausedKeepsWhatIsKnown(t *testing.T) {
	instance := known(t)
	instance.Status = evaluate(snapshot{instance: instance, observation: healthy(), revision: testRevision, now: testNow})
	before := conditionsOf(&instance.Status)

	got := evaluate(snapshot{instance: instance, paused: "Paused.", revision: testRevision, now: testNow})

	want := slices.Clone(before)
	want[len(want)-1] = "Ready=Unknown/Paused"
	if diff := cmp.Diff(want, conditionsOf(&got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	instance.Status = got
	got = evaluate(snapshot{instance: instance, revision: testRevision, now: testNow})
	if diff := cmp.Diff(before, conditionsOf(&got)); diff != "" {
		t.Errorf("after the pause (-want +got)\n%s", diff)
	}
}

// Until the host was contacted with the new spec, the status says which spec it speaks of.
func TestEvaluateAfterASpecChange(t *testing.T) {
	instance := known(t)
	instance.Status = evaluate(snapshot{instance: instance, observation: healthy(), revision: testRevision, now: testNow})
	instance.Generation = 2

	got := evaluate(snapshot{instance: instance, revision: testRevision, now: testNow})
	if !equality.Semantic.DeepEqual(instance.Status, got) {
		t.Errorf("the status changed before anything was found out\n%s", cmp.Diff(instance.Status, got))
	}
	got = evaluate(snapshot{instance: instance, observation: healthy(), revision: testRevision, now: testNow})
	for _, c := range got.Conditions {
		if c.ObservedGeneration != 2 {
			t.Errorf("%s speaks of generation %d", c.Type, c.ObservedGeneration)
		}
	}
	if got.ObservedGeneration != 2 {
		t.Errorf("the status speaks of generation %d", got.ObservedGeneration)
	}
}

func TestEvaluateHostKeys(t *testing.T) {
	ours, other := newKey(t, "host"), newKey(t, "other")
	hourAgo := metav1.NewTime(testNow.Add(-time.Hour))
	agentless := func(err error) *observation {
		return &observation{
			finished: testNow, contacted: true, verified: true, loggedIn: true, failed: diagnose.StageFacts, err: err,
			addresses: []string{"10.1.42.1"}, peer: host.Peer{Address: netip.MustParseAddr("10.1.42.1")},
		}
	}
	firstUse := recordKeys(nil, append(trust(nil, nil, false, host.Key{}).keys, ours), v1alpha1.TrustedOnFirstUse, hourAgo)

	for _, test := range []struct {
		name        string
		spec        []string
		recorded    []v1alpha1.HostKeyStatus
		observation *observation
		want        []string // fingerprint, trusted by, first seen
		machine     string
		at          string
	}{
		{"first use", nil, nil, &observation{finished: testNow, presented: ours, contacted: true},
			[]string{"SHA256 of host by FirstUse now"}, "", ""},
		{"kept", nil, firstUse, healthy().as(ours), []string{"SHA256 of host by FirstUse an hour ago"}, "", ""},
		{"changed: kept", nil, firstUse, &observation{finished: testNow, failed: diagnose.StageLogin, err: verifyAs(other, known(t))},
			[]string{"SHA256 of host by FirstUse an hour ago"}, "", ""},
		{"pinned and never reached: not recorded", []string{ours.String()}, nil, &observation{finished: testNow, failed: diagnose.StageLogin, err: &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionRefused}}, nil, "", ""},
		{"pinned and verified", []string{ours.String()}, nil, healthy().as(ours), []string{"SHA256 of host by Spec now"}, "", ""},
		{"several pinned, one verified", []string{other.String(), ours.String()}, nil, healthy().as(ours), []string{"SHA256 of host by Spec now"}, "", ""},
		{"all pinned ones recorded by an earlier release", []string{other.String(), ours.String()}, recordKeys(nil, []host.Key{other, ours}, v1alpha1.TrustedBySpec, hourAgo), healthy().as(ours), []string{"SHA256 of host by Spec an hour ago"}, "f/w", ""},
		{"pinned, and logged in to by nobody", []string{ours.String()}, nil, &observation{finished: testNow, contacted: true, verified: true, failed: diagnose.StageLogin, err: &ssh.Error{Layer: ssh.LayerAuth, Reason: ssh.ReasonCredentialsRefused}}, nil, "", ""},
		{"pinned after first use", []string{ours.String()}, firstUse, healthy().as(ours), []string{"SHA256 of host by Spec an hour ago"}, "", ""},
		{"pinned anew and verified", []string{other.String()}, firstUse, healthy().as(other), []string{"SHA256 of other by Spec now"}, "", ""},
		{"pinned anew, by the same machine", []string{other.String()}, firstUse, healthy().as(other), []string{"SHA256 of other by Spec now"}, "f/w", ""},
		{"pinned anew, by a machine that is another one", []string{other.String()}, firstUse, agentless(&agentclient.AnotherHostError{Want: "f/w", Found: "g/v"}).as(other),
			[]string{"SHA256 of host by FirstUse an hour ago"}, "f/w", "10.1.42.1"},
		{"pinned anew, by a machine that does not say which one it is yet", []string{other.String()}, firstUse, agentless(errors.New("no agent")).as(other),
			[]string{"SHA256 of host by FirstUse an hour ago"}, "f/w", "10.1.42.2"},
		{"pinned anew, and our agent cannot run on the host", []string{other.String()}, firstUse, agentless(errors.New("no agent")).as(other),
			[]string{"SHA256 of other by Spec now"}, "f/w", "10.1.42.1"},
		{"pinned, and no agent on a new host", []string{ours.String()}, nil, agentless(errors.New("no agent")).as(ours),
			[]string{"SHA256 of host by Spec now"}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := newInstance("win-1", "10.1.42.1")
			instance.Spec.HostKeys, instance.Status.HostKeys, instance.Status.MachineID, instance.Status.HostIP = test.spec, test.recorded, test.machine, test.at
			status := evaluate(snapshot{instance: instance, observation: test.observation, revision: testRevision, now: testNow})
			names := map[string]string{recordKeys(nil, append(trust(nil, nil, false, host.Key{}).keys, ours), "", hourAgo)[0].Fingerprint: "host", recordKeys(nil, append(trust(nil, nil, false, host.Key{}).keys, other), "", hourAgo)[0].Fingerprint: "other"}
			var got []string
			for _, key := range status.HostKeys {
				when := "now"
				if key.FirstSeen.Equal(&hourAgo) {
					when = "an hour ago"
				}
				got = append(got, "SHA256 of "+names[key.Fingerprint]+" by "+string(key.TrustedBy)+" "+when)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestEvaluateAddresses(t *testing.T) {
	unresolved := &observation{finished: testNow, failed: diagnose.StageResolve, err: &ssh.Error{Layer: ssh.LayerDNS, Reason: ssh.ReasonNameNotResolved}}
	forbidden := &observation{finished: testNow, failed: diagnose.StageResolve, err: &ssh.Error{Layer: ssh.LayerDNS, Reason: ssh.ReasonAddressRefused}}
	for _, test := range []struct {
		name        string
		observation *observation
		generation  int64
		want        []string
	}{
		{"in another order", &observation{addresses: []string{"10.1.42.2", "10.1.42.1"}}, 1, []string{"10.1.42.1", "10.1.42.2"}},
		{"others", &observation{addresses: []string{"10.1.42.3"}}, 1, []string{"10.1.42.3"}},
		{"not known for a while", unresolved, 1, []string{"10.1.42.1", "10.1.42.2"}},
		{"those of an earlier spec", unresolved, 2, nil},
		{"refused", forbidden, 1, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := newInstance("win-1", "win-1.example.com")
			instance.Generation = test.generation
			instance.Status.ObservedGeneration = 1
			instance.Status.Addresses = []string{"10.1.42.1", "10.1.42.2"}
			got := evaluate(snapshot{instance: instance, observation: test.observation, revision: testRevision, now: testNow}).Addresses
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What counts is where the host was logged in to, and not what else its name resolves to.
func TestEvaluateHostIP(t *testing.T) {
	loggedIn := healthy()
	loggedIn.addresses, loggedIn.peer.Address = []string{"10.1.42.1", "10.1.42.2"}, netip.MustParseAddr("10.1.42.2")
	agentless := *loggedIn
	agentless.report, agentless.err = nil, errors.New("no agent")
	for _, test := range []struct {
		name, machine, before string
		observation           *observation
		want                  string
	}{
		{"logged in to", "", "", loggedIn, "10.1.42.2"},
		{"logged in to at another one", "f/w", "10.1.42.1", loggedIn, "10.1.42.2"},
		{"logged in to for the first time since it is recorded", "f/w", "", loggedIn, "10.1.42.2"},
		{"logged in to, and what answers does not say which machine it is", "f/w", "10.1.42.1", &agentless, "10.1.42.1"},
		{"out of reach", "f/w", "10.1.42.1", &observation{addresses: []string{"10.1.42.2"}, err: errors.New("no route")}, "10.1.42.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := newInstance("win-1", "win-1.example.com")
			instance.Status.MachineID, instance.Status.HostIP = test.machine, test.before
			if got := evaluate(snapshot{instance: instance, observation: test.observation, revision: testRevision, now: testNow}).HostIP; got != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestEvaluateNamesEveryFinding(t *testing.T) {
	status := evaluate(snapshot{instance: known(t), revision: testRevision, now: testNow, observation: healthy(func(f *api.Facts) {
		f.Memory.TotalBytes, f.Disks[0].FreeBytes, f.Name.Hostname = gib, gib, "WIN-1"
	})})
	got := messageOf(t, &status, v1alpha1.ConditionPreflightPassed)
	for _, want := range []string{"The host cannot be a node yet: [MemoryTooSmall]", "; [DiskTooSmall]", "Worth knowing: [HostnameNotLowerCase]"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
}

func TestTransitions(t *testing.T) {
	status := func(w snapshot) v1alpha1.WindowsInstanceStatus {
		w.revision, w.now = testRevision, testNow
		return evaluate(w)
	}
	node := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	fresh := status(snapshot{instance: newInstance("win-1", "10.1.42.1")})
	recorded := status(snapshot{instance: newInstance("win-1", "10.1.42.1"), observation: &observation{finished: testNow, addresses: []string{"10.1.42.1"}, presented: newKey(t, "host"), contacted: true}})
	well := status(snapshot{instance: known(t), observation: healthy()})
	withNode := status(snapshot{instance: known(t), observation: healthy(), node: node})
	nodeDown := status(snapshot{instance: known(t), observation: healthy(), node: newNode("win-1", "10.1.42.1", corev1.ConditionFalse)})
	failing := func(reason ssh.Reason) v1alpha1.WindowsInstanceStatus {
		instance := known(t)
		instance.Status = well
		return status(snapshot{instance: instance, observation: &observation{finished: testNow, addresses: []string{"10.1.42.1"}, failed: diagnose.StageLogin, err: &ssh.Error{Layer: ssh.LayerConnect, Reason: reason}}})
	}
	refused, timedOut := failing(ssh.ReasonConnectionRefused), failing(ssh.ReasonConnectionTimedOut)
	paused := known(t)
	paused.Status = well
	pausedStatus := status(snapshot{instance: paused, paused: "Paused."})
	configured := func(reason string) v1alpha1.WindowsInstanceStatus {
		s := *well.DeepCopy()
		c := metav1.Condition{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionFalse, Reason: reason, Message: "Why."}
		if reason == v1alpha1.ReasonConfigured {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&s.Conditions, c)
		return s
	}
	const missing = v1alpha1.ReasonInputsMissing
	withKey := func(status metav1.ConditionStatus, reason string) v1alpha1.WindowsInstanceStatus {
		s := *well.DeepCopy()
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: v1alpha1.ConditionCredentialsCurrent, Status: status, Reason: reason, Message: "Why."})
		return s
	}
	pending, keyFailed, cut := withKey(metav1.ConditionFalse, v1alpha1.ReasonKeyRotationPending), withKey(metav1.ConditionFalse, v1alpha1.ReasonKeyRotationFailed), withKey(metav1.ConditionFalse, v1alpha1.ReasonKeyRotationInterrupted)

	for _, test := range []struct {
		name          string
		before, after v1alpha1.WindowsInstanceStatus
		want          []string
	}{
		{"first write", v1alpha1.WindowsInstanceStatus{}, fresh, nil},
		{"host key recorded", fresh, recorded, []string{"Normal HostKeyRecorded"}},
		{"logged in for the first time", recorded, well, []string{"Normal Authenticated", "Normal FactsGathered", "Normal PreflightPassed"}},
		{"nothing new", well, well, nil},
		{"failed", well, refused, []string{"Warning ConnectionRefused"}},
		{"still fails", refused, refused, nil},
		{"fails in another way", refused, timedOut, []string{"Warning ConnectionTimedOut"}},
		{"recovered", timedOut, well, []string{"Normal Recovered"}},
		{"paused", well, pausedStatus, nil},
		{"node is ready", well, withNode, []string{"Normal NodeReady"}},
		{"node is not ready any more", withNode, nodeDown, []string{"Warning NodeNotReady"}},
		{"node is gone", withNode, well, []string{"Warning NoNode"}},
		{"configured", configured(v1alpha1.ReasonConfiguring), configured(v1alpha1.ReasonConfigured), []string{"Normal Configured"}},
		{"still configured", configured(v1alpha1.ReasonConfigured), configured(v1alpha1.ReasonConfigured), nil},
		{"inputs are missing", configured(v1alpha1.ReasonConfiguring), configured(missing), []string{"Warning InputsMissing"}},
		{"inputs are missing from the start", well, configured(missing), []string{"Warning InputsMissing"}},
		{"inputs are still missing", configured(missing), configured(missing), nil},
		{"another key", well, pending, nil},
		{"the host refuses it", pending, keyFailed, []string{"Warning KeyRotationFailed"}},
		{"the host still refuses it", keyFailed, keyFailed, nil},
		{"the host was away meanwhile", pending, cut, []string{"Warning KeyRotationInterrupted"}},
		{"the host has it", cut, withKey(metav1.ConditionTrue, v1alpha1.ReasonKeyRotated), []string{"Normal KeyRotated"}},
		{"a configuration failed, which who runs it reports", configured(v1alpha1.ReasonConfiguring), configured(v1alpha1.ReasonConfigurationFailed), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, tr := range transitions(&test.before, &test.after) {
				got = append(got, tr.eventType+" "+tr.reason)
				if tr.note == "" || len(tr.note) > message.MaxEventNote {
					t.Errorf("bad event %+v", tr)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
