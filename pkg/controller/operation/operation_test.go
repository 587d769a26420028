// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/drain"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

func TestOperations(t *testing.T) {
	t.Parallel()
	const (
		succeeded = v1alpha1.OperationSucceeded
		failed    = v1alpha1.OperationFailed
	)
	noNode := func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }
	atWork := func(f *fixture) {
		f.host.pending, f.host.sessions = true, []api.Session{{ID: 2, User: `W\ann`, Disconnected: true}, {ID: 3, User: `W\bob`}}
	}
	onAWS := func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "aws:///us-east-1a/i-1" }
	tests := []struct {
		name      string
		operation v1alpha1.Operation
		change    change
		set       func(*fixture)
		want      v1alpha1.OperationPhase
		// wantSteps are the states of the steps, by their first letters.
		wantSteps    string
		wantMessage  []string
		wantRestarts int
		wantCordoned bool
	}{
		{name: "drain", operation: drainOperation(), want: succeeded, wantSteps: "Cordon=Succeeded Evict=Succeeded", wantMessage: []string{"Node win-1 is cordoned", "have left: 2"}, wantCordoned: true},
		{name: "drain without a Node", operation: drainOperation(), change: noNode, want: failed, wantSteps: "Cordon=Skipped Evict=Skipped", wantMessage: []string{"The host has no Node"}},
		{
			name: "drain of what is not allowed", operation: drainOperation(),
			set: func(f *fixture) {
				f.drain.err = &drain.NotAllowedError{Objections: []drain.Objection{{Kind: "pods", Remedy: "force: true", Pods: []string{"a/b"}}}}
			},
			want: failed, wantSteps: "Cordon=Succeeded Evict=Failed", wantMessage: []string{"force: true", "a/b", "Node win-1 stays cordoned"}, wantCordoned: true,
		},
		{
			name: "uncordon", operation: v1alpha1.Operation{Type: v1alpha1.OperationUncordon},
			set:  func(f *fixture) { f.cordonByHand() },
			want: succeeded, wantSteps: "Uncordon=Succeeded", wantMessage: []string{"Node win-1 is schedulable"},
		},
		{
			name: "reboot", operation: rebootOperation(v1alpha1.RebootGraceful), set: func(f *fixture) { f.host.down = 3 }, want: succeeded,
			wantSteps:    "Connect=Succeeded Cordon=Succeeded Drain=Succeeded Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Succeeded Uncordon=Succeeded",
			wantMessage:  []string{"The host was restarted", "is ready", "is schedulable"},
			wantRestarts: 1,
		},
		{
			name: "reboot of a Node that was cordoned before", operation: rebootOperation(v1alpha1.RebootGraceful), set: func(f *fixture) { f.cordonByHand() }, want: succeeded,
			wantSteps:    "Connect=Succeeded Cordon=Skipped Drain=Succeeded Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Succeeded Uncordon=Skipped",
			wantRestarts: 1, wantCordoned: true,
		},
		{
			name: "reboot of a host without a Node", operation: rebootOperation(v1alpha1.RebootGraceful), change: noNode, want: succeeded,
			wantSteps:    "Connect=Succeeded Cordon=Skipped Drain=Skipped Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Skipped Uncordon=Skipped",
			wantRestarts: 1,
		},
		{
			name: "forced reboot", operation: rebootOperation(v1alpha1.RebootForce), want: succeeded,
			wantSteps:    "Connect=Succeeded Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Succeeded Uncordon=Succeeded",
			wantRestarts: 1,
		},
		{
			name: "nothing pending", operation: rebootOperation(v1alpha1.RebootIfPending), want: succeeded,
			wantSteps:   "Connect=Succeeded CheckPending=Succeeded Cordon=Skipped Drain=Skipped Restart=Skipped Boot=Skipped Services=Skipped MetadataRoute=Skipped NodeReady=Skipped Uncordon=Skipped",
			wantMessage: []string{"does not wait for a restart"},
		},
		{
			name: "pending", operation: rebootOperation(v1alpha1.RebootIfPending), set: func(f *fixture) { f.host.pending = true }, want: succeeded,
			wantSteps:    "Connect=Succeeded CheckPending=Succeeded Cordon=Succeeded Drain=Succeeded Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Succeeded Uncordon=Succeeded",
			wantRestarts: 1,
		},
		{
			name: "somebody works on the host", operation: rebootOperation(v1alpha1.RebootGraceful), set: atWork, want: failed,
			wantSteps:   "Connect=Failed Cordon=Skipped Drain=Skipped Restart=Skipped Boot=Skipped Services=Skipped MetadataRoute=Skipped NodeReady=Skipped Uncordon=Skipped",
			wantMessage: []string{`logged on: W\bob (session 3); have them log off`, "--mode=Force"},
		},
		{
			name: "its SSH server does not start with Windows", operation: rebootOperation(v1alpha1.RebootGraceful), set: func(f *fixture) {
				f.host.services = []api.Service{{Name: "sshd", State: "Running", StartType: "Manual"}}
			}, want: failed,
			wantSteps:   "Connect=Failed Cordon=Skipped Drain=Skipped Restart=Skipped Boot=Skipped Services=Skipped MetadataRoute=Skipped NodeReady=Skipped Uncordon=Skipped",
			wantMessage: []string{"nobody could log in after a restart; run in PowerShell: Set-Service sshd -StartupType Automatic"},
		},
		{
			name: "its SSH server ends when it starts", operation: rebootOperation(v1alpha1.RebootGraceful), set: func(f *fixture) { writableSSH(f.host, "9.5.2.1", true) }, want: failed,
			wantSteps:   "Connect=Failed Cordon=Skipped Drain=Skipped Restart=Skipped Boot=Skipped Services=Skipped MetadataRoute=Skipped NodeReady=Skipped Uncordon=Skipped",
			wantMessage: []string{`nobody could log in after a restart. Run in PowerShell as an administrator: icacls C:\ProgramData\ssh\logs /setowner`},
		},
		{
			name: "its SSH server may end after an update only", operation: rebootOperation(v1alpha1.RebootGraceful), set: func(f *fixture) { writableSSH(f.host, "8.1.0.1", false) }, want: succeeded,
			wantSteps:    "Connect=Succeeded Cordon=Succeeded Drain=Succeeded Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Succeeded Uncordon=Succeeded",
			wantRestarts: 1,
		},
		{
			name: "pending, and somebody works on the host", operation: rebootOperation(v1alpha1.RebootIfPending), set: atWork, want: failed,
			wantSteps:   "Connect=Succeeded CheckPending=Failed Cordon=Skipped Drain=Skipped Restart=Skipped Boot=Skipped Services=Skipped MetadataRoute=Skipped NodeReady=Skipped Uncordon=Skipped",
			wantMessage: []string{`W\bob (session 3)`},
		},
		{
			name: "forced while somebody works on the host", operation: rebootOperation(v1alpha1.RebootForce), set: atWork, want: succeeded,
			wantSteps:    "Connect=Succeeded Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Succeeded Uncordon=Succeeded",
			wantRestarts: 1,
		},
		{
			name: "somebody has left a session", operation: rebootOperation(v1alpha1.RebootGraceful), set: func(f *fixture) { atWork(f); f.host.sessions = f.host.sessions[:1] }, want: succeeded,
			wantSteps:    "Connect=Succeeded Cordon=Succeeded Drain=Succeeded Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Succeeded Uncordon=Succeeded",
			wantRestarts: 1,
		},
		{
			name: "reboot on AWS", operation: rebootOperation(v1alpha1.RebootForce), change: onAWS, want: succeeded,
			wantSteps:    "Connect=Succeeded Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Succeeded NodeReady=Succeeded Uncordon=Succeeded",
			wantRestarts: 1,
		},
		{
			name: "credentials are refused", operation: rebootOperation(v1alpha1.RebootGraceful), set: func(f *fixture) { f.failWith("Login", errNoLogin) }, want: failed,
			wantSteps:   "Connect=Failed Cordon=Skipped Drain=Skipped Restart=Skipped Boot=Skipped Services=Skipped MetadataRoute=Skipped NodeReady=Skipped Uncordon=Skipped",
			wantMessage: []string{"CredentialsRefused", "The host was not restarted"},
		},
		{
			name: "the host refuses to restart", operation: rebootOperation(v1alpha1.RebootGraceful),
			set: func(f *fixture) {
				f.failWith("Restart", &agentclient.Error{Step: agentclient.StepRefused, Err: errors.New("a required privilege is not held")})
			},
			want:        failed,
			wantSteps:   "Connect=Succeeded Cordon=Succeeded Drain=Succeeded Restart=Failed Boot=Skipped Services=Skipped MetadataRoute=Skipped NodeReady=Skipped Uncordon=Skipped",
			wantMessage: []string{"a required privilege is not held", "The host was not restarted", "Node win-1 stays cordoned"}, wantCordoned: true,
		},
		{
			name: "the answer is lost", operation: rebootOperation(v1alpha1.RebootGraceful), set: func(f *fixture) { f.host.loseAnswer, f.host.down = 2, 2 }, want: succeeded,
			wantSteps:    "Connect=Succeeded Cordon=Succeeded Drain=Succeeded Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Succeeded Uncordon=Succeeded",
			wantRestarts: 1,
		},
		{
			name: "the agent is ended before it answers", operation: rebootOperation(v1alpha1.RebootGraceful), set: func(f *fixture) {
				f.host.loseAnswer, f.host.down = 2, 2
				f.host.lostAnswer = &agentclient.Error{Step: agentclient.StepRun, Err: &ssh.ExitError{Code: 1}}
			}, want: succeeded,
			wantSteps:    "Connect=Succeeded Cordon=Succeeded Drain=Succeeded Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Succeeded Uncordon=Succeeded",
			wantRestarts: 1,
		},
		{
			name: "the host does not come back", operation: rebootOperation(v1alpha1.RebootGraceful), set: func(f *fixture) { f.host.dead = true }, want: failed,
			wantSteps:    "Connect=Succeeded Cordon=Succeeded Drain=Succeeded Restart=Succeeded Boot=Failed Services=Skipped MetadataRoute=Skipped NodeReady=Skipped Uncordon=Skipped",
			wantMessage:  []string{"did not come back within 20m0s", "ConnectionRefused", "Nothing listens on", "Node win-1 stays cordoned until it is ready again, or somebody uncordons it."},
			wantRestarts: 1, wantCordoned: true,
		},
		{
			name: "the kubelet does not start", operation: rebootOperation(v1alpha1.RebootGraceful),
			set: func(f *fixture) {
				f.host.services = []api.Service{{Name: "kubelet", StartType: "Automatic", State: "Stopped"}}
			},
			want: failed, wantSteps: "Connect=Succeeded Cordon=Succeeded Drain=Succeeded Restart=Succeeded Boot=Succeeded Services=Failed MetadataRoute=Skipped NodeReady=Skipped Uncordon=Skipped",
			wantMessage: []string{"kubelet (Stopped)"}, wantRestarts: 1, wantCordoned: true,
		},
		{name: "reconfigure", operation: v1alpha1.Operation{Type: v1alpha1.OperationReconfigure}, want: succeeded, wantSteps: "Connect=Succeeded Facts=Succeeded Preflight=Succeeded Agent=Succeeded Verify=Succeeded"},
		{
			name: "reconfigure of an unfit host", operation: v1alpha1.Operation{Type: v1alpha1.OperationReconfigure},
			set:  func(f *fixture) { f.host.memory = 1 << 30 },
			want: failed, wantSteps: "Connect=Succeeded Facts=Succeeded Preflight=Failed Agent=Skipped Verify=Skipped", wantMessage: []string{"1024 MiB of memory; it needs at least 2 GiB"},
		},
		{
			name: "paused", operation: rebootOperation(v1alpha1.RebootForce), change: func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true },
			want: failed, wantSteps: "Connect=Skipped Restart=Skipped Boot=Skipped Services=Skipped MetadataRoute=Skipped NodeReady=Skipped Uncordon=Skipped", wantMessage: []string{"spec.paused is true"},
		},
		{
			name: "drain of a paused host", operation: drainOperation(), change: func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true },
			want: succeeded, wantSteps: "Cordon=Succeeded Evict=Succeeded", wantCordoned: true,
		},
		{
			name: "uncordon of a paused host", operation: v1alpha1.Operation{Type: v1alpha1.OperationUncordon}, change: func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true },
			set: func(f *fixture) { f.cordonByHand() }, want: succeeded, wantSteps: "Uncordon=Succeeded",
		},
		{
			name: "a reboot before failed", operation: rebootOperation(v1alpha1.RebootGraceful), set: func(f *fixture) { f.cordonAs("op-0 Reboot (asked for by bob)") }, want: succeeded,
			wantSteps:    "Connect=Succeeded Cordon=Succeeded Drain=Succeeded Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Succeeded Uncordon=Succeeded",
			wantMessage:  []string{"is schedulable"},
			wantRestarts: 1,
		},
		{
			name: "forced, after a reboot that failed", operation: rebootOperation(v1alpha1.RebootForce), set: func(f *fixture) { f.cordonAs("op-0 Reboot (asked for by bob)") }, want: succeeded,
			wantSteps:    "Connect=Succeeded Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Succeeded Uncordon=Succeeded",
			wantMessage:  []string{"is schedulable"},
			wantRestarts: 1,
		},
		{
			name: "forced, after a drain", operation: rebootOperation(v1alpha1.RebootForce), set: func(f *fixture) { f.cordonAs("op-0 Drain (asked for by bob)") }, want: succeeded,
			wantSteps:    "Connect=Succeeded Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Succeeded Uncordon=Skipped",
			wantRestarts: 1, wantCordoned: true,
		},
		{
			name: "a configuration before failed", operation: rebootOperation(v1alpha1.RebootGraceful), set: func(f *fixture) { f.cordonAs("op-0 Reconfigure (asked for by bob)") }, want: succeeded,
			wantSteps:    "Connect=Succeeded Cordon=Skipped Drain=Succeeded Restart=Succeeded Boot=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Succeeded Uncordon=Skipped",
			wantRestarts: 1, wantCordoned: true,
		},
		{
			name: "another instance stands for the host", operation: rebootOperation(v1alpha1.RebootForce),
			change: func(i *v1alpha1.WindowsInstance) {
				i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionResolved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDuplicateHost, Message: "Instance b does."}}
			},
			want: failed, wantSteps: "Connect=Skipped Restart=Skipped Boot=Skipped Services=Skipped MetadataRoute=Skipped NodeReady=Skipped Uncordon=Skipped", wantMessage: []string{"Instance b does."},
		},
	}
	for _, tt := range tests {
		inBubble(t, tt.name, func(t *testing.T) {
			if tt.change == nil {
				tt.change = func(*v1alpha1.WindowsInstance) {}
			}
			f := newFixture(t, newInstance(tt.operation, tt.change))
			f.drain.reports = []drain.Progress{{Total: 2}, {Total: 2, Gone: 2}}
			if tt.set != nil {
				tt.set(f)
			}
			op := f.finish()
			if op.Phase != tt.want || op.FinishedAt == nil || op.StartedAt == nil {
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
			if got := f.host.restarts(); got != tt.wantRestarts {
				t.Errorf("restarted %d times, want %d", got, tt.wantRestarts)
			}
			if got := f.node().Spec.Unschedulable; got != tt.wantCordoned {
				t.Errorf("cordoned: %v, want %v", got, tt.wantCordoned)
			}
			if f.host.forced != (tt.wantRestarts > 0 && tt.operation.Reboot.Mode == v1alpha1.RebootForce) {
				t.Errorf("the restart was forced: %v", f.host.forced)
			}
			if want := tt.name == "reboot on AWS"; want != (len(f.host.routes) == 6 && f.host.routes[0].Destination.String() == "169.254.169.254/32") {
				t.Errorf("routes: %v", f.host.routes)
			}
		})
	}
}

