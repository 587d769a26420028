// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

// errNotDone means that the result, which was printed, is a failure.
var errNotDone = errors.New("not completed")

// planTakes is how long a plan may wait for Windows. Servers wait three minutes for it, and would not learn why there is none.
const planTakes = 150 * time.Second

// errPlanTakes is what they learn.
var errPlanTakes = fmt.Errorf("the plan has taken %s: restart the service of Windows that does not answer, or the host", planTakes)

func planCommand(ctx context.Context, host Host, stdin io.Reader, stdout io.Writer) error {
	bundle, err := config.Decode(stdin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, planTakes, errPlanTakes)
	defer cancel()
	plan, err := (&engine.Engine{System: host.System()}).Plan(ctx, bundle)
	if err != nil {
		return err
	}
	return writeJSON(stdout, plan)
}

// planAdoptionCommand answers what the first update would do if the host were adopted.
func planAdoptionCommand(ctx context.Context, host Host, stdin io.Reader, stdout io.Writer) error {
	request, err := api.DecodeAdoptRequest(stdin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, planTakes, errPlanTakes)
	defer cancel()
	plan, err := (&engine.Engine{System: host.System()}).PlanAdoption(ctx, request)
	if refused, ok := errors.AsType[*engine.Error](err); ok && refused.Reason == api.ReasonConflict {
		return writeJSON(stdout, api.AdoptionPlan{Error: refused.Error()})
	}
	if err != nil {
		return err
	}
	return writeJSON(stdout, api.AdoptionPlan{Plan: plan})
}

func applyCommand(ctx context.Context, host Host, stdin io.Reader, stdout io.Writer) error {
	request, err := api.DecodeApplyRequest(stdin)
	if err != nil {
		return err
	}
	log := &transcript{directory: transcriptDirectory(host)}
	defer log.close()
	return changeHost(host, stdout, log, func(e *engine.Engine) *api.Result { return e.Apply(ctx, request) })
}

// adoptCommand makes what another program has configured ours. It leaves no transcript: its directory is made by
// the document that is applied first.
func adoptCommand(ctx context.Context, host Host, stdin io.Reader, stdout io.Writer) error {
	request, err := api.DecodeAdoptRequest(stdin)
	if err != nil {
		return err
	}
	return changeHost(host, stdout, nil, func(e *engine.Engine) *api.Result { return e.Adopt(ctx, request) })
}

// releaseCommand gives the host up to another program. The transcripts go once nothing of the host is ours any more.
func releaseCommand(ctx context.Context, host Host, stdin io.Reader, stdout io.Writer) error {
	var request api.ReleaseRequest
	if err := readJSON(stdin, &request); err != nil {
		return err
	}
	if err := request.Validate(); err != nil {
		return err
	}
	return changeHost(host, stdout, nil, func(e *engine.Engine) *api.Result {
		result := e.Release(ctx, &request)
		if result.Outcome != api.OutcomeFailed {
			// What somebody reads at this moment is a log among those that stay.
			_ = removeTranscripts(transcriptDirectory(host))
		}
		return result
	})
}

// restartServicesCommand restarts the services of the applied configuration.
func restartServicesCommand(ctx context.Context, host Host, stdout io.Writer) error {
	return changeHost(host, stdout, nil, func(e *engine.Engine) *api.Result { return e.RestartServices(ctx) })
}

// cleanupCommand leaves no transcript: cleanup removes every file of the agent.
func cleanupCommand(ctx context.Context, host Host, stdout io.Writer) error {
	return changeHost(host, stdout, nil, func(e *engine.Engine) *api.Result {
		// The engine reports what keeps the directory of the logs from being removed.
		_ = removeTranscripts(transcriptDirectory(host))
		return e.Cleanup(ctx)
	})
}

// hangsAfter is for how long a change may report nothing until it is given up. Whoever follows it says so before, after ten minutes;
// and the longest that a step of the engine waits without a word is nine: for a value, then for a service to start and to be healthy.
const hangsAfter = 11 * time.Minute

// errHangs means that a change was given up.
var errHangs = fmt.Errorf("it has reported nothing for %s and is given up, so that the next one gets the lock of the host; what was done stays, and the next one goes on from there", hangsAfter)

