// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// mustSay fails when the message of a condition lacks something.
func mustSay(t *testing.T, f *fixture, condition string, want ...string) {
	t.Helper()
	status := f.get("win-1").Status
	text := messageOf(t, &status, condition)
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in %q", w, text)
		}
	}
}

// A host whose address was changed is the same host or it is none: nothing of another one gets
// into the status.
func TestReconcileAddressChanged(t *testing.T) {
	for _, test := range []struct {
		name string
		key  string
		// machine is the one at the new address.
		machine string
		// same: it is the host.
		same     bool
		wantText []string
	}{
		{"the same host", "host", "firmware-1/windows-1", true, nil},
		{"the same host, reinstalled with its keys", "host", "firmware-1/windows-2", true, nil},
		{"another host", "other", "firmware-2/windows-2", false, []string{"10.1.42.2:22 seems to be another host", "last at 10.1.42.1, computer name win-1", "put the former one back", "kubectl patch"}},
		{"a clone of the host", "host", "firmware-2/windows-1", false,
			[]string{"machine firmware-2/windows-1", "machine firmware-1/windows-1", "last at 10.1.42.1", "windows.openshift.io/machine=firmware-2/windows-1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, newInstance("win-1", "10.1.42.1"), newNode("win-1", "10.1.42.1", corev1.ConditionTrue), newNode("win-2", "10.1.42.2", corev1.ConditionTrue))
			f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key, h.machine = newKey(t, "host"), "firmware-1/windows-1" })
			f.hosts.set("10.1.42.2", func(h *scriptedHost) { h.key, h.machine = newKey(t, test.key), test.machine })
			f.settle("win-1")
			before := f.get("win-1").Status

			f.update("win-1", func(i *v1alpha1.WindowsInstance) { i.Spec.Address = "10.1.42.2" })
			f.settle("win-1")

			after := f.get("win-1").Status
			if after.Node == nil || after.Node.Name != "win-1" {
				t.Errorf("the Node of the host is %v", after.Node)
			}
			if test.same {
				f.expect("win-1", v1alpha1.InstanceReady, "HostKeyTrusted=True/FirstUse")
				if !slices.Equal(after.Addresses, []string{"10.1.42.2"}) || after.MachineID != test.machine {
					t.Errorf("at %v is machine %s", after.Addresses, after.MachineID)
				}
				return
			}
			f.expect("win-1", v1alpha1.InstanceFailed, "HostKeyTrusted=False/AnotherHost", "Ready=False/AnotherHost")
			mustSay(t, f, v1alpha1.ConditionHostKeyTrusted, test.wantText...)
			before.Conditions, after.Conditions, before.Phase, after.Phase, before.ObservedGeneration = nil, nil, "", "", after.ObservedGeneration
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("something of the other host is in the status\n%s", diff)
			}

			f.update("win-1", func(i *v1alpha1.WindowsInstance) { i.Spec.Address = "10.1.42.1" })
			f.settle("win-1")
			f.expect("win-1", v1alpha1.InstanceReady, "Ready=True/AllChecksPassed")
		})
	}
}

// A host that is known keeps its Node, whatever its address. So an instance must not have got that
// Node from an address at which its host never was.
func TestReconcileNodeOfAnotherAddress(t *testing.T) {
	key := newKey(t, "host")
	instance := newInstance("win-1", "10.1.42.2")
	instance.Finalizers, instance.Spec.HostKeys = []string{v1alpha1.HostFinalizer}, []string{key.String()}
	f := newFixture(t, instance, newNode("win-1", "10.1.42.2", corev1.ConditionTrue))
	f.hosts.set("10.1.42.2", func(h *scriptedHost) { h.key = newKey(t, "other") })
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key, h.machine = key, "firmware-1/windows-1" })
	f.settle("win-1")
	if node := f.get("win-1").Status.Node; node != nil {
		t.Errorf("it has Node %s, of an address at which nobody was let in", node.Name)
	}
	f.update("win-1", func(i *v1alpha1.WindowsInstance) { i.Spec.Address = "10.1.42.1" })
	f.settle("win-1")
	if got := f.get("win-1").Status; got.MachineID != "firmware-1/windows-1" || got.Node != nil {
		t.Errorf("machine %s has Node %v", got.MachineID, got.Node)
	}
}

