// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// calls counts what was done on the host.
func (f *fake) count(call string) int {
	return len(slices.DeleteFunc(slices.Clone(f.log), func(done string) bool { return done != call }))
}

// change changes the settings of a service behind our back.
func (f *fake) changeSettings(name string, change func(*fakeService)) {
	s := f.services[name]
	change(&s)
	f.services[name] = s
}

// keeperOf is a keeper of the host, which looks when it is told to.
func keeperOf(f *fake) *keeper {
	return newKeeper(engineOf(f), RunOptions{Service: "kube-proxy"})
}

// TestLeftServiceIsNotTouched: a service that has to wait for a drain, or is changed by something
// else each time, is left as it is also when something else is repaired.
func TestLeftServiceIsNotTouched(t *testing.T) {
	t.Run("needs a drain", func(t *testing.T) {
		b, _ := bundles(t)
		b.Document.Services = slices.Clone(b.Document.Services)
		b.Document.Services[0].OnChange = config.OnChange{Impact: config.ImpactDrain, Services: []string{"containerd"}}
		f := usedHost(t, b)
		converge(t, f, b)
		f.log = nil
		f.changeSettings("containerd", func(s *fakeService) { s.Settings.StartType = config.StartManual })
		f.rules = map[string]config.FirewallRule{}
		k := keeperOf(f)
		k.check(t.Context())
		if f.count("SetFirewallRule") != 1 || f.count("StopService containerd")+f.count("StopService kubelet")+f.count("ConfigureService containerd") > 0 {
			t.Errorf("want only the rule repaired, got %q", f.log)
		}
		// A service that is restarted for something else keeps its dependencies as they are.
		f.files[`c:\k\kubelet.conf`] = fakeFile{Content: "theirs", changed: f.ticks}
		k.check(t.Context())
		if f.count("StopService containerd")+f.count("ConfigureService containerd") > 0 || f.count("StartService kubelet") != 1 {
			t.Errorf("want the kubelet restarted, got %q", f.log)
		}
	})
	t.Run("is changed each time", func(t *testing.T) {
		b, _ := bundles(t)
		f := usedHost(t, b)
		converge(t, f, b)
		f.log = nil
		k := keeperOf(f)
		for range 60 {
			f.changeSettings("kubelet", func(s *fakeService) { s.Settings.StartType = config.StartManual })
			f.rules = map[string]config.FirewallRule{}
			k.check(t.Context())
			f.clock = f.clock.Add(time.Minute)
		}
		if n := f.count("StopService kubelet"); n < 3 || n > 7 {
			t.Errorf("restarted %d times within an hour, want a few times", n)
		}
		if n := f.count("SetFirewallRule"); n != 60 {
			t.Errorf("the rule was repaired %d times, want 60", n)
		}
		// What is left and was stopped for a file runs again, with its recovery.
		f.files[`c:\k\kubelet.conf`] = fakeFile{Content: "theirs", changed: f.ticks}
		f.changeSettings("kubelet", func(s *fakeService) { s.Settings.StartType = config.StartManual })
		k.check(t.Context())
		s := f.services["kubelet"]
		if s.state != ServiceRunning || s.Recovery == nil || s.Settings.StartType != config.StartManual || f.files[`c:\k\kubelet.conf`].Content != "one" {
			t.Errorf("got %+v and %+v, want the file repaired and the service started as it was", s, f.files[`c:\k\kubelet.conf`])
		}
	})
}

// TestFailedRepair: services run again whatever could not be repaired, and are not restarted at
// every look for it.
func TestFailedRepair(t *testing.T) {
	const write = `WriteFile C:\k\kubelet.conf`
	b, _ := bundles(t)
	f := usedHost(t, b)
	converge(t, f, b)
	f.log = nil
	full := errors.New("disk full")
	f.failing[write] = full
	f.files[`c:\k\kubelet.conf`] = fakeFile{Content: "theirs", changed: f.ticks}
	k := keeperOf(f)
	runs := func(when string) {
		t.Helper()
		if s := f.services["kubelet"]; s.state != ServiceRunning || s.Recovery == nil {
			t.Fatalf("%s: the kubelet is %s, with recovery %v\n%q", when, s.state, s.Recovery, f.log)
		}
	}
	if drift, err := k.repair(t.Context()); !errors.Is(err, full) || len(drift.Repaired) > 0 {
		t.Errorf("got %+v, %v, want the error", drift, err)
	}
	runs("after the repair")
	// It does not start again at once.
	f.failing["StartService kubelet"] = errors.New("out of memory")
	if _, err := k.repair(t.Context()); !errors.Is(err, full) || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("got %v, want both errors", err)
	}
	if f.services["kubelet"].state != ServiceStopped {
		t.Fatal("the kubelet runs")
	}
	delete(f.failing, "StartService kubelet")
	for range 60 {
		k.check(t.Context())
		runs("later")
		f.clock = f.clock.Add(time.Minute)
	}
	if n := f.count("StopService kubelet"); n < 3 || n > 7 {
		t.Errorf("stopped %d times within an hour, want a few times", n)
	}
	drift, err := readDrift(f)
	if err != nil || len(drift.Left) != 1 || drift.Left[0].Left != api.LeftFailed || !strings.Contains(drift.Left[0].Reason, "its repair failed") {
		t.Errorf("got %+v, %v, want the file left and why", drift, err)
	}
	delete(f.failing, write)
	f.clock = f.clock.Add(time.Hour)
	k.check(t.Context())
	f.check(t, b)
}