// TestRecordIsTrue: whatever is written, at no time does it tell of what is over.
func TestRecordIsTrue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootGraceful)))
		f.host.lingers = 5 // so that it is waited for longer than until a note is written
		f.drain.reports = []drain.Progress{
			{Total: 2, Blocked: []v1alpha1.BlockedPod{{Namespace: "a", Name: "b", Budget: "c", Message: "d"}}}, {Total: 2, Gone: 2},
		}
		var said []string
		f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
			op := i.Status.Operation
			if !after || len(op.Steps) == 0 {
				return nil
			}
			said = append(said, op.Message)
			var current v1alpha1.OperationStep // the last one that has begun
			for _, step := range op.Steps {
				if step.StartedAt != nil {
					current = step
				}
			}
			switch {
			case (op.Progress != nil || len(op.BlockedBy) > 0) && current.Name != v1alpha1.StepDrain:
				t.Errorf("at step %s the progress is %v, blocked by %v", current.Name, op.Progress, op.BlockedBy)
			case op.Active() && current.FinishedAt != nil && (op.Message != current.Message || len(op.BlockedBy) > 0):
				t.Errorf("step %s is over with %q, and the operation says %q, blocked by %v", current.Name, current.Message, op.Message, op.BlockedBy)
			case strings.Contains(op.Message, "down") && current.Name != v1alpha1.StepBoot:
				t.Errorf("at step %s it says %q", current.Name, op.Message)
			}
			return nil
		}
		op := f.finish()
		if op.Phase != v1alpha1.OperationSucceeded || op.Progress != nil || len(op.BlockedBy) > 0 {
			t.Errorf("it is %s, progress %v, blocked by %v", op.Phase, op.Progress, op.BlockedBy)
		}
		if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "down") }) {
			t.Errorf("it said %q", said)
		}
	})
}

