// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose/preflight"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// connect makes sure that the host can be worked with before anything is changed: a
// Node that was drained for a host which then cannot be restarted was drained in vain.
func (e *execution) connect(ctx context.Context) (result, error) {
	if t := e.operation().Type; t == v1alpha1.OperationReconfigure || t == v1alpha1.OperationRemove {
		// The agent on the host is verified again as well.
		e.Hosts.Forget(e.instance)
	}
	_, err := ask(ctx, e.clock, e.clock.Now().Add(patience), askTimeout, func(ctx context.Context) (host.Peer, error) {
		return e.Hosts.Login(ctx, e.instance)
	})
	if err != nil {
		return result{}, e.blame(ctx, "the host cannot be logged in to", err)
	}
	if ready, err := e.recovered(ctx); err != nil || ready {
		return result{enough: true, message: fmt.Sprintf("Node %s is ready again, so the host was left as it is.", e.operation().Node.Name)}, err
	}
	if made, err := e.fulfilledLate(ctx); err != nil || made != "" {
		return result{enough: true, message: made}, err
	}
	r := result{message: "The host answers, its key is the trusted one, and it accepts our credentials."}
	switch op := e.operation(); {
	case op.Type == v1alpha1.OperationRemove:
		if r.refusal, err = e.superseded(ctx); err == nil && r.refusal == "" {
			r.skips, err = e.claim(ctx)
		}
		if err == nil && r.refusal == "" && r.skips == nil {
			r.refusal, err = e.keepsFromCleanup(ctx)
		}
	case op.Type == v1alpha1.OperationReboot && rebootMode(op) == v1alpha1.RebootGraceful:
		err = e.ensureMayRestart(ctx)
	}
	return r, err
}

// ensureMayRestart finds out before the pods leave that Windows will refuse the restart, or that nobody could log in to the host after it.
func (e *execution) ensureMayRestart(ctx context.Context) error {
	facts := e.said(ctx)
	if facts == nil {
		return nil
	}
	if why := preflight.SSHDoesNotStart(facts); why != "" {
		return fmt.Errorf("the host has to be restarted, and %s", why)
	}
	if names := namesAtWork(facts); names != "" {
		return fmt.Errorf("the host has to be restarted, and these people are logged on: %[1]s; have them log off, or restart it without regard to them: kubectl windows reboot %[2]s -n %[3]s --mode=Force; it does not drain, so that pods are cut off: kubectl windows drain %[2]s -n %[3]s before it has them leave, and kubectl windows uncordon %[2]s -n %[3]s after it has the Node take pods again",
			names, e.instance.Name, e.instance.Namespace)
	}
	return nil
}

// recent is how old what a host said of itself may be that is no Node: no pods would leave it in vain.
const recent = time.Minute

// said is what the host says of itself now, or has just said. Nil: it does not; it may restart all the same.
func (e *execution) said(ctx context.Context) *api.Facts {
	if e.operation().Node == nil && e.facts != nil && e.clock.Since(e.factsAt) < recent {
		return e.facts
	}
	facts, err := ask(ctx, e.clock, time.Time{}, askTimeout, e.readFacts)
	if err != nil {
		return nil
	}
	return facts
}

// namesAtWork names the people because of whom Windows will refuse a restart. Empty: there are none, or it is not known.
func namesAtWork(facts *api.Facts) string {
	return words.Enumerate(api.AtWork(facts.Sessions), maxNamed)
}

// ensureRestartable finds out, before the pods of a host leave and once more before it is changed,
// that Windows would refuse the restart that a configuration needs. The host may have waited for
// hours since it was planned. After its first change it is too late.
func (e *execution) ensureRestartable(ctx context.Context) error {
	if op := e.operation(); op.Type != v1alpha1.OperationReconfigure || op.Impact != v1alpha1.ImpactReboot || op.HostChanged {
		return nil
	}
	return e.ensureMayRestart(ctx)
}

// blame says what could not be done, unless it is ctx that ended.
func (e *execution) blame(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s: %s", what, e.diagnose(err))
}

