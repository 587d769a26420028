// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// A second instance of a host records nothing of it: whatever follows from a Node or a host key
// would be done twice to one host.
func TestDuplicateRecordsNothing(t *testing.T) {
	for _, managed := range []bool{false, true} {
		for _, takesOver := range []bool{false, true} {
			instance := newInstance("win-1", "10.1.42.1")
			instance.Generation, instance.Status.ObservedGeneration = 2, 1
			instance.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "n"}
			seen := &observation{finished: testNow, addresses: []string{"10.1.42.1"}, presented: newKey(t, "host"), contacted: true}
			for _, o := range []*observation{nil, seen} {
				got := evaluate(snapshot{
					instance: instance, observation: o, duplicate: "Instance win-0 already represents this host.", takesOver: takesOver, managed: managed,
					node: newNode("win-1", "10.1.42.1", corev1.ConditionTrue), revision: testRevision, now: testNow,
				})
				if got.HostKeys != nil || (got.Node != nil) != takesOver {
					t.Errorf("managed %v: recorded %v and %v", managed, got.HostKeys, got.Node)
				}
				if got.ObservedGeneration != 2 {
					t.Errorf("the status speaks of generation %d", got.ObservedGeneration)
				}
				for _, c := range []string{v1alpha1.ConditionReachable, v1alpha1.ConditionRebootRequired, v1alpha1.ConditionUpToDate, v1alpha1.ConditionNodeReady, v1alpha1.ConditionConfigured} {
					if text := messageOf(t, &got, c); (managed || c != v1alpha1.ConditionConfigured) && text != "Not tried: another instance already represents this host." {
						t.Errorf("managed %v: %s says %q", managed, c, text)
					}
				}
			}
		}
	}
}

// A pause keeps what was found out before it, and nothing else is said of the host: neither what
// a probe saw that ended in it, nor, after it, that it goes on.
func TestPauseKeeps(t *testing.T) {
	refused := &observation{finished: testNow, addresses: []string{"10.1.42.1"}, failed: diagnose.StageLogin,
		err: &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionRefused}}
	instance := inspected(t)
	instance.Status = evaluate(snapshot{instance: instance, observation: refused, revision: testRevision, now: testNow})
	before := conditionsOf(&instance.Status)
	instance.Generation = 2
	got := evaluate(snapshot{instance: instance, paused: "Paused.", observation: healthy(), revision: testRevision, now: testNow})
	want := slices.Concat(before[:len(before)-1], []string{"Ready=Unknown/Paused"})
	if diff := cmp.Diff(want, conditionsOf(&got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	fresh := newInstance("win-1", "10.1.42.1")
	fresh.Generation, fresh.Status.ObservedGeneration = 2, 1
	fresh.Status = evaluate(snapshot{instance: fresh, paused: "Paused.", revision: testRevision, now: testNow})
	if fresh.Status.ObservedGeneration != 2 {
		t.Errorf("a status of nothing speaks of generation %d", fresh.Status.ObservedGeneration)
	}
	after := evaluate(snapshot{instance: fresh, revision: testRevision, now: testNow})
	for _, c := range after.Conditions {
		if c.Reason == v1alpha1.ReasonPaused {
			t.Errorf("after the pause %s is %s", c.Type, c.Reason)
		}
	}
}

// A known host that moved is told from one whose key was changed where it is.
func TestAnotherHostAtItsAddress(t *testing.T) {
	other := newKey(t, "other")
	for _, tt := range []struct {
		name          string
		machine       string
		before, after []string
		refused       bool
		want          bool
	}{
		{name: "another address", machine: "m", before: []string{"10.1.42.9"}, after: []string{"10.1.42.1"}, want: true},
		{name: "one address stays", machine: "m", before: []string{"10.1.42.9", "10.1.42.1"}, after: []string{"10.1.42.1"}},
		{name: "never logged in to", before: []string{"10.1.42.9"}, after: []string{"10.1.42.1"}},
		{name: "nobody knows where it was", machine: "m", after: []string{"10.1.42.1"}},
		{name: "nobody knows where it is", machine: "m", before: []string{"10.1.42.9"}},
		{name: "another address, where nothing listens", machine: "m", before: []string{"10.1.42.9"}, after: []string{"10.1.42.1"}, refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			instance := known(t)
			instance.Status.MachineID, instance.Status.Addresses = tt.machine, tt.before
			o := &observation{finished: testNow, addresses: tt.after, failed: diagnose.StageLogin, err: verifyAs(other, instance)}
			if tt.refused {
				o.err = &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionRefused}
			}
			f := classify(o.failed, o.err, instance)
			want := f.Message
			if tt.want {
				want = diagnose.AnotherHost(f, instance).Message
			}
			got := evaluate(snapshot{instance: instance, observation: o, revision: testRevision, now: testNow})
			if text := messageOf(t, &got, f.Condition); text != want {
				t.Errorf("got %q, want %q", text, want)
			}
		})
	}
}

