// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/drain"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// configuredBefore is a host that an operation of ours has configured.
func configuredBefore(i *v1alpha1.WindowsInstance) {
	i.Status.History = []v1alpha1.Operation{{ID: "op-0", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, HostChanged: true}}
}

// untouched is a host of which nothing is known that was done to it.
func untouched(i *v1alpha1.WindowsInstance) { i.Status.History = nil }

// notTakenOver is a host that somebody wanted to be taken over, which failed before it was changed.
func notTakenOver(i *v1alpha1.WindowsInstance) {
	i.Status.History = []v1alpha1.Operation{{
		ID: "op-0", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationFailed, StartedAt: &metav1.Time{Time: time.Now()},
		Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepPreflight, State: v1alpha1.StepFailed}, {Name: v1alpha1.StepApply, State: v1alpha1.StepSkipped}},
	}}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	const (
		succeeded = v1alpha1.OperationSucceeded
		failed    = v1alpha1.OperationFailed
	)
	tests := []struct {
		name        string
		change      change
		set         func(*fixture)
		want        v1alpha1.OperationPhase
		wantSteps   string
		wantMessage []string
		// wantStep is part of the message of the step Cleanup, wantDeleted of the step DeleteNode.
		wantStep     string
		wantDeleted  string
		wantRestarts int
		// wantNode is the UID of the Node that is there in the end. Empty: there is none.
		wantNode types.UID
		wantIs   string
	}{
		{
			name: "a node", want: succeeded,
			wantSteps: "Connect=Succeeded WaitForSlot=Succeeded Cordon=Succeeded Drain=Succeeded Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Succeeded Forget=Succeeded",
		},
		{
			name: "no node", change: withoutNode, want: succeeded, wantNode: "uid-of-node",
			wantSteps: "Connect=Succeeded WaitForSlot=Skipped Cordon=Skipped Drain=Skipped Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Skipped Forget=Succeeded",
		},
		{
			name: "a host that was never configured", change: withoutNode, set: func(f *fixture) { f.host.is = "" }, want: succeeded, wantNode: "uid-of-node",
			wantSteps: "Connect=Succeeded WaitForSlot=Skipped Cordon=Skipped Drain=Skipped Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Skipped Forget=Succeeded",
		},
		{
			name: "a node of others", change: untouched, set: func(f *fixture) { f.host.is, f.host.recorded = "", "" }, want: succeeded, wantNode: "uid-of-node",
			wantSteps: "Connect=Succeeded WaitForSlot=Skipped Cordon=Skipped Drain=Skipped Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Skipped Forget=Succeeded",
		},
		{
			name: "a node of others that could not be taken over", change: notTakenOver, set: func(f *fixture) { f.host.is, f.host.recorded = "", "" }, want: succeeded, wantNode: "uid-of-node",
			wantSteps: "Connect=Succeeded WaitForSlot=Skipped Cordon=Skipped Drain=Skipped Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Skipped Forget=Succeeded",
		},
		{
			name: "a node of ours whose status was lost", change: untouched, set: func(f *fixture) { f.host.recorded = "old" }, want: succeeded,
			wantSteps: "Connect=Succeeded WaitForSlot=Succeeded Cordon=Succeeded Drain=Succeeded Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Succeeded Forget=Succeeded",
		},
		{
			name: "nothing is known, and the host does not say it", change: untouched, want: failed, wantNode: "uid-of-node", wantIs: "old",
			set: func(f *fixture) {
				f.host.recorded, f.host.factErrors = "", []api.FactError{{Area: "configuration", Message: "damaged"}}
			},
			wantSteps:   "Connect=Failed WaitForSlot=Skipped Cordon=Skipped Drain=Skipped Cleanup=Skipped Restart=Skipped Boot=Skipped DeleteNode=Skipped Forget=Skipped",
			wantMessage: []string{"cannot be found out whether the host was configured"},
		},
		{
			name: "it becomes a node while it is cleaned", change: withoutNode, want: succeeded,
			set: func(f *fixture) {
				f.host.fail["Cleanup"] = func() error {
					f.edit(func(i *v1alpha1.WindowsInstance) {
						i.Status.Node = &v1alpha1.NodeReference{Name: testNode, UID: "uid-of-node"}
					})
					return nil
				}
			},
			wantSteps: "Connect=Succeeded WaitForSlot=Skipped Cordon=Skipped Drain=Skipped Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Succeeded Forget=Succeeded",
		},
		{
			name: "its kubelet registers the Node anew before it is cleaned", want: succeeded,
			set: func(f *fixture) {
				f.host.fail["Cleanup"] = func() error {
					node := f.node()
					node.UID = "anew"
					f.updateNode(node)
					f.edit(func(i *v1alpha1.WindowsInstance) { i.Status.Node.UID = "anew" })
					return nil
				}
			},
			wantSteps: "Connect=Succeeded WaitForSlot=Succeeded Cordon=Succeeded Drain=Succeeded Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Succeeded Forget=Succeeded",
		},
		{
			name: "it becomes known only later that the kubelet has registered the Node anew", want: succeeded,
			set: func(f *fixture) {
				f.host.fail["Cleanup"] = func() error {
					node := f.node()
					node.UID = "anew"
					f.updateNode(node)
					return nil
				}
				f.kube.PrependReactor("delete", "nodes", func(clienttesting.Action) (bool, kruntime.Object, error) {
					f.edit(func(i *v1alpha1.WindowsInstance) { i.Status.Node.UID = "anew" })
					return false, nil, nil
				})
			},
			wantSteps: "Connect=Succeeded WaitForSlot=Succeeded Cordon=Succeeded Drain=Succeeded Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Succeeded Forget=Succeeded",
		},
		{
			name: "Windows is restarted", set: func(f *fixture) { f.host.cleanupReboots, f.host.down = true, 1 }, want: succeeded, wantRestarts: 1,
			wantSteps: "Connect=Succeeded WaitForSlot=Succeeded Cordon=Succeeded Drain=Succeeded Cleanup=Succeeded Restart=Succeeded Boot=Succeeded DeleteNode=Succeeded Forget=Succeeded",
			wantStep:  "Nothing of ours is on the host any more. 1 change was made. Windows has to be restarted: Delete Environment HTTP_PROXY.",
		},
		{
			name: "something stays in use", set: func(f *fixture) { f.host.leaves = []string{`C:\k\shim.exe`, "a", "b", "c", "d", "e"} }, want: succeeded,
			wantSteps: "Connect=Succeeded WaitForSlot=Succeeded Cordon=Succeeded Drain=Succeeded Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Succeeded Forget=Succeeded",
			wantStep:  `Still in use, and removed when Windows restarts the next time: C:\k\shim.exe, a, b, c, d and 1 more.`,
		},
		{
			name: "networks of others stay", set: func(f *fixture) { f.host.networks = []string{"cbr0", "flannel.4096"} }, want: succeeded,
			wantSteps:   "Connect=Succeeded WaitForSlot=Succeeded Cordon=Succeeded Drain=Succeeded Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Succeeded Forget=Succeeded",
			wantMessage: []string{"others have made them: cbr0, flannel.4096.", "Remove-HnsNetwork"},
		},
		{
			name: "the connection drops with the networks", set: func(f *fixture) { f.host.cuts = 2 }, want: succeeded,
			wantSteps: "Connect=Succeeded WaitForSlot=Succeeded Cordon=Succeeded Drain=Succeeded Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Succeeded Forget=Succeeded",
		},
		{
			name: "finalizers keep the Node", set: func(f *fixture) { f.keepNode("example.com/a", "example.com/b") }, want: succeeded, wantNode: "uid-of-node",
			wantSteps:   "Connect=Succeeded WaitForSlot=Succeeded Cordon=Succeeded Drain=Succeeded Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Succeeded Forget=Succeeded",
			wantDeleted: "Node win-1 is being deleted. Its finalizers keep it: example.com/a, example.com/b.",
		},
		{
			name: "a finalizer keeps the Node for a moment", set: func(f *fixture) {
				f.keepNode("example.com/a")
				f.kube.PrependReactor("delete", "nodes", func(clienttesting.Action) (bool, kruntime.Object, error) {
					time.AfterFunc(20*time.Second, func() {
						if err := f.nodes.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", testNode); err != nil {
							f.t.Error(err)
						}
					})
					return false, nil, nil
				})
			}, want: succeeded,
			wantSteps:   "Connect=Succeeded WaitForSlot=Succeeded Cordon=Succeeded Drain=Succeeded Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Succeeded Forget=Succeeded",
			wantDeleted: "Node win-1 is deleted.",
		},
		{
			name: "the Node has been deleted", set: func(f *fixture) {
				node := f.node()
				node.UID = "another"
				f.updateNode(node)
			},
			want: succeeded, wantNode: "another",
			wantSteps: "Connect=Succeeded WaitForSlot=Skipped Cordon=Skipped Drain=Skipped Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Skipped Forget=Succeeded",
		},
		{
			name: "the Node is deleted when it is to be cordoned", set: func(f *fixture) {
				f.kube.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, kruntime.Object, error) {
					return false, nil, f.nodes.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", testNode)
				})
			},
			want:      succeeded,
			wantSteps: "Connect=Succeeded WaitForSlot=Succeeded Cordon=Skipped Drain=Succeeded Cleanup=Succeeded Restart=Skipped Boot=Skipped DeleteNode=Skipped Forget=Succeeded",
		},
		{
			name: "the Node is another one when it is to be cordoned", set: func(f *fixture) {
				f.kube.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, kruntime.Object, error) {
					node, err := f.nodes.Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", testNode)
					if err != nil {
						return true, nil, err
					}
					replaced := node.(*corev1.Node).DeepCopy()
					replaced.UID = "another"
					if err := f.nodes.Update(corev1.SchemeGroupVersion.WithResource("nodes"), replaced, ""); err != nil {
						return true, nil, err
					}
					return true, nil, apierrors.NewConflict(corev1.Resource("nodes"), testNode, errors.New("it has another UID"))
				})
			},
			want: failed, wantNode: "another", wantIs: "old",
			wantSteps: "Connect=Succeeded WaitForSlot=Succeeded Cordon=Failed Drain=Skipped Cleanup=Skipped Restart=Skipped Boot=Skipped DeleteNode=Skipped Forget=Skipped",
		},
		{
			name: "the host is away", set: func(f *fixture) { f.failWith("Login", errRefusedPort) }, want: failed, wantNode: "uid-of-node", wantIs: "old",
			wantSteps:   "Connect=Failed WaitForSlot=Skipped Cordon=Skipped Drain=Skipped Cleanup=Skipped Restart=Skipped Boot=Skipped DeleteNode=Skipped Forget=Skipped",
			wantMessage: []string{"ConnectionRefused"},
		},
		{
			name: "another instance has the host by now", want: failed, wantNode: "uid-of-node", wantIs: "old",
			set:         func(f *fixture) { f.superseded = "Instance new has it." },
			wantSteps:   "Connect=Succeeded WaitForSlot=Skipped Cordon=Skipped Drain=Skipped Cleanup=Skipped Restart=Skipped Boot=Skipped DeleteNode=Skipped Forget=Skipped",
			wantMessage: []string{"Instance new has it."},
		},
		{
			name: "a budget keeps a pod", want: failed, wantNode: "uid-of-node", wantIs: "old",
			set: func(f *fixture) {
				f.drain.reports = []drain.Progress{{Total: 1, Blocked: []v1alpha1.BlockedPod{{Namespace: "a", Name: "b", Budget: "c", Message: "d"}}}}
				f.drain.err = &drain.TimeoutError{Total: 1, Pods: []string{"a/b"}}
			},
			wantSteps:   "Connect=Succeeded WaitForSlot=Succeeded Cordon=Succeeded Drain=Failed Cleanup=Skipped Restart=Skipped Boot=Skipped DeleteNode=Skipped Forget=Skipped",
			wantMessage: []string{"a/b", "Node win-1 stays cordoned because its host is being removed", "kubectl drain win-1"},
		},
		{
			name: "a step of the cleanup fails", want: failed, wantNode: "uid-of-node", wantIs: "old",
			set: func(f *fixture) {
				f.host.result = func() *api.Result {
					return &api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonStep, Error: "Delete Service kubelet: access is denied"}
				}
			},
			wantSteps:   "Connect=Succeeded WaitForSlot=Succeeded Cordon=Succeeded Drain=Succeeded Cleanup=Failed Restart=Skipped Boot=Skipped DeleteNode=Skipped Forget=Skipped",
			wantMessage: []string{"Delete Service kubelet: access is denied"},
		},
	}
	for _, tt := range tests {
		inBubble(t, tt.name, func(t *testing.T) {
			if tt.change == nil {
				tt.change = func(*v1alpha1.WindowsInstance) {}
			}
			f := newFixture(t, newInstance(removeOperation(), configuredBefore, tt.change, isBeingDeleted))
			f.configure()
			f.refuseOtherUIDs()
			f.host.agentThere = true
			if tt.set != nil {
				tt.set(f)
			}
			op := f.finish()
			if op.Phase != tt.want {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			if diff := cmp.Diff(tt.wantSteps, strings.Join(states(op), " ")); diff != "" {
				t.Errorf("steps (-want +got)\n%s", diff)
			}
			for _, want := range tt.wantMessage {
				if !strings.Contains(op.Message, want) {
					t.Errorf("%q is missing in %q", want, op.Message)
				}
			}
			for _, s := range op.Steps {
				for name, want := range map[string]string{v1alpha1.StepCleanup: tt.wantStep, v1alpha1.StepDeleteNode: tt.wantDeleted} {
					if s.Name == name && !strings.Contains(s.Message, want) {
						t.Errorf("%q is missing in %q", want, s.Message)
					}
				}
			}
			var got types.UID
			if node := f.findNode(); node != nil {
				got = node.UID
			}
			if got != tt.wantNode || f.host.restarts() != tt.wantRestarts || f.host.is != tt.wantIs || f.host.agentThere != (tt.wantIs != "") {
				t.Errorf("the Node is %q, restarted %d times, the host is %q, our agent is there: %v", got, f.host.restarts(), f.host.is, f.host.agentThere)
			}
			if want := tt.name == "a budget keeps a pod"; want != (len(op.BlockedBy) == 1) {
				t.Errorf("blocked by %v", op.BlockedBy)
			}
		})
	}
}

