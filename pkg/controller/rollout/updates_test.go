// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// waitingFor is what a host says of updates.
func waitingFor(pending, security int32, failed ...v1alpha1.FailedUpdate) func(*v1alpha1.WindowsInstance) {
	return func(i *v1alpha1.WindowsInstance) {
		i.Status.WindowsUpdates = &v1alpha1.WindowsUpdatesStatus{SearchedAt: at(-time.Hour), Pending: pending, Security: security, Failed: failed}
	}
}

// TestUpdatesDue: updates are installed where the pool wants them, one attempt after the other, and none of those that failed before
// their time.
func TestUpdatesDue(t *testing.T) {
	const (
		cause  = v1alpha1.CauseWindowsUpdates
		reboot = v1alpha1.OperationReboot
	)
	failedSecurity := v1alpha1.FailedUpdate{Name: "KB1", Security: true, RetryAt: *at(5 * time.Hour)}
	failedOther := v1alpha1.FailedUpdate{Name: "KB2", RetryAt: *at(7 * time.Hour)}
	due := v1alpha1.FailedUpdate{Name: "KB3", Security: true, RetryAt: *at(-time.Hour)}
	for _, tt := range []struct {
		name    string
		install v1alpha1.WindowsUpdatesInstall
		edit    []func(*v1alpha1.WindowsInstance)
		want    bool
		due     time.Duration // from testNow; minus a year: at any time
	}{
		{name: "nobody wants it", install: v1alpha1.InstallNone, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 1)}},
		{name: "an older object", edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 1)}},
		{name: "the host does not say", install: v1alpha1.InstallAll},
		{name: "none waits", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(0, 0)}},
		{name: "none for security", install: v1alpha1.InstallSecurity, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 0)}},
		{name: "one for security", install: v1alpha1.InstallSecurity, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 1)}, want: true, due: never},
		{name: "all", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 0)}, want: true, due: never},
		{name: "it has failed", install: v1alpha1.InstallSecurity, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 1, failedSecurity)}, want: true, due: 5 * time.Hour},
		{name: "it has failed, and another one waits", install: v1alpha1.InstallSecurity, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 2, failedSecurity)}, want: true, due: never},
		{name: "it has failed long ago", install: v1alpha1.InstallSecurity, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 1, due)}, want: true, due: never},
		{name: "both have failed", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 1, failedOther, failedSecurity)}, want: true, due: 5 * time.Hour},
		{name: "another one has failed", install: v1alpha1.InstallSecurity, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 1, failedOther)}, want: true, due: never},
		{name: "an attempt failed", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationFailed, -time.Minute)}, want: true, due: 59 * time.Minute},
		{name: "two did", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationFailed, -time.Minute), did(reboot, cause, v1alpha1.OperationFailed, -3*time.Hour)}, want: true, due: 119 * time.Minute},
		{name: "two did, and the pool drains in another way since", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 0), drainedOtherwise(cause, -time.Minute), drainedOtherwise(cause, -3*time.Hour)}, want: true, due: redrainPause - time.Minute},
		{name: "somebody canceled it", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationCanceled, -time.Hour)}, want: true, due: 5 * time.Hour},
		{name: "one has just succeeded", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationSucceeded, -10*time.Minute)}, want: true, due: 50 * time.Minute},
		{name: "the second one has just succeeded", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationSucceeded, -10*time.Minute), did(reboot, cause, v1alpha1.OperationSucceeded, -2*time.Hour)}, want: true, due: 110 * time.Minute},
		{name: "many have", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){
			waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationSucceeded, -time.Hour), did(reboot, cause, v1alpha1.OperationSucceeded, -24*time.Hour), did(reboot, cause, v1alpha1.OperationSucceeded, -41*time.Hour),
			did(reboot, cause, v1alpha1.OperationSucceeded, -50*time.Hour), did(reboot, cause, v1alpha1.OperationSucceeded, -55*time.Hour), did(reboot, cause, v1alpha1.OperationSucceeded, -58*time.Hour),
		}, want: true, due: 23 * time.Hour},
		{name: "the one before was last month", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationSucceeded, -10*time.Minute), did(reboot, cause, v1alpha1.OperationSucceeded, -30*24*time.Hour)}, want: true, due: 50 * time.Minute},
		{name: "many had to wait for their slot too long", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){
			waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationSucceeded, -10*time.Minute), did(reboot, cause, v1alpha1.OperationSucceeded, -6*time.Hour), did(reboot, cause, v1alpha1.OperationSucceeded, -12*time.Hour),
			func(i *v1alpha1.WindowsInstance) {
				for _, op := range i.Status.Operations() {
					op.AdmittedImpact = ""
				}
			},
		}, want: true, due: 50 * time.Minute},
		{name: "the one before failed", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationSucceeded, -10*time.Minute), did(reboot, cause, v1alpha1.OperationFailed, -3*time.Hour)}, want: true, due: 50 * time.Minute},
		{name: "its clock ran ahead", install: v1alpha1.InstallSecurity, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 1, v1alpha1.FailedUpdate{Name: "KB1", Security: true, RetryAt: *at(26 * time.Hour)})}, want: true, due: never},
		{name: "one of two is put off by a clock that ran ahead", install: v1alpha1.InstallSecurity, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 2, failedSecurity, v1alpha1.FailedUpdate{Name: "KB4", Security: true, RetryAt: *at(9000 * time.Hour)})}, want: true, due: never},
		{name: "its clock is some minutes ahead", install: v1alpha1.InstallSecurity, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 1, v1alpha1.FailedUpdate{Name: "KB1", Security: true, RetryAt: *at(24*time.Hour + 5*time.Minute)})}, want: true, due: 24*time.Hour + 5*time.Minute},
		{name: "only a person can install it", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 1, v1alpha1.FailedUpdate{Name: "KB1", Security: true, Interactive: true, RetryAt: *at(-time.Hour)})}},
		{name: "only a person can install one of two", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 1, v1alpha1.FailedUpdate{Name: "KB1", Interactive: true, RetryAt: *at(-time.Hour)})}, want: true, due: never},
		{name: "only a person can install one, and the other one has failed", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 1, v1alpha1.FailedUpdate{Name: "KB1", Interactive: true, RetryAt: *at(-time.Hour)}, failedSecurity)}, want: true, due: 5 * time.Hour},
		{name: "one succeeded last month", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationSucceeded, -30*24*time.Hour)}, want: true, due: never},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{WindowsUpdates: v1alpha1.PoolWindowsUpdates{Install: tt.install}}}
			i := works(tt.edit...)
			wanted, due := updatesDue(i, pool, testNow)
			if wanted != tt.want {
				t.Fatalf("wanted %v, want %v", wanted, tt.want)
			}
			if want := testNow.Add(tt.due); wanted && tt.due != never && !due.Equal(want) || tt.due == never && due.After(testNow) {
				t.Errorf("due at %s, want %s", due, want)
			}
			cause, _ := restartOf(i, pool, testNow)
			if (cause == v1alpha1.CauseWindowsUpdates) != tt.want {
				t.Errorf("the cause of a restart is %q", cause)
			}
		})
	}
}

