// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
)

// releasing is a host of a Machine that was configured, that accepts the key of WMCO, and that is to be released.
func releasing(t *testing.T, changes ...change) *fixture {
	t.Helper()
	i := newInstance(v1alpha1.Operation{Type: v1alpha1.OperationRelease}, append([]change{func(i *v1alpha1.WindowsInstance) {
		i.OwnerReferences = []metav1.OwnerReference{{APIVersion: machinev1beta1.SchemeGroupVersion.String(), Kind: "Machine", Name: "m", UID: "uid-m", Controller: new(true)}}
		i.Status.CurrentRevision, i.Status.PoolRevision, i.Status.PreviousPoolRevision = "old", "pool-1", "pool-0"
		i.Status.History = []v1alpha1.Operation{{ID: "op-0", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, HostChanged: true}}
		i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConfigured, ObservedGeneration: 7, LastTransitionTime: metav1.NewTime(time.Now())}}
	}}, changes...)...)
	f := newFixture(t, i)
	f.configure()
	key, err := host.ParseKey("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE4qJS2mKXYrE7qkYBHcGu2D0pVxLeHg8Gc8dOQ5vGvN")
	if err != nil {
		t.Fatal(err)
	}
	f.host.key, f.host.left = key, &api.Left{}
	f.isOurs()
	node := f.node()
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: testNode}, {Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	f.updateNode(node)
	return f
}

// noMachine has the host be that of no Machine.
func noMachine(i *v1alpha1.WindowsInstance) { i.OwnerReferences = nil }

// lists gives the ConfigMap of WMCO an entry.
func (f *fixture) lists(key, value string) {
	f.t.Helper()
	if _, err := f.kube.CoreV1().ConfigMaps(wmco.Namespace).Create(f.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: wmco.InstancesConfigMap}, Data: map[string]string{"10.9.9.9": "username=x", "elsewhere": "username=x", key: value},
	}, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// isOurs gives the Node what it has for a host that we have configured, and what others have given it.
func (f *fixture) isOurs() {
	f.t.Helper()
	node := f.node()
	node.Labels = map[string]string{v1alpha1.NamespaceLabel: testNamespace, wmco.BYOHLabel: "true", "node-role.kubernetes.io/worker": "", "team": "a"}
	node.Annotations = map[string]string{v1alpha1.WrittenVersionAnnotation: "v1.0.0", wmco.VersionAnnotation: "v1.0.0", v1alpha1.ManagedTaintsAnnotation: "os=Windows:NoSchedule", "other": "x"}
	node.Spec.Taints = []corev1.Taint{{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule}}
	f.updateNode(node)
}

// checkReleased wants the host and its Node to be those of others, as they were.
func (f *fixture) checkReleased(op *v1alpha1.Operation) {
	f.t.Helper()
	status := f.get().Status
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConfigured)
	if status.MayHaveChangedHost() || status.ReleasedBy() == nil || status.CurrentRevision+status.PoolRevision+status.PreviousPoolRevision != "" ||
		c == nil || c.Status != metav1.ConditionUnknown || c.Reason != v1alpha1.ReasonForeignNode || c.ObservedGeneration != 7 {
		f.t.Errorf("the status is %+v", status)
	}
	node := f.node()
	if diff := cmp.Diff(map[string]string{"node-role.kubernetes.io/worker": "", "team": "a"}, node.Labels); diff != "" {
		f.t.Errorf("labels (-want +got)\n%s", diff)
	}
	want := map[string]string{
		wmco.VersionAnnotation: "v1.2.3", wmco.DesiredVersionAnnotation: "v1.2.3", "other": "x",
		takeover.UsernameAnnotation:  "Administrator for cloud-private-key",
		wmco.PublicKeyHashAnnotation: "01eba3acce87064dc39d873ab90266348ba3ce68b2bcfb915f8ec5f9b4fa17df",
	}
	if diff := cmp.Diff(want, node.Annotations); diff != "" {
		f.t.Errorf("annotations (-want +got)\n%s", diff)
	}
	if len(node.Spec.Taints) != 1 || f.drain.runs > 0 || f.host.restarts() > 0 || len(f.host.applies) > 0 {
		f.t.Errorf("taints %v, %d drains, %d restarts, applied %v", node.Spec.Taints, f.drain.runs, f.host.restarts(), f.host.applies)
	}
	if got, want := strings.Join(states(op), " "), "Connect=Succeeded Agent=Succeeded Release=Succeeded ReleaseNode=Succeeded"; op.Phase != v1alpha1.OperationSucceeded || got != want {
		f.t.Errorf("it is %s: %s: %s", op.Phase, op.Message, got)
	}
}