// waitsToBeRemoved is another host of the pool, which is being updated, so that the removal has to wait.
func waitsToBeRemoved() *v1alpha1.WindowsInstance {
	return newInstance(reconfigureOperation(), inPool("pool"), func(i *v1alpha1.WindowsInstance) {
		i.Name, i.UID = "win-2", "uid-2"
		op := i.Status.Operation
		op.Phase, op.AdmittedImpact, op.RequestedBy = v1alpha1.OperationRunning, v1alpha1.ImpactDrain, v1alpha1.ControllerRequester
		op.Node = &v1alpha1.OperationNode{Name: "win-2"}
	})
}

// TestRemovalWaitsForASlot: a host is removed when no other one of its pool is out of service, unless somebody has
// confirmed its removal. Until then nothing was done to it, and whoever gets it from now on gets it as it is.
func TestRemovalWaitsForASlot(t *testing.T) {
	t.Parallel()
	confirmed := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "pool"}}
	confirmed.Status.RecentRemovals = []v1alpha1.PoolRemoval{{Name: "win-1", Time: metav1.Now(), Confirmed: true}}
	ofMachine := func(i *v1alpha1.WindowsInstance) {
		i.Annotations = map[string]string{v1alpha1.SourceAnnotation: "Machine " + i.Namespace + "/" + i.Name}
		i.OwnerReferences = []metav1.OwnerReference{{APIVersion: machinev1beta1.SchemeGroupVersion.String(), Kind: "Machine", Name: i.Name, UID: "m", Controller: new(true)}}
	}
	begunBefore := func(i *v1alpha1.WindowsInstance) {
		begun := v1alpha1.Operation{ID: "op-00", Type: v1alpha1.OperationRemove, Phase: v1alpha1.OperationFailed, StartedAt: new(metav1.Now()), AdmittedImpact: v1alpha1.ImpactDrain}
		i.Status.History = append([]v1alpha1.Operation{begun}, i.Status.History...)
	}
	const waits = "Waits for a slot to be removed: another host is being changed: win-2; at most 1 of all pools"
	for _, tt := range []struct {
		name   string
		pool   *v1alpha1.WindowsNodePool
		change change
		// cordoned: its Node is.
		cordoned bool
		waits    string
		// meanwhile is what happens while it waits.
		meanwhile func(*testing.T, *fixture)
		want      string
	}{
		{name: "the other one is done", waits: waits, want: "Succeeded, WaitForSlot=Succeeded", meanwhile: func(t *testing.T, f *fixture) {
			other := waitsToBeRemoved()
			if err := f.raw.Delete(t.Context(), other); err != nil {
				t.Error(err)
			}
		}},
		{name: "another instance has the host by now", waits: waits, want: "Failed, WaitForSlot=Succeeded", meanwhile: func(_ *testing.T, f *fixture) { f.superseded = "Instance new has it." }},
		{name: "somebody has logged on", waits: waits, want: "Failed, WaitForSlot=Succeeded", meanwhile: func(t *testing.T, f *fixture) {
			f.host.mu.Lock()
			f.host.cleanupReboots, f.host.sessions = true, []api.Session{{ID: 3, User: `W\bob`}}
			f.host.mu.Unlock()
			if err := f.raw.Delete(t.Context(), waitsToBeRemoved()); err != nil {
				t.Error(err)
			}
		}},
		{name: "it is canceled", waits: waits, want: "Canceled, WaitForSlot=Canceled", meanwhile: func(_ *testing.T, f *fixture) {
			f.edit(func(i *v1alpha1.WindowsInstance) {
				i.Status.Operation.CancelRequestedBy, i.Status.Operation.CancelRequestedAt = "bob", new(metav1.Now())
			})
		}},
		{name: "somebody has confirmed it", pool: confirmed, want: "Succeeded, WaitForSlot=Skipped"},
		{name: "its Machine is gone", change: ofMachine, want: "Succeeded, WaitForSlot=Skipped"},
		{name: "it has begun before", change: begunBefore, cordoned: true, want: "Succeeded, WaitForSlot=Skipped"},
		{name: "it has begun before, and somebody has uncordoned its Node since", change: begunBefore, waits: waits, want: "Succeeded, WaitForSlot=Succeeded", meanwhile: func(t *testing.T, f *fixture) {
			if err := f.raw.Delete(t.Context(), waitsToBeRemoved()); err != nil {
				t.Error(err)
			}
		}},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			if tt.change == nil {
				tt.change = func(*v1alpha1.WindowsInstance) {}
			}
			others := []client.Object{waitsToBeRemoved()}
			if tt.pool != nil {
				others = append(others, tt.pool.DeepCopy())
			}
			f := newFixture(t, newInstance(removeOperation(), configuredBefore, inPool("pool"), tt.change, isBeingDeleted), others...)
			f.configure()
			f.host.agentThere = true
			if tt.cordoned {
				f.cordonByHand()
			}
			r, _ := f.process()
			f.reconcile(r)
			if tt.waits != "" {
				f.eventually("it to wait", func() bool { return strings.Contains(f.get().Status.Operation.Message, tt.waits) })
				if op := f.get().Status.Operation; !op.Untouched() || f.node().Spec.Unschedulable || f.host.count("Cleanup") > 0 {
					t.Errorf("something was done: %v", states(op))
				}
				tt.meanwhile(t, f)
				f.reconcile(r)
			}
			op := f.waitForEnd()
			if got := string(op.Phase) + ", " + states(op)[1]; got != tt.want {
				t.Errorf("it is %s: %s", got, op.Message)
			}
			if op.Phase != v1alpha1.OperationSucceeded && (f.node().Spec.Unschedulable || f.host.count("Cleanup") > 0) {
				t.Error("something was done to the host")
			}
		})
	}
}

