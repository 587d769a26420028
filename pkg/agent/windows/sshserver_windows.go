// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/facts"
)

// sshServer reads what decides whether the service sshd starts. Nil: there is none, or that of another SSH server.
func sshServer(service *api.Service) (*api.SSHServer, error) {
	if service == nil {
		return nil, nil
	}
	program, plain := facts.SSHProgram(service.Path)
	if program == "" {
		return nil, nil
	}
	program, err := registry.ExpandString(program)
	if err != nil {
		return nil, fmt.Errorf("finding the program: %w", err)
	}
	programData, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, windows.KF_FLAG_DEFAULT)
	if err != nil {
		return nil, fmt.Errorf("finding ProgramData: %w", err)
	}
	return readSSHServer(program, filepath.Join(programData, "ssh"), plain)
}

// readSSHServer reads the program and what it looks at in its folder. With an error, what could be read is set. plain is that of
// [facts.SSHProgram].
func readSSHServer(program, folder string, plain bool) (*api.SSHServer, error) {
	s := &api.SSHServer{}
	var errs []error
	note := func(err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	var err error
	s.Version, err = fileVersion(program)
	note(err)
	s.EndsOverFolders, err = endsOverFolders(program)
	note(err)
	s.Folder, err = othersAccess(folder)
	note(err)
	s.Logs, err = othersAccess(filepath.Join(folder, "logs"))
	note(err)
	config, err := os.ReadFile(filepath.Join(folder, "sshd_config"))
	note(err)
	if !plain || err != nil && !errors.Is(err, fs.ErrNotExist) || facts.NamesHostKeys(string(config)) {
		return s, errors.Join(errs...)
	}
	for _, name := range facts.SSHHostKeys() {
		access, err := othersAccess(filepath.Join(folder, name))
		note(err)
		if err == nil {
			if s.HostKeys == nil {
				s.HostKeys = map[string]api.FileAccess{}
			}
			s.HostKeys[name] = *access
		}
	}
	return s, errors.Join(errs...)
}

// maxSSHProgram is several times the size of a program sshd.exe.
const maxSSHProgram = 16 << 20

func endsOverFolders(program string) (bool, error) {
	f, err := os.Open(program)
	if err != nil {
		return false, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxSSHProgram))
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", program, err)
	}
	return facts.EndsOverFolders(content), nil
}

// fileVersion is the version of a program, four numbers.
func fileVersion(program string) (string, error) {
	size, err := windows.GetFileVersionInfoSize(program, nil)
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", program, err)
	}
	buf := make([]byte, max(size, 1))
	if err := windows.GetFileVersionInfo(program, 0, size, unsafe.Pointer(&buf[0])); err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", program, err)
	}
	var info *windows.VS_FIXEDFILEINFO // within buf
	var length uint32
	if err := windows.VerQueryValue(unsafe.Pointer(&buf[0]), `\`, unsafe.Pointer(&info), &length); err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", program, err)
	}
	if uintptr(length) < unsafe.Sizeof(*info) {
		return "", fmt.Errorf("the version of %s has %d bytes", program, length)
	}
	return fmt.Sprintf("%d.%d.%d.%d", info.FileVersionMS>>16, info.FileVersionMS&0xffff, info.FileVersionLS>>16, info.FileVersionLS&0xffff), nil
}

// othersAccess reads who owns a file or a folder, and what others than administrators may do with it.
func othersAccess(path string) (*api.FileAccess, error) {
	descriptor, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return nil, fmt.Errorf("reading the access to %s: %w", path, err)
	}
	access, err := othersIn(descriptor)
	if err != nil {
		return nil, fmt.Errorf("reading the access to %s: %w", path, err)
	}
	return access, nil
}

// othersIn is what a descriptor says of others than administrators.
func othersIn(descriptor *windows.SECURITY_DESCRIPTOR) (*api.FileAccess, error) {
	owner, _, err := descriptor.Owner()
	if err != nil {
		return nil, err
	}
	access := &api.FileAccess{Owner: owner.String()}
	list, err := accessList(descriptor)
	if err != nil {
		return nil, err
	}
	if list == nil {
		access.Unrestricted = true
		return access, nil
	}
	for i := range uint32(list.AceCount) {
		var entry *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, i, &entry); err != nil {
			return nil, err
		}
		account := (*windows.SID)(unsafe.Pointer(&entry.SidStart))
		if entry.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE || account.IsWellKnown(windows.WinLocalSystemSid) || account.IsWellKnown(windows.WinBuiltinAdministratorsSid) {
			continue
		}
		access.Allowed = append(access.Allowed, api.AllowedAccess{Account: account.String(), Rights: uint32(entry.Mask)})
	}
	return access, nil
}
