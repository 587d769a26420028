// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent"
)

// abandonedAfter is how old a file has to be that is not written any more: unpacking takes seconds.
const abandonedAfter = time.Hour

// receivedFile is a file that is written under a temporary name.
type receivedFile struct {
	file   *os.File
	rename func(temporary string) error
	done   bool
}

// receive makes a file beside path, where rename puts it. Its name is its own: whoever lost
// a connection may ask again while the first one is still at work, and neither may write
// into what the other one is about to give its name.
func receive(path string, rename func(temporary string) error) (agent.ReceivedFile, error) {
	if abandoned, err := filepath.Glob(path + ".*" + temporarySuffix); err == nil { // the path has no wildcard
		for _, name := range abandoned {
			if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) > abandonedAfter {
				_ = os.Remove(name) // it only takes space
			}
		}
	}
	name := path + "." + rand.Text()[:8] + temporarySuffix
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // what is sent is no secret
	if err != nil {
		return nil, diskFull(err)
	}
	return &receivedFile{file: out, rename: rename}, nil
}

// Write implements [agent.ReceivedFile].
func (r *receivedFile) Write(b []byte) (int, error) {
	n, err := r.file.Write(b)
	return n, diskFull(err)
}

// Commit implements [agent.ReceivedFile].
func (r *receivedFile) Commit() error {
	err := errors.Join(r.file.Sync(), r.file.Close())
	if err == nil {
		err = r.rename(r.file.Name())
	}
	r.done = err == nil
	if err != nil {
		return errors.Join(diskFull(err), r.remove())
	}
	return nil
}

// Discard implements [agent.ReceivedFile].
func (r *receivedFile) Discard() error {
	if r.done {
		return nil
	}
	// What cannot be closed has failed before.
	_ = r.file.Close()
	return r.remove()
}

func (r *receivedFile) remove() error {
	if err := os.Remove(r.file.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