// TestRemoveWithSessions: whether people keep Windows from the restart that a removal needs is known
// before pods leave.
func TestRemoveWithSessions(t *testing.T) {
	t.Parallel()
	left, atWork := api.Session{ID: 2, User: `W\ann`, Disconnected: true}, api.Session{ID: 3, User: `W\bob`}
	for _, tt := range []struct {
		name     string
		reboots  bool
		sessions []api.Session
		services []api.Service
		ssh      *api.SSHServer
		fail     string // what the host does not answer
		want     v1alpha1.OperationPhase
		says     string
	}{
		{name: "somebody works", reboots: true, sessions: []api.Session{left, atWork}, want: v1alpha1.OperationFailed, says: `W\bob (session 3)`},
		{
			name: "its SSH server does not start with Windows", reboots: true, services: []api.Service{{Name: "sshd", State: "Running", StartType: "Manual"}}, want: v1alpha1.OperationFailed,
			says: "nobody could log in after a restart",
		},
		{
			name: "its SSH server ends when it starts", reboots: true, services: []api.Service{{Name: "sshd", State: "Running", StartType: "Automatic"}},
			ssh: &api.SSHServer{EndsOverFolders: true, Folder: &api.FileAccess{Owner: "S-1-5-21-1-2-3-1105"}}, want: v1alpha1.OperationFailed,
			says: "nobody could log in after a restart",
		},
		{name: "somebody has left", reboots: true, sessions: []api.Session{left}, want: v1alpha1.OperationSucceeded},
		{name: "nothing needs a restart", sessions: []api.Session{atWork}, want: v1alpha1.OperationSucceeded},
		{name: "it does not say who works", reboots: true, sessions: []api.Session{atWork}, fail: "Facts", want: v1alpha1.OperationSucceeded},
		{name: "it does not say what it needs", reboots: true, sessions: []api.Session{atWork}, fail: "Plan", want: v1alpha1.OperationSucceeded},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(removeOperation(), configuredBefore, isBeingDeleted))
			f.configure()
			f.host.agentThere, f.host.cleanupReboots, f.host.sessions, f.host.services, f.host.ssh = true, tt.reboots, tt.sessions, tt.services, tt.ssh
			if tt.fail != "" {
				f.failWith(tt.fail, errors.New("no"))
			}
			op := f.finish()
			if op.Phase != tt.want {
				t.Fatalf("it is %s: %s", op.Phase, op.Message)
			}
			if tt.want == v1alpha1.OperationSucceeded {
				return
			}
			if !op.Untouched() || op.HostUnreached() || f.drain.runs > 0 || f.node().Spec.Unschedulable || f.host.count("Cleanup") > 0 {
				t.Errorf("something was done, or the host counts as away: %v", states(op))
			}
			if !strings.Contains(op.Message, tt.says) || strings.Contains(op.Message, "ann") || strings.Contains(op.Message, "Force") {
				t.Errorf("the message is %q", op.Message)
			}
		})
	}
}

