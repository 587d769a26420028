// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
	"github.com/openshift/windows-instance-api/pkg/words"
)

const (
	// planTimeout bounds the answer to the question what is to be done. The host computes
	// digests of its files for it, and asks Windows for its features.
	planTimeout = 5 * time.Minute
	// silence is for how long a host that is being changed may be unreachable. It is
	// half way, so that giving up early helps nobody.
	silence = 10 * time.Minute
	// changeTimeout is how long a step may change the host, however often the connection breaks: a
	// host that is changed may keep others from their turn. A dozen services that need all of their
	// time to stop and to start are well within it.
	changeTimeout = 2 * time.Hour
	// lockPatience is for how long another one may change the host while we wait: an agent that a controller has left behind
	// goes on for as long as a change may take. It is that little less so that the step says what it waited for.
	lockPatience = changeTimeout - 5*time.Minute
	// maxBreaks is how often the agent may end without a result before it is to blame.
	maxBreaks = 5
)

// maxNamed bounds how many files or changes a message names.
const maxNamed = 5

// mebibyte is the unit of the progress of transfers.
const mebibyte = 1 << 20

// build returns the desired configuration of the host now, with the revision that it has in the
// end. Trouble with the API server passes.
func (e *execution) build(ctx context.Context) (*document.Result, error) {
	joinAs := ""
	if e.joins() {
		var err error
		if joinAs, err = e.joinName(ctx); err != nil {
			return nil, err
		}
	}
	return e.buildFor(ctx, joinAs)
}

// buildFor is build for a host that joins as the node of that name; empty: it does not.
func (e *execution) buildFor(ctx context.Context, joinAs string) (*document.Result, error) {
	if e.Configuration == nil {
		return nil, errors.New("this controller has no payload to configure hosts with, see its flag --payload")
	}
	node := e.node
	if e.node = nil; node == nil {
		var err error
		if node, err = e.ownNode(ctx); err != nil {
			return nil, err
		}
	}
	was := e.operation().Message
	if joinAs != "" { // who signs may be away for minutes; otherwise nothing of it is written
		e.note(func(status *v1alpha1.WindowsInstanceStatus) {
			status.Operation.Message = fmt.Sprintf("Preparing what the host becomes Node %s with: its certificate has to be signed by kube-controller-manager, which may take minutes.", joinAs)
		})
		e.recordLate(ctx)
	}
	built, err := e.awaitInputs(ctx, node, joinAs)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("the desired configuration of the host cannot be determined: %w", err)
	}
	if joinAs != "" {
		// It may have that name. Where only the host knows it, its kubelet would get no certificate by it otherwise. It is recorded before the
		// host keeps anything, see configureHost.
		e.note(func(status *v1alpha1.WindowsInstanceStatus) {
			status.Operation.JoinsAs, status.Operation.Message = joinAs, was
		})
		e.recordLate(ctx)
	}
	return built, nil
}

// correctionPatience is for how long an operation that is half way waits for what somebody has to correct in the
// cluster.
const correctionPatience = 15 * time.Minute

// awaitInputs is what the cluster says now that the host is to be like. An operation that has begun to change the host, or
// has cordoned its Node, does not end because somebody makes a mistake meanwhile: it waits for some time until it is corrected.
func (e *execution) awaitInputs(ctx context.Context, node *corev1.Node, joinAs string) (*document.Result, error) {
	for until := e.clock.Now().Add(correctionPatience); ; {
		built, err := e.askConfiguration(ctx, node, joinAs)
		if !errors.Is(err, document.ErrInputs) || !e.touched() && !cordonedByUs(e.operation()) {
			return built, err
		}
		if !e.clock.Now().Before(until) {
			return nil, fmt.Errorf("after %s: %w", duration.HumanDuration(correctionPatience), err)
		}
		if err := e.pause(ctx, "Waiting until somebody corrects what hosts are configured with. %s", message.Sentence(words.Steady(err.Error()))); err != nil {
			return nil, err
		}
	}
}

