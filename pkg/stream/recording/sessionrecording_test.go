// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package recording

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorded makes a recording and returns the lines of its file.
func recorded(t *testing.T, h Header, run func(*Recording) error) []string {
	t.Helper()
	h.Start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := h.Start
	r, err := Directory{Path: t.TempDir()}.create(h, func() time.Time { now = now.Add(1500 * time.Millisecond); return now })
	if err != nil {
		t.Fatal(err)
	}
	if err := run(r); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(r.Path())
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	content, err := os.ReadFile(r.Path())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	return lines
}

func TestRecording(t *testing.T) {
	output := func(parts ...string) func(*Recording) error {
		return func(r *Recording) error {
			for _, p := range parts {
				if err := r.Output([]byte(p)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, test := range []struct {
		name   string
		header Header
		run    func(*Recording) error
		want   []string
	}{
		{"nothing shown", Header{Namespace: "ns", Name: "win-1"}, output(), []string{
			`{"version":2,"width":80,"height":24,"timestamp":1767323045,"title":"ns/win-1"}`}},
		{"a terminal", Header{Namespace: "ns", Name: "win-1", Command: "dir", Width: 100, Height: 30, TTY: true}, func(r *Recording) error {
			return errors.Join(r.Output([]byte("C:\\>\x1b[0m\r\n\n")), r.Resize(120, 40))
		}, []string{
			`{"version":2,"width":100,"height":30,"timestamp":1767323045,"command":"dir","title":"ns/win-1: dir"}`,
			`[1.500000,"o","C:\\>\u001b[0m\r\n\n"]`,
			`[3.000000,"r","120x40"]`}},
		{"no terminal", Header{Namespace: "ns", Name: "w"}, output("a\nb\r\n<&>"), []string{
			`{"version":2,"width":80,"height":24,"timestamp":1767323045,"title":"ns/w"}`,
			`[1.500000,"o","a\r\nb\r\n<&>"]`}},
		{"input without a terminal", Header{Namespace: "ns", Name: "w", User: "jane", AuditID: "id"}, func(r *Recording) error {
			return errors.Join(r.Input([]byte("who\xff\n")), r.Output([]byte("jane")))
		}, []string{
			`{"version":2,"width":80,"height":24,"timestamp":1767323045,"title":"ns/w","user":"jane","auditID":"id"}`,
			`[1.500000,"i","who�\n"]`,
			`[3.000000,"o","jane"]`}},
		{"a character in two parts", Header{TTY: true}, output("Gr\xc3", "\xbc\xc3\x9fe"), []string{
			`{"version":2,"width":80,"height":24,"timestamp":1767323045,"title":"/"}`,
			`[1.500000,"o","Gr"]`,
			`[3.000000,"o","üße"]`}},
		{"half a character at the end, and what is none", Header{TTY: true}, output("\xffa\xe2\x82"), []string{
			`{"version":2,"width":80,"height":24,"timestamp":1767323045,"title":"/"}`,
			`[1.500000,"o","�a"]`,
			`[3.000000,"o","�"]`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := recorded(t, test.header, test.run)
			if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestNamesOfFiles(t *testing.T) {
	directory := t.TempDir()
	for range 2 {
		r, err := Directory{Path: directory}.Create(Header{Start: time.Unix(0, 0), Namespace: "../..", Name: `a/b\c:d`})
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(directory, r.Path())
		if err != nil || !strings.HasPrefix(name, "19700101T000000.000Z_..-.._a-b-c-d_") || !strings.HasSuffix(name, ".cast") {
			t.Errorf("got %q, %v", name, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if files, err := os.ReadDir(directory); err != nil || len(files) != 2 {
		t.Errorf("got %v, %v", files, err)
	}
}

// The longest names that there are fit into the name of a file.
func TestLongNames(t *testing.T) {
	r, err := Directory{Path: t.TempDir()}.Create(Header{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("w", 253)})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	if _, err := (Directory{Path: filepath.Join(t.TempDir(), "missing")}).Create(Header{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
	r, err := Directory{Path: t.TempDir()}.Create(Header{})
	if err != nil {
		t.Fatal(err)
	}
	_ = r.file.Close() // as if the disk were gone
	first := r.Output([]byte("x"))
	if first == nil {
		t.Fatal("no error")
	}
	if err := r.Output([]byte("y")); !errors.Is(err, first) {
		t.Errorf("got %v, want the first error", err)
	}
	if err := r.Close(); !errors.Is(err, first) {
		t.Errorf("closing: %v, want the first error", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestClosed(t *testing.T) {
	r, err := Directory{Path: t.TempDir()}.Create(Header{})
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() { _ = r.Output([]byte("concurrent")) })
	}
	wait.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Resize(1, 1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// What one session shows fills no volume.
func TestMaxSize(t *testing.T) {
	r, err := Directory{Path: t.TempDir(), MaxSize: 200}.Create(Header{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Output([]byte("fits")); err != nil {
		t.Fatal(err)
	}
	if err := r.Output(make([]byte, 200)); err == nil || !strings.Contains(err.Error(), "the 200 bytes that one recording may have") {
		t.Errorf("got %v", err)
	}
	if err := r.Output([]byte("fits")); err == nil {
		t.Error("what follows a gap is recorded")
	}
	_ = r.Close() // has the same error
	content, err := os.ReadFile(r.Path())
	if err != nil || !strings.HasSuffix(string(content), "\"fits\"]\n") || len(content) > 200 {
		t.Errorf("%d bytes: %s, %v", len(content), content, err)
	}
}

// A volume that others write to, such as etcd, keeps what they need.
func TestMinFree(t *testing.T) {
	directory := Directory{Path: t.TempDir(), MinFree: math.MaxInt64}
	if _, err := directory.Create(Header{}); err == nil || !strings.Contains(err.Error(), "remove or move away old recordings") {
		t.Errorf("got %v", err)
	}
	if files, err := os.ReadDir(directory.Path); err != nil || len(files) != 0 {
		t.Errorf("there are %v, %v", files, err)
	}
	directory.MinFree = 1
	r, err := directory.Create(Header{})
	if err != nil {
		t.Fatal(err)
	}
	r.directory.MinFree = math.MaxInt64 // as if the volume had become full
	for range 3 {
		err = errors.Join(err, r.Output([]byte(strings.Repeat("x", spaceInterval))))
	}
	if err == nil || !strings.Contains(err.Error(), "are to stay free") {
		t.Errorf("got %v", err)
	}
	_ = r.Close() // has the same error
}

// TestManySmallRecordings: many recordings of one namespace with next to nothing in them count as the files that they are, of which
// a volume has a fixed number.
func TestManySmallRecordings(t *testing.T) {
	const files = 100
	directory := Directory{Path: t.TempDir()}
	directory.free = func() (int64, error) {
		taken, err := os.ReadDir(directory.Path)
		return int64(files-len(taken)) * leastSize, err
	}
	made := 0
	for ; made < files; made++ {
		r, err := directory.Create(Header{Namespace: "a", Name: "win-1"})
		if err != nil {
			if !strings.Contains(err.Error(), "the recordings of namespace a in") {
				t.Error(err)
			}
			break
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if made < files/2 || made > files*7/8 {
		t.Errorf("%d of %d files were made", made, files)
	}
}

// TestNamespaceLeavesSpace: sessions of one namespace that print without end, one or many at a time, leave space for
// the recordings of others.
func TestNamespaceLeavesSpace(t *testing.T) {
	const volume = 64 << 20
	for name, sessions := range map[string]int{"one session": 1, "many sessions": 16} {
		t.Run(name, func(t *testing.T) {
			directory := Directory{Path: t.TempDir(), MinFree: 1 << 20}
			directory.free = func() (int64, error) {
				files, err := os.ReadDir(directory.Path)
				left := int64(volume + 1<<20)
				for _, f := range files {
					info, infoErr := f.Info()
					if err = errors.Join(err, infoErr); err == nil {
						left -= info.Size()
					}
				}
				return left, err
			}
			var greedy []*Recording
			for range sessions {
				r, err := directory.Create(Header{Namespace: "a", Name: "win-1"})
				if err != nil {
					t.Fatal(err)
				}
				greedy = append(greedy, r)
			}
			var written int64
			for chunk, open := []byte(strings.Repeat("x", 1<<20)), slices.Clone(greedy); len(open) > 0; {
				open = slices.DeleteFunc(open, func(r *Recording) bool {
					err := r.Output(chunk)
					if err != nil && !strings.Contains(err.Error(), "the recordings of namespace a in") {
						t.Errorf("after %d bytes: %v", written, err)
					}
					return err != nil
				})
			}
			for _, r := range greedy {
				written += r.size
				_ = r.Close() // has the same error
			}
			if written < volume/2 || written > volume*15/16 {
				t.Errorf("%d bytes of %d were written", written, int64(volume))
			}
			if _, err := directory.Create(Header{Namespace: "a", Name: "win-2"}); err == nil || !strings.Contains(err.Error(), "remove or move away old recordings of it") {
				t.Errorf("another one of the namespace: %v", err)
			}
			other, err := directory.Create(Header{Namespace: "b", Name: "a"})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(other.Output([]byte("shown")), other.Close()); err != nil {
				t.Error(err)
			}
			for _, r := range greedy {
				if err := os.Remove(r.Path()); err != nil {
					t.Fatal(err)
				}
			}
			again, err := directory.Create(Header{Namespace: "a", Name: "win-2"})
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
