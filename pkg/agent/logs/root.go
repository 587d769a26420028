// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
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
// opened anew each time: it may not exist yet, or be replaced while a log is
// followed, and the cost is far below that of a poll.
type logRoot struct {
	dir string
}

// open opens a regular file for reading. Writers are not hindered: on Windows,
// files opened through an [os.Root] share reading, writing and deleting.
func (r logRoot) open(name string) (*os.File, fs.FileInfo, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close() //nolint:errcheck // a directory opened for reading

	f, err := root.OpenFile(filepath.FromSlash(name), openFlags, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil, nil, err
		}
		// An os.Root refuses absolute links even when they lead back into it,
		// as those in C:\var\log\containers do.
		target, rerr := r.resolve(root, name)
		if rerr != nil {
			return nil, nil, rerr
		}
		if target == name {
			return nil, nil, err
		}
		if f, err = root.OpenFile(filepath.FromSlash(target), openFlags, 0); err != nil {
			return nil, nil, err
		}
	}
	info, err := f.Stat()
	if err == nil {
		switch {
		case info.IsDir():
			err = errIsDirectory
		case !info.Mode().IsRegular():
			err = errNotRegular
		}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// resolve replaces the links within a name. It looks only: whatever it returns is
// opened through the os.Root again, so that a link that changes in between gains
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
			// Not a link, or not there: opening will tell.
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

// isAbsolute includes what is absolute on Windows but for the drive, `\var\log`.
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
		prefix := strings.TrimRight(filepath.Clean(dir), string(filepath.Separator)) + string(filepath.Separator)
		clean := filepath.Clean(target)
		if len(clean) < len(prefix) {
			continue
		}
		head := clean[:len(prefix)]
		if head == prefix || runtime.GOOS == "windows" && strings.EqualFold(head, prefix) {
			return clean[len(prefix):], nil
		}
	}
	return "", errOutsideRoot
}

// list reads one directory below the root. The entries are sorted by name.
func (r logRoot) list(dir string) ([]fs.DirEntry, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // a directory opened for reading
	entries, err := fs.ReadDir(root.FS(), path.Clean(dir))
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return entries, err
	}
	target, rerr := r.resolve(root, dir)
	if rerr != nil {
		return nil, rerr
	}
	if target == dir {
		return nil, err
	}
	return fs.ReadDir(root.FS(), target)
}
