// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/pkg/sftp"
	"golang.org/x/time/rate"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// requestsInFlight is how many writes of 32 KiB a file has under way at most. Together they fill
// the window of 2 MiB that OpenSSH gives a session.
const requestsInFlight = 64

// uncertainBytes is how much of the end of a temporary file may have holes, whoever wrote it: servers may execute
// writes in another order than they arrive, and the ones that were under way when the connection
// broke are some of the last. One more than requestsInFlight is under way at a time.
const uncertainBytes = (requestsInFlight + 1) * 32 << 10

// upload is a transfer to one host.
type upload struct {
	t      *Transfer
	target ssh.Target
	limits []*rate.Limiter
}

// survey creates the directories, and finds what earlier transfers left in them: what can be continued
// is noted, and what belongs to another content is removed.
func (u *upload) survey(ctx context.Context, jobs []*job, states []api.FileState) error {
	byDir := map[string][]*job{}
	for i, j := range jobs {
		// A directory where nothing is missing is not read.
		if s := states[i]; s.SHA256 != j.item.SHA256 {
			dir := path.Dir(sftpPath(j.item.HostPath))
			byDir[dir] = append(byDir[dir], j)
		}
	}
	if len(byDir) == 0 {
		return nil
	}
	client, err := u.t.o.Pool.SFTP(ctx, u.target)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // gives the session back; nothing was left unsaid
	for dir, jobs := range byDir {
		if err := client.MkdirAll(dir); err != nil {
			return fmt.Errorf("creating the directory %s: %w", dir, u.lost(err))
		}
		entries, err := client.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("reading the directory %s: %w", dir, u.lost(err))
		}
		for _, e := range entries {
			for _, j := range jobs {
				u.surveyed(client, j, dir, e)
			}
		}
	}
	return nil
}

// surveyed handles a file in the directory of a job.
func (u *upload) surveyed(client *ssh.SFTP, j *job, dir string, e fs.FileInfo) {
	name := path.Base(sftpPath(j.item.HostPath))
	rest, ok := strings.CutPrefix(e.Name(), name)
	switch {
	case !ok || !temporaryPattern.MatchString(rest):
	case path.Join(dir, e.Name()) == sftpPath(j.temp):
		j.partial = max(0, e.Size()-uncertainBytes)
		j.sent.Store(min(j.partial, j.wire.Size))
	default:
		// It only takes space. If it cannot be removed, somebody is writing it.
		_ = client.Remove(path.Join(dir, e.Name()))
	}
}

// work sends jobs until there are none left, over a session of its own.
func (u *upload) work(ctx context.Context, queue <-chan *job) error {
	w := &worker{upload: u}
	defer w.closeClient()
	for j := range queue {
		if err := w.send(ctx, j); err != nil {
			return &Error{Name: j.item.Name, HostPath: j.item.HostPath, Err: err}
		}
		j.stage.Store(int32(StageDone))
	}
	return nil
}

// worker is one of several that send files to a host.
type worker struct {
	*upload
	client *ssh.SFTP // nil: none yet, or lost
}

func (w *worker) open(ctx context.Context) error {
	if w.client != nil {
		return nil
	}
	client, err := w.t.o.Pool.SFTP(ctx, w.target)
	if err != nil {
		return err
	}
	w.client = client
	return nil
}

func (w *worker) closeClient() {
	if w.client != nil {
		_ = w.client.Close() // gives the session back; errors were seen by whoever wrote
		w.client = nil
	}
}

// send sends a file, resuming it after lost connections.
func (w *worker) send(ctx context.Context, j *job) error {
	start, before := int64(-1), int64(-1)
	progressed := func() bool {
		ok := before >= 0 && start > before
		before = start
		return ok
	}
	restarted := false
	first := true
	try := func() error {
		if !first && w.arrived(ctx, j) {
			return nil
		}
		first = false
		resumedAt, err := w.attempt(ctx, j)
		start = resumedAt
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && transient(err) {
			w.closeClient()
		}
		return err
	}
	for {
		err := w.t.retry(ctx, progressed, try)
		if errors.Is(err, ErrDigest) || errors.Is(err, ErrSourceChanged) || errors.Is(err, ErrWrite) {
			w.removeTemporary(ctx, j)
		}
		// What was resumed may have been damaged before, for example by a loss of power, after which
		// NTFS may have a file's size and not its content. Sent again, it must be right.
		if errors.Is(err, ErrDigest) && start > 0 && !restarted {
			restarted, j.acknowledged = true, 0
			continue
		}
		return err
	}
}

// arrived says whether the host gave the file its final name and the news of that was lost.
func (w *worker) arrived(ctx context.Context, j *job) bool {
	states, err := w.t.o.Remote.Inspect(ctx, w.target, []api.WantedFile{{Path: j.item.HostPath, Size: j.item.Size}})
	return err == nil && len(states) == 1 && states[0].SHA256 == j.item.SHA256
}

