// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package updates

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

const (
	// retryAfter is when an update that failed is tried again, unless somebody asks for it or it has got another revision:
	// what fails today fails tomorrow, too, and each attempt costs the workload of the host.
	retryAfter = 24 * time.Hour
	// maxStarts is how often an attempt is begun: one that ends the service, or the host, would do so again.
	maxStarts = 3
	// downloadTimeout and installTimeout bound an attempt. Cumulative updates take half an hour, on slow disks longer.
	downloadTimeout = 2 * time.Hour
	installTimeout  = 3 * time.Hour
	// installMargin is how much of installTimeout has to be left to begin a call: when that is over, Windows is restarted, also in the middle of one.
	installMargin = time.Hour
	// shutdownTold is within which time our service learns that the host is shut down when that of the Windows Update Agent has stopped: Windows tells
	// services one after the other.
	shutdownTold = 2 * time.Minute
	// clockSlack is how far in the future something may have been that is believed. A clock that ran ahead must put nothing off.
	clockSlack = time.Minute
)

// errInteractive is why an update is not installed that may ask questions.
var errInteractive = errors.New("it may ask questions while it is installed, which nobody answers here: install it at the console of the host")

// attend does what is requested, if that is not done yet. It says whether there was anything.
func (u *Updater) attend(ctx context.Context, known *api.WindowsUpdates, boot string) (bool, error) {
	request, err := readFile[api.UpdatesRequest](u.System, api.UpdatesRequestPath)
	if err != nil || request == nil {
		return false, err
	}
	if err := validate(*request); err != nil {
		return false, fmt.Errorf("%s: %w", api.UpdatesRequestPath, err)
	}
	a := known.Attempt
	if a != nil && a.Request == *request && !a.EndedAt.IsZero() {
		return false, nil
	}
	if a == nil || a.Request != *request {
		next := &api.UpdateAttempt{Request: *request, StartedAt: u.Now()}
		if a != nil && a.Request.ID == request.ID && a.Request.Action == api.ActionInstall && request.Action == api.ActionVerify {
			next.Succeeded = a.Succeeded // the search after a boot may have proven them already
		}
		a = next
	}
	a.Starts++
	known.Attempt = a
	// Kept before anything is done, so that it is not begun for good.
	if err := u.keep(known); err != nil {
		return true, err
	}
	if a.Starts <= maxStarts {
		err = u.run(ctx, known, boot)
	} else {
		err = fmt.Errorf("the service or the host ended %d times in the middle of it", maxStarts)
		for _, p := range wanted(known, *request, u.Now()) {
			if request.Action == api.ActionVerify { // nothing was tried
				break
			}
			if p.Interactive {
				u.failed(known, p, errInteractive) // it was not begun
				continue
			}
			u.failed(known, p, err)
		}
	}
	if ctx.Err() != nil {
		return true, nil //nolint:nilerr // the service ends, and goes on when it is started again
	}
	if request.Action == api.ActionInstall && (a.Starts > 1 || err != nil) {
		// Whoever was interrupted has not learned it. If it cannot be read, a restart does no harm: the host was drained for one.
		pending, pendingErr := u.Source.RestartPending(ctx)
		a.RebootRequired = a.RebootRequired || pending || pendingErr != nil
		err = errors.Join(err, pendingErr)
	}
	if err != nil {
		a.Error = strings.ReplaceAll(err.Error(), "\n", "; ") // those of several calls, in a message of one line
	}
	a.EndedAt = u.Now()
	for _, f := range known.Failures {
		if f.Request == request.ID {
			a.Failures = append(a.Failures, f)
		}
	}
	if request.Action == api.ActionVerify {
		a.Succeeded = proven(known, err)
	}
	return true, u.keep(known)
}

// run makes an attempt. Its error is why that could not be completed; of single updates it keeps the failures.
func (u *Updater) run(ctx context.Context, known *api.WindowsUpdates, boot string) error {
	a := known.Attempt
	if a.Request.Action != api.ActionInstall || a.Starts > 1 { // what was installed before it was interrupted is not offered any more
		if err := u.search(ctx, known, boot); err != nil {
			return err
		}
		if known.Error != "" {
			return errors.New(known.Error)
		}
	}
	switch a.Request.Action {
	case api.ActionDownload:
		return u.download(ctx, known)
	case api.ActionInstall:
		return u.install(ctx, known, boot)
	case api.ActionVerify:
		return u.verify(ctx, known, boot)
	}
	return nil
}

