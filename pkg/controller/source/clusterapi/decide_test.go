// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package clusterapi

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/capi"
	"github.com/openshift/windows-instance-api/pkg/controller/source/machine"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

const namespace = "clusters"

var theCluster = client.ObjectKey{Namespace: namespace, Name: "this"}

func newCluster(edit ...func(*capi.Cluster)) *capi.Cluster {
	c := &capi.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: theCluster.Name}}
	for _, e := range edit {
		e(c)
	}
	return c
}

func pausedCluster(c *capi.Cluster) { c.Spec.Paused = new(true) }

type machineEdit = func(*capi.Machine)

// newMachine is one whose host is there, and for which our user data was made.
func newMachine(name string, edit ...machineEdit) *capi.Machine {
	m := &capi.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{wmco.MachineOSLabel: wmco.MachineOSWindows}},
		Spec:       capi.MachineSpec{ClusterName: theCluster.Name, ProviderID: "p://" + name, Bootstrap: capi.Bootstrap{DataSecretName: new(wmco.UserDataSecret)}},
		Status: capi.MachineStatus{
			Initialization: &capi.MachineInitialization{InfrastructureProvisioned: new(true)},
			Addresses:      []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}},
		},
	}
	for _, e := range edit {
		e(m)
	}
	return m
}

func deleting(m *capi.Machine) {
	m.DeletionTimestamp, m.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"machine.cluster.x-k8s.io"}
}
func hooked(m *capi.Machine) {
	m.Annotations = map[string]string{capi.PreDrainHookPrefix + "/backup": "backup-controller"}
}
func isNode(m *capi.Machine)    { m.Status.NodeRef = &capi.Reference{Name: "win-1"} }
func unlabeled(m *capi.Machine) { m.Labels = nil }
func ignored(m *capi.Machine)   { m.Labels[wmco.IgnoreLabel] = wmco.IgnoreValue }
func annotatedPaused(m *capi.Machine) {
	m.Annotations = map[string]string{capi.PausedAnnotation: ""}
}
func notThere(m *capi.Machine) { m.Status.Initialization = nil }
func inPhase(phase string) machineEdit {
	return func(m *capi.Machine) { m.Status.Initialization, m.Status.Phase = nil, phase }
}