// TestRelease: a host is given back by its agent and its Node alone: nothing is cordoned, drained or restarted, and afterwards both are
// those of others. That works while WMCO runs, too, when no host can be configured.
func TestRelease(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		set  func(*fixture, *scriptedConfiguration)
		want []string
	}{
		"it is given back": {want: []string{"nothing was restarted. Windows starts these services from now on: kube-proxy.", "oc scale deployment windows-machine-config-operator"}},
		"other hosts are ours": {set: func(f *fixture, _ *scriptedConfiguration) {
			for name, labels := range map[string]map[string]string{
				"win-8": {corev1.LabelOSStable: "windows", v1alpha1.NamespaceLabel: "ns"}, "win-9": {corev1.LabelOSStable: "windows"}, "linux-1": {corev1.LabelOSStable: "linux"},
			} {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
				if _, err := f.kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		}, want: []string{"Other Nodes that are ours: 1. Release their hosts as well", "oc scale deployment windows-machine-config-operator"}},
		"WMCO runs":                    {set: func(_ *fixture, c *scriptedConfiguration) { c.err = func() error { return errors.New("oc scale") } }},
		"the host was given up before": {set: func(f *fixture, _ *scriptedConfiguration) { f.host.released = true }, want: []string{"has nothing of ours any more"}},
		"it tells": {set: func(f *fixture, _ *scriptedConfiguration) {
			f.host.left = &api.Left{Aside: true, Routes: []string{"169.254.169.254/32"}, KeysReplaced: true, Incomplete: true}
		}, want: []string{"are in " + api.ReleasedDirectory, "routes again: 169.254.169.254/32.", "Its key was replaced", "was not completed"}},
		"the Node is written once more": {set: func(f *fixture, _ *scriptedConfiguration) {
			written := false
			f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
				if after && !written && strings.HasPrefix(i.Status.Operation.Message, "Making sure") {
					written = true
					f.isOurs()
				}
				return nil
			}
		}},
		"an update that failed has cordoned it": {set: func(f *fixture, _ *scriptedConfiguration) {
			annotations := maps.Clone(f.node().Annotations)
			f.cordonAs("op-0 Reconfigure (asked for by bob)")
			node := f.node()
			maps.Copy(node.Annotations, annotations)
			f.updateNode(node)
		}, want: []string{"It is not cordoned any more."}},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := releasing(t)
			if tt.set != nil {
				c, _ := f.configuration.(*scriptedConfiguration)
				tt.set(f, c)
			}
			op := f.finish()
			f.checkReleased(op)
			for _, want := range tt.want {
				if !strings.Contains(op.Message, want) {
					t.Errorf("%q is missing in %q", want, op.Message)
				}
			}
			if f.node().Spec.Unschedulable {
				t.Error("the Node is cordoned")
			}
			f.waitForEvent("Normal Released")
		})
	}
}

