// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package diagnose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose/preflight"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Layers of a check.
const (
	CheckResolve      = "Resolve"
	CheckBastion      = "Bastion" // only where there is one
	CheckConnect      = "Connect"
	CheckHandshake    = "Handshake"
	CheckHostKey      = "HostKey"
	CheckAuthenticate = "Authenticate"
	CheckSession      = "Session"
	CheckAgent        = "Agent"
	CheckPreflight    = "Preflight"
	CheckAPIServer    = "APIServer"
)

// checkLayer is a layer, with the stage that is blamed when its error says nothing.
type checkLayer struct {
	name  string
	stage Stage
}

// checkLayers are the layers in their order, which begins with that of [ssh.Trace].
var checkLayers = []checkLayer{
	{CheckResolve, StageResolve},
	{CheckBastion, StageHostKey},
	{CheckConnect, StageHostKey},
	{CheckHandshake, StageHostKey},
	{CheckHostKey, StageHostKey},
	{CheckAuthenticate, StageLogin},
	{CheckSession, StageLogin},
	{CheckAgent, StageFacts},
	{CheckPreflight, StageFacts},
	{CheckAPIServer, StageFacts},
}

// checkTimeout bounds a whole check: the API server answers requests within 34 seconds.
const checkTimeout = 30 * time.Second

// check is a check in the making.
type check struct {
	instance *v1alpha1.WindowsInstance
	status   v1alpha1.WindowsInstanceCheckStatus
	// layers are those that are tried.
	layers []checkLayer
	// ended says why no further layer is tried. Empty: it is.
	ended string
}

// Checker checks hosts. It is safe for concurrent use.
type Checker struct {
	hosts  *host.Connector
	agents *agentclient.Client
	reach  ReachAsker
}

// NewChecker returns a Checker. A nil reach: whether a host reaches the API server is not checked.
func NewChecker(hosts *host.Connector, agents *agentclient.Client, reach ReachAsker) *Checker {
	return &Checker{hosts, agents, reach}
}

