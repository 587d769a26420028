// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build unix

package updates_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/updates"
	"github.com/openshift/windows-instance-api/test/agenthost"
)

// withService gives the host the service that updates need.
func (h *host) withService() *host {
	h.t.Helper()
	const program = api.Root + `\agent.exe`
	if err := h.WriteFile(program, []byte("program"), config.AccessAdministrators); err != nil {
		h.t.Fatal(err)
	}
	settings := config.ServiceSettings{StartType: config.StartAutomatic, CommandLine: program + " run"}
	if err := h.CreateService(api.ServiceName, settings, nil); err != nil {
		h.t.Fatal(err)
	}
	if err := h.StartService(api.ServiceName); err != nil {
		h.t.Fatal(err)
	}
	return h
}

// ask makes a request, has the service run for a moment, and returns what became of it.
func (h *host) ask(r api.UpdatesRequest) *api.UpdateAttempt {
	h.t.Helper()
	if _, err := updates.Request(h, r); err != nil {
		h.t.Fatal(err)
	}
	h.run(time.Second)
	a, err := updates.Request(h, r)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

func request(action api.UpdateAction) api.UpdatesRequest {
	return api.UpdatesRequest{ID: "op-1", Action: action, Scope: api.UpdatesSecurity}
}

func failures(list []api.UpdateFailure) []string {
	var out []string
	for _, f := range list {
		out = append(out, f.Name+": "+f.Error)
	}
	return out
}

// TestInstall: what is for security is downloaded, installed and, after a restart, proven to be; the rest still waits.
func TestInstall(t *testing.T) {
	h := newHost(t).withService()
	h.offer(offer("1", "Cumulative update", updates.ClassSecurity), offer("2", "Other update"))
	if a := h.ask(request(api.ActionDownload)); a.Error != "" || a.EndedAt.IsZero() || a.Total != 1 || a.Done != 1 || !gocmp.Equal(a.Succeeded, []string{"KB501"}) {
		t.Errorf("download: %+v", a)
	}
	if a := h.ask(request(api.ActionInstall)); a.Error != "" || !a.RebootRequired || !gocmp.Equal(a.Succeeded, []string{"KB501"}) {
		t.Errorf("install: %+v", a)
	}
	h.boot = "boot-2"
	if a := h.ask(request(api.ActionVerify)); a.Error != "" || len(a.Failures) > 0 {
		t.Errorf("verify: %+v", a)
	}
	if known := h.known(); known.Total != 1 || known.Security != 0 || len(known.Unproven) > 0 || len(known.Failures) > 0 {
		t.Errorf("the service knows %+v", known)
	}
	h.run(time.Hour)
	if h.downloads != 1 || h.installs != 1 {
		t.Errorf("%d downloads and %d installations, want one of each", h.downloads, h.installs)
	}
}

// TestVerify: it names what was installed and is proven to be, also when the search after the boot has found that out before.
func TestVerify(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*host)
		want   []string
	}{
		{"the verification finds it out", func(*host) {}, []string{"KB502"}},
		{"a search before it has", func(h *host) { h.run(time.Second) }, []string{"KB502"}},
		{"the search fails", func(h *host) { h.offer(agenthost.Update{FailSearch: "HRESULT 0x8024402c"}) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t).withService()
			bad := offer("1", "Cumulative update", updates.ClassSecurity)
			bad.TakenBack = true
			h.offer(bad, offer("2", "Another one", updates.ClassSecurity))
			h.ask(request(api.ActionDownload))
			h.ask(request(api.ActionInstall))
			h.boot = "boot-2"
			tt.change(h)
			if a := h.ask(request(api.ActionVerify)); !gocmp.Equal(a.Succeeded, tt.want, cmpopts.EquateEmpty()) {
				t.Errorf("got %+v", a)
			}
		})
	}
	h := newHost(t).withService()
	if a := h.ask(request(api.ActionVerify)); len(a.Succeeded) > 0 {
		t.Errorf("nothing was installed: %+v", a)
	}
}

// TestWindowsStillCompletes: after a boot Windows goes on with what was installed, and may offer it until then. That is no proof of the contrary.
func TestWindowsStillCompletes(t *testing.T) {
	const takenBack = "KB501: Windows has installed it, and taken it back while it restarted"
	restarted := func(t *testing.T, completes time.Duration) (*host, *stillCompletes) {
		t.Helper()
		h := newHost(t).withService()
		u := offer("1", "Cumulative update", updates.ClassSecurity)
		u.TakenBack = true
		h.offer(u)
		h.ask(request(api.ActionDownload))
		h.ask(request(api.ActionInstall))
		h.boot = "boot-2"
		return h, &stillCompletes{host: h, until: h.now.Add(completes)}
	}
	for _, tt := range []struct {
		name      string
		completes time.Duration // after the boot
		up        time.Duration // when it is verified
		proven    bool
		took      time.Duration // at most
	}{
		{"at once", 0, 0, true, 0},
		{"soon", 4 * time.Minute, 0, true, 5 * time.Minute},
		{"at last", 14 * time.Minute, 0, true, 15 * time.Minute},
		{"never", 24 * time.Hour, 0, false, 15 * time.Minute},
		{"never, and it is verified later", 24 * time.Hour, 10 * time.Minute, false, 5 * time.Minute},
		{"never, and it is verified much later", 24 * time.Hour, time.Hour, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, source := restarted(t, tt.completes)
			h.look(t.Context(), source)
			if known := h.known(); len(known.Failures) > 0 {
				t.Errorf("the search after the boot finds %+v", known.Failures)
			}
			h.now = h.now.Add(tt.up)
			if _, err := updates.Request(h, request(api.ActionVerify)); err != nil {
				t.Fatal(err)
			}
			began := h.now
			h.look(t.Context(), source)
			a := h.known().Attempt
			if took := a.EndedAt.Sub(began); took < 0 || took > tt.took+time.Minute || !a.WaitsUntil.IsZero() || a.Error != "" {
				t.Errorf("after %s: %+v", took, a)
			}
			if proven := gocmp.Equal(a.Succeeded, []string{"KB501"}) && len(a.Failures) == 0; proven != tt.proven {
				t.Errorf("got %+v", a)
			}
			if !tt.proven && !gocmp.Equal(failures(a.Failures), []string{takenBack}) {
				t.Errorf("failures %+v", a.Failures)
			}
			for _, until := range source.waits {
				if want := began.Add(15*time.Minute - tt.up); !until.IsZero() && until.Sub(want).Abs() > time.Minute {
					t.Errorf("it waits until %s, want %s", until, want)
				}
			}
			if waits := tt.took > 0; waits != (len(source.waits) > 0) {
				t.Errorf("it says that it waits: %v", source.waits)
			}
		})
	}
	t.Run("nobody verifies", func(t *testing.T) {
		h, _ := restarted(t, 0)
		h.run(14 * time.Minute)
		if known := h.known(); len(known.Failures) > 0 || len(known.Unproven) != 1 {
			t.Errorf("at first the service knows %+v", known)
		}
		if a := h.ask(api.UpdatesRequest{ID: "op-2", Action: api.ActionDownload, Scope: api.UpdatesSecurity, Retry: true}); a.Total != 0 {
			t.Errorf("it is to be installed again: %+v", a)
		}
		searches := h.searches
		h.run(time.Hour)
		if known := h.known(); !gocmp.Equal(failures(known.Failures), []string{takenBack}) || len(known.Unproven) > 0 || h.searches != searches+1 {
			t.Errorf("after %d searches the service knows %+v", h.searches-searches, known)
		}
	})
}