// An instance that is pointed at the host of another one by mistake takes nothing from it, however
// old it is, and is not taken for it either: it still has a host of its own to be cleaned.
func TestReconcileAddressOfAnotherInstance(t *testing.T) {
	first, second := newInstance("win-1", "10.1.42.1"), newInstance("win-2", "10.1.42.2")
	second.CreationTimestamp = metav1.NewTime(testNow)
	f := newFixture(t, first, second, newNode("win-1", "10.1.42.1", corev1.ConditionTrue), newNode("win-2", "10.1.42.2", corev1.ConditionTrue))
	for _, n := range []string{"1", "2"} {
		f.hosts.set("10.1.42."+n, func(h *scriptedHost) {
			h.key, h.machine, h.facts.Name.Hostname = newKey(t, n), "firmware-"+n+"/windows-"+n, "win-"+n
		})
		f.settle("win-" + n)
	}
	f.update("win-1", func(i *v1alpha1.WindowsInstance) { i.Spec.Address = "10.1.42.2" })
	f.settle("win-1")
	f.settle("win-2")
	f.expect("win-1", v1alpha1.InstanceFailed, "Resolved=True/AddressResolved", "HostKeyTrusted=False/AnotherHost")
	f.expect("win-2", v1alpha1.InstanceReady, "Ready=True/AllChecksPassed")
	for _, name := range []string{"win-1", "win-2"} {
		if node := f.get(name).Status.Node; node == nil || node.Name != name {
			t.Errorf("%s has Node %v", name, node)
		}
	}
}

// So is it with one that an earlier release has configured, which did not record the machine: it still has a
// host of its own to be cleaned.
func TestReconcileAddressOfAnotherInstanceWithoutAMachine(t *testing.T) {
	first, second := newInstance("win-1", "10.1.42.1"), newInstance("win-2", "10.1.42.2")
	second.CreationTimestamp = metav1.NewTime(testNow)
	f := newFixture(t, first, second)
	for _, n := range []string{"1", "2"} {
		f.hosts.set("10.1.42."+n, func(h *scriptedHost) { h.key, h.machine = newKey(t, n), "firmware-"+n+"/windows-"+n })
		f.settle("win-" + n)
	}
	known := f.get("win-1")
	known.Status.MachineID, known.Status.HostIP = "", ""
	known.Status.History = []v1alpha1.Operation{{ID: "1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, HostChanged: true}}
	if err := f.client.Status().Update(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	f.update("win-1", func(i *v1alpha1.WindowsInstance) { i.Spec.Address = "10.1.42.2" })
	f.settle("win-1")
	if c := f.get("win-1").Status.KeptOff(); c != nil {
		t.Errorf("it counts as a duplicate, whose host stays when it is deleted: %+v", c)
	}
	f.expect("win-1", v1alpha1.InstanceFailed, "HostKeyTrusted=False/AnotherHost")
}

// The host of an instance whose hardware was replaced, and somebody says so.
func TestReconcileMachineAccepted(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key, h.machine = newKey(t, "host"), "firmware-1/windows-1" })
	f.settle("win-1")
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.machine = "firmware-2/windows-1" })
	f.clock.Step(DefaultRecheckInterval * 2)
	f.settle("win-1")
	f.expect("win-1", v1alpha1.InstanceFailed, "HostKeyTrusted=False/AnotherHost")
	f.update("win-1", func(i *v1alpha1.WindowsInstance) {
		i.Annotations = map[string]string{v1alpha1.MachineAnnotation: "firmware-2/windows-1"}
	})
	f.settle("win-1")
	f.expect("win-1", v1alpha1.InstanceConnected, "HostKeyTrusted=True/FirstUse")
	if got := f.get("win-1").Status.MachineID; got != "firmware-2/windows-1" {
		t.Errorf("the machine is %s", got)
	}
}

// One host at two addresses is one host, and so are two that cannot be told apart.
func TestReconcileDuplicateMachine(t *testing.T) {
	first, second := newInstance("win-0", "10.1.42.1"), newInstance("win-1", "10.1.42.2")
	second.CreationTimestamp = metav1.NewTime(testNow)
	f := newFixture(t, first, second)
	for _, address := range []string{"10.1.42.1", "10.1.42.2"} {
		f.hosts.set(address, func(h *scriptedHost) { h.key, h.machine = newKey(t, "host"), "firmware-1/windows-1" })
	}
	f.settle("win-0")
	f.settle("win-1")
	f.expect("win-0", v1alpha1.InstanceConnected)
	f.expect("win-1", v1alpha1.InstanceFailed, "Resolved=False/DuplicateHost")
	mustSay(t, f, v1alpha1.ConditionResolved, "Instance win-0 already represents this host (10.1.42.1:22)", "firmware-1/windows-1", "ssh_host_*")
	if got := f.r.sharingHost(t.Context(), f.get("win-0")); len(got) != 1 || got[0].Name != "win-1" {
		t.Errorf("the first concerns %v", got)
	}

	f.hosts.set("10.1.42.2", func(h *scriptedHost) { h.machine = "firmware-2/windows-2" })
	other := f.get("win-1")
	other.Status.MachineID = "firmware-2/windows-2"
	if duplicate, err := findDuplicate(t.Context(), f.client, other, nil, homeNamespace); err != nil || duplicate != nil {
		t.Errorf("two machines with one host key are one: %v, %v", duplicate, err)
	}
}

