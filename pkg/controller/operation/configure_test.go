// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/drain"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// short writes the states of steps as one letter each, in their order: S succeeded,
// k skipped, F failed, C canceled.
func short(op *v1alpha1.Operation) string {
	letters := map[v1alpha1.OperationStepState]string{
		v1alpha1.StepSucceeded: "S", v1alpha1.StepSkipped: "k", v1alpha1.StepFailed: "F", v1alpha1.StepCanceled: "C",
	}
	var b strings.Builder
	for i, step := range op.Steps {
		if i == 4 || i == 9 || i == 13 {
			b.WriteString(" ")
		}
		b.WriteString(letters[step.State])
	}
	return b.String()
}

// slowestNotice is after which time a cluster of OpenShift notices that a kubelet is gone if its worker latency profile is LowUpdateSlowReaction:
// --node-monitor-grace-period, and --node-monitor-period of kube-controller-manager.
const slowestNotice = 5*time.Minute + 5*time.Second

func TestConfigure(t *testing.T) {
	t.Parallel()
	const (
		succeeded = v1alpha1.OperationSucceeded
		failed    = v1alpha1.OperationFailed
	)
	once := func(r *api.Result) func() *api.Result {
		return func() *api.Result {
			done := r
			r = nil
			return done
		}
	}
	mark := func(text string) func(*fixture, *scriptedConfiguration) {
		return func(f *fixture, _ *scriptedConfiguration) { f.cordonAs(text) }
	}
	tests := []struct {
		name   string
		change change
		set    func(*fixture, *scriptedConfiguration)
		want   v1alpha1.OperationPhase
		// wantSteps: Connect Facts Preflight Agent, Plan Transfer WaitForSlot Cordon Drain, Apply Restart
		// Boot Finish, Join Network NodeReady Uncordon Verify.
		wantSteps    string
		wantMessage  []string
		wantApplies  []string
		wantRestarts int
		wantDrains   int
		wantCordoned bool
		// wantMissing: the host has not joined again.
		wantMissing bool
	}{
		{
			name: "nothing to do", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.is, f.host.recorded = "new", "new"
				f.failWith("Apply", errors.New("it was asked"))
				f.failWith("Reach", errors.New("it is a node, and was asked"))
			},
			want: succeeded, wantSteps: "SSSS Skkkk kkkk kkSSS", wantMessage: []string{"has its desired configuration"},
		},
		{
			name: "nothing to do but to write that down", set: func(f *fixture, _ *scriptedConfiguration) { f.host.is = "new" }, want: succeeded,
			wantSteps: "SSSS Skkkk kkkk kkSSS", wantMessage: []string{"has its desired configuration"},
		},
		{
			name: "nobody notices", want: succeeded, wantSteps: "SSSS Skkkk Skkk kkSSS", wantApplies: []string{"new None"},
		},
		{
			name: "files are sent and a service is restarted", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact, f.host.needsFiles = config.ImpactRestart, true
			},
			want: succeeded, wantSteps: "SSSS SSkkk Skkk kkSSS", wantApplies: []string{"new Restart"},
		},
		{
			name: "containers end", set: func(f *fixture, _ *scriptedConfiguration) { f.host.impact = config.ImpactDrain }, want: succeeded,
			wantSteps: "SSSS SkSSS Skkk kkSSS", wantApplies: []string{"new Drain"}, wantDrains: 1,
		},
		{
			name: "Windows is restarted", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact, f.host.needsReboot, f.host.down = config.ImpactReboot, 1, 2
			},
			want: succeeded, wantSteps: "SSSS SkSSS SSSS kkSSS", wantApplies: []string{"new Reboot"}, wantRestarts: 1, wantDrains: 1,
		},
		{
			name: "somebody works on a host that has to be restarted", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact, f.host.needsReboot, f.host.sessions = config.ImpactReboot, 1, []api.Session{{ID: 3, User: `W\bob`}}
			},
			want: failed, wantSteps: "SSSS SkSFk kkkk kkkkk", wantMessage: []string{`W\bob (session 3)`},
		},
		{
			name: "somebody works on a host that is no node yet", change: withoutNode, set: func(f *fixture, _ *scriptedConfiguration) {
				f.isNoNode()
				f.host.impact, f.host.needsReboot, f.host.sessions, f.host.is = config.ImpactReboot, 1, []api.Session{{ID: 3, User: `W\bob`}}, ""
			},
			want: failed, wantSteps: "SSSS Fkkkk kkkk kkkkk", wantMessage: []string{`W\bob (session 3)`},
		},
		{
			name: "somebody logs on to a host that has to be restarted while its pods leave", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact, f.host.needsReboot = config.ImpactReboot, 1
				f.drain.meanwhile = func() {
					f.host.mu.Lock()
					defer f.host.mu.Unlock()
					f.host.sessions = []api.Session{{ID: 3, User: `W\bob`}}
				}
			},
			want: failed, wantSteps: "SSSS SkSSS Fkkk kkkkk", wantMessage: []string{`W\bob (session 3)`}, wantDrains: 1,
		},
		{
			name: "somebody works on a host that is not restarted", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact, f.host.sessions = config.ImpactDrain, []api.Session{{ID: 3, User: `W\bob`}}
			},
			want: succeeded, wantSteps: "SSSS SkSSS Skkk kkSSS", wantApplies: []string{"new Drain"}, wantDrains: 1,
		},
		{
			name: "a restart was due before", set: func(f *fixture, _ *scriptedConfiguration) { f.host.waitsForEndOf = 1 }, want: succeeded,
			wantSteps: "SSSS SkSSS SSSS kkSSS", wantApplies: []string{"new Reboot"}, wantRestarts: 1, wantDrains: 1,
		},
		{
			name: "Windows wants two restarts", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact, f.host.needsReboot = config.ImpactReboot, 2
			},
			want: failed, wantSteps: "SSSS SkSSS SSSF kkkkk", wantMessage: []string{"needs another restart: feature Containers", "Node win-1 stays cordoned until"},
			wantRestarts: 1, wantDrains: 1, wantCordoned: true,
		},
		{
			name: "it joins", change: withoutNode, set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact, f.host.needsFiles, f.host.is = config.ImpactRestart, true, ""
				f.registers()
			},
			want: succeeded, wantSteps: "SSSS SSkkk Skkk SSSSS", wantApplies: []string{"new with credentials Restart", "new Restart"},
		},
		{
			name: "it is to join, and does not reach the API server", change: withoutNode, set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.reached = api.ReachAnswer{Failed: api.ReachConnect, Address: "10.0.0.1:6443", Error: "connection refused"}
			},
			want: failed, wantSteps: "SSSS Fkkkk kkkk kkkkk", wantMessage: []string{
				"cannot join, because it does not reach the API server: Connect of https://api.example.com:6443 fails at 10.0.0.1:6443 (connection refused); open the way in the firewalls",
			},
		},
		{
			name: "it joins after a restart", change: withoutNode, set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact, f.host.needsReboot, f.host.is = config.ImpactReboot, 1, ""
				f.registers()
				applied := f.host.onApplied
				f.host.onApplied = func(is string) {
					f.host.impact = config.ImpactRestart
					applied(is)
				}
			},
			want: succeeded, wantSteps: "SSSS Skkkk SSSS SSSSS", wantApplies: []string{"new with credentials Reboot", "new Restart"}, wantRestarts: 1,
		},
		{
			name: "it was installed anew", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.is, f.host.recorded, f.host.impact = "", "", config.ImpactRestart
				f.kubeletIsGone()
				f.host.onApplied = func(string) {
					if _, err := f.kube.CoreV1().Nodes().Create(t.Context(), readyNode("another"), metav1.CreateOptions{}); err != nil {
						return // it is one already, or still
					}
					f.edit(func(i *v1alpha1.WindowsInstance) {
						i.Status.Node = &v1alpha1.NodeReference{Name: testNode, UID: "another"}
					})
				}
			},
			want: succeeded, wantSteps: "SSSS Skkkk Skkk SSSSS", wantApplies: []string{"new with credentials Restart", "new Restart"},
		},
		{
			name: "its certificate has expired", set: func(f *fixture, _ *scriptedConfiguration) {
				f.losesCertificate()
				f.kubeletIsGone()
				f.rejoins()
			},
			want: succeeded, wantSteps: "SSSS Skkkk Skkk SSSSS", wantApplies: []string{"new with credentials Restart", "new Restart"},
		},
		{
			name: "its certificate has expired, which the cluster is slow to notice", set: func(f *fixture, _ *scriptedConfiguration) {
				f.losesCertificate()
				time.AfterFunc(slowestNotice, f.kubeletIsGone)
				f.rejoins()
			},
			want: succeeded, wantSteps: "SSSS Skkkk Skkk SSSSS", wantApplies: []string{"new with credentials Restart", "new Restart"},
		},
		{
			name: "it was reinstalled, which the cluster is slow to notice", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.is, f.host.recorded, f.host.impact = "", "", config.ImpactRestart
				time.AfterFunc(slowestNotice, f.kubeletIsGone)
				f.host.onApplied = func(string) {
					if _, err := f.kube.CoreV1().Nodes().Create(t.Context(), readyNode("another"), metav1.CreateOptions{}); err != nil {
						return // it is one already, or still
					}
					f.edit(func(i *v1alpha1.WindowsInstance) {
						i.Status.Node = &v1alpha1.NodeReference{Name: testNode, UID: "another"}
					})
				}
			},
			want: succeeded, wantSteps: "SSSS Skkkk Skkk SSSSS", wantApplies: []string{"new with credentials Restart", "new Restart"},
		},
		{
			name: "its certificate has expired, and the Node seems to be ready", set: func(f *fixture, _ *scriptedConfiguration) { f.losesCertificate() },
			want: succeeded, wantSteps: "SSSS Skkkk kkkk kkSSS",
		},
		{
			name: "its certificate has expired, and a kubelet reports that the Node is not ready", set: func(f *fixture, _ *scriptedConfiguration) {
				f.losesCertificate()
				f.host.is = "old"
				f.reportsReady(corev1.ConditionFalse)
				f.host.onApplied = func(string) { f.reportsReady(corev1.ConditionTrue) }
			},
			want: succeeded, wantSteps: "SSSS Skkkk Skkk kkSSS", wantApplies: []string{"new Restart"},
		},
		{
			name: "it has to join again, and calls itself otherwise", set: func(f *fixture, _ *scriptedConfiguration) {
				f.losesCertificate()
				f.kubeletIsGone()
				f.host.nodeName = "win-2"
			},
			want: failed, wantSteps: "SSSS Fkkkk kkkk kkkkk", wantMessage: []string{"is Node win-1, but its kubelet would call itself win-2 now: give the host its former name back", "kubectl delete node win-1"},
		},
		{
			name: "it works, and would call itself otherwise with its new configuration", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.is, f.host.nodeName = "old", "win-2"
			},
			want: failed, wantSteps: "SSSS Fkkkk kkkk kkkkk", wantMessage: []string{"is Node win-1, but its kubelet would call itself win-2 now"},
		},
		{
			name: "its certificate has expired, and it gets no other one", set: func(f *fixture, _ *scriptedConfiguration) {
				f.losesCertificate()
				f.kubeletIsGone()
			},
			want: failed, wantSteps: "SSSS Skkkk Skkk Fkkkk", wantApplies: []string{"new with credentials Restart"}, wantCordoned: true,
			wantMissing: true,
			wantMessage: []string{"did not get a client certificate within 10m", "expired at 2026-01-02T03:04:05Z by the clock of the host", "kubectl get csr"},
		},
		{
			name: "it has the Node of another machine, which seems lost for a moment", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.is, f.host.recorded, f.host.impact = "", "", config.ImpactRestart
				f.kubeletIsGone()
				time.AfterFunc(20*time.Second, func() { f.reportsReady(corev1.ConditionTrue) })
			},
			want: failed, wantSteps: "SSSS Fkkkk kkkk kkkkk", wantMessage: []string{"A kubelet reports for Node win-1, which has the address", "but the host has no kubelet"},
		},
		{
			name: "its certificate has expired, and its Node, for which another machine reports, seems lost for a moment", set: func(f *fixture, _ *scriptedConfiguration) {
				f.losesCertificate()
				f.kubeletIsGone()
				time.AfterFunc(20*time.Second, func() { f.reportsReady(corev1.ConditionTrue) })
			},
			want: succeeded, wantSteps: "SSSS Skkkk kkkk kkSSS",
		},
		{
			name: "it has the Node of another machine", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.is, f.host.recorded, f.host.impact = "", "", config.ImpactRestart
			},
			want: failed, wantSteps: "SSSS Fkkkk kkkk kkkkk", wantMessage: []string{"A kubelet reports for Node win-1, which has the address", "but the host has no kubelet", "correct spec.address or spec.providerID"},
		},
		{
			name: "it has the Node of another machine, which is not ready", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.is, f.host.recorded, f.host.impact = "", "", config.ImpactRestart
				f.reportsReady(corev1.ConditionFalse)
			},
			want: failed, wantSteps: "SSSS Fkkkk kkkk kkkkk", wantMessage: []string{"the Node is probably that of another machine"},
		},
		{
			name: "it does not join", change: withoutNode, set: func(f *fixture, _ *scriptedConfiguration) {
				f.isNoNode()
				f.host.is = ""
			}, want: failed,
			wantSteps: "SSSS Skkkk Skkk Fkkkk", wantMessage: []string{"did not become a Node within 10m", "kubectl windows logs win-1 -n windows-hosts kubelet", "kubectl get csr"},
			wantApplies: []string{"new with credentials None"},
		},
		{
			name: "its name is that of another node", change: withoutNode, set: func(f *fixture, _ *scriptedConfiguration) { f.host.is = "" }, want: failed,
			wantSteps: "SSSS Fkkkk kkkk kkkkk", wantMessage: []string{"a kubelet reports for Node win-1", "The host was not changed"},
		},
		{
			name: "a service waits for its input", change: withoutNode, set: func(f *fixture, c *scriptedConfiguration) {
				f.host.is = ""
				f.registers()
				c.waiting = []document.Waiting{{Service: "hybrid-overlay-node", For: "the subnet of the Node"}}
			},
			want: succeeded, wantSteps: "SSSS Skkkk Skkk SSkSS", wantMessage: []string{"Not configured yet: service hybrid-overlay-node (waits for the subnet of the Node)."}, wantApplies: []string{"new with credentials None", "new Restart"},
		},
		{
			name: "a service waits for a network of others, without which the Node is not ready", change: withoutNode, set: func(f *fixture, c *scriptedConfiguration) {
				f.host.is = ""
				f.registers()
				f.host.awaits = []api.Waiting{{Service: "kube-proxy", Network: "net"}}
				c.hns = &config.HNS{Foreign: []string{"net"}}
				applied := f.host.onApplied
				f.host.onApplied = func(is string) {
					applied(is)
					f.reportsReady(corev1.ConditionFalse)
				}
			},
			want: succeeded, wantSteps: "SSSS Skkkk Skkk SSkSS", wantApplies: []string{"new with credentials None", "new Restart"},
			wantMessage: []string{"Not running yet: service kube-proxy (waits for network net, which another program has to make on the host). The agent on the host starts it once that exists."},
		},
		{
			name: "the network of others is there, and the Node is not ready", change: withoutNode, set: func(f *fixture, c *scriptedConfiguration) {
				f.host.is = ""
				f.registers()
				c.hns = &config.HNS{Foreign: []string{"net"}}
				applied := f.host.onApplied
				f.host.onApplied = func(is string) {
					applied(is)
					f.reportsReady(corev1.ConditionFalse)
				}
			},
			want: failed, wantSteps: "SSSS Skkkk Skkk SSFkk", wantCordoned: true, wantApplies: []string{"new with credentials None", "new Restart"}, wantMessage: []string{"its Node win-1 did not become ready"},
		},
		{
			name: "the network of others is away for a host that was a Node before", set: func(f *fixture, c *scriptedConfiguration) {
				f.host.impact = config.ImpactRestart
				f.host.awaits = []api.Waiting{{Service: "kube-proxy", Network: "net"}}
				c.hns = &config.HNS{Foreign: []string{"net"}}
				f.host.onApplied = func(string) { f.reportsReady(corev1.ConditionFalse) }
			},
			want: failed, wantSteps: "SSSS Skkkk Skkk kkFkk", wantCordoned: true, wantApplies: []string{"new Restart"}, wantMessage: []string{"its Node win-1 did not become ready"},
		},
		{
			name: "a service of a Node waits for its input", set: func(f *fixture, c *scriptedConfiguration) {
				f.host.impact = config.ImpactRestart
				c.waiting = []document.Waiting{{Service: "windows_exporter", For: "its certificate"}}
			},
			want: succeeded, wantSteps: "SSSS Skkkk Skkk kkSSS", wantMessage: []string{"Not configured yet: service windows_exporter"}, wantApplies: []string{"new Restart"},
		},
		{
			name: "its Node vanishes while it is changed", set: func(f *fixture, c *scriptedConfiguration) {
				f.host.impact = config.ImpactRestart
				f.host.onApplied = func(string) {
					if err := f.kube.CoreV1().Nodes().Delete(t.Context(), testNode, metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
					c.mu.Lock()
					c.waiting = []document.Waiting{{Service: "hybrid-overlay-node", For: "the subnet of the Node"}}
					c.mu.Unlock()
				}
			},
			want: failed, wantSteps: "SSSS Skkkk Skkk kkFkk", wantMessage: []string{"its Node win-1 did not become ready", "the Node was deleted meanwhile"}, wantApplies: []string{"new Restart"},
		},
		{
			name: "what comes after the Node costs more", change: withoutNode, set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.is = ""
				f.registers()
				applied := f.host.onApplied
				f.host.onApplied = func(is string) {
					f.host.impact = config.ImpactDrain
					applied(is)
				}
			},
			want: failed, wantSteps: "SSSS Skkkk Skkk SFkkk", wantMessage: []string{"The remaining changes need a drain or a restart of the host", "has another content", "reconfigure it again"},
			wantApplies: []string{"new with credentials None"}, wantCordoned: true,
		},
		{
			name: "the host changes after it was planned", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact, f.host.impactLater, f.host.impactLaterAfter = config.ImpactRestart, config.ImpactDrain, 1
			},
			want: succeeded, wantSteps: "SSSS SkSSS Skkk kkSSS", wantApplies: []string{"new Drain"}, wantDrains: 1,
		},
		{
			name: "the connection breaks", set: func(f *fixture, _ *scriptedConfiguration) { f.host.cuts = 20 }, want: succeeded,
			wantSteps: "SSSS Skkkk Skkk kkSSS", wantApplies: []string{"new None"},
		},
		{
			name: "the agent is killed again and again", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact = config.ImpactRestart
				f.failWith("Apply", &agentclient.Error{Step: agentclient.StepRun, Err: errors.New("exit code 0xc0000005")})
			},
			want: failed, wantSteps: "SSSS Skkkk Fkkk kkkkk", wantMessage: []string{"0xc0000005", "Node win-1 stays cordoned until"}, wantCordoned: true,
		},
		{
			name: "the host does not answer any more", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact = config.ImpactRestart
				f.failWith("Apply", errRefusedPort)
			},
			want: failed, wantSteps: "SSSS Skkkk Fkkk kkkkk", wantMessage: []string{"did not answer any more for 10m", "ConnectionRefused", "The host was not changed."},
		},
		{
			name: "the host does not answer any more while it is changed", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact = config.ImpactRestart
				f.failWith("Apply", errLost)
			},
			want: failed, wantSteps: "SSSS Skkkk Fkkk kkkkk", wantMessage: []string{"did not answer any more for 10m", "stays cordoned until"}, wantCordoned: true,
		},
		{
			name: "the host does not answer any more while it is changed, which nobody notices", set: func(f *fixture, _ *scriptedConfiguration) { f.failWith("Apply", errLost) },
			want: failed, wantSteps: "SSSS Skkkk Fkkk kkkkk", wantMessage: []string{"did not answer any more for 10m", "concerns no pod, so the Node stays as it is"},
		},
		{
			name: "another one changes the host for a while", set: func(f *fixture, _ *scriptedConfiguration) {
				left := 5
				f.host.result = func() *api.Result {
					if left--; left < 0 {
						return nil
					}
					return &api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonLocked, Error: `"run" changes this host`}
				}
			},
			want: succeeded, wantSteps: "SSSS Skkkk Skkk kkSSS", wantApplies: []string{"new None"},
		},
		{
			name: "an agent that was left behind gets to its end", set: func(f *fixture, _ *scriptedConfiguration) {
				began := time.Now()
				f.host.result = func() *api.Result {
					if time.Since(began) > 100*time.Minute {
						return nil
					}
					return &api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonLocked, Error: `"apply" changes this host, process 7`}
				}
			},
			want: succeeded, wantSteps: "SSSS Skkkk Skkk kkSSS", wantApplies: []string{"new None"},
		},
		{
			name: "another one changes the host all the time", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.result = func() *api.Result {
					return &api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonLocked, Error: `"apply" changes this host, process 7`}
				}
			},
			want: failed, wantSteps: "SSSS Skkkk Fkkk kkkkk", wantMessage: []string{`"apply" changes this host, process 7`, "changing the host for more than 115m: ", "The host was not changed."},
		},
		{
			name: "a file is missing after all", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.result = once(&api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonPayload, Error: "not on the host yet: kubelet.exe"})
			},
			want: succeeded, wantSteps: "SSSS Skkkk Skkk kkSSS", wantApplies: []string{"new None"},
		},
		{
			name: "something is in the way", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.result = once(&api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonConflict, Error: "service containerd is not ours"})
			},
			want: failed, wantSteps: "SSSS Skkkk Fkkk kkkkk", wantMessage: []string{"service containerd is not ours", "The host was not changed."},
		},
		{
			name: "something is in the way of a drained Node", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact = config.ImpactDrain
				f.host.result = once(&api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonConflict, Error: "service containerd is not ours"})
			},
			want: failed, wantSteps: "SSSS SkSSS Fkkk kkkkk", wantMessage: []string{"The host was not changed. Node win-1 is schedulable."}, wantDrains: 1,
		},
		{
			name: "a service does not start", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact = config.ImpactRestart
				f.host.result = once(&api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonStep, Error: "Update Service kubelet: it stopped with exit code 1"})
			},
			want: failed, wantSteps: "SSSS Skkkk Fkkk kkkkk", wantMessage: []string{"kubelet: it stopped with exit code 1", "stays cordoned"}, wantCordoned: true,
		},
		{
			name: "the disk of the host is full", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.needsFiles = true
				f.failWith("Deliver", errNoSpace)
			},
			want: failed, wantSteps: "SSSS SFkkk kkkk kkkkk", wantMessage: []string{"disk is full", "kubelet.exe"},
		},
		{
			name: "what arrives is not what was sent", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.needsFiles = true
				f.failWith("Deliver", errDigest)
			},
			want: failed, wantSteps: "SSSS SFkkk kkkk kkkkk", wantMessage: []string{"digest is wrong"},
		},
		{
			name: "the connection breaks while files are sent", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.needsFiles = true
				left := 3
				f.host.fail["Deliver"] = func() error {
					if left--; left < 0 {
						return nil
					}
					return errLost
				}
			},
			want: succeeded, wantSteps: "SSSS SSkkk Skkk kkSSS", wantApplies: []string{"new None"},
		},
		{
			name: "pods do not leave", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact = config.ImpactDrain
				f.drain.err = &drain.TimeoutError{Total: 1, Pods: []string{"a/b"}}
			},
			want: failed, wantSteps: "SSSS SkSSF kkkk kkkkk", wantMessage: []string{"a/b", "The host was not changed. Node win-1 is schedulable."}, wantDrains: 1,
		},
		{
			name: "people have cordoned the Node", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact = config.ImpactDrain
				f.cordonByHand()
			},
			want: succeeded, wantSteps: "SSSS SkSkS Skkk kkSSS", wantApplies: []string{"new Drain"}, wantDrains: 1, wantCordoned: true,
		},
		{
			name: "a configuration before failed", set: mark("op-0 Reconfigure (asked for by bob)"), want: succeeded,
			wantSteps: "SSSS Skkkk Skkk kkSSS", wantApplies: []string{"new None"},
		},
		{
			name: "a configuration before failed, and containers end", set: func(f *fixture, c *scriptedConfiguration) {
				mark("op-0 Reconfigure (asked for by bob)")(f, c)
				f.host.impact = config.ImpactDrain
			},
			want: succeeded, wantSteps: "SSSS SkSSS Skkk kkSSS", wantApplies: []string{"new Drain"}, wantDrains: 1,
		},
		{
			name: "a drain before cordoned the Node", set: mark("op-0 (asked for by bob)"), want: succeeded,
			wantSteps: "SSSS Skkkk Skkk kkSSS", wantApplies: []string{"new None"}, wantCordoned: true,
		},
		{
			name: "something changes the host back", set: func(f *fixture, _ *scriptedConfiguration) {
				f.host.impact = config.ImpactRestart
				f.host.onApplied = func(string) { f.host.is = "other" }
			},
			want: failed, wantSteps: "SSSS Skkkk Skkk kkSSF", wantMessage: []string{"differs again", "has another content", "Node win-1 stays cordoned until"},
			wantApplies: []string{"new Restart"}, wantCordoned: true,
		},
		{
			name: "what is wanted changes meanwhile", set: func(f *fixture, c *scriptedConfiguration) {
				f.host.fail["Facts"] = func() error {
					if f.host.is == "new" { // after it was applied
						c.mu.Lock()
						c.want = "newer"
						c.mu.Unlock()
					}
					return nil
				}
			},
			want: succeeded, wantSteps: "SSSS Skkkk Skkk kkSSS", wantMessage: []string{"configured again"}, wantApplies: []string{"new None"},
		},
		{
			name: "an input is missing", set: func(_ *fixture, c *scriptedConfiguration) {
				c.err = func() error { return errors.New("ConfigMap kube-root-ca.crt is missing: make it") }
			},
			want: failed, wantSteps: "SSSS Fkkkk kkkk kkkkk", wantMessage: []string{"ConfigMap kube-root-ca.crt is missing"},
		},
		{
			name: "the API server is away for a moment", set: func(_ *fixture, c *scriptedConfiguration) {
				left := 3
				c.err = func() error {
					if left--; left < 0 {
						return nil
					}
					return fmt.Errorf("reading: %w", apierrors.NewServiceUnavailable("away"))
				}
			},
			want: succeeded, wantSteps: "SSSS Skkkk Skkk kkSSS", wantApplies: []string{"new None"},
		},
	}
	for _, tt := range tests {
		inBubble(t, tt.name, func(t *testing.T) {
			if tt.change == nil {
				tt.change = func(*v1alpha1.WindowsInstance) {}
			}
			f := newFixture(t, newInstance(reconfigureOperation(), tt.change))
			c := f.configure()
			if tt.set != nil {
				tt.set(f, c)
			}
			op := f.finish()
			if op.Phase != tt.want || op.JoinsAgain != tt.wantMissing {
				t.Errorf("it is %s, joins again %v: %s", op.Phase, op.JoinsAgain, op.Message)
			}
			if got := short(op); got != tt.wantSteps {
				t.Errorf("the steps are %s, want %s: %s\n%s", got, tt.wantSteps, op.Message, strings.Join(states(op), " "))
			}
			for _, want := range tt.wantMessage {
				if !strings.Contains(op.Message, want) {
					t.Errorf("%q is missing in %q", want, op.Message)
				}
			}
			if diff := gocmp.Diff(tt.wantApplies, f.host.applies); diff != "" {
				t.Errorf("what was applied (-want +got)\n%s", diff)
			}
			// Nobody else may know the host by that name, so it counts from the moment when it may have it, and not before.
			given := slices.ContainsFunc(f.host.applies, func(a string) bool { return strings.Contains(a, "with credentials") })
			if given && op.JoinsAs != testNode || op.JoinsAs != "" && slices.Contains(tt.wantMessage, "a kubelet reports for Node win-1") {
				t.Errorf("it joins as %q, and was given credentials: %t", op.JoinsAs, given)
			}
			if got := f.host.restarts(); got != tt.wantRestarts || f.drain.runs != tt.wantDrains {
				t.Errorf("restarted %d times, drained %d times; want %d, %d", got, f.drain.runs, tt.wantRestarts, tt.wantDrains)
			}
			if node := f.findNode(); node != nil && node.Spec.Unschedulable != tt.wantCordoned {
				t.Errorf("cordoned: %v, want %v; the mark is %q", node.Spec.Unschedulable, tt.wantCordoned, node.Annotations[v1alpha1.CordonedByAnnotation])
			}
			if f.host.recorded != f.host.is && op.Phase == succeeded {
				t.Errorf("the host has written down %q and is %q", f.host.recorded, f.host.is)
			}
			if strings.Contains(op.Revision, "credentials") {
				t.Errorf("revision %q has the credentials to join in it", op.Revision)
			}
			if got := c.issued.UnsortedList(); len(got) > 1 || len(got) == 1 && got[0] != testNode {
				t.Errorf("the host got credentials of %q", got)
			}
		})
	}
}