// stillCompletes offers what was installed until a time, and keeps what the attempt says about that at each search.
type stillCompletes struct {
	*host

	until time.Time
	waits []time.Time
}

func (s *stillCompletes) Search(ctx context.Context) ([]updates.Offer, error) {
	if a := s.known().Attempt; a.EndedAt.IsZero() && !a.WaitsUntil.IsZero() {
		s.waits = append(s.waits, a.WaitsUntil)
	}
	if !s.now.Before(s.until) {
		return nil, nil
	}
	return s.host.Search(ctx)
}

// TestInstallAll: the other scope.
func TestInstallAll(t *testing.T) {
	h := newHost(t).withService()
	h.offer(offer("1", "Cumulative update", updates.ClassSecurity), offer("2", "Other update"))
	if a := h.ask(api.UpdatesRequest{ID: "op-1", Action: api.ActionDownload, Scope: api.UpdatesAll}); !gocmp.Equal(a.Succeeded, []string{"KB501", "KB502"}) {
		t.Errorf("download: %+v", a)
	}
}

// TestFailedUpdate: an update that fails keeps no other one from being installed, and is not tried again before a day is over, it
// has another revision, or somebody asks.
func TestFailedUpdate(t *testing.T) {
	for _, tt := range []struct {
		name    string
		fail    func(*agenthost.Update)
		restart bool
		in      api.UpdateAction
		want    string
	}{
		{"download", func(u *agenthost.Update) { u.FailDownload = "HRESULT 0x8024402c" }, false, api.ActionDownload, "KB501: it cannot be downloaded: HRESULT 0x8024402c"},
		{"install", func(u *agenthost.Update) { u.FailInstall = "HRESULT 0x80073712" }, false, api.ActionInstall, "KB501: it cannot be installed: HRESULT 0x80073712"},
		{"restart", func(u *agenthost.Update) { u.TakenBack = true }, true, api.ActionVerify, "KB501: Windows has installed it, and taken it back while it restarted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t).withService()
			bad := offer("1", "Cumulative update", updates.ClassSecurity)
			tt.fail(&bad)
			h.offer(bad, offer("2", "Another one", updates.ClassSecurity))
			h.ask(request(api.ActionDownload))
			a := h.ask(request(api.ActionInstall))
			if want := []string{"KB502"}; tt.restart == gocmp.Equal(want, a.Succeeded) {
				t.Errorf("install: %+v", a)
			}
			h.boot = "boot-2"
			a = h.ask(request(api.ActionVerify))
			if diff := gocmp.Diff([]string{tt.want}, failures(a.Failures)); diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			} else if a.Failures[0].Action != tt.in {
				t.Errorf("it failed in %q", a.Failures[0].Action)
			}
			again := api.UpdatesRequest{ID: "op-2", Action: api.ActionDownload, Scope: api.UpdatesSecurity}
			if a := h.ask(again); a.Total != 0 || len(a.Failures) > 0 {
				t.Errorf("it is tried again at once: %+v", a)
			}
			again.ID, again.Retry = "op-3", true
			if a := h.ask(again); a.Total != 1 {
				t.Errorf("it is not tried again though somebody asked: %+v", a)
			}
			h.now = h.now.Add(25 * time.Hour)
			again.ID, again.Retry = "op-4", false
			if a := h.ask(again); a.Total != 1 {
				t.Errorf("it is not tried again after a day: %+v", a)
			}
			bad.Revision++
			h.offer(bad)
			again.ID = "op-5"
			if a := h.ask(again); a.Total != 1 || a.Starts != 1 {
				t.Errorf("another revision is not tried: %+v", a)
			}
		})
	}
}

// TestInteractiveUpdate: what may ask questions is known to be left to a person as soon as it is found, keeps no other one from being
// installed, and is said to fail only to somebody who asks for it.
func TestInteractiveUpdate(t *testing.T) {
	h := newHost(t).withService()
	asks := offer("1", "One that asks", updates.ClassSecurity)
	asks.Interactive = true
	asks.Bytes = 100 << 30 // which are not downloaded
	h.free = 9 << 30
	h.offer(asks, offer("2", "Another one", updates.ClassSecurity))
	mustKnow := func(request string, action api.UpdateAction) {
		t.Helper()
		known := h.known()
		if len(known.Failures) != 1 || known.Security != 2 {
			t.Fatalf("the service knows %+v", known)
		}
		if f := known.Failures[0]; f.Name != "KB501" || !f.Interactive || f.Request != request || f.Action != action || !strings.Contains(f.Error, "install it at the console of the host") {
			t.Errorf("the service knows %+v", f)
		}
	}
	h.run(0)
	mustKnow("", "")
	found := h.known().Failures[0].At
	for id, retried := range []bool{false, false, true} {
		h.now = h.now.Add(25 * time.Hour)
		h.run(0)
		if at := h.known().Failures[0].At; !at.Equal(found) {
			t.Errorf("another search finds it out again at %s", at)
		}
		a := h.ask(api.UpdatesRequest{ID: fmt.Sprintf("op-%d", id), Action: api.ActionDownload, Scope: api.UpdatesSecurity, Retry: retried})
		if a.Error != "" || !gocmp.Equal(a.Succeeded, []string{"KB502"}) || len(a.Failures) > 0 != retried {
			t.Errorf("download: %+v", a)
		}
	}
	mustKnow("op-2", api.ActionDownload)
	if a := h.ask(api.UpdatesRequest{ID: "op-2", Action: api.ActionInstall, Scope: api.UpdatesSecurity, Retry: true}); !gocmp.Equal(a.Succeeded, []string{"KB502"}) {
		t.Errorf("install: %+v", a)
	}
	asks.Interactive, h.free = false, 0
	h.offer(asks)
	h.ask(api.UpdatesRequest{ID: "op-3", Action: api.ActionVerify, Scope: api.UpdatesSecurity})
	if a := h.ask(api.UpdatesRequest{ID: "op-4", Action: api.ActionDownload, Scope: api.UpdatesSecurity}); !gocmp.Equal(a.Succeeded, []string{"KB501"}) {
		t.Errorf("it does not ask any more: %+v", a)
	}
}

// TestServiceIsKilled: the attempt goes on when the service is started again, also in another boot, but not for good.
func TestServiceIsKilled(t *testing.T) {
	h := newHost(t).withService()
	h.offer(offer("1", "Cumulative update", updates.ClassSecurity))
	h.ask(request(api.ActionDownload))
	if _, err := updates.Request(h, request(api.ActionInstall)); err != nil {
		t.Fatal(err)
	}
	kill := h.runAndKill
	kill()
	if a := h.known().Attempt; !a.EndedAt.IsZero() || a.Starts != 1 {
		t.Fatalf("after the service was killed: %+v", a)
	}
	h.boot = "boot-2"
	a := h.ask(request(api.ActionInstall))
	if a.EndedAt.IsZero() || a.Error != "" || a.Starts != 2 {
		t.Errorf("when it was started again: %+v", a)
	}

	bad := offer("3", "One that kills", updates.ClassSecurity)
	bad.FailDownload = "the host has lost its power"
	h.offer(bad)
	r := api.UpdatesRequest{ID: "op-2", Action: api.ActionDownload, Scope: api.UpdatesSecurity}
	if _, err := updates.Request(h, r); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		kill()
	}
	if a := h.ask(r); !strings.Contains(a.Error, "3 times") || a.EndedAt.IsZero() {
		t.Errorf("after it was killed three times: %+v", a)
	}
}

