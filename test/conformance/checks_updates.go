// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// updatesAreFound: the agent as a service, which runs by now, has the Windows Update Agent search, and tells what that found.
// Nothing is installed.
func updatesAreFound(ctx context.Context, h *Host) error {
	var found *api.WindowsUpdates
	if err := eventually(ctx, "the updates are told", func() (bool, error) {
		facts, err := h.facts(ctx)
		if err == nil {
			found = facts.Updates
		}
		return found != nil, err
	}); err != nil {
		return err
	}
	if found.Error != "" {
		return errors.New(found.Error)
	}
	for _, u := range found.Pending {
		if u.ID == "" || u.Revision == 0 || u.Title == "" {
			return fmt.Errorf("an update is not told whole: %+v", u)
		}
	}
	return nil
}

const (
	// updatesTimeout is how long updates may take, their restart included.
	updatesTimeout = 90 * time.Minute
	// updatesInterval is how often it is asked how far they are.
	updatesInterval = 10 * time.Second
)

// updatesAreInstalled: the agent as a service downloads and installs the updates that wait, as an operation has it do, and a search
// after the restart offers none of them again. Afterwards the host has them.
func updatesAreInstalled(ctx context.Context, h *Host) error {
	switch {
	case h.InstallUpdates == "":
		return ErrNotAsked
	case !h.AllowRestart:
		return ErrNotAllowed
	}
	downloaded, err := h.attempt(ctx, api.ActionDownload)
	switch {
	case err != nil:
		return err
	case len(downloaded.Succeeded) == 0:
		return fmt.Errorf("%w: no updates wait", ErrNotThere)
	}
	installed, err := h.attempt(ctx, api.ActionInstall)
	if err != nil {
		return err
	}
	if len(installed.Succeeded) != len(downloaded.Succeeded) {
		err = fmt.Errorf("installed were %q, of %q", installed.Succeeded, downloaded.Succeeded)
	}
	if installed.RebootRequired {
		err = errors.Join(err, h.restart(ctx))
	}
	_, verifyErr := h.attempt(ctx, api.ActionVerify)
	return errors.Join(err, verifyErr)
}

// attempt has the service do something about updates, and waits until it has. Updates that failed are an error.
func (h *Host) attempt(ctx context.Context, action api.UpdateAction) (*api.UpdateAttempt, error) {
	request := api.UpdatesRequest{ID: "conformance", Action: action, Scope: h.InstallUpdates, Retry: true}
	var answer api.UpdatesAnswer
	if err := every(ctx, updatesInterval, "the host has ended: "+string(action), func() (bool, error) {
		answer = api.UpdatesAnswer{}
		if err := h.ask(ctx, api.CommandUpdates, request, &answer); err != nil {
			return false, err // it may be about to be there again
		}
		return answer.Refused != "" || answer.Attempt != nil && !answer.Attempt.EndedAt.IsZero(), nil
	}); err != nil {
		return nil, err
	}
	if answer.Refused != "" {
		return nil, fmt.Errorf("%s: it refuses: %s", action, answer.Refused)
	}
	var failed []string
	for _, f := range answer.Attempt.Failures {
		failed = append(failed, f.Name+": "+f.Error)
	}
	if text := strings.Join(failed, "; "); text != "" || answer.Attempt.Error != "" {
		return nil, fmt.Errorf("%s: %s", action, strings.Trim(answer.Attempt.Error+"; "+text, "; "))
	}
	return answer.Attempt, nil
}
