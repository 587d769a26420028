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

// LogFiles are the logs of programs that keep them open, append to them, and do not rotate
// them. Such a file cannot be renamed, and what is written while it is truncated would be lost.
// So its text is copied, and then the beginning of the file is given back to the file system
// while the program continues to write behind it.
type LogFiles interface {
	// LogSize returns how many bytes of text a log has that were not given back.
	LogSize(path string) (int64, error)
	// CopyLog copies the complete lines of the text of a log to a file that does not exist
	// yet. When the file has its name, it is complete and on the disk. It is an error for
	// them to have less than [MinRotatedLog].
	CopyLog(path, target string) error
	// ReleaseLog gives back the text at the beginning of a log if it equals the copy, and reports
	// whether it did. What follows the text is not touched.
	ReleaseLog(path, copied string) (released bool, err error)
}

// MinRotatedLog is the least text that is rotated, in bytes: of less, file systems give back
// nothing.
const MinRotatedLog = 64 << 10

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
func (e *Engine) rotateLogs(d *config.Document) error {
	var errs []error
	for _, r := range d.LogRotation {
		if err := e.rotateLog(r); err != nil {
			errs = append(errs, fmt.Errorf("rotate %s: %w", r.Path, err))
		}
	}
	return errors.Join(errs...)
}

func (e *Engine) rotateLog(r config.LogRotation) error {
	directory, _, _ := logName(r.Path)
	names, err := e.System.Names(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the program has not logged yet
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", directory, err)
	}
	rotated := rotatedLogs(r.Path, names)
	// Removed first: there may be no room for a copy.
	expired := expiredLogs(r, rotated, e.now())
	var errs []error
	for _, l := range expired {
		err := e.System.Remove(directory + `\` + l.name)
		if err != nil && !errors.Is(err, ErrInUse) { // somebody reads it: the next rotation removes it
			errs = append(errs, fmt.Errorf("remove %s: %w", l.name, err))
		}
	}
	size, err := e.System.LogSize(r.Path)
	if err != nil || r.MaxBytes == 0 || size < max(r.MaxBytes, MinRotatedLog) {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, e.moveLog(r.Path, directory, rotated[len(expired):], rotated))...)
}

// moveLog moves the text of a log to a rotated one.
func (e *Engine) moveLog(path, directory string, left, all []rotatedLog) error {
	if n := len(left); n > 0 {
		// It may have been copied before a crash.
		released, err := e.System.ReleaseLog(path, directory+`\`+left[n-1].name)
		if err != nil || released {
			return err
		}
	}
	name := nextLog(path, all, e.now())
	if err := e.System.CopyLog(path, directory+`\`+name); err != nil {
		return fmt.Errorf("copy it: %w", err)
	}
	released, err := e.System.ReleaseLog(path, directory+`\`+name)
	if err == nil && !released {
		err = errors.New("its program has replaced the text that was copied")
	}
	return err
}
