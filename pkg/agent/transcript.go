// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// Transcripts are rotated by size: the newest is [api.TranscriptName], then apply.log.1 and so on.
const (
	maxTranscript     = 1 << 20 // bytes
	rotatedTranscript = 4
)

// transcriptDirectory is the directory of the agent's own logs.
func transcriptDirectory(host Host) string { return filepath.Join(host.LogRoot(), api.ServiceName) }

// transcript is a log of an apply. The document that is applied creates the directory of the
// logs and removes it: until it exists, lines are kept in memory. A failure to log never stops
// the apply. A nil transcript drops everything.
type transcript struct {
	directory string
	waiting   []byte
	file      *os.File
}

func (t *transcript) write(line []byte) {
	if t == nil {
		return
	}
	t.waiting = append(t.waiting, line...)
	if t.file == nil {
		t.open()
	}
	if t.file == nil {
		return
	}
	if _, err := t.file.Write(t.waiting); err == nil {
		t.waiting = nil
	}
}

// open opens the file if the directory of all logs exists.
func (t *transcript) open() {
	if _, err := os.Stat(filepath.Dir(t.directory)); err != nil {
		return
	}
	if err := os.Mkdir(t.directory, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return
	}
	name := filepath.Join(t.directory, api.TranscriptName)
	if info, err := os.Stat(name); err == nil && info.Size() >= maxTranscript {
		for i := rotatedTranscript; i > 0; i-- {
			from := name
			if i > 1 {
				from += "." + strconv.Itoa(i-1)
			}
			// A missing file is skipped, and one that somebody reads stays where it is.
			_ = os.Rename(from, name+"."+strconv.Itoa(i))
		}
	}
	//nolint:gosec // it has no secrets, and whoever collects logs reads it
	if f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644); err == nil {
		t.file = f
	}
}

func (t *transcript) close() {
	if t.file != nil {
		_ = t.file.Close() // what could not be written is lost, as before
	}
}

// removeTranscripts removes the transcripts, and their directory if nothing else is in it.
func removeTranscripts(directory string) error {
	errs := []error{os.Remove(filepath.Join(directory, api.TranscriptName))}
	for i := range rotatedTranscript {
		errs = append(errs, os.Remove(filepath.Join(directory, api.TranscriptName+"."+strconv.Itoa(i+1))))
	}
	return errors.Join(append(errs, os.Remove(directory))...)
}
