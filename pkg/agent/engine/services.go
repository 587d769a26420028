// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// stopFor stops services and those that depend on them, the last one first.
func (a *application) stopFor(ctx context.Context, services []string) error {
	if len(services) == 0 {
		return nil
	}
	p := a.planner()
	affected := p.withDependents(services)
	for _, s := range slices.Backward(p.serviceOrder()) {
		if !containsFold(affected, s.Name) || strings.EqualFold(s.Name, a.except) {
			continue
		}
		if err := a.stop(ctx, s.Name); err != nil {
			return err
		}
	}
	return nil
}

// stop stops a service and waits until its processes have ended: a service that has stopped for
// the service control manager may still hold its files and ports. What does not end in time is
// terminated.
func (a *application) stop(ctx context.Context, name string) error { return a.end(ctx, name, true) }

// end is stop, or it only waits for processes that a service which has stopped left behind.
func (a *application) end(ctx context.Context, name string, request bool) error {
	deadline := a.now().Add(a.deadlines.Stop)
	var requested, killed bool
	var refused error
	var known []Process
	for {
		s, err := a.System.Service(name)
		if err != nil {
			return fmt.Errorf("inspect service %s: %w", name, err)
		}
		if s == nil || s.State != ServiceStopped && !request {
			return nil
		}
		list, err := a.System.Processes()
		if err != nil {
			return fmt.Errorf("list the processes of service %s: %w", name, err)
		}
		known = stillRunning(list, known, s, a.alone(name, s.Settings.CommandLine))
		if s.State == ServiceStopped && len(known) == 0 {
			return nil
		}
		if !requested && s.State != ServiceStopPending && s.State != ServiceStopped {
			if !containsFold(a.stopped, name) {
				a.stopped = append(a.stopped, name)
			}
			// Windows must not start a service again that ends with an error now. The settings
			// are restored before it is started.
			if s.Recovery != nil {
				if err := a.System.SetRecovery(name, nil); err != nil {
					return fmt.Errorf("turn off the recovery of service %s: %w", name, err)
				}
			}
			// A service that is still starting refuses; the next try may succeed.
			refused = a.System.StopService(name)
			if errors.Is(refused, ErrNeeded) {
				refused = fmt.Errorf("service %s cannot be stopped: %w; stop these services, or remove the dependency", name, refused)
				return errors.Join(refused, a.System.SetRecovery(name, s.Recovery))
			}
			requested = refused == nil
			if requested {
				a.emit(api.Event{Item: "Service " + name, State: api.EventNote, Message: "is being stopped"})
				continue
			}
		}
		if !a.now().Before(deadline) {
			if killed {
				return stuckError(name, s.State, known, refused)
			}
			a.emit(api.Event{Item: "Service " + name, State: api.EventNote, Message: fmt.Sprintf("did not stop within %s: its process is terminated", a.deadlines.Stop)})
			if err := a.kill(known); err != nil {
				return errors.Join(fmt.Errorf("service %s is %s and cannot be terminated: %w", name, s.State, err), refused)
			}
			killed, deadline = true, a.now().Add(a.deadlines.Kill)
		}
		if err := a.sleep(ctx, a.deadlines.Poll); err != nil {
			return fmt.Errorf("wait for service %s to stop: %w", name, err)
		}
	}
}

// stuckError says what keeps a service from being stopped when its processes were terminated. Refused is why it could not be asked to stop; nil: it was asked.
func stuckError(name string, state ServiceState, left []Process, refused error) error {
	because := "although it has no process any more"
	if len(left) > 0 {
		because = fmt.Sprintf("and its process %d (%s) does not end", left[0].PID, left[0].Path)
	}
	if refused != nil {
		return fmt.Errorf("service %s stays %s %s, and Windows refuses to stop it: %w; restart the host", name, state, because, refused)
	}
	return fmt.Errorf("service %s stays %s %s: restart the host", name, state, because)
}

func (a *application) removeService(ctx context.Context, name string) error {
	if err := a.stopFor(ctx, []string{name}); err != nil {
		return err
	}
	return a.System.DeleteService(name)
}

