// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

const (
	// patience is how long the agent as a service may take: it looks once a minute, and Wine may be slow.
	patience = 4 * time.Minute
	// recoveryPatience is far more than the delays of services in milliseconds, and far less
	// than they would be in seconds.
	recoveryPatience = time.Minute
)

// whileApplying configures the host with one more service, calls during in the middle of
// that, and then lets the service start.
func (h *Host) whileApplying(ctx context.Context, during func() error) (b config.Bundle, result *api.Result, err error) {
	b = h.changed(func(d *config.Document) {
		setFile(d, h.program(slowPath, h.SlowService, restarts(serviceSlow)))
		d.Services = append(d.Services, service(serviceSlow, slowPath, []string{holdPath}, nil))
	})
	if err := h.upload(ctx, holdPath, nil); err != nil {
		return b, nil, err
	}
	held := errors.New("there was no progress")
	result, err = h.apply(ctx, b, func(e api.Event) {
		if e.State != api.EventStarted || !strings.HasSuffix(e.Item, serviceSlow) {
			return
		}
		within, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		held = eventually(within, "the service is starting", func() (bool, error) {
			out, err := h.run(within, "sc.exe query "+serviceSlow, nil)
			return strings.Contains(out, "START_PENDING"), err
		})
		if held == nil {
			held = during()
		}
		held = errors.Join(held, h.remove(ctx, holdPath))
	})
	return b, result, errors.Join(held, err)
}

// oneAtATime: while one applies, another one is told so and does nothing.
func oneAtATime(ctx context.Context, h *Host) error {
	before := h.bundle
	request, err := (&api.ApplyRequest{Allow: config.ImpactReboot, Bundle: before}).Encode()
	if err != nil {
		return err
	}
	_, result, err := h.whileApplying(ctx, func() error {
		result, err := h.change(ctx, api.CommandApply, request, nil)
		if result == nil || result.Reason != api.ReasonLocked {
			return fmt.Errorf("the other one got %+v: %w", result, orElse(err, errors.New("it was not refused")))
		}
		return nil
	})
	if err == nil && result.Outcome != api.OutcomeApplied {
		err = fmt.Errorf("the first one got outcome %s", result.Outcome)
	}
	_, back := h.apply(ctx, before, nil)
	return errors.Join(err, back)
}

// errKilled is what whileApplying must not take for a failure.
var errKilled = errors.New("killed")

// killApply: an apply that is killed is known as such, and the next one completes it.
func killApply(ctx context.Context, h *Host) error {
	before := h.bundle
	b, result, err := h.whileApplying(ctx, func() error {
		if _, err := h.run(ctx, "taskkill.exe /F /IM "+path.Base(slashes(h.agent)), nil); err != nil {
			return err
		}
		return errKilled
	})
	if !errors.Is(err, errKilled) || result != nil {
		return fmt.Errorf("it was not killed, and got %+v: %w", result, err)
	}
	facts, err := h.facts(ctx)
	if err != nil {
		return err
	}
	if facts.Configuration.ApplyingRevision == "" {
		return fmt.Errorf("the host does not know that it was not done: %+v", facts.Configuration)
	}
	if result, err = h.apply(ctx, b, nil); err != nil {
		return err
	}
	// What was done before is not done again.
	if len(result.Changed) > 1 {
		err = fmt.Errorf("the next one ended with %s:%s", result.Outcome, describe(result.Changed))
	}
	if facts, factsErr := h.facts(ctx); factsErr != nil || facts.Configuration.ApplyingRevision != "" || facts.Configuration.AppliedRevision != result.Revision {
		err = errors.Join(err, fmt.Errorf("the host does not know that it was done: %w", orElse(factsErr, errors.New("it has another revision"))))
	}
	err = errors.Join(err, h.asDesired(ctx), h.serviceRuns(ctx, serviceSlow))
	_, back := h.apply(ctx, before, nil)
	return errors.Join(err, back, h.serviceRuns(ctx, serviceBase), h.serviceRuns(ctx, serviceAbove))
}

// othersShutDown: while others have a shutdown scheduled, a restart is refused, and it is said why.
func othersShutDown(ctx context.Context, h *Host) (err error) {
	if !h.AllowRestart {
		return ErrNotAllowed
	}
	const schedule = "shutdown.exe /r /t 3600 /c conformance"
	if _, err := h.run(ctx, schedule, nil); err != nil {
		return err
	}
	defer func() {
		_, abortErr := h.run(ctx, "shutdown.exe /a", nil)
		err = errors.Join(err, abortErr)
	}()
	if _, err := h.run(ctx, schedule, nil); err == nil {
		return errors.New("a shutdown that is scheduled is forgotten")
	}
	var boot api.BootFacts
	if err := h.ask(ctx, api.CommandBoot, nil, &boot); err != nil {
		return err
	}
	var answer api.RestartAnswer
	if err := h.ask(ctx, api.CommandRestart, api.RestartRequest{BootID: boot.ID, Reason: "conformance"}, &answer); err != nil {
		return err
	}
	if !strings.Contains(answer.Refused, "another shutdown of the host is scheduled") {
		return fmt.Errorf("the host agrees, or refuses for another reason: %q", answer.Refused)
	}
	return nil
}

