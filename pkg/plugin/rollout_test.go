// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// finishedPool is pool p of namespace hosts, whose hosts are up to date.
func finishedPool() *v1alpha1.WindowsNodePool {
	pool := &v1alpha1.WindowsNodePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsNodePool"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "hosts", Name: "p", UID: "uid-p", Generation: 2},
		Status: v1alpha1.WindowsNodePoolStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionUpdated, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionUpdating, Status: metav1.ConditionFalse},
		}},
	}
	pool.Spec.Source.ConfigMap = &v1alpha1.SourceReference{Name: "p"}
	pool.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
	return pool
}

// hostOfPool is a host of p that is up to date.
func hostOfPool(name string) *v1alpha1.WindowsInstance {
	i := instance(name, name)
	i.Spec.PoolRef = &v1alpha1.PoolReference{Name: "p"}
	i.Status.CurrentRevision, i.Status.DesiredRevision = "r1", "r1"
	i.Status.RestartedAt = new(metav1.NewTime(time.Now().Add(-time.Hour)))
	i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	return i
}

// serverTime is what time it is for the API server, whose clock is ahead.
const serverTime = "Fri, 01 Mar 2126 12:00:30 GMT"

// servePool serves one pool. watched is closed when somebody watches it.
func (a *api) servePool(pool *v1alpha1.WindowsNodePool) (watched <-chan struct{}) {
	watch := make(chan struct{})
	once := sync.OnceFunc(func() { close(watch) })
	a.handle(http.MethodGet, poolsResource, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("watch") != "":
			w.Header().Set("Content-Type", "application/json")
			http.NewResponseController(w).Flush()
			once()
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/p"):
			w.Header().Set("Date", serverTime)
			answer(w, pool)
		default:
			refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "", "windowsnodepools not found")
		}
	})
	a.handle(http.MethodPatch, poolsResource, func(w http.ResponseWriter, _ *http.Request) { answer(w, pool) })
	return watch
}

// TestRolloutStatus: it ends when all is done, and when it does not go on by itself, with the reason.
func TestRolloutStatus(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*v1alpha1.WindowsNodePool)
		code int
		want string
	}{
		{"all is done", func(*v1alpha1.WindowsNodePool) {}, ExitOK, "windowsnodepool/p: all 2 hosts are up to date"},
		{"it waits for somebody", func(p *v1alpha1.WindowsNodePool) { p.Status.BlockedBy = "a: Raise canary." }, ExitFailure, "does not go on by itself: a: Raise canary."},
		{"one can never be updated", func(p *v1alpha1.WindowsNodePool) {
			p.Status.Conditions[0].Status, p.Status.Conditions[1].Reason = metav1.ConditionFalse, v1alpha1.ReasonUpdateBlocked
			p.Status.BlockedBy = "b: It has no host, so that it is never updated."
		}, ExitFailure, "windowsnodepool/p does not go on by itself: b: It has no host"},
		{"only updates of Windows wait", func(p *v1alpha1.WindowsNodePool) {
			p.Status.BlockedBy, p.Status.Conditions[1].Reason = "a: The window of pool p opens.", v1alpha1.ReasonAllUpdated
		}, ExitOK, "windowsnodepool/p: all 2 hosts are up to date\na: The window of pool p opens.\n"},
		{"it is paused", func(p *v1alpha1.WindowsNodePool) {
			p.Spec.Paused, p.Status.Conditions[0].Status = true, metav1.ConditionFalse
		}, ExitFailure, "it is paused: kubectl windows rollout resume p -n hosts"},
		{"it goes on", func(p *v1alpha1.WindowsNodePool) { p.Status.Conditions[1].Status = metav1.ConditionTrue }, ExitWaitTimeout, "--timeout is over"},
		{"its change was not seen yet", func(p *v1alpha1.WindowsNodePool) { p.Generation = 3 }, ExitWaitTimeout, "--timeout is over"},
		{"a restart is outstanding", func(p *v1alpha1.WindowsNodePool) { p.Spec.Restarts.After = new(metav1.Now()) }, ExitWaitTimeout, "--timeout is over"},
		{"a restart was done", func(p *v1alpha1.WindowsNodePool) {
			p.Spec.Restarts.After = new(metav1.NewTime(time.Now().Add(-2 * time.Hour)))
		}, ExitOK, "all 2 hosts are up to date"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAPI(t, hostOfPool("a"), hostOfPool("b"), instance("other", ""))
			pool := finishedPool()
			tt.edit(pool)
			a.servePool(pool)
			got := a.run("rollout", "status", "p", "--timeout=5s")
			if got.code != tt.code || !strings.Contains(got.stdout+got.stderr, tt.want) || !strings.Contains(got.stderr, "a: up to date") || strings.Contains(got.stderr, "other") {
				t.Errorf("code %d\n%s%s", got.code, got.stdout, got.stderr)
			}
		})
	}
}

