// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/pkg/agent/files"
)

// isInUse reports whether Windows refuses a file because it is open or runs. It says the same
// of files that nobody has a right to.
func isInUse(err error) bool {
	return slices.ContainsFunc([]error{windows.ERROR_SHARING_VIOLATION, windows.ERROR_ACCESS_DENIED, windows.ERROR_USER_MAPPED_FILE, windows.ERROR_LOCK_VIOLATION},
		func(code error) bool { return errors.Is(err, code) })
}

// inUse adds [engine.ErrInUse] to what Windows says of files that are open or run.
func inUse(err error) error {
	if isInUse(err) {
		return fmt.Errorf("%w: %w", engine.ErrInUse, err)
	}
	return err
}

// Stat implements [engine.System].
func (s *windowsSystem) Stat(path string) (engine.FileInfo, error) {
	info, err := asBackup(func() (fs.FileInfo, error) { return os.Lstat(path) })
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, windows.ERROR_DIRECTORY) {
		return engine.FileInfo{}, nil
	}
	if err != nil {
		return engine.FileInfo{}, err
	}
	out := engine.FileInfo{Kind: files.Kind(info.Mode()), Size: info.Size(), Modified: info.ModTime()}
	if out.Kind == engine.FileRegular || out.Kind == engine.FileDirectory {
		out.Access, err = readAccess(path)
		if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
			// What administrators may not read the rights of is not for them only.
			out.Access, err = config.AccessInherited, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return engine.FileInfo{}, fmt.Errorf("reading the access to %s: %w", path, err)
		}
	}
	return out, nil
}

// Open implements [engine.System]. The file can be renamed and removed meanwhile.
func (s *windowsSystem) Open(path string) (io.ReadCloser, error) { return openShared(path, false) }

// openShared opens an existing file. Others can write to it, rename it and remove it meanwhile.
func openShared(path string, write bool) (*os.File, error) {
	access := uint32(windows.GENERIC_READ)
	if write {
		access |= windows.GENERIC_WRITE
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := windows.CreateFile(name, access, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, windows.OPEN_EXISTING, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(h), path), nil
}

// Names implements [engine.System].
func (s *windowsSystem) Names(directory string) ([]string, error) {
	return asBackup(func() ([]string, error) { return files.Names(directory) })
}

// WriteFile implements [engine.System].
func (s *windowsSystem) WriteFile(path string, content []byte, access config.Access) error {
	return writeWhole(path, bytes.NewReader(content), access)
}

// CopyFile implements [engine.System].
func (s *windowsSystem) CopyFile(from, to string, access config.Access) error {
	in, err := openShared(from, false)
	if err != nil {
		return err
	}
	defer in.Close()
	return writeWhole(to, in, access)
}

// writeWhole writes a file that exists with its whole content or not at all, also after a crash.
func writeWhole(path string, content io.Reader, access config.Access) error {
	return writeWholeAs(path, content, fileAccess(access), nil)
}

// writeWholeAs is writeWhole with any access to the file that is written, which is prepared before it gets its
// name. A nil prepare does nothing.
func writeWholeAs(path string, content io.Reader, access sddl, prepare func(temporary string) error) error {
	temporary := path + files.TemporarySuffix
	// One from before a crash may have another access.
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return inUse(err)
	}
	attributes, err := access.attributes()
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(temporary)
	if err != nil {
		return err
	}
	h, err := windows.CreateFile(name, windows.GENERIC_WRITE, 0, attributes, windows.CREATE_NEW, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return &fs.PathError{Op: "create", Path: temporary, Err: err}
	}
	out := os.NewFile(uintptr(h), temporary)
	_, err = io.Copy(out, content)
	if err == nil {
		err = out.Sync()
	}
	err = errors.Join(err, out.Close())
	if err == nil && prepare != nil {
		err = prepare(temporary)
	}
	if err == nil {
		err = moveFile(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return nil
}

// Rename implements [engine.System].
func (s *windowsSystem) Rename(from, to string) error { return moveFile(from, to) }

// Remove implements [engine.System].
func (s *windowsSystem) Remove(path string) error {
	for _, name := range []string{path + files.TemporarySuffix, path} {
		err := os.Remove(name)
		if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
			err = removeDenied(name, err)
		} else {
			err = inUse(err)
		}
		if errors.Is(err, windows.ERROR_DIR_NOT_EMPTY) {
			return fmt.Errorf("%s: %w", path, engine.ErrNotEmpty)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeDenied removes what could not be removed for want of access, as backup programs do: files
// of the layers of containers have the owners and rights that they have in images. Windows also
// denies access to a program that runs; that is in use, and nothing else is.
func removeDenied(path string, denied error) error {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	if err := enableBackup(); err != nil {
		return errors.Join(denied, err)
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(name, windows.DELETE, share, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return denied
	}
	if err != nil {
		return inUse(&fs.PathError{Op: "remove", Path: path, Err: err})
	}
	flags := uint32(windows.FILE_DISPOSITION_DELETE | windows.FILE_DISPOSITION_POSIX_SEMANTICS | windows.FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE)
	err = windows.SetFileInformationByHandle(h, windows.FileDispositionInfoEx, (*byte)(unsafe.Pointer(&flags)), uint32(unsafe.Sizeof(flags)))
	if err = errors.Join(err, windows.CloseHandle(h)); err != nil {
		return fmt.Errorf("%w: %w", engine.ErrInUse, err)
	}
	return nil
}

// asBackup does what access is denied to once more, as backup programs do it.
func asBackup[T any](do func() (T, error)) (T, error) {
	result, err := do()
	if !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return result, err
	}
	if enableErr := enableBackup(); enableErr != nil {
		return result, errors.Join(err, enableErr)
	}
	return do()
}

// enableBackup lets this process read and remove what administrators have no right to, where
// files and directories are opened with FILE_FLAG_BACKUP_SEMANTICS.
func enableBackup() error {
	return errors.Join(enablePrivilege("SeBackupPrivilege"), enablePrivilege("SeRestorePrivilege"))
}

// RemovedAtBoot implements [engine.System].
func (s *windowsSystem) RemovedAtBoot() ([]string, error) {
	values, err := pendingRenames()
	return removedAtBoot(values), err
}

// RemoveAtBoot implements [engine.System].
func (s *windowsSystem) RemoveAtBoot(path string) error {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	if err := windows.MoveFileEx(name, nil, windows.MOVEFILE_DELAY_UNTIL_REBOOT); err != nil {
		return fmt.Errorf("having %s removed at the next boot: %w", path, err)
	}
	return nil
}