// TestRemovalRestartsLater: the restart that a removal needs is not forgotten when Windows refuses it
// at first.
func TestRemovalRestartsLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(removeOperation(), configuredBefore, isBeingDeleted))
		f.configure()
		f.host.agentThere, f.host.cleanupReboots = true, true
		f.failWith("Restart", &agentclient.Error{Step: agentclient.StepRefused, Err: errors.New("another shutdown of the host is scheduled")})
		if op := f.finish(); op.Phase != v1alpha1.OperationFailed || op.FindStep(v1alpha1.StepRestart).State != v1alpha1.StepFailed || op.BootID != "" {
			t.Fatalf("it is %s: %s", op.Phase, op.Message)
		}
		delete(f.host.fail, "Restart")
		f.edit(func(i *v1alpha1.WindowsInstance) {
			again := removeOperation()
			again.ID, again.RequestedBy, again.Phase = "op-2", "alice", v1alpha1.OperationPending
			if err := i.Status.Record(&again); err != nil {
				t.Error(err)
			}
		})
		if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded || f.host.restarts() != 1 || f.host.agentThere {
			t.Errorf("it is %s, restarted %d times, our agent is there: %v: %s", op.Phase, f.host.restarts(), f.host.agentThere, op.Message)
		}
	})
}

// TestRemovalIsInterrupted ends the process at every write of the record, before it is
// stored and after, and has another one go on.
func TestRemovalIsInterrupted(t *testing.T) {
	for _, after := range []bool{false, true} {
		inBubble(t, fmt.Sprintf("after the write: %v", after), func(t *testing.T) {
			at := 1
			for ; ; at++ {
				f := newFixture(t, newInstance(removeOperation(), configuredBefore, isBeingDeleted))
				f.configure()
				f.host.cuts, f.host.loseAnswer, f.host.agentThere = 1, 1, true
				if f.interrupt(at, after) < at {
					break
				}
				op := f.finish()
				if op.Phase != v1alpha1.OperationSucceeded || f.host.is != "" || f.host.agentThere || f.findNode() != nil {
					t.Errorf("killed at write %d: %s, the host is %q, agent %v: %s", at, op.Phase, f.host.is, f.host.agentThere, op.Message)
				}
			}
			if at < 12 || at > 16 {
				t.Errorf("the operation ended after %d writes", at)
			}
		})
	}
}