// TestOutstanding: a rollout is over when the hosts have what their pool rolls out. What else they wait for is said.
func TestOutstanding(t *testing.T) {
	lacks := func(i *v1alpha1.WindowsInstance, failed ...v1alpha1.FailedUpdate) {
		i.Status.WindowsUpdates = &v1alpha1.WindowsUpdatesStatus{Pending: 1, Security: 1, Failed: failed}
	}
	a, b, c, goes := hostOfPool("a"), hostOfPool("b"), hostOfPool("c"), hostOfPool("d")
	lacks(a)
	lacks(b, v1alpha1.FailedUpdate{Name: "KB1", Security: true})
	c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionRebootRequired, Status: metav1.ConditionTrue})
	lacks(goes)
	goes.DeletionTimestamp = new(metav1.Now())
	for _, i := range []*v1alpha1.WindowsInstance{a, b, c} {
		i.Status.Node = &v1alpha1.NodeReference{Name: i.Name}
	}
	const (
		wait        = "a, c: The window of pool p opens at 2126-03-01T12:00:00Z."
		outstanding = "Updates of Windows are to be installed on 1 host: a\nUpdates of Windows could not be installed on 1 host: b\nWindows waits for a restart on 1 host: c\n"
	)
	waits := func(reason string) func(*v1alpha1.WindowsNodePool) {
		return func(p *v1alpha1.WindowsNodePool) {
			p.Spec.WindowsUpdates.Install, p.Spec.Restarts.Policy = v1alpha1.InstallSecurity, v1alpha1.RestartWhenPending
			p.Status.BlockedBy, p.Status.Conditions[1].Reason = wait, reason
		}
	}
	for _, tt := range []struct {
		name string
		edit []func(*v1alpha1.WindowsNodePool)
		end  rolloutEnd
		want string
	}{
		{"the pool wants none of it", nil, rolloutDone, ""},
		{"it waits for the window", []func(*v1alpha1.WindowsNodePool){waits(v1alpha1.ReasonAllUpdated)}, rolloutDone, outstanding + wait + "\n"},
		{"after an undo", []func(*v1alpha1.WindowsNodePool){waits(v1alpha1.ReasonUndone)}, rolloutDone, outstanding + wait + "\n"},
		{"it is tried again later", []func(*v1alpha1.WindowsNodePool){waits(v1alpha1.ReasonAllUpdated), func(p *v1alpha1.WindowsNodePool) { p.Status.BlockedBy = "" }}, rolloutDone, outstanding},
		{"it is being done", []func(*v1alpha1.WindowsNodePool){waits(v1alpha1.ReasonUpdateInProgress), func(p *v1alpha1.WindowsNodePool) { p.Status.Conditions[1].Status = metav1.ConditionTrue }}, rolloutGoesOn, ""},
		{"a restart that somebody has asked for waits as well", []func(*v1alpha1.WindowsNodePool){waits(v1alpha1.ReasonWindowClosed), func(p *v1alpha1.WindowsNodePool) { p.Spec.Restarts.After = new(metav1.Now()) }}, rolloutStuck, ""},
		{"hosts are outdated", []func(*v1alpha1.WindowsNodePool){waits(v1alpha1.ReasonWindowClosed), func(p *v1alpha1.WindowsNodePool) { p.Status.Conditions[0].Status = metav1.ConditionFalse }}, rolloutStuck, ""},
		{"a host is broken", []func(*v1alpha1.WindowsNodePool){waits(v1alpha1.ReasonHostsBroken)}, rolloutStuck, ""},
		{"the controller is that of an earlier release", []func(*v1alpha1.WindowsNodePool){waits(v1alpha1.ReasonUpdateBlocked)}, rolloutStuck, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := finishedPool()
			for _, edit := range tt.edit {
				edit(pool)
			}
			f := &rolloutFollower{pool: pool, hosts: map[string]*v1alpha1.WindowsInstance{"a": a, "b": b, "c": c, "d": goes}}
			end := rolloutVerdict(pool, f.sorted())
			if end != tt.end || end == rolloutDone && f.outstanding() != tt.want {
				t.Errorf("ends with %d; outstanding is\n%s", end, f.outstanding())
			}
		})
	}
}

// TestRolloutStatusFollows: what happens to each host is said once.
func TestRolloutStatusFollows(t *testing.T) {
	busy := hostOfPool("a")
	busy.Status.Operation = &v1alpha1.Operation{
		ID: "r", Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationRunning, Progress: &v1alpha1.OperationProgress{Done: 1, Total: 4, Unit: "pods"},
		Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepDrain, State: v1alpha1.StepRunning}},
	}
	a := newAPI(t, busy, hostOfPool("b"))
	pool := finishedPool()
	pool.Spec.Restarts.After = new(metav1.NewTime(time.Now().Add(-time.Minute)))
	b := hostOfPool("b")
	b.Status.RestartedAt = new(metav1.Now())
	a.put(b)
	watched := a.servePool(pool)
	done := make(chan result)
	go func() { done <- a.run("rollout", "status", "wnp/p") }()
	<-watched
	a.put(func() *v1alpha1.WindowsInstance {
		i := hostOfPool("a")
		i.Status.RestartedAt = new(metav1.Now())
		return i
	}())
	got := <-done
	want := "a: reboot running: [Drain 1/4 pods]\nb: up to date\np: 2 of 2 hosts are up to date, 1 of 2 are restarted\na: up to date\np: 2 of 2 hosts are up to date\n"
	if got.code != ExitOK || got.stderr != want || got.stdout != "windowsnodepool/p: all 2 hosts are up to date\n" {
		t.Errorf("code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// TestRolloutStatusOfPoolThatGoes: a pool that was deleted while nobody watched is the end, and what could not be read is no end.
func TestRolloutStatusOfPoolThatGoes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after http.HandlerFunc // what the server says of hosts once the first watch is over
		pool  bool             // it is still there
		code  int
		want  string
	}{
		{name: "gone", code: ExitFailure, want: `windowsnodepools.windows.openshift.io "p" not found`},
		{name: "its hosts cannot be read", pool: true, code: ExitWaitTimeout, want: "cannot be seen at the moment", after: func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "", "away")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAPI(t)
			pool := finishedPool()
			pool.Status.Conditions[0].Status, pool.Status.Conditions[1].Status = metav1.ConditionFalse, metav1.ConditionTrue
			var over atomic.Bool
			a.handle(http.MethodGet, poolsResource, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Query().Get("watch") != "":
					w.Header().Set("Content-Type", "application/json") // the server ends it
					over.Store(true)
				case over.Load() && !tt.pool:
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusNotFound)
					gone := apierrors.NewNotFound(v1alpha1.Resource(poolsResource), "p").Status()
					gone.APIVersion, gone.Kind = "v1", "Status"
					answer(w, gone)
				case over.Load():
					answer(w, finishedPool())
				default:
					answer(w, pool)
				}
			})
			a.handle(http.MethodGet, "list", func(w http.ResponseWriter, r *http.Request) {
				switch {
				case over.Load() && tt.after != nil && r.URL.Query().Get("watch") == "":
					tt.after(w, r)
				case r.URL.Query().Get("watch") != "":
					w.Header().Set("Content-Type", "application/json")
					http.NewResponseController(w).Flush()
					<-r.Context().Done()
				default:
					answer(w, v1alpha1.WindowsInstanceList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsInstanceList"}, Items: []v1alpha1.WindowsInstance{*hostOfPool("a")}})
				}
			})
			got := a.run("rollout", "status", "p", "--timeout=6s")
			got.want(t, tt.code, tt.want)
			if strings.Contains(got.stdout, "up to date") {
				t.Errorf("it says\n%s", got.stdout)
			}
		})
	}
}

