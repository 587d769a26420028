// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/words"
)

const (
	// maxReplans is how often a host may turn out to be another one than was planned for.
	maxReplans = 3
	// inputsPatience is how long a host that has just become a Node is kept waiting for
	// what others say about its Node, its network above all. What comes later is a new
	// configuration.
	inputsPatience = 2 * time.Minute
)

// configuringSteps are those from the one that finds out what is to be done to the one
// after which it is.
var configuringSteps = []string{
	v1alpha1.StepPlan, v1alpha1.StepTransfer, v1alpha1.StepWaitForSlot, v1alpha1.StepCordon, v1alpha1.StepDrain,
	v1alpha1.StepApply, v1alpha1.StepRestart, v1alpha1.StepBoot, v1alpha1.StepFinish,
}

// changingSteps are those in which the host is changed. How far one came that was interrupted
// nobody knows.
var changingSteps = []string{v1alpha1.StepApply, v1alpha1.StepFinish, v1alpha1.StepNetwork}

// readingSteps are those that change neither the host nor its Node in a way that the next execution must know: how far one
// came does not matter, as it is done again from its begin. That one runs is written with what comes next, or after noteInterval. Network is
// one of them as long as it finds nothing to change: before it does, configureHost writes what it is about to do.
var readingSteps = []string{
	v1alpha1.StepConnect, v1alpha1.StepCheckPending, v1alpha1.StepFacts, v1alpha1.StepPreflight, v1alpha1.StepAgent, v1alpha1.StepCompare,
	v1alpha1.StepPlan, v1alpha1.StepWaitForSlot, v1alpha1.StepNetwork, v1alpha1.StepServices, v1alpha1.StepNodeReady, v1alpha1.StepVerify,
}

// onlyReads says whether a step is one of readingSteps, or as far as this operation goes does no more than they do:
//   - Uncordon, if the operation has no cordon to lift. One that has must be recorded: nothing may be done to the host again that the Node was
//     drained for, once it takes pods.
//   - Restart until it writes the boot to end, before it asks for the restart.
//   - Boot, which waits, unless it removes our agent afterwards.
//   - Join of a host that has no Node, which waits.
func onlyReads(op *v1alpha1.Operation, step string) bool {
	switch step {
	case v1alpha1.StepUncordon:
		cordon := op.FindStep(v1alpha1.StepCordon)
		return op.Type == v1alpha1.OperationReconfigure && cordon != nil && cordon.State == v1alpha1.StepSkipped
	case v1alpha1.StepRestart:
		return op.BootID == ""
	case v1alpha1.StepBoot:
		return op.Type != v1alpha1.OperationRemove
	case v1alpha1.StepJoin:
		return op.Node == nil
	}
	return slices.Contains(readingSteps, step)
}

// planConfiguration finds out what has to be done to the host, and what that costs.
func (e *execution) planConfiguration(ctx context.Context) (result, error) {
	if err := e.ensureUnmanaged(ctx); err != nil {
		return result{}, err
	}
	dropped, err := e.dropNode(ctx)
	if err != nil {
		return result{}, err
	}
	node, err := e.ownNode(ctx)
	if err != nil {
		return result{}, err
	}
	e.node = node
	built, err := e.buildFor(ctx, "") // what an earlier plan found out may be over
	if err != nil {
		return result{}, err
	}
	plan, err := e.planHost(ctx, built)
	if err != nil {
		return result{}, err
	}
	if err := e.ensureSameName(); err != nil {
		return result{}, err
	}
	again, why, err := e.joinsAgain(ctx, plan.KubeletCertificate)
	if err != nil {
		return result{}, err
	}
	if again || e.operation().Node == nil {
		if built, plan, err = e.planToJoin(ctx, built, plan); err != nil {
			return result{}, err
		}
	}
	admitted := admission{}
	if restartsKubelet(plan) && !again { // one that joins again has nobody who speaks for its pods
		if admitted, err = e.admission(ctx, node, &built.Bundle.Document); err != nil {
			return result{}, err
		}
	}
	impact := admitted.cost(planImpact(plan))
	if impact == v1alpha1.ImpactReboot && (again || e.operation().Node == nil) { // others ask when they have their slot
		if err := e.ensureMayRestart(ctx); err != nil {
			return result{}, err
		}
	}
	e.note(func(status *v1alpha1.WindowsInstanceStatus) {
		op := status.Operation
		op.Revision, op.PoolRevision, op.Impact, op.JoinsAgain = built.Revision, built.PoolRevision, impact, again
		reconsider(op, v1alpha1.StepPlan)
	})
	e.planned = plan
	text := strings.TrimSuffix(dropped+describePlan(plan, impact)+admitted.describe()+" "+why, " ")
	if len(built.Warnings) > 0 {
		text += " " + message.Sentence(strings.Join(built.Warnings, "; "))
	}
	return result{message: text, skips: e.skips(plan, impact, again, text)}, nil
}