// TestConfigureTells: what was found out is in the record, where others look for it.
func TestConfigureTells(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		f.host.impact, f.host.needsFiles, f.host.trickles = config.ImpactRestart, true, 1
		var units []string
		f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
			// Whether a beginning is written depends on how fast the end of it comes.
			if p := i.Status.Operation.Progress; after && p != nil && p.Done > 0 {
				if text := fmt.Sprintf("%d/%d %s", p.Done, p.Total, p.Unit); len(units) == 0 || units[len(units)-1] != text {
					units = append(units, text)
				}
			}
			return nil
		}
		op := f.finish()
		if op.Revision != "new" || op.PoolRevision != poolRevisionOf("new") || op.Impact != v1alpha1.ImpactRestart || op.Progress != nil {
			t.Errorf("revision %q of %q, impact %q, progress %v", op.Revision, op.PoolRevision, op.Impact, op.Progress)
		}
		if diff := gocmp.Diff([]string{"3/5 MiB", "1/1 changes"}, units); diff != "" {
			t.Errorf("progress (-want +got)\n%s", diff)
		}
		want := "Changes: 1, their impact is Restart. Files to send: 1, 5 MiB."
		if got := op.FindStep(v1alpha1.StepPlan).Message; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestConfigurationIsInterrupted ends the process at every write of the record, before it