// A host that is handed over keeps its Node while the instance that had it is still seen.
func TestTakesOver(t *testing.T) {
	with := func(machine string, uid types.UID, deleted bool) *v1alpha1.WindowsInstance {
		i := newInstance("win-1", "10.1.42.1")
		i.Status.MachineID, i.Status.Node = machine, &v1alpha1.NodeReference{Name: "node", UID: uid}
		if deleted {
			i.DeletionTimestamp = new(metav1.NewTime(testNow))
		}
		return i
	}
	heir := with("m", "u", false)
	for name, tt := range map[string]struct {
		from *v1alpha1.WindowsInstance
		want bool
	}{
		"handed over":     {with("m", "u", true), true},
		"not deleted":     {with("m", "u", false), false},
		"another machine": {with("n", "u", true), false},
		"another Node":    {with("m", "v", true), false},
	} {
		got := takesOver(heir, tt.from)
		status := evaluate(snapshot{instance: heir, now: testNow, duplicate: "Another one has it.", takesOver: got})
		if got != tt.want || (status.Node != nil) != tt.want {
			t.Errorf("%s: %t, Node %v", name, got, status.Node)
		}
	}
}

// An object that was restored without its status trusts no key by itself.
func TestReconcileRestored(t *testing.T) {
	instance := newInstance("win-1", "10.1.42.1")
	instance.Finalizers = []string{v1alpha1.HostFinalizer}
	f := newFixture(t, instance)
	key := newKey(t, "host")
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key, h.machine = key, "firmware-1/windows-1" })
	if after := f.settle("win-1").RequeueAfter; after < attentionInterval/2 {
		t.Errorf("it is tried again after %s", after)
	}
	f.expect("win-1", v1alpha1.InstanceFailed, "HostKeyTrusted=False/HostKeyUnconfirmed", "Authenticated=Unknown/NotTried")
	mustSay(t, f, v1alpha1.ConditionHostKeyTrusted, key.Describe(), "restored without its status", `{"spec":{"hostKeys":["`+key.String()+`"]}}`)
	if keys := f.get("win-1").Status.HostKeys; len(keys) > 0 {
		t.Errorf("recorded is %v", keys)
	}
	f.journal.take()

	f.update("win-1", func(i *v1alpha1.WindowsInstance) { i.Spec.HostKeys = []string{key.String()} })
	f.settle("win-1")
	f.expect("win-1", v1alpha1.InstanceConnected, "HostKeyTrusted=True/Pinned", "Authenticated=True/LoggedIn")
	if got := f.get("win-1").Status; got.MachineID != "firmware-1/windows-1" || len(got.HostKeys) != 1 {
		t.Errorf("got status %+v", got)
	}
}

// A kubelet that starts once more before its host is cleaned registers a Node that was deleted anew, which is
// then the one that the removal has to delete. A Node of another name is not.
func TestReconcileDeletedWithAnotherNode(t *testing.T) {
	for name, want := range map[string]types.UID{"win-1": "anew", "win-2": "before"} {
		instance := newInstance("win-1", "10.1.42.1")
		instance.Finalizers = []string{v1alpha1.HostFinalizer}
		instance.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "before"}
		node := newNode(name, "10.1.42.1", corev1.ConditionTrue)
		node.UID = "anew"
		f := newFixture(t, instance, node)
		if err := f.client.Delete(t.Context(), f.get("win-1")); err != nil {
			t.Fatal(err)
		}
		f.settle("win-1")
		if got := f.get("win-1").Status.Node; got == nil || got.UID != want {
			t.Errorf("with Node %s the instance has %v, want %s", name, got, want)
		}
	}
}

// The Node of an object that was restored and deleted is found, so that it can be drained.
func TestReconcileRestoredAndDeleted(t *testing.T) {
	instance := newInstance("win-1", "10.1.42.1")
	instance.Finalizers = []string{v1alpha1.HostFinalizer}
	f := newFixture(t, instance, newNode("win-1", "10.1.42.1", corev1.ConditionTrue))
	if err := f.client.Delete(t.Context(), f.get("win-1")); err != nil {
		t.Fatal(err)
	}
	f.settle("win-1")
	if node := f.get("win-1").Status.Node; node == nil || node.Name != "win-1" {
		t.Errorf("got Node %v", node)
	}
}

// Where nobody holds the object, nothing of ours is put on its host.
func TestReconcileUnheld(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.unheld = true
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	if after := f.settle("win-1").RequeueAfter; after < attentionInterval/2 {
		t.Errorf("it is tried again after %s", after)
	}
	if got := f.journal.take(); slices.Contains(got, "Facts win-1") {
		t.Errorf("the host was inspected: %v", got)
	}
	f.expect("win-1", v1alpha1.InstanceConnecting, "Authenticated=True/LoggedIn", "PreflightPassed=Unknown/NotTried")
}