func TestDecide(t *testing.T) {
	instance := func(uid, provider string) *v1alpha1.WindowsInstance {
		i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m", Annotations: map[string]string{v1alpha1.MachineUIDAnnotation: uid}}}
		i.Spec.ProviderID = provider
		return i
	}
	its := instance("uid-of-m", "p://m")
	tests := []struct {
		name   string
		s      snapshot
		want   machine.Action
		paused string // is in why it is paused
	}{
		{"a Machine of Windows", snapshot{machine: newMachine("m")}, machine.Apply, ""},
		{"by the label of Kubernetes", snapshot{machine: newMachine("m", func(m *capi.Machine) { m.Labels = map[string]string{corev1.LabelOSStable: "windows"} })}, machine.Apply, ""},
		{"of Linux", snapshot{machine: newMachine("m", func(m *capi.Machine) { m.Labels = map[string]string{corev1.LabelOSStable: "linux"} })}, machine.Keep, ""},
		{"the label in other letters", snapshot{machine: newMachine("m", func(m *capi.Machine) { m.Labels[wmco.MachineOSLabel] = "windows" })}, machine.Keep, ""},
		{"its label was taken off", snapshot{machine: newMachine("m", unlabeled), instance: its}, machine.Keep, ""},
		{"of v1beta1, provisioned", snapshot{machine: newMachine("m", inPhase("Provisioned"))}, machine.Apply, ""},
		{"of v1beta1, running", snapshot{machine: newMachine("m", inPhase("Running"))}, machine.Apply, ""},
		{"of v1beta1, provisioning", snapshot{machine: newMachine("m", inPhase("Provisioning"))}, machine.Leave, ""},
		{"its infrastructure is not there", snapshot{machine: newMachine("m", notThere)}, machine.Leave, ""},
		{"its infrastructure is said not to be there", snapshot{machine: newMachine("m", func(m *capi.Machine) { m.Status.Initialization.InfrastructureProvisioned = new(false) })}, machine.Leave, ""},
		{"without an address", snapshot{machine: newMachine("m", func(m *capi.Machine) { m.Status.Addresses = nil })}, machine.Leave, ""},
		{"ignored", snapshot{machine: newMachine("m", ignored)}, machine.Pause, ""},
		{"also of the Machine API", snapshot{machine: newMachine("m"), alsoOfMachineAPI: true}, machine.Leave, ""},
		{"also of the Machine API, and deleted", snapshot{machine: newMachine("m", deleting), instance: its, alsoOfMachineAPI: true}, machine.Remove, ""},
		{"of another Cluster", snapshot{ofAnotherCluster: true}, machine.Leave, ""},
		{"of another Cluster, since the flag names this one", snapshot{ofAnotherCluster: true, instance: its}, machine.Leave, ""},
		{"gone", snapshot{instance: its}, machine.Remove, ""},
		{"deleted", snapshot{machine: newMachine("m", deleting), instance: its}, machine.Remove, ""},
		{"deleted without its label", snapshot{machine: newMachine("m", deleting, unlabeled), instance: its}, machine.Remove, ""},
		{"deleted while it is ignored", snapshot{machine: newMachine("m", deleting, ignored), instance: its}, machine.Remove, ""},
		{"deleted with a hook", snapshot{machine: newMachine("m", deleting, hooked, isNode), instance: its}, machine.Leave, ""},
		{"deleted with a hook, without a Node", snapshot{machine: newMachine("m", deleting, hooked), instance: its}, machine.Remove, ""},
		{"deleted with a hook of another time", snapshot{machine: newMachine("m", deleting, isNode, func(m *capi.Machine) {
			m.Annotations = map[string]string{"pre-terminate.delete.hook.machine.cluster.x-k8s.io/x": ""}
		}), instance: its}, machine.Remove, ""},
		{"a hook, and not deleted", snapshot{machine: newMachine("m", hooked, isNode), instance: its}, machine.Apply, ""},
		{"another host of the same name", snapshot{machine: newMachine("m"), instance: instance("former", "p://former")}, machine.Remove, ""},
		{"another Machine of the same host: it was moved here", snapshot{machine: newMachine("m"), instance: instance("former", "p://m")}, machine.Apply, ""},
		{"another Machine, and nobody knows of which host", snapshot{machine: newMachine("m"), instance: instance("former", "")}, machine.Remove, ""},
		{"another Machine, whose host has no name yet", snapshot{machine: newMachine("m", func(m *capi.Machine) { m.Spec.ProviderID = "" }), instance: instance("former", "p://former")}, machine.Remove, ""},
		{"another Machine, and both hosts have no name yet", snapshot{machine: newMachine("m", func(m *capi.Machine) { m.Spec.ProviderID = "" }), instance: instance("former", "")}, machine.Remove, ""},
		{"the same Machine, whose provider calls it otherwise", snapshot{machine: newMachine("m"), instance: instance("uid-of-m", "p://former")}, machine.Apply, ""},
		{"somebody has taken the UID away", snapshot{machine: newMachine("m"), instance: instance("", "p://former")}, machine.Apply, ""},

		{"the Machine is paused", snapshot{machine: newMachine("m", annotatedPaused), instance: its}, machine.Pause, "the Machine has the annotation"},
		{"the Machine is paused and deleted", snapshot{machine: newMachine("m", annotatedPaused, deleting), instance: its}, machine.Pause, "the Machine has the annotation"},
		{"the Cluster is paused", snapshot{cluster: newCluster(pausedCluster), machine: newMachine("m"), instance: its}, machine.Pause, "spec.paused"},
		{"the Cluster is not paused", snapshot{cluster: newCluster(func(c *capi.Cluster) { c.Spec.Paused = new(false) }), machine: newMachine("m"), instance: its}, machine.Apply, ""},
		{"the Cluster is annotated", snapshot{cluster: newCluster(func(c *capi.Cluster) { c.Annotations = map[string]string{capi.PausedAnnotation: "true"} }), machine: newMachine("m"), instance: its}, machine.Pause, "the Cluster has the annotation"},
		{"the Machine was moved: it is gone, and the Cluster is paused", snapshot{cluster: newCluster(pausedCluster), instance: its}, machine.Pause, "spec.paused"},
		{"paused, and another host of the same name", snapshot{cluster: newCluster(pausedCluster), machine: newMachine("m"), instance: instance("former", "p://former")}, machine.Pause, "spec.paused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.s.cluster == nil {
				tt.s.cluster = newCluster()
			}
			got, why := decide(tt.s)
			if got != tt.want || (why == "") != (tt.paused == "") || !strings.Contains(why, tt.paused) {
				t.Errorf("got %s because %q, want %s because of %q", got, why, tt.want, tt.paused)
			}
		})
	}
	if got, why := decide(snapshot{instance: its}); got != machine.Pause || why != "there is no such Cluster" {
		t.Errorf("without its Cluster: got %s because %q", got, why)
	}
}

func TestManagement(t *testing.T) {
	for name, tt := range map[string]struct {
		bootstrap capi.Bootstrap
		want      v1alpha1.ManagementPolicy
	}{
		"our user data":                      {capi.Bootstrap{DataSecretName: new(wmco.UserDataSecret)}, v1alpha1.ManagementManaged},
		"an empty reference":                 {capi.Bootstrap{DataSecretName: new(wmco.UserDataSecret), ConfigRef: &capi.Reference{}}, v1alpha1.ManagementManaged},
		"a bootstrap provider":               {capi.Bootstrap{ConfigRef: &capi.Reference{Kind: "KubeadmConfig", Name: "m"}}, v1alpha1.ManagementObserved},
		"a bootstrap provider with our name": {capi.Bootstrap{ConfigRef: &capi.Reference{Name: "m"}, DataSecretName: new(wmco.UserDataSecret)}, v1alpha1.ManagementObserved},
		"user data of somebody":              {capi.Bootstrap{DataSecretName: new("mine")}, v1alpha1.ManagementObserved},
		"nothing yet":                        {capi.Bootstrap{}, v1alpha1.ManagementObserved},
	} {
		if got := managementOf(newMachine("m", func(m *capi.Machine) { m.Spec.Bootstrap = tt.bootstrap })); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

func TestParseCluster(t *testing.T) {
	for text, want := range map[string]client.ObjectKey{"": {}, "clusters/this": theCluster} {
		if got, err := ParseCluster(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"this", "/this", "clusters/", "a/b/c", "Clusters/this", "a.b/this"} {
		if got, err := ParseCluster(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}