// read is the text of a file.
func (h *host) read(path string) string {
	h.t.Helper()
	in, err := h.Open(path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

// look has the service look once at what there is to do, with another Windows Update Agent.
func (h *host) look(ctx context.Context, source updates.Source) {
	(&updates.Updater{System: h, Source: source, Now: func() time.Time { return h.now }, Sleep: h.sleepUntil(h.now)}).Run(ctx)
}

// runAndKill runs the service until it downloads or installs something, and kills it then.
func (h *host) runAndKill() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	h.before = func() {
		cancel()
		runtime.Goexit() // what a process does ends with it
	}
	h.look(ctx, h)
	h.before = nil
}

// TestNoTimeLeft: an installation whose time is over is not begun, since nobody would wait for it, and no update has failed.
func TestNoTimeLeft(t *testing.T) {
	h := newHost(t).withService()
	h.offer(offer("1", "Cumulative update", updates.ClassSecurity))
	h.ask(request(api.ActionDownload))
	if _, err := updates.Request(h, request(api.ActionInstall)); err != nil {
		t.Fatal(err)
	}
	h.runAndKill()
	left := offer("2", "What was not installed yet", updates.ClassSecurity)
	left.Downloaded = true
	h.offer(left)
	h.now, h.installs = h.now.Add(3*time.Hour), 0
	a := h.ask(request(api.ActionInstall))
	if a.EndedAt.IsZero() || !strings.Contains(a.Error, "1 of 1 updates are left for the next operation") || len(a.Failures) > 0 || h.installs > 0 {
		t.Errorf("after %d installations: %+v", h.installs, a)
	}
}

// TestLittleTimeLeft: no installation is begun in whose middle Windows would be restarted, because the time of the request is over then. What is left
// has not failed. The first one is begun in any case.
func TestLittleTimeLeft(t *testing.T) {
	for _, tt := range []struct {
		takes time.Duration
		want  []string
		err   string
	}{
		{2 * time.Hour, []string{"KB502", "KB501", "KB503"}, ""},
		{2*time.Hour + time.Minute, []string{"KB502"}, "2 of 3 updates are left for the next operation: of 3h0m0s less than 1h0m0s is left, which may not be enough for Windows"},
	} {
		t.Run(tt.takes.String(), func(t *testing.T) {
			h := newHost(t).withService()
			alone := offer("2", "Servicing stack", updates.ClassSecurity)
			alone.Exclusive, alone.NeedsNoRestart = true, true
			h.offer(offer("1", "Cumulative update", updates.ClassSecurity), alone, offer("3", "Framework", updates.ClassSecurity))
			h.ask(request(api.ActionDownload))
			h.before = func() { h.now = h.now.Add(tt.takes) }
			a := h.ask(request(api.ActionInstall))
			if !gocmp.Equal(a.Succeeded, tt.want) || a.Error != tt.err || len(a.Failures)+len(h.known().Untried) > 0 || a.AfterRestart != 0 || a.Done != len(tt.want) {
				t.Errorf("got %+v", a)
			}
			h.before = nil
			if a := h.ask(api.UpdatesRequest{ID: "op-2", Action: api.ActionDownload, Scope: api.UpdatesSecurity}); a.Total != 3-len(tt.want) {
				t.Errorf("the next request: %+v", a)
			}
		})
	}
}

// TestDiskFull: nothing is downloaded that would fill the disk, and the volume is named.
func TestDiskFull(t *testing.T) {
	h := newHost(t).withService()
	big := offer("1", "Cumulative update", updates.ClassSecurity)
	big.Bytes = 100 << 30 // as Windows says of some
	h.offer(big)
	h.free = 9 << 30
	if a := h.ask(request(api.ActionDownload)); !strings.Contains(a.Error, "10.0 GiB are needed, 9.0 GiB are free") || h.downloads > 0 {
		t.Errorf("%d downloads: %+v", h.downloads, a)
	}
	h.free = 11 << 30
	if a := h.ask(api.UpdatesRequest{ID: "op-2", Action: api.ActionDownload, Scope: api.UpdatesSecurity}); a.Error != "" || h.downloads != 1 {
		t.Errorf("%d downloads: %+v", h.downloads, a)
	}
}

// TestRestartFirst: what Windows does not install before a restart has not failed.
func TestRestartFirst(t *testing.T) {
	h := newHost(t).withService()
	h.offer(offer("1", "Cumulative update", updates.ClassSecurity))
	h.ask(request(api.ActionDownload))
	r := restartFirst{h}
	if _, err := updates.Request(h, request(api.ActionInstall)); err != nil {
		t.Fatal(err)
	}
	h.look(t.Context(), r)
	if a := h.known().Attempt; !a.RebootRequired || len(a.Failures) > 0 || a.Error == "" || a.AfterRestart != 1 {
		t.Errorf("got %+v", a)
	}
}

// TestRestartFirstAgain: Windows that wants to be restarted first, and does so again after that, would have the host drained and restarted again and
// again, each time with success.
func TestRestartFirstAgain(t *testing.T) {
	h := newHost(t).withService()
	alone := offer("1", "Servicing stack", updates.ClassSecurity)
	alone.Exclusive = true
	h.offer(alone, offer("2", "Cumulative update", updates.ClassSecurity))
	install := func(id, boot string, source updates.Source) *api.UpdateAttempt {
		t.Helper()
		h.boot = boot
		h.now = h.now.Add(25 * time.Hour)
		h.ask(api.UpdatesRequest{ID: id, Action: api.ActionDownload, Scope: api.UpdatesSecurity})
		if _, err := updates.Request(h, api.UpdatesRequest{ID: id, Action: api.ActionInstall, Scope: api.UpdatesSecurity}); err != nil {
			t.Fatal(err)
		}
		h.look(t.Context(), source)
		return h.known().Attempt
	}
	for _, id := range []string{"op-1", "op-2"} { // it was not restarted in between
		if a := install(id, "boot-1", restartFirst{h}); !a.RebootRequired || len(a.Failures) > 0 || a.AfterRestart != 2 {
			t.Errorf("%s in the first boot: %+v", id, a)
		}
	}
	const why = ": it cannot be installed: Windows asks for a restart before it installs anything, although it was restarted since the operation before: " +
		`see what it waits for (kubectl windows top, column REBOOT PENDING) and C:\Windows\Logs\CBS\CBS.log`
	for _, boot := range []string{"boot-2", "boot-3"} {
		a := install("op in "+boot, boot, restartFirst{h})
		if diff := gocmp.Diff([]string{"KB502" + why, "KB501" + why}, failures(a.Failures)); diff != "" || !a.RebootRequired || a.AfterRestart != 0 {
			t.Errorf("in %s: %+v, (-want +got):\n%s", boot, a, diff)
		}
	}
	if a := install("op-5", "boot-4", &restartsBetween{Source: h}); len(a.Failures) > 0 || a.AfterRestart != 1 || !gocmp.Equal(a.Succeeded, []string{"KB501"}) {
		t.Errorf("when it installs one of them: %+v", a)
	}
}

// TestRestartFirstAndNotBegun: what is in between hides neither that Windows asks for a restart in vain, nor that it does not begin.
func TestRestartFirstAndNotBegun(t *testing.T) {
	h := newHost(t).withService()
	h.offer(offer("1", "Cumulative update", updates.ClassSecurity))
	for n, tt := range []struct {
		source updates.Source
		fails  bool
	}{{restartFirst{h}, false}, {doesNothing{h, updates.ErrNotBegun, true}, false}, {restartFirst{h}, true}, {doesNothing{h, updates.ErrNotBegun, true}, true}} {
		h.boot, h.now = fmt.Sprintf("boot-%d", n), h.now.Add(25*time.Hour)
		r := api.UpdatesRequest{ID: fmt.Sprintf("op-%d", n), Action: api.ActionDownload, Scope: api.UpdatesSecurity, Retry: true}
		h.ask(r)
		r.Action = api.ActionInstall
		if _, err := updates.Request(h, r); err != nil {
			t.Fatal(err)
		}
		h.look(t.Context(), tt.source)
		if a := h.known().Attempt; (len(a.Failures) > 0) != tt.fails {
			t.Errorf("request %d: %+v", n, a)
		}
	}
}

// TestInterruptedVerification: updates that wait have not failed because the search for what became of others never ended.
func TestInterruptedVerification(t *testing.T) {
	h := newHost(t).withService()
	h.offer(offer("1", "Cumulative update", updates.ClassSecurity))
	h.ask(request(api.ActionDownload))
	h.ask(request(api.ActionInstall))
	h.boot = "boot-2"
	h.offer(offer("2", "What was not installed yet", updates.ClassSecurity))
	h.run(time.Minute)
	if _, err := updates.Request(h, request(api.ActionVerify)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		h.look(ctx, endsSearch{h, cancel})
	}
	h.look(t.Context(), h)
	if known := h.known(); known.Attempt.Error == "" || len(known.Attempt.Failures)+len(known.Failures) > 0 {
		t.Errorf("got %+v, failures %+v", known.Attempt, known.Failures)
	}
}

// endsSearch ends the service while Windows searches.
type endsSearch struct {
	*host

	end func()
}

func (s endsSearch) Search(ctx context.Context) ([]updates.Offer, error) {
	s.end()
	return nil, ctx.Err()
}

// TestBeginOfABootIsKept: the time within which Windows may complete updates begins with the boot, also when nothing is searched for.
func TestBeginOfABootIsKept(t *testing.T) {
	h := newHost(t).withService()
	h.look(t.Context(), cannotSearch{h})
	h.boot = "boot-2"
	began := h.now
	h.run(10 * time.Minute)
	if known := h.known(); known.RunningBootID != "boot-2" || known.RunningSince.Sub(began) > time.Minute {
		t.Errorf("in %s the service runs since %s, want %s", known.RunningBootID, known.RunningSince, began)
	}
}

type cannotSearch struct{ *host }

func (cannotSearch) Search(context.Context) ([]updates.Offer, error) {
	return nil, errors.New("HRESULT 0x8024402c")
}

type restartFirst struct{ updates.Source }

func (restartFirst) Install(context.Context, []updates.Identity) ([]updates.Result, error) {
	return nil, updates.ErrRestartFirst
}

// TestHangingInstallation: Windows may never answer. The attempt ends, and no other call is made until it does.
func TestHangingInstallation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t).withService()
		alone := offer("1", "Servicing stack", updates.ClassSecurity)
		alone.Exclusive = true
		h.offer(alone, offer("2", "Cumulative update", updates.ClassSecurity))
		h.ask(request(api.ActionDownload))
		if _, err := updates.Request(h, request(api.ActionInstall)); err != nil {
			t.Fatal(err)
		}
		end := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		h.now = time.Now()
		(&updates.Updater{System: h, Source: hangingInstall{h, end}, Now: func() time.Time { return h.now }, Sleep: func(context.Context, time.Duration) error {
			if h.known().Attempt.Request.ID == "op-2" {
				cancel()
				return ctx.Err()
			}
			_, err := updates.Request(h, api.UpdatesRequest{ID: "op-2", Action: api.ActionDownload, Scope: api.UpdatesSecurity, Retry: true})
			if a := h.known().Attempt; !strings.Contains(a.Error, "did not answer within") || len(a.Failures) != 1 {
				t.Errorf("got %+v", a)
			}
			return err
		}}).Run(ctx)
		if a := h.known().Attempt; !strings.Contains(a.Error, "has not answered an earlier request yet") {
			t.Errorf("got %+v", a)
		}
		close(end)
	})
}