// is stored and after, and has another one go on.
func TestConfigurationIsInterrupted(t *testing.T) {
	cases := []struct {
		name   string
		change change
		set    func(*fixture)
		check  func(*testing.T, *fixture)
		writes int
	}{
		{
			name: "a node that is restarted", change: func(*v1alpha1.WindowsInstance) {}, set: func(f *fixture) {
				f.host.impact, f.host.needsReboot, f.host.needsFiles, f.host.down, f.host.loseAnswer = config.ImpactReboot, 1, true, 1, 1
			},
			check: func(t *testing.T, f *fixture) {
				if f.host.restarts() != 1 {
					t.Errorf("restarted %d times", f.host.restarts())
				}
			},
			writes: 15,
		},
		{
			name: "a host that joins", change: withoutNode, set: func(f *fixture) {
				f.host.impact, f.host.needsFiles, f.host.cuts, f.host.is = config.ImpactRestart, true, 1, ""
				f.registers()
			},
			check: func(t *testing.T, f *fixture) {
				if f.host.restarts() != 0 || f.drain.runs != 0 {
					t.Errorf("restarted %d times, drained %d times", f.host.restarts(), f.drain.runs)
				}
			},
			writes: 8,
		},
		{
			name: "a node that joins again", change: func(*v1alpha1.WindowsInstance) {}, set: func(f *fixture) {
				f.losesCertificate()
				f.host.cuts = 1
				f.kubeletIsGone()
				f.rejoins()
			},
			check: func(t *testing.T, f *fixture) {
				if f.host.restarts() != 0 || f.drain.runs != 0 || len(f.host.applies) == 0 || f.host.applies[0] != "new with credentials Restart" {
					t.Errorf("restarted %d times, drained %d times, applied %v", f.host.restarts(), f.drain.runs, f.host.applies)
				}
			},
			writes: 8,
		},
	}
	for _, tt := range cases {
		for _, after := range []bool{false, true} {
			inBubble(t, fmt.Sprintf("%s, after the write: %v", tt.name, after), func(t *testing.T) {
				at := 1
				for ; ; at++ {
					f := newFixture(t, newInstance(reconfigureOperation(), tt.change))
					c := f.configure()
					tt.set(f)
					f.mustRecordFirst(c)
					if f.interrupt(at, after) < at {
						break
					}
					op := f.finish()
					node := f.node()
					if op.Phase != v1alpha1.OperationSucceeded || f.host.is != "new" || node.Spec.Unschedulable || c.issued.Difference(sets.New(testNode)).Len() > 0 {
						t.Errorf("killed at write %d: %s, the host is %q, cordoned %v, got credentials of %v: %s", at, op.Phase, f.host.is, node.Spec.Unschedulable, c.issued, op.Message)
					}
					tt.check(t, f)
				}
				if at < tt.writes || at > tt.writes+1 { // each costs two API servers more than anything else that they are asked
					t.Errorf("the operation ended after %d writes", at)
				}
			})
		}
	}
}

