// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// KeyFiles implements [agent.Host]: those of the sshd_config that comes with OpenSSH on Windows.
func (h *Host) KeyFiles() ([]string, error) {
	token := windows.GetCurrentProcessToken()
	profile, err := token.GetUserProfileDirectory()
	if err != nil {
		return nil, fmt.Errorf("finding the profile of the user: %w", err)
	}
	own := filepath.Join(profile, ".ssh", "authorized_keys")
	if !token.IsElevated() {
		return []string{own}, nil
	}
	programData, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, windows.KF_FLAG_DEFAULT)
	if err != nil {
		return nil, fmt.Errorf("finding ProgramData: %w", err)
	}
	return []string{filepath.Join(programData, "ssh", "administrators_authorized_keys"), own}, nil
}

// ReplaceKeeping implements [agent.System].
func (s *windowsSystem) ReplaceKeeping(path string, content []byte) error {
	descriptor, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
		return writeWholeAs(path, bytes.NewReader(content), newKeyFileAccess(), nil)
	}
	if err != nil {
		return fmt.Errorf("reading the access to %s: %w", path, err)
	}
	return writeWholeAs(path, bytes.NewReader(content), "", func(temporary string) error { return copyAccess(descriptor, temporary) })
}

// newKeyFileAccess is the access to a file that does not exist yet: what sshd demands of one for administrators,
// and for others what is inherited from their profile.
func newKeyFileAccess() sddl {
	if windows.GetCurrentProcessToken().IsElevated() {
		return fileAccess(config.AccessAdministrators)
	}
	return ""
}

// copyAccess gives a file the owner and the access of another one in the same directory.
func copyAccess(from *windows.SECURITY_DESCRIPTOR, to string) error {
	control, _, err := from.Control()
	if err != nil {
		return err
	}
	list, _, err := from.DACL()
	if err != nil {
		return fmt.Errorf("reading the access list: %w", err)
	}
	owner, _, err := from.Owner()
	if err != nil {
		return fmt.Errorf("reading the owner: %w", err)
	}
	// What is inherited comes from the directory again.
	information := windows.SECURITY_INFORMATION(windows.DACL_SECURITY_INFORMATION | windows.UNPROTECTED_DACL_SECURITY_INFORMATION)
	if control&windows.SE_DACL_PROTECTED != 0 {
		information = windows.DACL_SECURITY_INFORMATION | windows.PROTECTED_DACL_SECURITY_INFORMATION
	}
	if err := windows.SetNamedSecurityInfo(to, windows.SE_FILE_OBJECT, information, nil, nil, list, nil); err != nil {
		return fmt.Errorf("setting the access to %s: %w", to, err)
	}
	setOwner := func() error {
		return windows.SetNamedSecurityInfo(to, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION, owner, nil, nil, nil)
	}
	if err := setOwner(); err != nil {
		// To make another account the owner, which SYSTEM may be, needs this privilege.
		if err := errors.Join(enablePrivilege("SeRestorePrivilege"), setOwner()); err != nil {
			return fmt.Errorf("setting the owner of %s: %w", to, err)
		}
	}
	return nil
}
