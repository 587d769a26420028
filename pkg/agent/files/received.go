// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package files

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

// received is a file that is written under a temporary name.
type received struct {
	disk Disk
	file *os.File
	path string
	done bool
}

// Create makes a file beside path, which its Commit renames to path. Its name is its own: whoever lost
// a connection may ask again while the first one is still at work, and neither may write
// into what the other one is about to give its name.
func (d Disk) Create(path string) (agent.ReceivedFile, error) {
	if abandoned, err := filepath.Glob(path + ".*" + TemporarySuffix); err == nil { // the path has no wildcard
		for _, name := range abandoned {
			if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) > abandonedAfter {
				_ = os.Remove(name) // it only takes space
			}
		}
	}
	name := path + "." + rand.Text()[:8] + TemporarySuffix
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // what is sent is no secret
	if err != nil {
		return nil, d.Full(err)
	}
	return &received{disk: d, file: out, path: path}, nil
}

// Write implements [agent.ReceivedFile].
func (r *received) Write(b []byte) (int, error) {
	n, err := r.file.Write(b)
	return n, r.disk.Full(err)
}

// Commit implements [agent.ReceivedFile].
func (r *received) Commit() error {
	err := errors.Join(r.file.Sync(), r.file.Close())
	if err == nil {
		err = r.disk.Rename(r.file.Name(), r.path)
	}
	r.done = err == nil
	if err != nil {
		return errors.Join(r.disk.Full(err), r.remove())
	}
	return nil
}

// Discard implements [agent.ReceivedFile].
func (r *received) Discard() error {
	if r.done {
		return nil
	}
	// What cannot be closed has failed before.
	_ = r.file.Close()
	return r.remove()
}

func (r *received) remove() error {
	if err := os.Remove(r.file.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
