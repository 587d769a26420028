// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

const (
	// joinTimeout is how long a host that is configured gets to become a Node.
	joinTimeout = 10 * time.Minute
	// slowJoin is after which time it is worth a word where to look.
	slowJoin = 90 * time.Second
	// joinLook is how often the API server is asked, and not the cache: while it is away no Node can be recorded, and the time does not count.
	joinLook = time.Minute
)

// join waits until the host has become a Node, which the reconciler of instances sees.
func (e *execution) join(ctx context.Context) (result, error) {
	if !e.joins() {
		return result{skipped: true, message: isNodeAlready(e.operation().Node)}, nil
	}
	if e.operation().Node != nil {
		return e.joinAgain(ctx)
	}
	began := e.operation().FindStep(e.current).StartedAt.Time
	var node *v1alpha1.OperationNode
	looked := e.clock.Now()
	err := e.waitUntil(ctx, e.deadline(began, joinTimeout), "Waiting until the host has become a Node.", func(ctx context.Context) (lacks string, err error) {
		live := e.clock.Now().Sub(looked) >= joinLook
		if node, err = e.joinedNode(ctx, live); node != nil || err != nil {
			return "", err
		}
		if live {
			looked = e.clock.Now()
		}
		return notJoined("Its kubelet has not registered it", e.clock.Now().Sub(began), e.instance), nil
	})
	if err != nil {
		if ctx.Err() != nil {
			return result{}, context.Cause(ctx)
		}
		return result{}, fmt.Errorf("the host is configured and did not become a Node within %s: %w", joinTimeout, err)
	}
	return result{message: fmt.Sprintf("The host is Node %s.", node.Name), node: node}, nil
}

// joinName returns the name of the node that the host is given credentials to become. The host has to say it:
// it may have it from the metadata service of its platform. Empty: it has joined meanwhile, and needs none.
func (e *execution) joinName(ctx context.Context) (string, error) {
	if e.nodeName == "" { // the step Plan was another execution's
		if _, err := e.planWithoutJoin(ctx); err != nil {
			return "", err
		}
	}
	if e.nodeName == "" {
		return "", errors.New("the host does not know yet what its node is called, and cannot join before: on platforms where that is in the metadata service, see whether the host reaches it")
	}
	if err := e.ensureSameName(); err != nil {
		return "", err
	}
	if node, err := e.readNode(ctx, e.nodeName); node == nil || err != nil {
		return e.nodeName, err
	}
	plan, err := e.planWithoutJoin(ctx)
	if err != nil {
		return "", err
	}
	if c := plan.KubeletCertificate; c != nil && !c.Useless() {
		return "", nil
	}
	return e.nodeName, nil
}

// ensureSameName refuses what would have the host call itself otherwise than the Node that it is, according to its last
// plan: the API server takes nothing from a kubelet that has the certificate of another Node, so the host would be lost as
// soon as its kubelet is started again.
func (e *execution) ensureSameName() error {
	node := e.operation().Node
	if node == nil || e.nodeName == "" || e.nodeName == node.Name {
		return nil
	}
	return fmt.Errorf("the host is Node %s, but its kubelet would call itself %s now: give the host its former name back, or, "+
		"to have it join under the new one, delete the Node: kubectl delete node %s", node.Name, e.nodeName, node.Name)
}

// planWithoutJoin asks the host for its plan for the configuration that it has in the end.
func (e *execution) planWithoutJoin(ctx context.Context) (*api.Plan, error) {
	built, err := e.buildFor(ctx, "")
	if err != nil {
		return nil, err
	}
	return e.planHost(ctx, built)
}

// isNodeAlready says why a host does not join.
func isNodeAlready(node *v1alpha1.OperationNode) string {
	return fmt.Sprintf("The host is Node %s already.", node.Name)
}

// joinedNode returns the Node of the host, nil as long as there is none. Unless it is to ask the API server (live), it looks into the
// cache first, as many hosts may be waited for at the same time.
func (e *execution) joinedNode(ctx context.Context, live bool) (*v1alpha1.OperationNode, error) {
	if !live {
		instance := &v1alpha1.WindowsInstance{}
		if err := e.client.Get(ctx, e.key, instance); err != nil || instance.Status.Node == nil {
			return nil, nil //nolint:nilerr,nilnil // what cannot be read now is looked for again
		}
	}
	if err := e.load(ctx); err != nil || e.instance.Status.Node == nil {
		return nil, err
	}
	return e.findNode(ctx)
}

// notJoined says what a host lacks that was configured some time ago and has not joined.
func notJoined(lacks string, since time.Duration, instance *v1alpha1.WindowsInstance) string {
	if since < slowJoin {
		return lacks + " yet"
	}
	return fmt.Sprintf("%s. Read its log: kubectl windows logs %s -n %s kubelet. Look for pending or denied CSRs: kubectl get csr",
		lacks, instance.Name, instance.Namespace)
}