// TestStillUp: Windows takes its time to go down, which is nothing to act on, and no program blocks a restart that is forced.
func TestStillUp(t *testing.T) {
	for _, tt := range []struct {
		name        string
		operation   v1alpha1.Operation
		since       time.Duration
		want        string
		wantConsole bool
	}{
		{"at once", rebootOperation(v1alpha1.RebootGraceful), 0, "It is going down", false},
		{"soon", rebootOperation(v1alpha1.RebootGraceful), slowShutdown - 1, "It is going down", false},
		{"later", rebootOperation(v1alpha1.RebootGraceful), slowShutdown, "Windows may be installing updates", true},
		{"forced", rebootOperation(v1alpha1.RebootForce), slowShutdown, "Windows may be installing updates", false},
		{"configuration", v1alpha1.Operation{Type: v1alpha1.OperationReconfigure}, slowShutdown, "Windows may be installing updates", false},
		{"removal", v1alpha1.Operation{Type: v1alpha1.OperationRemove}, slowShutdown, "Windows may be installing updates", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := stillUp(&tt.operation, tt.since); !strings.Contains(got, tt.want) || strings.Contains(got, "console") != tt.wantConsole {
				t.Errorf("got %q, want %q in it, and a word about the console: %v", got, tt.want, tt.wantConsole)
			}
		})
	}
}

