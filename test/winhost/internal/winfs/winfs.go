// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package winfs serves files over SFTP with the paths and the manners of OpenSSH for
// Windows: drives below "/", either slash, no difference between upper and lower case, no
// rename onto an existing file but by the posix-rename extension. Where a path really is,
// is its user's matter: below a directory on Linux, the very same path on Windows.
package winfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pkg/sftp"

	"github.com/openshift/windows-instance-api/test/winhost/fault"
)

// FS is the file system of one host. It may be used by many connections at a time.
type FS struct {
	// Home is where relative paths begin, for example /C:/Users/Administrator.
	Home string
	// Local returns the path on this machine of a clean path such as /C:/var/log.
	Local func(clean string) (string, error)
	// Drives lists the entries of "/", for example "C:".
	Drives func() []string
	// Busy reports whether a local path is that of a running program, which Windows lets
	// nobody overwrite or remove. Nil: the operating system below takes care of it.
	Busy func(local string) bool
	// Fault says what is wrong with the host; DiskFull and SFTPReadOnly are acted upon.
	Fault func() fault.Fault
}

// errSharing is ERROR_SHARING_VIOLATION; over SFTP both are SSH_FX_FAILURE.
var errSharing = errors.New("the process cannot access the file because it is being used by another process")

// Serve answers one SFTP session until the client ends it or ctx is done.
func (f *FS) Serve(ctx context.Context, rw io.ReadWriteCloser) error {
	s := sftp.NewRequestServer(rw, sftp.Handlers{FileGet: f, FilePut: f, FileCmd: f, FileList: f},
		sftp.WithStartDirectory(f.Home))
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	err := s.Serve()
	_ = s.Close() // Serve may have closed it already
	return err
}

// Clean turns a path as clients send it (C:\k\x, C:/k/x, /C:/k/x, k/x, .) into the one
// form /C:/k/x. An absolute path without a drive stays one.
func (f *FS) Clean(p string) string {
	p = strings.ReplaceAll(p, `\`, "/")
	if !strings.HasPrefix(p, "/") {
		p = f.Home + "/" + p
	}
	parts := strings.Split(p, "/")
	for i := len(parts) - 1; i > 0; i-- {
		if isDrive(parts[i]) { // also in the middle, where an absolute path was joined to Home
			rest := path.Clean("/" + strings.Join(parts[i+1:], "/")) // C:\.. is C:\
			return "/" + parts[i] + strings.TrimSuffix(rest, "/")
		}
	}
	return path.Clean(p)
}

func isDrive(s string) bool {
	return len(s) == 2 && s[1] == ':' && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z')
}

// resolve returns the path on this machine of a path from a client.
func (f *FS) resolve(p string) (string, error) {
	p = f.Clean(p)
	drive, rest, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	if !isDrive(drive) {
		return "", fs.ErrNotExist
	}
	if strings.ContainsAny(rest, `<>:"|?*`) {
		return "", fmt.Errorf("%s: the filename, directory name, or volume label syntax is incorrect", p)
	}
	return f.Local(p)
}

// change resolves a path that is about to be changed.
func (f *FS) change(p string) (string, error) {
	if f.Fault().SFTPReadOnly {
		return "", sftp.ErrSSHFxPermissionDenied
	}
	return f.resolve(p)
}

// Fileread implements [sftp.FileReader].
func (f *FS) Fileread(r *sftp.Request) (io.ReaderAt, error) {
	return f.open(r, os.O_RDONLY)
}

// Filewrite implements [sftp.FileWriter].
func (f *FS) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	return f.open(r, os.O_WRONLY)
}

// OpenFile implements [sftp.OpenFileWriter].
func (f *FS) OpenFile(r *sftp.Request) (sftp.WriterAtReaderAt, error) {
	return f.open(r, os.O_RDWR)
}

func (f *FS) open(r *sftp.Request, flag int) (*file, error) {
	if flag == os.O_RDONLY {
		local, err := f.resolve(r.Filepath)
		if err != nil {
			return nil, err
		}
		return f.openLocal(local, flag)
	}
	local, err := f.change(r.Filepath)
	if err != nil {
		return nil, err
	}
	if f.busy(local) {
		return nil, errSharing
	}
	pf := r.Pflags()
	for _, o := range []struct {
		set  bool
		flag int
	}{{pf.Creat, os.O_CREATE}, {pf.Trunc, os.O_TRUNC}, {pf.Excl, os.O_EXCL}} {
		if o.set {
			flag |= o.flag
		}
	}
	return f.openLocal(local, flag)
}