// TestReleaseLeavesTheNodeOfOthers: a drain that somebody asked for stays, and so does a version that we have not written.
func TestReleaseLeavesTheNodeOfOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, "all of it", func(t *testing.T) {
		f := releasing(t)
		node := f.node()
		node.Spec.Unschedulable = true
		node.Annotations[v1alpha1.CordonedByAnnotation], node.Annotations[wmco.VersionAnnotation] = "op-0 (asked for by bob)", "11.0.0"
		f.updateNode(node)
		op := f.finish()
		node = f.node()
		if op.Phase != v1alpha1.OperationSucceeded || !node.Spec.Unschedulable || node.Annotations[v1alpha1.CordonedByAnnotation] == "" || node.Annotations[wmco.VersionAnnotation] != "11.0.0" || object.Ours(node) {
			t.Errorf("it is %s: %s: %+v", op.Phase, op.Message, node)
		}
		if want := "windowsmachineconfig.openshift.io/version=11.0.0 is not ours"; !strings.Contains(op.Message, want) {
			t.Errorf("%q is missing in %q", want, op.Message)
		}
	})
}

// TestReleaseHostKey: WMCO refuses a host that has another host key than it has met.
func TestReleaseHostKey(t *testing.T) {
	t.Parallel()
	const proven, ecdsa = "AAAAC3NzaC1lZDI1NTE5AAAAIE4qJS2mKXYrE7qkYBHcGu2D0pVxLeHg8Gc8dOQ5vGvN", "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBMWoSyXGpK2KUQt0AE7i2YiDBl9H8x109ccvwuc+rrc6vxqrfV7uvQIdC76pnliW15qtfTkju1oBhfYx24SSeuY="
	for name, tt := range map[string]struct{ kind, key, wantKind, wantKey string }{
		"never met":      {},
		"the same":       {"ssh-ed25519", proven, "ssh-ed25519", proven},
		"another one":    {"ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIAMUmOkVtIt25oZ6klrRpic7vF7TrHIoBt1ken01GSMe", "ssh-ed25519", proven},
		"cannot be read": {"ssh-ed25519", "?", "ssh-ed25519", proven},
		"without a type": {"", proven, "ssh-ed25519", proven},
		"another type":   {"ecdsa-sha2-nistp256", ecdsa, "ecdsa-sha2-nistp256", ecdsa},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := releasing(t)
			node := f.node()
			if tt.key != "" {
				node.Annotations[takeover.HostKeyAnnotation], node.Annotations[takeover.HostKeyTypeAnnotation] = tt.key, tt.kind
			}
			f.updateNode(node)
			op := f.finish()
			node = f.node()
			if kind, key := node.Annotations[takeover.HostKeyTypeAnnotation], node.Annotations[takeover.HostKeyAnnotation]; op.Phase != v1alpha1.OperationSucceeded || kind != tt.wantKind || key != tt.wantKey {
				t.Errorf("it is %s: %s: %s %s", op.Phase, op.Message, kind, key)
			}
		})
	}
}

