// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/sparse"
)

// TestReadReleased: at every moment of a rotation by our agent all is read, and nothing
// twice.
func TestReadReleased(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		t.Skip("file systems of " + runtime.GOOS + " give back no beginnings of files")
	}
	h := newTestHost(t)
	var all strings.Builder
	path := filepath.Join(h.root, "x.log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for generation := range 3 {
		begin := all.Len()
		for n := range 2000 {
			fmt.Fprintf(&all, "line %d of %d, which is so long that there are not too many of them\n", n, generation)
		}
		text := all.String()
		if _, err := f.WriteString(text[begin:]); err != nil {
			t.Fatal(err)
		}
		check := func(when, current string) {
			t.Helper()
			if got := h.read(t, api.LogRequest{Queries: []string{"x"}, TailLines: ptr(int64(100_000))}); got != text {
				t.Errorf("%s, generation %d: read %d bytes of all generations, want %d", when, generation, len(got), len(text))
			}
			if got := h.read(t, api.LogRequest{Queries: []string{"./x.log"}}); got != current {
				t.Errorf("%s, generation %d: read %d bytes of the present file, want %d", when, generation, len(got), len(current))
			}
		}
		check("written", text[begin:])
		if err := os.WriteFile(filepath.Join(h.root, fmt.Sprintf("x-20260305-12000%d.log", generation)), []byte(text[begin:]), 0o600); err != nil {
			t.Fatal(err)
		}
		check("copied", text[begin:])
		if err := sparse.Release(f, int64(len(text))); err != nil {
			t.Fatal(err)
		}
		check("given back", "")
		if index := h.read(t, api.LogRequest{Output: "json"}); !strings.Contains(index, `{"name":"x.log","kind":"file","size":0,`) {
			t.Errorf("the index has another size of what was given back: %s", index)
		}
	}
}
