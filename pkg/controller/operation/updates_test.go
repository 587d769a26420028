// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/drain"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
)

// scriptedUpdates is what becomes of requests about updates.
type scriptedUpdates struct {
	// ends is how each action ends. A missing one ends with nothing done.
	ends map[api.UpdateAction]api.UpdateAttempt
	// refused is why none is met.
	refused string
	// silent: the service of the host notices nothing.
	silent bool
	// polls counts how often each request was made; it has ended at the third.
	polls    map[api.UpdatesRequest]int
	requests []api.UpdatesRequest
}

// Updates implements [Hosts].
func (h *scriptedHost) Updates(ctx context.Context, _ *v1alpha1.WindowsInstance, request api.UpdatesRequest) (*api.UpdateAttempt, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ask(ctx, "Updates "+string(request.Action)); err != nil {
		return nil, err
	}
	u := &h.updates
	if u.refused != "" {
		return nil, &agentclient.Error{Step: agentclient.StepRefused, Err: errors.New(u.refused)}
	}
	if u.polls == nil {
		u.polls = map[api.UpdatesRequest]int{}
	}
	if u.polls[request]++; u.polls[request] == 1 {
		u.requests = append(u.requests, request)
	}
	if u.silent || u.polls[request] == 1 {
		return nil, nil //nolint:nilnil // it has not been noticed
	}
	a := u.ends[request.Action]
	a.Request, a.StartedAt = request, h.clock.Now()
	if u.polls[request] > 2 {
		a.EndedAt = h.clock.Now()
	} else {
		a = api.UpdateAttempt{Request: request, StartedAt: a.StartedAt, Total: a.Total}
	}
	return &a, nil
}

func withUpdates(op v1alpha1.Operation) v1alpha1.Operation {
	op.Reboot.InstallUpdates = v1alpha1.InstallSecurity
	return op
}

const kb = "KB5044281"

// goodUpdates is a host on which all goes well.
func goodUpdates() map[api.UpdateAction]api.UpdateAttempt {
	return map[api.UpdateAction]api.UpdateAttempt{
		api.ActionDownload: {Total: 1, Succeeded: []string{kb}},
		api.ActionInstall:  {Total: 1, Succeeded: []string{kb}, RebootRequired: true},
		api.ActionVerify:   {Succeeded: []string{kb}},
	}
}