// TestCancelAfterTheDrain: the pods that left are told of, also when their count is not
// that of the step that runs any more.
func TestCancelAfterTheDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootGraceful)))
		f.drain.reports = []drain.Progress{{Total: 2, Gone: 2}}
		f.host.fail["BootID"] = func() error { return errRefusedPort }
		r, _ := f.process()
		f.reconcile(r)
		f.eventually("the drain to be over", func() bool { return f.host.count("BootID") > 0 })
		f.edit(func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation.CancelRequestedBy = "bob"
			i.Status.Operation.CancelRequestedAt = new(metav1.Now())
		})
		f.reconcile(r)
		op := f.waitForEnd()
		if op.Phase != v1alpha1.OperationCanceled || !strings.Contains(op.Message, "Pods that left: 2. They will not return by themselves.") {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
}

// TestLongNotes: an event is not cut within a character.
func TestLongNotes(t *testing.T) {
	t.Parallel()
	recorder := record.NewFakeRecorder(1)
	e := &execution{Reconciler: &Reconciler{Options: Options{Recorder: recorder}}, instance: newInstance(drainOperation())}
	e.event("Normal", "Reason", strings.Repeat("ä", 1000))
	note := strings.TrimPrefix(<-recorder.Events, "Normal Reason ")
	if len(note) > message.MaxEventNote || !utf8.ValidString(note) || !strings.HasSuffix(note, "ä…") {
		t.Errorf("%d bytes, the end is %q", len(note), note[len(note)-8:])
	}
}

