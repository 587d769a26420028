// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build unix

package updates_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/updates"
	"github.com/openshift/windows-instance-api/test/agenthost"
)

// host is a host whose service searches for updates, with a clock that only its sleep moves.
type host struct {
	*agenthost.System

	t    *testing.T
	boot string
	now  time.Time
	// searches, downloads and installs count them.
	searches, downloads, installs int
	// before is called before each download and installation. Nil: nothing is.
	before func()
	// free is the room on the disk. Zero: as much as there is.
	free     int64
	problems []string
}

// Volume implements [engine.System].
func (h *host) Volume(path string) (string, int64, error) {
	name, free, err := h.System.Volume(path)
	return name, cmp.Or(h.free, free), err
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, boot: "boot-1", now: time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)}
	h.System = agenthost.NewSystem(filepath.Join(t.TempDir(), "c"), func() (string, error) { return h.boot, nil })
	for _, directory := range []string{`C:\`, `C:\Windows`, api.Root, api.Root + `\state`} {
		if err := h.System.MakeDirectory(directory, config.AccessAdministrators); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// Search implements [updates.Source].
func (h *host) Search(ctx context.Context) ([]updates.Offer, error) {
	h.searches++
	return h.Updates().Search(ctx)
}

// Download implements [updates.Source].
func (h *host) Download(ctx context.Context, id updates.Identity) error {
	h.downloads++
	if h.before != nil {
		h.before()
	}
	return h.Updates().Download(ctx, id)
}

// Install implements [updates.Source].
func (h *host) Install(ctx context.Context, ids []updates.Identity) ([]updates.Result, error) {
	h.installs++
	if h.before != nil {
		h.before()
	}
	return h.Updates().Install(ctx, ids)
}

// RestartPending implements [updates.Source].
func (h *host) RestartPending(ctx context.Context) (bool, error) {
	return h.Updates().RestartPending(ctx)
}

// run runs the service for a time. It is a new process.
func (h *host) run(d time.Duration) {
	h.t.Helper()
	end := h.now.Add(d)
	updater := &updates.Updater{
		System: h, Source: h, Now: func() time.Time { return h.now }, Sleep: h.sleepUntil(end),
		Report: func(err error) { h.problems = append(h.problems, err.Error()) },
	}
	updater.Run(h.t.Context())
}

// sleepUntil moves the clock, and ends the service when it has nothing to do after a time.
func (h *host) sleepUntil(end time.Time) func(context.Context, time.Duration) error {
	const lookEvery = 5 * time.Second
	return func(ctx context.Context, d time.Duration) error {
		if h.now = h.now.Add(d); d == lookEvery && h.now.After(end) {
			return context.Canceled
		}
		return ctx.Err()
	}
}

func (h *host) known() *api.WindowsUpdates {
	h.t.Helper()
	known, err := updates.Read(h)
	if err != nil {
		h.t.Fatal(err)
	}
	return known
}

func (h *host) offer(list ...agenthost.Update) {
	h.t.Helper()
	if err := h.System.OfferUpdates(list...); err != nil {
		h.t.Fatal(err)
	}
}

func offer(id, title string, categories ...string) agenthost.Update {
	return agenthost.Update{Offer: updates.Offer{ID: id, Revision: 200, Title: title, Articles: []string{"50" + id}, Categories: categories}}
}

// TestSearch: what concerns a node is kept, those for security first.
func TestSearch(t *testing.T) {
	h := newHost(t)
	rated := offer("5", "Servicing stack", "0ba562e6-a6ba-490d-bdce-93a770ba8d21")
	rated.Severity, rated.Downloaded = "Critical", true
	h.offer(
		offer("1", "Update for Windows", "cd5ffd1e-e932-4e3a-bf74-18bf0b1bbd83"),
		offer("2", "Cumulative update", strings.ToUpper(updates.ClassSecurity)),
		offer("3", "Windows Server 2025", updates.ClassUpgrade, updates.ClassSecurity),
		offer("4", "Security Intelligence Update", updates.ClassDefinition),
		rated,
		offer("6", "Driver", updates.ClassDriver),
	)
	h.run(0)
	want := &api.WindowsUpdates{
		SearchedAt: h.known().SearchedAt, BootID: "boot-1", RunningBootID: "boot-1", RunningSince: h.known().RunningSince, Total: 3, Security: 2,
		Pending: []api.Update{
			{ID: "2", Revision: 200, Title: "Cumulative update", KBs: []string{"KB502"}, Security: true},
			{ID: "5", Revision: 200, Title: "Servicing stack", KBs: []string{"KB505"}, Security: true, Severity: "Critical", Downloaded: true},
			{ID: "1", Revision: 200, Title: "Update for Windows", KBs: []string{"KB501"}},
		},
	}
	if diff := gocmp.Diff(want, h.known()); diff != "" {
		t.Errorf("what the service knows (-want +got):\n%s", diff)
	}
	if len(h.problems) > 0 {
		t.Errorf("problems: %q", h.problems)
	}
}

// TestSearchSeldom: a search costs minutes of the host and of its server.
func TestSearchSeldom(t *testing.T) {
	h := newHost(t)
	h.offer(offer("2", "Cumulative update", updates.ClassSecurity))
	h.run(11 * time.Hour)
	h.run(time.Minute) // another process
	if h.searches != 1 {
		t.Errorf("%d searches in 11 hours, want 1", h.searches)
	}
	h.run(4 * time.Hour)
	if h.searches != 2 {
		t.Errorf("%d searches in 15 hours, want 2", h.searches)
	}
	h.boot = "boot-2"
	h.offer()
	h.run(time.Minute)
	if known := h.known(); h.searches != 3 || known.Total != 0 || known.BootID != "boot-2" {
		t.Errorf("after a restart: %d searches, %+v", h.searches, known)
	}
	h.now = h.now.Add(-48 * time.Hour)
	h.run(time.Minute)
	if h.searches != 4 {
		t.Errorf("%d searches after the clock was set back, want 4", h.searches)
	}
}

// TestSearchFails: why is kept, with what was found before, and it is tried again in an hour.
func TestSearchFails(t *testing.T) {
	h := newHost(t)
	h.offer(offer("2", "Cumulative update", updates.ClassSecurity))
	h.run(0)
	h.boot = "boot-2"
	h.offer(agenthost.Update{FailSearch: "HRESULT 0x8024402c"})
	h.run(50 * time.Minute)
	if known := h.known(); h.searches != 2 || known.Total != 1 || known.BootID != "boot-1" || known.Error != "HRESULT 0x8024402c" || known.FailedAt.IsZero() {
		t.Errorf("%d searches, %+v", h.searches, known)
	}
	h.offer()
	h.run(30 * time.Minute)
	if known := h.known(); h.searches != 3 || known.Total != 0 || known.Error != "" || !known.FailedAt.IsZero() {
		t.Errorf("%d searches, %+v", h.searches, known)
	}
}

// TestSearchBounded: many updates are counted, and not all are kept.
func TestSearchBounded(t *testing.T) {
	h := newHost(t)
	var many []agenthost.Update
	for i := range 200 {
		many = append(many, offer(fmt.Sprint(i), fmt.Sprintf("Update %03d", i), updates.ClassSecurity))
	}
	h.offer(many...)
	h.run(0)
	if known := h.known(); known.Total != 200 || known.Security != 200 || len(known.Pending) != api.MaxPendingUpdates {
		t.Errorf("%d of %d are kept, %d of them for security", len(known.Pending), known.Total, known.Security)
	}
}

// TestFileDamaged: what cannot be read is made again.
func TestFileDamaged(t *testing.T) {
	h := newHost(t)
	if err := h.System.WriteFile(api.UpdatesPath, []byte("{"), config.AccessAdministrators); err != nil {
		t.Fatal(err)
	}
	if _, err := updates.Read(h); err == nil {
		t.Error("half a file was read")
	}
	h.run(0)
	if known := h.known(); known.SearchedAt.IsZero() || len(h.problems) != 1 {
		t.Errorf("got %+v, problems %q", known, h.problems)
	}
}

// hangs is a source whose searches end when the test lets them.
type hangs struct {
	updates.Source

	called chan struct{}
	end    chan struct{}
}

func (s hangs) Search(context.Context) ([]updates.Offer, error) {
	s.called <- struct{}{}
	<-s.end
	return nil, errors.New("too late")
}

// TestServiceEnds: a search that Windows does not end does not keep the service from ending, and is no failure.
func TestServiceEnds(t *testing.T) {
	h := newHost(t)
	s := hangs{called: make(chan struct{}), end: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	updater := &updates.Updater{System: h, Source: s, Now: func() time.Time { return h.now }, Report: func(err error) { t.Error(err) }}
	ended := make(chan struct{})
	go func() { defer close(ended); updater.Run(ctx) }()
	<-s.called
	cancel()
	<-ended
	close(s.end)
	if known := h.known(); !known.SearchedAt.IsZero() || !known.FailedAt.IsZero() || known.Error != "" {
		t.Errorf("it knows %+v", known)
	}
}
