// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// tenant is an instance of a namespace that is not that of the operator, some hours old.
func tenant(namespace, name, address string, hours int) *v1alpha1.WindowsInstance {
	instance := newInstance(name, address)
	instance.Namespace, instance.CreationTimestamp = namespace, metav1.NewTime(testNow.Add(-time.Duration(hours)*time.Hour))
	return instance
}

// Two tenants name one host. Each cache may be behind, and none of them may configure what another one
// has, or is about to configure.
func TestRepresented(t *testing.T) {
	const address = "10.1.42.1"
	loggedIn := func(i *v1alpha1.WindowsInstance) {
		i.Status.MachineID, i.Status.Addresses = "firmware-1/windows-1", []string{address}
		i.Status.HostKeys = []v1alpha1.HostKeyStatus{{Type: "t", Key: "k"}}
	}
	applying := func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation = &v1alpha1.Operation{
			Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning,
			Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepWaitForSlot}, {Name: v1alpha1.StepApply, StartedAt: &metav1.Time{Time: testNow}}},
		}
	}
	planning := func(i *v1alpha1.WindowsInstance) {
		applying(i)
		i.Status.Operation.Steps[1].StartedAt = nil
	}
	adopting := func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation = &v1alpha1.Operation{
			Type: v1alpha1.OperationAdopt, Phase: v1alpha1.OperationRunning,
			Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepCompare}, {Name: v1alpha1.StepAdopt, StartedAt: &metav1.Time{Time: testNow}}},
		}
	}
	comparing := func(i *v1alpha1.WindowsInstance) {
		adopting(i)
		i.Status.Operation.Steps[1].StartedAt = nil
	}
	elsewhere := func(i *v1alpha1.WindowsInstance) {
		i.Spec.Address, i.Spec.ProviderID = "10.1.42.2", "aws:///a/i-1"
		i.Status.MachineID, i.Status.Addresses, i.Status.HostKeys = "firmware-2/windows-2", []string{"10.1.42.2"}, nil
	}
	for _, test := range []struct {
		name  string
		hours int // age of the other one; the one that asks is one hour old
		other []func(*v1alpha1.WindowsInstance)
		want  string // empty: nothing is said
	}{
		{"an older one that nobody was let in for", 2, nil, ""},
		{"an older one that was logged in to since", 2, []func(*v1alpha1.WindowsInstance){loggedIn}, "An instance in another namespace already represents this host"},
		{"a younger one that was logged in to", 0, []func(*v1alpha1.WindowsInstance){loggedIn, planning}, ""},
		{"a younger one that is configured", 0, []func(*v1alpha1.WindowsInstance){loggedIn, applying}, "An instance in another namespace is being configured with the same host."},
		{"a younger one that compares", 0, []func(*v1alpha1.WindowsInstance){loggedIn, comparing}, ""},
		{"a younger one that adopts it", 0, []func(*v1alpha1.WindowsInstance){loggedIn, adopting}, "An instance in another namespace is being configured with the same host."},
		{"one that claims to be this machine, and configures its own", 0, []func(*v1alpha1.WindowsInstance){elsewhere, applying}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance, other := tenant("a", "win-a", address, 1), tenant("b", "win-b", address, test.hours)
			instance.Spec.ProviderID = "aws:///a/i-1"
			loggedIn(instance)
			cached := newFixture(t, instance, other.DeepCopy())
			for _, change := range test.other {
				change(other)
			}
			live := newFixture(t, instance.DeepCopy(), other)
			if test.name == "one that claims to be this machine, and configures its own" {
				cached = live
			}
			got, err := Represented(t.Context(), cached.client, live.client, instance, homeNamespace)
			if err != nil || !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}

	t.Run("it cannot be found out", func(t *testing.T) {
		instance, other, cause := tenant("a", "win-a", address, 1), tenant("b", "win-b", address, 2), errors.New("the API is away")
		f := newFixture(t, instance, other)
		away := awayReader{cause}
		for _, readers := range [][2]client.Reader{{f.client, away}, {away, f.client}} {
			if got, err := Represented(t.Context(), readers[0], readers[1], instance, homeNamespace); !errors.Is(err, cause) {
				t.Errorf("got %q, %v", got, err)
			}
		}
	})
}

// awayReader is an API that does not answer.
type awayReader struct{ cause error }

func (r awayReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return r.cause
}

func (r awayReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return r.cause
}

// A tenant who names a host first, and is not let in, keeps nobody from it, nor gets its Node.
func TestReconcileSquatter(t *testing.T) {
	const address = "10.1.42.1"
	refused := []metav1.Condition{{Type: v1alpha1.ConditionAuthenticated, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCredentialsRefused}}
	for _, test := range []struct {
		name string
		edit func(*v1alpha1.WindowsInstance)
	}{
		{"not let in", func(*v1alpha1.WindowsInstance) {}},
		{"with the Node, by an early release", func(i *v1alpha1.WindowsInstance) {
			i.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "uid-of-win-1"}
		}},
		{"deleted, and held by its user", func(i *v1alpha1.WindowsInstance) {
			i.DeletionTimestamp, i.Finalizers = &metav1.Time{Time: testNow}, []string{v1alpha1.HostFinalizer}
		}},
		{"with a host of its own, and the machine", func(i *v1alpha1.WindowsInstance) {
			i.Spec.ProviderID, i.Status.MachineID, i.Status.Addresses = "aws:///a/i-1", "firmware-2/windows-2", []string{"10.1.42.2"}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			squatter, rightful, node := tenant("elsewhere", "squatter", address, 2), newInstance("win-1", address), newNode("win-1", address, corev1.ConditionTrue)
			squatter.Status = v1alpha1.WindowsInstanceStatus{Addresses: []string{address}, Conditions: refused, HostKeys: []v1alpha1.HostKeyStatus{{Type: "t", Key: "k"}}}
			rightful.Spec.ProviderID, node.Spec.ProviderID = "aws:///a/i-1", "aws:///a/i-1"
			test.edit(squatter)
			f := newFixture(t, squatter, rightful, node)
			f.hosts.set(address, func(h *scriptedHost) { h.key, h.machine = newKey(t, "host"), "firmware-1/windows-1" })
			f.settle("win-1")
			f.expect("win-1", v1alpha1.InstanceReady, "Resolved=True/AddressResolved", "NodeReady=True/NodeReady")

			w, err := f.r.snapshot(t.Context(), squatter, nil, remembered{})
			if err != nil || w.node != nil {
				t.Errorf("the other one has Node %v, %v", w.node, err)
			}
		})
	}
}

// A host that is down, or whose credentials are replaced, keeps its Node: that can be drained.
func TestReconcileNodeOfAHostThatIsDown(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"), newNode("win-1", "10.1.42.1", corev1.ConditionTrue))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	f.settle("win-1")
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.fail[diagnose.StageLogin] = &ssh.Error{Layer: ssh.LayerAuth, Reason: ssh.ReasonCredentialsRefused}
	})
	f.clock.Step(DefaultRecheckInterval * 2)
	f.settle("win-1")
	f.expect("win-1", v1alpha1.InstanceFailed, "Authenticated=False/CredentialsRefused", "NodeReady=True/NodeReady")
	if node := f.get("win-1").Status.Node; node == nil {
		t.Error("it has lost its Node")
	}
}