// wanted are the updates that a request is about.
func wanted(known *api.WindowsUpdates, r api.UpdatesRequest, now time.Time) []*api.Update {
	var list []*api.Update
	for i := range known.Pending {
		p := &known.Pending[i]
		if r.Scope == api.UpdatesSecurity && !p.Security || p.Interactive && !r.Retry { // whoever asks is told why it is not installed
			continue
		}
		if mayBeCompleted(known, p) {
			continue
		}
		f := failureOf(known, p.ID)
		if f != nil && f.Revision == p.Revision && (f.Request == r.ID || !r.Retry && f.RetryAt.After(now) && !f.At.After(now.Add(clockSlack))) {
			continue
		}
		list = append(list, p)
	}
	return list
}

func failureOf(known *api.WindowsUpdates, id string) *api.UpdateFailure {
	i := slices.IndexFunc(known.Failures, func(f api.UpdateFailure) bool { return f.ID == id })
	if i < 0 {
		return nil
	}
	return &known.Failures[i]
}

// download gets the files of the updates that are wanted.
func (u *Updater) download(ctx context.Context, known *api.WindowsUpdates) error {
	a := known.Attempt
	list := wanted(known, a.Request, u.Now())
	a.Total, a.Done, a.Succeeded = len(list), 0, nil
	if err := u.room(list); err != nil {
		return err
	}
	for _, p := range list {
		if err := u.keep(known); err != nil {
			return err
		}
		if p.Interactive {
			u.failed(known, p, errInteractive)
			a.Done++
			continue
		}
		left := a.StartedAt.Add(downloadTimeout).Sub(u.Now())
		var err error
		switch {
		case left <= 0:
			return fmt.Errorf("it was not done within %s", downloadTimeout)
		case !p.Downloaded:
			err = u.bounded(ctx, left, func(ctx context.Context) error { return u.Source.Download(ctx, identityOf(p)) })
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case errors.Is(err, ErrNotBegun):
			u.untried(known, p, "it cannot be downloaded", err)
			return err
		case errors.Is(err, ErrNotOffered):
			u.untried(known, p, "it cannot be downloaded", err)
			u.outdated(known)
		case err != nil:
			u.tried(known, p)
			u.failed(known, p, fmt.Errorf("it cannot be downloaded: %w", err))
		default:
			u.tried(known, p)
			p.Downloaded = true
			a.Succeeded = append(a.Succeeded, p.Name())
		}
		a.Done++
	}
	return nil
}

const (
	gib = 1 << 30
	// reserve is what Windows needs beside the files of updates, which it unpacks.
	reserve = 4 * gib
	// most is the most that is counted of the files: of some, Windows tells the sum of all that may be needed on any host.
	most = 6 * gib
)

// room makes sure that the system drive does not fill up: without room the kubelet evicts pods and Windows may not start.
func (u *Updater) room(list []*api.Update) error {
	var files int64
	for _, p := range list {
		if !p.Downloaded && !p.Interactive { // those are not downloaded
			files = min(most, files+min(most, max(0, p.Bytes)))
		}
	}
	if len(list) == 0 {
		return nil
	}
	name, free, err := u.System.Volume(api.Root)
	if err != nil {
		return fmt.Errorf("reading the free space: %w", err)
	}
	if needed := reserve + files; free < needed {
		return fmt.Errorf("volume %s has too little room for updates: %.1f GiB are needed, %.1f GiB are free", name, float64(needed)/gib, float64(free)/gib)
	}
	return nil
}

// install installs the updates that are wanted and were downloaded.
func (u *Updater) install(ctx context.Context, known *api.WindowsUpdates, boot string) error {
	a := known.Attempt
	list := slices.DeleteFunc(wanted(known, a.Request, u.Now()), func(p *api.Update) bool { return !p.Downloaded || p.Interactive })
	a.Total, a.Done, a.AfterRestart, a.Succeeded = len(list), 0, 0, nil
	for n, i := range known.Unproven {
		switch {
		case i.SecondRestart && i.BootID == boot:
			known.Unproven[n].Request = a.Request.ID // it has Windows restarted, and is told when that did not help
		case i.Request == a.Request.ID && !i.SecondRestart: // before an interruption
			a.Succeeded = append(a.Succeeded, i.Name)
		}
	}
	defer func() { known.Unproven = known.Unproven[max(0, len(known.Unproven)-api.MaxPendingUpdates):] }()
	var errs []error
	parts := together(list)
	for n, part := range parts {
		err := u.installTogether(ctx, known, part, boot)
		if err == nil {
			continue
		}
		if errors.Is(err, ErrRestartFirst) {
			rest := slices.Concat(parts[n:]...)
			if len(a.Succeeded) > 0 {
				a.AfterRestart = len(rest) // what is left is offered after the restart for what was installed
				break
			}
			for _, p := range rest {
				u.restartFirst(known, p, boot)
			}
		}
		errs = append(errs, err)
		if _, recorded := errors.AsType[partError](err); !recorded {
			break
		}
	}
	return errors.Join(errs...)
}