// TestUpdatesAndRestarts: a restart that somebody asks for comes first, and one that Windows waits for does not wait for updates
// whose time has not come.
func TestUpdatesAndRestarts(t *testing.T) {
	pool := &v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{
		WindowsUpdates: v1alpha1.PoolWindowsUpdates{Install: v1alpha1.InstallAll}, Restarts: v1alpha1.PoolRestarts{Policy: v1alpha1.RestartWhenPending},
	}}
	waits := works(pending, waitingFor(1, 0))
	if cause, _ := restartOf(waits, pool, testNow); cause != v1alpha1.CauseWindowsUpdates {
		t.Errorf("updates wait: %q", cause)
	}
	failed := works(pending, waitingFor(1, 0, v1alpha1.FailedUpdate{Name: "KB1", RetryAt: *at(time.Hour)}))
	if cause, _ := restartOf(failed, pool, testNow); cause != v1alpha1.CauseRestartPending {
		t.Errorf("updates have failed: %q", cause)
	}
	pool.Spec.Restarts.After = at(0)
	if cause, _ := restartOf(waits, pool, testNow); cause != v1alpha1.CauseRestartRequested {
		t.Errorf("somebody asks for a restart: %q", cause)
	}
}

// TestUpdatesStop: updates that cannot be installed on a host reach no further ones, and are tried again there.
func TestUpdatesStop(t *testing.T) {
	updates := func(h *host) { h.restart, h.install = v1alpha1.CauseWindowsUpdates, v1alpha1.InstallSecurity }
	lacks := func(h *host) { h.lacksUpdates = true }
	got := decide(state{disruptions: 1, now: testNow, hosts: []host{
		outdated("a", "", isUpToDate, updates), outdated("b", "", isUpToDate, lacks), outdated("c", "", isUpToDate, updates, in("ns", "other")),
	}})
	if names(got.start) != "c" || got.start[0].install != v1alpha1.InstallSecurity || got.start[0].impact != v1alpha1.ImpactNone {
		t.Errorf("started %+v", got.start)
	}
	if why := got.waits[types.NamespacedName{Namespace: "ns", Name: "a"}].describe(poolKey{"ns", "p"}); !strings.Contains(why, "more than 0 hosts of pool p") || !strings.Contains(why, "kubectl windows describe b -n ns") {
		t.Errorf("a waits: %s", why)
	}
	got = decide(state{disruptions: 1, now: testNow, hosts: []host{outdated("b", "", isUpToDate, lacks, updates)}})
	if names(got.start) != "b" {
		t.Errorf("it is not tried again: %+v", got.waits)
	}
}