// askConfiguration builds the desired configuration of the host. Trouble with the API server passes. A probe may find the configuration that a host which
// had none has so far: it is no more than this execution has given it, so that there is nothing that the host could keep of what cannot be read.
func (e *execution) askConfiguration(ctx context.Context, node *corev1.Node, joinAs string) (built *document.Result, err error) {
	instance := e.instance
	if e.without {
		instance = instance.DeepCopy()
		instance.Status.CurrentRevision = ""
	}
	err = retryAPI(ctx, e.clock, "Finding out the desired configuration of the host", doesNotPass, func() (err error) {
		if built, err = e.Configuration.Build(ctx, instance, node, joinAs); err != nil || joinAs == "" {
			return err
		}
		// The credentials to join are on the host for minutes. Revisions are compared without.
		lasting, err := e.Configuration.Build(ctx, instance, node, "")
		if err != nil {
			return err
		}
		built.Revision = lasting.Revision
		return nil
	})
	if err == nil {
		e.without = built.Without && instance.Status.CurrentRevision == ""
	}
	return built, err
}

// planHost asks the host what would have to be done for it to be as built says.
func (e *execution) planHost(ctx context.Context, built *document.Result) (*api.Plan, error) {
	plan, err := ask(ctx, e.clock, e.clock.Now().Add(e.stepPatience()), planTimeout, func(ctx context.Context) (*api.Plan, error) {
		return e.Hosts.PlanConfiguration(ctx, e.instance, &built.Bundle)
	})
	if err != nil {
		return nil, e.blame(ctx, "the host does not return a plan", err)
	}
	e.nodeName = plan.NodeName
	return plan, nil
}

// buildAndPlan returns the plan of the host for its desired configuration of now.
func (e *execution) buildAndPlan(ctx context.Context) (*api.Plan, error) {
	built, err := e.build(ctx)
	if err != nil {
		return nil, err
	}
	return e.planHost(ctx, built)
}

// change has the host changed by its agent and follows that until there is a result. A
// connection that breaks is made again, as the agent goes on from where it was.
func (e *execution) change(ctx context.Context, doing string, call func(ctx context.Context, instance *v1alpha1.WindowsInstance, report func(api.Event)) (*api.Result, error)) (*api.Result, error) {
	var lockedSince time.Time
	heard := e.clock.Now()
	away := unread{clock: e.clock}
	for breaks := 0; ; {
		began := e.clock.Now()
		if err := e.ensureLeading(ctx); err != nil {
			return nil, err
		}
		begin := firstAtOnce // that the host has been changed
		if e.stored.Status.Operation.HostChanged {
			begin = firstInTurn
		}
		var done *api.Result
		var recordErr error
		instance := e.instance
		err := follow(ctx, e.clock, &e.pace, begin, func(ctx context.Context, report func(api.Event)) (err error) {
			done, err = call(ctx, instance, report)
			return err
		}, func(event api.Event, over bool) error {
			heard, e.changed = e.clock.Now(), true
			recordErr = e.changing(ctx, doing, event, over)
			return recordErr
		})
		e.changed = e.changed || mayHaveChanged(done, err)
		now := e.clock.Now()
		waits := away.waits(err, began)
		var why string
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case recordErr != nil:
			return nil, recordErr
		case waits:
			why = e.diagnose(err)
		case err != nil:
			if !diagnose.IsTransient(err) {
				if breaks++; !agentBroke(err) || breaks > maxBreaks {
					return nil, e.blame(ctx, "changing the host failed", err)
				}
			}
			if !now.Before(e.unlessGivenUp(heard.Add(silence), heard.Add(patience))) {
				return nil, e.blame(ctx, fmt.Sprintf("the host was being changed and did not answer any more for %s", now.Sub(heard).Truncate(time.Minute)), err)
			}
			e.Hosts.Forget(e.instance) // the connection may be dead without knowing it
			why = "It continues when the host answers again: " + e.diagnose(err)
		case done.Outcome == api.OutcomeFailed && done.Reason == api.ReasonLocked:
			if lockedSince.IsZero() {
				lockedSince = now
			}
			if now.Sub(lockedSince) >= lockPatience {
				return nil, fmt.Errorf("another process has been changing the host for more than %s: %s", duration.HumanDuration(lockPatience), done.Error)
			}
			heard = now
			why = "Waiting for another process that is changing the host: " + message.Sentence(done.Error)
		default:
			return done, nil
		}
		if err := e.pause(ctx, "%s %s", doing, why); err != nil {
			return nil, err
		}
		if waits {
			heard = away.extend(heard, began)
		}
	}
}