// TestRolloutChanges: each command changes what it says, of the pool that was read, and nothing in vain.
func TestRolloutChanges(t *testing.T) {
	paused := func(p *v1alpha1.WindowsNodePool) { p.Spec.Paused = true }
	// By a controller whose clock is ahead.
	rolledBack := func(p *v1alpha1.WindowsNodePool) {
		p.Status.UpdateRevision = "p-2"
		p.Status.RolledBack = &v1alpha1.PoolRollback{Revision: "p-2", To: "p-1", Time: metav1.NewTime(time.Date(2126, 3, 1, 12, 0, 0, 0, time.UTC))}
	}
	undone := func(p *v1alpha1.WindowsNodePool) {
		rolledBack(p)
		p.Status.RolledBack.RequestedBy = "alice"
		p.Spec.UpdateStrategy.RollingUpdate.Undo = &v1alpha1.PoolUndo{Revision: "p-2", To: "p-1", RequestedBy: "alice", RequestedAt: &p.Status.RolledBack.Time}
	}
	for _, tt := range []struct {
		name, command string
		edit          func(*v1alpha1.WindowsNodePool)
		body, want    string
	}{
		{"pause", "pause p", nil, `"spec":{"paused":true}`, "windowsnodepool/p paused\n"},
		{"pause once more", "pause p", paused, "", "windowsnodepool/p is paused already\n"},
		{"resume", "resume p", paused, `"spec":{"paused":false}`, "windowsnodepool/p resumed\n"},
		{"resume what is not paused", "resume p", nil, "", "windowsnodepool/p is not paused, nothing was rolled back or undone, and none of its hosts waits for a confirmation\n"},
		{"resume what was rolled back", "resume p", rolledBack, `"spec":{"updateStrategy":{"rollingUpdate":{"resumedAt":"2126-03-01T12:00:00Z"}}}`, "windowsnodepool/p resumed\nHosts get revision p-2 again, which was rolled back because it broke hosts.\n"},
		{"resume what is paused and rolled back", "resume p", func(p *v1alpha1.WindowsNodePool) {
			paused(p)
			rolledBack(p)
		}, `"spec":{"paused":false}`, "windowsnodepool/p resumed\nRevision p-2 stays rolled back, as it broke hosts. To have hosts get it again: kubectl windows rollout resume p -n hosts\n"},
		{"resume what was undone", "resume p", undone, `"spec":{"updateStrategy":{"rollingUpdate":{"resumedAt":"2126-03-01T12:00:00Z","undo":null}}}`, "windowsnodepool/p resumed\nHosts get revision p-2 again, which alice had undone.\n"},
		{"resume what is paused and undone", "resume p", func(p *v1alpha1.WindowsNodePool) {
			paused(p)
			undone(p)
		}, `"spec":{"paused":false}`, "windowsnodepool/p resumed\nRevision p-2 stays undone, as alice has asked for. To have hosts get it again: kubectl windows rollout resume p -n hosts\n"},
		{"resume what was not undone though somebody asked", "resume p", func(p *v1alpha1.WindowsNodePool) {
			undone(p)
			p.Status.RolledBack = nil
		}, `"spec":{"updateStrategy":{"rollingUpdate":{"undo":null}}}`, "windowsnodepool/p resumed\n"},
		{"resume what is paused, and is not undone", "resume p", func(p *v1alpha1.WindowsNodePool) {
			paused(p)
			undone(p)
			p.Status.RolledBack, p.Status.Conditions = nil, []metav1.Condition{{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUndoRefused}}
		}, `"spec":{"paused":false}`, "windowsnodepool/p resumed\nSomebody has asked to go back to another revision, which is refused (condition Degraded): hosts get revision p-2.\n"},
		{"resume once more", "resume p", func(p *v1alpha1.WindowsNodePool) {
			rolledBack(p)
			p.Spec.UpdateStrategy.RollingUpdate.ResumedAt = new(p.Status.RolledBack.Time)
		}, "", "windowsnodepool/p is not paused, nothing was rolled back or undone, and none of its hosts waits for a confirmation\n"},
		{"restart", "restart windowsnodepools/p --dry-run=server", nil, `"spec":{"restarts":{"after":"2126-03-01T12:00:30Z"}}`, "windowsnodepool/p restarted (server dry run)\n"},
		{"restart what is paused", "restart p", paused, "", "windowsnodepool/p is paused: kubectl windows rollout resume p -n hosts\n"},
		{"a pool that does not exist", "restart q", nil, "", "windowsnodepools not found"},
		{"a host", "restart node/p", nil, "", "name a WindowsNodePool"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAPI(t)
			pool := finishedPool()
			if tt.edit != nil {
				tt.edit(pool)
			}
			a.servePool(pool)
			got := a.run(append([]string{"rollout"}, strings.Fields(tt.command)...)...)
			if !strings.Contains(got.stdout+got.stderr, tt.want) || (got.code == ExitOK) != (tt.body != "") {
				t.Errorf("code %d: %s%s", got.code, got.stdout, got.stderr)
			}
			if patches := a.asked("PATCH"); len(patches) != 0 != (tt.body != "") {
				t.Fatalf("requests %v", patches)
			}
			if tt.body != "" && (!strings.Contains(a.body("PATCH"), tt.body) || !strings.Contains(a.body("PATCH"), `"uid":"uid-p"`)) {
				t.Errorf("it sent %s", a.body("PATCH"))
			}
		})
	}
}