// mustRecordFirst fails the test if the host is changed, or restarted, without its record that has what whoever goes on has to know.
func (f *fixture) mustRecordFirst(c *scriptedConfiguration) {
	f.host.fail["Apply"] = func() error {
		op := f.get().Status.Operation
		if at := running(op); !slices.Contains(changingSteps, at) || c.issued.Has(testNode) && op.JoinsAs != testNode {
			f.t.Errorf("the host is changed, and its record says %q and that it joins as %q", at, op.JoinsAs)
		}
		return nil
	}
	f.host.fail["Restart"] = func() error {
		if op := f.get().Status.Operation; running(op) != v1alpha1.StepRestart || op.BootID == "" {
			f.t.Errorf("the host is restarted, and its record says %q and boot %q", running(op), op.BootID)
		}
		return nil
	}
}

// interrupt ends the process at one write, if there are so many, and returns how many there were.
func (f *fixture) interrupt(at int, after bool) int {
	f.t.Helper()
	var writes atomic.Int64
	f.mu.Lock()
	f.onWrite = func(isAfter bool, _ *v1alpha1.WindowsInstance) error {
		if isAfter != after || int(writes.Add(1)) < at {
			return nil
		}
		return errors.New("the process was killed") // nothing that follows gets through
	}
	f.mu.Unlock()
	r, stop := f.process()
	f.reconcile(r)
	f.eventually("the write or the end", func() bool { return int(writes.Load()) >= at || !f.get().Status.Operation.Active() })
	stop()
	f.onWrite = nil
	return int(writes.Load())
}

