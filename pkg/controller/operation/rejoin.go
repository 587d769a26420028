// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// staleReady is for how long a Node may look ready whose kubelet can no longer report: until the
// cluster notices that, which usually takes less than a minute.
const staleReady = 90 * time.Second

// joins says whether the operation is to make the host a Node: it is none yet, or the step Plan
// found out that its kubelet cannot speak for its Node any more, which the step Join then says until
// it has ended.
func (e *execution) joins() bool {
	op := e.operation()
	if op.Node == nil {
		return true
	}
	plan, join := op.FindStep(v1alpha1.StepPlan), op.FindStep(v1alpha1.StepJoin)
	return plan != nil && join != nil && plan.Ended() && !join.Ended() && join.Message != ""
}

// joinsAgain says whether a host that has a Node has to join the cluster again, and why, for
// people: its kubelet has no client certificate that it can use. A Node that stays ready is left
// alone: whoever reports for it has one.
func (e *execution) joinsAgain(ctx context.Context, c *api.KubeletCertificate) (again bool, why string, err error) {
	if e.operation().Node == nil || !c.Useless() {
		return false, "", nil
	}
	name := e.operation().Node.Name
	var ready bool
	err = e.waitUntil(ctx, e.deadline(e.operation().FindStep(e.current).StartedAt.Time, staleReady), fmt.Sprintf("The host has to join again: %s. Waiting until its Node %s is no longer ready.", c, name), func(ctx context.Context) (string, error) {
		node, err := e.readNode(ctx, name)
		ready = err == nil && node != nil && node.UID == e.operation().Node.UID && unready(node) == ""
		if err != nil || !ready {
			return "", err
		}
		return "a kubelet still reports for it", nil
	})
	switch {
	case err == nil:
		return true, fmt.Sprintf("The host joins the cluster again: %s.", c), nil
	case ready && ctx.Err() == nil:
		return false, fmt.Sprintf("Node %s is ready, although %s.", name, c), nil
	}
	return false, "", err
}

// joinAgain waits until the kubelet of a Node has a client certificate that it can use, and revokes
// what it got that with.
func (e *execution) joinAgain(ctx context.Context) (result, error) {
	name := e.operation().Node.Name
	began := e.operation().FindStep(e.current).StartedAt.Time
	err := e.waitUntil(ctx, e.deadline(began, joinTimeout), fmt.Sprintf("Waiting until the kubelet of Node %s has a new client certificate.", name), func(ctx context.Context) (lacks string, err error) {
		facts, err := ask(ctx, e.clock, time.Time{}, askTimeout, e.readFacts)
		switch {
		case err != nil:
			return e.diagnose(err), nil
		case facts.Configuration.KubeletCertificate.Useless():
			return notJoined(facts.Configuration.KubeletCertificate.String(), e.clock.Now().Sub(began), e.instance), nil
		}
		return "", nil
	})
	if err != nil {
		if ctx.Err() != nil {
			return result{}, context.Cause(ctx)
		}
		return result{}, fmt.Errorf("the host is configured and the kubelet of its Node %s did not get a client certificate within %s: %w", name, joinTimeout, err)
	}
	if err := e.revokeUsed(ctx); err != nil {
		return result{}, err
	}
	return result{message: fmt.Sprintf("The kubelet of Node %s has a new client certificate.", name)}, nil
}
