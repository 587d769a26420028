// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// RestartServices stops the services of the configuration that the host has, starts them again in their order, and waits until they
// are healthy. Nothing else changes. The outcome is Applied, or Failed: then it has started all that it could.
func (e *Engine) RestartServices(ctx context.Context) *api.Result {
	return e.change(ctx, "restart-services", &api.Result{}, func(a *application) error { return a.restartServices(ctx) })
}

func (a *application) restartServices(ctx context.Context) error {
	bundle, err := readApplied(a.System)
	switch {
	case err != nil:
		return err
	case bundle == nil || a.Applied == "":
		return errors.New("the host has not been configured completely, so it is not known which services it should have")
	}
	a.bundle, a.repairing, a.seen = bundle, true, &observation{}
	a.result.Revision, a.result.Outcome = a.Applied, api.OutcomeApplied
	var names []string
	for _, s := range bundle.Document.Services {
		names = append(names, s.Name)
	}
	// What was stopped is started again, whatever comes.
	errs := []error{a.stopFor(ctx, names)}
	for i := range bundle.Document.Services {
		s := &bundle.Document.Services[i]
		a.emit(api.Event{Step: i + 1, Steps: len(names), Item: "Service " + s.Name, State: api.EventStarted})
		if err := a.startAsItIs(ctx, s); err != nil {
			errs = append(errs, err)
			a.emit(api.Event{Step: i + 1, Steps: len(names), Item: "Service " + s.Name, State: api.EventFailed, Message: err.Error()})
			continue
		}
		a.emit(api.Event{Step: i + 1, Steps: len(names), Item: "Service " + s.Name, State: api.EventDone})
		a.result.Changed = append(a.result.Changed, api.Item{Kind: api.KindService, Name: s.Name, Action: api.ActionUpdate, Reason: "was restarted"})
	}
	return errors.Join(errs...)
}