// TestRestartsBesidesUpdates: a host whose updates are kept from it because they failed on others is restarted for what else asks for that. One
// that only waits for its turn is not, as its updates restart it.
func TestRestartsBesidesUpdates(t *testing.T) {
	const updates, waits = v1alpha1.CauseWindowsUpdates, v1alpha1.CauseRestartPending
	wants := func(h *host) { h.restart, h.install, h.besides = updates, v1alpha1.InstallSecurity, waits }
	later := func(h *host) { h.besidesDue = testNow.Add(time.Hour) }
	lacks := func(h *host) { h.lacksUpdates = true }
	for _, tt := range []struct {
		name  string
		hosts []host
		start string
		cause v1alpha1.OperationCause
		again time.Duration
		why   string // of a
	}{
		{name: "its updates failed elsewhere", hosts: []host{outdated("a", "", isUpToDate, wants), outdated("b", "", isUpToDate, lacks)}, start: "a", cause: waits},
		{name: "a restart has just been", hosts: []host{outdated("a", "", isUpToDate, wants, later), outdated("b", "", isUpToDate, lacks)}, again: time.Hour, why: "Updates of Windows could not be installed"},
		{name: "another host is out of service", hosts: []host{outdated("a", "", isUpToDate, wants), outdated("b", "", isUpToDate, lacks, isDown)}, why: "Updates of Windows could not be installed"},
		{name: "they failed here", hosts: []host{outdated("a", "", isUpToDate, wants, lacks)}, start: "a", cause: updates},
		{name: "nothing keeps them from it", hosts: []host{outdated("a", "", isUpToDate, wants)}, start: "a", cause: updates},
		{name: "it waits for its turn", hosts: []host{outdated("a", "", isUpToDate, wants), outdated("b", "", isUpToDate, func(h *host) { h.prepares = true })}, why: "Waits for a slot: updates of Windows are downloaded on"},
		{name: "nothing else asks for a restart", hosts: []host{outdated("a", "", isUpToDate, wants, func(h *host) { h.besides = "" }), outdated("b", "", isUpToDate, lacks)}, why: "Updates of Windows could not be installed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := decide(state{disruptions: 1, now: testNow, hosts: tt.hosts})
			if names(got.start) != tt.start || tt.start != "" && (got.start[0].cause != tt.cause || len(got.start) != 1) {
				t.Errorf("started %+v", got.start)
			}
			if want := testNow.Add(tt.again); tt.again > 0 && !got.again.Equal(want) {
				t.Errorf("it is decided again at %s, want %s", got.again, want)
			}
			if why := got.waits[types.NamespacedName{Namespace: "ns", Name: "a"}].describe(poolKey{"ns", "p"}); !strings.Contains(why, tt.why) || (why == "") != (tt.why == "") {
				t.Errorf("a waits: %s", why)
			}
		})
	}
}

