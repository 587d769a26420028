// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package files

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// RotateLog is that of [engine.LogFiles]. The copy is written under another name first,
// always the same, so that a crash leaves no more than one behind.
func (d Disk) RotateLog(path, target string) (err error) {
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(&fs.PathError{Op: "create", Path: target, Err: fs.ErrExist}, err)
	}
	log, err := d.Open(path, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	in := bufio.NewReader(log)
	if err := skipZeros(in); err != nil {
		return fmt.Errorf("read it: %w", err)
	}
	temporary := path + TemporarySuffix
	if err = copyTo(temporary, os.O_CREATE|os.O_TRUNC, in, nil); err == nil {
		err = d.Rename(temporary, target)
	}
	if err != nil {
		return fmt.Errorf("copy it: %w", errors.Join(err, os.Remove(temporary)))
	}
	// What was written meanwhile is little, and nothing that takes time comes between its end
	// and the truncation.
	truncated := false
	err = copyTo(target, 0, in, func() error {
		err := log.Truncate(0)
		truncated = err == nil
		return err
	})
	if err == nil {
		return nil
	}
	if !truncated {
		err = fmt.Errorf("%w: %w", engine.ErrNotTruncated, err)
	}
	return fmt.Errorf("copy the end of it and truncate it: %w", err)
}

// copyTo appends the rest of in to a file, calls copied, and returns when the file is on the disk.
func copyTo(path string, flags int, in io.Reader, copied func() error) (err error) {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|flags, 0o644) //nolint:gosec // as the log that it is of: whoever collects logs reads it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	if copied != nil {
		if err := copied(); err != nil {
			return err
		}
	}
	return out.Sync()
}

// skipZeros reads up to the first byte that is not zero. Earlier releases gave the beginning of a
// log back to the file system, which reads as zeros since then.
func skipZeros(in *bufio.Reader) error {
	for {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		buffered, _ := in.Peek(in.Buffered())
		zeros := len(buffered) - len(bytes.TrimLeft(buffered, "\x00"))
		if _, err := in.Discard(zeros); err != nil || zeros < len(buffered) {
			return err
		}
	}
}