// TestRolloutResumeUnconfirmed: the hosts of the pool that wait for a confirmation get what it says, by the time that the controller has noted.
func TestRolloutResumeUnconfirmed(t *testing.T) {
	since := func(name, pool string, at time.Time) *v1alpha1.WindowsInstance {
		i := hostOfPool(name)
		i.Spec.PoolRef.Name, i.Status.UnconfirmedSince = pool, new(metav1.NewTime(at))
		return i
	}
	// By a controller whose clock is ahead.
	first := time.Date(2126, 3, 1, 12, 0, 0, 0, time.UTC)
	rolledBack := func(at time.Time) func(*v1alpha1.WindowsNodePool) {
		return func(p *v1alpha1.WindowsNodePool) {
			p.Status.UpdateRevision, p.Status.RolledBack = "p-2", &v1alpha1.PoolRollback{Revision: "p-2", To: "p-1", Time: metav1.NewTime(at)}
		}
	}
	for _, tt := range []struct {
		name       string
		edit       func(*v1alpha1.WindowsNodePool)
		body, want string
	}{
		{"the last one that waits", nil, `{"resumedAt":"2126-03-01T12:00:05Z"}`, "windowsnodepool/p resumed\nHosts that waited for a confirmation of what they are to have get what the pool says.\n"},
		{"and a rollback before", rolledBack(first), `{"resumedAt":"2126-03-01T12:00:05Z"}`, "windowsnodepool/p resumed\nHosts get revision p-2 again, which was rolled back because it broke hosts.\nHosts that waited for a confirmation of what they are to have get what the pool says.\n"},
		{"and a rollback after", rolledBack(first.Add(time.Minute)), `{"resumedAt":"2126-03-01T12:01:00Z"}`, "windowsnodepool/p resumed\nHosts get revision p-2 again, which was rolled back because it broke hosts.\nHosts that waited for a confirmation of what they are to have get what the pool says.\n"},
		{"and a pause", func(p *v1alpha1.WindowsNodePool) { p.Spec.Paused = true }, `"spec":{"paused":false}`, "windowsnodepool/p resumed\nHosts wait for a confirmation of what they are to have (status.blockedBy). To have them get what the pool says: kubectl windows rollout resume p -n hosts\n"},
		{"and a pause, and somebody has asked to go back, which is refused", func(p *v1alpha1.WindowsNodePool) {
			p.Spec.Paused, p.Status.UpdateRevision = true, "p-2"
			p.Spec.UpdateStrategy.RollingUpdate.Undo = &v1alpha1.PoolUndo{Revision: "p-2", To: "p-1"}
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUndoRefused}}
		}, `"spec":{"paused":false}`, "windowsnodepool/p resumed\nSomebody has asked to go back to another revision, which is refused (condition Degraded): hosts get revision p-2.\nHosts wait for a confirmation of what they are to have (status.blockedBy). To have them get what the pool says: kubectl windows rollout resume p -n hosts\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAPI(t, hostOfPool("a"), since("b", "p", first), since("c", "p", first.Add(5*time.Second)), since("d", "p", first), since("e", "q", first.Add(time.Hour)))
			pool := finishedPool()
			if tt.edit != nil {
				tt.edit(pool)
			}
			a.servePool(pool)
			got := a.run("rollout", "resume", "p")
			if got.code != ExitOK || got.stdout != tt.want || !strings.Contains(a.body("PATCH"), tt.body) {
				t.Errorf("code %d: %s%s, it sent %s", got.code, got.stdout, got.stderr, a.body("PATCH"))
			}
		})
	}
}

