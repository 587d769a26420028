// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Options of a [Transfer]. Zero fields have the defaults that their comments name.
type Options struct {
	// Pool holds the connections. One that is made with [PoolOptions] and used for nothing
	// else makes transfers faster and keeps them out of the way of everything else.
	Pool *ssh.Pool
	// Remote does what needs a program on the hosts.
	Remote Remote
	// FilesPerHost is how many files move to one host at a time. Default 4.
	FilesPerHost int
	// HostBytesPerSecond and TotalBytesPerSecond limit what is sent to each host, and to all
	// together. Zero: no limit.
	HostBytesPerSecond, TotalBytesPerSecond int64
	// Attempts is how often a file is tried when the connection breaks without anything
	// having arrived since the last time. Default 3.
	Attempts int
	// RetryDelay is how long to wait after the first of them; it doubles each time. Default 1s.
	RetryDelay time.Duration
	// ProgressInterval is how often progress is reported. Default 500ms.
	ProgressInterval time.Duration
}

// PoolOptions are the options of a pool for transfers to the hosts that o reaches: two
// sessions share a connection. What is interactive must not wait behind a file, and one connection moves
// no more than TCP's window in a round trip; but each costs about ten round trips to open.
func PoolOptions(o ssh.Options) ssh.Options {
	o.MaxSessionsPerConn = 2
	o.IdleTimeout = 10 * time.Second
	return o
}

// Transfer puts files on hosts. Its methods may be called concurrently.
type Transfer struct {
	o     Options
	total *rate.Limiter
	hosts hosts
	// requests are those of all files that are under way.
	requests requests
}

// New returns a Transfer.
func New(o Options) *Transfer {
	o.FilesPerHost = cmp.Or(o.FilesPerHost, 4)
	o.Attempts = cmp.Or(o.Attempts, 3)
	o.RetryDelay = cmp.Or(o.RetryDelay, time.Second)
	o.ProgressInterval = cmp.Or(o.ProgressInterval, 500*time.Millisecond)
	return &Transfer{
		o: o, total: newLimit(o.TotalBytesPerSecond),
		hosts: hosts{bytesPerSecond: o.HostBytesPerSecond, m: map[string]*host{}},
	}
}

// Put makes sure that the items are on a host. Transfers to the same host wait for each other. When it fails,
// or ctx ends, those files that were complete by then are on the host, and what was
// sent of the others is continued by the next Put.
//
// progress, if it is not nil, is called without files once no other transfer is waited for, then now and then, and once at the end. It is called by the
// goroutine that called Put, so it must not block.
//
// Errors about one file are *[Error]s, of several the first. Every error about the connection wraps an
// *[ssh.Error], and one about a disk that is too small wraps [ErrDiskFull].
func (t *Transfer) Put(ctx context.Context, target ssh.Target, items []Item, progress func(Progress)) error {
	if err := validate(items); err != nil {
		return err
	}
	if len(items) == 0 {
		return nil
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	h, leave, err := t.hosts.enter(ctx, target)
	if err != nil {
		return fmt.Errorf("waiting for another transfer to the host: %w", err)
	}
	defer leave()

	jobs := make([]*job, len(items))
	wanted := make([]api.WantedFile, len(items))
	for i := range items {
		jobs[i] = &job{item: &items[i], wire: items[i].wire(), temp: items[i].temporary()}
		wanted[i] = api.WantedFile{Path: items[i].HostPath, Size: items[i].Size}
	}
	progress(Progress{})
	u := &upload{t: t, target: target, limits: []*rate.Limiter{h.limit, t.total}}
	var states []api.FileState
	err = t.retry(ctx, nil, func() error {
		states, err = t.o.Remote.Inspect(ctx, target, wanted)
		return err
	})
	if err != nil {
		return fmt.Errorf("inspecting the files on the host: %w", err)
	}
	if len(states) != len(items) {
		return fmt.Errorf("inspecting the files on the host: %d states for %d files", len(states), len(items))
	}
	err = t.retry(ctx, nil, func() error { return u.survey(ctx, jobs, states) })
	if err != nil {
		return fmt.Errorf("inspecting the files on the host: %w", err)
	}
	send, err := plan(jobs, states)
	if err != nil {
		return err
	}
	err = t.run(ctx, u, jobs, send, progress)
	if errors.Is(err, ErrDiskFull) {
		u.removeAll(ctx, send)
	}
	return err
}

// run has the workers send everything and reports their progress meanwhile.
func (t *Transfer) run(ctx context.Context, u *upload, all, send []*job, progress func(Progress)) error {
	queue := make(chan *job, len(send))
	for _, j := range send {
		queue <- j
	}
	close(queue)
	group, ctx := errgroup.WithContext(ctx)
	for range min(t.o.FilesPerHost, len(send)) {
		group.Go(func() error { return u.work(ctx, queue) })
	}
	done := make(chan error, 1)
	go func() { done <- group.Wait() }()
	ticker := time.NewTicker(t.o.ProgressInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			progress(snapshot(all))
			return err
		case <-ticker.C:
			progress(snapshot(all))
		}
	}
}

// maxDoublings bounds how long the wait before another try gets.
const maxDoublings = 5

// retry repeats what failed for lack of a connection. progressed, if it is not nil, says
// whether there was progress since its last call: then counting starts again.
func (t *Transfer) retry(ctx context.Context, progressed func() bool, do func() error) error {
	for attempt := 1; ; attempt++ {
		err := do()
		if err == nil || ctx.Err() != nil || !transient(err) {
			return err
		}
		if progressed != nil && progressed() {
			attempt = 1
		}
		if attempt >= t.o.Attempts {
			return err
		}
		timer := time.NewTimer(t.o.RetryDelay << min(attempt-1, maxDoublings))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// permanent are reasons for which trying again would be of no use, or wrong.
var permanent = map[ssh.Reason]bool{
	ssh.ReasonAddressRefused: true, ssh.ReasonHostKeyUnknown: true, ssh.ReasonHostKeyChanged: true,
	ssh.ReasonCredentialsRefused: true, ssh.ReasonNotSSH: true, ssh.ReasonHandshakeFailed: true,
	ssh.ReasonCanceled: true, ssh.ReasonPoolClosed: true,
}

// transient says whether err is about the connection.
func transient(err error) bool {
	e, ok := ssh.AsError(err)
	return ok && !permanent[e.Reason]
}
