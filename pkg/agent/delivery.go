// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// ErrDiskFull is wrapped by errors of writing to a volume that has no room.
var ErrDiskFull = errors.New("the disk is full")

// System is a host as the engine changes it, to which files can be sent: those are too large
// for [engine.FileSystem.WriteFile], whose content is in memory. Paths are those of Windows.
type System interface {
	engine.System
	// Create creates a file that gets its name later. [ErrDiskFull] is wrapped where the
	// volume has no room, by Write and Commit of the file too.
	Create(path string) (ReceivedFile, error)
	// Sync returns when the content of a file is on the disk.
	Sync(path string) error
	// ReplaceKeeping replaces a file as [engine.FileSystem.WriteFile] does, and who owns it and who may do what
	// with it stays as it is. One that does not exist is made as files of authorized keys have to be.
	ReplaceKeeping(path string, content []byte) error
}

// ReceivedFile is a file that is being written under a temporary name.
type ReceivedFile interface {
	io.Writer
	// Commit renames the file to its path and replaces what is there, once its content is on the
	// disk. [engine.ErrInUse] is wrapped as in [engine.FileSystem]. After an error the file is
	// removed.
	Commit() error
	// Discard removes the file, unless it was committed.
	Discard() error
}

func filesCommand(ctx context.Context, host Host, stdin io.Reader, stdout io.Writer) error {
	var request api.FilesRequest
	if err := readJSON(stdin, &request); err != nil {
		return err
	}
	answer := api.FilesAnswer{Files: make([]api.FileState, len(request.Files))}
	for i, wanted := range request.Files {
		var err error
		if answer.Files[i], err = inspectFile(ctx, host.System(), wanted); err != nil {
			return err
		}
	}
	return writeJSON(stdout, answer)
}

// inspectFile describes what is at the path of a file.
func inspectFile(ctx context.Context, s System, wanted api.WantedFile) (api.FileState, error) {
	if err := checkReceived(wanted.Path); err != nil {
		return api.FileState{}, err
	}
	state := api.FileState{FreeBytes: -1}
	if name, free, err := s.Volume(wanted.Path); err == nil {
		state.Volume, state.FreeBytes = name, free
	}
	info, err := s.Stat(wanted.Path)
	if err != nil {
		return api.FileState{}, fmt.Errorf("inspecting %s: %w", wanted.Path, err)
	}
	if info.Kind == engine.FileMissing {
		return state, nil
	}
	state.Exists = true
	if info.Kind != engine.FileRegular {
		return state, nil
	}
	state.Size = info.Size
	if info.Size != wanted.Size {
		return state, nil
	}
	if state.SHA256, err = digestOfFile(ctx, s, wanted.Path); err != nil {
		return api.FileState{}, fmt.Errorf("computing the digest of %s: %w", wanted.Path, err)
	}
	return state, nil
}

func digestOfFile(ctx context.Context, s System, path string) (string, error) {
	in, err := s.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	return hexDigest(untilDone{ctx, in})
}

func commitCommand(ctx context.Context, host Host, stdin io.Reader, stdout io.Writer) error {
	var request api.CommitRequest
	if err := readJSON(stdin, &request); err != nil {
		return err
	}
	var answer api.CommitAnswer
	if err := commit(ctx, host.System(), request); err != nil {
		answer.Error = &api.CommitError{Reason: commitReason(err), Message: err.Error()}
	}
	return writeJSON(stdout, answer)
}

// errMismatch is wrapped when the file that was sent differs from the request.
var errMismatch = errors.New("the file arrived damaged")

func commitReason(err error) api.CommitReason {
	switch {
	case errors.Is(err, errMismatch):
		return api.CommitDigestMismatch
	case errors.Is(err, ErrDiskFull):
		return api.CommitDiskFull
	case errors.Is(err, engine.ErrInUse):
		return api.CommitInUse
	}
	return api.CommitFailed
}

// commit moves a file to its path if it has the size and digest of the request.
func commit(ctx context.Context, s System, c api.CommitRequest) error {
	for _, path := range []string{c.Temporary, c.Path} {
		if err := checkReceived(path); err != nil {
			return err
		}
	}
	if !strings.EqualFold(directoryOf(c.Temporary), directoryOf(c.Path)) || strings.EqualFold(c.Temporary, c.Path) {
		return fmt.Errorf("%s and %s are not two files of one directory", c.Temporary, c.Path)
	}
	in, err := s.Open(c.Temporary)
	if errors.Is(err, fs.ErrNotExist) && isCommitted(ctx, s, c) {
		return nil // the answer to an earlier request was lost
	}
	if err != nil {
		return fmt.Errorf("opening the file that was sent: %w", err)
	}
	defer in.Close()
	if c.Gzip {
		return unpack(ctx, s, c, in)
	}
	if err := copyChecked(io.Discard, untilDone{ctx, in}, c); err != nil {
		return err
	}
	// Windows cannot rename an open file.
	if err := in.Close(); err != nil {
		return fmt.Errorf("closing the file that was sent: %w", err)
	}
	if err := s.Sync(c.Temporary); err != nil {
		return fmt.Errorf("writing %s to the disk: %w", c.Temporary, err)
	}
	if err := s.Rename(c.Temporary, c.Path); err != nil {
		return fmt.Errorf("renaming to %s: %w", c.Path, err)
	}
	return nil
}