func (f *fixture) failWith(question string, err error) {
	f.host.fail[question] = func() error { return err }
}

// cordonAs has the Node cordoned with a mark.
func (f *fixture) cordonAs(mark string) {
	f.cordonByHand()
	node := f.node()
	node.Annotations = map[string]string{v1alpha1.CordonedByAnnotation: mark}
	f.updateNode(node)
}

func (f *fixture) cordonByHand() {
	node := f.node()
	node.Spec.Unschedulable = true
	if _, err := f.kube.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// TestRebootIsInterrupted ends the process at every write of the record, before it is
// stored and after, and has another one go on.
func TestRebootIsInterrupted(t *testing.T) {
	for _, after := range []bool{false, true} {
		inBubble(t, fmt.Sprintf("after the write: %v", after), func(t *testing.T) {
			for at := 1; interruptReboot(t, at, after); at++ {
			}
		})
	}
}

// interruptReboot ends the process at one write, and reports whether there was such a write.
func interruptReboot(t *testing.T, at int, after bool) bool {
	t.Helper()
	f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootGraceful)))
	f.host.down = 1
	f.drain.reports = []drain.Progress{{Total: 2, Gone: 2}}
	if writes := f.interrupt(at, after); writes < at {
		// One for the start, one for each step that changes something, with the ends of those before, one for the end, and those in between.
		if writes < 8 || writes > 14 {
			t.Errorf("the operation ended after %d writes", writes)
		}
		return false
	}
	op := f.finish()
	if op.Phase != v1alpha1.OperationSucceeded || f.host.restarts() != 1 || f.node().Spec.Unschedulable {
		t.Errorf("killed at write %d: %s, restarted %d times, cordoned %v: %s", at, op.Phase, f.host.restarts(), f.node().Spec.Unschedulable, op.Message)
	}
	return true
}