// planToJoin is the configuration, and the plan for it, of a host that joins the cluster: with what it joins with, if it needs that still.
// built and plan are without.
func (e *execution) planToJoin(ctx context.Context, built *document.Result, plan *api.Plan) (*document.Result, *api.Plan, error) {
	if err := e.ensureReaches(ctx, built.Reach); err != nil {
		return nil, nil, err
	}
	joinAs, err := e.joinName(ctx)
	if joinAs == "" || err != nil {
		return built, plan, err
	}
	if built, err = e.buildFor(ctx, joinAs); err != nil {
		return nil, nil, err
	}
	if plan, err = e.planHost(ctx, built); err != nil {
		return nil, nil, err
	}
	return built, plan, nil
}

// skips are the steps that a plan has no need of, and why. With nothing to do at all, the reason is what the plan says.
func (e *execution) skips(plan *api.Plan, impact v1alpha1.ChangeImpact, again bool, text string) map[string]string {
	skips := map[string]string{}
	node := e.operation().Node
	if node != nil && !again {
		skips[v1alpha1.StepJoin] = isNodeAlready(node)
	}
	if len(plan.Payload) == 0 {
		skips[v1alpha1.StepTransfer] = "The host has all files."
	}
	if len(plan.Items)+len(plan.Reboot)+len(plan.Payload) == 0 && e.has(plan.Revision) {
		for _, name := range configuringSteps[1:] {
			skips[name] = text
		}
	}
	switch {
	case node == nil:
		skips[v1alpha1.StepCordon], skips[v1alpha1.StepDrain] = noNode.message, noNode.message
	case !disruptive(impact):
		const why = "No pod has to leave for it."
		skips[v1alpha1.StepCordon], skips[v1alpha1.StepDrain] = why, why
	}
	return skips
}

// admission is what the kubelet of the host does to the pods of its Node, nil for none, once it is restarted with what a document says.
func (e *execution) admission(ctx context.Context, node *corev1.Node, document *config.Document) (a admission, err error) {
	err = retryAPI(ctx, e.clock, "Listing the pods of the Node", isFinal, func() (err error) {
		a, err = admitter{e.Kube, e.Labels}.admission(ctx, e.instance, node, document)
		return err
	})
	return a, err
}

// rejected says which pods the kubelet would reject by now, as the end of a message, if the host were changed without a drain although it is
// restarted for that. Empty: none. Labels may be changed at any time after the plan was made.
func (e *execution) rejected(ctx context.Context) (string, error) {
	node, err := e.ownNode(ctx)
	if err != nil {
		return "", err
	}
	e.node = node
	a, err := e.admission(ctx, node, &config.Document{})
	if err != nil || len(a.rejects) == 0 {
		return "", err // what the host itself has to find out is asked last
	}
	plan, err := e.buildAndPlan(ctx)
	if err != nil || !restartsKubelet(plan) {
		return "", err
	}
	return a.describe(), nil
}

// dropNode deletes the Node of a host that cannot have become it, as it has neither a
// kubelet nor a trace of us: its disk is a new one. What ran on the Node is gone, and the
// host joins like any new one. A Node that goes on all the same is that of another machine.
// It returns what is to be said about that, empty if there was nothing to do.
func (e *execution) dropNode(ctx context.Context) (string, error) {
	node := e.operation().Node
	if node == nil {
		return "", nil
	}
	facts, err := e.knownFacts(ctx)
	if err != nil {
		return "", err
	}
	if !blank(facts) {
		return "", nil
	}
	if err := e.orphaned(ctx); err != nil {
		return "", err
	}
	done, kept, err := e.deleteOwnNode(ctx)
	switch {
	case err != nil:
		return "", err
	case kept: // the kubelet would take it for its own, which vanishes later
		return "", fmt.Errorf("the host was reinstalled, and cannot join before its former Node is gone: %s", done.message)
	}
	if err := e.update(ctx, func(op *v1alpha1.Operation) { op.Node = nil }); err != nil {
		return "", err
	}
	return "Nothing that was put on the host exists any more: the host was reinstalled. " + done.message + " ", nil
}