// TestDescribePool: what the pool does, and each host with what happens to it.
func TestDescribePool(t *testing.T) {
	outdated := hostOfPool("b")
	outdated.Status.DesiredRevision = "r2"
	outdated.Status.Conditions[0].Status, outdated.Status.Conditions[0].Message = metav1.ConditionFalse, "Its Node\nis not ready."
	a := newAPI(t, hostOfPool("a"), outdated)
	pool := finishedPool()
	pool.Status.BlockedBy = "b: The window of pool p opens."
	pool.Spec.Restarts.Policy = v1alpha1.RestartWhenPending
	pool.Spec.UpdateStrategy.Window = &v1alpha1.MaintenanceWindow{Schedule: "0 2 * * *", DurationSeconds: 7200, TimeZone: "UTC"}
	pool.Spec.UpdateStrategy.RollingUpdate.OnFailure, pool.Spec.UpdateStrategy.RollingUpdate.MaxFailures = v1alpha1.FailureRollback, new(int32(2))
	pool.Spec.WindowsUpdates.Install = v1alpha1.InstallSecurity
	pool.Spec.Remediation = &v1alpha1.PoolRemediation{AfterSeconds: new(int64(600)), Actions: []v1alpha1.PoolRemediationAction{v1alpha1.RemediateRestart}, MaxUnhealthy: new(intstr.FromString("40%"))}
	a.servePool(pool)
	a.handle(http.MethodGet, "/api/v1/namespaces/hosts/events", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"})
	})
	got := a.run("describe", "wnp/p")
	for _, want := range []string{
		"ConfigMap p", "at most 1 of the pool out of service, for 2h0m0s from \"0 2 * * *\" (UTC); no further host while more than 2 are broken; hosts that it breaks go back", "Windows updates:   Security\n", "when Windows waits for one", "Restart, after 10m0s, unless more than 40% are not ready",
		"p: 2 of 2 hosts are up to date, 2 ready\n├─ a   up to date\n└─ b   outdated, not ready: Its Node is not ready, waits: The window of pool p opens\n\nWaiting:\n  b: The window of pool p opens.\n", "\nEvents: <none>\n",
	} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if got.code != ExitOK || t.Failed() {
		t.Errorf("code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if status := a.run("rollout", "status", "p", "--watch=false"); !strings.HasPrefix(status.stdout, "p: 2 of 2 hosts") || !strings.Contains(got.stdout, status.stdout) {
		t.Errorf("status: %s%s", status.stdout, status.stderr)
	}
}

// TestUpdatesOf: the window and the bounds hold for what somebody asks for, too.
func TestUpdatesOf(t *testing.T) {
	s := v1alpha1.PoolUpdateStrategy{Type: v1alpha1.OnRequest, Window: &v1alpha1.MaintenanceWindow{Schedule: "0 2 * * *", DurationSeconds: 7200, TimeZone: "UTC"}}
	s.RollingUpdate.MaxUnavailable = new(intstr.FromString("20%"))
	if got, want := updatesOf(&s), `on request, at most 20% of the pool out of service, for 2h0m0s from "0 2 * * *" (UTC); no further host while more than 0 are broken`; got != want {
		t.Errorf("got %s", got)
	}
}

// TestHostLine: what a rollback does to a host.
func TestHostLine(t *testing.T) {
	pool := finishedPool()
	pool.Status.UpdateRevision = "p-2"
	for _, tt := range []struct{ name, had, want string }{
		{"a", "p-2", "up to date"}, {"b", "p-1", "kept from a revision that was rolled back"}, {"c", "p-1", "rolled back"},
	} {
		host := hostOfPool(tt.name)
		host.Status.PoolRevision = tt.had
		if got := stateOf(host, pool, "").text; got != "up to date" {
			t.Errorf("%s: nothing is rolled back, and it is %q", tt.name, got)
		}
		back := pool.DeepCopy()
		back.Status.RolledBack = &v1alpha1.PoolRollback{Revision: "p-2", To: "p-1", Instances: []string{"c"}}
		if got := stateOf(host, back, "").text; got != tt.want {
			t.Errorf("%s is %q, want %q", tt.name, got, tt.want)
		}
	}
	pool.Status.RolledBack = &v1alpha1.PoolRollback{Revision: "p-2", To: "p-1", RequestedBy: "alice", Message: "Pinned to revision 1.", WithoutPrograms: []string{"e"}}
	for _, tt := range []struct{ name, had, want string }{
		{"a", "p-2", "outdated"}, {"b", "p-1", "gone back"}, {"e", "p-2", "keeps a revision that was undone"},
	} {
		host := hostOfPool(tt.name)
		host.Status.PoolRevision = tt.had
		if got := stateOf(host, pool, "").text; got != tt.want {
			t.Errorf("%s is %q though its revision was undone, want %q", tt.name, got, tt.want)
		}
	}
	outdated := hostOfPool("a")
	outdated.Status.DesiredRevision = "r2"
	for _, tt := range []struct{ reason, message, want string }{
		{v1alpha1.ReasonRevisionOutdated, "The host has revision r1; the desired one is r2.", "outdated"},
		{v1alpha1.ReasonRevisionOutdated, "The host has revision r1; the desired one is r2. It is updated when it gets a disruption slot in the window of pool p (spec.updateStrategy.window).", "outdated: It is updated when it gets a disruption slot in the window of pool p (spec.updateStrategy.window)"},
		{v1alpha1.ReasonUpdateFailed, "The host works with revision r1; the desired one is r2. Operation op-1 failed before it changed the host: Disk\nfull.", "outdated: Operation op-1 failed before it changed the host: Disk full"},
		{v1alpha1.ReasonPaused, "spec.paused is true. So it is.", "outdated"},
	} {
		meta.SetStatusCondition(&outdated.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionUpToDate, Status: metav1.ConditionFalse, Reason: tt.reason, Message: tt.message})
		if got := stateOf(outdated, finishedPool(), "").text; got != tt.want {
			t.Errorf("it is %q, want %q", got, tt.want)
		}
	}
	if got := poolTree(pool, nil); !strings.Contains(got, "\nPinned to revision 1.\n") || !strings.Contains(got, "worked with last: e.\n") || !strings.Contains(got, "rollout resume p -n hosts\n") {
		t.Errorf("the pool is\n%s", got)
	}
}