// interruptFailure ends the process when the operation has failed, before that is stored. It waits for what the failure does before.
func (f *fixture) interruptFailure(what string, done func() bool) {
	f.t.Helper()
	f.mu.Lock()
	f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
		if !after && i.Status.Operation.Phase == v1alpha1.OperationFailed {
			return errors.New("the process was killed")
		}
		return nil
	}
	f.mu.Unlock()
	r, stop := f.process()
	f.reconcile(r)
	f.eventually(what, done)
	stop()
	f.mu.Lock()
	f.onWrite = nil
	f.mu.Unlock()
}

// TestFailedDrainIsInterrupted: an operation whose drain failed has its Node uncordoned. If the process ends before that is recorded, the next one cordons and
// drains the Node again before the host is changed or restarted: pods have come to it since.
func TestFailedDrainIsInterrupted(t *testing.T) {
	t.Parallel()
	for name, instance := range map[string]*v1alpha1.WindowsInstance{
		"a configuration": newInstance(reconfigureOperation()),
		"a restart":       newInstance(byController(rebootOperation(v1alpha1.RebootGraceful)), becauseOf(v1alpha1.CauseRestartAnnotated)),
	} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, instance)
			f.configure()
			node := f.node()
			f.edit(func(i *v1alpha1.WindowsInstance) {
				i.Status.Node = &v1alpha1.NodeReference{Name: testNode, UID: node.UID}
			})
			f.annotate(map[string]string{wmco.RebootRequiredAnnotation: ""})
			f.host.impact = config.ImpactDrain
			f.drain.err = &drain.TimeoutError{Total: 1, Pods: []string{"a/b"}}
			f.interruptFailure("the Node to be cordoned and uncordoned", func() bool { return f.drain.ran() > 0 && !f.node().Spec.Unschedulable })
			f.drain.err = nil
			disturbed := func(what string) {
				if !f.node().Spec.Unschedulable || f.drain.ran() < 2 {
					t.Errorf("%s, cordoned %v, drained %d times", what, f.node().Spec.Unschedulable, f.drain.ran())
				}
			}
			f.host.onApplied = func(string) { disturbed("the host was changed") }
			f.host.fail["Restart"] = func() error { disturbed("Windows was restarted"); return nil }
			if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded || f.node().Spec.Unschedulable {
				t.Errorf("it is %s, cordoned %v: %s", op.Phase, f.node().Spec.Unschedulable, op.Message)
			}
		})
	}
}