// Another Node that took the name while the host was cleaned is not deleted.
func TestRemoveKeepsToItsNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(removeOperation(), configuredBefore, isBeingDeleted))
		f.configure()
		replaced := false
		f.host.fail["Cleanup"] = func() error {
			if !replaced {
				replaced = true
				if err := f.kube.CoreV1().Nodes().Delete(t.Context(), testNode, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				if _, err := f.kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode, UID: "another"}}, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
			return nil
		}
		f.refuseOtherUIDs()
		op := f.finish()
		if op.Phase != v1alpha1.OperationSucceeded || f.findNode() == nil || op.FindStep(v1alpha1.StepDeleteNode).State != v1alpha1.StepSkipped {
			t.Errorf("it is %s: %s", op.Phase, op.FindStep(v1alpha1.StepDeleteNode).Message)
		}
	})
}

// TestRestored: an operation that comes with the status of a backup is not carried out.
func TestRestored(t *testing.T) {
	t.Parallel()
	restoredAt := func() time.Time { return time.Now().Add(-time.Minute) }
	restoredAfter := func(d time.Duration) change {
		return func(i *v1alpha1.WindowsInstance) {
			i.CreationTimestamp = metav1.NewTime(restoredAt())
			i.Status.Operation.RequestedAt = metav1.NewTime(i.CreationTimestamp.Add(-d))
		}
	}
	for _, tt := range []struct {
		name    string
		changes []change
		want    v1alpha1.OperationPhase
	}{
		{"of yesterday", []change{restoredAfter(24 * time.Hour)}, v1alpha1.OperationCanceled},
		{"of yesterday, under way", []change{restoredAfter(24 * time.Hour), func(i *v1alpha1.WindowsInstance) {
			op := i.Status.Operation
			op.Phase, op.StartedAt, op.Steps = v1alpha1.OperationRunning, &op.RequestedAt, newSteps(plan(op, true))
		}}, v1alpha1.OperationCanceled},
		{"of an instance that was made in the future, by a clock that was wrong", []change{func(i *v1alpha1.WindowsInstance) {
			i.CreationTimestamp = metav1.NewTime(restoredAt().Add(72 * time.Hour))
			i.Status.Operation.RequestedAt = metav1.NewTime(restoredAt())
		}}, v1alpha1.OperationSucceeded},
		{"of a clock that differs", []change{restoredAfter(time.Minute)}, v1alpha1.OperationSucceeded},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootGraceful), tt.changes...))
			op := f.finish()
			if restarted := f.host.restarts() > 0; op.Phase != tt.want || restarted != (tt.want == v1alpha1.OperationSucceeded) {
				t.Errorf("it is %s, restarted %v: %s", op.Phase, restarted, op.Message)
			}
		})
	}
}