// TestBesidesUpdates: what else asks for a restart of a host is known while updates of Windows are to be installed there.
func TestBesidesUpdates(t *testing.T) {
	const annotated, waits = v1alpha1.CauseRestartAnnotated, v1alpha1.CauseRestartPending
	for _, tt := range []struct {
		name        string
		edit        func(*v1alpha1.WindowsInstance)
		annotations map[string]string
		want        v1alpha1.OperationCause
	}{
		{"nothing does", func(*v1alpha1.WindowsInstance) {}, nil, ""},
		{"Windows waits for one", pending, nil, waits},
		{"an annotation does", func(*v1alpha1.WindowsInstance) {}, rebootRequired, annotated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
				pool.Spec.WindowsUpdates.Install, pool.Spec.Restarts.Policy = v1alpha1.InstallAll, v1alpha1.RestartWhenPending
				failedThere := fit("b", waitingFor(1, 0, v1alpha1.FailedUpdate{Name: "KB1", RetryAt: *at(time.Hour)}))
				f := newScheduled(t, nil, pool, fit("a", waitingFor(1, 0), tt.edit), annotatedNode("a", tt.annotations), failedThere, annotatedNode("b", nil))
				f.clock = clocktesting.NewFakePassiveClock(testNow)
				f.pass()
				if op := f.operation("a"); (op != nil) != (tt.want != "") || op != nil && op.Cause != tt.want {
					t.Errorf("a has %+v", op)
				}
				if op := f.operation("b"); op != nil {
					t.Errorf("b has %+v, before it is tried again", op)
				}
			})
		})
	}
}

// TestStopsUpdates: others wait for what failed after a drain, also before the status has what the last operation found out.
func TestStopsUpdates(t *testing.T) {
	step := func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation.Steps = []v1alpha1.OperationStep{{Name: v1alpha1.StepInstallUpdates, StartedAt: at(-time.Hour)}}
	}
	installed := func(i *v1alpha1.WindowsInstance) {
		step(i)
		i.Status.Operation.Steps[0].FinishedAt = at(-30 * time.Minute)
	}
	searched := func(ago time.Duration) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			i.Status.WindowsUpdates = &v1alpha1.WindowsUpdatesStatus{SearchedAt: at(-ago)}
		}
	}
	failed := did(v1alpha1.OperationReboot, v1alpha1.CauseWindowsUpdates, v1alpha1.OperationFailed, -time.Minute)
	for _, tt := range []struct {
		name    string
		install v1alpha1.WindowsUpdatesInstall
		edit    []func(*v1alpha1.WindowsInstance)
		want    bool
	}{
		{"none has failed", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){waitingFor(1, 1)}, false},
		{"one has", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){waitingFor(1, 0, v1alpha1.FailedUpdate{Name: "KB1"})}, true},
		{"one has, and it was deleted", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){waitingFor(1, 0, v1alpha1.FailedUpdate{Name: "KB1"}), func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = at(0) }}, false},
		{"one that is not wanted has", v1alpha1.InstallSecurity, []func(*v1alpha1.WindowsInstance){waitingFor(1, 0, v1alpha1.FailedUpdate{Name: "KB1"})}, false},
		{"the pool wants none any more", v1alpha1.InstallNone, []func(*v1alpha1.WindowsInstance){waitingFor(1, 0, v1alpha1.FailedUpdate{Name: "KB1"})}, false},
		{"one could not be downloaded", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){waitingFor(1, 0, v1alpha1.FailedUpdate{Name: "KB1", Step: v1alpha1.StepDownloadUpdates})}, false},
		{"another one has been drained for", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){waitingFor(2, 0, v1alpha1.FailedUpdate{Name: "KB1", Step: v1alpha1.StepDownloadUpdates}, v1alpha1.FailedUpdate{Name: "KB2", Step: v1alpha1.StepVerifyUpdates})}, true},
		{"only a person can install it", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){waitingFor(1, 0, v1alpha1.FailedUpdate{Name: "KB1", Interactive: true})}, false},
		{"the installation failed a moment ago", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){failed, step}, true},
		{"it did, and the host has not searched since", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){failed, step, searched(2 * time.Minute)}, true},
		{"it did, and the host has", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){failed, step, searched(0)}, false},
		{"something failed after it", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){failed, installed, searched(40 * time.Minute)}, true},
		{"and the host has searched after the installation", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){failed, installed, searched(20 * time.Minute)}, false},
		{"and has found out that one failed", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){failed, installed, waitingFor(1, 0, v1alpha1.FailedUpdate{Name: "KB1"}), func(i *v1alpha1.WindowsInstance) {
			i.Status.WindowsUpdates.SearchedAt = at(0)
		}}, true},
		{"the drain failed", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){failed}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := stopsUpdates(works(tt.edit...), tt.install); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestHostThatGetsUpdates: it has a slot from when that was granted until its Node takes pods again, and works before and after.