// restart: what needs a restart of the host waits for it, and then is completed; every
// service starts by itself and sees the variable.
func restart(ctx context.Context, h *Host) error {
	if !h.AllowRestart {
		return ErrNotAllowed
	}
	b := h.changed(func(d *config.Document) {
		d.Environment[0] = config.EnvironmentVariable{Name: variable, Value: "restarted", OnChange: config.OnChange{Impact: config.ImpactReboot}}
	})
	result, err := h.apply(ctx, b, nil)
	if err != nil {
		return err
	}
	if result.Outcome != api.OutcomeRebootRequired {
		return fmt.Errorf("got outcome %s", result.Outcome)
	}
	if err := h.restart(ctx); err != nil {
		return err
	}
	if result, err = h.apply(ctx, b, nil); err != nil {
		return err
	}
	if result.Outcome == api.OutcomeRebootRequired {
		return fmt.Errorf("one restart is not enough: %s", strings.Join(result.Reboot, ", "))
	}
	content, _, err := h.content(ctx, startedBase)
	if err == nil && !strings.HasSuffix(content, "\nrestarted\n") {
		err = fmt.Errorf("the service was started with %q", content)
	}
	return errors.Join(err, h.asDesired(ctx), h.serviceRuns(ctx, serviceBase), h.serviceRuns(ctx, serviceAbove))
}

// driftIsRepaired: the agent as a service puts right what others change.
func driftIsRepaired(ctx context.Context, h *Host) error {
	b := h.changed(func(d *config.Document) {
		d.Services = append(d.Services, service(api.ServiceName, h.agent, []string{"run"}, nil))
	})
	if _, err := h.apply(ctx, b, nil); err != nil {
		return err
	}
	// It looks when it starts, and must not find one change without the other.
	if err := h.stop(ctx, api.ServiceName); err != nil {
		return err
	}
	if err := errors.Join(h.stop(ctx, serviceAbove), h.upload(ctx, theirsPath, []byte("changed")), h.startAgent(ctx)); err != nil {
		return err
	}
	var drift *api.Drift
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := eventually(within, "the drift is told", func() (bool, error) {
		facts, err := h.facts(within)
		if err == nil {
			drift = facts.Configuration.Drift
		}
		return drift != nil, err
	}); err != nil {
		return err
	}
	if len(drift.Repaired) != 2 || len(drift.Left) > 0 || drift.Error != "" {
		text, err := json.Marshal(drift)
		return fmt.Errorf("the drift is %s: %w", text, orElse(err, errors.New("want two things repaired")))
	}
	return errors.Join(h.expect(ctx, theirsPath, "ours"), h.serviceRuns(ctx, serviceAbove), h.asDesired(ctx))
}

// look has the agent as a service look at the host now: it does so when it starts.
func (h *Host) look(ctx context.Context) error {
	if err := h.stop(ctx, api.ServiceName); err != nil {
		return err
	}
	return h.startAgent(ctx)
}

// startAgent starts the agent as a service, which was stopped.
func (h *Host) startAgent(ctx context.Context) error {
	// Wine says that it has stopped while its process ends, and does not start it until then.
	return eventually(ctx, "the service starts", func() (bool, error) {
		_, err := h.run(ctx, "net.exe start "+api.ServiceName, nil)
		return err == nil, err
	})
}

// stop stops a service. Wine's net.exe only asks for it, and does not wait.
func (h *Host) stop(ctx context.Context, name string) error {
	if _, err := h.run(ctx, "net.exe stop "+name, nil); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return eventually(within, "service "+name+" has stopped", func() (bool, error) {
		out, err := h.run(within, "sc.exe query "+name, nil)
		return strings.Contains(out, "STOPPED"), err
	})
}

// driftIsLogged: administrators find in the event log what was put right.
func driftIsLogged(ctx context.Context, h *Host) error {
	lines, err := h.logs(ctx, api.LogRequest{Queries: []string{"eventlog/Application"}, SinceSeconds: new(int64(600)), Pattern: `service\.conf|theirs\.conf`})
	if err == nil && len(lines) == 0 {
		err = errors.New("no event names the file")
	}
	return err
}

// logIsRotated: all of the log of a service that runs is in a file of its own, and what the
// service writes then is at the beginning of the log.
func logIsRotated(ctx context.Context, h *Host) error {
	log, _, err := h.content(ctx, logAbove)
	if err != nil {
		return err
	}
	if _, err := h.apply(ctx, h.changed(func(d *config.Document) {
		d.LogRotation = []config.LogRotation{{Path: logAbove, MaxBytes: int64(len(log))}}
	}), nil); err != nil {
		return err
	}
	if err := h.look(ctx); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := eventually(within, "the log is rotated", func() (bool, error) {
		rest, _, err := h.content(within, logAbove)
		return rest == "", err
	}); err != nil {
		return err
	}
	names, err := h.names(ctx, logDirectory)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "above-") || !strings.HasSuffix(name, ".log") })
	if len(names) != 1 {
		return fmt.Errorf("the rotated logs are %q, want one", names)
	}
	if err := h.expect(ctx, logDirectory+`\`+names[0], log); err != nil {
		return err
	}
	// The agent, which looks once a minute, would start what is stopped here again. It goes with what is cleaned up.
	if err := errors.Join(h.stop(ctx, api.ServiceName), h.stop(ctx, serviceAbove)); err != nil {
		return err
	}
	rest, _, err := h.content(ctx, logAbove)
	if err == nil && !strings.HasPrefix(rest, "stopped\n") {
		err = fmt.Errorf("after the rotation the log begins with %q", rest)
	}
	return err
}
