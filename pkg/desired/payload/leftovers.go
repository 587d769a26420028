// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// Names of what is temporary in a cache: digits follow.
const (
	unpackedPrefix = "payload-"
	downloadPrefix = ".download-"
)

var (
	unpackedFormat = regexp.MustCompile("^" + regexp.QuoteMeta(unpackedPrefix) + "[0-9]+$")
	downloadFormat = regexp.MustCompile("^" + regexp.QuoteMeta(downloadPrefix) + "[0-9]+$")
)

// lockName is a file in a temporary directory that its process has locked for as long as it runs, however it ends.
const lockName = ".in-use"

// abandonedAfter is for how long nothing was written to a download that nobody goes on with: a server that sends so little is given up before.
const abandonedAfter = time.Hour

// RemoveLeftovers removes what processes have left in a cache, see [Options], that were killed: what they had unpacked, and what they were
// downloading. Nothing that a running process uses is removed, also of another one that shares the directory, nor anything else that is there.
// What a release has left that did not lock it stays. It goes on after an error.
func RemoveLeftovers(cacheDir string) error {
	if cacheDir == "" {
		cacheDir = os.TempDir()
	}
	entries, err := os.ReadDir(cacheDir)
	errs := []error{err}
	for _, entry := range entries {
		path := filepath.Join(cacheDir, entry.Name())
		switch {
		case entry.IsDir() && unpackedFormat.MatchString(entry.Name()):
			errs = append(errs, removeUnused(path))
		case entry.Type().IsRegular() && downloadFormat.MatchString(entry.Name()):
			info, err := entry.Info()
			if err == nil && time.Since(info.ModTime()) > abandonedAfter {
				err = os.Remove(path)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing what was left in %s: %w", cacheDir, err)
	}
	return nil
}

// removeUnused removes a temporary directory unless a process uses it, or may.
func removeUnused(dir string) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil // it is not known whether somebody uses it, or it is not ours
	}
	defer lock.Close()
	if !tryLock(lock) {
		return nil
	}
	return removeUnpacked(dir)
}

// removeUnpacked removes a temporary directory, and what says whether somebody uses it last: whoever ends before leaves no other rest than a
// process that was killed.
func removeUnpacked(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == lockName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// makeUnpackedDir makes a temporary directory that is in use until lock is closed. lock is nil where files cannot be locked.
func makeUnpackedDir(cacheDir string) (dir string, lock *os.File, err error) {
	dir, err = os.MkdirTemp(cacheDir, unpackedPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("making a temporary directory: %w", err)
	}
	// It gets its name when it is locked, so that nobody finds it otherwise.
	lock, err = os.CreateTemp(dir, lockName+"-")
	if err == nil && !tryLock(lock) {
		// It is not removed by others either: they find no lock.
		return dir, nil, errors.Join(lock.Close(), os.Remove(lock.Name()))
	}
	if err == nil {
		err = os.Rename(lock.Name(), filepath.Join(dir, lockName))
	}
	if err != nil {
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
		return "", nil, errors.Join(fmt.Errorf("locking a temporary directory: %w", err), os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// tryLock locks a file for this process, and says whether it could.
func tryLock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