// What is well is said without a list of nothing, and what was not tried says what it waits for.
func TestMessages(t *testing.T) {
	instance := known(t)
	well := evaluate(snapshot{instance: instance, observation: setUpWith(revision1, ""), managed: true, revision: revision1, now: testNow})
	refused := evaluate(snapshot{instance: instance, revision: testRevision, now: testNow, observation: &observation{finished: testNow, addresses: []string{"10.1.42.1"}, failed: diagnose.StageLogin,
		err: &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionRefused}}})
	noReport := evaluate(snapshot{instance: instance, revision: testRevision, now: testNow, observation: &observation{finished: testNow, addresses: []string{"10.1.42.1"}, contacted: true, verified: true, loggedIn: true, unheld: true}})
	for _, tt := range []struct {
		status    v1alpha1.WindowsInstanceStatus
		condition string
		want      string
	}{
		{well, v1alpha1.ConditionPreflightPassed, "The host is fit to be a node."},
		{well, v1alpha1.ConditionUpToDate, "The host has revision 111111111111."},
		{well, v1alpha1.ConditionHostKeyTrusted, "The host presents the same key as at the first contact: " + newKey(t, "host").Describe() + ". Nobody has confirmed it; set spec.hostKeys to pin it."},
		{refused, v1alpha1.ConditionHostKeyTrusted, "Not tried yet: condition Reachable must be True first."},
		{refused, v1alpha1.ConditionRebootRequired, "Not tried yet: condition Reachable must be True first."},
		{noReport, v1alpha1.ConditionPreflightPassed, "The host has not been inspected yet."},
	} {
		if got := messageOf(t, &tt.status, tt.condition); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.condition, got, tt.want)
		}
	}
}

// A host that is not configured has nothing to join again with, and a right clock is not blamed.
func TestCertificateOfAHost(t *testing.T) {
	expired := func(revision string) *observation {
		return healthy(func(f *api.Facts) {
			f.Configuration = api.ConfigurationFacts{AppliedRevision: revision, KubeletCertificate: &api.KubeletCertificate{Problem: api.CertificateExpired, NotAfter: testNow.AddDate(0, -1, 0)}}
		})
	}
	for revision, want := range map[string]string{"": v1alpha1.ReasonConfiguring, revision1: v1alpha1.ReasonKubeletCertificateUnusable} {
		got := evaluate(snapshot{instance: known(t), observation: expired(revision), managed: true, revision: revision1, now: testNow})
		c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionConfigured)
		if c.Reason != want || strings.Contains(c.Message, "clock is wrong") {
			t.Errorf("configured with %q: %s, %s", revision, c.Reason, c.Message)
		}
	}
}

// What another process found out about the configuration stays, but for a cause that has ended.
func TestConfiguredWithoutALook(t *testing.T) {
	for _, tt := range []struct {
		status metav1.ConditionStatus
		reason string
		want   string
	}{
		{metav1.ConditionTrue, v1alpha1.ReasonConfigured, "True/Configured"},
		{metav1.ConditionFalse, v1alpha1.ReasonConfiguring, "False/Configuring"},
		{metav1.ConditionFalse, v1alpha1.ReasonKubeletCertificateUnusable, "False/KubeletCertificateUnusable"},
		{metav1.ConditionFalse, v1alpha1.ReasonInputsMissing, "Unknown/NotTried"},
		{metav1.ConditionFalse, v1alpha1.ReasonConfigurationFailed, "Unknown/NotTried"},
	} {
		instance := known(t)
		instance.Status = evaluate(snapshot{instance: instance, observation: setUpWith(revision1, ""), managed: true, revision: revision1, now: testNow})
		meta.SetStatusCondition(&instance.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionConfigured, Status: tt.status, Reason: tt.reason, Message: "Before."})
		got := evaluate(snapshot{instance: instance, managed: true, revision: revision1, now: testNow})
		c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionConfigured)
		if text := string(c.Status) + "/" + c.Reason; text != tt.want {
			t.Errorf("%s: got %s, want %s", tt.reason, text, tt.want)
		}
	}
}

