// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/blockedby"
)

const (
	noSlot       = "Waits for a slot: win-3 of pool p is out of service (it is being changed); at most 1 may be at a time (spec.updateStrategy.rollingUpdate.maxUnavailable)."
	removedLater = "Waits for a slot to be removed: win-3 of pool p is out of service (it is being changed); at most 1 may be at a time (spec.updateStrategy.rollingUpdate.maxUnavailable)."
	noSlotOfAll  = "Waits for a slot: another host is being changed, in another namespace; at most 1 of all pools may be at a time (--max-disruptive-operations)."
)

// fleet is pool p with so many hosts, win-1 and so on, that are outdated.
func fleet(n int) (*v1alpha1.WindowsNodePool, []*v1alpha1.WindowsInstance) {
	pool := finishedPool()
	pool.Status.Replicas, pool.Status.UpdatedReplicas, pool.Status.ReadyReplicas = int32(n), 0, int32(n)
	pool.Status.Conditions[0].Status, pool.Status.Conditions[1].Status = metav1.ConditionFalse, metav1.ConditionTrue
	var hosts []*v1alpha1.WindowsInstance
	for i := range n {
		host := hostOfPool(fmt.Sprintf("win-%d", i+1))
		host.Status.DesiredRevision = "r2"
		hosts = append(hosts, host)
	}
	return pool, hosts
}

// isChanged has a host drained, which a budget does not allow.
func isChanged(host *v1alpha1.WindowsInstance) {
	host.Status.Operation = &v1alpha1.Operation{
		ID: "reconfigure-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning, RequestedAt: metav1.Unix(1_800_000_000, 0),
		Progress: &v1alpha1.OperationProgress{Done: 1, Total: 3, Unit: "pods"}, Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepDrain, State: v1alpha1.StepRunning}},
		BlockedBy: []v1alpha1.BlockedPod{{Namespace: "shop", Name: "web-0", Budget: "web"}}, Message: fmt.Sprintf("Evicting the pods of Node %s: 1 of 3 have left.", host.Name),
	}
}

// isToBeRemoved has the removal of a host wait for its slot.
func isToBeRemoved(host *v1alpha1.WindowsInstance) {
	host.DeletionTimestamp = new(metav1.Unix(1_800_000_000, 0))
	host.Status.Operation = &v1alpha1.Operation{
		ID: "remove-1", Type: v1alpha1.OperationRemove, Phase: v1alpha1.OperationRunning, RequestedAt: metav1.Unix(1_800_000_000, 0), StartedAt: new(metav1.Unix(1_800_000_001, 0)),
		Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepConnect, State: v1alpha1.StepSucceeded}, {Name: v1alpha1.StepWaitForSlot, State: v1alpha1.StepRunning}, {Name: v1alpha1.StepDrain, State: v1alpha1.StepPending}},
	}
}

// isPinned has a person undo the revision of a pool, which hosts of a Secret each get another key meanwhile.
func isPinned(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) {
	pool.Status.UpdateRevision = "p-2"
	pool.Status.RolledBack = &v1alpha1.PoolRollback{Revision: "p-2", To: "p-1", RequestedBy: "alice", Message: "Pinned to revision 1.", WithoutPrograms: []string{"win-1"}}
	for _, host := range hosts {
		host.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: "o", RotatingTo: "n"}
		ofSecret(host, "of-"+host.Name)
	}
}

// isUpToDate has a host have what is desired.
func isUpToDate(host *v1alpha1.WindowsInstance) { host.Status.CurrentRevision = "r2" }

// couldNotDrain has the last attempt fail to install updates of Windows.
func couldNotDrain(host *v1alpha1.WindowsInstance) {
	host.Status.WindowsUpdates = &v1alpha1.WindowsUpdatesStatus{Pending: 2, Security: 2}
	host.Status.Operation = &v1alpha1.Operation{
		ID: "reboot-1", Type: v1alpha1.OperationReboot, Cause: v1alpha1.CauseWindowsUpdates, Phase: v1alpha1.OperationFailed, FinishedAt: new(metav1.Unix(1_800_000_000, 0)),
		Message: "Timeout: 1 of 3 pods have not left: shop/web-0 (PodDisruptionBudget web). The Node takes pods again.",
		Steps:   []v1alpha1.OperationStep{{Name: v1alpha1.StepDrain, State: v1alpha1.StepFailed}},
	}
}