// isCommitted reports whether the file is at its path already.
func isCommitted(ctx context.Context, s System, c api.CommitRequest) bool {
	state, err := inspectFile(ctx, s, api.WantedFile{Path: c.Path, Size: c.Size})
	return err == nil && state.SHA256 == c.SHA256
}

// unpack writes the content of a compressed file to the path of the request.
func unpack(ctx context.Context, s System, c api.CommitRequest, in io.ReadCloser) (err error) {
	unzip, err := gzip.NewReader(untilDone{ctx, in})
	switch {
	case isCorrupt(err), errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %w", errMismatch, err)
	case err != nil:
		return fmt.Errorf("reading the file that was sent: %w", err)
	}
	out, err := s.Create(c.Path)
	if err != nil {
		return fmt.Errorf("creating the file to unpack to: %w", err)
	}
	if err := copyChecked(out, unzip, c); err != nil {
		return errors.Join(err, out.Discard())
	}
	if err := out.Commit(); err != nil {
		return fmt.Errorf("renaming to %s: %w", c.Path, err)
	}
	_ = in.Close() // it was only read, and Windows removes no file that is open
	if err := s.Remove(c.Temporary); err != nil {
		// A scanner may hold it. The file is at its path, so this is no failure; if it cannot be
		// removed at the next boot either, cleanup removes it.
		_ = s.RemoveAtBoot(c.Temporary)
	}
	return nil
}

// copyChecked copies a content that must have the size and digest of the request. It stops one
// byte after the size, so that no compressed content fills the disk.
func copyChecked(w io.Writer, in io.Reader, c api.CommitRequest) error {
	h := sha256.New()
	out := &failingWriter{w: w}
	n, err := io.Copy(io.MultiWriter(h, out), io.LimitReader(in, c.Size))
	switch {
	case out.err != nil:
		return fmt.Errorf("unpacking: %w", out.err)
	case isCorrupt(err):
		return fmt.Errorf("%w: %w", errMismatch, err)
	case err != nil:
		return fmt.Errorf("reading the file that was sent: %w", err)
	}
	if n == c.Size {
		more, err := io.CopyN(io.Discard, in, 1)
		if isCorrupt(err) {
			return fmt.Errorf("%w: %w", errMismatch, err)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading the file that was sent: %w", err)
		}
		n += more
	}
	switch sum := hex.EncodeToString(h.Sum(nil)); {
	case n > c.Size:
		return fmt.Errorf("%w: it has more than %d bytes", errMismatch, c.Size)
	case n < c.Size:
		return fmt.Errorf("%w: it has %d bytes of %d", errMismatch, n, c.Size)
	case sum != c.SHA256:
		return fmt.Errorf("%w: it has the digest %s, and should have %s", errMismatch, sum, c.SHA256)
	}
	return nil
}

// isCorrupt reports whether err means that a content is not valid gzip, or ends early.
func isCorrupt(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.As(err, &corrupt) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF)
}

// failingWriter remembers the error of its writer, to distinguish it from one of the reader.
type failingWriter struct {
	w   io.Writer
	err error
}

func (f *failingWriter) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if err != nil {
		f.err = err
	}
	return n, err
}

// untilDone reads until its context ends.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

var (
	// receivedName matches the elements of paths of files that are sent. It excludes ".", "..",
	// alternate data streams, wildcards, and names that Windows would change.
	receivedName = regexp.MustCompile(`^[0-9A-Za-z_-][0-9A-Za-z._-]{0,198}[0-9A-Za-z_-]$`)
	// receivedDevice matches those that Windows takes for devices.
	receivedDevice = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)
)

// checkReceived refuses every path that is not below the directory of the agent.
func checkReceived(path string) error {
	const root = api.Root + `\`
	if len(path) <= len(root) || !strings.EqualFold(path[:len(root)], root) {
		return fmt.Errorf("path %q is not below %s", path, root)
	}
	for name := range strings.SplitSeq(path[len(root):], `\`) {
		if !receivedName.MatchString(name) || receivedDevice.MatchString(name) {
			return fmt.Errorf("path %q has the element %q, which no file that is sent has", path, name)
		}
	}
	return nil
}

func directoryOf(path string) string { return path[:strings.LastIndexByte(path, '\\')] }
