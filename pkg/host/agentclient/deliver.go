// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
)

// Deliver sends files of the payload to where the host needs them, as its plan says. Each
// one is read and its digest computed before anything is sent to the host, and again while it
// is sent, and on the host before it gets its name. A file with a URL is downloaded by this
// process, whose payload says from where, and sent like the others.
//
// It can be repeated: what is on the host already is not sent again, and what was cut off
// continues where it was. progress, if it is not nil, is called now and then, and must not block.
//
// Errors are [PayloadError]s, and those of [transfer.Transfer.Put]: [transfer.Error]s, and
// what wraps an [ssh.Error], a [host.CredentialsError] or an [Error].
//
// [ssh.Error]: https://pkg.go.dev/github.com/openshift/windows-instance-api/pkg/host/ssh#Error
// [transfer.Error]: https://pkg.go.dev/github.com/openshift/windows-instance-api/pkg/host/transfer#Error
// [transfer.Transfer.Put]: https://pkg.go.dev/github.com/openshift/windows-instance-api/pkg/host/transfer#Transfer.Put
func (a *Client) Deliver(ctx context.Context, instance *v1alpha1.WindowsInstance, files []api.PayloadFile, progress func(transfer.Progress)) error {
	if len(files) == 0 {
		return nil
	}
	items, err := a.items(ctx, files)
	if err != nil {
		return err
	}
	to, err := a.login(ctx, instance)
	if err != nil {
		return err
	}
	// The agent checks and unpacks what is sent.
	if _, err := a.ensureAgent(ctx, to); err != nil {
		return err
	}
	watchedContext, watch := newWatch(ctx, a.patience.silence, 0)
	defer watch.end()
	watch.pause() // the host is not silent while another transfer to it is waited for
	var last transfer.Progress
	err = a.transfer.Put(watchedContext, to.Target, items, func(p transfer.Progress) {
		if len(p.Files) == 0 { // its turn has come
			watch.heard()
			return
		}
		if p.Sent != last.Sent || !slices.Equal(p.Files, last.Files) {
			watch.heard()
		}
		last = p
		if progress != nil {
			progress(p)
		}
	})
	if err != nil {
		return watch.explain(err)
	}
	return nil
}

// items are the files as they are sent, with their paths on Windows. A file that has two names is
// sent once.
func (a *Client) items(ctx context.Context, files []api.PayloadFile) ([]transfer.Item, error) {
	var items []transfer.Item
	sent := map[string]bool{}
	for _, f := range files {
		item, err := a.item(ctx, f)
		if err != nil {
			return nil, &PayloadError{Name: f.Name, Err: err}
		}
		if !sent[item.SHA256] {
			sent[item.SHA256] = true
			items = append(items, item)
		}
	}
	return items, nil
}

// digestPrefix begins the digests of a document.
const digestPrefix = "sha256:"

func (a *Client) item(ctx context.Context, f api.PayloadFile) (transfer.Item, error) {
	if a.options.Payload == nil {
		return transfer.Item{}, errors.New("and this process has no payload")
	}
	from, have := a.options.Payload.Find(f.Name, strings.TrimPrefix(f.Digest, digestPrefix))
	if have == nil {
		return transfer.Item{}, errors.New("which the payload of this process does not have")
	}
	content := have.Effective()
	if digestPrefix+content.SHA256 != f.Digest {
		return transfer.Item{}, fmt.Errorf("with the digest %s, and the payload of this process has it with the digest %s", f.Digest, digestPrefix+content.SHA256)
	}
	if f.Path != api.PayloadPath(f.Digest) {
		return transfer.Item{}, fmt.Errorf("and wants it at %q, where no file of the payload goes", f.Path)
	}
	item := transfer.Item{
		Name: f.Name, HostPath: f.Path, SHA256: content.SHA256, Size: content.Size,
		Open: func() (io.ReadSeekCloser, error) { return from.Open(ctx, f.Name) },
	}
	if compressed := have.Compressed(); compressed != nil {
		item.Gzip = &transfer.Gzip{
			SHA256: compressed.SHA256, Size: compressed.Size,
			Open: func() (io.ReadSeekCloser, error) { return from.OpenGzip(f.Name) },
		}
	}
	if err := a.verify(ctx, from, have); err != nil {
		return transfer.Item{}, fmt.Errorf("which cannot be read from the payload of this process: %w", err)
	}
	return item, nil
}

// verify reads what is about to be sent, once in the life of this process.
func (a *Client) verify(ctx context.Context, from *payload.Payload, f *payload.File) error {
	digest := f.Effective().SHA256
	a.mu.Lock()
	known := a.verified[digest]
	a.mu.Unlock()
	if known {
		return nil
	}
	if err := from.VerifyFile(ctx, f.Name); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.verified[digest] = true
	return nil
}

// remote does with the agent what a transfer needs done on a host.
type remote struct{ a *Client }

var _ transfer.Remote = remote{}

const (
	// filesAtOnce is how many files are in one request to the agent: it reads no more
	// than 64 KiB of a request.
	filesAtOnce = 100
	// hostReads is how many bytes per second a host reads, unpacks and writes at least. A
	// slow disk that a scanner shares does ten times as much.
	hostReads = 2 << 20
)

// reading is how long a host may take for work on so many bytes.
func reading(bytes int64) time.Duration {
	return queryTimeout + time.Duration(bytes/hostReads)*time.Second
}

// Inspect implements [transfer.Remote].
func (r remote) Inspect(ctx context.Context, target ssh.Target, files []api.WantedFile) ([]api.FileState, error) {
	states := make([]api.FileState, 0, len(files))
	for some := range slices.Chunk(files, filesAtOnce) {
		var size int64
		for _, f := range some {
			size += f.Size
		}
		var answer api.FilesAnswer
		q := query{command: api.CommandFiles, request: api.FilesRequest{Files: some}, timeout: reading(size)}
		if _, err := r.a.queryTarget(ctx, login{Target: target}, q, &answer); err != nil {
			return nil, err
		}
		if len(answer.Files) != len(some) {
			return nil, &Error{Step: StepRun, Err: fmt.Errorf("the request has %d files, and the answer %d", len(some), len(answer.Files))}
		}
		states = append(states, answer.Files...)
	}
	return states, nil
}

// Commit implements [transfer.Remote].
func (r remote) Commit(ctx context.Context, target ssh.Target, request api.CommitRequest) error {
	var answer api.CommitAnswer
	q := query{command: api.CommandCommit, request: request, timeout: reading(request.Size)}
	if _, err := r.a.queryTarget(ctx, login{Target: target}, q, &answer); err != nil {
		return err
	}
	if answer.Error == nil {
		return nil
	}
	switch answer.Error.Reason {
	case api.CommitDigestMismatch:
		return fmt.Errorf("%w: %s", transfer.ErrDigest, answer.Error.Message)
	case api.CommitDiskFull:
		return fmt.Errorf("%w: %s", transfer.ErrDiskFull, answer.Error.Message)
	case api.CommitInUse:
		return fmt.Errorf("%w: %s", transfer.ErrInUse, answer.Error.Message)
	}
	return &Error{Step: StepRun, Err: errors.New(answer.Error.Message)}
}