// TestUpdates: what is done to the host and its Node, and what is said of it.
func TestUpdates(t *testing.T) {
	t.Parallel()
	failed := []api.UpdateFailure{{Name: kb, Error: "it cannot be installed: HRESULT 0x80073712"}}
	for _, tt := range []struct {
		name    string
		change  func(*scriptedHost)
		phase   v1alpha1.OperationPhase
		message string // a part of it
		// restarts and drains are how often that was done.
		restarts, drains int
	}{
		{"installed", func(*scriptedHost) {}, v1alpha1.OperationSucceeded, "Installed: " + kb + ". The host was restarted.", 1, 1},
		{
			"nothing waits", func(h *scriptedHost) { h.updates.ends = nil },
			v1alpha1.OperationSucceeded, "No updates of Windows wait", 0, 0,
		},
		{"no restart is needed", func(h *scriptedHost) {
			h.updates.ends[api.ActionInstall] = api.UpdateAttempt{Total: 1, Succeeded: []string{kb}}
		}, v1alpha1.OperationSucceeded, "Nothing that was installed needs a restart.", 0, 1},
		{"the disk is full", func(h *scriptedHost) {
			h.updates.ends[api.ActionDownload] = api.UpdateAttempt{Error: "volume C: has too little room"}
		}, v1alpha1.OperationFailed, "The updates of Windows cannot be downloaded: volume C: has too little room. The host was not restarted.", 0, 0},
		{"none can be downloaded", func(h *scriptedHost) {
			h.updates.ends[api.ActionDownload] = api.UpdateAttempt{Total: 1, Failures: failed}
		}, v1alpha1.OperationFailed, kb + ": it cannot be installed: HRESULT 0x80073712", 0, 0},
		{"only a person can install what waits", func(h *scriptedHost) {
			h.updates.ends[api.ActionDownload] = api.UpdateAttempt{Total: 1, Failures: []api.UpdateFailure{{Name: kb, Interactive: true, Error: "it may ask questions"}}}
		}, v1alpha1.OperationFailed, "Updates of Windows could not be installed: " + kb + ": it may ask questions. The host was not restarted.", 0, 0},
		{"none can be downloaded, and only a person can install one", func(h *scriptedHost) {
			h.updates.ends[api.ActionDownload] = api.UpdateAttempt{Total: 2, Failures: append([]api.UpdateFailure{{Name: "KB2", Interactive: true, Error: "it may ask questions"}}, failed...)}
		}, v1alpha1.OperationFailed, "HRESULT 0x80073712. Those that ask no questions are tried again a day later", 0, 0},
		{"one cannot be installed", func(h *scriptedHost) {
			h.updates.ends[api.ActionDownload] = api.UpdateAttempt{Total: 2, Succeeded: []string{kb, "KB2"}}
			h.updates.ends[api.ActionInstall] = api.UpdateAttempt{Total: 2, Succeeded: []string{"KB2"}, Failures: failed, RebootRequired: true}
			h.updates.ends[api.ActionVerify] = api.UpdateAttempt{Failures: failed}
		}, v1alpha1.OperationFailed, "HRESULT 0x80073712. They are tried again a day later, or when somebody asks (kubectl windows reboot win-1 -n windows-hosts --install-updates=Security).", 1, 1},
		{"none can be installed", func(h *scriptedHost) {
			h.updates.ends[api.ActionInstall] = api.UpdateAttempt{Total: 1, Failures: failed}
		}, v1alpha1.OperationFailed, "HRESULT 0x80073712. They are tried again a day later, or when somebody asks (kubectl windows reboot win-1 -n windows-hosts --install-updates=Security). The host was not restarted. The drain was over.", 0, 1},
		{"none can be installed, and Windows waits for a restart", func(h *scriptedHost) {
			h.updates.ends[api.ActionInstall] = api.UpdateAttempt{Total: 1, Failures: failed, RebootRequired: true}
			h.updates.ends[api.ActionVerify] = api.UpdateAttempt{Failures: failed}
		}, v1alpha1.OperationFailed, "HRESULT 0x80073712.", 1, 1},
		{"it is not begun", func(h *scriptedHost) {
			h.updates.ends[api.ActionInstall] = api.UpdateAttempt{Total: 1, Error: "it was not begun: searching: HRESULT 0x8024001e"}
		}, v1alpha1.OperationFailed, "The updates of Windows cannot be installed: it was not begun: searching: HRESULT 0x8024001e. The host was not restarted. The drain was over.", 0, 1},
		{"it is not begun, and Windows waits for a restart", func(h *scriptedHost) {
			h.updates.ends[api.ActionInstall] = api.UpdateAttempt{Total: 1, Error: "Windows has to be restarted first", RebootRequired: true}
		}, v1alpha1.OperationSucceeded, "Not completed: Windows has to be restarted first.", 1, 1},
		{"Windows takes it back", func(h *scriptedHost) {
			h.updates.ends[api.ActionVerify] = api.UpdateAttempt{Failures: failed}
		}, v1alpha1.OperationFailed, "HRESULT 0x80073712", 1, 1},
		{"it cannot be verified", func(h *scriptedHost) {
			h.updates.ends[api.ActionVerify] = api.UpdateAttempt{Error: "no network"}
		}, v1alpha1.OperationSucceeded, "Installed: " + kb, 1, 1},
		{"the service does not run", func(h *scriptedHost) { h.updates.refused = "the service does not run" }, v1alpha1.OperationFailed, "the service does not run", 0, 0},
		{"the service does not notice", func(h *scriptedHost) { h.updates.silent = true }, v1alpha1.OperationFailed, "does not notice the request", 0, 0},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(byController(withUpdates(rebootOperation(v1alpha1.RebootGraceful)))))
			f.host.updates.ends = goodUpdates()
			tt.change(f.host)
			op := f.finish()
			if op.Phase != tt.phase || !strings.Contains(op.Message, tt.message) {
				t.Errorf("it is %s: %s; want %s with %q", op.Phase, op.Message, tt.phase, tt.message)
			}
			if f.host.restarts() != tt.restarts || f.drain.runs != tt.drains {
				t.Errorf("%d restarts and %d drains, want %d and %d", f.host.restarts(), f.drain.runs, tt.restarts, tt.drains)
			}
			if node := f.node(); node.Spec.Unschedulable || drain.IsMarked(node, string(v1alpha1.OperationReboot), v1alpha1.ControllerRequester) {
				t.Errorf("the Node is left cordoned: %+v", node.Spec)
			}
			for _, r := range f.host.updates.requests {
				if r.ID != op.ID || r.Scope != api.UpdatesSecurity || r.Retry {
					t.Errorf("request %+v", r)
				}
			}
		})
	}
}

