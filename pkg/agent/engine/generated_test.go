// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// generatedBundle is a document whose programs make things.
func generatedBundle(t *testing.T) config.Bundle {
	t.Helper()
	b := config.Bundle{Document: config.Document{
		Version:     config.SchemaVersion,
		Directories: []config.Directory{{Path: `C:\var\log\kubelet`}},
		Files: []config.File{
			textFile(`C:\k\kubelet.conf`, "one", config.OnChange{Impact: config.ImpactNone}), program(`C:\k\kubelet.exe`, "1", restarts("kubelet")),
		},
		Generated: []string{`C:\var\lib\kubelet`, `C:\var\log\kubelet`, `C:\k\kubeconfig`},
		Services:  []config.Service{testService("kubelet")},
	}}
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	return b
}

// run does what the programs do.
func (f *fake) run() {
	for _, path := range []string{`c:\var\lib`, `c:\var\lib\kubelet`, `c:\var\lib\kubelet\pki`} {
		f.files[path] = fakeFile{Directory: true}
	}
	for _, path := range []string{`c:\var\lib\kubelet\pki\kubelet-client-current.pem`, `c:\var\log\kubelet\kubelet.log`, `c:\k\kubeconfig`} {
		f.files[path] = fakeFile{Content: "made"}
	}
}

// left returns what a document or its programs have left.
func (f *fake) left() []string {
	var list []string
	for path := range f.files {
		// The programs make this one, too, and others keep their things there.
		if path != `c:\var\lib` && (config.Below(path, `C:\k`) || config.Below(path, `C:\var\lib`) || config.Below(path, `C:\var\log`)) {
			list = append(list, path)
		}
	}
	slices.Sort(list)
	return list
}

// What programs have made goes with them, and what existed before stays.
func TestGeneratedIsRemoved(t *testing.T) {
	tests := []struct {
		name string
		// before is there when the first document comes.
		before func(f *fake)
		// later is what becomes of the host after that.
		later func(f *fake)
		want  []string // what is left of it
	}{
		{name: "new host", before: func(*fake) {}, later: func(*fake) {}},
		{
			name: "somebody else was there", later: func(*fake) {},
			before: func(f *fake) {
				f.files[`c:\k`] = fakeFile{Directory: true}
				f.files[`c:\k\kubeconfig`] = fakeFile{Content: "theirs"}
			},
			want: []string{`c:\k`, `c:\k\kubeconfig`},
		},
		{
			name: "only the directory was", later: func(*fake) {},
			before: func(f *fake) { f.files[`c:\k`] = fakeFile{Directory: true} },
			want:   []string{`c:\k`},
		},
		{
			name: "others put something beside it", before: func(*fake) {},
			later: func(f *fake) { f.files[`c:\k\notes.txt`] = fakeFile{Content: "theirs"} },
			want:  []string{`c:\k`, `c:\k\notes.txt`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := generatedBundle(t)
			f := newFake()
			tt.before(f)
			converge(t, f, b)
			f.run()
			f.check(t, b)
			tt.later(f)
			if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
				t.Fatalf("cleanup: %+v", r)
			}
			got := f.left()
			if !slices.Equal(got, tt.want) {
				t.Errorf("left is %q, want %q", got, tt.want)
			}
		})
	}
}

// What cannot be removed is reported and keeps nothing else from going.
func TestGeneratedThatStays(t *testing.T) {
	b := generatedBundle(t)
	f := newFake()
	converge(t, f, b)
	f.run()
	const held = `c:\var\lib\kubelet\pki\kubelet-client-current.pem`
	f.failing[`Remove C:\var\lib\kubelet\pki\kubelet-client-current.pem`] = errors.New("access is denied")
	var notes []string
	e := engineOf(f)
	e.Events = func(event api.Event) {
		if event.State == api.EventNote && fold(event.Item) == `c:\var\lib\kubelet` {
			notes = append(notes, event.Message)
		}
	}
	if r := e.Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "1 files or directories") || !strings.Contains(notes[0], "access is denied") {
		t.Errorf("got the notes %q", notes)
	}
	if _, there := f.files[held]; !there {
		t.Error("it is gone nevertheless")
	}
	if _, there := f.files[`c:\k`]; there {
		t.Error("the rest stays, too")
	}
}