// changeHost prints progress and writes it to the transcript. A caller that is gone does not
// stop a change halfway. One that hangs would keep the lock of the host for ever if nobody follows it any more: then
// changeHost returns all the same, and the lock goes with the process.
func changeHost(host Host, stdout io.Writer, log *transcript, change func(*engine.Engine) *api.Result) error {
	var lost error // only the first one: a caller that is gone takes none of many reports
	var givenUp atomic.Bool
	silence := time.NewTimer(hangsAfter)
	defer silence.Stop()
	report := func(p api.Progress) {
		if givenUp.Load() {
			return // nobody waits for it any more
		}
		silence.Reset(hangsAfter)
		line, err := json.Marshal(p)
		if err == nil {
			line = append(line, '\n')
			log.write(line)
			_, err = stdout.Write(line)
		}
		lost = cmp.Or(lost, err)
	}
	e := &engine.Engine{System: host.System(), Events: func(e api.Event) { report(api.Progress{Event: &e}) }}
	if path, err := host.Executable(); err == nil {
		e.Executable = filepath.Base(path)
	}
	changed := make(chan *api.Result, 1) // also the result of one that was given up has room
	go func() { changed <- change(e) }()
	var result *api.Result
	select {
	case result = <-changed:
	case <-silence.C:
		givenUp.Store(true)
		return errHangs
	}
	report(api.Progress{Result: result})
	if result.Outcome == api.OutcomeFailed {
		return fmt.Errorf("%w: %s", errNotDone, result.Error)
	}
	if lost != nil {
		return fmt.Errorf("writing the answer: %w", lost)
	}
	return nil
}

// collectConfiguration adds the applied configuration, and what the service knows of updates. A host whose inventory is damaged still
// has its other facts.
func collectConfiguration(ctx context.Context, host Host, f *api.Facts) {
	Collect(f, "configuration", &f.Configuration, func() (api.ConfigurationFacts, error) { return engine.ReadState(ctx, host.System(), host.Now()) })
	Collect(f, "updates", &f.Updates, func() (*api.WindowsUpdates, error) { return updates.Read(host.System()) })
}

// runCommand runs the service.
func runCommand(ctx context.Context, host Host, stderr io.Writer) error {
	return host.Serve(ctx, func(ctx context.Context) error {
		updater := &updates.Updater{System: host.System(), Source: host.Updates(), Now: host.Now, Report: func(err error) {
			warn(host, stderr, "Updates of Windows: "+err.Error())
		}}
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { updater.Run(ctx) })
		return (&engine.Engine{System: host.System()}).Run(ctx, engine.RunOptions{
			Service:     api.ServiceName,
			Managers:    []string{wicdService},
			EnsureRoute: host.EnsureRoute,
			KeepKeys:    func() ([]api.Item, error) { return keepKeys(host) },
			Report:      func(d api.Drift) { warn(host, stderr, driftMessage(d)) },
		})
	})
}

// warn writes a warning to the event log: a service has no standard error. What that does not take is said there, for
// whoever runs the agent by hand.
func warn(host Host, stderr io.Writer, message string) {
	if err := host.ReportDrift(message); err != nil {
		fmt.Fprintf(stderr, "windows-node-agent run: %v; it was to get: %s\n", err, message) //nolint:errcheck // there is no other place to report it
	}
}

// driftMessage describes a drift for people.
func driftMessage(d api.Drift) string {
	message := "This host differed from its desired configuration."
	for _, part := range []struct {
		title string
		items []api.Item
	}{
		{"Repaired:", d.Repaired},
		{"Not repaired, because it would interrupt the workload or needs a file of the payload:", left(d, false)},
		{"Not repaired for some time:", left(d, true)},
	} {
		if len(part.items) == 0 {
			continue
		}
		message += "\n" + part.title
		for _, i := range part.items {
			message += "\n  " + i.String() + ": " + i.Reason
		}
	}
	if d.Error != "" {
		message += "\nFailed: " + d.Error
	}
	return message
}

// left are the items of a drift that are not repaired for some time, or the others that are left.
func left(d api.Drift, forSomeTime bool) []api.Item {
	return slices.DeleteFunc(slices.Clone(d.Left), func(i api.Item) bool { return (i.Left != "") != forSomeTime })
}
