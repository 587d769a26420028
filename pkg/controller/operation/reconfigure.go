// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// inspect has our agent inspect the host, and puts it there if it is not, or not as it
// should be.
func (e *execution) inspect(ctx context.Context) (result, error) {
	facts, err := e.gatherFacts(ctx, "the host cannot be inspected")
	if err != nil {
		return result{}, err
	}
	e.inspected = facts
	return result{message: fmt.Sprintf("The host runs %s %s, and its computer name is %s.", facts.System.Product, facts.System.Version, facts.Name.Hostname)}, nil
}

// preflight judges whether the host is fit to be a node.
func (e *execution) preflight(ctx context.Context) (result, error) {
	bounded, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status := e.Hosts.Check(bounded, e.instance)
	if ctx.Err() != nil {
		return result{}, context.Cause(ctx)
	}
	if wrong := inTheWay(status); len(wrong) > 0 {
		return result{}, fmt.Errorf("the host is not fit to be a node: %s", strings.Join(wrong, "; "))
	}
	message := "Nothing prevents the host from being a node."
	if n := len(status.Findings); n > 0 {
		message += fmt.Sprintf(" Findings worth knowing: %d, see the condition PreflightPassed.", n)
	}
	return result{message: message}, nil
}

// inTheWay are the layers that failed and the findings that are in the way.
func inTheWay(status *v1alpha1.WindowsInstanceCheckStatus) []string {
	var out []string
	for _, f := range status.Findings {
		if f.Severity == v1alpha1.FindingError {
			out = append(out, f.Message)
		}
	}
	if len(out) > 0 {
		return out // the layer that failed says the same
	}
	for _, layer := range status.Layers {
		if layer.Result == v1alpha1.CheckFailed {
			out = append(out, layer.Name+": "+layer.Message)
		}
	}
	return out
}

// agent makes sure that the agent of our version is on the host, as it is here. A host that was inspected a moment ago is not asked again: our
// agent was verified for that.
func (e *execution) agent(ctx context.Context) (result, error) {
	facts := e.inspected
	if e.inspected = nil; facts == nil {
		var err error
		if facts, err = e.gatherFacts(ctx, "our agent cannot be put on the host"); err != nil {
			return result{}, err
		}
	}
	version, digest := e.Hosts.Agent()
	if !ours(facts, digest) {
		return result{}, fmt.Errorf("the agent on the host has digest %s, expected %s…: it was replaced; check the security software of the host before you continue", facts.Agent.SHA256, digest)
	}
	e.facts = facts
	return result{message: fmt.Sprintf("The agent %s, digest %s, is on the host.", version, digest)}, nil
}

func ours(facts *api.Facts, digest string) bool {
	return digest != "" && strings.HasPrefix(facts.Agent.SHA256, digest)
}

// verify makes sure that the host answers over a new connection with what it has now.
func (e *execution) verify(ctx context.Context) (result, error) {
	e.Hosts.Forget(e.instance)
	facts, err := e.gatherFacts(ctx, "the host does not answer any more")
	if err != nil {
		return result{}, err
	}
	if _, digest := e.Hosts.Agent(); !ours(facts, digest) {
		return result{}, fmt.Errorf("the agent on the host was replaced meanwhile by one with the digest %s", facts.Agent.SHA256)
	}
	if e.operation().FindStep(v1alpha1.StepApply) != nil {
		return e.verifyConfiguration(ctx)
	}
	return result{message: "The host has its desired configuration."}, nil
}
