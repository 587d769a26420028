// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Errors of opening a file below the log root.
var (
	errOutsideRoot = errors.New("the path leads out of the log directory through a link")
	errNotRegular  = errors.New("not a regular file")
	errIsDirectory = errors.New("is a directory")
	errLinkLoop    = errors.New("the path leads through too many links")
)

// maxLinks bounds the links that are followed for one name.
const maxLinks = 16

// logRoot opens files below one directory, and nowhere else. The directory is
// opened again each time: it may not exist yet, or be replaced while a log is
// followed, and the cost is far below that of a poll.
type logRoot struct {
	dir string
}

// within calls do for a name below the directory. If it fails because of an absolute link,
// which an os.Root refuses even when it leads back into it, as those in C:\var\log\containers
// do, it calls do again for what the name leads to.
func (r logRoot) within(name string, do func(root *os.Root, name string) error) error {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // a directory opened for reading
	err = do(root, name)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	target, resolveErr := r.resolve(root, name)
	if resolveErr != nil {
		return resolveErr
	}
	if target == name {
		return err
	}
	return do(root, target)
}

// open opens a regular file for reading. Writers are not hindered: on Windows,
// files opened through an [os.Root] share reading, writing and deleting.
func (r logRoot) open(name string) (f *os.File, info fs.FileInfo, err error) {
	err = r.within(name, func(root *os.Root, name string) (err error) {
		f, err = root.OpenFile(filepath.FromSlash(name), openFlags, 0)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	info, err = f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = errIsDirectory
	case !info.Mode().IsRegular():
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// resolve replaces the links within a name. It only reads links: whatever it returns
// is opened through the os.Root again, so a link that changes in between gains
// nothing.
func (r logRoot) resolve(root *os.Root, name string) (string, error) {
	todo := strings.Split(name, "/")
	var done []string
	for links := 0; len(todo) > 0; {
		next := todo[0]
		todo = todo[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			if len(done) == 0 {
				return "", errOutsideRoot
			}
			done = done[:len(done)-1]
			continue
		}
		at := path.Join(append(append([]string(nil), done...), next)...)
		target, err := root.Readlink(filepath.FromSlash(at))
		if err != nil {
			// Not a link, or it does not exist: opening reports that.
			done = append(done, next)
			continue
		}
		if links++; links > maxLinks {
			return "", errLinkLoop
		}
		if isAbsolute(target) {
			if target, err = r.relative(target); err != nil {
				return "", err
			}
			done = done[:0]
		}
		todo = append(strings.Split(filepath.ToSlash(target), "/"), todo...)
	}
	if len(done) == 0 {
		return "", errIsDirectory
	}
	return path.Join(done...), nil
}

// isAbsolute includes paths of Windows without a drive, as `\var\log`.
func isAbsolute(p string) bool {
	return filepath.IsAbs(p) || strings.HasPrefix(p, "/") || strings.HasPrefix(p, `\`)
}

// relative expresses the absolute target of a link relative to the root.
func (r logRoot) relative(target string) (string, error) {
	target = strings.TrimPrefix(strings.TrimPrefix(target, `\\?\`), `\??\`)
	if filepath.VolumeName(target) == "" {
		target = filepath.VolumeName(r.dir) + target
	}
	dirs := []string{r.dir}
	if resolved, err := filepath.EvalSymlinks(r.dir); err == nil {
		dirs = append(dirs, resolved)
	}
	for _, dir := range dirs {
		if name, err := filepath.Rel(dir, target); err == nil && filepath.IsLocal(name) {
			return name, nil
		}
	}
	return "", errOutsideRoot
}

// describe is list with what the files themselves say: NTFS updates sizes and times in a directory only when a file is closed, and
// logs stay open for days. What has gone meanwhile is left out. Of what cannot be opened there is what the directory says.
func (r logRoot) describe(dir string) (infos []fs.FileInfo, err error) {
	err = r.within(path.Clean(dir), func(root *os.Root, name string) error {
		entries, err := fs.ReadDir(root.FS(), name)
		for _, e := range entries {
			if info, err := infoOf(e, func() (fs.FileInfo, error) {
				return root.Lstat(filepath.Join(filepath.FromSlash(name), e.Name()))
			}); err == nil {
				infos = append(infos, info)
			}
		}
		return err
	})
	return infos, err
}

// infoOf is what a file says of itself, or what the directory says of it if the file may not be opened: Windows opens a file to
// describe it, which its owner, or a program that has it to itself, can refuse.
func infoOf(e fs.DirEntry, lstat func() (fs.FileInfo, error)) (fs.FileInfo, error) {
	info, err := lstat()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	return e.Info()
}

// list reads one directory below the root. The entries are sorted by name.
func (r logRoot) list(dir string) (entries []fs.DirEntry, err error) {
	err = r.within(path.Clean(dir), func(root *os.Root, name string) (err error) {
		entries, err = fs.ReadDir(root.FS(), name)
		return err
	})
	return entries, err
}
