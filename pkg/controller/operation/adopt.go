// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// compare finds out whether a host of WMCO can go on as the node that it is with our configuration. Nothing is changed.
func (e *execution) compare(ctx context.Context) (result, error) {
	node, err := e.nodeOfOthers(ctx)
	if err != nil {
		return result{}, err
	}
	if err := e.ensureMadeByWMCO(ctx, node); err != nil {
		return result{}, err
	}
	built, err := e.build(ctx) // fails while WMCO runs
	if err != nil {
		return result{}, err
	}
	plan, err := e.planAdoption(ctx, adoptionOf(node, built))
	if err != nil {
		return result{}, err
	}
	// The API server has asked for that, too, if it has a payload.
	err = retryAPI(ctx, e.clock, "Reading whether WMCO would be started again", doesNotPass, func() error { return e.Adoptable(ctx) })
	if err != nil {
		return result{}, err
	}
	if err := e.ensureSameName(); err != nil {
		return result{}, err
	}
	if c := plan.KubeletCertificate; c.Useless() {
		return result{}, fmt.Errorf("the kubelet of Node %s cannot be taken over as it is: %s", node.Name, c)
	}
	return result{message: "The host can be taken over as it is. For the next update: " + describePlan(plan, planImpact(plan)) + describeTaken(plan, built)}, nil
}

// adoptionOf is the request to adopt a host that WMCO has made this Node.
func adoptionOf(node *corev1.Node, built *document.Result) *api.AdoptRequest {
	return built.Adoption(node.Name, node.Annotations[wmco.VersionAnnotation])
}

// planAdoption has the host say what its first update would do, and whether it can be adopted at all.
func (e *execution) planAdoption(ctx context.Context, request *api.AdoptRequest) (*api.Plan, error) {
	plan, err := ask(ctx, e.clock, e.clock.Now().Add(patience), planTimeout, func(ctx context.Context) (*api.Plan, error) {
		return e.Hosts.PlanAdoption(ctx, e.instance, request)
	})
	if refused := agentclient.AdoptionRefused(err); refused != nil {
		return nil, refused
	}
	if err != nil {
		return nil, e.blame(ctx, "the host does not return a plan", err)
	}
	e.nodeName = plan.NodeName
	return plan, nil
}

// describeTaken says which services the first update of an adopted host takes away, and what is to be known of its configuration, as the
// end of a message. Empty: none, and nothing.
func describeTaken(plan *api.Plan, built *document.Result) (text string) {
	var taken []string
	for _, i := range plan.Items {
		if i.Kind == api.KindService && i.Action == api.ActionDelete {
			taken = append(taken, i.Name)
		}
	}
	if len(taken) > 0 {
		text = " Services that it takes away: " + strings.Join(taken, ", ") + "."
	}
	if len(built.Warnings) > 0 {
		text += " " + message.Sentence(strings.Join(built.Warnings, "; "))
	}
	return text
}

// nodeOfOthers returns the Node of a host that we have not configured.
func (e *execution) nodeOfOthers(ctx context.Context) (*corev1.Node, error) {
	if e.operation().Node == nil {
		return nil, agentclient.ErrNothingToAdopt
	}
	name := e.operation().Node.Name
	node, err := e.readNode(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case node == nil || node.UID != e.operation().Node.UID:
		return nil, fmt.Errorf("node %s was deleted", name)
	case object.Ours(node):
		return nil, fmt.Errorf("node %s was not made by the Windows Machine Config Operator, but by an instance of namespace %s", name, node.Labels[v1alpha1.NamespaceLabel])
	}
	return node, nil
}

// ensureMadeByWMCO makes sure that WMCO has configured the host of a Node: the Node says so, or the daemon of WMCO is on the host, or may have
// been until an adoption removed it that broke off. People remove the annotation of a Node to have WMCO configure it again.
func (e *execution) ensureMadeByWMCO(ctx context.Context, node *corev1.Node) error {
	if object.MadeByWMCO(node) || e.instance.Status.AdoptionBrokeOff(node.UID) {
		return nil
	}
	managed, err := e.hasWICD(ctx)
	if err == nil && !managed {
		err = fmt.Errorf("node %s does not have the annotation %s of the Windows Machine Config Operator, nor its host the service %s, so that it is not known with what the host was configured; to configure it all the same: kubectl windows reconfigure %s -n %s",
			node.Name, wmco.VersionAnnotation, wmco.WICDService, e.instance.Name, e.instance.Namespace)
	}
	return err
}

