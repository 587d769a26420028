// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// TestRotateLog: the program appends to its log and keeps it open.
func TestRotateLog(t *testing.T) {
	const released = 1 << 20
	large := strings.Repeat("line\n", 100_000)
	tests := []struct {
		name string
		// zeros are before the text, as an earlier release has left them.
		zeros int64
		text  string
		// meanwhile is written after the text was copied.
		meanwhile string
		// existing are other files.
		existing map[string]string
		renaming error
		// readOnly: the system refuses to truncate the log.
		readOnly bool
		// taken: nobody can open the copy by its name.
		taken   bool
		want    map[string]string
		wantErr string // a part of it
		wantIs  error
	}{
		{name: "moved", text: "a\nb\n", want: map[string]string{"x.log": "next\n", "x-1.log": "a\nb\n"}},
		{name: "large", text: large, want: map[string]string{"x.log": "next\n", "x-1.log": large}},
		{
			name: "what is written meanwhile", text: large, meanwhile: "c\nd\n",
			want: map[string]string{"x.log": "next\n", "x-1.log": large + "c\nd\n"},
		},
		{
			name: "somebody has the copy", text: "a\n", meanwhile: "b\n", taken: true,
			want: map[string]string{"x.log": "next\n", "taken": "a\nb\n"},
		},
		{name: "given back by an earlier release", zeros: released, text: "a\n", want: map[string]string{"x.log": "next\n", "x-1.log": "a\n"}},
		{name: "all given back by an earlier release", zeros: released, want: map[string]string{"x.log": "next\n", "x-1.log": ""}},
		{
			name: "left by a crash", text: "a\n", existing: map[string]string{"x.log" + TemporarySuffix: "garbage, longer than the text"},
			want: map[string]string{"x.log": "next\n", "x-1.log": "a\n"},
		},
		{
			name: "the name is taken", text: "a\n", existing: map[string]string{"x-1.log": "other\n"}, wantErr: "exists",
			want: map[string]string{"x.log": "a\nnext\n", "x-1.log": "other\n"},
		},
		{
			name: "cannot be renamed", text: "a\n", renaming: errors.New("access denied"), wantErr: "copy it: access denied",
			want: map[string]string{"x.log": "a\nnext\n"},
		},
		{
			name: "cannot be truncated", text: "a\n", readOnly: true, wantErr: "it was not truncated: truncate ", wantIs: engine.ErrNotTruncated,
			want: map[string]string{"x.log": "a\nnext\n", "x-1.log": "a\n"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			directory := t.TempDir()
			path := func(name string) string { return filepath.Join(directory, name) }
			for name, text := range tt.existing {
				if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			program, err := os.OpenFile(path("x.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer program.Close()
			write := func(text string) {
				t.Helper()
				if _, err := program.WriteString(text); err != nil {
					t.Fatal(err)
				}
			}
			if err := program.Truncate(tt.zeros); err != nil {
				t.Fatal(err)
			}
			write(tt.text)
			disk := Disk{
				Open: func(name string, _ bool) (*os.File, error) {
					if tt.readOnly && name == path("x.log") {
						return os.Open(name)
					}
					return os.OpenFile(name, os.O_RDWR, 0)
				},
				Rename: func(from, to string) error {
					write(tt.meanwhile)
					if tt.renaming != nil {
						return tt.renaming
					}
					if tt.taken {
						to = path("taken")
					}
					return os.Rename(from, to)
				},
			}
			err = disk.RotateLog(path("x.log"), path("x-1.log"))
			if (err != nil) != (tt.wantErr != "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
			if errors.Is(err, engine.ErrNotTruncated) != (tt.wantIs != nil) {
				t.Errorf("got error %v, want %v in it", err, tt.wantIs)
			}
			write("next\n")
			entries, err := os.ReadDir(directory)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, e := range entries {
				content, err := os.ReadFile(path(e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				got[e.Name()] = string(content)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}