// TestUpdatesAfterTheRestart: what Windows installs only after the restart is not left out without a word.
func TestUpdatesAfterTheRestart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		pool bool
		end  api.UpdateAttempt
		want string
	}{
		{
			"a person has asked", false, api.UpdateAttempt{Total: 2, Done: 1, AfterRestart: 1, Succeeded: []string{kb}, RebootRequired: true},
			"Installed: " + kb + ". 1 update can be installed only after the restart. Install it then (kubectl windows reboot win-1 -n windows-hosts --install-updates=Security). The host was restarted.",
		},
		{
			"the pool wants it", true, api.UpdateAttempt{Total: 3, Done: 1, AfterRestart: 2, Succeeded: []string{kb}, RebootRequired: true},
			"2 updates can be installed only after the restart. The pool installs them an hour later at the earliest, or when somebody asks (kubectl windows reboot win-1 -n windows-hosts --install-updates=Security). The host was restarted.",
		},
		{
			"nothing was installed", false, api.UpdateAttempt{Total: 1, AfterRestart: 1, Error: "Windows has to be restarted first", RebootRequired: true},
			"Not completed: Windows has to be restarted first. 1 update can be installed only after the restart.",
		},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			op := withUpdates(rebootOperation(v1alpha1.RebootGraceful))
			var changes []change
			if tt.pool {
				op, changes = byController(op), []change{inPool("p"), becauseOf(v1alpha1.CauseWindowsUpdates)}
			}
			f := newFixture(t, newInstance(op, changes...), updated())
			f.host.updates.ends = goodUpdates()
			f.host.updates.ends[api.ActionInstall] = tt.end
			if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded || !strings.Contains(op.Message, tt.want) {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
		})
	}
}

// TestVerifiedUpdates: what the last step says of the updates that were installed, if any were.
func TestVerifiedUpdates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(map[api.UpdateAction]api.UpdateAttempt)
		want   string
	}{
		{"they are proven", func(map[api.UpdateAction]api.UpdateAttempt) {}, "Windows does not offer again what was installed."},
		{"nothing was installed before the restart", func(ends map[api.UpdateAction]api.UpdateAttempt) {
			ends[api.ActionInstall] = api.UpdateAttempt{Total: 1, Error: "Windows has to be restarted first", RebootRequired: true}
			ends[api.ActionVerify] = api.UpdateAttempt{}
		}, "The host has searched for updates of Windows again."},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(byController(withUpdates(rebootOperation(v1alpha1.RebootGraceful)))))
			f.host.updates.ends = goodUpdates()
			tt.change(f.host.updates.ends)
			if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded || op.FindStep(v1alpha1.StepVerifyUpdates).Message != tt.want {
				t.Errorf("it is %s: %s; verified: %s", op.Phase, op.Message, op.FindStep(v1alpha1.StepVerifyUpdates).Message)
			}
		})
	}
}

// TestUpdatesProgress: how far a host is, and that it waits for Windows.
func TestUpdatesProgress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   api.UpdateAttempt
		want string
	}{
		{api.UpdateAttempt{}, "The host searches for updates"},
		{api.UpdateAttempt{Total: 3, Done: 1}, "1 of 3 updates are done"},
		{
			api.UpdateAttempt{WaitsUntil: time.Date(2026, 3, 5, 12, 15, 7, 0, time.UTC)},
			"Windows still offers what was installed, and may be completing it; the host searches again until 2026-03-05T12:15:07Z",
		},
	} {
		if got := describeProgress(&tt.in); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestUpdatesOfAPerson: who asks has those tried again that have failed.
func TestUpdatesOfAPerson(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(withUpdates(rebootOperation(v1alpha1.RebootGraceful))))
		f.host.updates.ends = goodUpdates()
		if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded || len(f.host.updates.requests) != 3 || !f.host.updates.requests[0].Retry {
			t.Errorf("it is %s: %s; requests %+v", op.Phase, op.Message, f.host.updates.requests)
		}
	})
}

