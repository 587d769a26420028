// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer_test

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
)

// localRemote does what the agent is to do, on the files of a host that are on this machine.
type localRemote struct {
	// local is where a path of the host is on this machine.
	local func(hostPath string) (string, error)
	// free is what Inspect says about free space.
	free atomic.Int64
	// beforeCommit, if it is not nil, may do something to the file that is about to be
	// committed, or fail.
	beforeCommit func(c api.CommitRequest, local string) error
	commits      atomic.Int32
}

func newRemote(local func(string) (string, error)) *localRemote {
	r := &localRemote{local: local}
	r.free.Store(1 << 40)
	return r
}

func (r *localRemote) Inspect(_ context.Context, _ ssh.Target, files []api.WantedFile) ([]api.FileState, error) {
	states := make([]api.FileState, len(files))
	for i, f := range files {
		states[i] = api.FileState{Volume: "C:", FreeBytes: r.free.Load()}
		path, err := r.local(f.Path)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		states[i].Exists, states[i].Size = true, info.Size()
		if info.Size() != f.Size {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		states[i].SHA256 = digest(content)
	}
	return states, nil
}

func (r *localRemote) Commit(_ context.Context, _ ssh.Target, c api.CommitRequest) error {
	r.commits.Add(1)
	temporary, err := r.local(c.Temporary)
	if err != nil {
		return err
	}
	final, err := r.local(c.Path)
	if err != nil {
		return err
	}
	if r.beforeCommit != nil {
		if err := r.beforeCommit(c, temporary); err != nil {
			return err
		}
	}
	if c.Gzip {
		return r.unpack(c, temporary, final)
	}
	file, err := os.Open(temporary)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := check(c, file, io.Discard); err != nil {
		return err
	}
	return os.Rename(temporary, final)
}

func (r *localRemote) unpack(c api.CommitRequest, temporary, final string) error {
	packed, err := os.Open(temporary)
	if err != nil {
		return err
	}
	defer packed.Close()
	unzip, err := gzip.NewReader(packed)
	if err != nil {
		return fmt.Errorf("%w: %w", transfer.ErrDigest, err)
	}
	unpacked := temporary + ".unpacked"
	file, err := os.Create(unpacked)
	if err != nil {
		return err
	}
	if err := errors.Join(check(c, unzip, file), file.Close()); err != nil {
		return errors.Join(err, os.Remove(unpacked))
	}
	return errors.Join(os.Rename(unpacked, final), os.Remove(temporary))
}

func check(c api.CommitRequest, r io.Reader, w io.Writer) error {
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(h, w), r)
	if err != nil {
		return fmt.Errorf("%w: %w", transfer.ErrDigest, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); n != c.Size || got != c.SHA256 {
		return fmt.Errorf("%w: %d bytes, %s", transfer.ErrDigest, n, got)
	}
	return nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