func TestCancel(t *testing.T) {
	t.Parallel()
	cancel := func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation.CancelRequestedBy = "bob"
		i.Status.Operation.CancelRequestedAt = new(metav1.Now())
	}
	inBubble(t, "before it began", func(t *testing.T) {
		f := newFixture(t, newInstance(drainOperation(), cancel))
		op := f.finish()
		if op.Phase != v1alpha1.OperationCanceled || f.drain.runs > 0 || f.node().Spec.Unschedulable || !strings.Contains(op.Message, "Canceled by bob. Nothing was changed.") {
			t.Errorf("got %s: %s", op.Phase, op.Message)
		}
	})
	for _, byHand := range []bool{false, true} {
		inBubble(t, fmt.Sprintf("while pods are evicted, cordoned before: %v", byHand), func(t *testing.T) {
			f := newFixture(t, newInstance(drainOperation()))
			if byHand {
				f.cordonByHand()
			}
			f.drain.block = true
			f.drain.reports = []drain.Progress{{Total: 3, Gone: 1, Blocked: []v1alpha1.BlockedPod{{Namespace: "a", Name: "b", Budget: "c", Message: "d"}}}}
			r, _ := f.process()
			f.reconcile(r)
			f.eventually("the budget to be named", func() bool {
				blocked := f.get().Status.Operation.BlockedBy
				return len(blocked) == 1 && blocked[0] == v1alpha1.BlockedPod{Namespace: "a", Name: "b", Budget: "c", Message: "d"}
			})
			if !f.node().Spec.Unschedulable {
				t.Error("the Node is not cordoned")
			}
			f.edit(cancel)
			f.reconcile(r)
			op := f.waitForEnd()
			if op.Phase != v1alpha1.OperationCanceled || f.node().Spec.Unschedulable != byHand || len(op.BlockedBy) > 0 {
				t.Errorf("it is %s, and the Node is cordoned: %v", op.Phase, f.node().Spec.Unschedulable)
			}
			if !strings.Contains(op.Message, "Canceled by bob. 1 of 3 pods have left") {
				t.Errorf("it says %s", op.Message)
			}
			if f.node().Annotations[v1alpha1.CordonedByAnnotation] != "" {
				t.Error("the mark is still on the Node")
			}
			f.waitForEvent("Warning EvictionBlocked")
			f.waitForEvent("Normal DrainCanceled")
		})
	}
	for _, mode := range []v1alpha1.RebootMode{v1alpha1.RebootGraceful, v1alpha1.RebootForce} {
		inBubble(t, "after the restart, mode "+string(mode), func(t *testing.T) {
			cordons := mode == v1alpha1.RebootGraceful
			f := newFixture(t, newInstance(rebootOperation(mode)))
			f.host.dead = true
			r, _ := f.process()
			f.reconcile(r)
			f.eventually("the host to be down", func() bool { return f.host.count("BootID") > 2 })
			f.edit(cancel)
			f.reconcile(r)
			op := f.waitForEnd()
			if op.Phase != v1alpha1.OperationCanceled || f.node().Spec.Unschedulable != cordons || !strings.Contains(op.Message, "cannot be undone") ||
				strings.Contains(op.Message, "Node win-1 stays cordoned: uncordon it when the host is back") != cordons {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
		})
	}
	inBubble(t, "between the record of the boot and the restart", func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootGraceful)))
		f.onWrite = func(after bool, written *v1alpha1.WindowsInstance) error {
			if op := written.Status.Operation; after && op.BootID != "" && op.Active() && op.CancelRequestedAt == nil {
				f.mu.Lock()
				f.onWrite = nil
				f.mu.Unlock()
				f.edit(cancel)
			}
			return nil
		}
		op := f.finish()
		if op.Phase != v1alpha1.OperationCanceled || f.host.count("Restart") > 0 || f.node().Spec.Unschedulable || op.BootID != "" {
			t.Errorf("it is %s, and the restart was asked for %d times: %s", op.Phase, f.host.count("Restart"), op.Message)
		}
	})
}

// The reconciler of instances writes the same status.
func TestOthersWriteTheStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootGraceful)))
		n := 0
		f.onWrite = func(after bool, written *v1alpha1.WindowsInstance) error {
			if after || written.Status.Version == "theirs" {
				return nil
			}
			f.mu.Lock()
			hook := f.onWrite
			f.onWrite = nil
			f.mu.Unlock()
			n++
			f.edit(func(i *v1alpha1.WindowsInstance) { i.Status.CurrentRevision = fmt.Sprint(n) })
			f.mu.Lock()
			f.onWrite = hook
			f.mu.Unlock()
			return nil
		}
		// Each write collides once; the hook lets the repetition of it pass.
		inner := f.onWrite
		collided := false
		f.onWrite = func(after bool, written *v1alpha1.WindowsInstance) error {
			if !after {
				if collided = !collided; !collided {
					return nil
				}
			}
			return inner(after, written)
		}
		op := f.finish()
		if op.Phase != v1alpha1.OperationSucceeded || f.get().Status.CurrentRevision != fmt.Sprint(n) || n < 7 || f.host.restarts() != 1 {
			t.Errorf("%s after %d collisions, revision %s: %s", op.Phase, n, f.get().Status.CurrentRevision, op.Message)
		}
	})
}