// checkPending ends the operation when Windows does not wait for a restart.
func (e *execution) checkPending(ctx context.Context) (result, error) {
	facts, err := e.gatherFacts(ctx, "the host does not report whether it waits for a restart")
	if err != nil {
		return result{}, err
	}
	if !facts.PendingReboot.Pending {
		return result{enough: true, message: "Windows does not wait for a restart, so the host was left as it is."}, nil
	}
	if err := e.ensureMayRestart(ctx); err != nil {
		return result{}, err
	}
	if len(facts.PendingReboot.Reasons) == 0 {
		return result{message: "Windows waits for a restart."}, nil
	}
	return result{message: "Windows waits for a restart: " + strings.Join(facts.PendingReboot.Reasons, ", ") + "."}, nil
}

func (e *execution) readFacts(ctx context.Context) (*api.Facts, error) {
	return e.Hosts.Facts(ctx, e.instance)
}

func (e *execution) readBootID(ctx context.Context) (string, error) {
	return e.Hosts.BootID(ctx, e.instance)
}

// gatherFacts inspects the host, again for some time if it cannot be reached. failure is
// what its error begins with.
func (e *execution) gatherFacts(ctx context.Context, failure string) (*api.Facts, error) {
	facts, err := ask(ctx, e.clock, e.clock.Now().Add(patience), askTimeout, e.readFacts)
	if err != nil {
		return nil, e.blame(ctx, failure, err)
	}
	return facts, nil
}

// restart asks the host to restart, exactly once. The boot to end is recorded
// first: the host refuses when it is in another one.
func (e *execution) restart(ctx context.Context) (result, error) {
	// Once the boot was recorded the request may have been made, by this process or another.
	mayBeSent := e.operation().BootID != ""
	if !mayBeSent && e.operation().Type == v1alpha1.OperationReconfigure && !e.needsRestart {
		plan, err := e.buildAndPlan(ctx)
		if err != nil {
			return result{}, err
		}
		if len(plan.Reboot) == 0 {
			const restarted = "The host has been restarted meanwhile."
			return result{skipped: true, message: restarted, skips: map[string]string{v1alpha1.StepBoot: restarted}}, nil
		}
	}
	if !mayBeSent {
		if ready, err := e.recovered(ctx); err != nil || ready {
			const again = "The Node is ready again, so Windows was not restarted."
			return result{skipped: true, message: again, skips: map[string]string{v1alpha1.StepBoot: again}}, err
		}
		id, err := ask(ctx, e.clock, e.clock.Now().Add(patience), askTimeout, e.readBootID)
		if err != nil {
			return result{}, e.blame(ctx, "the host does not report its boot ID, without which a restart cannot be detected", err)
		}
		e.unsent = true
		if err := e.update(ctx, func(op *v1alpha1.Operation) { op.BootID = id }); err != nil {
			return result{}, err
		}
	}
	deadline := e.rebootDeadline()
	unreachableUntil := e.clock.Now().Add(patience)
	away := unread{clock: e.clock}
	for {
		began := e.clock.Now()
		if err := e.ensureWanted(ctx); err != nil {
			return result{}, err
		}
		if blocked := e.clock.Now().Sub(began); blocked >= outage {
			unreachableUntil, began = unreachableUntil.Add(blocked), e.clock.Now()
		}
		e.unsent = false
		answer, err := e.requestRestart()
		switch {
		case err == nil && answer.Restarted:
			return result{message: "The host has been restarted."}, nil
		case err == nil:
			e.agreed = true
			return result{message: "The host has agreed to restart."}, nil
		}
		waits := away.waits(err, began)
		if !mayBeSent && diagnose.IsUnsent(err) {
			e.unsent = true
			if !waits && (!diagnose.IsTransient(err) || !e.clock.Now().Before(unreachableUntil)) {
				return result{}, e.blame(ctx, "the host did not accept the restart request", err)
			}
		} else {
			mayBeSent = true
		}
		if ctx.Err() != nil {
			return result{}, context.Cause(ctx)
		}
		if !waits && !e.clock.Now().Before(deadline) {
			return result{}, e.blame(ctx, "it is not known whether the host received the request to restart", err)
		}
		text := "It is not known yet whether the host received the request."
		if e.unsent {
			text = "The host could not be asked yet."
		}
		paused := e.clock.Now()
		if err := e.pause(ctx, "Restarting the host. %s %s", text, e.diagnose(err)); err != nil {
			return result{}, err
		}
		if blocked := e.clock.Now().Sub(paused); blocked >= outage && !waits {
			unreachableUntil = unreachableUntil.Add(blocked)
		}
		if waits {
			unreachableUntil = away.extend(unreachableUntil, began)
			continue
		}
		e.Hosts.Forget(e.instance) // the connection may be dead without knowing it
	}
}