// TestHangingSearch: what is to be installed while a search hangs was not begun, and has not failed.
func TestHangingSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t).withService()
		h.offer(offer("1", "Cumulative update", updates.ClassSecurity))
		h.ask(request(api.ActionDownload))
		h.boot = "boot-2" // a search is due
		end := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		(&updates.Updater{System: h, Source: hangingSearch{h, end}, Now: func() time.Time { return h.now }, Sleep: func(context.Context, time.Duration) error {
			if h.known().Attempt.Request.Action == api.ActionInstall {
				cancel()
				return ctx.Err()
			}
			_, err := updates.Request(h, request(api.ActionInstall))
			return err
		}}).Run(ctx)
		if a := h.known().Attempt; a.EndedAt.IsZero() || !strings.Contains(a.Error, "it was not begun: the Windows Update Agent has not answered an earlier request yet") || len(a.Failures) > 0 {
			t.Errorf("got %+v", a)
		}
		close(end)
	})
}

type hangingSearch struct {
	updates.Source

	end chan struct{}
}

func (s hangingSearch) Search(context.Context) ([]updates.Offer, error) {
	<-s.end
	return nil, nil
}

type hangingInstall struct {
	updates.Source

	end chan struct{}
}

func (s hangingInstall) Install(context.Context, []updates.Identity) ([]updates.Result, error) {
	<-s.end
	return nil, nil
}