// TestPoolTree: whoever looks at a pool sees of each host what is done to it and what it waits for, with the budget.
func TestPoolTree(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance)
		want string
	}{
		{"an operation runs, and others wait for a slot", func(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) {
			isUpToDate(hosts[0])
			isChanged(hosts[2])
			pool.Status.UpdatedReplicas = 1
			pool.Status.BlockedBy = "win-2, win-4: " + noSlot
		}, `p: 1 of 4 hosts are up to date, 4 ready
├─ win-1   up to date
├─ win-2   outdated, waits (at most 1 may be at a time): win-3 of pool p is out of service (it is being changed)
├─ win-3   reconfiguration running: [Drain 1/3 pods]; blocked by shop/web-0 (PodDisruptionBudget web)
└─ win-4   outdated, waits (at most 1 may be at a time): win-3 of pool p is out of service (it is being changed)

Waiting:
  win-2, win-4: ` + noSlot + "\n"},
		{"hosts that are not named", func(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) {
			isUpToDate(hosts[2])
			pool.Status.BlockedBy = "win-1 and 2 more: " + noSlotOfAll
		}, `p: 0 of 4 hosts are up to date, 4 ready
├─ win-1   outdated, waits (at most 1 of all pools may be at a time): another host is being changed, in another namespace
├─ win-2   outdated, waits (at most 1 of all pools may be at a time): another host is being changed, in another namespace
├─ win-3   up to date
└─ win-4   outdated, waits (at most 1 of all pools may be at a time): another host is being changed, in another namespace

Waiting:
  win-1 and 2 more: ` + noSlotOfAll + "\n"},
		{"hosts that are not named, and wait for one thing or another", func(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) {
			pool.Status.BlockedBy = "win-1 and 1 more: " + noSlotOfAll + "\nwin-2 and 1 more: " + noSlot
		}, `p: 0 of 4 hosts are up to date, 4 ready
├─ win-1   outdated, waits (at most 1 of all pools may be at a time): another host is being changed, in another namespace
├─ win-2   outdated, waits (at most 1 may be at a time): win-3 of pool p is out of service (it is being changed)
├─ win-3   outdated
└─ win-4   outdated

Waiting:
  win-1 and 1 more: ` + noSlotOfAll + "\n  win-2 and 1 more: " + noSlot + "\n"},
		{"reasons of several sentences", func(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) {
			isUpToDate(hosts[3])
			hosts[0].Status.Conditions = append(hosts[0].Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionUpToDate, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRevisionOutdated, Message: "The host has revision r1; the desired one is r2. It is updated when it gets a disruption slot in the window of pool p (spec.updateStrategy.window)."})
			pool.Status.BlockedBy = "win-1: The window of pool p opens at 2026-03-07T02:00:00Z.\nwin-2, win-3: What the update costs is not known: The host says: disk: full. Find out why: kubectl windows check NAME -n hosts"
		}, `p: 0 of 4 hosts are up to date, 4 ready
├─ win-1   outdated, waits: The window of pool p opens at 2026-03-07T02:00:00Z
├─ win-2   outdated, waits: What the update costs is not known: The host says: disk: full
├─ win-3   outdated, waits: What the update costs is not known: The host says: disk: full
└─ win-4   up to date

Waiting:
  win-1: The window of pool p opens at 2026-03-07T02:00:00Z.
  win-2, win-3: What the update costs is not known: The host says: disk: full. Find out why: kubectl windows check NAME -n hosts
`},
		{"hosts wait to be removed, and others for their update", func(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) {
			isUpToDate(hosts[0])
			isToBeRemoved(hosts[0])
			isToBeRemoved(hosts[1])
			hosts[1].Status.Operation = nil
			pool.Status.BlockedBy = "win-4 and 1 more: " + noSlotOfAll + "\nwin-1 and 1 more: " + removedLater
		}, `p: 0 of 4 hosts are up to date, 4 ready
├─ win-1   removal waits (at most 1 may be at a time): win-3 of pool p is out of service (it is being changed)
├─ win-2   is going to be removed, waits (at most 1 may be at a time): win-3 of pool p is out of service (it is being changed)
├─ win-3   outdated, waits (at most 1 of all pools may be at a time): another host is being changed, in another namespace
└─ win-4   outdated, waits (at most 1 of all pools may be at a time): another host is being changed, in another namespace

Waiting:
  win-4 and 1 more: ` + noSlotOfAll + "\n  win-1 and 1 more: " + removedLater + "\n"},
		{"attempts failed", func(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) {
			pool.Spec.WindowsUpdates.Install = v1alpha1.InstallSecurity
			isUpToDate(hosts[0])
			couldNotDrain(hosts[0])
			hosts[1].Status.Conditions = append(hosts[1].Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionUpToDate, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUpdateFailed, Message: "The host works with revision r1; the desired one is r2. Operation op-1 failed before it changed the host: Disk full."})
			hosts[2].Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Message: "Its Node is not ready."}
			isUpToDate(hosts[2])
			isUpToDate(hosts[3])
			pool.Status.UpdatedReplicas, pool.Status.ReadyReplicas = 3, 3
			pool.Status.BlockedBy = "win-1: Updates of Windows are tried again at 2026-03-07T02:00:00Z. The last attempt failed: Timeout. Find out why: kubectl windows describe NAME -n hosts\nwin-2: The update is tried again at 2026-03-07T01:00:00Z."
		}, `p: 3 of 4 hosts are up to date, 3 ready
├─ win-1   up to date, updates of Windows to be installed: 2, the last attempt to install updates of Windows failed: Timeout: 1 of 3 pods have not left: shop/web-0 (PodDisruptionBudget web), waits: Updates of Windows are tried again at 2026-03-07T02:00:00Z
├─ win-2   outdated: Operation op-1 failed before it changed the host: Disk full, waits: The update is tried again at 2026-03-07T01:00:00Z
├─ win-3   up to date, not ready: Its Node is not ready
└─ win-4   up to date

Waiting:
  win-1: Updates of Windows are tried again at 2026-03-07T02:00:00Z. The last attempt failed: Timeout. Find out why: kubectl windows describe NAME -n hosts
  win-2: The update is tried again at 2026-03-07T01:00:00Z.
`},
		{"it is paused while hosts are restarted", func(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) {
			pool.Spec.Paused, pool.Spec.Restarts.After = true, new(metav1.NewTime(time.Now().Add(-time.Minute)))
			for _, host := range hosts {
				isUpToDate(host)
			}
			hosts[0].Status.RestartedAt = new(metav1.Now())
			pool.Status.UpdatedReplicas = 4
		}, `p: 4 of 4 hosts are up to date, 1 of 4 are restarted, 4 ready, paused
├─ win-1   up to date
├─ win-2   up to date, to be restarted
├─ win-3   up to date, to be restarted
└─ win-4   up to date, to be restarted
`},
		{"it is rolled back", func(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) {
			pool.Status.UpdateRevision = "p-2"
			pool.Status.RolledBack = &v1alpha1.PoolRollback{Revision: "p-2", To: "p-1", Instances: []string{"win-2"}}
			for _, host := range hosts {
				isUpToDate(host)
				host.Status.PoolRevision = "p-1"
			}
			hosts[0].Status.PoolRevision = "p-2"
			pool.Status.UpdatedReplicas = 1
			pool.Status.BlockedBy = "win-3, win-4: The revision of pool p was rolled back, because it broke hosts (status.rolledBack). Change spec.template or the payload, or try the same again: kubectl windows rollout resume p -n hosts"
		}, `p: 1 of 4 hosts are up to date, 4 ready
├─ win-1   up to date
├─ win-2   rolled back
├─ win-3   kept from a revision that was rolled back, waits: The revision of pool p was rolled back, because it broke hosts (status.rolledBack)
└─ win-4   kept from a revision that was rolled back, waits: The revision of pool p was rolled back, because it broke hosts (status.rolledBack)

Waiting:
  win-3, win-4: The revision of pool p was rolled back, because it broke hosts (status.rolledBack). Change spec.template or the payload, or try the same again: kubectl windows rollout resume p -n hosts
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool, hosts := fleet(4)
			tt.edit(pool, hosts)
			if diff := cmp.Diff(tt.want, poolTree(pool, hosts)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestViewLines: however many hosts there are, those that something is done to are on the terminal.
func TestViewLines(t *testing.T) {
	pool, hosts := fleet(40)
	isUpToDate(hosts[0])
	isChanged(hosts[38])
	hosts[38].Status.Operation.BlockedBy = nil
	pool.Status.UpdatedReplicas = 1
	pool.Status.BlockedBy = "win-2 and 37 more: " + strings.ReplaceAll(noSlot, "win-3", "win-39")
	const waits = "outdated, waits (at most 1 may be at a time): win-39 of pool p is out of service (it is being changed)"
	const drained = "  win-39   reconfiguration running: [Drain 1/3 pods] (61s); Evicting the pods of Node win-39: 1 of 3 have left."
	now := time.Unix(1_800_000_061, 0)
	for height, want := range map[int][]string{
		0: {},
		1: {"p: 1 of 40 hosts are up to date, 40 ready"},
		2: {"p: 1 of 40 hosts are up to date, 40 ready", "  … and 39 more"},
		3: {"p: 1 of 40 hosts are up to date, 40 ready", drained, "  … and 38 more wait"},
		5: {"p: 1 of 40 hosts are up to date, 40 ready", drained, "  win-2    " + waits, "  win-3    " + waits, "  … and 36 more wait"},
	} {
		if diff := cmp.Diff(want, viewLines(pool, hosts, height, now)); diff != "" {
			t.Errorf("in %d lines (-want +got):\n%s", height, diff)
		}
	}
	if got, want := cut(viewLines(pool, hosts, 3, now)[1], 80), "  win-39   reconfiguration running: [Drain 1/3 pods] (61s); Evicting the pod..."; got != want {
		t.Errorf("80 columns show\n%s\nwant\n%s", got, want)
	}
	if got := viewLines(pool, hosts, 50, now); len(got) != 40 || strings.Contains(strings.Join(got, "\n"), "win-1 ") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// TestViewOfWaitingOperations: hosts that an operation only waits on do not hide those that something is done to.
func TestViewOfWaitingOperations(t *testing.T) {
	pool, hosts := fleet(50)
	for _, host := range hosts[:25] {
		isToBeRemoved(host)
	}
	isChanged(hosts[48])
	hosts[48].Status.Operation.BlockedBy = nil
	isToBeRemoved(hosts[49])
	hosts[49].Status.Operation.AdmittedImpact = v1alpha1.ImpactDrain
	pool.Status.BlockedBy = "win-1, win-2, win-3 and 22 more: " + strings.ReplaceAll(removedLater, "win-3", "win-49")
	want := []string{
		"p: 0 of 50 hosts are up to date, 50 ready", "  win-49   reconfiguration running: [Drain 1/3 pods] (61s); Evicting the pods of Node win-49: 1 of 3 have left.", "  win-50   removal running: [WaitForSlot running] (61s)",
		"  win-1    removal waits (at most 1 may be at a time): win-49 of pool p is out of service (it is being changed)", "  … and 47 more wait",
	}
	if diff := cmp.Diff(want, viewLines(pool, hosts, 5, time.Unix(1_800_000_061, 0))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestViewOfPin: what is said about a pool has its lines on the terminal, too, and leaves some of them to its hosts.
func TestViewOfPin(t *testing.T) {
	pool, hosts := fleet(40)
	isPinned(pool, hosts)
	now := time.Unix(1_800_000_061, 0)
	for height := range 100 {
		got := viewLines(pool, hosts, height, now)
		if len(got) > height || height > 0 && got[0] != "p: 0 of 40 hosts are up to date, 40 ready" || strings.Contains(strings.Join(got, ""), "\n") {
			t.Fatalf("in %d lines:\n%s", height, strings.Join(got, "\n"))
		}
	}
	got := viewLines(pool, hosts, 9, now)
	if got[0] != "p: 0 of 40 hosts are up to date, 40 ready" || got[1] != "Pinned to revision 1." || got[4] != "  … and 40 more lines" || !strings.HasPrefix(got[5], "  win-1 ") || got[8] != "  … and 37 more wait" {
		t.Errorf("in 9 lines:\n%s", strings.Join(got, "\n"))
	}
	if got := viewLines(pool, hosts[:1], 9, now); len(got) != 6 || !strings.HasPrefix(got[4], "Keys: ") {
		t.Errorf("of one host:\n%s", strings.Join(got, "\n"))
	}
}

// TestRolloutViewLines: as many lines are drawn over as were drawn, whatever is in them, and no more than there are on the terminal.
func TestRolloutViewLines(t *testing.T) {
	var out bytes.Buffer
	v := &rolloutView{out: &out, size: func() (int, int) { return 20, 4 }}
	for range 2 {
		v.draw(func(int) []string { return []string{"one\ntwo", "a\tb", "four"} })
	}
	const lines = "one\x1b[K\ntwo\x1b[K\na b\x1b[K\n\x1b[J\x1b[?7h"
	if diff := cmp.Diff("\x1b[?7l"+lines+"\x1b[?7l\r\x1b[3A"+lines, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCut: a line does not become wider than the terminal, which shows some characters in two cells.
func TestCut(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"123456789", "123456789"}, {"größer ok", "größer ok"}, {"1234567890", "123456..."},
		{"日本語1", "日本語1"}, {"日本語12", "日本語12"}, {"日本語日", "日本語日"}, {"日本語日1", "日本語日1"}, {"日本語日本", "日本語..."}, {"1日本語日本", "1日本..."}, {"🙂🙂🙂🙂🙂", "🙂🙂🙂..."}, {"Ａ２３４５", "Ａ２３..."},
	} {
		if got := cut(tt.text, 10); got != tt.want {
			t.Errorf("%s is cut to %s, want %s", tt.text, got, tt.want)
		}
	}
}

// TestWaitGroups: a line that names no host of the pool is no reason of those before it.
func TestWaitGroups(t *testing.T) {
	_, hosts := fleet(2)
	got := waitGroups("win-1: "+noSlotOfAll+"\nwin-7: Gone.\nwin-2, win-7 and 3 more: The window opens.", hosts)
	want := []waitGroup{{blockedby.Line{Names: []string{"win-1"}, Why: noSlotOfAll}}, {blockedby.Line{Why: "win-7: Gone."}}, {blockedby.Line{Names: []string{"win-2", "win-7"}, More: 3, Why: "The window opens."}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRolloutViewWarnings: what the API server warns of is above what is shown, and not in the middle of it.
func TestRolloutViewWarnings(t *testing.T) {
	var out, errOut bytes.Buffer
	a := newAPI(t, hostOfPool("a"))
	pool := finishedPool()
	pool.Status.Conditions[1].Status = metav1.ConditionTrue
	a.servePool(pool)
	serve, asked := a.handlers[http.MethodGet+" "+poolsResource], 0
	a.handle(http.MethodGet, poolsResource, func(w http.ResponseWriter, r *http.Request) {
		switch watched := r.URL.Query().Get("watch") != ""; {
		case watched && asked <= 2:
			w.Header().Set("Content-Type", "application/json") // a watch that ends
			return
		case !watched:
			if asked++; asked > 2 {
				w.Header().Set("Warning", `299 - "it is old"`)
			}
		}
		serve(w, r)
	})
	e := newEnv(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
	e.live = true
	cmd := newCommand(e)
	cmd.SetArgs(a.args("hosts", "rollout", "status", "p", "--timeout=3s"))
	if err := cmd.ExecuteContext(t.Context()); exitCode(err) != ExitWaitTimeout {
		t.Error(err)
	}
	if got := errOut.String(); !strings.Contains(got, "\r\x1b[1A\x1b[JWarning: it is old\n\x1b[?7lp: 2 of 2 hosts") || strings.Count(got, "Warning") != 1 {
		t.Errorf("got %q", got)
	}
}

// TestRolloutView: what is shown is drawn where it was, in lines that end with the terminal, and what is said besides stays above it.
func TestRolloutView(t *testing.T) {
	var out bytes.Buffer
	height := 3
	v := &rolloutView{out: &out, size: func() (int, int) { return 10, height }}
	draw := func(lines ...string) {
		v.draw(func(n int) []string { return lines[:min(n, len(lines))] })
	}
	draw("one\x1b", "more than ten", "below")
	height = 4
	draw("1")
	v.note("trouble")
	draw("2")
	want := "\x1b[?7lone^[\x1b[K\nmore t...\x1b[K\n\x1b[J\x1b[?7h" +
		"\x1b[?7l\r\x1b[2A1\x1b[K\n\x1b[J\x1b[?7h" +
		"\r\x1b[1A\x1b[Jtrouble\n" +
		"\x1b[?7l2\x1b[K\n\x1b[J\x1b[?7h"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRolloutViewGoesOn: what is shown stays on the terminal while it cannot be seen how it goes on.
func TestRolloutViewGoesOn(t *testing.T) {
	var out bytes.Buffer
	pool, hosts := fleet(1)
	f := &rolloutFollower{e: &env{live: true}, pool: pool, hosts: map[string]*v1alpha1.WindowsInstance{"win-1": hosts[0]}}
	f.view = &rolloutView{out: &out, size: func() (int, int) { return 80, 24 }}
	f.show()
	shown := out.String()
	out.Reset()
	f.note("it continues")
	const back = "\r\x1b[2A\x1b[Jit continues\n"
	if got := out.String(); got != back+shown || !strings.Contains(shown, "win-1   outdated") {
		t.Errorf("got %q after %q", got, shown)
	}
}

// TestRolloutLines: where there is no terminal, each change is a line, and neither the names of a hundred hosts nor who has the slot is.
func TestRolloutLines(t *testing.T) {
	var out bytes.Buffer
	pool, hosts := fleet(100)
	f := &rolloutFollower{e: &env{IOStreams: genericiooptions.IOStreams{ErrOut: &out}}, pool: pool, hosts: map[string]*v1alpha1.WindowsInstance{}, said: map[string]string{}}
	names := make([]string, len(hosts))
	for i, host := range hosts {
		f.hosts[host.Name], names[i] = host, host.Name
	}
	says := func(want string) {
		t.Helper()
		out.Reset()
		f.show()
		if got := out.String(); got != want {
			t.Errorf("it says\n%swant\n%s", got, want)
		}
	}
	isChanged(f.hosts["win-1"])
	waits := func(on, with string) string {
		return strings.Join(names, ", ") + ": " + strings.ReplaceAll(strings.ReplaceAll(noSlot, "win-3", on), "it is being changed", with)
	}
	pool.Status.BlockedBy = waits("win-1", "it is being changed")
	f.show()
	if got := out.String(); !strings.Contains(got, "\np: 0 of 100 hosts are up to date\nwin-1, win-2, win-3, win-4, win-5 and 95 more: Waits for a slot: win-1 of pool p is out of service") || strings.Count(got, "\n") != 102 {
		t.Errorf("it begins with\n%s", got)
	}
	says("")
	f.hosts["win-1"].Status.Operation = nil
	isUpToDate(f.hosts["win-1"])
	pool.Status.UpdatedReplicas = 1
	pool.Status.BlockedBy = ""
	says("win-1: up to date\np: 1 of 100 hosts are up to date\n")
	isChanged(f.hosts["win-2"])
	names = names[2:]
	pool.Status.BlockedBy = waits("win-2", "its Node is not ready")
	says("win-2: reconfiguration running: [Drain 1/3 pods]; blocked by shop/web-0 (PodDisruptionBudget web)\n")
	pool.Status.BlockedBy = "win-3, win-4: The window of pool p opens at 2026-03-07T02:00:00Z."
	says("win-3, win-4: The window of pool p opens at 2026-03-07T02:00:00Z.\n")
	pool.Status.BlockedBy = "win-4: The window of pool p opens at 2026-03-07T02:00:00Z."
	says("")
	pool.Status.BlockedBy = "win-4: The window of pool p opens at 2026-03-14T02:00:00Z."
	says("win-4: The window of pool p opens at 2026-03-14T02:00:00Z.\n")
}
