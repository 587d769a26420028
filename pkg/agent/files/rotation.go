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
	out, err := d.create(temporary)
	if err != nil {
		return fmt.Errorf("create its copy: %w", err)
	}
	// It stays open: somebody, say a scanner, may have the copy by the time it has its name.
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err = io.Copy(out, in); err == nil {
		err = out.Sync()
	}
	if err == nil {
		err = d.Rename(temporary, target)
	}
	if err != nil {
		return fmt.Errorf("copy it: %w", errors.Join(err, os.Remove(temporary)))
	}
	// What was written meanwhile is little, and nothing that takes time comes between its end
	// and the truncation.
	if _, err = io.Copy(out, in); err == nil {
		err = log.Truncate(0)
	}
	if err != nil {
		return fmt.Errorf("copy the end of it and truncate it: %w: %w", engine.ErrNotTruncated, err)
	}
	if err := out.Sync(); err != nil {
		return fmt.Errorf("write the end of its copy to the disk: %w", err)
	}
	return nil
}

// create creates an empty file, as the log that it is a copy of: whoever collects logs reads it. It
// can be renamed while it is open.
func (d Disk) create(path string) (*os.File, error) {
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return nil, err
	}
	return d.Open(path, true)
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
