// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// TestReconcileClones: of two hosts with one computer name the second one is not configured, which its condition says with the first
// one by name, until it has another name or the first one is gone.
func TestReconcileClones(t *testing.T) {
	for _, test := range []struct {
		name string
		// node: the first one is a Node.
		node bool
		// end ends that the name is taken.
		end func(f *fixture)
	}{
		{"it is to have another name", true, func(f *fixture) {
			f.update("win-2", func(i *v1alpha1.WindowsInstance) { i.Spec.NodeName = "win-2" })
		}},
		{"it was renamed", false, func(f *fixture) {
			f.hosts.set("10.1.42.2", func(h *scriptedHost) { h.facts.Name.Hostname = "WIN-2" })
			f.clock.Step(2 * attentionInterval)
		}},
		{"the first one is gone", false, func(f *fixture) {
			if err := f.client.Delete(f.t.Context(), f.get("win-1")); err != nil {
				f.t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			first, second := newInstance("win-1", "10.1.42.1"), newInstance("win-2", "10.1.42.2")
			second.CreationTimestamp = metav1.NewTime(testNow)
			f := newFixture(t, first, second)
			f.r.Desired = &scriptedDesired{revision: revision1}
			if test.node {
				if err := f.client.Create(t.Context(), newNode("clone", "10.1.42.1", corev1.ConditionTrue)); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range []string{"1", "2"} {
				f.hosts.set("10.1.42."+n, func(h *scriptedHost) {
					h.key, h.machine, h.facts.Name = newKey(t, n), "firmware-"+n+"/windows-1", api.NameFacts{Hostname: "CLONE", FQDN: "CLONE", NetBIOS: "CLONE"}
				})
				f.settle("win-" + n)
			}
			f.settle("win-1")
			if got := f.get("win-1").Status; !meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionPreflightPassed) {
				t.Errorf("the first one: %v", conditionsOf(&got))
			}
			f.expect("win-2", v1alpha1.InstanceFailed, "PreflightPassed=False/HostnameTaken", "Ready=False/HostnameTaken", "Configured=Unknown/NotTried")
			status := f.get("win-2").Status
			text := messageOf(t, &status, v1alpha1.ConditionPreflightPassed)
			for _, want := range []string{
				"would become Node clone", "Instance win-1 (10.1.42.1:22)", "the same MachineGuid", "sysprep.exe /generalize",
				`kubectl patch wi win-2 -n ` + testNamespace + ` --type=merge -p '{"spec":{"nodeName":"NEW-NAME"}}'`, "Rename-Computer -NewName NEW-NAME -Restart",
			} {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in %q", want, text)
				}
			}
			test.end(f)
			f.settle("win-2")
			if got := f.get("win-2").Status; !meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionPreflightPassed) {
				t.Errorf("afterwards: %v", conditionsOf(&got))
			}
		})
	}
}

func TestTakesName(t *testing.T) {
	called := func(name, hostname string, edits ...func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
		i := newInstance(name, map[string]string{"old": "10.1.42.1", "new": "10.1.42.2"}[name])
		i.CreationTimestamp = metav1.NewTime(testNow)
		if name == "old" {
			i.CreationTimestamp.Time = testNow.AddDate(0, 0, -1)
		}
		i.Status.MachineID, i.Status.System = name+"/", &v1alpha1.SystemStatus{Hostname: hostname, FQDN: hostname + ".corp.example.com"}
		for _, edit := range edits {
			edit(i)
		}
		return i
	}
	node := func(name string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) { i.Status.Node = &v1alpha1.NodeReference{Name: name} }
	}
	in := func(namespace string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) { i.Namespace = namespace }
	}
	changed := func(i *v1alpha1.WindowsInstance) {
		i.Status.History = []v1alpha1.Operation{{ID: "1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, HostChanged: true}}
	}
	unknown := func(i *v1alpha1.WindowsInstance) { i.Status.MachineID = "" }
	leaves := func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = &metav1.Time{Time: testNow} }
	sameName := func(i *v1alpha1.WindowsInstance) { i.Spec.NodeName = "win-9" }
	for _, test := range []struct {
		name            string
		other, instance *v1alpha1.WindowsInstance
		from            wmco.HostnameSource
		want            bool
	}{
		{"the older one has it", called("old", "WIN-1"), called("new", "win-1"), "", true},
		{"the newer one does not", called("new", "WIN-1"), called("old", "win-1"), "", false},
		{"but if it is the Node", called("new", "WIN-1", node("win-1")), called("old", "win-1"), "", true},
		{"or was configured", called("new", "WIN-1", changed), called("old", "win-1"), "", true},
		{"another name", called("old", "WIN-2"), called("new", "win-1"), "", false},
		{"it is a Node of another name", called("old", "WIN-1", node("ip-10-1-42-1.ec2.internal")), called("new", "win-1"), "", false},
		{"both are to have it", called("old", "WIN-1", sameName), called("new", "WIN-2", sameName), "", true},
		{"it is to have another one", called("old", "WIN-1", sameName), called("new", "WIN-1"), "", false},
		{"nobody has logged in to it", called("old", "WIN-1", unknown), called("new", "win-1"), "", false},
		{"it is being removed, and no Node", called("old", "WIN-1", leaves), called("new", "win-1"), "", false},
		{"it is being removed, and still the Node", called("old", "WIN-1", leaves, node("win-1")), called("new", "win-1"), "", true},
		{"of another tenant", called("old", "WIN-1", in("tenant")), called("new", "win-1"), "", false},
		{"of another tenant, and the Node", called("old", "WIN-1", in("tenant"), node("win-1")), called("new", "win-1"), "", true},
		{"of the operator", called("new", "WIN-1", in(homeNamespace)), called("old", "win-1"), "", true},
		{"with its domain", called("old", "WIN-1"), called("new", "win-1"), wmco.HostnameOfFQDN, true},
		{"of a platform that names Nodes otherwise", called("old", "WIN-1"), called("new", "win-1"), wmco.HostnameOfMetadata, false},
	} {
		name := nodeNameOf(test.instance, test.from)
		if got := (&Reconciler{Options: Options{Namespace: homeNamespace}}).takesName(test.other, test.instance, name, test.from) && name != ""; got != test.want {
			t.Errorf("%s: got %v for %q", test.name, got, name)
		}
	}
}

// TestEvaluateHostnameTaken: other findings are named, too, and a message that is kept has them once.
func TestEvaluateHostnameTaken(t *testing.T) {
	s := snapshot{instance: known(t), managed: true, now: testNow, hostnameTaken: "It is taken.", observation: healthy(func(f *api.Facts) { f.System.Build = 14393 })}
	status := evaluate(s)
	text := messageOf(t, &status, v1alpha1.ConditionPreflightPassed)
	if !strings.HasPrefix(text, "It is taken. Besides: The host cannot be a node yet: [UnsupportedBuild]") {
		t.Errorf("got %q", text)
	}
	f := newFixture(t)
	f.r.Desired = &unreadDesired{}
	s.hostnameTaken, s.instance.Status = "", status
	if err := f.r.findHostname(t.Context(), &s); err != nil || s.hostnameTaken != "It is taken." {
		t.Errorf("while nothing can be read: %q, %v", s.hostnameTaken, err)
	}
}

// unreadDesired could read nothing of the cluster.
type unreadDesired struct{ scriptedDesired }

func (*unreadDesired) NodeNames() (wmco.HostnameSource, bool) { return "", false }