// A stale cache still has an operation that has ended, or another one has taken its place.
func TestOperationIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootForce)))
		r, _ := f.process()
		r.runner.submit(testKey, "another", laneLimited, false)
		f.eventually("the execution to end", func() bool { running, waiting := r.runner.load(); return running+waiting == 0 })
		if op := f.get().Status.Operation; op.Phase != v1alpha1.OperationPending || len(f.host.asked) > 0 {
			t.Errorf("got %+v, and the host was asked %q", op, f.host.asked)
		}
		f.reconcile(r)
		f.waitForEnd()
		f.eventually("the execution to end", func() bool { running, waiting := r.runner.load(); return running+waiting == 0 })
		r.runner.submit(testKey, "op-1", laneLimited, false) // as with a cache that is behind
		if running, waiting := r.runner.load(); running+waiting > 0 {
			t.Error("an operation that has ended is carried out again")
		}
	})
}

func TestDrainOptions(t *testing.T) {
	type options func(dead func() bool) (drain.Options, time.Duration)
	requested := func(o *v1alpha1.DrainOptions) options {
		return func(dead func() bool) (drain.Options, time.Duration) { return requestedOptions(o, dead) }
	}
	ofPool := func(o v1alpha1.PoolDrainOptions) options {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "gold"}, Spec: v1alpha1.WindowsNodePoolSpec{UpdateStrategy: v1alpha1.PoolUpdateStrategy{Drain: o}}}
		return func(dead func() bool) (drain.Options, time.Duration) { return poolOptions(pool, dead) }
	}
	noPool := func(dead func() bool) (drain.Options, time.Duration) { return poolOptions(nil, dead) }
	const path = "pool gold, spec.updateStrategy.drain."
	tests := []struct {
		name    string
		options options
		want    drain.Options
		// asks: it is asked whether the kubelet is dead.
		asks        bool
		wantTimeout time.Duration
	}{
		{"requested, defaults", requested(nil), drain.Options{IgnoreDaemonSets: true}, true, 10 * time.Minute},
		{
			"requested, everything", requested(&v1alpha1.DrainOptions{
				GracePeriodSeconds: new(int64(5)), TimeoutSeconds: new(int64(0)), IgnoreDaemonSets: new(false), DeleteEmptyDirData: true, Force: true,
				DisableEviction: true, PodSelector: "a=b", SkipWaitForDeleteTimeoutSeconds: new(int32(7)),
			}),
			drain.Options{GracePeriodSeconds: new(int64(5)), DeleteEmptyDirData: true, Force: true, DisableEviction: true, PodSelector: "a=b", SkipWaitForDelete: 7 * time.Second}, false, 0,
		},
		{"requested, wait for pods of a dead kubelet", requested(&v1alpha1.DrainOptions{SkipWaitForDeleteTimeoutSeconds: new(int32(0))}), drain.Options{IgnoreDaemonSets: true}, false, 10 * time.Minute},
		{"no pool", noPool, drain.Options{IgnoreDaemonSets: true, DeleteEmptyDirData: true, Force: true}, true, 10 * time.Minute},
		{"a pool, defaults", ofPool(v1alpha1.PoolDrainOptions{}), drain.Options{IgnoreDaemonSets: true, DeleteEmptyDirData: true, Force: true, FieldPath: path}, true, 10 * time.Minute},
		{
			"a pool, everything", ofPool(v1alpha1.PoolDrainOptions{
				GracePeriodSeconds: new(int64(5)), TimeoutSeconds: new(int64(30)), DeleteEmptyDirData: new(false), Force: new(false), SkipWaitForDeleteTimeoutSeconds: new(int32(0)),
			}),
			drain.Options{GracePeriodSeconds: new(int64(5)), IgnoreDaemonSets: true, FieldPath: path}, false, 30 * time.Second,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, timeout := tt.options(func() bool { return true })
			asks := got.Dead != nil && got.Dead()
			got.Dead = nil
			if diff := cmp.Diff(tt.want, got); diff != "" || asks != tt.asks || timeout != tt.wantTimeout {
				t.Errorf("asks %v, time-out %s, want %v, %s (-want +got)\n%s", asks, timeout, tt.asks, tt.wantTimeout, diff)
			}
		})
	}
}