// A host that is configured stays so while it is only not known yet how an operation has ended.
func TestConfiguredUntilTheNextLook(t *testing.T) {
	instance := reconfigured(t, revision1, v1alpha1.OperationSucceeded)
	old := setUpWith(revision1, "")
	old.started, old.finished = testNow.AddDate(0, 0, -1), testNow.AddDate(0, 0, -1)
	meta.SetStatusCondition(&instance.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConfigured, Message: "Before."})
	got := evaluate(snapshot{instance: instance, observation: old, managed: true, revision: revision1, now: testNow})
	if !meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionConfigured) {
		t.Errorf("got %q", conditionsOf(&got))
	}
}

// Of what the history does not have any more, a host is taken for what was found out then.
func TestUnharmed(t *testing.T) {
	early := v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationFailed}
	for _, tt := range []struct {
		name    string
		history int
		reason  string // of condition Configured; empty: there is none
		want    bool
	}{
		{"all of its operations are known", v1alpha1.MaxHistory - 1, v1alpha1.ReasonConfigurationFailed, true},
		{"it had failed before", v1alpha1.MaxHistory, v1alpha1.ReasonConfigurationFailed, false},
		{"it had not failed before", v1alpha1.MaxHistory, v1alpha1.ReasonConfigured, true},
		{"nothing was known", v1alpha1.MaxHistory, "", true},
	} {
		e := &evaluation{snapshot: snapshot{instance: known(t)}}
		e.status.CurrentRevision = revision1
		e.status.Operation = &early
		for range tt.history {
			e.status.History = append(e.status.History, early)
		}
		if tt.reason != "" {
			e.set(v1alpha1.ConditionConfigured, metav1.ConditionFalse, tt.reason, "Before.")
		}
		if got := e.unharmed(); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
	if !aimedAt(&v1alpha1.Operation{}, revision1) || aimedAt(&v1alpha1.Operation{Revision: revision2}, revision1) || aimedAt(nil, revision1) {
		t.Error("an operation is taken for another one's")
	}
}

// The desired configuration is asked for with what the host just said of itself, which is not
// written to the object of the cache; and not for a host that another instance stands for.
func TestReadDesired(t *testing.T) {
	seen := setUpWith("", "")
	for _, tt := range []struct {
		name      string
		recorded  []string
		seen      []string
		duplicate string
		want      []string // addresses; nil: nobody asks
	}{
		{name: "first contact", seen: []string{"10.1.42.1"}, want: []string{"10.1.42.1"}},
		{name: "in another order", recorded: []string{"10.1.42.2", "10.1.42.1"}, seen: []string{"10.1.42.1", "10.1.42.2"}, want: []string{"10.1.42.2", "10.1.42.1"}},
		{name: "moved", recorded: []string{"10.1.42.2"}, seen: []string{"10.1.42.1"}, want: []string{"10.1.42.1"}},
		{name: "not known for a while", recorded: []string{"10.1.42.2"}, want: []string{"10.1.42.2"}},
		{name: "of another instance", recorded: []string{"10.1.42.2"}, duplicate: "It is.", seen: []string{"10.1.42.2"}},
	} {
		desired := &scriptedDesired{revision: revision1}
		r := &Reconciler{Options: Options{Desired: desired}}
		instance, o := known(t), *seen
		instance.Status.Addresses, o.addresses = tt.recorded, tt.seen
		s := snapshot{instance: instance, observation: &o, duplicate: tt.duplicate}
		r.readDesired(t.Context(), &s, nil)
		if (len(desired.asked) > 0) != (tt.want != nil) || !s.managed {
			t.Fatalf("%s: asked %d times", tt.name, len(desired.asked))
		}
		if tt.want == nil {
			continue
		}
		asked := desired.asked[0]
		if diff := cmp.Diff(tt.want, asked.Status.Addresses); diff != "" || asked.Status.System == nil || asked.Status.System.Hostname != seen.report.system.Hostname {
			t.Errorf("%s: asked for %+v", tt.name, asked.Status)
		}
		if instance.Status.System != nil || !cmp.Equal(instance.Status.Addresses, tt.recorded) {
			t.Errorf("%s: the object of the cache was changed", tt.name)
		}
	}
}

