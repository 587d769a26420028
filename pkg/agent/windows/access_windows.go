// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// sddl is a security descriptor as text: access that SYSTEM (SY) and Administrators (BA) have, for
// some everybody (BU) who may read and run (0x1200a9), inherited from nothing (P). Whoever owns
// something may give themselves access, so that is Administrators, too. Empty: access is inherited.
type sddl string

// fileAccess is that of a file.
func fileAccess(access config.Access) sddl {
	switch access {
	case config.AccessAdministrators:
		return "O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)"
	case config.AccessAdministratorsWrite:
		return "O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;0x1200a9;;;BU)"
	default:
		return ""
	}
}

// directoryAccess is that of a directory. What is made there inherits it.
func directoryAccess(access config.Access) sddl {
	switch access {
	case config.AccessAdministrators:
		return "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
	case config.AccessAdministratorsWrite:
		return "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)"
	default:
		return ""
	}
}

// attributes are for creating something with this access. Nil: it inherits access.
func (s sddl) attributes() (*windows.SecurityAttributes, error) {
	if s == "" {
		return nil, nil
	}
	descriptor, err := s.descriptor()
	if err != nil {
		return nil, err
	}
	attributes := &windows.SecurityAttributes{SecurityDescriptor: descriptor}
	attributes.Length = uint32(unsafe.Sizeof(*attributes))
	return attributes, nil
}

func (s sddl) descriptor() (*windows.SECURITY_DESCRIPTOR, error) {
	descriptor, err := windows.SecurityDescriptorFromString(string(s))
	if err != nil {
		return nil, fmt.Errorf("creating the access list: %w", err)
	}
	return descriptor, nil
}

// set gives what exists this access.
func (s sddl) set(path string) error {
	text, information := s, windows.SECURITY_INFORMATION(windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION)
	if s == "" {
		text, information = "O:BAD:", windows.DACL_SECURITY_INFORMATION|windows.UNPROTECTED_DACL_SECURITY_INFORMATION
	}
	descriptor, err := text.descriptor()
	if err != nil {
		return err
	}
	owner, _, err := descriptor.Owner()
	if err != nil {
		return fmt.Errorf("creating the access list: %w", err)
	}
	list, _, err := descriptor.DACL()
	if err != nil {
		return fmt.Errorf("creating the access list: %w", err)
	}
	// An owner may change the access also where the list denies that, and Administrators may
	// become owner of everything.
	if err := windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION, owner, nil, nil, nil); err != nil {
		err = errors.Join(enablePrivilege("SeTakeOwnershipPrivilege"),
			windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION, owner, nil, nil, nil))
		if err != nil {
			return fmt.Errorf("making Administrators the owner of %s: %w", path, err)
		}
	}
	if err := windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, information, nil, nil, list, nil); err != nil {
		return fmt.Errorf("setting the access to %s: %w", path, err)
	}
	return nil
}

// SetAccess implements [engine.System].
func (s *windowsSystem) SetAccess(path string, access config.Access) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fileAccess(access).set(path)
	}
	if err := directoryAccess(access).set(path); err != nil || access != config.AccessAdministratorsWrite {
		return err
	}
	return filepath.WalkDir(path, func(below string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || below == path {
			return nil // it is gone meanwhile
		}
		if err != nil {
			return err
		}
		if entry.Type()&(fs.ModeSymlink|fs.ModeIrregular) != 0 {
			return nil // what it leads to is elsewhere
		}
		return inherit(below)
	})
}

// inherit has something inherit the access to its directory unless that is what it has, or more than
// administrators have none.
func inherit(path string) error {
	access, err := readAccess(path)
	if err == nil && access.Includes(config.AccessAdministratorsWrite) {
		return nil
	}
	if err := sddl("").set(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MakeDirectory implements [engine.System].
func (s *windowsSystem) MakeDirectory(path string, access config.Access) error {
	attributes, err := directoryAccess(access).attributes()
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	switch err := windows.CreateDirectory(name, attributes); {
	case errors.Is(err, windows.ERROR_ALREADY_EXISTS) && access != config.AccessInherited:
		return s.SetAccess(path, access) // somebody was faster
	case err != nil && !errors.Is(err, windows.ERROR_ALREADY_EXISTS):
		return &fs.PathError{Op: "mkdir", Path: path, Err: err}
	default:
		return nil
	}
}

// readOnly are the rights to read and to run.
const readOnly = windows.FILE_GENERIC_READ | windows.FILE_GENERIC_EXECUTE | windows.GENERIC_READ | windows.GENERIC_EXECUTE

// readAccess returns what others than administrators can do with something. The account that this
// process runs as is one of those.
func readAccess(path string) (config.Access, error) {
	me, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return "", err
	}
	descriptor, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION|windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return "", err
	}
	return accessBy(descriptor, me.User.Sid)
}

// accessBy is what a descriptor grants to others than administrators and me.
func accessBy(descriptor *windows.SECURITY_DESCRIPTOR, me *windows.SID) (config.Access, error) {
	owner, _, err := descriptor.Owner()
	if err != nil {
		return "", err
	}
	list, err := accessList(descriptor)
	if err != nil {
		return "", err
	}
	if list == nil {
		return config.AccessInherited, nil
	}
	administers := func(sid *windows.SID) bool { return sid.Equals(me) || isAdministrators(sid) }
	if list.AceCount == 0 || !administers(owner) {
		return config.AccessInherited, nil
	}
	access := config.AccessAdministrators
	for i := range uint32(list.AceCount) {
		var entry *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, i, &entry); err != nil {
			return "", err
		}
		switch entry.Header.AceType {
		case windows.ACCESS_DENIED_ACE_TYPE:
			continue
		case windows.ACCESS_ALLOWED_ACE_TYPE:
		default:
			return config.AccessInherited, nil
		}
		switch {
		case administers((*windows.SID)(unsafe.Pointer(&entry.SidStart))):
		case entry.Mask&^readOnly == 0:
			access = config.AccessAdministratorsWrite
		default:
			return config.AccessInherited, nil
		}
	}
	return access, nil
}

// accessList is that of a descriptor. Nil: it has none, or one that is none, and either allows everything to everybody.
func accessList(descriptor *windows.SECURITY_DESCRIPTOR) (*windows.ACL, error) {
	list, _, err := descriptor.DACL()
	if errors.Is(err, windows.ERROR_OBJECT_NOT_FOUND) {
		return nil, nil
	}
	return list, err
}

// trustedInstaller is the service that installs Windows itself; see "Well-known SIDs" of Windows.
const trustedInstaller = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"

// isAdministrators says whether this is SYSTEM, the group of administrators, the account that every
// Windows has as its first administrator, or what installs Windows.
func isAdministrators(sid *windows.SID) bool {
	text := sid.String()
	return sid.IsWellKnown(windows.WinLocalSystemSid) || sid.IsWellKnown(windows.WinBuiltinAdministratorsSid) ||
		text == trustedInstaller || strings.HasPrefix(text, "S-1-5-21-") && strings.HasSuffix(text, "-500")
}
