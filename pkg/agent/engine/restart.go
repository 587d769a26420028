// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// RestartServices stops the services of the configuration that the host has, starts them again in their order, and waits until they
// are healthy. One that needs a network of others which does not exist stays stopped. Those of a host that was adopted, and got no
// document since, are those that were there then. Nothing else changes. The outcome is Applied, or Failed: then it has started all that
// it could.
func (e *Engine) RestartServices(ctx context.Context) *api.Result {
	return e.change(ctx, "restart-services", &api.Result{}, func(a *application) error { return a.restartServices(ctx) })
}

func (a *application) restartServices(ctx context.Context) error {
	bundle, err := readApplied(a.System)
	if err != nil {
		return err
	}
	if a.Applied == "" {
		return errors.New("the host has not been configured completely, so it is not known which services it should have")
	}
	if bundle == nil {
		services, err := a.adoptedServices()
		if err != nil {
			return err
		}
		bundle = &config.Bundle{Document: config.Document{Services: services}}
	}
	awaited, err := a.missingNetworksSoon(ctx, &bundle.Document)
	if err != nil {
		return err // nothing was stopped yet
	}
	a.bundle, a.repairing, a.seen = bundle, true, &observation{awaited: awaited}
	a.result.Revision, a.result.Outcome = a.Applied, api.OutcomeApplied
	var names []string
	for _, s := range bundle.Document.Services {
		names = append(names, s.Name)
	}
	// What was stopped is started again, whatever comes.
	errs := []error{a.stopFor(ctx, names)}
	for i := range bundle.Document.Services {
		s := &bundle.Document.Services[i]
		if awaited.stops(s) {
			a.emit(api.Event{Item: "Service " + s.Name, State: api.EventNote, Message: "is not started: network " + s.Network + " does not exist, which another program has to make on the host"})
			continue
		}
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

// adoptedServices are the services of a host that was adopted which Windows may start, as far as they are known without a document.
func (a *application) adoptedServices() ([]config.Service, error) {
	var services []config.Service
	for _, r := range a.Services {
		now, err := a.System.Service(r.Name)
		if err != nil {
			return nil, fmt.Errorf("inspect service %s: %w", r.Name, err)
		}
		if now == nil || now.Settings.StartType != config.StartAutomatic && now.Settings.StartType != config.StartManual {
			continue // it was removed or disabled
		}
		// One that was stopped before an interruption has no recovery now.
		services = append(services, config.Service{Name: r.Name, Dependencies: r.Dependencies, Recovery: cmp.Or(r.Recovery, now.Recovery)})
	}
	return services, nil
}