// requestRestart makes the request. A cancellation does not cut it off half way, when
// it would not be known whether it took effect.
func (e *execution) requestRestart() (api.RestartAnswer, error) {
	return askOnce(e.lifetime, askTimeout, func(ctx context.Context) (api.RestartAnswer, error) {
		op := e.operation()
		return e.Hosts.Restart(ctx, e.instance, api.RestartRequest{
			BootID: op.BootID,
			Reason: fmt.Sprintf("Operation %s of WindowsInstance %s/%s, requested by %s", op.ID, e.instance.Namespace, e.instance.Name, op.RequestedBy),
			Force:  rebootMode(op) == v1alpha1.RebootForce,
		})
	})
}

// rebootDeadline is when the host must be back with its Node ready. A configuration may
// have to wait for more than that after a restart: each of its steps has this time.
func (e *execution) rebootDeadline() time.Time {
	op, timeout := e.operation(), rebootTimeout(e.operation(), e.current)
	eachStep := op.Type == v1alpha1.OperationReconfigure || op.Type == v1alpha1.OperationReboot && op.ByController()
	if op.Type == v1alpha1.OperationRestartServices || eachStep && e.current != v1alpha1.StepRestart && e.current != v1alpha1.StepBoot {
		return e.deadline(op.FindStep(e.current).StartedAt.Time, timeout)
	}
	began := e.clock.Now()
	if step := op.FindStep(v1alpha1.StepRestart); step != nil && step.StartedAt != nil {
		began = step.StartedAt.Time
	}
	if !e.mayBeDestroyed() {
		return e.deadline(began, timeout)
	}
	return e.unlessGivenUp(e.deadline(began, timeout), e.deadline(began, removedBoot))
}

// removedBoot is how long the restart of the host of a Machine that was cleaned may take although the host is due to be given up.
const removedBoot = 5 * time.Minute

// mayBeDestroyed says whether the host may be gone for good: it is removed, and its virtual machine is that of a Machine. Any other host is
// there, and may take long to restart.
func (e *execution) mayBeDestroyed() bool {
	return e.operation().Type == v1alpha1.OperationRemove && !e.instance.GivenUpAt().IsZero() && machineOf(e.instance) != ""
}

// unlessGivenUp is until when a host that does not answer is waited for. While it is removed that is until it is due to be given up,
// if that is sooner, but not before least: its virtual machine may be gone, and other hosts wait for it.
func (e *execution) unlessGivenUp(until, least time.Time) time.Time {
	over := e.instance.GivenUpAt()
	if e.operation().Type != v1alpha1.OperationRemove || over.IsZero() {
		return until
	}
	if over.Before(least) {
		over = least
	}
	if over.Before(until) {
		return over
	}
	return until
}