// TestDeleted: once an instance is being deleted, its host is removed and nothing else.
func TestDeleted(t *testing.T) {
	t.Parallel()
	inBubble(t, "before it began", func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootGraceful), isBeingDeleted))
		op := f.finish()
		if op.Phase != v1alpha1.OperationCanceled || f.host.restarts() > 0 || op.Message != "Canceled because the WindowsInstance is being deleted. Nothing was changed." {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
	inBubble(t, "while pods leave", func(t *testing.T) {
		f := newFixture(t, newInstance(drainOperation(), func(i *v1alpha1.WindowsInstance) { i.Finalizers = []string{"windows.openshift.io/host"} }))
		f.drain.block = true
		r, _ := f.process()
		f.reconcile(r)
		f.eventually("the Node to be cordoned", func() bool { return f.node().Spec.Unschedulable })
		if err := f.raw.Delete(t.Context(), f.get()); err != nil {
			t.Fatal(err)
		}
		f.reconcile(r)
		op := f.waitForEnd()
		if op.Phase != v1alpha1.OperationCanceled || f.node().Spec.Unschedulable || !strings.Contains(op.Message, "being deleted") {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
	inBubble(t, "with its Machine, while pods leave", func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootGraceful), func(i *v1alpha1.WindowsInstance) {
			i.Finalizers = []string{"windows.openshift.io/host"}
			i.Annotations = map[string]string{"windows.openshift.io/source": "Machine windows-hosts/win-1"}
		}))
		f.drain.block = true
		r, _ := f.process()
		f.reconcile(r)
		f.eventually("the Node to be cordoned", func() bool { return f.node().Spec.Unschedulable })
		if err := f.raw.Delete(t.Context(), f.get()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		f.reconcile(r)
		op := f.waitForEnd()
		want := "Canceled because Machine windows-hosts/win-1 is being deleted."
		if op.Phase != v1alpha1.OperationCanceled || !f.node().Spec.Unschedulable || f.host.restarts() > 0 || !strings.HasPrefix(op.Message, want) || !strings.Contains(op.Message, "Node win-1 stays cordoned, because it goes with its Machine.") {
			t.Errorf("it is %s, and the Node is cordoned: %v: %s", op.Phase, f.node().Spec.Unschedulable, op.Message)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %s", took)
		}
	})
	inBubble(t, "a removal that is canceled", func(t *testing.T) {
		f := newFixture(t, newInstance(removeOperation(), configuredBefore, isBeingDeleted))
		f.configure()
		f.failWith("Cleanup", errRefusedPort)
		r, _ := f.process()
		f.reconcile(r)
		f.eventually("the cleanup", func() bool { return f.host.count("Cleanup") > 1 })
		f.edit(func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation.CancelRequestedBy = "bob"
			i.Status.Operation.CancelRequestedAt = new(metav1.Now())
		})
		f.reconcile(r)
		op := f.waitForEnd()
		if op.Phase != v1alpha1.OperationCanceled || !strings.Contains(op.Message, "The removal is incomplete") {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
}

// TestRemovalOfAHostThatIsDestroyed: the virtual machine of a Machine may go at any moment of its removal. The operation
// ends soon after the host is due to be given up, so that others get its slot.
func TestRemovalOfAHostThatIsDestroyed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// during is the request with which the host goes.
		during string
		after  *int64 // spec.removal.afterSeconds
		// step is the one that ends, and within the longest that it may take.
		step   string
		within time.Duration
		want   string
	}{
		{"before it begins", "Login", new(int64(300)), v1alpha1.StepConnect, patience, "cannot be logged in to"},
		{"before it begins, behind a bastion that refuses", "Login", new(int64(300)), v1alpha1.StepConnect, patience, "cannot be logged in to"},
		{"while it is cleaned, behind a bastion that refuses", "Cleanup", nil, v1alpha1.StepCleanup, silence + pollInterval, "did not answer any more for 10m"},
		{"while it restarts, behind a bastion that refuses", "BootID", nil, v1alpha1.StepBoot, updateTimeout + time.Minute, "did not come back within 1h0m0s"},
		{"while it is cleaned", "Cleanup", new(int64(300)), v1alpha1.StepCleanup, 5*time.Minute + pollInterval, "did not answer any more for 5m"},
		{"while it is cleaned, late", "Cleanup", new(int64(0)), v1alpha1.StepCleanup, patience + pollInterval, "did not answer any more for 1m"},
		{"while it is cleaned, without an end", "Cleanup", nil, v1alpha1.StepCleanup, silence + pollInterval, "did not answer any more for 10m"},
		{"while it restarts", "BootID", new(int64(300)), v1alpha1.StepBoot, removedBoot + time.Minute, "did not come back in the time that spec.removal.afterSeconds leaves"},
		{"while it restarts, late", "BootID", new(int64(0)), v1alpha1.StepBoot, removedBoot + time.Minute, "did not come back in the time that spec.removal.afterSeconds leaves"},
		{"while it restarts, with a day", "BootID", new(int64(86400)), v1alpha1.StepBoot, updateTimeout + time.Minute, "did not come back in the time that spec.removal.afterSeconds leaves"},
		{"while a host restarts that has no Machine", "BootID", new(int64(300)), v1alpha1.StepBoot, updateTimeout + time.Minute, "did not come back within 1h0m0s"},
		{"while it restarts, without an end", "BootID", nil, v1alpha1.StepBoot, updateTimeout + time.Minute, "did not come back within 1h0m0s"},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(removeOperation(), configuredBefore, isBeingDeleted, func(i *v1alpha1.WindowsInstance) {
				i.Spec.Removal = &v1alpha1.RemovalOptions{AfterSeconds: tt.after}
				if !strings.Contains(tt.name, "no Machine") {
					metav1.SetMetaDataAnnotation(&i.ObjectMeta, v1alpha1.SourceAnnotation, "Machine openshift-machine-api/win-1")
				}
			}))
			f.configure()
			f.host.cleanupReboots = true
			f.host.fail[tt.during] = func() error {
				if tt.during == "BootID" && f.host.boots == 1 { // it is asked for its boot before the restart
					return nil
				}
				if strings.Contains(tt.name, "a bastion that refuses") {
					return &ssh.Error{Layer: ssh.LayerBastion, Reason: ssh.ReasonCredentialsRefused, RetryAt: time.Now().Add(time.Minute)}
				}
				return errRefusedPort
			}
			began := time.Now()
			op := f.finish()
			step := op.FindStep(tt.step)
			if op.Phase != v1alpha1.OperationFailed || step.State != v1alpha1.StepFailed || !strings.Contains(op.Message, tt.want) {
				t.Errorf("it is %s, %s is %s: %s", op.Phase, step.Name, step.State, op.Message)
			}
			if took := time.Since(began); took > tt.within || took < tt.within/2 {
				t.Errorf("it took %s, want %s", took, tt.within)
			}
		})
	}
}
