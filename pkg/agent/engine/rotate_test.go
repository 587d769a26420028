// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// logDirectory has the logs of these tests.
const logDirectory = `c:\var\log\x`

// logText is that many bytes of lines that begin with a letter.
func logText(letter string, size int) string {
	return strings.Repeat(letter, size-1) + "\n"
}

// loggingHost is a host that has the logs, by name in their directory.
func loggingHost(logs map[string]string) *fake {
	f := newFake()
	f.files[logDirectory] = fakeFile{Directory: true}
	for name, text := range logs {
		f.files[logDirectory+`\`+name] = fakeFile{Content: text}
	}
	return f
}

// logs are the texts of what is in the directory.
func (f *fake) logs() map[string]string {
	out := map[string]string{}
	for _, name := range f.children(logDirectory) {
		out[name] = f.files[logDirectory+`\`+name].Content
	}
	return out
}

func TestRotateLog(t *testing.T) {
	// The clock of the host says 2026-01-02 03:04:05.
	const large, day = 200 << 10, 24 * 3600
	a, b := logText("a", large), logText("b", large)
	path := strings.Replace(logDirectory, "c:", "C:", 1) + `\x.log`
	tests := []struct {
		name     string
		rotation config.LogRotation
		logs     map[string]string
		failing  map[string]error
		error    string // a part of it
		want     map[string]string
	}{
		{name: "no log yet", rotation: config.LogRotation{MaxBytes: 1}, want: map[string]string{}},
		{
			name: "small", rotation: config.LogRotation{MaxBytes: large + 1},
			logs: map[string]string{"x.log": a}, want: map[string]string{"x.log": a},
		},
		{
			name: "large", rotation: config.LogRotation{MaxBytes: large},
			logs: map[string]string{"x.log": a}, want: map[string]string{"x.log": "", "x-20260102-030405.log": a},
		},
		{
			name: "the clock went back", rotation: config.LogRotation{MaxBytes: large},
			logs: map[string]string{"x.log": b, "x-20260102-040000.log": a},
			want: map[string]string{"x.log": "", "x-20260102-040000.log": a, "x-20260102-040001.log": b},
		},
		{
			name: "no end of size", rotation: config.LogRotation{MaxAgeSeconds: day},
			logs: map[string]string{"x.log": a}, want: map[string]string{"x.log": a},
		},
		{
			name: "old ones", rotation: config.LogRotation{MaxBytes: large, MaxAgeSeconds: day},
			logs: map[string]string{
				"x.log": "now\n", "x-20260101-030404.log": "old", "x-20251231-235959.log": "older", "x-20260101-030405.log": "kept",
				"x-20260101.log": "not ours", "xy-20250101-000000.log": "of another log", "x-20251301-000000.log": "no time", "x-20250101-000000.log.gz": "not ours",
			},
			want: map[string]string{
				"x.log": "now\n", "x-20260101-030405.log": "kept",
				"x-20260101.log": "not ours", "xy-20250101-000000.log": "of another log", "x-20251301-000000.log": "no time", "x-20250101-000000.log.gz": "not ours",
			},
		},
		{
			name: "somebody reads an old one", rotation: config.LogRotation{MaxAgeSeconds: day},
			logs:    map[string]string{"x.log": "now\n", "x-20250101-000000.log": "old"},
			failing: map[string]error{`Remove C:\var\log\x\x-20250101-000000.log`: ErrInUse},
			want:    map[string]string{"x.log": "now\n", "x-20250101-000000.log": "old"},
		},
		{
			name: "no room for a copy", rotation: config.LogRotation{MaxBytes: large, MaxAgeSeconds: day},
			logs:    map[string]string{"x.log": a, "x-20250101-000000.log": "old"},
			failing: map[string]error{`RotateLog C:\var\log\x\x.log`: errors.New("disk full")},
			error:   `rotate C:\var\log\x\x.log: disk full`,
			want:    map[string]string{"x.log": a},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := loggingHost(tt.logs)
			maps.Copy(f.failing, tt.failing)
			tt.rotation.Path = path
			err := newKeeper(engineOf(f), RunOptions{}).rotateLogs(&config.Document{LogRotation: []config.LogRotation{tt.rotation}})
			if (err != nil) != (tt.error != "") || err != nil && err.Error() != tt.error {
				t.Errorf("got error %v, want %q", err, tt.error)
			}
			if diff := cmp.Diff(tt.want, f.logs()); diff != "" {
				t.Errorf("logs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLogNotTruncated: a log that can be copied and not truncated keeps its text, is copied
// each minute a few times only, has no more than one copy, and is rotated once it can be truncated.
func TestLogNotTruncated(t *testing.T) {
	const path, size = `C:\var\log\x\x.log`, 200 << 10
	text := logText("a", size)
	refused := errors.New("a program has it mapped")
	firstCopy := `C:\var\log\x\x-20260102-030405.log`
	tests := []struct {
		name string
		// minute is what else happens in a minute.
		minute map[int]func(f *fake)
		want   map[string]string
		copies int // how often the log was copied
		err    bool
	}{
		{name: "never", want: map[string]string{"x.log": text}, copies: 5, err: true},
		{
			name: "for a while", want: map[string]string{"x.log": "", "x-20260102-040605.log": text + "b\n"}, copies: 4,
			minute: map[int]func(f *fake){
				1: func(f *fake) { f.files[logDirectory+`\x.log`] = fakeFile{Content: text + "b\n"} },
				9: func(f *fake) { delete(f.failing, "Truncate "+path) },
			},
		},
		{
			name: "for a moment", want: map[string]string{"x.log": "", "x-20260102-030505.log": text}, copies: 2,
			minute: map[int]func(f *fake){1: func(f *fake) { delete(f.failing, "Truncate "+path) }},
		},
		{
			name: "the copy is read", want: map[string]string{"x.log": text, "x-20260102-030405.log": text}, copies: 1, err: true,
			minute: map[int]func(f *fake){0: func(f *fake) { f.held = map[string]bool{fold(firstCopy): true} }},
		},
		{
			name: "the copy was read", want: map[string]string{"x.log": text}, copies: 5, err: true,
			minute: map[int]func(f *fake){
				0: func(f *fake) { f.held = map[string]bool{fold(firstCopy): true} },
				5: func(f *fake) { f.held = nil },
			},
		},
		{
			name: "others took the text from the log", want: map[string]string{"x.log": "b\n", "x-20260102-030405.log": text}, copies: 1,
			minute: map[int]func(f *fake){
				0: func(f *fake) { f.held = map[string]bool{fold(firstCopy): true} },
				1: func(f *fake) { f.files[logDirectory+`\x.log`] = fakeFile{Content: "b\n"} },
				2: func(f *fake) { f.held = nil },
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := loggingHost(map[string]string{"x.log": text})
			f.failing["Truncate "+path] = refused
			k := newKeeper(engineOf(f), RunOptions{})
			d := &config.Document{LogRotation: []config.LogRotation{{Path: path, MaxBytes: size}}}
			var err error
			for minute := range 130 {
				if change := tt.minute[minute]; change != nil {
					change(f)
				}
				if err = k.rotateLogs(d); err != nil && !errors.Is(err, refused) {
					t.Fatal(err)
				}
				f.clock = f.clock.Add(time.Minute)
			}
			if (err != nil) != tt.err {
				t.Errorf("got error %v in the end, want one: %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, f.logs()); diff != "" {
				t.Errorf("logs (-want +got):\n%s", diff)
			}
			copies := len(slices.DeleteFunc(f.log, func(call string) bool { return call != "RotateLog "+path }))
			if copies != tt.copies {
				t.Errorf("it was copied %d times, want %d", copies, tt.copies)
			}
		})
	}
}

// TestRunRotates: the service rotates, says once what it cannot do, and does nothing while
// somebody else is at work.
func TestRunRotates(t *testing.T) {
	text := logText("a", 200<<10)
	b := config.Bundle{Document: config.Document{
		Version: config.SchemaVersion, Directories: []config.Directory{{Path: `C:\var\log\x`}},
		LogRotation: []config.LogRotation{{Path: `C:\var\log\x\x.log`, MaxBytes: 1}},
	}}
	tests := []struct {
		name   string
		change func(f *fake)
		error  string
		want   bool
	}{
		{name: "rotated", want: true, change: func(*fake) {}},
		{
			name: "also when something cannot be repaired", want: true, error: "list C:\\var\\log: access denied",
			change: func(f *fake) {
				delete(f.files, `c:\k`)
				f.failing[`Hostname`] = fmt.Errorf("list C:\\var\\log: access denied")
			},
		},
		{name: "not while it is locked", change: func(f *fake) { f.locked = &Owner{PID: 1} }},
		{name: "cannot be rotated", error: "the file system cannot", change: func(f *fake) {
			f.failing[`RotateLog C:\var\log\x\x.log`] = errors.New("the file system cannot")
		}},
		{name: "cannot be truncated", error: "a program has it mapped", change: func(f *fake) {
			f.failing[`Truncate C:\var\log\x\x.log`] = errors.New("a program has it mapped")
		}},
		{name: "an apply did not get to its end", want: true, change: func(f *fake) {
			other := b
			other.Document.Files = []config.File{textFile(`C:\var\log\x\file`, "x", config.OnChange{Impact: config.ImpactNone})}
			f.failing[`WriteFile C:\var\log\x\file`] = errors.New("disk full")
			engineOf(f).Apply(context.Background(), &api.ApplyRequest{Bundle: other})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			converge(t, f, b)
			f.files[logDirectory+`\x.log`] = fakeFile{Content: text}
			f.clock = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			tt.change(f)
			drifts := watch(t, f, 3)
			if rotated := f.logs()["x.log"] == ""; rotated != tt.want {
				t.Errorf("rotated: %v, want %v", rotated, tt.want)
			}
			if tt.error == "" && len(drifts) > 0 || tt.error != "" && (len(drifts) != 1 || !strings.Contains(drifts[0].Error, tt.error)) {
				t.Errorf("reported %+v, want one %q", drifts, tt.error)
			}
		})
	}
}