// TestRequest: what is asked is checked before it is left for the service.
func TestRequest(t *testing.T) {
	h := newHost(t)
	good := request(api.ActionDownload)
	if _, err := updates.Request(h, good); err == nil || !strings.Contains(err.Error(), "reconfigure the host") {
		t.Errorf("without the service: %v", err)
	}
	h.withService()
	for name, change := range map[string]func(*api.UpdatesRequest){
		"ID":      func(r *api.UpdatesRequest) { r.ID = "" },
		"long ID": func(r *api.UpdatesRequest) { r.ID = strings.Repeat("x", 65) },
		"action":  func(r *api.UpdatesRequest) { r.Action = "Uninstall" },
		"scope":   func(r *api.UpdatesRequest) { r.Scope = "" },
	} {
		r := good
		change(&r)
		if _, err := updates.Request(h, r); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for range 2 {
		if a, err := updates.Request(h, good); a != nil || err != nil {
			t.Errorf("before the service has seen it: %+v, %v", a, err)
		}
	}
}

// TestInstalledAndStillOffered: what Windows says it has installed, without a restart, and offers as before has failed. It would
// be installed, and the host drained for it, every hour.
func TestInstalledAndStillOffered(t *testing.T) {
	for _, tt := range []struct {
		name   string
		verify bool
	}{{"it is verified", true}, {"it is found by the next search", false}} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t).withService()
			stays := offer("1", "One that stays", updates.ClassSecurity)
			stays.NeedsNoRestart, stays.StaysOffered = true, true
			h.offer(stays)
			h.ask(request(api.ActionDownload))
			if a := h.ask(request(api.ActionInstall)); a.RebootRequired || !gocmp.Equal(a.Succeeded, []string{"KB501"}) {
				t.Errorf("install: %+v", a)
			}
			const want = "KB501: Windows has installed it, and offers it as before"
			if tt.verify {
				if a := h.ask(request(api.ActionVerify)); !gocmp.Equal(failures(a.Failures), []string{want}) {
					t.Errorf("verify: %+v", a)
				}
			} else {
				h.run(15 * time.Hour)
			}
			if known := h.known(); !gocmp.Equal(failures(known.Failures), []string{want}) || !known.Failures[0].RetryAt.After(h.now) || len(known.Unproven) > 0 {
				t.Errorf("the service knows %+v", known)
			}
			if a := h.ask(api.UpdatesRequest{ID: "op-2", Action: api.ActionDownload, Scope: api.UpdatesSecurity}); a.Total != 0 {
				t.Errorf("it is tried again at once: %+v", a)
			}
		})
	}
}

// TestNeedsRestartAndStillOffered: what a restart completes is judged after that.
func TestNeedsRestartAndStillOffered(t *testing.T) {
	h := newHost(t).withService()
	quick, slow := offer("1", "One that takes effect at once", updates.ClassSecurity), offer("2", "One that needs a restart", updates.ClassSecurity)
	quick.NeedsNoRestart, quick.StaysOffered = true, true
	h.offer(quick, slow)
	h.ask(request(api.ActionDownload))
	if a := h.ask(request(api.ActionInstall)); !a.RebootRequired || len(a.Succeeded) != 2 {
		t.Errorf("install: %+v", a)
	}
	h.run(15 * time.Hour)
	if known := h.known(); len(known.Failures) > 0 || len(known.Unproven) != 1 {
		t.Errorf("before the restart the service knows %+v", known)
	}
	h.boot = "boot-2"
	if a := h.ask(request(api.ActionVerify)); len(a.Failures) != 1 || a.Failures[0].Name != "KB501" {
		t.Errorf("verify: %+v", a)
	}
}

// TestInterruptedInstallationNeedsRestart: whoever ends in the middle of an installation, or does not learn how it ended, learns
// of Windows whether it has to be restarted.
func TestInterruptedInstallationNeedsRestart(t *testing.T) {
	installed := func(t *testing.T, change func(*agenthost.Update)) *host {
		t.Helper()
		h := newHost(t).withService()
		u := offer("1", "Cumulative update", updates.ClassSecurity)
		change(&u)
		h.offer(u)
		h.ask(request(api.ActionDownload))
		if _, err := updates.Request(h, request(api.ActionInstall)); err != nil {
			t.Fatal(err)
		}
		return h
	}
	run := func(ctx context.Context, h *host, source updates.Source) *api.UpdateAttempt {
		h.look(ctx, source)
		return h.known().Attempt
	}
	for _, tt := range []struct {
		name    string
		quick   bool
		restart bool // in between
		want    bool
	}{
		{name: "Windows waits for a restart", want: true},
		{name: "Windows waits for none", quick: true},
		{name: "Windows was restarted meanwhile", restart: true},
	} {
		t.Run("the service ends: "+tt.name, func(t *testing.T) {
			h := installed(t, func(u *agenthost.Update) { u.NeedsNoRestart = tt.quick })
			ctx, cancel := context.WithCancel(t.Context())
			if a := run(ctx, h, endsService{h, cancel}); !a.EndedAt.IsZero() {
				t.Fatalf("it has ended: %+v", a)
			}
			if tt.restart {
				h.boot = "boot-2"
			}
			if a := run(t.Context(), h, h); a.EndedAt.IsZero() || a.Starts != 2 || a.RebootRequired != tt.want {
				t.Errorf("got %+v", a)
			}
		})
	}
	t.Run("the service ends each time", func(t *testing.T) {
		h := installed(t, func(*agenthost.Update) {})
		h.offer(downloaded("1"), downloaded("2"), downloaded("3"), downloaded("4"))
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			run(ctx, h, endsService{h, cancel})
		}
		if a := run(t.Context(), h, h); a.Error == "" || !a.RebootRequired {
			t.Errorf("got %+v", a)
		}
	})
	t.Run("Windows does not say how it ended", func(t *testing.T) {
		h := installed(t, func(*agenthost.Update) {})
		if a := run(t.Context(), h, failsInstall{h, errors.New("HRESULT 0x80240020")}); len(a.Failures) != 1 || !a.RebootRequired {
			t.Errorf("got %+v", a)
		}
	})
	t.Run("Windows does not say whether it waits", func(t *testing.T) {
		h := installed(t, func(*agenthost.Update) {})
		if a := run(t.Context(), h, saysNothing{failsInstall{h, errors.New("HRESULT 0x80240020")}}); !a.RebootRequired {
			t.Errorf("got %+v", a)
		}
	})
}

// TestShutdownIsNotKnownYet: Windows stops its own service before ours when somebody restarts the host. That is an interruption, and no failure of
// the updates; it is one when the service went by itself.
func TestShutdownIsNotKnownYet(t *testing.T) {
	stopped := fmt.Errorf("%w (HRESULT 0x8024001e)", updates.ErrServiceStopped)
	for _, tt := range []struct {
		name  string
		whole bool
		ends  time.Duration // after which the service ends. Zero: it does not
	}{
		{"the call fails, and the host goes down", true, time.Minute},
		{"each update fails, and the host goes down", false, time.Minute},
		{"the call fails", true, 0},
		{"each update fails", false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t).withService()
				h.offer(downloaded("1"))
				h.run(0)
				if _, err := updates.Request(h, request(api.ActionInstall)); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(tt.ends, 10*time.Minute))
				defer cancel()
				h.now = time.Now()
				(&updates.Updater{System: h, Source: doesNothing{h, stopped, tt.whole}, Now: time.Now}).Run(ctx)
				a := h.known().Attempt
				if interrupted := tt.ends > 0; a.EndedAt.IsZero() != interrupted || (len(a.Failures) == 0) != interrupted || len(h.known().Untried) > 0 {
					t.Fatalf("got %+v", a)
				}
				if a := h.ask(request(api.ActionInstall)); tt.ends > 0 && (a.Starts != 2 || !gocmp.Equal(a.Succeeded, []string{"KB501"})) {
					t.Errorf("after the restart: %+v", a)
				}
			})
		})
	}
}

func downloaded(id string) agenthost.Update {
	u := offer(id, "Update "+id, updates.ClassSecurity)
	u.Downloaded = true
	return u
}

// endsService installs one update, and ends the service before it learns of that.
type endsService struct {
	updates.Source

	end func()
}