// TestUpdatesOfAPersonAreNotBegun: nothing was done to the host, so that its Node takes pods again whoever has asked.
func TestUpdatesOfAPersonAreNotBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(withUpdates(rebootOperation(v1alpha1.RebootGraceful))))
		f.host.updates.ends = goodUpdates()
		f.host.updates.ends[api.ActionInstall] = api.UpdateAttempt{Total: 1, Error: "it was not begun"}
		if op := f.finish(); op.Phase != v1alpha1.OperationFailed || f.node().Spec.Unschedulable || strings.Contains(op.Message, "stays cordoned") {
			t.Errorf("it is %s: %s; the Node: %+v", op.Phase, op.Message, f.node().Spec)
		}
	})
}

// TestUpdatesOfAPersonArePaused: nothing is begun on a host that somebody has paused while its updates were downloaded.
func TestUpdatesOfAPersonArePaused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(withUpdates(rebootOperation(v1alpha1.RebootGraceful))))
		f.host.updates.ends = goodUpdates()
		f.host.fail["Updates "+string(api.ActionDownload)] = func() error {
			i := f.get()
			i.Spec.Paused = true
			return f.raw.Update(t.Context(), i)
		}
		op := f.finish()
		if op.Phase != v1alpha1.OperationSucceeded || !strings.Contains(op.Message, "are not installed now. Not begun, because spec.paused is true.") || f.drain.runs+f.host.restarts() != 0 || f.node().Spec.Unschedulable {
			t.Errorf("it is %s: %s; %d drains, %d restarts", op.Phase, op.Message, f.drain.runs, f.host.restarts())
		}
	})
}

// TestUpdatesAreInterrupted: the controller may be killed at any time. The host goes on by itself, and nothing is done twice.
func TestUpdatesAreInterrupted(t *testing.T) {
	t.Parallel()
	for _, step := range planUpdates() {
		inBubble(t, step, func(t *testing.T) {
			f := newFixture(t, newInstance(byController(withUpdates(rebootOperation(v1alpha1.RebootGraceful)))))
			f.host.updates.ends = goodUpdates()
			r, stop := f.process()
			var killed atomic.Bool
			f.mu.Lock()
			f.onWrite = func(_ bool, i *v1alpha1.WindowsInstance) error {
				if s := i.Status.Operation.FindStep(step); s != nil && s.StartedAt != nil && !killed.Swap(true) {
					return errors.New("the process is killed")
				}
				return nil
			}
			f.mu.Unlock()
			f.reconcile(r)
			f.eventually("the step to begin", killed.Load)
			stop()
			r, stop = f.process()
			defer stop()
			f.reconcile(r)
			op := f.waitForEnd()
			if op.Phase != v1alpha1.OperationSucceeded || f.host.restarts() != 1 || len(f.host.updates.requests) != 3 {
				t.Errorf("it is %s: %s; %d restarts, requests %+v", op.Phase, op.Message, f.host.restarts(), f.host.updates.requests)
			}
			if f.node().Spec.Unschedulable {
				t.Error("the Node is left cordoned")
			}
		})
	}
}

// TestUpdatesWhileTheHostIsAway: a connection that breaks in the middle of an installation is no failure.
func TestUpdatesWhileTheHostIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(byController(withUpdates(rebootOperation(v1alpha1.RebootGraceful)))))
		f.host.updates.ends = goodUpdates()
		away := time.Now().Add(90 * time.Minute)
		f.host.fail = map[string]func() error{"Updates " + string(api.ActionInstall): func() error {
			if time.Now().Before(away) {
				return errRefusedPort
			}
			return nil
		}}
		if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
}

