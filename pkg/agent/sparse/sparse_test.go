// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package sparse

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestRelease(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		t.Skip("file systems of " + runtime.GOOS + " give back no beginnings of files")
	}
	text := bytes.Repeat([]byte("0123456789abcdef"), 16<<10)
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "x"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := Release(f, Unit-1); err == nil {
		t.Error("less than a unit was given back")
	}
	for _, want := range []int64{0, Unit, Unit + 1, 3*Unit + 4097, int64(len(text))} {
		if want > 0 {
			if err := Release(f, want); err != nil {
				t.Fatal(err)
			}
		}
		start, err := TextStart(f)
		if err != nil || start != want {
			t.Errorf("the text begins at %d, error %v, want %d", start, err, want)
		}
		got := make([]byte, len(text))
		if _, err := f.ReadAt(got, 0); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got[want:], text[want:]) || bytes.Count(got[:want], []byte{0}) != int(want) {
			t.Errorf("what is behind %d has changed, or what is before is still there", want)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != int64(len(text)) || Maybe(info) != (want > 0) {
			t.Errorf("after %d were given back the size is %d, and maybe something was: %v", want, info.Size(), Maybe(info))
		}
	}
	// What comes then is the text, wherever that is.
	if _, err := f.WriteString("more"); err != nil {
		t.Fatal(err)
	}
	if start, err := TextStart(f); err != nil || start != int64(len(text)) {
		t.Errorf("the text begins at %d, error %v, want %d", start, err, len(text))
	}
}

// TestTextStart: zeros that were written are text, as of UTF-16.
func TestTextStart(t *testing.T) {
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "x"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, text := range []string{"", "\x00a\x00b", "\x00c"} {
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if start, err := TextStart(f); err != nil || start != 0 {
			t.Errorf("the text begins at %d, error %v, want 0", start, err)
		}
	}
}