func TestHostThatGetsUpdates(t *testing.T) {
	const cause = v1alpha1.CauseWindowsUpdates
	steps := func(ended ...string) []v1alpha1.OperationStep {
		var list []v1alpha1.OperationStep
		for _, name := range []string{v1alpha1.StepDownloadUpdates, v1alpha1.StepWaitForSlot, v1alpha1.StepCordon, v1alpha1.StepInstallUpdates, v1alpha1.StepUncordon, v1alpha1.StepVerifyUpdates} {
			step := v1alpha1.OperationStep{Name: name, State: v1alpha1.StepPending}
			if len(list) < len(ended) {
				step.State = v1alpha1.StepSucceeded
			}
			if len(list) == len(ended) {
				step.State = v1alpha1.StepRunning
			}
			list = append(list, step)
		}
		return list
	}
	until := func(n int) []v1alpha1.OperationStep { return steps(make([]string, n)...) }
	for _, tt := range []struct {
		name     string
		cause    v1alpha1.OperationCause
		steps    []v1alpha1.OperationStep
		admitted v1alpha1.ChangeImpact

		holds       slot
		waits       v1alpha1.ChangeImpact
		prepares    bool
		unavailable bool
	}{
		{name: "it has not begun", cause: cause, prepares: true},
		{name: "it downloads them", cause: cause, steps: until(0), prepares: true},
		{name: "it waits", cause: cause, steps: until(1), waits: v1alpha1.ImpactReboot, prepares: true},
		{name: "it may be drained", cause: cause, steps: until(1), admitted: v1alpha1.ImpactReboot, holds: slotDisruption, unavailable: true},
		{name: "it installs them", cause: cause, steps: until(3), admitted: v1alpha1.ImpactReboot, holds: slotDisruption, unavailable: true},
		{name: "it verifies them", cause: cause, steps: until(5), admitted: v1alpha1.ImpactReboot},
		{name: "an earlier release downloads them", cause: cause, steps: slices.Delete(until(0), 1, 2), holds: slotDisruption, unavailable: true},
		{name: "an earlier release verifies them", cause: cause, steps: slices.Delete(until(5), 1, 2)},
		{name: "a person has asked for them", prepares: true},
		{name: "a person has asked for them, and they are downloaded", steps: until(0), prepares: true},
		{name: "a person has asked for them, and they were downloaded", steps: until(1), prepares: true},
		{name: "a person has asked for them, and the Node is about to be drained", steps: until(2), unavailable: true},
		{name: "a person has asked an earlier release for them", steps: slices.Delete(until(0), 1, 2), unavailable: true},
		{name: "a person has asked for them, and they are verified", steps: until(5)},
		{name: "it is only restarted", cause: v1alpha1.CauseRestartPending, holds: slotDisruption, unavailable: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := works()
			i.Status.Operation = &v1alpha1.Operation{
				Type: v1alpha1.OperationReboot, Cause: tt.cause, Phase: v1alpha1.OperationRunning, AdmittedImpact: tt.admitted, Steps: tt.steps,
				Node: &v1alpha1.OperationNode{Name: "win-1"}, Reboot: &v1alpha1.RebootOptions{InstallUpdates: v1alpha1.InstallSecurity},
			}
			h := newHost(i)
			if h.holds != tt.holds || h.waits != tt.waits || h.prepares != tt.prepares || (h.waitsWith == cause) != (tt.waits != "") {
				t.Errorf("it holds %d, waits for %q of %q, prepares %v", h.holds, h.waits, h.waitsWith, h.prepares)
			}
			if h.node, h.ready = true, true; h.unavailable() != tt.unavailable {
				t.Errorf("it is out of service: %v", h.unavailable())
			}
		})
	}
}