// TestHostLineOfUpdates: the line of a host says how many updates of Windows it waits for, of those that its pool wants, and which ones failed.
func TestHostLineOfUpdates(t *testing.T) {
	failed := []v1alpha1.FailedUpdate{{Name: "KB1", Security: true}, {Name: "KB2"}}
	for _, tt := range []struct {
		name    string
		install v1alpha1.WindowsUpdatesInstall
		updates *v1alpha1.WindowsUpdatesStatus
		want    string
	}{
		{"not searched for", v1alpha1.InstallAll, nil, "up to date"},
		{"none wait", v1alpha1.InstallAll, &v1alpha1.WindowsUpdatesStatus{}, "up to date"},
		{"the pool wants none", v1alpha1.InstallNone, &v1alpha1.WindowsUpdatesStatus{Pending: 3, Security: 2, Failed: failed}, "up to date"},
		{"of an earlier release", "", &v1alpha1.WindowsUpdatesStatus{Pending: 3, Security: 2, Failed: failed}, "up to date"},
		{"they wait", v1alpha1.InstallAll, &v1alpha1.WindowsUpdatesStatus{Pending: 3, Security: 2}, "up to date, updates of Windows to be installed: 3"},
		{"those for security wait", v1alpha1.InstallSecurity, &v1alpha1.WindowsUpdatesStatus{Pending: 3, Security: 2}, "up to date, updates of Windows to be installed: 2"},
		{"others wait", v1alpha1.InstallSecurity, &v1alpha1.WindowsUpdatesStatus{Pending: 3}, "up to date"},
		{"some have failed", v1alpha1.InstallAll, &v1alpha1.WindowsUpdatesStatus{Pending: 3, Security: 2, Failed: failed}, "up to date, updates of Windows to be installed: 1, updates of Windows that could not be installed: KB1, KB2"},
		{"all have failed", v1alpha1.InstallSecurity, &v1alpha1.WindowsUpdatesStatus{Pending: 2, Security: 1, Failed: failed}, "up to date, updates of Windows that could not be installed: KB1"},
	} {
		host, pool := hostOfPool("a"), finishedPool()
		host.Status.WindowsUpdates, pool.Spec.WindowsUpdates.Install = tt.updates, tt.install
		if got := stateOf(host, pool, "").text; got != tt.want {
			t.Errorf("%s: it is %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestRolloutUndo: the hosts of a pool go back to an earlier revision that all of them worked with, and it is said what the controller
// makes of that.
func TestRolloutUndo(t *testing.T) {
	revision := func(name string, number int64, owner types.UID) appsv1.ControllerRevision {
		return appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "hosts", OwnerReferences: []metav1.OwnerReference{{Kind: "WindowsNodePool", Name: "p", UID: owner, Controller: new(true)}}},
			Data:       runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":{"template":{"nodeLabels":{"rack":"%d"}}}}`, number)}, Revision: number,
		}
	}
	all := []appsv1.ControllerRevision{revision("p-4", 4, "uid-p"), revision("p-1", 1, "uid-p"), revision("p-9", 9, "former"), revision("p-2", 2, "uid-p"), revision("p-3", 3, "uid-p")}
	worked := func(names ...string) func(*v1alpha1.WindowsNodePool) {
		return func(p *v1alpha1.WindowsNodePool) {
			p.Status.WorkedRevisions, p.Status.CurrentRevision = names, names[len(names)-1]
		}
	}
	pinned := func(p *v1alpha1.WindowsNodePool) {
		worked("p-1", "p-2")(p)
		p.Status.CurrentRevision = "p-2"
		p.Status.RolledBack = &v1alpha1.PoolRollback{Revision: "p-4", To: "p-2", RequestedBy: "bob", Message: "Pinned to revision 2 (p-2) by bob."}
	}
	for _, tt := range []struct {
		name, command string
		edit          func(*v1alpha1.WindowsNodePool)
		revisions     []appsv1.ControllerRevision
		body, want    string
	}{
		{"it is refused again while the pool is pinned", "undo p --to-revision=1 --reason=refuse", func(p *v1alpha1.WindowsNodePool) {
			pinned(p)
			p.Spec.UpdateStrategy.RollingUpdate.Undo = &v1alpha1.PoolUndo{Revision: "p-4", To: "p-1", Reason: "refuse", RequestedBy: "bob", RequestedAt: new(metav1.Unix(1_700_000_000, 0))}
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUndoRefused, Message: "Revision p-4 stays undone as it was."}}
		}, all, `"to":"p-1"`, "Revision p-4 stays undone as it was."},
		{"the one that worked before", "undo p", worked("p-1", "p-2", "p-4"), all, `"undo":{"reason":null,"revision":"p-4","to":"p-2"}`, "windowsnodepool/p goes back to revision 2\nPinned by alice.\nThese hosts cannot go back, for example because neither they nor windows-controller have the programs, and keep the revision they worked with last: a.\nIt ends with another template or payload. To end it: kubectl windows rollout resume p -n hosts\n"},
		{"the last that worked", "undo p", worked("p-1", "p-2"), all, `"to":"p-2"`, "goes back to revision 2\n"},
		{"with a reason", "undo p --reason=broken", worked("p-1", "p-4"), all, `"reason":"broken"`, "goes back to revision 1\n"},
		{"by its number", "undo p --to-revision=1 --dry-run", worked("p-1", "p-2"), all, `"to":"p-1"`, "windowsnodepool/p goes back to revision 1 (server dry run)\n"},
		{"of a release that recorded one only", "undo p", nil, all, `"to":"p-1"`, "goes back to revision 1\n"},
		{"once more", "undo p", pinned, all, "", "windowsnodepool/p is undone already. Pinned to revision 2 (p-2) by bob. To go back further, to revision 1: kubectl windows rollout undo p -n hosts --to-revision=1"},
		{"further", "undo p --to-revision=1", pinned, all, `"to":"p-1"`, "goes back to revision 1\n"},
		{"once more, and nothing worked before", "undo p", func(p *v1alpha1.WindowsNodePool) {
			pinned(p)
			p.Status.WorkedRevisions = []string{"p-2"}
		}, all, "", "windowsnodepool/p is undone already, and has no revision before that all its hosts worked with. Pinned to revision 2 (p-2) by bob."},
		{"while an earlier one is rolled out again", "undo p", func(p *v1alpha1.WindowsNodePool) {
			worked("p-1", "p-4", "p-2")(p)
			p.Status.CurrentRevision = "p-2"
		}, all, `"to":"p-2"`, "goes back to revision 2\n"},
		{"while the first one is rolled out again", "undo p", func(p *v1alpha1.WindowsNodePool) {
			worked("p-4", "p-2")(p)
			p.Status.CurrentRevision = "p-2"
		}, all, `"to":"p-2"`, "goes back to revision 2\n"},
		{"after a pin that went back past one has ended", "undo p", func(p *v1alpha1.WindowsNodePool) {
			worked("p-1", "p-2")(p)
			p.Status.CurrentRevision = "p-1"
		}, all, `"to":"p-1"`, "goes back to revision 1\n"},
		{"the present one", "undo p --to-revision=4", worked("p-1"), all, "", "windowsnodepool/p has revision 4 already"},
		{"what was undone", "undo p --to-revision=4", pinned, all, "", "revision 4 of windowsnodepool/p was undone. To have its hosts get it again: kubectl windows rollout resume p -n hosts"},
		{"the one that it is pinned to", "undo p --to-revision=2", pinned, all, "", "windowsnodepool/p is pinned to revision 2 already"},
		{"the one that it is pinned to, after another one was refused", "undo p --to-revision=2", func(p *v1alpha1.WindowsNodePool) {
			pinned(p)
			p.Spec.UpdateStrategy.RollingUpdate.Undo = &v1alpha1.PoolUndo{Revision: "p-4", To: "p-1", RequestedBy: "bob", RequestedAt: new(metav1.Unix(1_700_000_000, 0))}
		}, all, `"to":"p-2"`, "goes back to revision 2\n"},
		{"one that did not work", "undo p --to-revision=3", worked("p-1", "p-2"), all, "", "revision 3 of windowsnodepool/p is none that all its hosts worked with, or it was undone. To give them its template nevertheless, set spec.template to it: kubectl windows rollout history p -n hosts --revision=3"},
		{"one of another pool", "undo p --to-revision=9", worked("p-9"), all, "", "windowsnodepool/p has no revision 9: kubectl windows rollout history p -n hosts"},
		{"nothing worked before", "undo p", worked("p-4"), all, "", "windowsnodepool/p has no earlier revision that all its hosts worked with: kubectl windows rollout history p -n hosts"},
		{"none has worked yet", "undo p", func(p *v1alpha1.WindowsNodePool) { p.Status.CurrentRevision = "" }, all, "", "windowsnodepool/p has no earlier revision that all its hosts worked with: kubectl windows rollout history p -n hosts"},
		{"there is none yet", "undo p", nil, nil, "", "windowsnodepool/p has no revisions yet"},
		{"the one that worked before was deleted", "undo p", worked("p-1", "p-0", "p-4"), all, "", "ControllerRevision p-0, which all hosts of windowsnodepool/p worked with before, no longer exists: choose another one with --to-revision: kubectl windows rollout history p -n hosts"},
		{"it is refused", "undo p --reason=refuse", worked("p-1"), all, `"to":"p-1"`, "Revision p-4 is not undone."},
		{"history", "history p", worked("p-2", "p-1"), all, "", "REVISION   AGE         NAME   STATE\n1          <unknown>   p-1    the last that all hosts had\n2          <unknown>   p-2    all hosts had it\n3          <unknown>   p-3\n4          <unknown>   p-4    the present one, not on all hosts\n"},
		{"history of what was undone", "history p", pinned, all, "", "2          <unknown>   p-2    the pool is pinned to it\n3          <unknown>   p-3\n4          <unknown>   p-4    the present one, undone\n\nPinned to revision 2 (p-2) by bob.\nIt ends with another"},
		{"one of the history", "history p --revision=2", nil, all, "", "nodeLabels:\n  rack: \"2\"\n"},
		{"the same as when it had this revision before", "undo p", func(p *v1alpha1.WindowsNodePool) {
			worked("p-1", "p-2")(p)
			p.Spec.UpdateStrategy.RollingUpdate.Undo = &v1alpha1.PoolUndo{Revision: "p-4", To: "p-2", RequestedBy: "bob", RequestedAt: new(metav1.Unix(1_700_000_000, 0))}
		}, all, `"to":"p-2"`, "goes back to revision 2\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAPI(t)
			pool := finishedPool()
			pool.Status.UpdateRevision, pool.Status.CurrentRevision = "p-4", "p-1"
			if tt.edit != nil {
				tt.edit(pool)
			}
			a.servePool(pool)
			a.handle(http.MethodPatch, poolsResource, func(w http.ResponseWriter, _ *http.Request) {
				var patch struct{ Spec v1alpha1.WindowsNodePoolSpec }
				if err := json.Unmarshal([]byte(a.body("PATCH")), &patch); err != nil {
					t.Error(err)
				}
				undo, at := patch.Spec.UpdateStrategy.RollingUpdate.Undo, metav1.Unix(1_800_000_000, 0)
				if undo == nil {
					pool.Spec.UpdateStrategy.RollingUpdate.Undo = nil
					answer(w, pool)
					return
				}
				if known := pool.Spec.UpdateStrategy.RollingUpdate.Undo; known != nil && known.To == undo.To && known.Reason == undo.Reason { // it stays as it was recorded
					answer(w, pool)
					return
				}
				undo.RequestedBy, undo.RequestedAt = "alice", &at
				answered := pool.DeepCopy()
				answered.Spec.UpdateStrategy.RollingUpdate.Undo = undo
				if undo.Reason == "refuse" {
					answered.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUndoRefused, Message: "Revision p-4 is not undone."}}
				} else {
					answered.Status.RolledBack = &v1alpha1.PoolRollback{Revision: undo.Revision, To: undo.To, Time: at, RequestedBy: "alice", Message: "Pinned by alice.", WithoutPrograms: []string{"a"}}
				}
				answer(w, answered)
			})
			a.handle(http.MethodGet, "/apis/apps/v1/namespaces/hosts/controllerrevisions", func(w http.ResponseWriter, _ *http.Request) {
				answer(w, appsv1.ControllerRevisionList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevisionList"}, Items: tt.revisions})
			})
			got := a.run(append([]string{"rollout"}, strings.Fields(tt.command)...)...)
			if !strings.Contains(got.stdout+got.stderr, tt.want) {
				t.Errorf("code %d: %s%s", got.code, got.stdout, got.stderr)
			}
			patches := a.asked("PATCH")
			if len(patches) != 0 != (tt.body != "") {
				t.Fatalf("requests %v", patches)
			}
			if back := pool.RolledBack("p-4"); back.ByPerson() && len(patches) > 1 { // without a request the controller ends that
				t.Errorf("requests %v of a pool that is pinned", patches)
			}
			if tt.body != "" && (!strings.Contains(a.body("PATCH"), tt.body) || !strings.Contains(a.body("PATCH"), `"uid-p"`)) {
				t.Errorf("it sent %s", a.body("PATCH"))
			}
		})
	}
}

