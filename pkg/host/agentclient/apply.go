// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// planTimeout bounds a plan: the agent may compute the digests of some hundred MiB.
const planTimeout = 3 * time.Minute

// PlanConfiguration says what [Client.Apply] would do. It puts the agent on the host if need be, and
// changes nothing else there. Errors are those of [Hosts], [ssh.Error]s and [Error]s.
func (a *Client) PlanConfiguration(ctx context.Context, instance *v1alpha1.WindowsInstance, bundle *config.Bundle) (*api.Plan, error) {
	encoded, err := bundle.Encode()
	if err != nil {
		return nil, err
	}
	plan := &api.Plan{}
	q := query{command: api.CommandPlan, encoded: encoded, bundle: bundle, timeout: planTimeout, bounds: answer.OfPlan}
	if _, err := a.query(ctx, instance, q, plan); err != nil {
		return nil, err
	}
	if err := checkPlan(plan, bundle); err != nil {
		return nil, &Error{Step: StepRun, Err: err}
	}
	return plan, nil
}

// PlanAdoption says what the first [Client.Apply] after [Client.Adopt] would do. It puts the agent on the host if need be, and changes
// nothing else there. That the host cannot be adopted is an [Error] of step [StepRefused]; others are those of [Hosts], [ssh.Error]s and
// [Error]s.
func (a *Client) PlanAdoption(ctx context.Context, instance *v1alpha1.WindowsInstance, request *api.AdoptRequest) (*api.Plan, error) {
	encoded, err := request.Encode()
	if err != nil {
		return nil, err
	}
	var planned api.AdoptionPlan
	q := query{command: api.CommandPlanAdoption, encoded: encoded, bundle: &request.Bundle, timeout: planTimeout, bounds: answer.OfPlan}
	switch _, err := a.query(ctx, instance, q, &planned); {
	case err != nil:
		return nil, err
	case planned.Error != "":
		return nil, &Error{Step: StepRefused, Err: errors.New(planned.Error)}
	case planned.Plan == nil:
		return nil, &Error{Step: StepRun, Err: errors.New("it answers no plan, and no reason")}
	}
	if err := checkPlan(planned.Plan, &request.Bundle); err != nil {
		return nil, &Error{Step: StepRun, Err: err}
	}
	return planned.Plan, nil
}

// Apply makes the host as the bundle of the request says. It returns how that ended, which
// may be a failure: an error means that it is not known how it ended, because no result came. Then, as
// after every failure, the same can be applied again. As long as the first one continues, the host
// answers that it is locked, a failure with the reason [api.ReasonLocked].
//
// The end of ctx ends the SSH session, and sends the agent no signal. What becomes of it then is up to the SSH
// server. OpenSSH for Windows leaves a program without a terminal alone
// (https://github.com/PowerShell/Win32-OpenSSH/issues/1751), so that it gets to its end with
// nothing but its transcript to show for it; others end it. Both leave the host in a state
// from which the same can be applied again. Only an agent that reports nothing new for too long is told to end.
//
// report, if it is not nil, gets what happens while it happens, several times a second
// maybe; it is called by the goroutine that called Apply, and holds the host up while it
// blocks. Errors are those of [Hosts], [ssh.Error]s and [Error]s.
func (a *Client) Apply(ctx context.Context, instance *v1alpha1.WindowsInstance, request *api.ApplyRequest, report func(api.Event)) (*api.Result, error) {
	encoded, err := request.Encode()
	if err != nil {
		return nil, err
	}
	to, err := a.login(ctx, instance)
	if err != nil {
		return nil, err
	}
	return a.change(ctx, to, change{command: api.CommandApply, input: encoded, bundle: &request.Bundle, report: report})
}

// Cleanup removes everything that was put on the host, and restores what was there
// before. Where the host need not be restarted for that, which the result says, it removes
// the agent and its directory as well, unless that is the only thing that
// fails: then there is an error. Otherwise the agent stays for the restart; call Cleanup
// again after it. It can be repeated at any time.
//
// Events, errors and the end of ctx are as with [Client.Apply].
func (a *Client) Cleanup(ctx context.Context, instance *v1alpha1.WindowsInstance, report func(api.Event)) (*api.Result, error) {
	to, err := a.login(ctx, instance)
	if err != nil {
		return nil, err
	}
	result, err := a.change(ctx, to, change{command: api.CommandCleanup, report: report})
	if err != nil || result.Outcome != api.OutcomeRemoved || len(result.Reboot) > 0 {
		return result, err
	}
	a.invalidate(to.Target)
	if err := a.removeAgent(ctx, to.Target); err != nil {
		return nil, err
	}
	return result, nil
}