// TestReleaseByEntry: WMCO finds the Node of an entry by its addresses and its label. A host that it would not find, or not log in to,
// is not released.
func TestReleaseByEntry(t *testing.T) {
	t.Parallel()
	const add = "oc patch configmap windows-instances -n openshift-windows-machine-config-operator --type=merge -p "
	for name, tt := range map[string]struct {
		change  change
		set     func(*fixture)
		refused string
	}{
		"by address": {set: func(f *fixture) { f.lists("10.0.0.1", "username=Administrator") }},
		"by name": {set: func(f *fixture) {
			f.lists("win.example.com", "username=Administrator")
			f.host.names = map[string]string{"win.example.com": "10.0.0.1", "elsewhere": "10.9.9.8"}
		}},
		"by a Machine and an entry": {change: func(*v1alpha1.WindowsInstance) {}, set: func(f *fixture) { f.lists("10.0.0.1", "username=Administrator") }},
		"its name is not known at present": {
			change:  func(i *v1alpha1.WindowsInstance) { i.OwnerReferences, i.Spec.Address = nil, "win.example.com" },
			set:     func(f *fixture) { f.lists("win.example.com", "username=Administrator") },
			refused: "Entry win.example.com of ConfigMap openshift-windows-machine-config-operator/windows-instances cannot be resolved: ",
		},
		"no entry": {
			set:     func(f *fixture) { f.lists("10.9.9.7", "username=Administrator") },
			refused: "which is no Machine and has no entry in ConfigMap openshift-windows-machine-config-operator/windows-instances: add one first: " + add + `'{"data":{"10.0.0.1":"username=Administrator"}}'. Nothing was changed.`,
		},
		"no ConfigMap": {refused: "add one first: oc create configmap windows-instances -n openshift-windows-machine-config-operator --from-literal='10.0.0.1=username=Administrator'. Nothing was changed."},
		"an annotation is no entry": {change: func(i *v1alpha1.WindowsInstance) {
			i.OwnerReferences, i.Annotations = nil, map[string]string{v1alpha1.SourceAnnotation: "ConfigMap " + wmco.Namespace + "/windows-instances, entry 10.0.0.1"}
		}, refused: "add one first"},
		"more than WMCO reads": {set: func(f *fixture) { f.lists("10.0.0.1", "username=Administrator\nname=a") }, refused: "which must be username=Administrator and nothing else: " + add},
		"another user":         {set: func(f *fixture) { f.lists("10.0.0.1", "username=bob") }, refused: "which must be username=Administrator and nothing else: " + add},
		"it cannot be read": {set: func(f *fixture) {
			f.kube.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, kruntime.Object, error) {
				return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), "windows-instances", errors.New("denied"))
			})
		}, refused: "the hosts of the Windows Machine Config Operator are not known"},
		"another port": {
			change:  func(i *v1alpha1.WindowsInstance) { i.OwnerReferences, i.Spec.Port = nil, 2222 },
			set:     func(f *fixture) { f.lists("10.0.0.1", "username=Administrator") },
			refused: "connects to port 22 only, and spec.port is 2222",
		},
		"a bastion": {
			change: func(i *v1alpha1.WindowsInstance) {
				i.OwnerReferences, i.Spec.Bastion = nil, &v1alpha1.Bastion{Address: "10.8.0.1", Port: 22}
			},
			set:     func(f *fixture) { f.lists("10.0.0.1", "username=Administrator") },
			refused: "knows no bastions, and this host is reached through 10.8.0.1:22",
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			if tt.change == nil {
				tt.change = noMachine
			}
			f := releasing(t, tt.change)
			if tt.set != nil {
				tt.set(f)
			}
			op := f.finish()
			node := f.node()
			if tt.refused != "" {
				if op.Phase != v1alpha1.OperationFailed || !strings.Contains(strings.ToLower(op.Message), strings.ToLower(tt.refused)) || f.host.released || !object.Ours(node) {
					t.Errorf("it is %s: %s: %+v", op.Phase, op.Message, node)
				}
				return
			}
			if op.Phase != v1alpha1.OperationSucceeded || node.Labels[wmco.BYOHLabel] != "true" || object.Ours(node) {
				t.Errorf("it is %s: %s: %+v", op.Phase, op.Message, node)
			}
		})
	}
}