// TestUpdatesWhileTheServiceIsAway: somebody restarts the host in the middle of an installation, so that its service does not run for a while. One that
// does not come back is not waited for until the step is over.
func TestUpdatesWhileTheServiceIsAway(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		away  time.Duration
		phase v1alpha1.OperationPhase
	}{
		{"it comes back", 30 * time.Minute, v1alpha1.OperationSucceeded},
		{"it does not", 3 * time.Hour, v1alpha1.OperationFailed},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(byController(withUpdates(rebootOperation(v1alpha1.RebootGraceful)))))
			f.host.updates.ends = goodUpdates()
			polls, began := 0, time.Time{}
			f.host.fail = map[string]func() error{"Updates " + string(api.ActionInstall): func() error {
				if polls++; polls == 2 {
					began = time.Now() // it is in the middle
				}
				if polls > 2 && time.Since(began) < tt.away {
					return &agentclient.Error{Step: agentclient.StepRefused, Err: errors.New("the service does not run")}
				}
				return nil
			}}
			if op := f.finish(); op.Phase != tt.phase || tt.phase == v1alpha1.OperationFailed && (!strings.Contains(op.Message, "the service does not run") || time.Since(began) > time.Hour) {
				t.Errorf("it is %s after %s: %s", op.Phase, time.Since(began), op.Message)
			}
		})
	}
}

// updated is pool p, whose hosts get the security updates.
func updated(edit ...func(*v1alpha1.WindowsNodePool)) *v1alpha1.WindowsNodePool {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "p"}}
	pool.Spec.WindowsUpdates.Install = v1alpha1.InstallSecurity
	for _, e := range edit {
		e(pool)
	}
	return pool
}

// drained is a host in no pool that is being drained.
func drained() *v1alpha1.WindowsInstance {
	return newInstance(reconfigureOperation(), func(i *v1alpha1.WindowsInstance) {
		i.Name, i.UID = "win-2", "uid-2"
		op := i.Status.Operation
		op.Phase, op.Steps = v1alpha1.OperationRunning, newSteps(plan(op, true))
		for _, name := range []string{v1alpha1.StepCordon, v1alpha1.StepDrain} {
			op.FindStep(name).State = v1alpha1.StepSucceeded
		}
	})
}

// TestUpdatesWaitForASlot: a host downloads while another one has the slot, and is not touched before it gets it.
func TestUpdatesWaitForASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		other := drained()
		f := newFixture(t, newInstance(byController(withUpdates(rebootOperation(v1alpha1.RebootGraceful))), inPool("p"), becauseOf(v1alpha1.CauseWindowsUpdates)), updated(), other)
		f.host.updates.ends = goodUpdates()
		r, _ := f.process()
		f.reconcile(r)
		f.eventually("it to wait", func() bool {
			return strings.HasPrefix(f.get().Status.Operation.Message, "Waits for a slot: another host is being changed: win-2;")
		})
		if op := f.get().Status.Operation; op.FindStep(v1alpha1.StepDownloadUpdates).State != v1alpha1.StepSucceeded || f.node().Spec.Unschedulable || f.drain.runs > 0 || len(f.host.updates.requests) != 1 {
			t.Errorf("it does not wait: %+v", op)
		}
		if err := f.raw.Delete(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if op := f.waitForEnd(); op.Phase != v1alpha1.OperationSucceeded || f.drain.runs != 1 || f.host.restarts() != 1 || op.AdmittedImpact != v1alpha1.ImpactReboot {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
}

// TestUpdatesWithSomebodyAtWork: Windows refuses the restart of a host that somebody has logged on to while updates were downloaded, or it
// waited. That is known before pods leave.
func TestUpdatesWithSomebodyAtWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		person bool
		at     int // the question for sessions from which on somebody is logged on
		want   v1alpha1.OperationPhase
		drains int
		asks   int // for updates
	}{
		{"in the beginning", false, 1, v1alpha1.OperationFailed, 0, 0},
		{"while they were downloaded", false, 2, v1alpha1.OperationFailed, 0, 1},
		{"a person has asked for them, and somebody logs on", true, 2, v1alpha1.OperationFailed, 0, 1},
		{"nobody does", false, 0, v1alpha1.OperationSucceeded, 1, 3},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			changes := []change{inPool("p"), becauseOf(v1alpha1.CauseWindowsUpdates)}
			op := byController(withUpdates(rebootOperation(v1alpha1.RebootGraceful)))
			if tt.person {
				changes, op = nil, withUpdates(rebootOperation(v1alpha1.RebootGraceful))
			}
			f := newFixture(t, newInstance(op, changes...), updated())
			f.host.updates.ends = goodUpdates()
			asked := 0
			f.host.fail["Facts"] = func() error {
				if asked++; asked == tt.at {
					f.host.sessions = []api.Session{{ID: 3, User: `W\bob`}}
				}
				return nil
			}
			ended := f.finish()
			if ended.Phase != tt.want || tt.want == v1alpha1.OperationFailed && !strings.Contains(ended.Message, `these people are logged on: W\bob (session 3)`) {
				t.Errorf("it is %s: %s", ended.Phase, ended.Message)
			}
			if f.drain.runs != tt.drains || f.host.restarts() != tt.drains || f.node().Spec.Unschedulable || len(f.host.updates.requests) != tt.asks {
				t.Errorf("%d drains, %d restarts, requests %+v", f.drain.runs, f.host.restarts(), f.host.updates.requests)
			}
		})
	}
}

