// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package updates

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

const (
	// searchEvery is between two searches, which cost the host, and the server that it asks, some minutes of work.
	searchEvery = 12 * time.Hour
	// searchSpread is added in part, so that hosts that were started together do not search together.
	searchSpread = 2 * time.Hour
	// searchRetry is between a search that failed and the next one.
	searchRetry = time.Hour
	// searchTimeout bounds a search.
	searchTimeout = 30 * time.Minute
	// lookEvery is between two looks at whether there is something to do.
	lookEvery = 5 * time.Second
)

// Updater searches for updates, downloads and installs them when that is requested, and keeps what it knows in [api.UpdatesPath]. It is used by one goroutine.
type Updater struct {
	System engine.System
	Source Source
	Now    func() time.Time
	// Sleep lets time go by until ctx ends, whose error it then returns. Nil: the clock of the machine.
	Sleep func(ctx context.Context, d time.Duration) error
	// Report gets what went wrong and cannot be kept in the file, each thing once in a row. Nil: it is dropped.
	Report func(error)

	reported string
	// hanging is closed when a call of the source has ended that nobody waits for any more. Nil: there is none.
	hanging chan struct{}
}

// Run works until ctx ends.
func (u *Updater) Run(ctx context.Context) {
	for {
		u.tell(u.look(ctx))
		if err := u.sleep(ctx, lookEvery); err != nil {
			return
		}
	}
}

// look does what is due.
func (u *Updater) look(ctx context.Context) error {
	known, err := Read(u.System)
	if known == nil {
		// None, or one that cannot be read, which is replaced.
		known = &api.WindowsUpdates{}
	}
	boot, bootErr := u.System.Boot(ctx)
	if bootErr != nil {
		return errors.Join(err, fmt.Errorf("reading the identity of the boot: %w", bootErr))
	}
	if known.RunningBootID != boot {
		known.RunningBootID, known.RunningSince = boot, u.Now()
		if keepErr := u.keep(known); keepErr != nil { // it must not begin again with each look
			return errors.Join(err, keepErr)
		}
	}
	attended, attendErr := u.attend(ctx, known, boot)
	if err = errors.Join(err, attendErr); attended || ctx.Err() != nil {
		return err
	}
	if !u.due(known, boot) {
		return err
	}
	return errors.Join(err, u.search(ctx, known, boot))
}

// due says whether it is time for a search. A clock that was set back must not put that off.
func (u *Updater) due(known *api.WindowsUpdates, boot string) bool {
	now := u.Now()
	since := func(t time.Time, d time.Duration) bool { return t.After(now.Add(clockSlack)) || !now.Before(t.Add(d)) }
	switch {
	case !known.FailedAt.IsZero():
		return since(known.FailedAt, searchRetry)
	case known.SearchedAt.IsZero(), known.BootID != boot:
		return true
	case u.completesFor(known) == 0 && slices.ContainsFunc(known.Unproven, func(i api.InstalledUpdate) bool { return i.BootID != boot }):
		return true // what the search after the boot could not tell
	}
	return since(known.SearchedAt, searchEvery+spread(u.System.MachineID(), searchSpread))
}

// spread is a part of a duration, the same one each time for a machine.
func spread(machine string, of time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(machine))
	return time.Duration(int64(h.Sum32()) * int64(of) >> 32)
}

// search searches and keeps what it found, or why it did not.
func (u *Updater) search(ctx context.Context, known *api.WindowsUpdates, boot string) error {
	var offers []Offer
	err := u.bounded(ctx, searchTimeout, func(ctx context.Context) (err error) {
		offers, err = u.Source.Search(ctx)
		return err
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the service ends
	}
	if err != nil {
		known.FailedAt, known.Error = u.Now(), err.Error()
		return u.keep(known)
	}
	known.SearchedAt, known.BootID, known.FailedAt, known.Error = u.Now(), boot, time.Time{}, ""
	known.Pending = pending(offers)
	known.Total, known.Security = len(known.Pending), 0
	for _, update := range known.Pending {
		if update.Security {
			known.Security++
		}
	}
	u.prove(ctx, known, boot)
	u.noteInteractive(known)
	known.Pending = known.Pending[:min(len(known.Pending), api.MaxPendingUpdates)]
	return u.keep(known)
}

// bounded calls the source, and stops waiting for it after a time: Windows ends no call before it is done.
// Until that one returns there is no other, for which [ErrNotBegun] is wrapped. What call sets is valid after success only.
func (u *Updater) bounded(ctx context.Context, timeout time.Duration, call func(context.Context) error) error {
	if u.hanging != nil {
		select {
		case <-u.hanging:
			u.hanging = nil
		default:
			return fmt.Errorf("%w: the Windows Update Agent has not answered an earlier request yet: restart the host, or its service wuauserv", ErrNotBegun)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ended, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(ended)
		failed <- call(ctx)
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		u.hanging = ended
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("the Windows Update Agent did not answer within %s", timeout)
		}
		return ctx.Err()
	}
}

func (u *Updater) sleep(ctx context.Context, d time.Duration) error {
	if u.Sleep != nil {
		return u.Sleep(ctx, d)
	}
	return engine.Sleep(ctx, d)
}

// tell reports what went wrong, unless that was the last that it told.
func (u *Updater) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != u.reported && u.Report != nil {
		u.Report(err)
	}
	u.reported = text
}