// TestReleaseIsRefused: what would cost the host its Machine, or lead nowhere, ends it before anything is changed.
func TestReleaseIsRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		set  func(*fixture)
		want string
	}{
		"the host has another key": {func(f *fixture) { f.host.peer = &host.Peer{Accepted: "SHA256:other"} }, "The host accepts key SHA256:other, and the Windows Machine Config Operator logs in with nothing but key " +
			"SHA256:CwsFg5tPpr08Kl9tMa2Ei+7zWld+dkep6sCVfm/Uo/8, private-key.pem of Secret openshift-windows-machine-config-operator/cloud-private-key, and deletes Machines that refuse it. " +
			"Have the host accept that key as well: open a shell on the host (kubectl windows exec -it win-1 -n windows-hosts -- powershell) and add the key to the file that its sshd reads, by default: " +
			`Add-Content -Path C:\ProgramData\ssh\administrators_authorized_keys -Value '', 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE4qJS2mKXYrE7qkYBHcGu2D0pVxLeHg8Gc8dOQ5vGvN'; icacls.exe C:\ProgramData\ssh\administrators_authorized_keys /inheritance:r /grant '*S-1-5-32-544:F' /grant '*S-1-5-18:F'. Nothing was changed.`},
		"the host has a certificate":     {func(f *fixture) { f.host.peer = &host.Peer{Accepted: f.host.key.Fingerprint(), Certified: true} }, "The host accepts a certificate of key SHA256:CwsFg5tPpr08Kl9tMa2Ei+7zWld+dkep6sCVfm/Uo/8, and"},
		"the host takes a password":      {func(f *fixture) { f.host.peer = &host.Peer{} }, "The host accepts a password, and"},
		"the host is not there":          {func(f *fixture) { f.failWith("LoginBare", errLost) }, "with the key of the Windows Machine Config Operator: "},
		"there is no key":                {func(f *fixture) { f.host.key = host.Key{} }, "has no key"},
		"the key cannot be read":         {func(f *fixture) { f.failWith("BareKey", errors.New("denied")) }, "t is not known which key"},
		"the Node was deleted":           {func(f *fixture) { f.isNoNode() }, "has no Node"},
		"the host fails":                 {func(f *fixture) { f.host.servicesFail = "access is denied" }, "cannot be released: access is denied. Its pods run as before."},
		"the host is not to be touched":  {(*fixture).pauses, "spec.paused is true"},
		"the agent was replaced on host": {func(f *fixture) { f.failWith("Facts", errors.New("boom")) }, "ur agent cannot be put on the host"},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := releasing(t)
			tt.set(f)
			op := f.finish()
			if op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, tt.want) || f.host.released {
				t.Errorf("it is %s: %s, released %v", op.Phase, op.Message, f.host.released)
			}
			if status := f.get().Status; !status.MayHaveChangedHost() || status.CurrentRevision == "" || status.ReleasedBy() != nil {
				t.Errorf("the status is %+v", status)
			}
			if node := f.findNode(); node != nil && !object.Ours(node) {
				t.Errorf("the Node is %+v", node)
			}
		})
	}
}

// pauses has the instance paused.
func (f *fixture) pauses() {
	f.t.Helper()
	i := f.get()
	i.Spec.Paused = true
	if err := f.raw.Update(f.t.Context(), i); err != nil {
		f.t.Fatal(err)
	}
}

// TestReleaseIsInterrupted ends the process at every write of the record, before it is made and after. The next one goes on from there.
func TestReleaseIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for at := 1; at <= 14; at++ {
			inBubble(t, "", func(t *testing.T) {
				f := releasing(t)
				writes := f.interrupt(at, after)
				op := f.get().Status.Operation
				if op.Active() {
					op = f.finish()
				}
				f.checkReleased(op)
				if at == 14 && writes >= at {
					t.Errorf("there are %d writes or more", writes)
				}
			})
		}
	}
}

// TestReleaseIsNotCutOff: the end that somebody requests while the host is given up does not leave it half way, and what is left to do
// can be requested again.
func TestReleaseIsNotCutOff(t *testing.T) {
	t.Parallel()
	inBubble(t, "canceled", func(t *testing.T) {
		f := releasing(t)
		r, stop := f.process()
		defer stop()
		f.host.fail["Release"] = func() error {
			f.edit(func(i *v1alpha1.WindowsInstance) {
				i.Status.Operation.CancelRequestedAt, i.Status.Operation.CancelRequestedBy = new(metav1.NewTime(time.Now())), "bob"
			})
			f.reconcile(r)
			return nil
		}
		f.reconcile(r)
		op := f.waitForEnd()
		status := f.get().Status
		if op.Phase != v1alpha1.OperationCanceled || !op.HostReleased || !f.host.released || status.MayHaveChangedHost() || !object.Ours(f.node()) ||
			!strings.Contains(op.Message, "release it again: kubectl windows release win-1 -n windows-hosts") {
			t.Errorf("it is %s: %s: %+v", op.Phase, op.Message, status)
		}
	})
}
