// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// silencePatience is for how long a kubelet that is gone, or can no longer report, may seem to: until the cluster notices that
// (--node-monitor-grace-period of kube-controller-manager). That usually takes less than a minute, and five with the slowest of the worker latency
// profiles of OpenShift, LowUpdateSlowReaction. Who judges earlier takes a host for another machine. Clocks may differ by half a minute.
const silencePatience = 5*time.Minute + 30*time.Second + lostAfter + 30*time.Second

// joins says whether the operation is to make the host a Node: it is none yet, or the step Plan
// found out that its kubelet cannot speak for its Node any more.
func (e *execution) joins() bool { return e.operation().Node == nil || e.operation().MustJoinAgain() }

// joinsAgain says whether a host that has a Node has to join the cluster again, and why, for
// people: its kubelet has no client certificate that it can use. A Node that is reported for is left
// alone: whoever does so has one.
func (e *execution) joinsAgain(ctx context.Context, c *api.KubeletCertificate) (again bool, why string, err error) {
	if e.operation().Node == nil || !c.Useless() {
		return false, "", nil
	}
	name := e.operation().Node.Name
	reports, err := e.awaitSilence(ctx, fmt.Sprintf("The host has to join again: %s.", c))
	switch {
	case err != nil:
		return false, "", err
	case reports:
		return false, fmt.Sprintf("A kubelet reports for Node %s, although %s.", name, c), nil
	}
	return true, fmt.Sprintf("The host joins the cluster again: %s.", c), nil
}

// lostCertificate says why the kubelet of the host cannot report any more. Empty: it can, or it is
// not known.
func (e *execution) lostCertificate(ctx context.Context) (why string, err error) {
	if node, err := e.cachedNode(ctx); err != nil || object.KubeletReports(node) {
		return "", nil //nolint:nilerr // it is looked for again
	}
	facts, err := ask(ctx, e.clock, time.Time{}, askTimeout, e.readFacts)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil || !facts.Configuration.KubeletCertificate.Useless():
		return "", nil //nolint:nilerr // a host that cannot be reached goes on waiting
	}
	return facts.Configuration.KubeletCertificate.String(), nil
}

// awaitSilence waits until no kubelet reports for the Node of the operation any more, and says
// whether one still does when that takes too long. why is for people.
func (e *execution) awaitSilence(ctx context.Context, why string) (reports bool, err error) {
	name, uid := e.operation().Node.Name, e.operation().Node.UID
	until := e.deadline(e.operation().FindStep(e.current).StartedAt.Time, silencePatience)
	err = e.waitUntil(ctx, until, fmt.Sprintf("%s Waiting until nobody reports for Node %s.", why, name), func(ctx context.Context) (string, error) {
		node, err := e.readNode(ctx, name)
		reports = err == nil && node != nil && node.UID == uid && !isSilent(node, e.clock.Now())
		switch {
		case err != nil || !reports:
			return "", err
		case !object.KubeletReports(node):
			return "a kubelet did less than a minute ago, and may again", nil
		}
		return "a kubelet still does", nil
	})
	if reports && ctx.Err() == nil && !errors.Is(err, errOver) {
		return true, nil
	}
	return false, err
}

// joinAgain waits until the kubelet of a Node has a client certificate that it can use.
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
	return result{message: fmt.Sprintf("The kubelet of Node %s has a new client certificate.", name), joined: true}, nil
}
