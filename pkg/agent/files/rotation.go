// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/pkg/agent/sparse"
)

// What the programs do whose logs the agent rotates: containerd, windows_exporter and klog
// (csi-proxy) open their file once, with O_APPEND, and keep it open. On Windows it is then
// shared for reading and writing, not for being renamed. A program that writes at an offset
// of its own is served as well, because the size of the file never changes; readers that
// know nothing of it find zeros in front of the text. One that truncates its file by itself
// while the text is being given back is not served: klog does so, without saving anything,
// at the size of its flag log_file_max_size, 1800 MB by default.

// What the engine has rotated can be given back.
const _ = uint(engine.MinRotatedLog - sparse.Unit)

// openLog opens a log and finds its text.
func (d Disk) openLog(path string, write bool) (f *os.File, start, size int64, err error) {
	f, err = d.Open(path, write)
	if err != nil {
		return nil, 0, 0, err
	}
	if start, err = sparse.TextStart(f); err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil {
			return f, start, max(0, info.Size()-start), nil
		}
	}
	return nil, 0, 0, errors.Join(err, f.Close())
}

// LogSize is that of [engine.LogFiles].
func (d Disk) LogSize(path string) (int64, error) {
	f, _, size, err := d.openLog(path, false)
	if err != nil {
		return 0, err
	}
	return size, f.Close()
}

// CopyLog is that of [engine.LogFiles]. The copy is written under another name first,
// always the same, so that a crash leaves no more than one behind.
func (d Disk) CopyLog(path, target string) (err error) {
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(&fs.PathError{Op: "create", Path: target, Err: fs.ErrExist}, err)
	}
	in, start, size, err := d.openLog(path, false)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if size, err = completeLines(in, start, size); err != nil {
		return err
	}
	if size < engine.MinRotatedLog {
		return fmt.Errorf("its complete lines have %d bytes, which is too little", size)
	}
	temporary := path + TemporarySuffix
	out, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.NewSectionReader(in, start, size))
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = d.Rename(temporary, target)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return nil
}

// maxLogLine is how far back the end of a line is looked for.
const maxLogLine = 1 << 20

// completeLines is how much of a text there is up to the end of the last complete line. A
// text without the end of a line is taken as it is.
func completeLines(in io.ReaderAt, start, size int64) (int64, error) {
	tail := make([]byte, min(size, maxLogLine))
	if _, err := in.ReadAt(tail, start+size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if i := bytes.LastIndexByte(tail, '\n'); i >= 0 {
		return size - int64(len(tail)-i-1), nil
	}
	return size, nil
}

// ReleaseLog is that of [engine.LogFiles].
func (d Disk) ReleaseLog(path, copied string) (released bool, err error) {
	rotated, err := os.Open(copied)
	if err != nil {
		return false, err
	}
	defer rotated.Close()
	info, err := rotated.Stat()
	if err != nil {
		return false, err
	}
	log, start, size, err := d.openLog(path, true)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if info.Size() < engine.MinRotatedLog || info.Size() > size {
		return false, nil
	}
	same, err := sameText(rotated, io.NewSectionReader(log, start, info.Size()))
	if err != nil || !same {
		return false, err
	}
	if err := sparse.Release(log, start+info.Size()); err != nil {
		return false, err
	}
	return true, nil
}

// notEnd is an error of [io.ReadFull] that does not just say that there is no more.
func notEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// sameText says whether two readers have the same text.
func sameText(a, b io.Reader) (bool, error) {
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(a, x)
		m, errB := io.ReadFull(b, y)
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		if err := errors.Join(notEnd(errA), notEnd(errB)); err != nil {
			return false, fmt.Errorf("comparing a log with its copy: %w", err)
		}
		if n < len(x) || m < len(y) {
			return true, nil
		}
	}
}