func (s endsService) Install(ctx context.Context, ids []updates.Identity) ([]updates.Result, error) {
	_, err := s.Source.Install(ctx, ids[:1])
	s.end()
	return nil, err
}

// failsInstall installs, and says that this has failed.
type failsInstall struct {
	*host

	err error
}

func (s failsInstall) Install(ctx context.Context, ids []updates.Identity) ([]updates.Result, error) {
	if _, err := s.host.Install(ctx, ids); err != nil {
		return nil, err
	}
	return nil, s.err
}

// saysNothing does not say whether Windows waits for a restart.
type saysNothing struct{ updates.Source }

func (saysNothing) RestartPending(context.Context) (bool, error) {
	return false, errors.New("the registry cannot be read")
}

// notBegun fails before it does anything.
type notBegun struct{ updates.Source }

func (notBegun) Download(context.Context, updates.Identity) error {
	return fmt.Errorf("%w: searching: HRESULT 0x8024001e", updates.ErrNotBegun)
}

func (notBegun) Install(context.Context, []updates.Identity) ([]updates.Result, error) {
	return nil, fmt.Errorf("%w: searching: HRESULT 0x8024001e", updates.ErrNotBegun)
}

// TestNotBegun: what keeps Windows from beginning says nothing about the updates, which are tried again when it is over.
func TestNotBegun(t *testing.T) {
	for _, action := range []api.UpdateAction{api.ActionDownload, api.ActionInstall} {
		t.Run(string(action), func(t *testing.T) {
			h := newHost(t).withService()
			h.offer(offer("1", "Cumulative update", updates.ClassSecurity), offer("2", "Another one", updates.ClassSecurity))
			if action == api.ActionInstall {
				h.ask(request(api.ActionDownload))
			}
			if _, err := updates.Request(h, request(action)); err != nil {
				t.Fatal(err)
			}
			h.look(t.Context(), notBegun{h})
			a := h.known().Attempt
			if a.EndedAt.IsZero() || a.Error != "it was not begun: searching: HRESULT 0x8024001e" || a.RebootRequired || len(a.Failures)+len(a.Succeeded)+len(h.known().Failures) > 0 {
				t.Errorf("got %+v", a)
			}
			if a := h.ask(api.UpdatesRequest{ID: "op-2", Action: api.ActionDownload, Scope: api.UpdatesSecurity}); a.Total != 2 || len(a.Succeeded) != 2 {
				t.Errorf("they are not tried again: %+v", a)
			}
		})
	}
}

// TestUntriedTwice: an update about which Windows does nothing in two operations in a row has failed, as the host would be drained for it again and again.
func TestUntriedTwice(t *testing.T) {
	notBegun, notOffered := fmt.Errorf("%w: HRESULT 0x800706ba", updates.ErrNotBegun), updates.ErrNotOffered
	for _, tt := range []struct {
		name   string
		action api.UpdateAction
		err    error
		whole  bool // the call fails, and not the update
		want   string
	}{
		{"a download is not begun", api.ActionDownload, notBegun, true, "KB501: it cannot be downloaded, as in the operation before: it was not begun: HRESULT 0x800706ba"},
		{"an installation is not begun", api.ActionInstall, notBegun, true, "KB501: it cannot be installed, as in the operation before: it was not begun: HRESULT 0x800706ba"},
		{"it is not offered for download", api.ActionDownload, notOffered, true, "KB501: it cannot be downloaded, as in the operation before: the server does not offer it any more"},
		{"it is not offered for installation", api.ActionInstall, notOffered, false, "KB501: it cannot be installed, as in the operation before: the server does not offer it any more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t).withService()
			h.offer(offer("1", "Cumulative update", updates.ClassSecurity))
			operation := func(id string, source updates.Source) *api.UpdateAttempt {
				t.Helper()
				if tt.action == api.ActionInstall {
					h.ask(api.UpdatesRequest{ID: id, Action: api.ActionDownload, Scope: api.UpdatesSecurity})
				}
				if _, err := updates.Request(h, api.UpdatesRequest{ID: id, Action: tt.action, Scope: api.UpdatesSecurity}); err != nil {
					t.Fatal(err)
				}
				h.look(t.Context(), source)
				return h.known().Attempt
			}
			if a := operation("op-1", doesNothing{h, tt.err, tt.whole}); a.EndedAt.IsZero() || len(a.Failures)+len(h.known().Failures) > 0 {
				t.Errorf("the first time: %+v", a)
			}
			h.now = h.now.Add(time.Hour)
			a := operation("op-2", doesNothing{h, tt.err, tt.whole})
			if diff := gocmp.Diff([]string{tt.want}, failures(a.Failures)); diff != "" {
				t.Errorf("the second time (-want +got):\n%s", diff)
			}
			h.run(time.Minute) // it is searched again, and still waits
			if a := h.ask(api.UpdatesRequest{ID: "op-3", Action: api.ActionDownload, Scope: api.UpdatesSecurity}); a.Total != 0 {
				t.Errorf("it is tried again at once: %+v", a)
			}
			h.now = h.now.Add(25 * time.Hour)
			if a := operation("op-4", doesNothing{h, errors.New("HRESULT 0x80070643"), tt.whole}); len(a.Failures) != 1 {
				t.Errorf("it is tried a day later: %+v", a)
			}
			h.now = h.now.Add(25 * time.Hour)
			if a := operation("op-5", doesNothing{h, tt.err, tt.whole}); a.Total != 1 || len(a.Failures) > 0 {
				t.Errorf("Windows did something about it in between: %+v", a)
			}
		})
	}
}

// TestUntriedInARow: only what is so for longer than somebody tries it again, and not long ago, is taken for a failure.
func TestUntriedInARow(t *testing.T) {
	notBegun := fmt.Errorf("%w: HRESULT 0x800706ba", updates.ErrNotBegun)
	for _, tt := range []struct {
		name  string
		later []time.Duration // of one request after the other, after the first one
		old   bool            // the first one was that of an earlier release, which kept no time
		fails bool            // the last one
	}{
		{name: "at once", later: []time.Duration{time.Minute}},
		{name: "at once, again and again", later: []time.Duration{40 * time.Minute, 10 * time.Minute, 9 * time.Minute}},
		{name: "for more than an hour", later: []time.Duration{40 * time.Minute, 20 * time.Minute}, fails: true},
		{name: "the next day", later: []time.Duration{25 * time.Hour}, fails: true},
		{name: "in the window of the next week", later: []time.Duration{7 * 24 * time.Hour}, fails: true},
		{name: "much later", later: []time.Duration{9 * 24 * time.Hour}},
		{name: "the clock ran ahead", later: []time.Duration{-2 * time.Hour}},
		{name: "since an earlier release", later: []time.Duration{2 * time.Hour}, old: true},
		{name: "since an earlier release, and again", later: []time.Duration{2 * time.Hour, 2 * time.Hour}, old: true, fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t).withService()
			h.offer(offer("1", "Cumulative update", updates.ClassSecurity))
			download := func(id string) *api.UpdateAttempt {
				t.Helper()
				if _, err := updates.Request(h, api.UpdatesRequest{ID: id, Action: api.ActionDownload, Scope: api.UpdatesSecurity, Retry: true}); err != nil {
					t.Fatal(err)
				}
				h.look(t.Context(), doesNothing{h, notBegun, true})
				return h.known().Attempt
			}
			a := download("op")
			if tt.old {
				text := strings.Replace(h.read(api.UpdatesPath), `,"at":"2026-03-05T12:00:00Z"}]`, `}]`, 1)
				if strings.Contains(text, `"at"`) {
					t.Fatalf("the time is still there: %s", text)
				}
				if err := h.WriteFile(api.UpdatesPath, []byte(text), config.AccessAdministrators); err != nil {
					t.Fatal(err)
				}
			}
			for n, later := range tt.later {
				if len(a.Failures) > 0 {
					t.Errorf("request %d: %+v", n, a)
				}
				h.now = h.now.Add(later)
				a = download(fmt.Sprintf("op-%d", n))
			}
			if fails := len(a.Failures) > 0; fails != tt.fails {
				t.Errorf("the last request: %+v", a)
			}
		})
	}
}