// runServices configures and starts the services, in their order. Each is followed by the steps
// that wait for it. A repair does what it can: it leaves no service stopped that it stopped, and
// keeps the settings of those that it leaves as they are.
func (a *application) runServices(ctx context.Context) error {
	var errs []error
	if err := a.recordNetworks(); err != nil {
		if !a.repairing {
			return err
		}
		errs = append(errs, err)
	}
	for i := range a.bundle.Document.Services {
		s := &a.bundle.Document.Services[i]
		if strings.EqualFold(s.Name, a.except) || !a.repairing && s.Waiting && missingValue(a.seen.values, s.Arguments...) != "" {
			continue
		}
		if err := a.runService(ctx, s); err != nil {
			if !a.repairing {
				return err
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// recordNetworks makes those ours that the services are about to create. One that the host had before any service of ours was to create
// it is that of others, whose services may use it, too.
func (a *application) recordNetworks() error {
	networks, _ := hnsNames(&a.bundle.Document)
	made := slices.DeleteFunc(networks, func(name string) bool { return containsFold(a.Networks, name) || a.seen.networks[fold(name)] })
	if len(made) == 0 {
		return nil
	}
	a.Networks = slices.Concat(a.Networks, made)
	return a.save()
}

// runService configures and starts a service, and does the steps that wait for it.
func (a *application) runService(ctx context.Context, s *config.Service) error {
	if i := slices.IndexFunc(a.plan.steps, func(step step) bool { return step.service == s }); i >= 0 {
		if err := a.do(ctx, &a.plan.steps[i]); err != nil {
			return errors.Join(err, a.startAfterFailure(ctx, s))
		}
	} else if a.repairing && (missingValue(a.seen.values, s.Arguments...) != "" || a.leftService(s.Name)) {
		if err := a.startAgain(ctx, s); err != nil {
			return err
		}
	} else if err := a.ensureService(ctx, s); err != nil { // it may have been stopped for another step
		return errors.Join(fmt.Errorf("service %s: %w", s.Name, err), a.startAfterFailure(ctx, s))
	}
	return a.doEach(ctx, a.plan.steps, func(step *step) bool {
		return step.phase() == phaseServices && step.Kind != api.KindService && strings.EqualFold(step.afterService, s.Name)
	})
}

// leftService reports whether a service stays as it is, although it differs.
func (a *application) leftService(name string) bool {
	return slices.ContainsFunc(a.plan.left, func(i api.Item) bool { return i.Kind == api.KindService && strings.EqualFold(i.Name, name) })
}

// startAfterFailure starts a service that a repair has stopped and could not configure.
func (a *application) startAfterFailure(ctx context.Context, s *config.Service) error {
	if !a.repairing {
		return nil
	}
	// One that does not get to run has had its time.
	if now, err := a.System.Service(s.Name); err != nil || now == nil || now.State != ServiceStopped {
		return err
	}
	return a.startAgain(ctx, s)
}

// startAgain starts a service, with the settings that it has, if we stopped it.
func (a *application) startAgain(ctx context.Context, s *config.Service) error {
	if !containsFold(a.stopped, s.Name) {
		return nil
	}
	return a.startAsItIs(ctx, s)
}

// startAsItIs starts a service, with the settings that it has, if there is one and no network is missing that it needs.
func (a *application) startAsItIs(ctx context.Context, s *config.Service) error {
	now, err := a.System.Service(s.Name)
	if err == nil && (now == nil || a.seen.awaited.stops(s)) {
		return nil // its step, or what waits, says what is wrong
	}
	if err == nil && !sameRecovery(s.Recovery, now.Recovery) { // it was turned off for the stop
		err = a.System.SetRecovery(s.Name, s.Recovery)
	}
	// Without its recovery it runs nevertheless.
	if err = errors.Join(err, a.start(ctx, s)); err != nil {
		return fmt.Errorf("start service %s again: %w", s.Name, err)
	}
	return nil
}

// ensureService configures a service and starts it, if it does not run and nothing is missing that it needs.
func (a *application) ensureService(ctx context.Context, s *config.Service) error {
	if err := a.configure(ctx, s); err != nil || a.seen.awaited.stops(s) {
		return err
	}
	return a.start(ctx, s)
}

// configure changes the settings of a service to the desired ones.
func (a *application) configure(ctx context.Context, s *config.Service) error {
	values, err := a.waitForValues(ctx, s.Arguments...)
	if err != nil {
		return err
	}
	settings, err := s.Settings(values)
	if err != nil {
		return err
	}
	now, err := a.System.Service(s.Name)
	if err != nil {
		return err
	}
	if now == nil {
		a.recordService(s)
		return a.recordThen(func() error { return a.System.CreateService(s.Name, settings, s.Recovery) })
	}
	switch serviceDifference(s, now, values) {
	case "":
		return nil
	case recoveryDiffers:
		a.recordService(s)
		return a.recordThen(func() error { return a.System.SetRecovery(s.Name, s.Recovery) })
	}
	if err := a.stopFor(ctx, []string{s.Name}); err != nil {
		return err
	}
	a.recordService(s)
	return a.recordThen(func() error { return a.System.ConfigureService(s.Name, settings, s.Recovery) })
}

// recordOf returns the record of a service.
func recordOf(s *config.Service) serviceRecord {
	return serviceRecord{Name: s.Name, Dependencies: s.Dependencies, OnChange: s.OnChange}
}

// recordService makes a service ours, at its position in the order of the document.
func (a *application) recordService(s *config.Service) {
	a.Services = slices.DeleteFunc(slices.Clone(a.Services), func(r serviceRecord) bool { return strings.EqualFold(r.Name, s.Name) })
	a.Services = append(a.Services, recordOf(s))
	// Services that are no longer in the document come first.
	services := a.bundle.Document.Services
	slices.SortStableFunc(a.Services, func(x, y serviceRecord) int {
		return indexOfService(services, x.Name) - indexOfService(services, y.Name)
	})
}

// indexOfService is where a service is in a list, whatever the case of its name. -1: it is not there.
func indexOfService(services []config.Service, name string) int {
	return slices.IndexFunc(services, func(s config.Service) bool { return strings.EqualFold(s.Name, name) })
}

// startTries is how often a service is started whose program does not report to Windows in time. The first start of a
// program of 100 MB on a busy host can take longer than the 30 s that Windows gives it, as a virus scanner reads it first;
// the next one finds it read. A repair, which comes again by itself, tries once: a program that ends at once may look the same for the whole
// time, and whoever wants to configure the host waits for the repair to end.
const startTries = 3

// start starts a service and waits until it runs and is healthy. A running one is not touched.
func (a *application) start(ctx context.Context, s *config.Service) error {
	deadline := a.now().Add(a.deadlines.Start)
	requested, tries := false, 0
	for {
		now, err := a.System.Service(s.Name)
		switch {
		case err != nil:
			return err
		case now == nil:
			return errors.New("it was deleted meanwhile")
		case now.State == ServiceRunning:
			if !requested {
				return nil
			}
			return a.waitHealthy(ctx, s)
		case now.State == ServiceStopped && requested:
			return fmt.Errorf("its program ended with code %d while it was being started", now.ExitCode)
		case now.State == ServiceStopped:
			// A process that was left behind holds its port, and answers for the new one.
			if err := a.end(ctx, s.Name, false); err != nil {
				return err
			}
			tries++
			again, err := a.requestStart(ctx, s.Name, tries)
			if err != nil {
				return err
			}
			if again {
				continue
			}
			requested, deadline = true, a.now().Add(a.deadlines.Start)
			continue
		}
		// Another process is starting or stopping it, or we are.
		if !a.now().Before(deadline) {
			return fmt.Errorf("it is %s after %s", now.State, a.deadlines.Start)
		}
		requested = requested || now.State == ServiceStartPending
		if err := a.sleep(ctx, a.deadlines.Poll); err != nil {
			return fmt.Errorf("wait until it runs: %w", err)
		}
	}
}

// requestStart has Windows start a service. again: its program did not report in time with this try, and may do so with the next one.
func (a *application) requestStart(ctx context.Context, name string, try int) (again bool, err error) {
	most := startTries
	if a.repairing {
		most = 1
	}
	err = a.System.StartService(name)
	switch {
	case err == nil:
		return false, nil
	case !errors.Is(err, ErrNoAnswer):
		return false, fmt.Errorf("start it: %w", err)
	case try >= most:
		return false, fmt.Errorf("start it: %w (tries: %d): see what keeps the host busy, and what the log of the service says", err, try)
	}
	a.emit(api.Event{Item: "Service " + name, State: api.EventNote, Message: fmt.Sprintf("did not report to Windows in time: it is started again (try %d of %d)", try+1, most)})
	if err := a.sleep(ctx, a.deadlines.Poll); err != nil {
		return false, fmt.Errorf("start it again: %w", err)
	}
	return true, nil
}

func (a *application) waitHealthy(ctx context.Context, s *config.Service) error {
	if s.Health == nil {
		return nil
	}
	return a.poll(ctx, time.Duration(s.Health.WithinSeconds)*time.Second, func() (pending, err error) {
		if err := a.System.Probe(ctx, *s.Health); err != nil {
			return fmt.Errorf("it runs, but is not healthy: %w", err), nil
		}
		return nil, nil
	})
}

// poll calls check until nothing is pending. What is pending after the time is the error.
func (a *application) poll(ctx context.Context, within time.Duration, check func() (pending, err error)) error {
	deadline := a.now().Add(within)
	for {
		pending, err := check()
		if err != nil || pending == nil {
			return err
		}
		if !a.now().Before(deadline) {
			return fmt.Errorf("after %s: %w", within, pending)
		}
		if err := a.sleep(ctx, a.deadlines.Poll); err != nil {
			return fmt.Errorf("%w: %w", pending, err)
		}
	}
}

// waitForValues returns the values of the variables once those in the texts have one.
func (a *application) waitForValues(ctx context.Context, texts ...string) (map[string]string, error) {
	missing := missingValue(a.seen.values, texts...)
	if missing == "" {
		return a.seen.values, nil
	}
	err := a.poll(ctx, a.deadlines.Value, func() (pending, err error) {
		if a.seen.values, err = a.values(ctx, &a.bundle.Document, a.inventory); err != nil {
			return nil, err
		}
		if missing = missingValue(a.seen.values, texts...); missing != "" {
			return fmt.Errorf("$(%s): %w", missing, ErrNotYet), nil
		}
		return nil, nil
	})
	return a.seen.values, err
}

// writeLate writes a file whose content depends on a running service.
func (a *application) writeLate(ctx context.Context, s *step) error {
	w := s.file
	var texts []string
	if w.Source.Expand {
		texts = append(texts, *w.Source.Text)
	}
	values, err := a.waitForValues(ctx, texts...)
	if err != nil {
		return err
	}
	w = desiredFile(w.File, a.bundle.Secrets, values)
	now, err := a.file(w.Path)
	if err != nil {
		return err
	}
	if now.digest == w.digest && now.Access.Includes(w.Access) {
		return nil
	}
	s.file = w
	return a.writeFile(ctx, s)
}

// makeEndpoint creates an endpoint once its network exists.
func (a *application) makeEndpoint(ctx context.Context, e config.HNSEndpoint) error {
	err := a.poll(ctx, a.deadlines.Value, func() (pending, err error) {
		exists, err := a.System.HNSNetwork(ctx, e.Network)
		if err != nil || exists {
			return nil, err
		}
		return fmt.Errorf("network %s does not exist", e.Network), nil
	})
	if err != nil {
		return err
	}
	a.Endpoints[e.Name] = e
	return a.recordThen(func() error { return a.System.MakeHNSEndpoint(ctx, e) })
}