// TestUpdatesDoNotWaitForever: a host that waits has no other operation, so that it gives up when that may last. Nothing was done to it.
func TestUpdatesDoNotWaitForever(t *testing.T) {
	t.Parallel()
	withdraw := func(edit func(*v1alpha1.WindowsNodePool)) func(*fixture) {
		return func(f *fixture) {
			pool := updated()
			if err := f.raw.Get(f.t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
				f.t.Fatal(err)
			}
			edit(pool)
			if err := f.raw.Update(f.t.Context(), pool); err != nil {
				f.t.Error(err)
			}
		}
	}
	for _, tt := range []struct {
		name string
		do   func(*fixture)
		want string
	}{
		{"the slot stays away", func(f *fixture) {
			f.edit(func(i *v1alpha1.WindowsInstance) {
				i.Status.Operation.FindStep(v1alpha1.StepWaitForSlot).StartedAt = &metav1.Time{Time: time.Now().Add(time.Minute - updatesWait)}
			})
		}, "The host has waited for 4h. Waits for a slot: another host is being changed: win-2;"},
		{"the window closes", withdraw(func(p *v1alpha1.WindowsNodePool) {
			p.Spec.UpdateStrategy.Window = &v1alpha1.MaintenanceWindow{Schedule: "0 0 29 2 *", DurationSeconds: 60}
		}), "The window of pool p opens at"},
		{"it is to get another configuration", func(f *fixture) { f.policy.givesWayTo.Store(new("the host gets another configuration.")) }, "First, the host gets another configuration."},
		{"its Node is repaired", func(f *fixture) { f.policy.givesWayTo.Store(new("the Node is not ready and will be repaired.")) }, "First, the Node is not ready and will be repaired."},
		{"it has to join again", func(f *fixture) {
			f.edit(func(i *v1alpha1.WindowsInstance) {
				meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonKubeletCertificateUnusable})
			})
		}, "First, the host has to be configured again."},
		{"the pool is paused", withdraw(func(p *v1alpha1.WindowsNodePool) { p.Spec.Paused = true }), "spec.paused of pool p is true."},
		{"the pool wants none any more", withdraw(func(p *v1alpha1.WindowsNodePool) { p.Spec.WindowsUpdates.Install = v1alpha1.InstallNone }), "does not ask for it any more."},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(byController(withUpdates(rebootOperation(v1alpha1.RebootGraceful))), inPool("p"), becauseOf(v1alpha1.CauseWindowsUpdates)), updated(), drained())
			f.host.updates.ends = goodUpdates()
			r, _ := f.process()
			f.reconcile(r)
			f.eventually("it to wait", func() bool { return strings.HasPrefix(f.get().Status.Operation.Message, "Waits for a slot") })
			began := time.Now()
			tt.do(f)
			op := f.waitForEnd()
			if op.Phase != v1alpha1.OperationSucceeded || !strings.HasPrefix(op.Message, "Updates of Windows were downloaded, and are not installed now. ") || !strings.Contains(op.Message, tt.want) || time.Since(began) > 5*time.Minute {
				t.Errorf("after %s it is %s: %s", time.Since(began), op.Phase, op.Message)
			}
			if f.node().Spec.Unschedulable || f.drain.runs > 0 || len(f.host.updates.requests) != 1 || op.AdmittedImpact != "" {
				t.Errorf("something was done: %+v", op)
			}
		})
	}
}