// TestBusy: that Windows installs something else says nothing about the updates, however often. When it has to be restarted as well, it is that for which it waits.
func TestBusy(t *testing.T) {
	for _, action := range []api.UpdateAction{api.ActionDownload, api.ActionInstall} {
		t.Run(string(action), func(t *testing.T) {
			h := newHost(t).withService()
			h.offer(offer("1", "Cumulative update", updates.ClassSecurity))
			busy := fmt.Errorf("%w: %w", updates.ErrNotBegun, updates.ErrBusy)
			request := func(id string, boot string, source updates.Source) *api.UpdateAttempt {
				t.Helper()
				h.boot = boot
				h.now = h.now.Add(2 * time.Hour)
				if action == api.ActionInstall {
					h.ask(api.UpdatesRequest{ID: id, Action: api.ActionDownload, Scope: api.UpdatesSecurity})
				}
				if _, err := updates.Request(h, api.UpdatesRequest{ID: id, Action: action, Scope: api.UpdatesSecurity}); err != nil {
					t.Fatal(err)
				}
				h.look(t.Context(), source)
				return h.known().Attempt
			}
			for _, id := range []string{"op-1", "op-2", "op-3"} {
				if a := request(id, "boot-1", doesNothing{h, busy, true}); a.Error != busy.Error() || a.RebootRequired || len(a.Failures)+len(h.known().Untried) > 0 {
					t.Errorf("%s: %+v, untried %+v", id, a, h.known().Untried)
				}
			}
			if action == api.ActionDownload {
				return
			}
			if a := request("op-4", "boot-1", doesNothing{waitsForRestart{h}, busy, true}); !a.RebootRequired || a.AfterRestart != 1 || len(a.Failures) > 0 {
				t.Errorf("it has to be restarted: %+v", a)
			}
			if a := request("op-5", "boot-2", doesNothing{waitsForRestart{h}, busy, true}); !a.RebootRequired || len(a.Failures) != 1 {
				t.Errorf("it has to be restarted although it was: %+v", a)
			}
		})
	}
}

// doesNothing fails, for the whole call or for each update.
type doesNothing struct {
	updates.Source

	err   error
	whole bool
}

func (s doesNothing) Download(context.Context, updates.Identity) error { return s.err }

func (s doesNothing) Install(_ context.Context, ids []updates.Identity) ([]updates.Result, error) {
	if s.whole {
		return nil, s.err
	}
	results := make([]updates.Result, len(ids))
	for i := range results {
		results[i].Err = s.err
	}
	return results, nil
}

// TestClockRanAhead: a failure in the future is not believed, so that it puts nothing off for longer than a day.
func TestClockRanAhead(t *testing.T) {
	for _, ahead := range []time.Duration{2 * time.Hour, 300 * 24 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			h := newHost(t).withService()
			bad := offer("1", "Cumulative update", updates.ClassSecurity)
			bad.FailDownload = "HRESULT 0x8024402c"
			h.offer(bad)
			h.now = h.now.Add(ahead)
			h.ask(request(api.ActionDownload))
			h.now = h.now.Add(-ahead)
			if a := h.ask(api.UpdatesRequest{ID: "op-2", Action: api.ActionDownload, Scope: api.UpdatesSecurity}); a.Total != 1 {
				t.Errorf("it is not tried again: %+v", a)
			}
			if a := h.ask(api.UpdatesRequest{ID: "op-3", Action: api.ActionDownload, Scope: api.UpdatesSecurity}); a.Total != 0 {
				t.Errorf("it is tried again at once: %+v", a)
			}
		})
	}
}

// TestExclusiveUpdate: Windows installs nothing of a list with an update that has to be alone. That one comes first, and the others follow in the
// same attempt.
func TestExclusiveUpdate(t *testing.T) {
	h := newHost(t).withService()
	alone := offer("2", "Servicing stack", updates.ClassSecurity)
	alone.Exclusive, alone.NeedsNoRestart = true, true
	h.offer(offer("1", "Cumulative update", updates.ClassSecurity), alone, offer("3", "Framework", updates.ClassSecurity))
	h.ask(request(api.ActionDownload))
	a := h.ask(request(api.ActionInstall))
	if diff := gocmp.Diff([]string{"KB502", "KB501", "KB503"}, a.Succeeded); diff != "" || a.Error != "" || len(a.Failures) > 0 || !a.RebootRequired || a.Done != 3 {
		t.Errorf("got %+v, (-want +got):\n%s", a, diff)
	}
	if h.installs != 2 {
		t.Errorf("%d installations", h.installs)
	}
}

// TestExclusiveUpdateFails: the others are independent of an update that is installed before them, unless Windows says something about all of them.
func TestExclusiveUpdateFails(t *testing.T) {
	for _, tt := range []struct {
		name      string
		errs      []error // of one call after the other
		succeeded []string
		failed    []string
		err       string
		done      int
	}{
		{
			"its call fails", []error{errors.New("HRESULT 0x80240020")}, []string{"KB501"},
			[]string{"KB502: it cannot be installed: HRESULT 0x80240020"}, "HRESULT 0x80240020", 2,
		},
		{
			"each call fails", []error{errors.New("HRESULT 0x80240020"), errors.New("HRESULT 0x80070643")}, nil,
			[]string{"KB501: it cannot be installed: HRESULT 0x80070643", "KB502: it cannot be installed: HRESULT 0x80240020"}, "HRESULT 0x80240020; HRESULT 0x80070643", 2,
		},
		{"it is not begun", []error{updates.ErrNotBegun}, nil, nil, "it was not begun", 0},
		{"Windows has to be restarted first", []error{updates.ErrRestartFirst}, nil, nil, "Windows has to be restarted first", 0},
		{
			"its call fails, and Windows has to be restarted", []error{errors.New("HRESULT 0x80240020"), updates.ErrRestartFirst}, nil,
			[]string{"KB502: it cannot be installed: HRESULT 0x80240020"}, "HRESULT 0x80240020; Windows has to be restarted first", 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t).withService()
			alone := offer("2", "Servicing stack", updates.ClassSecurity)
			alone.Exclusive = true
			h.offer(offer("1", "Cumulative update", updates.ClassSecurity), alone)
			h.ask(request(api.ActionDownload))
			if _, err := updates.Request(h, request(api.ActionInstall)); err != nil {
				t.Fatal(err)
			}
			h.look(t.Context(), &failsInTurn{Source: h, errs: tt.errs})
			a := h.known().Attempt
			if !gocmp.Equal(a.Succeeded, tt.succeeded) || !gocmp.Equal(failures(a.Failures), tt.failed) || a.Error != tt.err || a.Done != tt.done {
				t.Errorf("got %+v", a)
			}
		})
	}
}

