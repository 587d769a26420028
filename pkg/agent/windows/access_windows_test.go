// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// mustHave fails the test unless others than administrators have the access to the path.
func mustHave(t *testing.T, path string, want config.Access) {
	t.Helper()
	if got, err := readAccess(path); err != nil || got != want {
		descriptor, _ := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION|windows.OWNER_SECURITY_INFORMATION)
		t.Errorf("%s: access %q, %v; want %q: %s", path, got, err, want, descriptor)
	}
}

// A directory of programs that everybody could write to is closed, with what is in it; what is for
// administrators only stays that.
func TestSetAccess(t *testing.T) {
	program, _ := twoFiles(t, nil, nil)
	directory := filepath.Dir(program)
	s := &windowsSystem{}
	secrets := filepath.Join(directory, "secrets")
	if err := s.MakeDirectory(secrets, config.AccessAdministrators); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(secrets); err != nil {
			t.Error(err)
		}
	})
	for _, path := range []string{directory, program} {
		// Everybody (WD) may do everything.
		if err := sddl("O:BAD:P(A;OICI;FA;;;WD)").set(path); err != nil {
			t.Fatal(err)
		}
		mustHave(t, path, config.AccessInherited)
	}
	if err := s.SetAccess(directory, config.AccessAdministratorsWrite); err != nil {
		t.Fatal(err)
	}
	mustHave(t, directory, config.AccessAdministratorsWrite)
	mustHave(t, program, config.AccessAdministratorsWrite)
	mustHave(t, secrets, config.AccessAdministrators)

	// One that is there already is no way around it.
	if err := sddl("O:BAD:P(A;OICI;FA;;;WD)").set(directory); err != nil {
		t.Fatal(err)
	}
	if err := s.MakeDirectory(directory, config.AccessAdministratorsWrite); err != nil {
		t.Fatal(err)
	}
	mustHave(t, directory, config.AccessAdministratorsWrite)
}

// Who could write decides, however the list says it.
func TestAccessBy(t *testing.T) {
	me, err := windows.StringToSid("S-1-5-21-1-2-3-1001")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what string
		list sddl
		want config.Access
	}{
		{"a file of ours", fileAccess(config.AccessAdministrators), config.AccessAdministrators},
		{"a directory of ours", directoryAccess(config.AccessAdministrators), config.AccessAdministrators},
		{"a directory of programs", directoryAccess(config.AccessAdministratorsWrite), config.AccessAdministratorsWrite},
		{"the account of this process", "O:S-1-5-21-1-2-3-1001D:(A;;FA;;;BA)(A;;FA;;;S-1-5-21-1-2-3-1001)", config.AccessAdministrators},
		{"the first administrator", "O:S-1-5-21-9-9-9-500D:(A;;FA;;;BA)(A;;FA;;;S-1-5-21-9-9-9-500)", config.AccessAdministrators},
		{"an account whose number ends alike", "O:BAD:(A;;FA;;;BA)(A;;FA;;;S-1-5-21-9-9-9-1500)", config.AccessInherited},
		{"the installer of Windows", "O:" + trustedInstaller + "D:(A;;FA;;;" + trustedInstaller + ")", config.AccessAdministrators},
		{"generic rights", "O:SYD:(A;;FA;;;BA)(A;;GRGX;;;BU)", config.AccessAdministratorsWrite},
		{"somebody has less", "O:BAD:(D;;FA;;;WD)(A;;FA;;;BA)", config.AccessAdministrators},
		{"modify", "O:BAD:(A;;FA;;;BA)(A;;0x1301bf;;;BU)", config.AccessInherited},
		{"write", "O:BAD:(A;;FA;;;BA)(A;;0x100116;;;WD)", config.AccessInherited},
		{"as below C:", "O:BAD:(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)(A;CI;0x4;;;BU)(A;CIIO;0x2;;;BU)", config.AccessInherited},
		{"who makes something there", "O:BAD:(A;;FA;;;BA)(A;OICIIO;GA;;;CO)", config.AccessInherited},
		{"an owner may change the list", "O:BUD:(A;;FA;;;BA)", config.AccessInherited},
		{"nobody", "O:BAD:P", config.AccessInherited},
		{"no list", "O:BA", config.AccessInherited},
	} {
		descriptor, err := tc.list.descriptor()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := accessBy(descriptor, me); err != nil || got != tc.want {
			t.Errorf("%s: got %q, %v; want %q: %s", tc.what, got, err, tc.want, tc.list)
		}
	}
	if got, err := accessBy(unrestricted(t), me); err != nil || got != config.AccessInherited {
		t.Errorf("a list that is none: got %q, %v", got, err)
	}
}

// unrestricted is a descriptor of Administrators that has a list which is none (NULL), so that everybody may do everything. Wine makes no such one of text.
func unrestricted(t *testing.T) *windows.SECURITY_DESCRIPTOR {
	t.Helper()
	descriptor, err := windows.NewSecurityDescriptor()
	if err != nil {
		t.Fatal(err)
	}
	admins, err := windows.CreateWellKnownSid(windows.WinBuiltinAdministratorsSid)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(descriptor.SetOwner(admins, false), descriptor.SetDACL(nil, true, false)); err != nil {
		t.Fatal(err)
	}
	return descriptor
}