// orphaned makes sure that no kubelet speaks for the Node of a host that has none. One that goes
// on belongs to another machine, to which a wrong address or provider ID leads, and must not be
// deleted.
func (e *execution) orphaned(ctx context.Context) error {
	reports, err := e.awaitSilence(ctx, "The host was reinstalled.")
	if err == nil && reports {
		return fmt.Errorf("a kubelet reports for Node %s, which has the address or provider ID of this host, but the host has no kubelet: the Node is probably that of another machine; correct spec.address or spec.providerID", e.operation().Node.Name)
	}
	return err
}

// blank says whether a host was never configured, by us or by others. What could not be read
// may be there.
func blank(facts *api.Facts) bool {
	return facts.Unconfigured() && !facts.MayHaveService(wmco.KubeletService)
}

// has says whether the host has written down that it is of a revision completely. One
// that is like it, and has not, is applied once more, which writes that down.
func (e *execution) has(revision string) bool {
	return e.facts != nil && e.facts.Configuration.AppliedRevision == revision && e.facts.Configuration.ApplyingRevision == ""
}

// planImpact is what a plan costs the workload.
func planImpact(p *api.Plan) v1alpha1.ChangeImpact {
	if len(p.Reboot) > 0 {
		return v1alpha1.ImpactReboot
	}
	return v1alpha1.ChangeImpact(p.Impact)
}

// disruptive says whether pods have to leave the Node first.
func disruptive(impact v1alpha1.ChangeImpact) bool {
	return impact == v1alpha1.ImpactDrain || impact == v1alpha1.ImpactReboot
}

// describePlan says what will be done, for people.
func describePlan(p *api.Plan, impact v1alpha1.ChangeImpact) string {
	if len(p.Items) == 0 && len(p.Reboot) == 0 && len(p.Payload) == 0 {
		return "The host has its desired configuration."
	}
	message := fmt.Sprintf("Changes: %d, their impact is %s.", len(p.Items), impact)
	if len(p.Restarts) > 0 {
		message += " Services that are restarted: " + strings.Join(p.Restarts, ", ") + "."
	}
	if len(p.Reboot) > 0 {
		message += " Windows has to be restarted: " + strings.Join(p.Reboot, "; ") + "."
	}
	if len(p.Payload) > 0 {
		message += fmt.Sprintf(" Files to send: %s.", describeFiles(p.Payload))
	}
	return message
}

// describeFiles says how many files there are, and how much they are together.
func describeFiles(files []api.PayloadFile) string {
	var bytes int64
	for _, f := range files {
		bytes += f.Size
	}
	return fmt.Sprintf("%d, %d MiB", len(files), toMebibytes(bytes))
}

// describeChanges says how many changes an agent made.
func describeChanges(changed []api.Item) string {
	if n := len(changed); n != 1 {
		return fmt.Sprintf("%d changes were made.", n)
	}
	return "1 change was made."
}

// transfer sends the files of the payload that the host lacks.
func (e *execution) transfer(ctx context.Context) (result, error) {
	plan := e.planned
	e.planned = nil
	if plan == nil {
		var err error
		if plan, err = e.buildAndPlan(ctx); err != nil {
			return result{}, err
		}
	}
	files := plan.Payload
	if len(files) == 0 {
		return result{message: "The host has all files."}, nil
	}
	if err := e.deliver(ctx, files); err != nil {
		return result{}, err
	}
	return result{message: fmt.Sprintf("Files on the host: %s.", describeFiles(files))}, nil
}

