// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/words"
)

const (
	// noticed is for how long a host may not notice what is asked of it: its service may be in the middle of a search.
	noticed = 40 * time.Minute
	// downloaded, installed and verified are for how long it may take. The host gives up before.
	downloaded = 3 * time.Hour
	installed  = 4 * time.Hour
	verified   = time.Hour
)

// downloadUpdates has the host search for updates of Windows and download them, while its pods run. Without any there
// is nothing to do.
func (e *execution) downloadUpdates(ctx context.Context) (result, error) {
	e.yield()
	a, err := e.attempt(ctx, api.ActionDownload, downloaded, "downloading updates of Windows")
	first, givesWay := errors.AsType[*givesWayError](err)
	switch {
	case givesWay: // what the host has by then stays there
		return result{enough: true, message: "The updates of Windows were not waited for, and are not installed now. First, " + first.why}, nil
	case err != nil:
		return result{}, err
	case a.Error != "":
		return result{}, fmt.Errorf("the updates of Windows cannot be downloaded: %s", a.Error)
	case len(a.Succeeded) > 0:
		return result{message: "Updates that are on the host: " + words.Enumerate(a.Succeeded, maxNamed) + "." + describeFailed(a)}, nil
	case len(a.Failures) > 0:
		return result{}, e.failedUpdates(a)
	}
	return result{enough: true, message: "No updates of Windows wait that are to be installed now, so the host was left as it is."}, nil
}

// installUpdates has the host install what it has downloaded. What fails is no reason to leave the Node cordoned: where something
// was installed, the step VerifyUpdates tells it.
func (e *execution) installUpdates(ctx context.Context) (result, error) {
	if err := e.ensureWanted(ctx); err != nil {
		return result{}, err
	}
	a, err := e.attempt(ctx, api.ActionInstall, installed, "installing updates of Windows")
	switch {
	case err != nil:
		return result{}, err
	case a.Error != "" && len(a.Succeeded)+len(a.Failures) == 0 && !a.RebootRequired: // nothing was done
		return result{}, fmt.Errorf("the updates of Windows cannot be installed: %s", a.Error)
	case len(a.Succeeded) == 0 && len(a.Failures) > 0 && !a.RebootRequired:
		// There is nothing to verify, which may take an hour, and meanwhile the next host of the pool would be drained for them.
		return result{}, e.failedUpdates(a)
	}
	r := result{}
	if len(a.Succeeded) > 0 {
		r.message = "Installed: " + words.Enumerate(a.Succeeded, maxNamed) + "."
	}
	if a.Error != "" {
		r.message += " Not completed: " + a.Error + "."
	}
	r.message = cmp.Or(strings.TrimSpace(r.message+e.describeAfterRestart(a)+describeFailed(a)), "Nothing was installed: what the host has downloaded is not offered any more.")
	if !a.RebootRequired {
		const why = "Nothing that was installed needs a restart."
		r.skips = map[string]string{v1alpha1.StepRestart: why, v1alpha1.StepBoot: why, v1alpha1.StepServices: why, v1alpha1.StepMetadataRoute: why}
	}
	return r, nil
}

// verifyUpdates finds out what the host has after its restart: Windows may have taken back what it could not complete.
func (e *execution) verifyUpdates(ctx context.Context) (result, error) {
	e.yield()
	a, err := e.attempt(ctx, api.ActionVerify, verified, "verifying the updates of Windows")
	switch {
	case err != nil:
		return result{}, err
	case len(a.Failures) > 0:
		return result{}, e.failedUpdates(a)
	case a.Error != "":
		// The host searches again by itself, and its status will tell.
		return result{message: "It could not be verified now: " + a.Error + "."}, nil
	case a.RebootRequired:
		return result{message: fmt.Sprintf("Windows waits for another restart, with which it completes what was installed: kubectl windows reboot %s -n %s", e.key.Name, e.key.Namespace)}, nil
	case len(a.Succeeded) == 0:
		return result{message: "The host has searched for updates of Windows again."}, nil
	}
	return result{message: "Windows does not offer again what was installed."}, nil
}