// boot waits until the host answers from another boot than the recorded one.
func (e *execution) boot(ctx context.Context) (result, error) {
	before, running := e.operation().BootID, ""
	since := e.operation().FindStep(e.current).StartedAt.Time
	if !e.agreed { // otherwise its connection has just served
		e.Hosts.Forget(e.instance)
	}
	deadline := e.rebootDeadline()
	err := e.waitUntil(ctx, deadline, "Waiting until the host is back.", func(ctx context.Context) (string, error) {
		id, err := ask(ctx, e.clock, time.Time{}, askTimeout, e.readBootID)
		switch {
		case err != nil:
			if diagnose.IsTransient(err) {
				e.Hosts.Forget(e.instance) // the connection may have died with the host and not know it
			}
			if now := e.clock.Now(); ordinary(err) && now.Sub(since) < slowBoot && now.Before(deadline) {
				return "It does not answer yet", nil
			}
			return e.diagnose(err), nil
		case id == before:
			return stillUp(e.operation(), e.clock.Now().Sub(since)), nil
		}
		running = id
		return "", nil
	})
	if err != nil {
		return result{}, e.late(ctx, "the host was asked to restart and did not come back", err)
	}
	if e.operation().Type == v1alpha1.OperationRemove {
		// Our agent was put there once more, for the restart.
		if _, err := e.clean(ctx); err != nil {
			return result{}, err
		}
	}
	asked, err := e.fulfillRestart(ctx)
	if err != nil {
		return result{}, err
	}
	return result{restarted: true, message: fmt.Sprintf("The host has restarted (boot ID %s before, %s now).%s", before, running, asked)}, nil
}

// slowBoot is after which time it is worth a word why a host that restarts does not answer.
const slowBoot = 3 * time.Minute

// ordinary says whether a host that restarts gives this error in the course of it: it
// cannot be reached, or stops programs while it goes down.
func ordinary(err error) bool {
	var agent *agentclient.Error
	return diagnose.IsTransient(err) || errors.As(err, &agent)
}

// slowShutdown is after which time a host that has not gone down is worth a word. Windows
// stops its services first, and those of a node take some seconds each.
const slowShutdown = 30 * time.Second

// stillUp says what a host lacks that was asked to restart some time ago and still answers.
func stillUp(op *v1alpha1.Operation, since time.Duration) string {
	switch {
	case since < slowShutdown:
		return "It is going down"
	case op.Type == v1alpha1.OperationReboot && rebootMode(op) != v1alpha1.RebootForce:
		return "It has not gone down yet; Windows may be installing updates, or a program may be blocking the shutdown: end it at the console of the host"
	}
	return "It has not gone down yet; Windows may be installing updates"
}

// late says what did not happen in time.
func (e *execution) late(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e.mayBeDestroyed() {
		return fmt.Errorf("%s in the time that spec.removal.afterSeconds leaves: %w", what, err)
	}
	return fmt.Errorf("%s within %s: %w", what, rebootTimeout(e.operation(), e.current), err)
}

// essential services must run before a Node can be ready: without one of them that starts
// with the host the reboot fails. All others, those that are no node's included, are left to
// Windows and to whoever installed them: that one ran before the restart does not mean that
// it has to run after it.
var essential = []string{wmco.ContainerdService, wmco.KubeletService}

// servicesOfNode are the other ones of a node. Whether they run is said, and not waited for.
var servicesOfNode = []string{
	wmco.KubeProxyService, wmco.HybridOverlayService, wmco.CSIProxyService, wmco.WindowsExporterService, wmco.CloudNodeManagerService, wmco.WICDService, api.ServiceName,
}

// proxyPatience is for how long kube-proxy is waited for. hybrid-overlay-node makes the network of pods within a minute after the kubelet has started, and
// our agent starts kube-proxy with it.
const proxyPatience = 3 * time.Minute

// startedByAgent says whether our agent starts a service after each boot, as it does kube-proxy, and nothing that the host does not have keeps it from that.
func startedByAgent(facts *api.Facts, s api.Service) bool {
	c := facts.Configuration
	return s.Name == wmco.KubeProxyService && s.StartType == string(config.StartManual) && strings.HasPrefix(s.Description, config.DescriptionTag) &&
		c.AppliedRevision != "" && c.ApplyingRevision == "" && !slices.ContainsFunc(c.Waiting, func(w api.Waiting) bool { return w.Service == s.Name })
}

// startsWithHost says whether a service is to run after each boot.
func startsWithHost(facts *api.Facts, s api.Service) bool {
	return strings.HasPrefix(s.StartType, "Automatic") || startedByAgent(facts, s)
}

// stopped returns those of the named services that exist, start as starts says and do not run.
func stopped(facts *api.Facts, names []string, starts func(*api.Facts, api.Service) bool) []string {
	var out []string
	for _, s := range facts.Services {
		if slices.Contains(names, s.Name) && starts(facts, s) && s.State != "Running" {
			out = append(out, s.Name+" ("+s.State+")")
		}
	}
	return out
}