// attempt sends what is missing of a file and has the host give it its name. It returns
// where it began.
func (w *worker) attempt(ctx context.Context, j *job) (offset int64, err error) {
	j.stage.Store(int32(StageSending))
	if err := w.open(ctx); err != nil {
		return -1, err
	}
	temp := sftpPath(j.temp)
	exists := true
	switch info, err := w.client.Stat(temp); {
	case errors.Is(err, fs.ErrNotExist):
		exists = false
	case err != nil:
		return -1, fmt.Errorf("inspecting the temporary file: %w", w.lost(err))
	case info.Size() > j.wire.Size: // by something else than a transfer
		if err := w.client.Remove(temp); err != nil {
			return -1, fmt.Errorf("removing a temporary file that is too long: %w", w.lost(err))
		}
		exists = false
	default:
		offset = min(info.Size(), max(0, info.Size()-uncertainBytes, j.acknowledged))
	}
	if !exists || offset < j.wire.Size {
		if err := w.write(ctx, j, temp, offset); err != nil {
			return offset, err
		}
	}
	j.sent.Store(j.wire.Size)
	j.stage.Store(int32(StageVerifying))
	err = w.t.o.Remote.Commit(ctx, w.target, api.CommitRequest{
		Temporary: j.temp, Path: j.item.HostPath, Size: j.item.Size, SHA256: j.item.SHA256, Gzip: j.item.Gzip != nil,
	})
	if err != nil {
		return offset, fmt.Errorf("committing it: %w", err)
	}
	return offset, nil
}

// write writes what is missing of the temporary file.
func (w *worker) write(ctx context.Context, j *job, temp string, offset int64) error {
	src, err := openSource(j, offset)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }() // it was only read
	// Not truncated: the file is the beginning of the same content.
	file, err := w.client.OpenFile(temp, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return w.refused(ctx, j, 0, fmt.Errorf("creating the temporary file: %w", w.lost(err)))
	}
	in := &limited{ctx: ctx, r: src, limits: w.limits}
	requests, end := w.t.requests.share()
	defer end()
	_, err = file.Seek(offset, io.SeekStart)
	if err == nil {
		_, err = file.ReadFromWithConcurrency(in, requests)
		if at, seekErr := file.Seek(0, io.SeekCurrent); seekErr == nil {
			j.acknowledged = at // the end, or where the first write failed
		}
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	switch {
	case src.err != nil:
		return src.err
	case in.err != nil:
		return in.err
	case err != nil:
		return w.refused(ctx, j, offset, fmt.Errorf("writing the temporary file: %w", w.lost(err)))
	case src.read < j.wire.Size:
		return src.changed("it ends after %d bytes", src.read)
	}
	return nil
}

// refused finds out why the host did not write. SFTP has no status for a full disk.
func (w *worker) refused(ctx context.Context, j *job, offset int64, err error) error {
	if _, ok := errors.AsType[*sftp.StatusError](err); !ok {
		return err
	}
	states, inspectErr := w.t.o.Remote.Inspect(ctx, w.target, []api.WantedFile{{Path: j.item.HostPath, Size: j.item.Size}})
	if inspectErr == nil && len(states) == 1 {
		if free := states[0].FreeBytes; free >= 0 && free < j.wire.Size-offset {
			return fmt.Errorf("%w: %s are free, %s more were to be written: %w", ErrDiskFull, mib(free), mib(j.wire.Size-offset), err)
		}
	}
	return fmt.Errorf("%w: %w", ErrWrite, err)
}

// removeAll removes the temporary files of the jobs, to leave a full disk as it was. The next transfer
// finds those that cannot be removed.
func (u *upload) removeAll(ctx context.Context, jobs []*job) {
	client, err := u.t.o.Pool.SFTP(ctx, u.target)
	if err != nil {
		return
	}
	defer func() { _ = client.Close() }() // gives the session back
	for _, j := range jobs {
		_ = client.Remove(sftpPath(j.temp)) // of most there is none
	}
}

// removeTemporary is for what cannot be continued. It may fail for the same reason for which the
// transfer did; then the next one finds the file.
func (w *worker) removeTemporary(ctx context.Context, j *job) {
	if w.open(ctx) == nil {
		_ = w.client.Remove(sftpPath(j.temp))
	}
}

// defaultPort is the one that a target without a port has.
const defaultPort = 22

// lost marks errors of an SFTP session that ended. Answers of the host are left alone.
func (u *upload) lost(err error) error {
	var status *sftp.StatusError
	switch {
	case errors.As(err, &status), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrExist):
		return err
	default:
		address := net.JoinHostPort(u.target.Address, strconv.Itoa(cmp.Or(u.target.Port, defaultPort)))
		return &ssh.Error{Layer: ssh.LayerSession, Reason: ssh.ReasonConnectionLost, Address: address, Err: err}
	}
}