// adopt has the host remove the daemon of WMCO, and record what WMCO has configured as ours, as it is.
func (e *execution) adopt(ctx context.Context) (result, error) {
	if err := e.ensureWanted(ctx); err != nil {
		return result{}, err
	}
	if err := e.ensureRepresents(ctx); err != nil {
		return result{}, err
	}
	node, err := e.nodeOfOthers(ctx)
	if err != nil {
		return result{}, err
	}
	built, err := e.build(ctx)
	if err != nil {
		return result{}, err
	}
	request := adoptionOf(node, built)
	ctx, cancel := e.limited(ctx)
	defer cancel()
	done, err := e.change(ctx, "Taking the host over.", func(ctx context.Context, instance *v1alpha1.WindowsInstance, report func(api.Event)) (*api.Result, error) {
		return e.Hosts.Adopt(ctx, instance, request, report)
	})
	switch {
	case err != nil:
		return result{}, err
	case done.Outcome == api.OutcomeFailed:
		return result{}, agentclient.NotAdoptable(errors.New(done.Error))
	}
	// From now on it is the host of this instance. One that was only half adopted is nobody's: it is not configured by itself.
	if err := e.update(ctx, func(op *v1alpha1.Operation) { op.HostChanged = true }); err != nil {
		return result{}, err
	}
	if done.Outcome == api.OutcomeUnchanged {
		return result{skipped: true, message: "The host was taken over before."}, nil
	}
	said := "The host is taken over, and nothing was restarted."
	var started []string
	removed := ""
	for _, i := range done.Changed {
		if i.Action == api.ActionDelete {
			removed = " Removed: service " + i.Name + "."
		} else {
			started = append(started, i.Name)
		}
	}
	if len(started) > 0 {
		said += " Windows starts these services from now on: " + strings.Join(started, ", ") + "."
	}
	said += removed
	return result{message: said + " What differs from its desired configuration waits for the next update of its pool."}, nil
}

// ensureUnmanaged refuses to configure a host on which the daemon of WMCO is: it would bring each service back to
// what it was. Where the host is a Node of others, it can be adopted in place of that.
func (e *execution) ensureUnmanaged(ctx context.Context) error {
	if managed, err := e.hasWICD(ctx); !managed || err != nil {
		return err
	}
	var node *corev1.Node
	if known := e.operation().Node; known != nil {
		var err error
		if node, err = e.readNode(ctx, known.Name); err != nil {
			return err
		}
	}
	name, namespace := e.instance.Name, e.instance.Namespace
	remedy := "Remove the service"
	if node != nil && !object.Ours(node) {
		remedy = fmt.Sprintf("Take the host over: kubectl windows adopt %s -n %s. If that fails because the host is no working node, remove the service", name, namespace)
	}
	return fmt.Errorf("the Windows Machine Config Operator manages this host: its service %s would undo what is configured. %s: kubectl windows exec %s -n %s -- sc.exe delete %s, and restart the host",
		wmco.WICDService, remedy, name, namespace, wmco.WICDService)
}

// hasWICD says whether the daemon of WMCO is on the host. It fails where that cannot be known.
func (e *execution) hasWICD(ctx context.Context) (bool, error) {
	facts, err := e.knownFacts(ctx)
	if err != nil {
		return false, err
	}
	if facts.Service(wmco.WICDService) != nil {
		return true, nil
	}
	for _, unread := range facts.Errors {
		if unread.Area == api.AreaServices || strings.EqualFold(unread.Area, api.AreaServices+"/"+wmco.WICDService) {
			return false, fmt.Errorf("the services of the host cannot be read, so that it is not known whether the Windows Machine Config Operator manages it with its service %s: %s. Find out with kubectl windows inspect %s -n %s what keeps the agent from reading them",
				wmco.WICDService, unread.Message, e.instance.Name, e.instance.Namespace)
		}
	}
	return false, nil
}

// knownFacts are the facts that the step Agent has read. They are read where that was another execution's.
func (e *execution) knownFacts(ctx context.Context) (*api.Facts, error) {
	if e.facts != nil {
		return e.facts, nil
	}
	return e.gatherFacts(ctx, "the host cannot be inspected")
}

// describeAdoption says in what state a host is left whose adoption ended early. Empty: as it was.
func describeAdoption(op *v1alpha1.Operation) string {
	if !begun(op, v1alpha1.StepAdopt) {
		return " Nothing was changed."
	}
	return " Its pods run as before. Service " + wmco.WICDService + " may have been removed, so that nobody manages the host: adopt it again."
}
