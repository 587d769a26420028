// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"errors"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func TestAddress(t *testing.T) {
	type addresses = []corev1.NodeAddress
	tests := []struct {
		name      string
		addresses addresses
		current   string
		want      string
	}{
		{name: "none"},
		{name: "the current one is not the first", current: "10.0.0.6", addresses: addresses{{Type: corev1.NodeInternalIP, Address: "10.132.0.2"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.6"}}, want: "10.0.0.6"},
		{name: "the current one in the form of IPv6", current: "10.0.0.6", addresses: addresses{{Type: corev1.NodeInternalIP, Address: "10.132.0.2"}, {Type: corev1.NodeInternalIP, Address: "::ffff:10.0.0.6"}}, want: "10.0.0.6"},
		{name: "the current one is gone", current: "10.0.0.6", addresses: addresses{{Type: corev1.NodeInternalIP, Address: "10.0.0.7"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.8"}}, want: "10.0.0.7"},
		{name: "the current one is of another kind", current: "fd00::5", addresses: addresses{{Type: corev1.NodeInternalIP, Address: "fd00::5"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.7"}}, want: "10.0.0.7"},
		{name: "the current one is an external one", current: "11.22.33.44", addresses: addresses{{Type: corev1.NodeExternalIP, Address: "11.22.33.44"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.7"}}, want: "10.0.0.7"},
		{name: "the current one is passed over", current: "169.254.10.20", addresses: addresses{{Type: corev1.NodeInternalIP, Address: "169.254.10.20"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.7"}}, want: "10.0.0.7"},
		{name: "all are gone", current: "10.0.0.6"},
		{name: "empty", addresses: addresses{{}}},
		{name: "IPv4", addresses: addresses{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}}, want: "10.0.0.5"},
		{name: "first IPv4", addresses: addresses{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.6"}}, want: "10.0.0.5"},
		{name: "IPv4 behind everything else", addresses: addresses{
			{Type: corev1.NodeHostName, Address: "win-1"}, {Type: corev1.NodeInternalDNS, Address: "win-1.internal"},
			{Type: corev1.NodeInternalIP, Address: "fd00::5"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.5"},
		}, want: "10.0.0.5"},
		{name: "IPv6 when there is no IPv4", addresses: addresses{{Type: corev1.NodeHostName, Address: "win-1"}, {Type: corev1.NodeInternalIP, Address: "FD00:0::5"}}, want: "fd00::5"},
		{name: "IPv4 in the form of IPv6", addresses: addresses{{Type: corev1.NodeInternalIP, Address: "::ffff:10.0.0.5"}}, want: "10.0.0.5"},
		{name: "no address from DHCP yet", addresses: addresses{{Type: corev1.NodeInternalIP, Address: "169.254.10.20"}, {Type: corev1.NodeInternalIP, Address: "fe80::1"}}},
		{name: "link-local first", addresses: addresses{{Type: corev1.NodeInternalIP, Address: "169.254.10.20"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.5"}}, want: "10.0.0.5"},
		{name: "IPv6 loopback", addresses: addresses{{Type: corev1.NodeInternalIP, Address: "::1"}}},
		{name: "internal DNS before host name", addresses: addresses{{Type: corev1.NodeHostName, Address: "win-1"}, {Type: corev1.NodeInternalDNS, Address: "win-1.internal"}}, want: "win-1.internal"},
		{name: "host name", addresses: addresses{{Type: corev1.NodeHostName, Address: "win-1"}}, want: "win-1"},
		{name: "external addresses do not count", addresses: addresses{{Type: corev1.NodeExternalIP, Address: "11.22.33.44"}, {Type: corev1.NodeExternalDNS, Address: "win-1.example.com"}}},
		{name: "no IP address at all", addresses: addresses{{Type: corev1.NodeInternalIP, Address: "pending"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Address(tt.addresses, tt.current); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestLeaving: a Machine that is being deleted is there until it is gone, and another one of its name is none.
func TestLeaving(t *testing.T) {
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-machine-api", Name: "m", UID: "1", Finalizers: []string{"a/b"}, DeletionTimestamp: new(metav1.Now())}}
	stays := machine.DeepCopy()
	stays.DeletionTimestamp = nil
	scheme := runtime.NewScheme()
	if err := machinev1beta1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(machine).Build()
	kept := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stays).Build()
	nowhere := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return &meta.NoKindMatchError{}
		},
	}).Build()
	failing := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("lost")
		},
	}).Build()
	for name, tt := range map[string]struct {
		reader    client.Reader
		kind, uid string
		want      bool
		fails     bool
	}{
		"it is":                 {c, "Machine", "1", true, false},
		"nobody deletes it":     {kept, "Machine", "1", false, false},
		"another one":           {c, "Machine", "2", false, false},
		"made by hand":          {c, "", "", false, false},
		"of something else":     {c, "Cluster", "1", false, false},
		"there are no Machines": {nowhere, "Machine", "1", false, false},
		"nobody knows":          {failing, "Machine", "1", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-machine-api", Name: "m"}}
			if tt.kind != "" {
				i.OwnerReferences = []metav1.OwnerReference{{APIVersion: machinev1beta1.SchemeGroupVersion.String(), Kind: tt.kind, Name: "m", UID: types.UID(tt.uid), Controller: new(true)}}
			}
			if got, err := Leaving(t.Context(), tt.reader, i); got != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// TestAddressForWMCO: that of a Machine which is gone is not known, which is no error.
func TestAddressForWMCO(t *testing.T) {
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-machine-api", Name: "m"}}
	machine.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.6"}}
	scheme := runtime.NewScheme()
	if err := machinev1beta1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(machine).Build()
	for name, want := range map[string]string{"m": "10.0.0.6", "gone": ""} {
		if got, err := AddressForWMCO(t.Context(), c, client.ObjectKey{Namespace: "openshift-machine-api", Name: name}); got != want || err != nil {
			t.Errorf("of %s it is %q, want %q: %v", name, got, want, err)
		}
	}
}

func TestDecide(t *testing.T) {
	windows := map[string]string{"machine.openshift.io/os-id": "Windows"}
	ignored := func(value string) map[string]string {
		return map[string]string{"machine.openshift.io/os-id": "Windows", "windowsmachineconfig.openshift.io/ignore": value}
	}
	now := metav1.NewTime(time.Unix(1, 0))
	phase := func(s string) *string { return &s }
	tests := []struct {
		name      string
		labels    map[string]string
		phase     *string
		deleted   *metav1.Time
		noAddress bool
		want      Action
	}{
		{name: "provisioned", labels: windows, phase: phase("Provisioned"), want: Apply},
		{name: "running", labels: windows, phase: phase("Running"), want: Apply},
		{name: "no phase", labels: windows, want: Leave},
		{name: "provisioning", labels: windows, phase: phase("Provisioning"), want: Leave},
		{name: "failed", labels: windows, phase: phase("Failed"), want: Leave},
		{name: "another case of the phase", labels: windows, phase: phase("running"), want: Leave},
		{name: "no address", labels: windows, phase: phase("Running"), noAddress: true, want: Leave},
		{name: "no label", phase: phase("Running"), want: Keep},
		{name: "Linux", labels: map[string]string{"machine.openshift.io/os-id": "Linux"}, phase: phase("Running"), want: Keep},
		{name: "another case of the label", labels: map[string]string{"machine.openshift.io/os-id": "windows"}, phase: phase("Running"), want: Keep},
		{name: "ignored", labels: ignored("true"), phase: phase("Running"), want: Pause},
		{name: "ignored before it has an address", labels: ignored("true"), noAddress: true, want: Pause},
		{name: "ignored by another word", labels: ignored("True"), phase: phase("Running"), want: Apply},
		{name: "not ignored", labels: ignored("false"), phase: phase("Running"), want: Apply},
		{name: "being deleted", labels: windows, phase: phase("Running"), deleted: &now, want: Remove},
		{name: "no label, and being deleted", phase: phase("Running"), deleted: &now, want: Remove},
		{name: "ignored and being deleted", labels: ignored("true"), phase: phase("Deleting"), deleted: &now, want: Remove},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			machine := &machinev1beta1.Machine{
				ObjectMeta: metav1.ObjectMeta{Labels: tt.labels, DeletionTimestamp: tt.deleted},
				Status:     machinev1beta1.MachineStatus{Phase: tt.phase},
			}
			if !tt.noAddress {
				machine.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}}
			}
			if got := Decide(machine); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestAwaitsDrain: as long as somebody's hook keeps the Machine API from draining the Node of a Machine, the host stays as it is.
func TestAwaitsDrain(t *testing.T) {
	hook := []machinev1beta1.LifecycleHook{{Name: "rebuild", Owner: "storage"}}
	tests := []struct {
		name   string
		change func(*machinev1beta1.Machine)
		want   Action
	}{
		{name: "hook before the drain", change: func(*machinev1beta1.Machine) {}, want: Leave},
		{name: "hook before the drain of an ignored Machine", change: func(m *machinev1beta1.Machine) { m.Labels["windowsmachineconfig.openshift.io/ignore"] = "true" }, want: Leave},
		{name: "no hook", change: func(m *machinev1beta1.Machine) { m.Spec.LifecycleHooks.PreDrain = nil }, want: Remove},
		{name: "hook after the drain", change: func(m *machinev1beta1.Machine) {
			m.Spec.LifecycleHooks = machinev1beta1.LifecycleHooks{PreTerminate: hook}
		}, want: Remove},
		{name: "no Node", change: func(m *machinev1beta1.Machine) { m.Status.NodeRef = nil }, want: Remove},
		{name: "not to be drained", change: func(m *machinev1beta1.Machine) {
			m.Annotations = map[string]string{"machine.openshift.io/exclude-node-draining": ""}
		}, want: Remove},
		{name: "not drained", change: func(m *machinev1beta1.Machine) {
			m.Status.Conditions = []machinev1beta1.Condition{{Type: "Drained", Status: corev1.ConditionFalse}, {Type: "Drainable", Status: corev1.ConditionTrue}}
		}, want: Leave},
		{name: "drained before", change: func(m *machinev1beta1.Machine) {
			m.Status.Conditions = []machinev1beta1.Condition{{Type: "Drained", Status: corev1.ConditionTrue}}
		}, want: Remove},
		{name: "not being deleted", change: func(m *machinev1beta1.Machine) { m.DeletionTimestamp = nil }, want: Apply},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			machine := windowsMachine("m", "")
			machine.DeletionTimestamp, machine.Spec.LifecycleHooks.PreDrain = ptrTo(metav1.Now()), hook
			machine.Status.NodeRef = &corev1.ObjectReference{Name: "m"}
			if tt.change(machine); Decide(machine) != tt.want {
				t.Errorf("got %s, want %s", Decide(machine), tt.want)
			}
		})
	}
}