// failsInTurn has one installation after the other fail, and makes those after them.
type failsInTurn struct {
	updates.Source

	errs []error
}

func (s *failsInTurn) Install(ctx context.Context, ids []updates.Identity) ([]updates.Result, error) {
	if len(s.errs) == 0 {
		return s.Source.Install(ctx, ids)
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	return nil, err
}

// TestRestartBetweenUpdates: what Windows does not install before it has been restarted for another update waits for that, and has not failed.
func TestRestartBetweenUpdates(t *testing.T) {
	h := newHost(t).withService()
	alone := offer("2", "Servicing stack", updates.ClassSecurity)
	alone.Exclusive = true
	h.offer(offer("1", "Cumulative update", updates.ClassSecurity), alone, offer("3", "Framework", updates.ClassSecurity))
	h.ask(request(api.ActionDownload))
	if _, err := updates.Request(h, request(api.ActionInstall)); err != nil {
		t.Fatal(err)
	}
	h.look(t.Context(), &restartsBetween{Source: h})
	if a := h.known().Attempt; !a.RebootRequired || a.AfterRestart != 2 || a.Error != "" || len(a.Failures) > 0 || !gocmp.Equal(a.Succeeded, []string{"KB502"}) {
		t.Errorf("got %+v", a)
	}
	h.boot = "boot-2"
	h.ask(request(api.ActionVerify))
	again := request(api.ActionInstall)
	again.ID = "op-2"
	if a := h.ask(again); !gocmp.Equal(a.Succeeded, []string{"KB501", "KB503"}) || a.AfterRestart != 0 {
		t.Errorf("after the restart: %+v", a)
	}
}

// restartsBetween installs one time, and then nothing before a restart.
type restartsBetween struct {
	updates.Source

	installed bool
}

func (s *restartsBetween) Install(ctx context.Context, ids []updates.Identity) ([]updates.Result, error) {
	if s.installed {
		return nil, updates.ErrRestartFirst
	}
	s.installed = true
	return s.Source.Install(ctx, ids)
}

// TestReplacedUpdate: an update in whose place another one has come is no failure, and the other one is found at once.
func TestReplacedUpdate(t *testing.T) {
	for _, action := range []api.UpdateAction{api.ActionDownload, api.ActionInstall} {
		t.Run(string(action), func(t *testing.T) {
			h := newHost(t).withService()
			h.offer(offer("1", "October", updates.ClassSecurity))
			if action == api.ActionInstall {
				h.ask(request(api.ActionDownload))
			}
			if _, err := updates.Request(h, request(action)); err != nil {
				t.Fatal(err)
			}
			if action == api.ActionInstall {
				h.offer(offer("2", "November", updates.ClassSecurity))
			}
			searches := h.searches
			h.look(t.Context(), replacing{h})
			if a := h.known().Attempt; a.EndedAt.IsZero() || a.Error != "" || len(a.Failures) > 0 || len(a.Succeeded) > 0 || len(h.known().Failures) > 0 {
				t.Errorf("got %+v", a)
			}
			h.offer(offer("2", "November", updates.ClassSecurity))
			if h.run(0); h.searches == searches || len(h.known().Pending) != 1 || h.known().Pending[0].Name() != "KB502" {
				t.Errorf("after %d searches more the service knows %+v", h.searches-searches, h.known().Pending)
			}
		})
	}
}

// replacing downloads nothing, as something else is offered by now.
type replacing struct{ updates.Source }

func (replacing) Download(context.Context, updates.Identity) error { return updates.ErrNotOffered }

// TestSecondRestart: an update that Windows completes with a second restart was not taken back by the first one. It is by the second, if it is
// offered still, however often Windows wants to be restarted.
func TestSecondRestart(t *testing.T) {
	h := newHost(t).withService()
	bad := offer("1", "Cumulative update", updates.ClassSecurity)
	bad.TakenBack = true
	h.offer(bad)
	h.ask(request(api.ActionDownload))
	h.ask(request(api.ActionInstall))
	verify := func(boot, id string) *api.UpdateAttempt {
		t.Helper()
		h.boot = boot
		r := request(api.ActionVerify)
		r.ID = id
		if _, err := updates.Request(h, r); err != nil {
			t.Fatal(err)
		}
		h.look(t.Context(), waitsForRestart{h})
		return h.known().Attempt
	}
	for _, id := range []string{"op-1", "op-2"} { // whoever looks in between
		if a := verify("boot-2", id); !a.RebootRequired || len(a.Failures)+len(h.known().Failures) > 0 {
			t.Errorf("after the first restart: %+v", a)
		}
	}
	if a := verify("boot-3", "op-3"); a.RebootRequired || len(a.Failures) != 1 || len(h.known().Failures) != 1 || !strings.Contains(h.known().Failures[0].Error, "taken it back") {
		t.Errorf("after the second restart: %+v, %+v", a, h.known().Failures)
	}
}

// TestSecondRestartInVain: the operation that restarts Windows the second time is told that it did not help, also when the search after the boot
// has found that out before its verification. It has installed nothing itself.
func TestSecondRestartInVain(t *testing.T) {
	for _, searched := range []bool{false, true} {
		t.Run(fmt.Sprintf("searched before: %v", searched), func(t *testing.T) {
			h := newHost(t).withService()
			bad := offer("1", "Cumulative update", updates.ClassSecurity)
			bad.TakenBack = true
			h.offer(bad)
			h.ask(request(api.ActionDownload))
			h.ask(request(api.ActionInstall))
			h.boot = "boot-2"
			if _, err := updates.Request(h, request(api.ActionVerify)); err != nil {
				t.Fatal(err)
			}
			h.look(t.Context(), waitsForRestart{h})
			second := func(action api.UpdateAction) api.UpdatesRequest {
				return api.UpdatesRequest{ID: "op-2", Action: action, Scope: api.UpdatesSecurity}
			}
			if _, err := updates.Request(h, second(api.ActionDownload)); err != nil {
				t.Fatal(err)
			}
			h.look(t.Context(), waitsForRestart{h})
			if _, err := updates.Request(h, second(api.ActionInstall)); err != nil {
				t.Fatal(err)
			}
			h.look(t.Context(), restartFirst{waitsForRestart{h}})
			if a := h.known().Attempt; a.EndedAt.IsZero() || !a.RebootRequired || len(a.Succeeded) > 0 {
				t.Errorf("before the second restart: %+v", a)
			}
			h.boot = "boot-3"
			if searched {
				h.run(time.Second)
			}
			want := []string{"KB501: Windows has installed it, and taken it back while it restarted"}
			if a := h.ask(second(api.ActionVerify)); !gocmp.Equal(failures(a.Failures), want) || len(a.Succeeded) > 0 {
				t.Errorf("after the second restart: %+v", a)
			}
		})
	}
}

// waitsForRestart always does.
type waitsForRestart struct{ updates.Source }

func (waitsForRestart) RestartPending(context.Context) (bool, error) { return true, nil }