// TestDownloadsTakeNoSlot: what hosts of a namespace download keeps nobody else from being changed, and no more of them do than may be
// drained soon.
func TestDownloadsTakeNoSlot(t *testing.T) {
	const reboot = v1alpha1.ImpactReboot
	wants := func(h *host) { h.restart, h.install = v1alpha1.CauseWindowsUpdates, v1alpha1.InstallSecurity }
	downloads := func(h *host) { h.prepares, h.repairs = true, true }
	waits := func(h *host) {
		h.prepares, h.repairs, h.waits, h.waitsWith, h.install = true, true, reboot, v1alpha1.CauseWindowsUpdates, v1alpha1.InstallSecurity
	}
	isHeldBack := func(h *host) { h.heldBack = true }
	two := strategy(func(s *v1alpha1.PoolUpdateStrategy) { s.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(2)) })
	closed := strategy(func(s *v1alpha1.PoolUpdateStrategy) {
		s.Window = &v1alpha1.MaintenanceWindow{Schedule: "0 14 * * *", DurationSeconds: 3600}
	})
	for _, tt := range []struct {
		name         string
		pool         *v1alpha1.WindowsNodePool
		most         int // 0: 1
		hosts        []host
		start, admit string
		waits        map[string]string
		postponed    bool // a
	}{
		{name: "the first one downloads", hosts: []host{outdated("a", "", isUpToDate, wants), outdated("b", "", isUpToDate, wants)}, start: "a", waits: map[string]string{"b": "downloaded on, or wait for a slot on, a; at most 1 at a time (spec.updateStrategy.rollingUpdate.maxUnavailable)."}},
		{name: "others are changed meanwhile", hosts: []host{outdated("a", "", isUpToDate, downloads), outdated("b", reboot, in("other", "q"))}, start: "b"},
		{name: "namespaces do not wait for one another", hosts: []host{outdated("a", "", isUpToDate, downloads), outdated("b", "", isUpToDate, wants, in("other", "q"))}, start: "b"},
		{name: "they begin while another host is drained", hosts: []host{outdated("a", "", isUpToDate, wants), outdated("b", reboot, in("other", "q"), changing(slotDisruption))}, start: "a"},
		{name: "not while one of the pool is", pool: two, most: 9, hosts: []host{outdated("a", "", isUpToDate, wants), outdated("b", "", isUpToDate, downloads), outdated("c", reboot, changing(slotDisruption))}, waits: map[string]string{"a": "wait for a slot on, b; at most 2"}},
		{name: "a pool has as many as may be out of service", pool: two, most: 9, hosts: []host{outdated("a", "", isUpToDate, wants), outdated("b", "", isUpToDate, downloads), outdated("c", "", isUpToDate, wants)}, start: "a", waits: map[string]string{"c": "wait for a slot on, a, b; at most 2"}},
		{name: "a namespace has as many as all pools", hosts: []host{outdated("a", "", isUpToDate, wants), outdated("b", "", isUpToDate, downloads, in("ns", "q"))}, waits: map[string]string{"a": "wait for a slot on, b; at most 1 at a time (--max-disruptive-operations)."}},
		{name: "what was downloaded is installed before others begin", hosts: []host{outdated("a", "", isUpToDate, waits), outdated("b", reboot)}, admit: "a", waits: map[string]string{"b": "a of pool p is out of service (it is being restarted)"}},
		{name: "it waits for its slot", hosts: []host{outdated("a", "", isUpToDate, waits), outdated("b", reboot, changing(slotDisruption), in("ns", "q"))}, waits: map[string]string{"a": "another host is being changed: b"}},
		{name: "it waits for its pool", most: 2, hosts: []host{outdated("a", "", isUpToDate, waits), outdated("b", "", isUpToDate, isDown)}, waits: map[string]string{"a": "b of pool p is out of service"}},
		{name: "the window has closed", pool: closed, hosts: []host{outdated("a", "", isUpToDate, waits)}, waits: map[string]string{"a": "The window of pool p opens at"}, postponed: true},
		{name: "nor does it begin outside of the window", pool: closed, hosts: []host{outdated("a", "", isUpToDate, wants)}, waits: map[string]string{"a": "The window of pool p opens at"}},
		{name: "one that is kept from a revision that was rolled back downloads, and waits for nothing", hosts: []host{outdated("a", "", isUpToDate, downloads, isHeldBack)}, waits: map[string]string{"a": ""}},
		{name: "and gets them", hosts: []host{outdated("a", "", isUpToDate, waits, isHeldBack)}, admit: "a"},
		{name: "namespaces take turns, also with what was downloaded", hosts: []host{outdated("a", "", isUpToDate, waits, func(h *host) { h.lastServed[slotDisruption] = testNow }), outdated("z", reboot, in("other", "q"))}, start: "z", waits: map[string]string{"a": "another host is being changed, in another namespace"}},
		{name: "in a namespace it is first", hosts: []host{outdated("a", reboot, in("ns", "q"), func(h *host) { h.since = testNow.Add(-2 * time.Hour) }), outdated("b", "", isUpToDate, waits)}, admit: "b"},
		{name: "updates have failed elsewhere", hosts: []host{outdated("a", "", isUpToDate, waits), outdated("b", "", isUpToDate, func(h *host) { h.lacksUpdates = true })}, waits: map[string]string{"a": "Updates of Windows could not be installed on more than 0"}, postponed: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state{hosts: tt.hosts, disruptions: max(1, tt.most), now: testNow, pools: map[poolKey]policy{}}
			if tt.pool != nil {
				s.pools[poolKey{"ns", "p"}] = policyOf(tt.pool, len(tt.hosts))
			}
			got := decide(s)
			if names(got.start) != tt.start || names(got.admit) != tt.admit {
				t.Errorf("started %q and admitted %q, want %q and %q", names(got.start), names(got.admit), tt.start, tt.admit)
			}
			for _, g := range slices.Concat(got.start, got.admit) {
				if g.cause == v1alpha1.CauseWindowsUpdates && (g.impact == v1alpha1.ImpactNone) != (tt.admit == "") {
					t.Errorf("granted %+v", g)
				}
			}
			for name, want := range tt.waits {
				if why := got.waits[types.NamespacedName{Namespace: "ns", Name: name}].describe(poolKey{"ns", "p"}); (why == "") != (want == "") || !strings.Contains(why, want) {
					t.Errorf("%s waits: %q, want %q", name, why, want)
				}
			}
			a := &Scheduler{last: got}
			if a.Postponed(types.NamespacedName{Namespace: "ns", Name: "a"}) != tt.postponed {
				t.Errorf("postponed: %v", !tt.postponed)
			}
		})
	}
}