// partError is why a call failed of which the updates are kept as failed. Those of other calls are independent of it.
type partError struct{ error }

func (e partError) Unwrap() error { return e.error }

// together are the updates that are installed by one call each, in their order: first those that Windows installs alone.
func together(list []*api.Update) (parts [][]*api.Update) {
	var others []*api.Update
	for _, p := range list {
		if p.Exclusive {
			parts = append(parts, []*api.Update{p})
		} else {
			others = append(others, p)
		}
	}
	if len(others) > 0 {
		parts = append(parts, others)
	}
	return parts
}

// installTogether installs updates by one call.
func (u *Updater) installTogether(ctx context.Context, known *api.WindowsUpdates, list []*api.Update, boot string) error {
	a := known.Attempt
	left := a.StartedAt.Add(installTimeout).Sub(u.Now())
	if left < installMargin {
		return fmt.Errorf("%d of %d updates are left for the next operation: of %s less than %s is left, which may not be enough for Windows", a.Total-a.Done, a.Total, installTimeout, installMargin)
	}
	if err := u.keep(known); err != nil {
		return err
	}
	ids := make([]Identity, len(list))
	for i, p := range list {
		ids[i] = identityOf(p)
	}
	var results []Result
	err := u.bounded(ctx, left, func(ctx context.Context) (err error) {
		results, err = u.Source.Install(ctx, ids)
		return err
	})
	if errors.Is(err, ErrServiceStopped) || err == nil && slices.ContainsFunc(results, func(r Result) bool { return errors.Is(r.Err, ErrServiceStopped) }) {
		_ = u.sleep(ctx, shutdownTold) // whether ctx has ended is seen below
	}
	if errors.Is(err, ErrBusy) && u.restartPending(ctx) { // Windows has one code for both, and is restarted for it
		err = fmt.Errorf("%w: %w", ErrRestartFirst, err)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrRestartFirst):
		a.RebootRequired = true
		return err
	case errors.Is(err, ErrNotBegun):
		for _, p := range list {
			u.untried(known, p, "it cannot be installed", err)
		}
		return err
	case err != nil:
		for _, p := range list {
			u.tried(known, p)
			u.failed(known, p, fmt.Errorf("it cannot be installed: %w", err))
		}
		a.Done += len(list)
		if u.hanging != nil { // until it ends, Windows would not begin with others
			return err
		}
		return partError{err}
	}
	restart := slices.ContainsFunc(results, func(r Result) bool { return r.RebootRequired })
	a.RebootRequired = a.RebootRequired || restart
	for n, p := range list {
		a.Done++
		switch err := results[n].Err; {
		case errors.Is(err, ErrNotOffered):
			u.untried(known, p, "it cannot be installed", err)
			u.outdated(known)
		case err != nil:
			u.tried(known, p)
			u.failed(known, p, fmt.Errorf("it cannot be installed: %w", err))
		default:
			u.tried(known, p)
			a.Succeeded = append(a.Succeeded, p.Name())
			known.Unproven = append(known.Unproven, api.InstalledUpdate{
				ID: p.ID, Revision: p.Revision, Name: p.Name(), Security: p.Security, BootID: boot, Request: a.Request.ID, RebootRequired: restart,
			})
		}
	}
	return nil
}

// outdated has it searched again soon, as what is known is not offered any more.
func (u *Updater) outdated(known *api.WindowsUpdates) { known.BootID = "" }