// attempt has the service of the host do something about updates, and waits until that has ended. The request has the ID of the
// operation, so that it may be made again, also by the next controller: the host goes on by itself meanwhile.
func (e *execution) attempt(ctx context.Context, action api.UpdateAction, timeout time.Duration, doing string) (*api.UpdateAttempt, error) {
	op := e.operation()
	request := api.UpdatesRequest{ID: op.ID, Action: action, Scope: api.UpdateScope(op.Reboot.InstallUpdates), Retry: !op.ByController()}
	began := op.FindStep(e.current).StartedAt.Time
	var last *api.UpdateAttempt
	var refused error       // ends it
	var unnoticed time.Time // since when it answers, and has not begun
	var inMiddle time.Time  // when it was in the middle of it
	err := e.waitUntil(ctx, e.deadline(began, timeout), message.Sentence(doing), func(ctx context.Context) (string, error) {
		if action == api.ActionDownload && op.Cause == v1alpha1.CauseWindowsUpdates {
			if first := e.Policy.GivesWayTo(e.key); first != "" {
				refused = &givesWayError{first}
				return "", nil
			}
		}
		a, err := ask(ctx, e.clock, time.Time{}, askTimeout, func(ctx context.Context) (*api.UpdateAttempt, error) {
			return e.Hosts.Updates(ctx, e.instance, request)
		})
		if failed, ok := errors.AsType[*agentclient.Error](err); ok && failed.Step == agentclient.StepRefused {
			if e.clock.Now().Before(inMiddle.Add(noticed)) { // it goes on after the restart
				return "The service of the host does not run, as while somebody restarts the host", nil
			}
			refused = fmt.Errorf("the host does not install updates: %w", failed.Err)
			return "", nil
		}
		if err == nil && unnoticed.IsZero() {
			unnoticed = e.clock.Now()
		}
		switch {
		case err != nil && action == api.ActionDownload && !diagnose.IsTransient(err):
			refused = e.blame(ctx, "the host does not say how far it is with updates", err)
			return "", nil
		case err != nil: // the host goes on by itself
			return e.diagnose(err), nil
		case a == nil && e.clock.Now().After(unnoticed.Add(noticed)):
			refused = fmt.Errorf("the host does not install updates: its service %s does not notice the request: reconfigure the host, or restart this service", api.ServiceName)
			return "", nil
		case a == nil:
			return "The host has not begun yet", nil
		case !a.EndedAt.IsZero():
			last = a
			return "", nil
		}
		inMiddle = e.clock.Now()
		return describeProgress(a), nil
	})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case refused != nil:
		return nil, refused
	case err != nil:
		return nil, fmt.Errorf("%s did not end within %s: %w", doing, timeout, err)
	}
	return last, nil
}

// describeProgress says how far an attempt is that has not ended.
func describeProgress(a *api.UpdateAttempt) string {
	switch {
	case !a.WaitsUntil.IsZero():
		return "Windows still offers what was installed, and may be completing it; the host searches again until " + a.WaitsUntil.UTC().Format(time.RFC3339)
	case a.Total > 0:
		return fmt.Sprintf("%d of %d updates are done", a.Done, a.Total)
	}
	return "The host searches for updates"
}

// givesWayError ends the download of updates of Windows for something that is to be done to the host first.
type givesWayError struct{ why string }

func (e *givesWayError) Error() string { return e.why }

// failedUpdates is the error of updates that could not be installed.
func (e *execution) failedUpdates(a *api.UpdateAttempt) error {
	if !slices.ContainsFunc(a.Failures, func(f api.UpdateFailure) bool { return !f.Interactive }) {
		return fmt.Errorf("updates of Windows could not be installed: %s", listFailed(a))
	}
	which := "They"
	if slices.ContainsFunc(a.Failures, func(f api.UpdateFailure) bool { return f.Interactive }) {
		which = "Those that ask no questions"
	}
	return fmt.Errorf("updates of Windows could not be installed: %s. %s are tried again a day later, or when somebody asks (kubectl windows reboot %s -n %s --install-updates=%s)",
		listFailed(a), which, e.key.Name, e.key.Namespace, a.Request.Scope)
}

// describeAfterRestart says how many updates Windows installs only after the restart, and who has them installed then.
func (e *execution) describeAfterRestart(a *api.UpdateAttempt) string {
	if a.AfterRestart == 0 {
		return ""
	}
	text := " " + words.Count(a.AfterRestart, "update") + " can be installed only after the restart."
	command := fmt.Sprintf("kubectl windows reboot %s -n %s --install-updates=%s", e.key.Name, e.key.Namespace, a.Request.Scope)
	if e.operation().Cause == v1alpha1.CauseWindowsUpdates {
		return text + " The pool installs " + words.Form(a.AfterRestart, "it", "them") + " an hour later at the earliest, or when somebody asks (" + command + ")."
	}
	return text + " Install " + words.Form(a.AfterRestart, "it", "them") + " then (" + command + ")."
}

func describeFailed(a *api.UpdateAttempt) string {
	if len(a.Failures) == 0 {
		return ""
	}
	return " Failed: " + listFailed(a) + "."
}

func listFailed(a *api.UpdateAttempt) string {
	list := make([]string, 0, maxNamed)
	for _, f := range a.Failures[:min(len(a.Failures), maxNamed)] {
		list = append(list, f.Name+": "+f.Error)
	}
	return strings.Join(list, "; ")
}