// TestRecordUpdates: the operation installs them, although recording it costs nothing yet.
func TestRecordUpdates(t *testing.T) {
	i := works()
	if err := recordOperation(i, grant{impact: v1alpha1.ImpactNone, cause: v1alpha1.CauseWindowsUpdates, install: v1alpha1.InstallAll}, testNow); err != nil {
		t.Fatal(err)
	}
	if op := i.Status.Operation; op.Type != v1alpha1.OperationReboot || op.AdmittedImpact != "" || op.Reboot == nil || op.Reboot.InstallUpdates != v1alpha1.InstallAll {
		t.Errorf("recorded %+v", op)
	}
}

// TestGiveWay: a host that waits for what the controller wants of it anyway is asked what another configuration costs that is wanted
// meanwhile, and its wait ends for one that needs no drain and is granted at once.
func TestGiveWay(t *testing.T) {
	for _, tt := range []struct {
		name        string
		edit        func(*host)
		asked, ends bool
		slots       int
	}{
		{"nothing else is wanted", func(h *host) { h.update = false }, false, false, 1},
		{"it needs a drain, and there is a slot", func(h *host) { h.impact = v1alpha1.ImpactDrain }, false, false, 2},
		{"it costs nothing", func(*host) {}, false, true, 1},
		{"services restart", func(h *host) { h.impact = v1alpha1.ImpactRestart }, false, true, 1},
		{"it needs a drain", func(h *host) { h.impact = v1alpha1.ImpactDrain }, false, false, 1},
		{"nobody knows what it costs", func(h *host) { h.impact = "" }, true, false, 1},
		{"it cannot say what it costs", func(h *host) { h.impact, h.unknown, h.askAgain = "", "It hangs.", testNow.Add(time.Minute) }, false, false, 1},
		{"it failed a moment ago", func(h *host) { h.due = testNow.Add(time.Minute) }, false, false, 1},
		{"what waits does not give way", func(h *host) { h.givesWay = false }, false, false, 1},
		{"it is kept from it", func(h *host) { h.impact, h.heldBack = v1alpha1.ImpactRestart, true }, false, false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := host{
				key: types.NamespacedName{Namespace: "ns", Name: "a"}, pool: poolKey{"ns", "p"}, node: true, ready: true,
				prepares: true, repairs: true, waits: v1alpha1.ImpactReboot, waitsWith: v1alpha1.CauseWindowsUpdates, givesWay: true,
				update: true, impact: v1alpha1.ImpactNone,
			}
			tt.edit(&h)
			other := host{key: types.NamespacedName{Namespace: "ns", Name: "b"}, pool: poolKey{"ns", "q"}, node: true, ready: true, holds: slotDisruption}
			got := decide(state{hosts: []host{h, other}, disruptions: tt.slots, now: testNow, pools: map[poolKey]policy{}})
			s := &Scheduler{last: got}
			if (s.GivesWayTo(h.key) != "") != tt.ends || slices.Contains(got.ask, h.key) != tt.asked || len(got.start) > 0 || len(got.admit) != tt.slots-1 {
				t.Errorf("got %+v", got)
			}
			if later := h.askAgain.After(testNow) || h.due.After(testNow); later && got.again.IsZero() {
				t.Error("it is not looked at again")
			}
		})
	}
}