// TestDrainOfADeadKubelet: a sick host can be drained, rebooted, corrected and removed, also one whose kubelet dies only while it is drained.
func TestDrainOfADeadKubelet(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		operation v1alpha1.Operation
		pool      *v1alpha1.PoolDrainOptions
		dead      func(*corev1.Node)
		want      string
		wantForce bool
	}{
		{"a drain of a node that is well", drainOperation(), nil, nil, "0s", false},
		{"a drain", drainOperation(), nil, notReporting, "0s dead", false},
		{"a drain of an unreachable node", drainOperation(), nil, lostFor(time.Hour), "0s dead unreachable", false},
		{"a reboot", rebootOperation(v1alpha1.RebootGraceful), nil, notReporting, "0s dead", false},
		{"a configuration", reconfigureOperation(), nil, notReporting, "0s dead", true},
		{"a restart of the controller", byController(rebootOperation(v1alpha1.RebootGraceful)), nil, notReporting, "0s dead", true},
		{"a removal", removeOperation(), nil, notReporting, "0s dead", true},
		{"a removal of a pool that disagrees", removeOperation(), &v1alpha1.PoolDrainOptions{Force: new(false), SkipWaitForDeleteTimeoutSeconds: new(int32(9))}, notReporting, "9s", false},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			var others []client.Object
			changes := []change{inPool("gold")}
			if tt.pool != nil {
				others = append(others, &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "gold"}, Spec: v1alpha1.WindowsNodePoolSpec{UpdateStrategy: v1alpha1.PoolUpdateStrategy{Drain: *tt.pool}}})
			}
			f := newFixture(t, newInstance(tt.operation, changes...), others...)
			f.configure()
			f.host.impact = config.ImpactDrain
			f.drain.err = &drain.TimeoutError{}
			got := ""
			f.drain.meanwhile = func() {
				if tt.dead != nil {
					f.editNode(tt.dead)
				}
				o := f.drain.options
				got = o.SkipWaitForDelete.String()
				if o.Dead != nil && o.Dead() {
					got += " dead"
				}
				if o.Unreachable() {
					got += " unreachable"
				}
			}
			op := f.finish()
			if op.Phase != v1alpha1.OperationFailed || f.drain.runs != 1 {
				t.Fatalf("it is %s, drained %d times: %s", op.Phase, f.drain.runs, op.Message)
			}
			// By what is recorded it is known later whether another attempt can do better. What somebody has requested stays.
			recorded := tt.operation.Drain
			if tt.wantForce || tt.pool != nil {
				recorded = ptr.Deref(tt.pool, v1alpha1.PoolDrainOptions{}).Recorded()
			}
			if diff := cmp.Diff(recorded, op.Drain); diff != "" {
				t.Errorf("the options that are recorded (-want +got)\n%s", diff)
			}
			if o := f.drain.options; got != tt.want || o.Force != tt.wantForce || o.DeleteEmptyDirData != (tt.wantForce || tt.pool != nil) {
				t.Errorf("it waits %q with %+v", got, o)
			}
		})
	}
}

func notReporting(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionUnknown }

// A drain that goes on after an interruption knows only of the pods that are left.
func TestCountPods(t *testing.T) {
	tests := []struct {
		name   string
		before v1alpha1.OperationProgress
		now    drain.Progress
		want   string
	}{
		{"the first run", v1alpha1.OperationProgress{}, drain.Progress{Total: 5, Gone: 2}, "2/5"},
		{"it goes on", v1alpha1.OperationProgress{Done: 2, Total: 5}, drain.Progress{Total: 2}, "3/5"},
		{"more pods came", v1alpha1.OperationProgress{Done: 2, Total: 5}, drain.Progress{Total: 8, Gone: 1}, "1/8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := countPods(tt.before, tt.now)
			if text := fmt.Sprintf("%d/%d", got.Done, got.Total); text != tt.want {
				t.Errorf("got %s, want %s", text, tt.want)
			}
		})
	}
}

// writableSSH has somebody own the logs of the SSH server of a host.
func writableSSH(h *scriptedHost, version string, endsOverFolders bool) {
	h.services = append(h.services, api.Service{Name: "sshd", State: "Running", StartType: "Automatic", Path: `C:\Windows\System32\OpenSSH\sshd.exe`})
	h.ssh = &api.SSHServer{Version: version, EndsOverFolders: endsOverFolders, Logs: &api.FileAccess{Owner: "S-1-5-21-1-2-3-1105"}}
}
