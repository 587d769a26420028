// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

const (
	// joinTimeout is how long a host that is configured gets to become a Node.
	joinTimeout = 10 * time.Minute
	// slowJoin is after which time it is worth a word where to look.
	slowJoin = 90 * time.Second
)

// join waits until the host has become a Node, which the reconciler of instances sees,
// and revokes what the host could become one with.
func (e *execution) join(ctx context.Context) (result, error) {
	if !e.joins() {
		return result{skipped: true, message: isNodeAlready(e.operation().Node)}, nil
	}
	if e.operation().Node != nil {
		return e.joinAgain(ctx)
	}
	began := e.operation().FindStep(e.current).StartedAt.Time
	var node *v1alpha1.OperationNode
	err := e.waitUntil(ctx, e.deadline(began, joinTimeout), "Waiting until the host has become a Node.", func(ctx context.Context) (lacks string, err error) {
		if node, err = e.joinedNode(ctx); node != nil || err != nil {
			return "", err
		}
		return notJoined("Its kubelet has not registered it", e.clock.Now().Sub(began), e.instance), nil
	})
	if err != nil {
		if ctx.Err() != nil {
			return result{}, context.Cause(ctx)
		}
		return result{}, fmt.Errorf("the host is configured and did not become a Node within %s: %w", joinTimeout, err)
	}
	if err := e.revokeUsed(ctx); err != nil {
		return result{}, err
	}
	return result{message: fmt.Sprintf("The host is Node %s.", node.Name), node: node}, nil
}

// revokeUsed revokes what the host has joined with.
func (e *execution) revokeUsed(ctx context.Context) error {
	if err := e.ensureLeading(ctx); err != nil {
		return err
	}
	if err := retryAPI(ctx, e.clock, "Revoking the credentials to join", isFinal, func() error {
		return e.Configuration.Revoke(ctx, e.instance)
	}); err != nil {
		return fmt.Errorf("the credentials with which the host became a Node cannot be revoked: %w", err)
	}
	return nil
}

// isNodeAlready says why a host does not join.
func isNodeAlready(node *v1alpha1.OperationNode) string {
	return fmt.Sprintf("The host is Node %s already.", node.Name)
}

// joinedNode returns the Node of the host, nil as long as there is none. It looks into the
// cache first, as many hosts may be waited for at the same time.
func (e *execution) joinedNode(ctx context.Context) (*v1alpha1.OperationNode, error) {
	instance := &v1alpha1.WindowsInstance{}
	if err := e.client.Get(ctx, e.key, instance); err != nil || instance.Status.Node == nil {
		return nil, nil //nolint:nilerr,nilnil // what cannot be read now is looked for again
	}
	if err := e.load(ctx); err != nil {
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

// revoke takes from the host what it could become a Node with, when the operation ends
// without that. It ends by itself as well, so that a failure is no reason to go on.
func (e *execution) revoke(ctx context.Context) {
	op := e.operation()
	planned := op.FindStep(v1alpha1.StepPlan)
	if join := op.FindStep(v1alpha1.StepJoin); e.Configuration == nil || planned == nil || planned.StartedAt == nil || join == nil || join.Ended() {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := retryAPI(bounded, e.clock, "Revoking the credentials to join", isFinal, func() error {
		return e.Configuration.Revoke(bounded, e.instance)
	}); err != nil {
		log.FromContext(ctx).Error(err, "The credentials of the host to become a Node are not revoked, and expire within the hour")
	}
}