// Check tries the way to the host now, layer by layer, over a connection of its own. It
// changes nothing on the host: a missing agent is not installed. It answers
// within half a minute, whatever the host does. What fails has the reason and the advice
// that the conditions of the instance would have. A check in which nothing failed has
// passed, also when the agent is not installed yet and the host is not inspected.
func (h *Checker) Check(ctx context.Context, instance *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstanceCheckStatus {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	c := &check{instance: instance, layers: slices.Clone(checkLayers)}
	if h.reach == nil {
		c.drop(CheckAPIServer)
	}
	h.check(ctx, c)
	for _, l := range c.layers[len(c.status.Layers):] {
		c.status.Layers = append(c.status.Layers, v1alpha1.CheckLayer{Name: l.name, Result: v1alpha1.CheckSkipped, Message: c.ended})
	}
	// A layer is skipped because one before it failed, or because the agent is not installed yet:
	// every host begins like that, and nothing has to be repaired.
	c.status.Passed = !slices.ContainsFunc(c.status.Layers, func(l v1alpha1.CheckLayer) bool { return l.Result == v1alpha1.CheckFailed })
	return &c.status
}

func (h *Checker) check(ctx context.Context, c *check) {
	trace := h.hosts.Trace(ctx, c.instance)
	defer trace.Close()
	if trace.Target.Bastion == nil && trace.BastionErr == nil {
		c.drop(CheckBastion)
	}
	for i, step := range trace.Steps {
		name := c.layers[i].name
		switch {
		case name == CheckHostKey && trace.KeysErr != nil:
			c.failed(name, step.Duration, v1alpha1.ReasonNotTried, fmt.Sprintf("No key is trusted: %s.", cause(trace.KeysErr)))
		case step.Err != nil:
			c.diagnosed(name, step.Duration, step.Err, trace)
		default:
			c.passed(name, step.Duration, c.describe(name, trace))
		}
		if c.ended != "" {
			return
		}
	}
	if trace.BastionErr != nil {
		c.diagnosed(CheckBastion, trace.BastionDuration, trace.BastionErr, trace)
		return
	}
	if trace.CredentialErr != nil {
		c.diagnosed(CheckAuthenticate, trace.CredentialDuration, trace.CredentialErr, trace)
		return
	}
	h.checkAgent(ctx, c, trace)
}

// checkAgent verifies the agent, and has it inspect the host if it is installed.
func (h *Checker) checkAgent(ctx context.Context, c *check, trace *host.Trace) {
	began := time.Now()
	agent, err := h.agents.Installed(ctx, trace.Pool, trace.Target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.skipped(CheckAgent, fmt.Sprintf("The way to the host works. The program windows-node-agent with the digest %s, which inspects the host, is not installed yet: the controller installs it, or the next request that needs it.", agent.Digest))
		return
	case err != nil:
		c.diagnosed(CheckAgent, time.Since(began), err, nil)
		return
	}
	c.passed(CheckAgent, time.Since(began), "digest "+agent.Digest)

	asked := time.Now()
	facts, err := agent.Facts(ctx)
	received := time.Now()
	if err != nil {
		c.diagnosed(CheckPreflight, received.Sub(asked), err, nil)
		return
	}
	c.evaluated(facts, asked, received)
	if c.ended == "" && h.reach != nil {
		h.checkReach(ctx, c)
	}
}

// drop leaves a layer out.
func (c *check) drop(name string) {
	c.layers = slices.DeleteFunc(c.layers, func(l checkLayer) bool { return l.name == name })
}

func (c *check) add(layer v1alpha1.CheckLayer, took time.Duration) {
	layer.Message = answer.Line(layer.Message, answer.MaxText)
	layer.Duration = metav1.Duration{Duration: took.Round(100 * time.Microsecond)}
	c.status.Layers = append(c.status.Layers, layer)
}

func (c *check) passed(name string, took time.Duration, message string) {
	c.add(v1alpha1.CheckLayer{Name: name, Result: v1alpha1.CheckPassed, Message: message}, took)
}

func (c *check) skipped(name, message string) {
	c.add(v1alpha1.CheckLayer{Name: name, Result: v1alpha1.CheckSkipped, Message: message}, 0)
	c.ended = fmt.Sprintf("It needs the layer %s, which was skipped; check again later.", name)
}

func (c *check) failed(name string, took time.Duration, reason, message string) {
	c.add(v1alpha1.CheckLayer{Name: name, Result: v1alpha1.CheckFailed, Reason: reason, Message: message}, took)
	c.ended = fmt.Sprintf("It needs the layer %s, which failed.", name)
}

// diagnosed is failed by an error. The trace may be nil.
func (c *check) diagnosed(name string, took time.Duration, err error, trace *host.Trace) {
	d := Diagnose(c.layers[len(c.status.Layers)].stage, err, c.instance)
	message := d.Message
	if e, ok := ssh.AsError(err); ok && e.Reason == ssh.ReasonHostKeyUnknown && trace != nil && trace.HostKey != nil {
		message = fmt.Sprintf("%s It presents %s.", message, host.KeyOf(trace.HostKey).Describe())
	}
	c.failed(name, took, d.Reason, message)
}

// describe is what is worth knowing of a layer that passed.
func (c *check) describe(name string, trace *host.Trace) string {
	switch name {
	case CheckResolve:
		list := make([]string, len(trace.Addresses))
		for i, address := range trace.Addresses {
			list[i] = address.Unmap().String()
		}
		return strings.Join(list, ", ")
	case CheckBastion:
		b := trace.Target.Bastion
		text := fmt.Sprintf("%s port %d (%s), %s, user %s", b.Address, cmp.Or(b.Port, ssh.DefaultPort), trace.Bastion.Address, host.KeyOf(trace.Bastion.HostKey).Describe(), b.User)
		return remarkedOn(text, b.Credential, trace.Bastion.Certified)
	case CheckConnect:
		if trace.Target.Bastion != nil {
			return trace.Peer.String() + ", from the bastion"
		}
		return netip.AddrPortFrom(trace.Peer.Addr().Unmap(), trace.Peer.Port()).String()
	case CheckHandshake:
		return trace.ServerVersion // known only when logged in
	case CheckHostKey:
		if len(c.instance.Spec.HostKeys) > 0 {
			return host.KeyOf(trace.HostKey).Describe() + ", pinned in spec.hostKeys"
		}
		return host.KeyOf(trace.HostKey).Describe() + ", recorded in status.hostKeys"
	case CheckAuthenticate:
		text := "user " + c.instance.Spec.Username + ", " + trace.AcceptedCredential()
		return remarkedOn(text, trace.Target.Credential, trace.Certified)
	}
	return ""
}

// remarkedOn is what is said of a login, with what people should know of the credentials. That certificates were not taken is no news
// where one was.
func remarkedOn(text string, of ssh.Credential, certified bool) string {
	remark := of.Remark
	if certified {
		remark = of.Warning
	}
	if remark == "" {
		return text
	}
	return text + ". " + remark
}

// severityOrder puts errors first.
var severityOrder = map[preflight.Severity]int{preflight.Error: 0, preflight.Warning: 1}

// evaluated ends the check with what preflight says.
func (c *check) evaluated(facts *api.Facts, asked, received time.Time) {
	findings := preflight.Evaluate(facts, asked, received)
	slices.SortStableFunc(findings, func(a, b preflight.Finding) int {
		return severityOrder[a.Severity] - severityOrder[b.Severity]
	})
	blocking := 0
	for _, f := range findings {
		severity := v1alpha1.FindingWarning
		if f.Severity == preflight.Error {
			severity = v1alpha1.FindingError
			blocking++
		}
		c.status.Findings = append(c.status.Findings, v1alpha1.CheckFinding{Code: f.Code, Severity: severity, Message: f.Message})
	}
	took := received.Sub(asked)
	if blocking > 0 {
		c.failed(CheckPreflight, took, v1alpha1.ReasonFindings, fmt.Sprintf("The host cannot be a node yet, %d of %d findings are errors; see findings.", blocking, len(findings)))
		return
	}
	message := "The host is fit to be a node."
	if len(findings) > 0 {
		message += fmt.Sprintf(" %d findings are worth knowing; see findings.", len(findings))
	}
	c.passed(CheckPreflight, took, message)
}
