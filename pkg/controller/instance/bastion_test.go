// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

func jump(address string) *v1alpha1.Bastion { return &v1alpha1.Bastion{Address: address, Port: 22} }

// newPool is a pool whose hosts are behind a bastion.
func newPool(name string, bastion *v1alpha1.Bastion) *v1alpha1.WindowsNodePool {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: name}}
	pool.Spec.Template.Bastion = bastion
	return pool
}

func inPool(name string, i *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstance {
	i.Spec.PoolRef = &v1alpha1.PoolReference{Name: name}
	return i
}

// TestReconcileBehindTwoBastions: two hosts that have the same address behind two bastions are two hosts, and one that
// has it without a bastion is a third one.
func TestReconcileBehindTwoBastions(t *testing.T) {
	own := newInstance("win-2", "10.1.42.1")
	own.Spec.Bastion = jump("10.9.9.2")
	f := newFixture(t, newPool("behind", jump("10.9.9.1")), inPool("behind", newInstance("win-1", "10.1.42.1")), own, newInstance("win-3", "10.1.42.1"))
	// An instance has the bastion of its pool from the first look at it on. Before that the one without a bastion would wait for it.
	throughs := map[string]string{"win-1": "10.9.9.1:22", "win-2": "10.9.9.2:22", "win-3": ""}
	for _, name := range slices.Sorted(maps.Keys(throughs)) {
		through := throughs[name]
		f.hosts.set("10.1.42.1", func(h *scriptedHost) {
			h.key, h.machine, h.through, h.facts = newKey(t, name), "firmware-"+name+"/windows-"+name, through, goodFacts()
			h.facts.Name.Hostname = name
		})
		f.settle(name)
		status := f.get(name).Status
		if status.Bastion != through || status.HostIP != "10.1.42.1" || status.MachineID != "firmware-"+name+"/windows-"+name {
			t.Errorf("%s was found at %q through %q as %q: %v", name, status.HostIP, status.Bastion, status.MachineID, conditionsOf(&status))
		}
	}
}

// TestReconcileBehindOneBastion: the same address behind the same bastion is that of one host, before anything is done on it.
func TestReconcileBehindOneBastion(t *testing.T) {
	second := newInstance("win-2", "10.1.42.1")
	second.Spec.Bastion = jump("10.9.9.1")
	second.CreationTimestamp = metav1.NewTime(testNow)
	f := newFixture(t, newPool("behind", jump("10.9.9.1")), inPool("behind", newInstance("win-1", "10.1.42.1")), second)
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.key, h.machine, h.through = newKey(t, "1"), "firmware-1/windows-1", "10.9.9.1:22"
	})
	f.settle("win-1")
	f.journal.take()
	f.settle("win-2")
	f.expect("win-2", v1alpha1.InstanceFailed, "Resolved=False/DuplicateHost")
	if entries := f.journal.take(); slices.ContainsFunc(entries, func(e string) bool { return strings.HasPrefix(e, string(diagnose.StageHostKey)) }) {
		t.Errorf("the host was contacted: %q", entries)
	}
}

// TestReconcileAddressClaimedByBastion: somebody who has a bastion has any address lead to a host of theirs. They do not get the
// Node that has the address, and the instance of that goes on.
func TestReconcileAddressClaimedByBastion(t *testing.T) {
	claims := newInstance("win-2", "10.1.42.1")
	claims.Namespace, claims.Spec.Bastion = "theirs", jump("10.9.9.66")
	f := newFixture(t, claims, newInstance("win-1", "10.1.42.1"), newNode("win-1", "10.1.42.1", corev1.ConditionTrue))
	f.namespace = "theirs"
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key, h.machine = newKey(t, "2"), "firmware-2/windows-2" }) // it calls itself win-1, too
	f.settle("win-2")
	if status := f.get("win-2").Status; status.Node != nil || status.HostIP != "10.1.42.1" || status.Bastion != "10.9.9.66:22" {
		t.Errorf("found at %q through %q, Node %v", status.HostIP, status.Bastion, status.Node)
	}
	f.namespace = testNamespace
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key, h.machine = newKey(t, "1"), "firmware-1/windows-1" })
	f.settle("win-1")
	f.expect("win-1", v1alpha1.InstanceReady, "Ready=True/AllChecksPassed")
}

// TestBastionThatWasRemoved: what was found through a bastion is not what is found without, before it was.
func TestBastionThatWasRemoved(t *testing.T) {
	instance := newInstance("win-1", "10.1.42.1")
	instance.Spec.Bastion = jump("10.9.9.1")
	f := newFixture(t, instance)
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key, h.machine = newKey(t, "1"), "firmware-1/windows-1" })
	f.settle("win-1")
	f.update("win-1", func(i *v1alpha1.WindowsInstance) { i.Spec.Bastion = nil })
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "other") })
	f.settle("win-1")
	if got := f.get("win-1").Status.Bastion; got != "10.9.9.1:22" {
		t.Errorf("a host that was not logged in to was found through %q", got)
	}
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "1") })
	f.clock.Step(DefaultRecheckInterval)
	f.settle("win-1")
	if status := f.get("win-1").Status; status.Bastion != "" || status.HostIP != "10.1.42.1" {
		t.Errorf("found at %q through %q", status.HostIP, status.Bastion)
	}
	if forgotten := f.hosts.takeForgotten(); len(forgotten) == 0 {
		t.Error("the connections through the bastion were kept")
	}
}

func TestEvaluateBastion(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want []string
	}{
		{"is down", onBastion(ssh.LayerConnect, ssh.ReasonConnectionRefused), []string{"Resolved=True/AddressResolved", "Reachable=False/BastionUnreachable", "HostKeyTrusted=Unknown/NotTried"}},
		{"another key", onBastion(ssh.LayerHostKey, ssh.ReasonHostKeyChanged), []string{"Resolved=True/AddressResolved", "Reachable=False/BastionHostKeyChanged"}},
		{"refuses", onBastion(ssh.LayerAuth, ssh.ReasonCredentialsRefused), []string{"Reachable=False/BastionRefused", "Authenticated=Unknown/NotTried"}},
		{"no Secret", &host.CredentialsError{Secret: "ns/jump", Bastion: "10.9.9.1:22"}, []string{"Reachable=Unknown/NotTried", "Authenticated=False/CredentialsMissing"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &observation{finished: testNow, addresses: []string{"10.1.42.1"}, failed: diagnose.StageLogin, err: tt.err}
			status := evaluate(snapshot{instance: newInstance("win-1", "10.1.42.1"), observation: o, through: "10.9.9.1:22", now: testNow})
			got := conditionsOf(&status)
			for _, want := range tt.want {
				if !slices.Contains(got, want) {
					t.Errorf("%s is missing in %q", want, got)
				}
			}
			if status.Bastion != "10.9.9.1:22" || status.HostIP != "" {
				t.Errorf("found at %q through %q", status.HostIP, status.Bastion)
			}
		})
	}
}
