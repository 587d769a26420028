// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package recording writes what a user saw in a terminal to files in the
// asciicast v2 format (https://docs.asciinema.org/manual/asciicast/v2/), which players
// such as asciinema play back. What is typed into a terminal is recorded as far as it is shown.
//
// It must not import any other package of this module but volume.
package recording

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/openshift/windows-instance-api/pkg/volume"
)

// The size of a terminal whose size is not known.
const (
	defaultWidth  = 80
	defaultHeight = 24
)

// spaceInterval is after how many bytes it is looked again whether the volume has space.
const spaceInterval = 1 << 20

// perFree is how many times what is free the recordings of a namespace may have. So one that has the volume alone
// gets three quarters of it, and each after it the same part of the rest: nothing is deleted here, and whoever may
// open sessions in one namespace must not keep those of others from being recorded.
const perFree = 3

// leastSize is what a recording counts as at least, in bytes: file systems with a fixed number of files have one for each 16 KiB of a
// volume, unless they are made otherwise (inode_ratio of mke2fs.conf), so that many small ones use it up as well.
const leastSize = 16 << 10

// Directory is where recordings go. It must exist.
type Directory struct {
	Path string
	// MaxSize is how large one recording gets, in bytes; its session cannot be recorded
	// further. 0: as large as it takes.
	MaxSize int64
	// MinFree is how much space recordings leave on the volume, in bytes, for the others who
	// write to it. 0: none.
	MinFree int64

	// free is how much space is free, in tests.
	free func() (int64, error)
}

// Header describes a session.
type Header struct {
	// Start is when the session began.
	Start time.Time
	// Namespace and Name are those of what the session is with. They become part of
	// the name of the file.
	Namespace, Name string
	// User is who opened it, and AuditID that of the request, by which audit logs have it.
	User, AuditID string
	// Command is what was run; empty: a shell.
	Command string
	// Width and Height are those of the terminal. 0: 80 and 24.
	Width, Height uint16
	// TTY says whether there is a terminal. Without one lines end in LF alone, which is
	// turned into CR LF so that players show lines below each other.
	TTY bool
}

// asciicastHeader is the first line of a file.
type asciicastHeader struct {
	Version   int    `json:"version"`
	Width     uint16 `json:"width"`
	Height    uint16 `json:"height"`
	Timestamp int64  `json:"timestamp"`
	Command   string `json:"command,omitempty"`
	Title     string `json:"title"`
	// Players ignore what is not of the format.
	User    string `json:"user,omitempty"`
	AuditID string `json:"auditID,omitempty"`
}

// Recording is a file being written. It is safe for concurrent use.
type Recording struct {
	path      string
	namespace string
	directory Directory
	start     time.Time
	now       func() time.Time
	tty       bool

	mu      sync.Mutex // guards what follows
	file    *os.File
	size    int64  // of the file
	looked  int64  // the size when it was last looked how much space is free
	left    int64  // what was left of the volume when it was last looked how much of it the namespace has
	partial []byte // the beginning of a character whose end has not come yet
	err     error  // the first error; nothing is written after it
	closed  bool
}

// Create begins a recording in a new file. Nobody but the user of this process may read it.
func (d Directory) Create(h Header) (*Recording, error) { return d.create(h, time.Now) }

func (d Directory) create(h Header, now func() time.Time) (*Recording, error) {
	left, err := d.checkSpace()
	if err == nil {
		err = d.checkShare(h.Namespace, left)
	}
	if err != nil {
		return nil, fmt.Errorf("creating a session recording: %w", err)
	}
	name := fmt.Sprintf("%s_%s_%s_%s.cast", h.Start.UTC().Format("20060102T150405.000Z"), fileName(h.Namespace), fileName(h.Name), rand.Text()[:10])
	path := filepath.Join(d.Path, name)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating a session recording: %w", err)
	}
	r := &Recording{path: path, namespace: h.Namespace, directory: d, start: h.Start, now: now, tty: h.TTY, file: file, left: left}
	title := h.Namespace + "/" + h.Name
	if h.Command != "" {
		title += ": " + h.Command
	}
	header := asciicastHeader{Version: 2, Width: h.Width, Height: h.Height, Timestamp: h.Start.Unix(), Command: h.Command, Title: title, User: h.User, AuditID: h.AuditID}
	if header.Width == 0 {
		header.Width = defaultWidth
	}
	if header.Height == 0 {
		header.Height = defaultHeight
	}
	if err := r.line(header); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// checkSpace returns how much recordings may still use of the volume, or an error when that has not the space that is
// to stay free, or not as many files as fit into that.
func (d Directory) checkSpace() (left int64, err error) {
	free, err := d.freeSpace()
	if err != nil {
		return 0, err
	}
	if free < d.MinFree {
		return 0, fmt.Errorf("%s has %d MiB free, or few files, and %d MiB are to stay free: remove or move away old recordings", d.Path, free>>20, d.MinFree>>20)
	}
	return free - d.MinFree, nil
}