// apply brings the host to its desired configuration, up to the restart that this may need.
func (e *execution) apply(ctx context.Context) (result, error) {
	if err := e.ensureWanted(ctx); err != nil {
		return result{}, err
	}
	if e.operation().FindStep(v1alpha1.StepWaitForSlot) == nil { // releases before that step have waited here
		if lost, err := e.awaitAdmission(ctx); err != nil || lost != "" {
			return planAgain(lost), err
		}
	}
	if err := e.ensureRestartable(ctx); err != nil {
		return result{}, err
	}
	if err := e.ensureRepresents(ctx); err != nil {
		return result{}, err
	}
	if e.operation().Impact == v1alpha1.ImpactRestart && !e.joins() {
		if pods, err := e.rejected(ctx); err != nil || pods != "" {
			return e.replan("The labels of the Node have changed since the plan was made."+pods, err)
		}
	}
	allow := config.Impact(e.operation().Impact)
	done, err := e.configureHost(ctx, "Configuring the host.", allow)
	if err != nil {
		return result{}, err
	}
	switch {
	case done.Outcome == api.OutcomeRebootRequired && allow == config.ImpactReboot:
		e.needsRestart = true
		return result{message: fmt.Sprintf("%s Windows has to be restarted: %s.", describeChanges(done.Changed), strings.Join(done.Reboot, "; "))}, nil
	case done.Outcome == api.OutcomeRebootRequired, done.Outcome == api.OutcomeImpactExceeded:
		return e.replan("The host has changed since its plan was made, and the changes cost more now.", nil)
	}
	const needless = "Nothing needs a restart of Windows."
	r := result{
		message: describeChanges(done.Changed),
		skips:   map[string]string{v1alpha1.StepRestart: needless, v1alpha1.StepBoot: needless, v1alpha1.StepFinish: needless},
	}
	if done.Outcome == api.OutcomeUnchanged {
		r.message, r.skipped = "The host had its desired configuration.", true
	}
	return r, nil
}

// replan has the operation go on at the step Plan, unless err is one.
func (e *execution) replan(why string, err error) (result, error) {
	if err != nil {
		return result{}, err
	}
	if e.replans++; e.replans > maxReplans {
		return result{}, fmt.Errorf("the host, or its Node, changed after the plan was made, %d times in a row: something else is changing it; stop that, then reconfigure the host again", e.replans)
	}
	return result{again: v1alpha1.StepPlan, message: why + " A new plan is being made."}, nil
}

// finish does after the restart what had to wait for it.
func (e *execution) finish(ctx context.Context) (result, error) {
	done, err := e.configureHost(ctx, "Configuring the host after its restart.", config.ImpactReboot)
	if err != nil {
		return result{}, err
	}
	if done.Outcome == api.OutcomeRebootRequired {
		return result{}, fmt.Errorf("the host was restarted and needs another restart: %s; reconfigure it again, and read the event log of Windows if that does not help", strings.Join(done.Reboot, "; "))
	}
	return result{message: describeChanges(done.Changed)}, nil
}

// network does what could not be done before the host was a Node, and removes what is
// not needed any more, as the credentials to become one.
func (e *execution) network(ctx context.Context) (result, error) {
	joined := e.operation().FindStep(v1alpha1.StepJoin).State == v1alpha1.StepSucceeded
	built, err := e.inputs(ctx, joined)
	if err != nil {
		return result{}, err
	}
	r := result{message: "There was nothing that needed the Node.", skipped: true}
	op := e.operation()
	newer := !joined && built.Revision != op.Revision
	allow, leaves, pods := config.ImpactRestart, false, ""
	if op.FindStep(v1alpha1.StepDrain).State == v1alpha1.StepSucceeded {
		allow = config.Impact(op.Impact)
	} else if newer {
		// Nobody has admitted that it restarts services, or has pods rejected.
		if leaves = op.Impact == v1alpha1.ImpactNone; !leaves {
			if pods, err = e.rejected(ctx); err != nil {
				return result{}, err
			}
			leaves = pods != ""
		}
	}
	switch {
	case leaves:
		r.message = "The configuration that is desired since is left to the next operation." + pods
	case joined, newer:
		done, err := e.configureHost(ctx, "Configuring what needs the Node.", allow)
		if err != nil {
			return result{}, err
		}
		if done.Outcome == api.OutcomeRebootRequired || done.Outcome == api.OutcomeImpactExceeded {
			return result{}, fmt.Errorf("the remaining changes need a drain or a restart of the host: %s; reconfigure it again", strings.Join(append(done.Reboot, exceeding(done.Plan)...), "; "))
		}
		r = result{message: describeChanges(done.Changed)}
		built.Waiting = done.waiting
	}
	r.message += describeWaiting(built.Waiting)
	// A new virtual switch takes these routes away, as a restart does.
	routes, err := e.metadataRoute(ctx)
	if err != nil {
		return result{}, err
	}
	if !routes.skipped {
		r.message += " " + routes.message
	}
	return r, nil
}