// mayHaveChanged says whether an answer, or that there is none, means that the host may be
// other than it was.
func mayHaveChanged(done *api.Result, err error) bool {
	if err != nil {
		return !diagnose.IsUnsent(err)
	}
	return len(done.Changed) > 0 || done.Outcome == api.OutcomeFailed && done.Reason == api.ReasonStep
}

// agentBroke says whether the agent ended without a result, as when it is killed, or was
// in use when it was to be removed. Both may be gone the next time.
func agentBroke(err error) bool {
	var agent *agentclient.Error
	return errors.As(err, &agent) && (agent.Step == agentclient.StepRun || agent.Step == agentclient.StepRemove)
}

// tell records how far something is, or has the next write do it if it is over.
func (e *execution) tell(ctx context.Context, over bool, change func(*v1alpha1.Operation)) error {
	if !over {
		return e.update(ctx, change)
	}
	changed := e.changed
	e.note(func(status *v1alpha1.WindowsInstanceStatus) {
		change(status.Operation)
		status.Operation.HostChanged = status.Operation.HostChanged || changed && status.Operation.Type == v1alpha1.OperationReconfigure
	})
	return nil
}

// changing records what the agent is doing, or has done if it is over.
func (e *execution) changing(ctx context.Context, doing string, event api.Event, over bool) error {
	text := doing + " " + event.Item
	if event.Message != "" {
		text += ": " + event.Message
	}
	return e.tell(ctx, over, func(op *v1alpha1.Operation) {
		op.Message = message.Sentence(text)
		if event.Steps == 0 {
			return
		}
		done := event.Step
		if event.State != api.EventDone {
			done--
		}
		op.Progress = &v1alpha1.OperationProgress{Done: int32(max(done, 0)), Total: int32(event.Steps), Unit: "changes"}
	})
}

// applied is how a configuration was applied.
type applied struct {
	*api.Result
	// waiting is what is not in the configuration yet, and why.
	waiting []document.Waiting
}

// configureHost brings the host to its desired configuration of now, as far as that costs no more
// than is allowed. A failure on the host is an error, in the words of the host.
func (e *execution) configureHost(ctx context.Context, doing string, allow config.Impact) (*applied, error) {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	for delivered := false; ; {
		built, err := e.build(ctx)
		if err != nil {
			return nil, err
		}
		if err := e.update(ctx, func(op *v1alpha1.Operation) {
			op.Revision, op.PoolRevision = built.Revision, built.PoolRevision
		}); err != nil {
			return nil, err
		}
		request := &api.ApplyRequest{Allow: allow, Keep: built.Keep, Bundle: built.Bundle}
		done, err := e.change(ctx, doing, func(ctx context.Context, instance *v1alpha1.WindowsInstance, report func(api.Event)) (*api.Result, error) {
			return e.Hosts.Apply(ctx, instance, request, report)
		})
		switch {
		case err != nil:
			return nil, err
		case done.Outcome != api.OutcomeFailed:
			return &applied{Result: done, waiting: built.Waiting}, nil
		case done.Reason != api.ReasonPayload || delivered:
			return nil, failed(done)
		}
		// They were there, and are not any more, or the configuration is a newer one.
		plan, err := e.planHost(ctx, built)
		if err != nil {
			return nil, err
		}
		if err := e.deliver(ctx, plan.Payload); err != nil {
			return nil, err
		}
		delivered = true
	}
}

// limited is ctx for changing the host: it ends, and says why, when the step has taken changeTimeout.
func (e *execution) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	began := e.operation().FindStep(e.current).StartedAt.Time
	return context.WithTimeoutCause(ctx, e.deadline(began, changeTimeout).Sub(e.clock.Now()), fmt.Errorf(
		"changing the host did not end within %s; look at its connection and its load: what was done stays, and the next attempt goes on from there", duration.HumanDuration(changeTimeout)))
}