// TestUpdatesNeedNoWorker: a host that downloads or searches for hours keeps no other operation from being run.
func TestUpdatesNeedNoWorker(t *testing.T) {
	t.Parallel()
	for _, step := range []string{v1alpha1.StepDownloadUpdates, v1alpha1.StepVerifyUpdates} {
		inBubble(t, step, func(t *testing.T) {
			f := newFixture(t, newInstance(byController(withUpdates(rebootOperation(v1alpha1.RebootGraceful))), func(i *v1alpha1.WindowsInstance) {
				op := i.Status.Operation
				op.Phase, op.Steps = v1alpha1.OperationRunning, newSteps(planUpdates())
				begin(op.FindStep(step), time.Now())
			}))
			f.host.updates.ends = goodUpdates()
			r, stop := f.process()
			defer stop()
			yielded := false
			e := f.executing(r, step)
			e.yield = func() { yielded = yielded || len(f.host.updates.requests) == 0 }
			defer e.stopRecordingLate() // as step does
			if _, err := steps[step].run(e, t.Context()); err != nil || !yielded {
				t.Errorf("it has given its worker to another one before it waits: %v; %v", yielded, err)
			}
		})
	}
}

// TestUpdatesCanceledAtTheEnd: the Node takes pods again while the last search goes on, also for the process that goes on with it.
func TestUpdatesCanceledAtTheEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, "by another process", func(t *testing.T) {
		f := newFixture(t, newInstance(byController(withUpdates(rebootOperation(v1alpha1.RebootGraceful))), func(i *v1alpha1.WindowsInstance) {
			op := i.Status.Operation
			op.Phase, op.Steps = v1alpha1.OperationRunning, newSteps(planUpdates())
			for n := range op.Steps {
				begin(&op.Steps[n], time.Now())
				if op.Steps[n].Name != v1alpha1.StepVerifyUpdates {
					end(&op.Steps[n], v1alpha1.StepSucceeded, "", time.Now())
				}
			}
			op.CancelRequestedBy, op.CancelRequestedAt = "bob", new(metav1.Now())
		}))
		r, stop := f.process()
		defer stop()
		f.reconcile(r)
		if op := f.waitForEnd(); !strings.Contains(op.Message, "Updates were installed, and the Node has been taken care of.") {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
}

// TestDownloadGivesWay: a host whose Node is not ready is not kept from its repair by a download, which may take hours.
func TestDownloadGivesWay(t *testing.T) {
	t.Parallel()
	inBubble(t, "by the controller", func(t *testing.T) {
		f := newFixture(t, newInstance(byController(withUpdates(rebootOperation(v1alpha1.RebootGraceful))), inPool("p"), becauseOf(v1alpha1.CauseWindowsUpdates)), updated())
		f.host.updates.silent = true
		r, _ := f.process()
		f.reconcile(r)
		f.eventually("it to download", func() bool {
			return strings.HasPrefix(f.get().Status.Operation.Message, "Downloading updates of Windows.")
		})
		f.policy.givesWayTo.Store(new("the Node is not ready and will be repaired."))
		began := time.Now()
		op := f.waitForEnd()
		if op.Phase != v1alpha1.OperationSucceeded || !strings.HasSuffix(op.Message, "are not installed now. First, the Node is not ready and will be repaired.") || time.Since(began) > time.Minute {
			t.Errorf("after %s it is %s: %s", time.Since(began), op.Phase, op.Message)
		}
		if f.node().Spec.Unschedulable || f.drain.runs > 0 || f.host.restarts() > 0 {
			t.Errorf("cordoned %v, %d drains, %d restarts", f.node().Spec.Unschedulable, f.drain.runs, f.host.restarts())
		}
	})
}