// TestRolloutUndoOvertaken: a pool that gets another revision before the controller has seen the request undoes nothing, and whoever asked is told so.
func TestRolloutUndoOvertaken(t *testing.T) {
	a := newAPI(t)
	pool := finishedPool()
	pool.Status.UpdateRevision, pool.Status.CurrentRevision, pool.Status.WorkedRevisions = "p-2", "p-1", []string{"p-1"}
	a.handle(http.MethodGet, poolsResource, func(w http.ResponseWriter, _ *http.Request) {
		now := pool.DeepCopy()
		if len(a.asked("PATCH")) > 0 {
			now.Status.UpdateRevision = "p-3"
		}
		answer(w, now)
	})
	a.handle(http.MethodPatch, poolsResource, func(w http.ResponseWriter, _ *http.Request) {
		asked := pool.DeepCopy()
		asked.Spec.UpdateStrategy.RollingUpdate.Undo = &v1alpha1.PoolUndo{Revision: "p-2", To: "p-1", RequestedBy: "alice", RequestedAt: new(metav1.Unix(1_800_000_000, 0))}
		answer(w, asked)
	})
	a.handle(http.MethodGet, "/apis/apps/v1/namespaces/hosts/controllerrevisions", serveRevision)
	a.run("rollout", "undo", "p").want(t, ExitFailure, "was to go back from revision p-2, and has another one now, p-3, so that nothing is undone: ask again: kubectl windows rollout undo p -n hosts")
}

