// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose/preflight"
)

// inspect has our agent inspect the host, and puts it there if it is not, or not as it
// should be.
func (e *execution) inspect(ctx context.Context) (result, error) {
	const failure = "the host cannot be inspected"
	digest, err := e.agentDigest(ctx, failure)
	if err != nil {
		return result{}, err
	}
	facts, err := ask(ctx, e.clock, e.clock.Now().Add(patience), askTimeout, func(ctx context.Context) (*api.Facts, error) {
		e.inspectedFrom = e.clock.Now()
		defer func() { e.inspectedUntil = e.clock.Now() }()
		return e.readFacts(ctx)
	})
	if err != nil {
		return result{}, e.blame(ctx, failure, err)
	}
	e.inspected, e.inspectedBy = facts, digest
	return result{message: fmt.Sprintf("The host runs %s %s, and its computer name is %s.", facts.System.Product, facts.System.Version, facts.Name.Hostname)}, nil
}

// preflight judges whether the host is fit to be a node, by what it has just said of itself.
func (e *execution) preflight(ctx context.Context) (result, error) {
	if e.inspected == nil {
		if _, err := e.inspect(ctx); err != nil {
			return result{}, err
		}
	}
	findings := preflight.Evaluate(e.inspected, e.inspectedFrom, e.inspectedUntil)
	if wrong := inTheWay(findings); len(wrong) > 0 {
		return result{}, fmt.Errorf("the host is not fit to be a node: %s", strings.Join(wrong, "; "))
	}
	message := "Nothing prevents the host from being a node."
	if n := len(findings); n > 0 {
		message += fmt.Sprintf(" Findings worth knowing: %d, see the condition PreflightPassed.", n)
	}
	return result{message: message}, nil
}

// inTheWay are the findings that are in the way.
func inTheWay(findings []preflight.Finding) (out []string) {
	for _, f := range findings {
		if f.Severity == preflight.Error {
			out = append(out, f.Message)
		}
	}
	return out
}

// agent makes sure that the agent of our version is on the host, as it is here. A host that was inspected a moment ago is not asked again: our
// agent was verified for that.
func (e *execution) agent(ctx context.Context) (result, error) {
	facts, at, has := e.inspected, e.inspectedUntil, e.inspectedBy
	if e.inspected = nil; facts == nil {
		const failure = "our agent cannot be put on the host"
		var err error
		if has, err = e.agentDigest(ctx, failure); err != nil {
			return result{}, err
		}
		if facts, err = e.gatherFacts(ctx, failure); err != nil {
			return result{}, err
		}
		at = e.clock.Now()
	}
	version, digest := e.Hosts.Agent()
	if !ours(has, digest) {
		return result{}, fmt.Errorf("the agent on the host has digest %s, expected %s…: it was replaced; check the security software of the host before you continue", has, digest)
	}
	e.facts, e.factsAt = facts, at
	return result{message: fmt.Sprintf("The agent %s, digest %s, is on the host.", version, digest)}, nil
}

// agentDigest has the agent on the host compute its digest, again for some time if the host cannot be reached. failure is what its error
// begins with.
func (e *execution) agentDigest(ctx context.Context, failure string) (string, error) {
	digest, err := ask(ctx, e.clock, e.clock.Now().Add(e.stepPatience()), askTimeout, func(ctx context.Context) (string, error) {
		return e.Hosts.AgentDigest(ctx, e.instance)
	})
	if err != nil {
		return "", e.blame(ctx, failure, err)
	}
	return digest, nil
}

// stepPatience is for how long a host that cannot be reached is tried in the current step. One that was changed is verified when its Node takes
// pods again: to give up because of a network that is away for some minutes would have the Node cordoned, and its pool stopped.
func (e *execution) stepPatience() time.Duration {
	if e.current == v1alpha1.StepVerify && e.touched() {
		return silence
	}
	return patience
}

// ours says whether a digest is that of our agent, which begins with digest.
func ours(has, digest string) bool { return digest != "" && strings.HasPrefix(has, digest) }

// verify makes sure that the host answers over a new connection, with our agent as it is now.
func (e *execution) verify(ctx context.Context) (result, error) {
	e.Hosts.Forget(e.instance)
	has, err := e.agentDigest(ctx, "the host does not answer any more")
	if err != nil {
		return result{}, err
	}
	if _, digest := e.Hosts.Agent(); !ours(has, digest) {
		return result{}, fmt.Errorf("the agent on the host was replaced meanwhile by one with the digest %s", has)
	}
	if e.operation().FindStep(v1alpha1.StepApply) != nil {
		return e.verifyConfiguration(ctx)
	}
	return result{message: "The host has its desired configuration."}, nil
}
