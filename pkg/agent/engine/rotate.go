// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// LogFiles are the logs of programs that do not rotate them and cannot be run by a program that
// does. They keep their log open, so it cannot be renamed, and append to it: what they write after
// the log was truncated is at its beginning.
type LogFiles interface {
	// RotateLog moves the text of a log to a file that does not exist yet: it copies the text and
	// then truncates the log. When the file has its name, it is on the disk. What the program
	// writes between the end of the copy and the truncation, some microseconds, is lost; a
	// crash in between leaves the text in both files. [ErrNotTruncated] is wrapped when the log
	// still has its text: the file, if it is there, is a copy of it.
	RotateLog(path, target string) error
}

// ErrNotTruncated means that a log was copied and still has its text.
var ErrNotTruncated = errors.New("it was not truncated")

const (
	// rotationTries is how often a log is tried again at the next look: somebody, say a scanner, may
	// have had it open for a moment.
	rotationTries = 3
	// rotationRetry is how long it is left alone then: a copy that is removed again costs as much
	// as one that stays.
	rotationRetry = time.Hour
)

// failedRotation is what is known of a log that could not be rotated. The service forgets it when
// it ends.
type failedRotation struct {
	err   error
	times int // in a row
	retry time.Time
	// copied is the path of a copy of what the log still has. It could not be removed.
	copied string
}

// rotatedStamp is the time in the name of a rotated log, in UTC. Package logs knows the names.
const rotatedStamp = "20060102-150405"

// rotatedLog is a copy of the text of a log.
type rotatedLog struct {
	name string
	at   time.Time
}

// logName splits the path of a log into its directory and the parts of its name between which
// rotated logs have the time.
func logName(path string) (directory, stem, extension string) {
	directory = parent(path)
	stem = path[len(directory)+1:]
	if i := strings.LastIndexByte(stem, '.'); i > 0 {
		stem, extension = stem[:i], stem[i:]
	}
	return directory, stem, extension
}

// rotatedLogs returns those of the names that are rotated logs, the oldest first.
func rotatedLogs(path string, names []string) []rotatedLog {
	_, stem, extension := logName(path)
	var list []rotatedLog
	for _, name := range names {
		if len(name) != len(stem)+1+len(rotatedStamp)+len(extension) {
			continue
		}
		stamp := name[len(stem)+1:][:len(rotatedStamp)]
		if !strings.EqualFold(name, stem+"-"+stamp+extension) {
			continue
		}
		if at, err := time.Parse(rotatedStamp, stamp); err == nil {
			list = append(list, rotatedLog{name: name, at: at})
		}
	}
	slices.SortFunc(list, func(a, b rotatedLog) int { return a.at.Compare(b.at) })
	return list
}

// expiredLogs returns those of the rotated logs, the oldest first, that are too old.
func expiredLogs(r config.LogRotation, rotated []rotatedLog, now time.Time) []rotatedLog {
	if r.MaxAgeSeconds == 0 {
		return nil
	}
	oldest := now.Add(-time.Duration(r.MaxAgeSeconds) * time.Second)
	n, _ := slices.BinarySearchFunc(rotated, oldest, func(l rotatedLog, t time.Time) int { return l.at.Compare(t) })
	return rotated[:n]
}

// nextLog returns the name of the next rotated log. It sorts after all existing ones, whatever
// the clock says: the names have the order of the text.
func nextLog(path string, rotated []rotatedLog, now time.Time) string {
	now = now.UTC().Truncate(time.Second)
	if n := len(rotated); n > 0 && !now.After(rotated[n-1].at) {
		now = rotated[n-1].at.Add(time.Second)
	}
	_, stem, extension := logName(path)
	return stem + "-" + now.Format(rotatedStamp) + extension
}

// rotateLogs rotates the logs of a document that are too large and removes rotated ones that
// are too old. A failure with one log does not stop the others.
func (k *keeper) rotateLogs(d *config.Document) error {
	var errs []error
	for _, r := range d.LogRotation {
		if err := k.rotateLog(r); err != nil {
			errs = append(errs, fmt.Errorf("rotate %s: %w", r.Path, err))
		}
	}
	return errors.Join(errs...)
}

func (k *keeper) rotateLog(r config.LogRotation) error {
	directory, _, _ := logName(r.Path)
	names, err := k.System.Names(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the program has not logged yet
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", directory, err)
	}
	rotated := rotatedLogs(r.Path, names)
	// Removed first: there may be no room for a copy.
	var errs []error
	for _, l := range expiredLogs(r, rotated, k.now()) {
		err := k.System.Remove(directory + `\` + l.name)
		if err != nil && !errors.Is(err, ErrInUse) { // somebody reads it: the next rotation removes it
			errs = append(errs, fmt.Errorf("remove %s: %w", l.name, err))
		}
	}
	info, err := k.System.Stat(r.Path)
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("read its size: %w", err))
	case r.MaxBytes > 0 && info.Size >= r.MaxBytes:
		errs = append(errs, k.moveLog(r.Path, directory+`\`+nextLog(r.Path, rotated, k.now())))
	default:
		delete(k.unrotated, r.Path)
	}
	return errors.Join(errs...)
}

// moveLog moves the text of a log, and leaves no more than one copy behind of a log that keeps
// its text: there is no other one before that is removed.
func (k *keeper) moveLog(path, target string) error {
	f := k.unrotated[path]
	if f.copied != "" && k.System.Remove(f.copied) != nil || k.now().Before(f.retry) {
		return f.err
	}
	err := k.System.RotateLog(path, target)
	if err == nil {
		delete(k.unrotated, path)
		return nil
	}
	f = failedRotation{err: err, times: f.times + 1}
	if f.times >= rotationTries {
		f.retry = k.now().Add(rotationRetry)
	}
	if errors.Is(err, ErrNotTruncated) && k.System.Remove(target) != nil {
		f.copied = target
	}
	k.unrotated[path] = f
	return err
}
