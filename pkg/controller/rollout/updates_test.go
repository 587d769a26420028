// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

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
		{name: "somebody canceled it", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationCanceled, -time.Hour)}, want: true, due: 5 * time.Hour},
		{name: "one has just succeeded", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationSucceeded, -10*time.Minute)}, want: true, due: 50 * time.Minute},
		{name: "the second one has just succeeded", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationSucceeded, -10*time.Minute), did(reboot, cause, v1alpha1.OperationSucceeded, -2*time.Hour)}, want: true, due: 110 * time.Minute},
		{name: "many have", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){
			waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationSucceeded, -time.Hour), did(reboot, cause, v1alpha1.OperationSucceeded, -24*time.Hour), did(reboot, cause, v1alpha1.OperationSucceeded, -41*time.Hour),
			did(reboot, cause, v1alpha1.OperationSucceeded, -50*time.Hour), did(reboot, cause, v1alpha1.OperationSucceeded, -55*time.Hour), did(reboot, cause, v1alpha1.OperationSucceeded, -58*time.Hour),
		}, want: true, due: 23 * time.Hour},
		{name: "the one before was last month", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationSucceeded, -10*time.Minute), did(reboot, cause, v1alpha1.OperationSucceeded, -30*24*time.Hour)}, want: true, due: 50 * time.Minute},
		{name: "the one before failed", install: v1alpha1.InstallAll, edit: []func(*v1alpha1.WindowsInstance){waitingFor(1, 0), did(reboot, cause, v1alpha1.OperationSucceeded, -10*time.Minute), did(reboot, cause, v1alpha1.OperationFailed, -3*time.Hour)}, want: true, due: 50 * time.Minute},
		{name: "its clock ran ahead", install: v1alpha1.InstallSecurity, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 1, v1alpha1.FailedUpdate{Name: "KB1", Security: true, RetryAt: *at(26 * time.Hour)})}, want: true, due: never},
		{name: "one of two is put off by a clock that ran ahead", install: v1alpha1.InstallSecurity, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 2, failedSecurity, v1alpha1.FailedUpdate{Name: "KB4", Security: true, RetryAt: *at(9000 * time.Hour)})}, want: true, due: never},
		{name: "its clock is some minutes ahead", install: v1alpha1.InstallSecurity, edit: []func(*v1alpha1.WindowsInstance){waitingFor(2, 1, v1alpha1.FailedUpdate{Name: "KB1", Security: true, RetryAt: *at(24*time.Hour + 5*time.Minute)})}, want: true, due: 24*time.Hour + 5*time.Minute},
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
	if names(got.start) != "c" || got.start[0].install != v1alpha1.InstallSecurity || got.start[0].impact != v1alpha1.ImpactReboot {
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

// TestLacksUpdates: what the last operation found out counts before the status has it.
func TestLacksUpdates(t *testing.T) {
	step := func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation.Steps = []v1alpha1.OperationStep{{Name: v1alpha1.StepInstallUpdates, StartedAt: at(-time.Hour)}}
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
		{"one that is not wanted has", v1alpha1.InstallSecurity, []func(*v1alpha1.WindowsInstance){waitingFor(1, 0, v1alpha1.FailedUpdate{Name: "KB1"})}, false},
		{"the pool wants none any more", v1alpha1.InstallNone, []func(*v1alpha1.WindowsInstance){waitingFor(1, 0, v1alpha1.FailedUpdate{Name: "KB1"})}, false},
		{"the installation failed a moment ago", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){failed, step}, true},
		{"the drain failed", v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){failed}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := lacksUpdates(works(tt.edit...), tt.install); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