// serveRevision serves revision 1 of pool p.
func serveRevision(w http.ResponseWriter, _ *http.Request) {
	answer(w, appsv1.ControllerRevisionList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevisionList"}, Items: []appsv1.ControllerRevision{{
		ObjectMeta: metav1.ObjectMeta{Name: "p-1", Namespace: "hosts", OwnerReferences: []metav1.OwnerReference{{Kind: "WindowsNodePool", Name: "p", UID: "uid-p", Controller: new(true)}}},
		Revision:   1,
	}}})
}

// TestRolloutUndoNotSeen: whoever may not see what becomes of a request is told so, and not that the controller does not answer.
func TestRolloutUndoNotSeen(t *testing.T) {
	a := newAPI(t)
	pool := finishedPool()
	pool.Status.UpdateRevision, pool.Status.CurrentRevision, pool.Status.WorkedRevisions = "p-2", "p-1", []string{"p-1"}
	a.handle(http.MethodGet, poolsResource, func(w http.ResponseWriter, _ *http.Request) {
		if len(a.asked("PATCH")) > 0 {
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "", "you may not")
			return
		}
		answer(w, pool)
	})
	a.handle(http.MethodPatch, poolsResource, func(w http.ResponseWriter, _ *http.Request) {
		asked := pool.DeepCopy()
		asked.Spec.UpdateStrategy.RollingUpdate.Undo = &v1alpha1.PoolUndo{Revision: "p-2", To: "p-1", RequestedBy: "alice", RequestedAt: new(metav1.Unix(1_800_000_000, 0))}
		answer(w, asked)
	})
	a.handle(http.MethodGet, "/apis/apps/v1/namespaces/hosts/controllerrevisions", serveRevision)
	a.run("rollout", "undo", "p").want(t, ExitFailure, "the request is recorded, and what becomes of it cannot be seen: you may not")
}