// TestRestartThatWasNotSentIsInterrupted: of a restart that could not be sent, and whose end was not recorded, it stays known that it was not sent.
func TestRestartThatWasNotSentIsInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(byController(rebootOperation(v1alpha1.RebootGraceful)), becauseOf(v1alpha1.CauseRestartAnnotated)))
		f.configure()
		node := f.node()
		f.edit(func(i *v1alpha1.WindowsInstance) {
			i.Status.Node = &v1alpha1.NodeReference{Name: testNode, UID: node.UID}
		})
		f.annotate(map[string]string{wmco.RebootRequiredAnnotation: ""})
		f.host.fail["Restart"] = func() error { return errRefusedPort }
		f.interruptFailure("the Node to be uncordoned", func() bool { return f.host.count("Restart") > 0 && !f.node().Spec.Unschedulable })
		f.drain.err = &drain.TimeoutError{Total: 1, Pods: []string{"a/b"}}
		if op := f.finish(); op.Phase != v1alpha1.OperationFailed || op.BootID != "" || !strings.Contains(op.Message, "The host was not restarted.") || f.node().Spec.Unschedulable {
			t.Errorf("it is %s, of boot %q, cordoned %v: %s", op.Phase, op.BootID, f.node().Spec.Unschedulable, op.Message)
		}
	})
}