// doNotRun says that services do not run. Empty: there are none.
func doNotRun(services []string) string {
	if len(services) == 0 {
		return ""
	}
	return "These do not run: " + strings.Join(services, ", ")
}

// checkServices inspects the host, and returns what it lacks for its essential services to
// run, empty if they do.
func (e *execution) checkServices(ctx context.Context) (facts *api.Facts, lacks string) {
	facts, err := ask(ctx, e.clock, time.Time{}, askTimeout, e.readFacts)
	if err != nil {
		return nil, e.diagnose(err)
	}
	return facts, doNotRun(stopped(facts, essential, startsWithHost))
}

// services waits until the services run without which there is no Node, and for some time for kube-proxy: without it the pods that are about to come
// reach no Service.
func (e *execution) services(ctx context.Context) (result, error) {
	var facts *api.Facts
	err := e.waitUntil(ctx, e.rebootDeadline(), "Waiting for the services of the host.", func(ctx context.Context) (lacks string, _ error) {
		facts, lacks = e.checkServices(ctx)
		return lacks, nil
	})
	if err != nil {
		return result{}, e.late(ctx, "the host is back, and its services did not start", err)
	}
	if facts, err = e.awaitProxy(ctx, facts); err != nil {
		return result{}, err
	}
	message := "All essential services that are installed are running."
	if missing := stopped(facts, servicesOfNode, startsWithHost); len(missing) > 0 {
		message += " These start with the host and do not run yet: " + strings.Join(missing, ", ") + "."
	}
	return result{message: message}, nil
}

// awaitProxy waits until kube-proxy runs that our agent starts, and not for long. It returns what the host says of itself last.
func (e *execution) awaitProxy(ctx context.Context, facts *api.Facts) (*api.Facts, error) {
	deadline := e.clock.Now().Add(proxyPatience)
	if all := e.rebootDeadline(); all.Before(deadline) {
		deadline = all
	}
	proxy := []string{wmco.KubeProxyService}
	err := e.waitUntil(ctx, deadline, "Waiting for kube-proxy.", func(ctx context.Context) (lacks string, _ error) {
		if len(stopped(facts, proxy, startedByAgent)) == 0 {
			return "", nil
		}
		now, lacks := e.checkServices(ctx)
		if now == nil {
			return lacks, nil
		}
		facts = now
		return doNotRun(stopped(facts, proxy, startedByAgent)), nil
	})
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return facts, nil // its caller says what does not run
}

// metadataRoute puts the routes to the metadata and other services back before the Node takes pods
// again. The agent as a service does so within a minute of any restart.
func (e *execution) metadataRoute(ctx context.Context) (result, error) {
	id, err := e.providerID(ctx)
	if err != nil {
		return result{}, err
	}
	var routes []api.Route
	for _, destination := range document.MetadataRoutes(id) {
		routes = append(routes, api.Route{Destination: destination})
	}
	if len(routes) == 0 {
		return result{skipped: true, message: "Only hosts on AWS need it."}, nil
	}
	changed, err := ask(ctx, e.clock, e.rebootDeadline(), askTimeout, func(ctx context.Context) ([]api.Route, error) {
		return e.Hosts.EnsureRoutes(ctx, e.instance, routes)
	})
	if err != nil {
		return result{}, e.blame(ctx, "the routes to the metadata service cannot be restored", err)
	}
	if len(changed) == 0 {
		return result{message: "The routes to the metadata service already existed."}, nil
	}
	list := make([]string, len(changed))
	for i, r := range changed {
		list[i] = r.Destination.Addr().String()
	}
	return result{message: "Routes that were restored: " + strings.Join(list, ", ") + "."}, nil
}

// providerID is that of the instance, or else that of its Node.
func (e *execution) providerID(ctx context.Context) (string, error) {
	if id := e.instance.Spec.ProviderID; id != "" || e.operation().Node == nil {
		return id, nil
	}
	node, err := e.cachedNode(ctx)
	if err != nil || node == nil {
		return "", err
	}
	return node.Spec.ProviderID, nil
}