// What cannot be inspected can often be removed: that takes other rights.
func TestGeneratedThatIsClosed(t *testing.T) {
	b := generatedBundle(t)
	f := newFake()
	converge(t, f, b)
	f.run()
	f.closed = map[string]bool{`c:\var\lib\kubelet\pki`: true, `c:\var\lib\kubelet\pki\kubelet-client-current.pem`: true}
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	if got := f.left(); len(got) > 0 {
		t.Errorf("left is %q\n%s", got, strings.Join(f.log, "\n"))
	}
}

// A document that has no use for it any more has it removed without a cleanup.
func TestGeneratedThatIsNoLongerWanted(t *testing.T) {
	b := generatedBundle(t)
	f := newFake()
	converge(t, f, b)
	f.run()
	b.Document.Generated = []string{`C:\var\log\kubelet`}
	converge(t, f, b)
	for path, want := range map[string]bool{`c:\k\kubeconfig`: false, `c:\var\lib\kubelet`: false, `c:\var\log\kubelet\kubelet.log`: true, `c:\k\kubelet.conf`: true} {
		if _, there := f.files[path]; there != want {
			t.Errorf("%s is there: %v, want %v", path, there, want)
		}
	}
	f.check(t, b)
}

// What did not exist before the programs ran is known to be ours, wherever the host crashes
// on the way to that, and goes wherever it crashes on the way from there.
func TestGeneratedAfterCrash(t *testing.T) {
	b := generatedBundle(t)
	apply := func(f *fake) {
		engineOf(f).Apply(context.Background(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: b})
		f.run()
	}
	cleanup := func(f *fake) { engineOf(f).Cleanup(context.Background()) }
	for name, tt := range map[string]struct {
		before  func(f *fake)
		crashes func(f *fake)
	}{
		"apply":   {before: func(*fake) {}, crashes: apply},
		"cleanup": {before: apply, crashes: cleanup},
	} {
		t.Run(name, func(t *testing.T) {
			for at := 2; ; at++ {
				f := newFake()
				send(t, f, b)
				tt.before(f)
				f.calls = 0
				if !crashing(f, at, func() { tt.crashes(f) }) {
					if at < 50 {
						t.Errorf("only %d points were tried", at)
					}
					return
				}
				f.loseProcess()
				if name == "apply" && f.services["kubelet"].state == ServiceRunning {
					f.run()
				}
				cleanup(f)
				if left := f.left(); len(left) > 0 {
					t.Fatalf("crash %d: left is %q", at, left)
				}
			}
		})
	}
}

// slowDisk is a host on which each removal takes ten seconds.
type slowDisk struct{ *fake }

func (d slowDisk) Remove(path string) error {
	d.clock = d.clock.Add(10 * time.Second)
	return d.fake.Remove(path)
}

// TestLongRemovalIsTold: to remove the images and containers of a node takes a slow disk many minutes. Whoever waits for that hears
// that it goes on, or would give the host up as one that hangs.
func TestLongRemovalIsTold(t *testing.T) {
	f := newFake()
	f.files[`c:\data`] = fakeFile{Directory: true}
	f.files[`c:\data\deep`] = fakeFile{Directory: true}
	for _, name := range []string{`1`, `2`, `deep\3`, `deep\4`, `deep\5`} {
		f.files[`c:\data\`+name] = fakeFile{Content: "made"}
	}
	var told []string
	e := &Engine{System: slowDisk{f}, Now: func() time.Time { return f.clock }, Events: func(e api.Event) { told = append(told, e.Item+" "+string(e.State)+" "+e.Message) }}
	a := &application{Engine: e, result: &api.Result{}}
	if err := a.removeGenerated(t.Context(), `c:\data`); err != nil {
		t.Fatal(err)
	}
	want := []string{`c:\data Note is being removed: 3 files and directories so far`, `c:\data Note is being removed: 6 files and directories so far`}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if _, left := f.files[`c:\data`]; left {
		t.Error("it is left")
	}
}