// TestInterruptedChangeIsNotForgotten: a host whose change was begun by a process that ended may be changed, also if its Node was uncordoned meanwhile
// and the pods do not leave.
func TestInterruptedChangeIsNotForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation(), begunAt(v1alpha1.StepApply), func(i *v1alpha1.WindowsInstance) {
			op := i.Status.Operation
			op.Impact, op.BootID = v1alpha1.ImpactDrain, ""
		}))
		f.configure()
		f.drain.err = &drain.TimeoutError{Total: 1, Pods: []string{"a/b"}}
		f.host.result = func() *api.Result {
			return &api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonStep, Error: "Create Service kubelet: access is denied"}
		}
		if op := f.finish(); op.Phase != v1alpha1.OperationFailed || !op.HostChanged || strings.Contains(op.Message, "not changed") || !f.node().Spec.Unschedulable {
			t.Errorf("it is %s, changed %v, cordoned %v: %s", op.Phase, op.HostChanged, f.node().Spec.Unschedulable, op.Message)
		}
	})
}

// TestFailureIsInterrupted: a configuration that failed, and was interrupted before that
// was recorded, leaves no cordon behind when it succeeds after all.
func TestFailureIsInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		f.host.impact = config.ImpactRestart
		f.host.onApplied = func(string) { f.host.is = "other" } // Verify fails
		f.interruptFailure("the Node to be cordoned", func() bool { return f.node().Spec.Unschedulable })
		f.host.is = "new"
		op := f.finish()
		if op.Phase != v1alpha1.OperationSucceeded || f.node().Spec.Unschedulable {
			t.Errorf("it is %s, cordoned %v: %s", op.Phase, f.node().Spec.Unschedulable, op.Message)
		}
	})
}

// TestTwoControllers: one that has lost its leadership and does not know it yet works on
// the same operation. Neither undoes what the other has written, and the host lets only
// one of them change it.
func TestTwoControllers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		f.host.impact, f.host.needsReboot, f.host.down, f.host.slow = config.ImpactReboot, 1, 1, 2*time.Second
		first, _ := f.process()
		second, _ := f.process()
		f.reconcile(first)
		f.reconcile(second)
		op := f.waitForEnd()
		if op.Phase != v1alpha1.OperationSucceeded || f.host.restarts() != 1 || f.host.most != 1 || f.host.is != "new" || f.node().Spec.Unschedulable {
			t.Errorf("%s, restarted %d times, changed by %d at the same time: %s", op.Phase, f.host.restarts(), f.host.most, op.Message)
		}
	})
}

func TestCancelConfiguration(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// hang is a question that the host does not answer until it is canceled.
		hang string
		// why it does not. Nil: it cannot be reached.
		why          error
		set          func(*fixture)
		change       change
		want         []string
		wantCordoned bool
		wantIs       string
		// wantAsked: it says that the host was asked to restart.
		wantAsked bool
	}{
		{name: "while it is planned", hang: "Plan", want: []string{"Nothing was changed."}, wantIs: "old"},
		{name: "while files are sent", hang: "Deliver", want: []string{"Nothing was changed."}, wantIs: "old"},
		{name: "before it is applied", hang: "Apply", want: []string{"Nothing was changed."}, wantIs: "old"},
		{
			name: "while it is applied", hang: "Apply", why: errLost, set: func(f *fixture) { f.host.impact = config.ImpactRestart },
			want: []string{"half way", "reconfigure it again, or remove it", "Node win-1 stays cordoned until"}, wantCordoned: true, wantIs: "old",
		},
		{
			name: "while it is applied, which nobody notices", hang: "Apply", why: errLost,
			want: []string{"half way", "reconfigure it again, or remove it", "the Node stays as it is"}, wantIs: "old",
		},
		{
			name: "while Windows restarts", hang: "BootID", set: func(f *fixture) { f.host.impact, f.host.needsReboot, f.host.needsFiles = config.ImpactReboot, 1, false },
			want: []string{"half way", "stays cordoned until"}, wantCordoned: true, wantIs: "old",
		},
		{
			name: "before Windows was asked to restart", hang: "Restart", set: func(f *fixture) { f.host.impact, f.host.needsReboot, f.host.needsFiles = config.ImpactReboot, 1, false },
			want: []string{"half way", "stays cordoned until"}, wantCordoned: true, wantIs: "old",
		},
		{
			name: "after Windows may have been asked to restart", hang: "Restart", why: errLost,
			set:  func(f *fixture) { f.host.impact, f.host.needsReboot, f.host.needsFiles = config.ImpactReboot, 1, false },
			want: []string{"half way", "stays cordoned until"}, wantCordoned: true, wantIs: "old", wantAsked: true,
		},
		{
			name: "while it joins", change: withoutNode, hang: "never", set: func(f *fixture) {
				f.isNoNode()
				f.host.needsFiles = false
			},
			want: []string{"The host is configured, but whether it works as a node is not known."}, wantIs: "new with credentials",
		},
	}
	for _, tt := range tests {
		inBubble(t, tt.name, func(t *testing.T) {
			if tt.change == nil {
				tt.change = func(*v1alpha1.WindowsInstance) {}
			}
			f := newFixture(t, newInstance(reconfigureOperation(), tt.change))
			f.configure()
			f.host.needsFiles = true
			if tt.set != nil {
				tt.set(f)
			}
			f.failWith(tt.hang, cmp.Or(tt.why, error(errRefusedPort)))
			r, _ := f.process()
			f.reconcile(r)
			f.eventually("the host to be asked", func() bool {
				step := f.get().Status.Operation.FindStep(v1alpha1.StepJoin)
				return f.host.count(tt.hang) > 1 || tt.hang == "never" && step != nil && step.StartedAt != nil
			})
			f.edit(func(i *v1alpha1.WindowsInstance) {
				i.Status.Operation.CancelRequestedBy = "bob"
				i.Status.Operation.CancelRequestedAt = new(metav1.Now())
			})
			f.reconcile(r)
			op := f.waitForEnd()
			if op.Phase != v1alpha1.OperationCanceled || f.host.is != tt.wantIs || f.cordoned() != tt.wantCordoned {
				t.Errorf("it is %s, the host is %q, cordoned %v", op.Phase, f.host.is, f.cordoned())
			}
			if got := strings.Contains(op.Message, "It was asked to restart."); got != tt.wantAsked {
				t.Errorf("asked to restart: %v: %s", got, op.Message)
			}
			for _, want := range tt.want {
				if !strings.Contains(op.Message, want) {
					t.Errorf("%q is missing in %q", want, op.Message)
				}
			}
		})
	}
	inBubble(t, "while pods leave", func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		f.host.impact, f.drain.block = config.ImpactDrain, true
		r, _ := f.process()
		f.reconcile(r)
		f.eventually("the Node to be cordoned", func() bool { return f.node().Spec.Unschedulable })
		f.edit(func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation.CancelRequestedBy = "bob"
			i.Status.Operation.CancelRequestedAt = new(metav1.Now())
		})
		f.reconcile(r)
		op := f.waitForEnd()
		if op.Phase != v1alpha1.OperationCanceled || f.node().Spec.Unschedulable || !strings.Contains(op.Message, "Node win-1 is schedulable") {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
}