// failed is the failure on the host as an error.
func failed(r *api.Result) error {
	switch r.Reason {
	case api.ReasonConflict:
		return fmt.Errorf("the host cannot be changed: %s. Move what is in the way aside, or use another host", r.Error)
	case api.ReasonInventory:
		return fmt.Errorf("the host cannot be changed because the inventory of what is ours on it cannot be read: %s", r.Error)
	case api.ReasonSpace:
		return fmt.Errorf("there is no room on the host: %s. Free space, or make the disk larger", r.Error)
	case api.ReasonPayload, api.ReasonStep, api.ReasonLocked:
	}
	return fmt.Errorf("changing the host failed: %s", r.Error)
}

// deliver puts files on the host. It goes on where it was after the connection broke.
func (e *execution) deliver(ctx context.Context, files []api.PayloadFile) error {
	if len(files) == 0 {
		return nil
	}
	until := e.clock.Now().Add(silence)
	sent := int64(0)
	away := unread{clock: e.clock}
	for {
		began := e.clock.Now()
		if err := e.ensureLeading(ctx); err != nil {
			return err
		}
		var recordErr error
		instance := e.instance
		err := follow(ctx, e.clock, &e.pace, firstInTurn, func(ctx context.Context, report func(transfer.Progress)) error {
			return e.Hosts.Deliver(ctx, instance, files, report)
		}, func(p transfer.Progress, over bool) error {
			if p.Sent > sent {
				sent, until = p.Sent, e.clock.Now().Add(silence)
			}
			if recordErr = e.sending(ctx, p, over); recordErr == nil && p.Sent < p.Total {
				recordErr = e.sendingContested()
			}
			return recordErr
		})
		waits := away.waits(err, began)
		continues := "It continues when the host answers again: "
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case recordErr != nil:
			return recordErr
		case err == nil:
			return nil
		case waits:
			continues = ""
		case !diagnose.IsTransient(err) || !e.clock.Now().Before(until):
			return e.blame(ctx, "files cannot be sent to the host", err)
		default:
			e.Hosts.Forget(e.instance)
		}
		if err := e.pause(ctx, "Sending files. %s%s", continues, e.diagnose(err)); err != nil {
			return err
		}
		if waits {
			until = away.extend(until, began)
		}
	}
}

// sendingContested is why no more files are sent to a host that nothing was done to: as long as it has its slot, which may be the only one of the
// cluster, a connection on which bytes trickle would keep hosts of other pools from theirs. Nil: it goes on.
func (e *execution) sendingContested() error {
	if e.current != v1alpha1.StepTransfer || e.touched() || e.clock.Now().Before(e.deadline(e.operation().FindStep(e.current).StartedAt.Time, contestedDrain)) || !e.Policy.Contested(e.key) {
		return nil
	}
	return fmt.Errorf("hosts of other pools wait for the slot of this one, so that sending its files ended after %s: look at its connection; what was sent stays, and the next attempt goes on from there",
		duration.HumanDuration(contestedDrain))
}

// sending records how far the transfer of files is.
func (e *execution) sending(ctx context.Context, p transfer.Progress, over bool) error {
	var now []string
	for _, f := range p.Files {
		if f.Stage == transfer.StageSending || f.Stage == transfer.StageVerifying {
			now = append(now, f.Name)
		}
	}
	done, total := toMebibytes(p.Sent), toMebibytes(p.Total)
	text := fmt.Sprintf("Sending files: %d of %d MiB", done, total)
	if len(now) > 0 {
		text += ", now " + words.Enumerate(now, maxNamed)
	}
	return e.tell(ctx, over, func(op *v1alpha1.Operation) {
		op.Message, op.Progress = text+".", &v1alpha1.OperationProgress{Done: done, Total: total, Unit: "MiB"}
	})
}

// toMebibytes rounds up, so that something is never nothing.
func toMebibytes(bytes int64) int32 {
	return int32(min((bytes+mebibyte-1)/mebibyte, math.MaxInt32))
}
