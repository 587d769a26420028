// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// Who may read and write a file of keys stays as it is, as sshd looks at that before it looks at the keys.
func TestReplaceKeeping(t *testing.T) {
	path, _ := twoFiles(t, []byte("old"), nil)
	descriptor := func(path string) string {
		t.Helper()
		d, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION|windows.OWNER_SECURITY_INFORMATION)
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	s := &windowsSystem{}
	for _, access := range []sddl{fileAccess(config.AccessAdministrators), "O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;FR;;;AU)", ""} {
		if err := access.set(path); err != nil {
			t.Fatal(err)
		}
		before := descriptor(path)
		if err := s.ReplaceKeeping(path, []byte("new")); err != nil {
			t.Fatal(err)
		}
		if after := descriptor(path); after != before {
			t.Errorf("with access %q: it was %s, and is %s", access, before, after)
		}
		if content, err := os.ReadFile(path); err != nil || string(content) != "new" {
			t.Errorf("got %q, %v", content, err)
		}
	}
	// One that is new is for administrators only, where one makes it.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := s.ReplaceKeeping(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if windows.GetCurrentProcessToken().IsElevated() {
		mustHave(t, path, config.AccessAdministrators)
	}
}

func TestKeyFiles(t *testing.T) {
	paths, err := New().KeyFiles()
	if err != nil || len(paths) == 0 || !strings.HasSuffix(paths[len(paths)-1], `\.ssh\authorized_keys`) {
		t.Fatalf("got %q, %v", paths, err)
	}
	if windows.GetCurrentProcessToken().IsElevated() && (len(paths) != 2 || filepath.Base(paths[0]) != "administrators_authorized_keys") {
		t.Errorf("got %q", paths)
	}
}
