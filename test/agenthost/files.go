// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/pkg/agent/files"
	"github.com/openshift/windows-instance-api/test/winpath"
)

// local returns where a path is on this machine.
func (s *System) local(path string) string { return winpath.Local(s.drive, path[3:]) }

// Stat implements [engine.System].
func (s *System) Stat(path string) (engine.FileInfo, error) {
	info, err := os.Lstat(s.local(path))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return engine.FileInfo{}, nil
	}
	if err != nil {
		return engine.FileInfo{}, err
	}
	out := engine.FileInfo{Kind: files.Kind(info.Mode()), Size: info.Size(), Modified: info.ModTime()}
	for _, access := range []config.Access{config.AccessAdministrators, config.AccessAdministratorsWrite} {
		file, directory := modes(access)
		if others := info.Mode().Perm() & 0o077; others == file&0o077 || others == directory&0o077 {
			out.Access = access
		}
	}
	return out, nil
}

// Open implements [engine.System].
func (s *System) Open(path string) (io.ReadCloser, error) { return os.Open(s.local(path)) }

// Names implements [engine.System].
func (s *System) Names(directory string) ([]string, error) {
	return files.Names(s.local(directory))
}

// modes are permissions of files and directories. The group stands for the users who may create
// files below C:\ unless a directory says otherwise.
func modes(access config.Access) (file, directory fs.FileMode) {
	switch access {
	case config.AccessAdministrators:
		return 0o600, 0o700
	case config.AccessAdministratorsWrite:
		return 0o604, 0o705
	default:
		return 0o644, 0o755
	}
}

// WriteFile implements [engine.System].
func (s *System) WriteFile(path string, content []byte, access config.Access) error {
	mode, _ := modes(access)
	return writeWhole(s.local(path), bytes.NewReader(content), mode)
}

// ReplaceKeeping implements [agent.System].
func (s *System) ReplaceKeeping(path string, content []byte) error {
	local := s.local(path)
	mode, _ := modes(config.AccessAdministrators)
	if info, err := os.Lstat(local); err == nil {
		mode = info.Mode().Perm()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeWhole(local, bytes.NewReader(content), mode)
}

// CopyFile implements [engine.System].
func (s *System) CopyFile(from, to string, access config.Access) error {
	in, err := s.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	mode, _ := modes(access)
	return writeWhole(s.local(to), in, mode)
}

// Rename implements [engine.System].
func (s *System) Rename(from, to string) error {
	return renameFile(s.local(from), s.local(to))
}

// renameFile replaces what is at the target, and returns when that is on the disk.
func renameFile(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(to))
}

// SetAccess implements [engine.System].
func (s *System) SetAccess(path string, access config.Access) error {
	local := s.local(path)
	info, err := os.Lstat(local)
	if err != nil {
		return err
	}
	mode, directory := modes(access)
	if info.IsDir() {
		mode = directory
	}
	return os.Chmod(local, mode)
}

// MakeDirectory implements [engine.System].
func (s *System) MakeDirectory(path string, access config.Access) error {
	_, mode := modes(access)
	if err := os.MkdirAll(s.drive, 0o755); err != nil {
		return err
	}
	local := s.local(path)
	if err := os.Mkdir(local, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDirectory(filepath.Dir(local))
}

// Remove implements [engine.System].
func (s *System) Remove(path string) error {
	local := s.local(path)
	for _, name := range []string{local + files.TemporarySuffix, local} {
		err := os.Remove(name)
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
			return fmt.Errorf("%s: %w", path, engine.ErrNotEmpty)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Link makes a symbolic link, or has one that is there lead elsewhere. The engine makes none, and other programs do.
func (s *System) Link(path, target string) error {
	local := s.local(path)
	if err := os.Remove(local); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(s.local(target), local)
}

// RemoveAtBoot implements [engine.System]. No file is ever in use, so it is removed now.
func (s *System) RemoveAtBoot(path string) error { return s.Remove(path) }

// RemovedAtBoot implements [engine.System].
func (s *System) RemovedAtBoot() ([]string, error) { return nil, nil }

// UnmountLayer implements [engine.System]. There are no containers.
func (s *System) UnmountLayer(string) error { return nil }

// RemoveLayer fails: there are no containers.
func (s *System) RemoveLayer(path string) error {
	return fmt.Errorf("removing the layer %s: %w", path, errors.ErrUnsupported)
}

// openShared opens an existing file.
func openShared(path string, write bool) (*os.File, error) {
	flag := os.O_RDONLY
	if write {
		flag = os.O_RDWR
	}
	return os.OpenFile(path, flag, 0)
}

// RotateLog implements [engine.System].
func (s *System) RotateLog(path, target string) error {
	return disk.RotateLog(s.local(path), s.local(target))
}

// writeWhole writes a file that exists with its whole content or not at all, also after a crash, and while others write it, too.
func writeWhole(path string, content io.Reader, mode fs.FileMode) (err error) {
	temporary := path + files.TemporarySuffix
	out, err := openAlone(temporary, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }() // others wait for that
	if _, err = io.Copy(out, content); err == nil {
		err = errors.Join(out.Chmod(mode), out.Sync())
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return syncDirectory(filepath.Dir(path))
}

// openAlone opens an empty file when nobody else has it open. Windows keeps others out by itself, see writeWholeAs in pkg/agent/windows.
func openAlone(path string, mode fs.FileMode) (*os.File, error) {
	for {
		out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, mode)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(out.Fd()), syscall.LOCK_EX); err != nil {
			return nil, errors.Join(err, out.Close())
		}
		opened, err := out.Stat()
		if err != nil {
			return nil, errors.Join(err, out.Close())
		}
		if named, err := os.Lstat(path); err == nil && os.SameFile(opened, named) {
			if err := out.Truncate(0); err != nil {
				return nil, errors.Join(err, out.Close())
			}
			return out, nil
		}
		// It has got another name, or was removed, while it was waited for.
		if err := out.Close(); err != nil {
			return nil, err
		}
	}
}

func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