// inputs returns the desired configuration of the host. It waits a while for what is missing if the
// host has just become a Node, as that is what the others work on who provide it.
func (e *execution) inputs(ctx context.Context, joined bool) (*document.Result, error) {
	until := e.deadline(e.operation().FindStep(e.current).StartedAt.Time, inputsPatience)
	for {
		built, err := e.build(ctx)
		if err != nil || len(built.Waiting) == 0 || !joined || !e.clock.Now().Before(until) {
			return built, err
		}
		if err := e.pause(ctx, "Waiting for what services need from the Node.%s", describeWaiting(built.Waiting)); err != nil {
			return nil, err
		}
	}
}

// exceeding says what of a plan costs more than a restart of services.
func exceeding(p *api.Plan) []string {
	if p == nil {
		return nil
	}
	var out []string
	for _, item := range p.Items {
		if disruptive(v1alpha1.ChangeImpact(item.Impact)) {
			out = append(out, describeItem(item))
		}
	}
	return out
}

func describeItem(i api.Item) string { return i.String() + ": " + i.Reason }

// describeWaiting says what is not configured yet, as the end of a message. Empty: nothing.
func describeWaiting(waiting []document.Waiting) string {
	return describeList(" Not configured yet: ", waiting, ". The host will be configured again when that exists.")
}

// describeAwaited says what waits for networks that others make on the host, as the end of a message. Empty: nothing.
func describeAwaited(waiting []api.Waiting) string {
	return describeList(" Not running yet: ", waiting, ". The agent on the host starts it once that exists.")
}

// describeList is a list with what is said before and after it. Empty: the list is.
func describeList[T fmt.Stringer](before string, list []T, after string) string {
	if len(list) == 0 {
		return ""
	}
	parts := make([]string, len(list))
	for i, item := range list {
		parts[i] = item.String()
	}
	return before + strings.Join(parts, ", ") + after
}

// awaited returns what waits on the host for networks that others make. A host without such a network is not asked.
func (e *execution) awaited(ctx context.Context, built *document.Result) ([]api.Waiting, error) {
	if hns := built.Bundle.Document.HNS; hns == nil || len(hns.Foreign) == 0 {
		return nil, nil
	}
	plan, err := e.planHost(ctx, built)
	if err != nil {
		return nil, err
	}
	return plan.Waiting, nil
}

// verifyConfiguration has the host say that nothing is left to be done.
func (e *execution) verifyConfiguration(ctx context.Context) (result, error) {
	node, err := e.ownNode(ctx)
	if err != nil {
		return result{}, err
	}
	e.node = node
	built, err := e.build(ctx)
	if err != nil {
		return result{}, err
	}
	op := e.operation()
	text, awaited := "The host has its desired configuration.", ""
	if built.Revision != op.Revision {
		// That it no longer has it is nobody's failure.
		text = "The host has the configuration that was desired when the operation began. That has changed since, so the host will be configured again."
	} else {
		plan, err := e.planHost(ctx, built)
		if err != nil {
			return result{}, err
		}
		if len(plan.Items)+len(plan.Reboot) > 0 {
			differs := plan.Reboot
			for _, item := range plan.Items {
				differs = append(differs, describeItem(item))
			}
			return result{}, fmt.Errorf("the host was configured and differs again, so that something else changes it: %s", words.Enumerate(differs, maxNamed))
		}
		awaited = describeAwaited(plan.Waiting)
	}
	if op.Node != nil && !e.resumed.IsZero() {
		// The execution that was interrupted may have taken this step for failed.
		if _, err := e.restore(ctx); err != nil {
			return result{}, err
		}
	}
	asked, err := e.fulfillConfiguration(ctx, node)
	if err != nil {
		return result{}, err
	}
	return result{message: text + describeWaiting(built.Waiting) + awaited + asked}, nil
}