func (f *FS) openLocal(local string, flag int) (*file, error) {
	of, err := os.OpenFile(local, flag, 0o644)
	if err != nil {
		return nil, err
	}
	if st, err := of.Stat(); err == nil && st.IsDir() {
		_ = of.Close()
		return nil, errors.New("access is denied: a directory")
	}
	return &file{File: of, fs: f}, nil
}

func (f *FS) busy(local string) bool { return f.Busy != nil && f.Busy(local) }

// file fails writes while the disk is full.
type file struct {
	*os.File
	fs *FS
}

// WriteAt implements [io.WriterAt].
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if f.fs.Fault().DiskFull {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, off)
}

// Filecmd implements [sftp.FileCmder].
func (f *FS) Filecmd(r *sftp.Request) error {
	local, err := f.change(r.Filepath)
	if err != nil {
		return err
	}
	switch r.Method {
	case "Setstat":
		return setstat(local, r)
	case "Rename":
		return f.rename(local, r.Target, false)
	case "Mkdir":
		return os.Mkdir(local, 0o755)
	case "Rmdir", "Remove":
		st, err := os.Lstat(local)
		switch {
		case err != nil:
			return err
		case st.IsDir() != (r.Method == "Rmdir"):
			return sftp.ErrSSHFxFailure
		case f.busy(local):
			return fs.ErrPermission // ERROR_ACCESS_DENIED
		}
		return os.Remove(local)
	default:
		return sftp.ErrSSHFxOpUnsupported
	}
}

// PosixRename implements [sftp.PosixRenameFileCmder]: it replaces an existing file.
func (f *FS) PosixRename(r *sftp.Request) error {
	local, err := f.change(r.Filepath)
	if err != nil {
		return err
	}
	return f.rename(local, r.Target, true)
}

func (f *FS) rename(from, target string, replace bool) error {
	to, err := f.change(target)
	if err != nil {
		return err
	}
	if f.busy(to) {
		return fs.ErrPermission
	}
	// A change of case only is no collision.
	if _, err := os.Lstat(to); err == nil && !replace && !strings.EqualFold(from, to) {
		return fs.ErrExist
	}
	return os.Rename(from, to)
}

func setstat(local string, r *sftp.Request) error {
	flags, attrs := r.AttrFlags(), r.Attributes()
	if flags.Size {
		if err := os.Truncate(local, int64(attrs.Size)); err != nil {
			return err
		}
	}
	if flags.Acmodtime {
		return os.Chtimes(local, attrs.AccessTime(), attrs.ModTime())
	}
	_, err := os.Lstat(local) // mode bits and owners mean nothing on Windows
	return err
}

// Filelist implements [sftp.FileLister].
func (f *FS) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if r.Filepath == "/" {
		if r.Method == "List" {
			return f.drives(), nil
		}
		return infos{rootInfo{name: "/"}}, nil
	}
	local, err := f.resolve(r.Filepath)
	if err != nil {
		return nil, err
	}
	if r.Method != "List" {
		st, err := os.Stat(local)
		if err != nil {
			return nil, err
		}
		return infos{st}, nil
	}
	entries, err := os.ReadDir(local)
	if err != nil {
		return nil, err
	}
	var list infos
	for _, e := range entries {
		if st, err := os.Stat(filepath.Join(local, e.Name())); err == nil { // gone since, or a dangling link
			list = append(list, st)
		}
	}
	return list, nil
}

func (f *FS) drives() infos {
	var list infos
	for _, d := range f.Drives() {
		list = append(list, rootInfo{name: d})
	}
	return list
}

// RealPath implements [sftp.RealPathFileLister].
func (f *FS) RealPath(p string) (string, error) {
	if p == "/" {
		return p, nil
	}
	return f.Clean(p), nil
}

// infos are the entries of a directory.
type infos []fs.FileInfo

// ListAt implements [sftp.ListerAt].
func (l infos) ListAt(out []fs.FileInfo, offset int64) (int, error) {
	if offset >= int64(len(l)) {
		return 0, io.EOF
	}
	n := copy(out, l[offset:])
	if n < len(out) {
		return n, io.EOF
	}
	return n, nil
}