// TestDriftThatIsGone: what is no longer left or wrong is no longer recorded either, also when
// the agent was started anew meanwhile.
func TestDriftThatIsGone(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		b, _ := bundles(t)
		f := usedHost(t, b)
		converge(t, f, b)
		k := keeperOf(f)
		f.next = "ELSE"
		k.check(t.Context())
		if drift, err := readDrift(f); err != nil || drift == nil || len(drift.Left) != 1 {
			t.Fatalf("got %+v, %v, want the name left", drift, err)
		}
		f.next = f.hostname
		if restarted {
			k = keeperOf(f)
		}
		f.failing["WriteFile "+driftPath] = errors.New("disk full")
		f.failing["Remove "+driftPath] = errors.New("disk full")
		k.check(t.Context())
		clear(f.failing)
		k.check(t.Context())
		if drift, err := readDrift(f); err != nil || drift != nil && len(drift.Left) > 0 {
			t.Errorf("restarted %v: got %+v, %v, want nothing left", restarted, drift, err)
		}
		mutations := f.mutations
		if k.check(t.Context()); f.mutations != mutations {
			t.Errorf("it writes at every look: %q", f.log[mutations:])
		}
	}
}

// TestManagedByAnother: where the program is back that managed the host before, it is left to that, and repaired when it is gone.
func TestManagedByAnother(t *testing.T) {
	b, _ := bundles(t)
	f := usedHost(t, b)
	converge(t, f, b)
	k := keeperOf(f)
	k.options.Managers = []string{"manager"}
	f.services["manager"] = fakeService{}
	f.files[`c:\k\kubelet.conf`] = fakeFile{Content: "theirs", changed: f.ticks}
	k.check(t.Context())
	if got := f.files[`c:\k\kubelet.conf`].Content; got != "theirs" {
		t.Errorf("it was repaired: %s", got)
	}
	if drift, err := readDrift(f); err != nil || drift == nil || !strings.Contains(drift.Error, "service manager configures this host now") {
		t.Errorf("got %+v, %v", drift, err)
	}
	delete(f.services, "manager")
	k.check(t.Context())
	f.check(t, b)
}

// TestDriftIsWrittenLocked: what the service records can be nobody else's record: an apply that repairs
// the host forgets the drift.
func TestDriftIsWrittenLocked(t *testing.T) {
	b, _ := bundles(t)
	f := usedHost(t, b)
	converge(t, f, b)
	f.next = "ELSE"
	f.files[`c:\k\kubelet.conf`] = fakeFile{Content: "theirs", changed: f.ticks}
	f.unlocked = nil
	keeperOf(f).check(t.Context())
	if drift, err := readDrift(f); err != nil || drift == nil || len(drift.Left) != 1 || len(drift.Repaired) != 1 {
		t.Errorf("got %+v, %v", drift, err)
	}
	if len(f.unlocked) > 0 || f.locked != nil {
		t.Errorf("done without the lock: %q; it is held afterwards: %v", f.unlocked, f.locked != nil)
	}
}

// TestDirectoryOfPrograms: everybody may create files below C:\. A directory of programs that was there
// before is closed to others, and stays so; one that is closed further stays as it is.
func TestDirectoryOfPrograms(t *testing.T) {
	b, _ := bundles(t)
	b.Document.Directories = append(slices.Clone(b.Document.Directories), config.Directory{Path: `C:\k`, Access: config.AccessAdministratorsWrite})
	f := newFake()
	f.files[`c:\k`] = fakeFile{Directory: true}
	converge(t, f, b)
	if got := f.files[`c:\k`].Access; got != config.AccessAdministratorsWrite {
		t.Fatalf("the directory that was there is %q", got)
	}
	k := keeperOf(f)
	for found, want := range map[config.Access]config.Access{
		config.AccessInherited: config.AccessAdministratorsWrite, config.AccessAdministrators: config.AccessAdministrators,
	} {
		f.files[`c:\k`] = fakeFile{Directory: true, Access: found}
		k.check(t.Context())
		if got := f.files[`c:\k`].Access; got != want {
			t.Errorf("%q became %q, want %q", found, got, want)
		}
	}
}

// TestRestartServices: all services are restarted, with what they have, and run again whatever goes wrong with one.
func TestRestartServices(t *testing.T) {
	b, _ := bundles(t)
	f := usedHost(t, b)
	if r := engineOf(f).RestartServices(t.Context()); r.Outcome != api.OutcomeFailed || !strings.Contains(r.Error, "has not been configured") {
		t.Errorf("a host that is not configured: %+v", r)
	}
	converge(t, f, b)
	f.log = nil
	f.changeSettings("containerd", func(s *fakeService) { s.state = ServiceStopped }) // nobody knows why
	r := engineOf(f).RestartServices(t.Context())
	if r.Outcome != api.OutcomeApplied || len(r.Changed) != len(b.Document.Services) {
		t.Fatalf("got %+v", r)
	}
	stops, starts := f.count("StopService kubelet"), f.count("StartService kubelet")
	if stops != 1 || starts != 1 || f.count("StartService containerd") != 1 {
		t.Errorf("stopped %d times, started %d times: %q", stops, starts, f.log)
	}
	f.check(t, b)

	f.failing["StartService kubelet"] = errors.New("access denied")
	if r := engineOf(f).RestartServices(t.Context()); r.Outcome != api.OutcomeFailed || !strings.Contains(r.Error, "access denied") {
		t.Errorf("got %+v", r)
	}
	if s := f.services["kube-proxy"]; s.state != ServiceRunning {
		t.Errorf("kube-proxy is %s", s.state)
	}
	delete(f.failing, "StartService kubelet")
	if r := engineOf(f).RestartServices(t.Context()); r.Outcome != api.OutcomeApplied {
		t.Errorf("got %+v", r)
	}
	f.check(t, b)
}
