// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// kept are the programs that a host has besides those of its document.
func (f *fake) kept() []string {
	var kept []string
	for key, file := range f.files {
		if strings.HasPrefix(key, fold(api.PayloadDirectory)+`\`) {
			kept = append(kept, file.Content)
		}
	}
	slices.Sort(kept)
	return kept
}

// TestProgramsAreKept: a host goes back to the document before without being sent anything, also from half way. No more
// than the programs of one document are kept.
func TestProgramsAreKept(t *testing.T) {
	first, second := bundles(t)
	third := second
	third.Document.Files = slices.Clone(second.Document.Files)
	third.Document.Files[0] = program(`C:\k\containerd.exe`, "3", second.Document.Files[0].OnChange)
	third.Document.Files[2] = copyOf(program(`C:\k\containerd.exe`, "3", config.OnChange{Impact: config.ImpactNone}), `C:\k\again\kubelet.exe`)
	f := newFake()
	converge(t, f, first)
	if got := f.kept(); len(got) != 0 {
		t.Fatalf("kept of a new host: %q", got)
	}
	converge(t, f, second)
	want := []string{`C:\k\containerd.exe1`, `C:\k\kube-proxy.exe1`, `C:\k\kubelet.exe1`, `C:\k\overlay.exe1`}
	if got := f.kept(); !slices.Equal(got, want) {
		t.Errorf("kept are %q, want %q", got, want)
	}
	mustNeedNothing := func(b config.Bundle) {
		t.Helper()
		if p, err := engineOf(f).Plan(t.Context(), &b); err != nil || len(p.Payload) != 0 {
			t.Errorf("it is to be sent %v: %v", p, err)
		}
	}
	mustNeedNothing(first)

	t.Run("half way", func(t *testing.T) {
		f.send(third)
		f.failing["StartService kubelet"] = ErrNotYet
		r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: third})
		if r.Outcome != api.OutcomeFailed || f.files[`c:\k\containerd.exe`].Content != `C:\k\containerd.exe3` {
			t.Fatalf("%s: %s\n%s", r.Outcome, r.Error, strings.Join(f.log, "\n"))
		}
		clear(f.failing)
		mustNeedNothing(second)
	})
	converge(t, f, second)
	f.check(t, second)
	converge(t, f, first)
	f.check(t, first)
	if got := f.kept(); !slices.Equal(got, []string{`C:\k\containerd.exe2`}) {
		t.Errorf("kept are %q", got)
	}
	mustNeedNothing(second)

	t.Run("no room", func(t *testing.T) {
		f.free = 10
		converge(t, f, second)
		f.check(t, second)
		if got := f.kept(); len(got) != 0 {
			t.Errorf("kept are %q", got)
		}
	})
	engineOf(f).Cleanup(t.Context())
	if got := f.kept(); len(got) != 0 {
		t.Errorf("after the removal there are %q", got)
	}
}

// TestProgramsThatWorkedAreKept: a host goes back to what it worked with, also after several updates with which it did not. What
// those had is not kept.
func TestProgramsThatWorkedAreKept(t *testing.T) {
	worked, bad := bundles(t)
	worse := bad
	worse.Document.Files = slices.Clone(bad.Document.Files)
	worse.Document.Files[0] = program(`C:\k\containerd.exe`, "3", bad.Document.Files[0].OnChange)
	worse.Document.Files[2] = copyOf(program(`C:\k\containerd.exe`, "3", config.OnChange{Impact: config.ImpactNone}), `C:\k\again\kubelet.exe`)
	keep := slices.Sorted(maps.Keys(payloadOf(&worked.Document)))
	f := newFake()
	converge(t, f, worked)
	want := []string{`C:\k\containerd.exe1`, `C:\k\kube-proxy.exe1`, `C:\k\kubelet.exe1`, `C:\k\overlay.exe1`}
	for n, b := range []config.Bundle{bad, worse, bad, worse} {
		f.send(b)
		convergeKeeping(t, f, b, keep)
		f.check(t, b)
		if got := f.kept(); !slices.Equal(got, want) {
			t.Errorf("after update %d there are %q, want %q", n, got, want)
		}
	}
	if p, err := engineOf(f).Plan(t.Context(), &worked); err != nil || len(p.Payload) != 0 {
		t.Fatalf("to go back it is to be sent %v: %v", p, err)
	}
	convergeKeeping(t, f, worked, keep)
	f.check(t, worked)
	if got := f.kept(); len(got) != 0 {
		t.Errorf("besides what it has there are %q", got)
	}
}

// send puts all programs of a document on the host.
func (f *fake) send(b config.Bundle) {
	for _, file := range b.Document.Files {
		for _, version := range []string{"1", "2", "3"} {
			if file.Source.Payload != "" && config.Digest([]byte(file.Source.Payload+version)) == file.Digest {
				f.files[fold(api.PayloadPath(file.Digest))] = fakeFile{Content: file.Source.Payload + version}
			}
		}
	}
}