// Adopt makes what another program has configured on the host ours, as it is, and says how that ended. Events, errors and the
// end of ctx are as with [Client.Apply].
func (a *Client) Adopt(ctx context.Context, instance *v1alpha1.WindowsInstance, request *api.AdoptRequest, report func(api.Event)) (*api.Result, error) {
	encoded, err := request.Encode()
	if err != nil {
		return nil, err
	}
	to, err := a.login(ctx, instance)
	if err != nil {
		return nil, err
	}
	return a.change(ctx, to, change{command: api.CommandAdopt, input: encoded, bundle: &request.Bundle, revision: request.Adoption.Revision, report: report})
}

// Release has the agent give the host up to another program, and says how that ended. The agent itself stays, as on every host
// that is only watched. Events, errors and the end of ctx are as with [Client.Apply].
func (a *Client) Release(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.ReleaseRequest, report func(api.Event)) (*api.Result, error) {
	encoded, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	to, err := a.login(ctx, instance)
	if err != nil {
		return nil, err
	}
	return a.change(ctx, to, change{command: api.CommandRelease, input: encoded, report: report})
}

// RestartServices restarts the services of the configuration that the host has, and says how that ended. Events,
// errors and the end of ctx are as with [Client.Apply].
func (a *Client) RestartServices(ctx context.Context, instance *v1alpha1.WindowsInstance, report func(api.Event)) (*api.Result, error) {
	to, err := a.login(ctx, instance)
	if err != nil {
		return nil, err
	}
	return a.change(ctx, to, change{command: api.CommandRestartServices, report: report})
}

// change is a change of a host.
type change struct {
	// command is the sub-command of the agent, and input what it reads.
	command string
	input   []byte
	// bundle is what is applied. Nil: nothing is, by this command.
	bundle *config.Bundle
	// revision is what the host is to have afterwards. Empty: that of the bundle.
	revision string
	// report gets the events. May be nil.
	report func(api.Event)
}

// change has the agent change the host, after putting it there if need be.
func (a *Client) change(ctx context.Context, to login, c change) (*api.Result, error) {
	begun := false
	report := c.report
	c.report = func(e api.Event) {
		begun = true
		if report != nil {
			report(e)
		}
	}
	var result *api.Result
	var failed error
	err := a.withAgent(ctx, to, func(program string) error {
		result, failed = a.runChange(ctx, to.Target, program, c)
		if begun {
			return nil // it is not repeated
		}
		return failed
	})
	if err != nil {
		return nil, err
	}
	return result, failed
}

func (a *Client) runChange(ctx context.Context, target ssh.Target, program string, c change) (*api.Result, error) {
	ctx, watch := newWatch(ctx, a.patience.silence, a.patience.change)
	defer watch.end()
	// Whoever leaves, as a controller that is stopped does, must not have the agent terminated while services are stopped. One
	// that hangs is ended: it has the lock of the host.
	process, err := a.options.Pool.StartLasting(ctx, target, program+" "+c.command, hangs)
	if err != nil {
		return nil, watch.explain(err)
	}
	defer func() { _ = process.Close() }()
	// The agent reads everything before it says anything. Why it does not, it says by itself.
	_, _ = process.Stdin().Write(c.input)
	_ = process.Stdin().Close()

	hide := redactorOf(c.bundle)
	result, err := readProgress(process.Stdout(), hide, func(e api.Event) {
		watch.pause() // what the caller does with it is not the host's silence
		c.report(e)
		watch.heard()
	})
	if err != nil {
		return nil, watch.explain(hide.failure(ending(process, err)))
	}
	a.awaitEnd(process, watch)
	if err := checkResult(result, c); err != nil {
		return nil, &Error{Step: StepRun, Err: err}
	}
	return result, nil
}

// ending prefers what the program or the connection said to what was noticed of it.
func ending(process *ssh.Process, noticed error) error {
	if _, lost := ssh.AsError(noticed); lost {
		return noticed
	}
	if errors.Is(noticed, errNoResult) {
		if waited := process.Wait(); waited != nil {
			return agentFailure(waited)
		}
	}
	return &Error{Step: StepRun, Err: noticed}
}

// awaitEnd waits until the agent has ended. Its exit code says nothing that the result does not.
func (a *Client) awaitEnd(process *ssh.Process, w *watch) {
	timer := time.AfterFunc(a.patience.end, func() {
		w.cancel(&silenceError{fmt.Sprintf("it did not end within %s after its result", a.patience.end)})
	})
	defer timer.Stop()
	_, _ = io.Copy(io.Discard, process.Stdout())
	_ = process.Wait()
}