// TestScheduleUpdatesThatFail: whoever looks at the pool learns why updates of Windows, or a restart, that were begun do not come, and when they
// are tried again.
func TestScheduleUpdatesThatFail(t *testing.T) {
	const budget = "Timeout: 1 of 3 pods have not left: shop/web-0 (PodDisruptionBudget web): Cannot evict pod as it would violate the pod's disruption budget."
	installs := func(s *v1alpha1.WindowsNodePoolSpec) { s.WindowsUpdates.Install = v1alpha1.InstallSecurity }
	restarts := func(s *v1alpha1.WindowsNodePoolSpec) { s.Restarts.After = at(-2 * time.Minute) }
	lacks := waitingFor(1, 1)
	failed := func(cause v1alpha1.OperationCause, step string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			did(v1alpha1.OperationReboot, cause, v1alpha1.OperationFailed, 0)(i)
			op := i.Status.Operation
			op.RequestedAt, op.Message, op.BootID = *at(-time.Minute), budget+" The Node takes pods again.", ""
			op.Steps = []v1alpha1.OperationStep{{Name: step, State: v1alpha1.StepFailed}}
		}
	}
	for _, tt := range []struct {
		name string
		spec func(*v1alpha1.WindowsNodePoolSpec)
		edit []func(*v1alpha1.WindowsInstance)
		want string
	}{
		{
			"updates of Windows", installs, []func(*v1alpha1.WindowsInstance){lacks, failed(v1alpha1.CauseWindowsUpdates, v1alpha1.StepDrain)},
			"a: Updates of Windows are tried again at 2026-11-21T13:00:00Z. The last attempt failed: " + budget + " Find out why: kubectl windows describe NAME -n ns",
		},
		{
			"a restart", restarts, []func(*v1alpha1.WindowsInstance){failed(v1alpha1.CauseRestartRequested, v1alpha1.StepDrain)},
			"a: The pool asks for a restart (spec.restarts.after), and Windows is restarted at 2026-11-21T12:10:00Z. The last attempt failed: " + budget + " Find out why: kubectl windows describe NAME -n ns",
		},
		{
			"an update", func(*v1alpha1.WindowsNodePoolSpec) {}, []func(*v1alpha1.WindowsInstance){func(i *v1alpha1.WindowsInstance) {
				i.Status.DesiredRevision = "r3"
				did(v1alpha1.OperationReconfigure, "", v1alpha1.OperationFailed, 0)(i)
				op := i.Status.Operation
				op.Message, op.Revision, op.Impact, op.BootID = budget+" The Node takes pods again.", "r3", v1alpha1.ImpactDrain, ""
			}},
			"a: The update is tried again at 2026-11-21T12:01:00Z. The last attempt failed: " + budget + " Find out why: kubectl windows describe NAME -n ns",
		},
		{"what the host says itself", installs, []func(*v1alpha1.WindowsInstance){lacks, failed(v1alpha1.CauseWindowsUpdates, v1alpha1.StepInstallUpdates), func(i *v1alpha1.WindowsInstance) {
			i.Status.WindowsUpdates.Failed = []v1alpha1.FailedUpdate{{Name: "KB1", Security: true, RetryAt: *at(time.Hour), Step: v1alpha1.StepDownloadUpdates}}
		}}, ""},
		{"a restart that broke it", installs, []func(*v1alpha1.WindowsInstance){lacks, failed(v1alpha1.CauseWindowsUpdates, v1alpha1.StepRestart), func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation.BootID = "1"
			condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, -time.Hour)(i)
		}}, "a: An update or a restart broke it, and its Node is not ready or cordoned since. Find out why: kubectl windows describe NAME -n ns"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
				tt.spec(&pool.Spec)
				f := newScheduled(t, nil, pool, works(tt.edit...))
				f.clock = clocktesting.NewFakePassiveClock(testNow)
				f.options.Update = func(i *v1alpha1.WindowsInstance, _ *v1alpha1.WindowsNodePool, now time.Time) (time.Time, bool) {
					return now.Add(time.Minute), i.Status.CurrentRevision != i.Status.DesiredRevision
				}
				f.pass()
				if got := f.blockedBy(poolKey{"ns", "p"}); got.text != tt.want || got.moves {
					t.Errorf("got %+v\nwant %s", got, tt.want)
				}
			})
		})
	}
}