// A Node is that of a host for as long as it exists, by its UID: another one of its name is not.
func TestNodeOfAHost(t *testing.T) {
	silent := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	silent.UID, silent.Status.Conditions = "n", nil
	waiting := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	waiting.UID, waiting.Spec.Taints = "n", []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	with := func(addresses []string, providerID string) *v1alpha1.WindowsInstance {
		instance := inspected(t)
		instance.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "old"}
		instance.Status.Addresses, instance.Spec.ProviderID = addresses, providerID
		return instance
	}
	for _, tt := range []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		node     *corev1.Node
		want     *v1alpha1.NodeReference
		ready    string // part of the condition
		other    string // at its address
	}{
		{"another machine has its address", with([]string{"10.1.42.1"}, "aws:///a/i-1"), nil, nil, "False/NoNode: Node win-0 has the address of the host, and another provider ID than spec.providerID", "win-0"},
		{"it is gone", with([]string{"10.1.42.1"}, ""), nil, nil, "False/NoNode: No Node has the address", ""},
		{"it is gone, and was known by its provider ID", with(nil, "aws:///a/i-1"), nil, nil, "False/NoNode: No Node has the address", ""},
		{"nobody knows where it is", with(nil, ""), nil, nil, "Unknown/NotTried: Not tried: the addresses", ""},
		{"it says nothing", with(nil, ""), silent, &v1alpha1.NodeReference{Name: "win-1", UID: "n"}, "False/NodeNotReady: Node win-1 does not report whether it is ready.", ""},
		{"its cloud does not know it", with(nil, ""), waiting, &v1alpha1.NodeReference{Name: "win-1", UID: "n"}, "True/NodeReady: Node win-1 is ready. No pod is scheduled to it before the cloud controller manager", ""},
	} {
		got := evaluate(snapshot{instance: tt.instance, node: tt.node, otherMachine: tt.other, revision: testRevision, now: testNow})
		c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionNodeReady)
		if text := string(c.Status) + "/" + c.Reason + ": " + c.Message; !strings.HasPrefix(text, tt.ready) || !cmp.Equal(got.Node, tt.want) {
			t.Errorf("%s: got %s and %v", tt.name, text, got.Node)
		}
	}
}

// An instance that goes says so at once, of the generation that goes, and keeps what is known of its host.
func TestLeaving(t *testing.T) {
	instance := known(t)
	instance.Generation = 4
	instance.Status = evaluate(snapshot{instance: instance, observation: healthy(), revision: testRevision, now: testNow})
	before := instance.Status.DeepCopy()
	got := leaving(instance, testNow.AddDate(0, 0, 1))
	c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady)
	if c.Reason != v1alpha1.ReasonRemoving || c.ObservedGeneration != 4 || got.Phase != v1alpha1.InstanceRemoving {
		t.Errorf("got %s, %+v", got.Phase, c)
	}
	if !cmp.Equal(got.HostKeys, before.HostKeys) || !cmp.Equal(got.System, before.System) || !cmp.Equal(&instance.Status, before) {
		t.Error("what is known of the host is lost, or the object of the cache was changed")
	}
	instance.Status.Conditions = nil
	if got := leaving(instance, testNow); !got.Conditions[0].LastTransitionTime.Time.Equal(testNow) {
		t.Errorf("it goes since %s", got.Conditions[0].LastTransitionTime)
	}
}

// Where hosts are only watched, the revision is the digest of the agent, as long as the one that it is compared with.
func TestRevisionOfAWatchedHost(t *testing.T) {
	digest := strings.Repeat("0123456789abcdef", 4)
	o := healthy(func(f *api.Facts) { f.Agent.SHA256 = digest })
	for desired, want := range map[string]string{"": digest[:16], digest[:20]: digest[:20], digest + "more": digest} {
		if got := evaluate(snapshot{instance: known(t), observation: o, revision: desired, now: testNow}).CurrentRevision; got != want {
			t.Errorf("compared with %q: got %q", desired, got)
		}
	}
}