// prove compares what was installed with what a search has found. Of updates that are completed while Windows restarts it
// may take them back, and then offers them again. What needs no restart may be offered as before, too, and would be installed
// again and again. What it still offers soon after a boot it may be completing. Some need a second restart, for which Windows waits then. A
// verification is told of all that it finds, whoever has installed it.
func (u *Updater) prove(ctx context.Context, known *api.WindowsUpdates, boot string) {
	restartPending := sync.OnceValue(func() bool { return u.restartPending(ctx) })
	verifies := known.Attempt != nil && known.Attempt.EndedAt.IsZero() && known.Attempt.Request.Action == api.ActionVerify
	var unproven []api.InstalledUpdate
	for _, i := range known.Unproven {
		at := slices.IndexFunc(known.Pending, func(p api.Update) bool { return p.ID == i.ID && p.Revision == i.Revision })
		request := i.Request
		if verifies {
			request = known.Attempt.Request.ID
		}
		switch {
		case at < 0:
		case i.BootID != boot && u.completesFor(known) > 0:
			unproven = append(unproven, i)
		case i.BootID == boot && i.RebootRequired: // it may be completed by that
			unproven = append(unproven, i)
		case i.BootID != boot && !i.SecondRestart && restartPending(): // or by one more, and not by any number of them
			i.BootID, i.RebootRequired, i.SecondRestart = boot, true, true
			unproven = append(unproven, i)
		case i.BootID == boot:
			u.failedFor(known, &known.Pending[at], request, api.ActionVerify, errors.New("Windows has installed it, and offers it as before"))
		default:
			u.failedFor(known, &known.Pending[at], request, api.ActionVerify, errors.New("Windows has installed it, and taken it back while it restarted"))
		}
	}
	known.Unproven = unproven
	waits := func(id string, revision int) bool {
		return slices.ContainsFunc(known.Pending, func(p api.Update) bool { return p.ID == id && p.Revision == revision })
	}
	known.Failures = slices.DeleteFunc(known.Failures, func(f api.UpdateFailure) bool { return !waits(f.ID, f.Revision) })
	known.Untried = slices.DeleteFunc(known.Untried, func(n api.UntriedUpdate) bool { return !waits(n.ID, n.Revision) })
}

// restartPending says whether Windows waits for a restart, as far as it says.
func (u *Updater) restartPending(ctx context.Context) bool {
	pending, err := u.Source.RestartPending(ctx)
	return pending && err == nil
}

// proven are those of the updates that a request has installed of which its verification, which ended with err, has found nothing else.
func proven(known *api.WindowsUpdates, err error) []string {
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(known.Attempt.Succeeded, func(name string) bool {
		return slices.ContainsFunc(known.Unproven, func(i api.InstalledUpdate) bool { return i.Name == name }) ||
			slices.ContainsFunc(known.Attempt.Failures, func(f api.UpdateFailure) bool { return f.Name == name })
	})
}

// noteInteractive keeps of interactive updates why they are not installed, so that nobody has to try it.
func (u *Updater) noteInteractive(known *api.WindowsUpdates) {
	for i := range known.Pending {
		p := &known.Pending[i]
		switch f := failureOf(known, p.ID); {
		case p.Interactive && (f == nil || !f.Interactive):
			u.failedFor(known, p, "", "", errInteractive)
		case !p.Interactive && f != nil && f.Interactive: // any more
			known.Failures = slices.DeleteFunc(known.Failures, func(f api.UpdateFailure) bool { return f.ID == p.ID })
		}
	}
}

// failed keeps why an update of the present attempt failed.
func (u *Updater) failed(known *api.WindowsUpdates, p *api.Update, err error) {
	u.failedFor(known, p, known.Attempt.Request.ID, known.Attempt.Request.Action, err)
}

func (u *Updater) failedFor(known *api.WindowsUpdates, p *api.Update, request string, action api.UpdateAction, err error) {
	now := u.Now()
	known.Failures = slices.DeleteFunc(known.Failures, func(f api.UpdateFailure) bool { return f.ID == p.ID })
	known.Failures = slices.Insert(known.Failures, 0, api.UpdateFailure{
		ID: p.ID, Revision: p.Revision, Name: p.Name(), Security: p.Security, At: now, RetryAt: now.Add(retryAfter), Request: request, Action: action,
		Interactive: p.Interactive, Error: err.Error(),
	})
	known.Failures = known.Failures[:min(len(known.Failures), api.MaxUpdateFailures)]
}

func (u *Updater) keep(known *api.WindowsUpdates) error {
	return writeFile(u.System, api.UpdatesPath, known)
}

func identityOf(p *api.Update) Identity { return Identity{p.ID, p.Revision} }
