// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winpath

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLocal(t *testing.T) {
	drive := t.TempDir()
	for _, directory := range []string{"Windows/System32", "k", "K/b"} {
		if err := os.MkdirAll(filepath.Join(drive, directory), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for below, want := range map[string]string{
		"":                              "",
		`Windows\System32`:              "Windows/System32",
		`WINDOWS\system32`:              "Windows/System32",
		"/windows/SYSTEM32/":            "Windows/System32",
		`windows\temp\Some.txt`:         "Windows/temp/Some.txt",
		`none\Windows`:                  "none/Windows",
		`k`:                             "k",
		`K`:                             "K",
		`K\B`:                           "K/b",
		`windows\system32\drivers\\etc`: "Windows/System32/drivers/etc",
	} {
		if got := Local(drive, below); got != filepath.Join(drive, want) {
			t.Errorf("%q is %q, want %q", below, got, want)
		}
	}
}