func (d Directory) freeSpace() (int64, error) {
	if d.free != nil {
		return d.free()
	}
	free, err := volume.Free(d.Path)
	if err != nil {
		return 0, err
	}
	files, err := volume.FreeFiles(d.Path)
	if err != nil {
		return 0, err
	}
	if files < free/leastSize {
		free = files * leastSize
	}
	return free, nil
}

// checkShare returns an error when the recordings of a namespace leave too little to those of others.
func (d Directory) checkShare(namespace string, left int64) error {
	has, err := d.sizeOf(namespace)
	if err != nil {
		return err
	}
	if has > perFree*left {
		return fmt.Errorf("the recordings of namespace %s in %s have %d MiB, and %d MiB are left, of which those of other namespaces get a part: remove or move away old recordings of it", namespace, d.Path, has>>20, left>>20)
	}
	return nil
}

// sizeOf is how large the recordings of a namespace are together, in bytes, each leastSize at least.
func (d Directory) sizeOf(namespace string) (int64, error) {
	files, err := os.ReadDir(d.Path)
	if err != nil {
		return 0, err
	}
	var size int64
	for _, f := range files {
		if parts := strings.Split(f.Name(), "_"); len(parts) < 2 || parts[1] != fileName(namespace) {
			continue
		}
		switch info, err := f.Info(); {
		case err == nil:
			size += max(info.Size(), leastSize)
		case !errors.Is(err, fs.ErrNotExist): // somebody has just removed it
			return 0, err
		}
	}
	return size, nil
}

// maxNamePart keeps names of files, which have two such parts, below the 255 bytes of file systems. What is
// cut off is in the title.
const maxNamePart = 80

// fileName makes part of a name of a file of what may be anything.
func fileName(s string) string {
	if len(s) > maxNamePart {
		s = s[:maxNamePart]
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-':
			return c
		default:
			return '-'
		}
	}, s)
}

// Path is the file.
func (r *Recording) Path() string { return r.path }

// Output records what is shown. It is on its way to the disk when this returns.
func (r *Recording) Output(p []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := slices.Concat(r.partial, p)
	complete := completeRunes(text)
	r.partial = append([]byte(nil), text[complete:]...)
	if complete == 0 {
		return r.err
	}
	return r.event("o", r.shown(text[:complete]))
}

// Input records what was sent without being shown.
func (r *Recording) Input(p []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.event("i", strings.ToValidUTF8(string(p), string(utf8.RuneError)))
}

// shown is output as a player needs it.
func (r *Recording) shown(p []byte) string {
	s := strings.ToValidUTF8(string(p), string(utf8.RuneError))
	if !r.tty {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
	}
	return s
}

// completeRunes is how much of p is left without a character at its end that is cut
// off.
func completeRunes(p []byte) int {
	for back := 1; back <= min(utf8.UTFMax-1, len(p)); back++ {
		at := len(p) - back
		if utf8.RuneStart(p[at]) {
			if !utf8.FullRune(p[at:]) {
				return at
			}
			break
		}
	}
	return len(p)
}

// Resize records a new size of the terminal.
func (r *Recording) Resize(columns, rows uint16) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.event("r", fmt.Sprintf("%dx%d", columns, rows))
}

// event writes one event; r.mu is held.
func (r *Recording) event(kind, data string) error {
	return r.line([]any{json.Number(fmt.Sprintf("%.6f", r.now().Sub(r.start).Seconds())), kind, data})
}

// line writes one line of JSON; r.mu is held, or nobody else knows r yet.
func (r *Recording) line(v any) error {
	if r.err != nil {
		return r.err
	}
	if r.closed {
		return os.ErrClosed
	}
	if err := r.write(v); err != nil {
		r.err = fmt.Errorf("writing the session recording: %w", err)
	}
	return r.err
}

func (r *Recording) write(v any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	if limit := r.directory.MaxSize; limit > 0 && r.size+int64(line.Len()) > limit {
		return fmt.Errorf("it has reached the %d bytes that one recording may have", limit)
	}
	if r.size-r.looked >= spaceInterval {
		left, err := r.directory.checkSpace()
		if err != nil {
			return err
		}
		// All files are looked at when half of what was left is gone, whoever has it: all sessions of a namespace
		// together never have more than twice perFree of what is left.
		if left <= r.left/2 {
			if err := r.directory.checkShare(r.namespace, left); err != nil {
				return err
			}
			r.left = left
		}
		r.looked = r.size
	}
	n, err := r.file.Write(line.Bytes())
	r.size += int64(n)
	return err
}

// Close writes what is left, makes sure that all of it is on the disk, and closes the
// file. It reports the first error of the recording. Calling it again does nothing.
func (r *Recording) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	if len(r.partial) > 0 {
		_ = r.event("o", r.shown(r.partial)) // kept in r.err
	}
	r.closed = true
	if err := r.file.Sync(); err != nil && r.err == nil {
		r.err = fmt.Errorf("writing the session recording: %w", err)
	}
	if err := r.file.Close(); err != nil && r.err == nil {
		r.err = fmt.Errorf("closing the session recording: %w", err)
	}
	return r.err
}

// Discard removes the recording of a session that did not begin.
func (r *Recording) Discard() error { return errors.Join(r.Close(), os.Remove(r.path)) }