// A new version of the controller without a payload goes on with what it cannot do.
func TestConfigurationWithoutPayload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation(), func(i *v1alpha1.WindowsInstance) {
			op := i.Status.Operation
			op.Phase, op.Steps = v1alpha1.OperationRunning, newSteps(plan(op, true))
		}))
		op := f.finish()
		if op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, "--payload") {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
}

// cordoned says whether there is a Node, and it is cordoned.
func (f *fixture) cordoned() bool {
	node := f.findNode()
	return node != nil && node.Spec.Unschedulable
}

// findNode returns the Node, nil if there is none.
func (f *fixture) findNode() *corev1.Node {
	f.t.Helper()
	node, err := f.kube.CoreV1().Nodes().Get(f.t.Context(), testNode, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return node
}

func (f *fixture) updateNode(node *corev1.Node) {
	f.t.Helper()
	if _, err := f.kube.CoreV1().Nodes().Update(f.t.Context(), node, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// TestAgentThatWasReplaced: what runs in the place of our agent does not configure the host, and has not configured it.
func TestAgentThatWasReplaced(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		operation v1alpha1.Operation
		at        int // the question for the digest from which on it is another one
		step      string
		want      string
		// changed: the host was changed before.
		changed bool
	}{
		{"before", reconfigureOperation(), 1, v1alpha1.StepAgent, "The agent on the host has digest another, expected " + testRevision + "…: it was replaced; check the security software of the host before you continue", false},
		{"meanwhile", reconfigureOperation(), 2, v1alpha1.StepVerify, "The agent on the host was replaced meanwhile by one with the digest another", true},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(tt.operation, configuredBefore))
			f.configure()
			f.host.impact = config.ImpactRestart
			asked := 0
			f.host.fail["AgentDigest"] = func() error {
				if asked++; asked == tt.at {
					f.host.replacedBy = "another"
				}
				return nil
			}
			op := f.finish()
			if op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, tt.want) || op.FindStep(tt.step).State != v1alpha1.StepFailed || (f.host.count("Apply") > 0) != tt.changed {
				t.Errorf("it is %s, and was asked %v: %s", op.Phase, f.host.asked, op.Message)
			}
		})
	}
}

// TestHostThatIsAwayWhenItIsVerified: a network that is away for some minutes, when the Node of a host that was changed takes pods again, is
// no failure. A host that was not changed is as it was, and not waited for.
func TestHostThatIsAwayWhenItIsVerified(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		changed  bool
		question string // which it does not answer
		away     time.Duration
		want     v1alpha1.OperationPhase
		cordoned bool
	}{
		{"for some minutes", true, "AgentDigest", 5 * time.Minute, v1alpha1.OperationSucceeded, false},
		{"when it is compared", true, "Plan", 5 * time.Minute, v1alpha1.OperationSucceeded, false},
		{"for good", true, "AgentDigest", silence + time.Minute, v1alpha1.OperationFailed, true},
		{"and nothing was changed", false, "AgentDigest", 5 * time.Minute, v1alpha1.OperationFailed, false},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation(), configuredBefore))
			f.configure()
			f.host.impact = config.ImpactDrain
			if !tt.changed {
				f.host.is, f.host.recorded = "new", "new"
			}
			var since time.Time
			f.host.fail[tt.question] = func() error {
				digests := 0
				for _, q := range f.host.asked {
					if q == "AgentDigest" {
						digests++
					}
				}
				if digests < 2 { // it is not verified yet
					return nil
				}
				if since.IsZero() {
					since = time.Now()
				}
				if time.Since(since) < tt.away {
					return errRefusedPort
				}
				return nil
			}
			op := f.finish()
			if op.Phase != tt.want || (op.Phase == v1alpha1.OperationFailed) != (op.FindStep(v1alpha1.StepVerify).State == v1alpha1.StepFailed) || since.IsZero() {
				t.Errorf("it is %s at %s: %s", op.Phase, short(op), op.Message)
			}
			if got := f.node().Spec.Unschedulable; got != tt.cordoned {
				t.Errorf("the Node is cordoned: %v", got)
			}
		})
	}
}
