// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// NodeSettledFunc says whether the labels and taints of the Node of an instance are those that its pool wants. pool is nil for an instance
// in none.
type NodeSettledFunc func(ctx context.Context, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node) (bool, error)

// readNode finds out whether what the Node has is what it is to have. That matters only where it might not be, though nobody wants it changed.
func (r *Reconciler) readNode(ctx context.Context, s *snapshot) error {
	status := &s.instance.Status
	if r.Desired == nil || r.NodeSettled == nil || s.node == nil || status.CurrentRevision != "" && !status.Unconfirmed(s.pool) {
		return nil
	}
	settled, err := r.NodeSettled(ctx, s.instance, s.pool, s.node)
	s.nodeDiffers = !settled
	return err
}

// found notes that the host was configured before anything was known of it here, with a revision that it says itself: its instance was made
// again, with its pool perhaps, and nobody knows what these said before. The host of an operation of ours is known.
func (e *evaluation) found(applied string) {
	if e.status.CurrentRevision == "" && applied != "" && e.status.UnconfirmedSince == nil && !e.status.ChangedHost() && e.status.NewestOperation(v1alpha1.OperationReconfigure) == nil {
		e.unconfirm()
	}
}

// maxClockAhead is by how much the clock may have been ahead that says since when a host waits for a confirmation. With one that was set back by more,
// the host waits since now.
const maxClockAhead = time.Minute

func (e *evaluation) unconfirm() {
	e.status.UnconfirmedSince = new(metav1.NewTime(e.now.Truncate(time.Second)))
}

// confirmation notes which pool the host has, that it is to wait because the pool was made again, and that it does not wait any more.
func (e *evaluation) confirmation() {
	switch pool := e.pool; {
	case e.instance.Spec.PoolRef == nil:
		e.status.Pool = nil
	case pool == nil, !e.managed && e.status.PoolMadeAgain(pool): // what came of the former one stays
	default:
		if e.status.PoolMadeAgain(pool) && e.status.CurrentRevision != "" && e.status.UnconfirmedSince == nil {
			e.unconfirm()
		}
		e.status.Pool = &v1alpha1.KnownPool{Name: pool.Name, UID: pool.UID}
	}
	if since := e.status.UnconfirmedSince; since != nil && since.After(e.now.Add(maxClockAhead)) {
		e.unconfirm() // else nobody could confirm it until then
	}
	if e.status.UnconfirmedSince != nil && e.managed && e.confirmed() {
		e.status.UnconfirmedSince = nil
	}
}

// confirmed says whether the host waits for no confirmation any more: somebody has given it, there is nothing to confirm, as the host
// and its Node have what is desired, or the host has nothing any more.
func (e *evaluation) confirmed() bool {
	since := e.status.UnconfirmedSince
	if e.status.CurrentRevision == "" || e.pool.Confirms(since) {
		return true
	}
	for _, o := range e.status.Operations() {
		decides := o.Type == v1alpha1.OperationReconfigure || o.Type == v1alpha1.OperationAdopt
		if decides && !o.ByController() && o.FinishedAt != nil && !o.FinishedAt.Before(since) && (o.Phase == v1alpha1.OperationSucceeded || o.MayHaveChangedHost()) {
			return true
		}
	}
	if e.instance.Spec.PoolRef != nil && e.pool == nil || e.inputs != nil || e.node == nil {
		return false
	}
	return e.status.CurrentRevision == e.revision && !e.nodeDiffers
}

// waitsForConfirmation says whether the host is left as it is though something else is desired. One that is no Node disturbs nobody by what
// it gets, and one that is being configured does not wait.
func (e *evaluation) waitsForConfirmation() bool {
	return e.status.UnconfirmedSince != nil && e.node != nil && !e.status.NewestOperation(v1alpha1.OperationReconfigure).Active() && (e.status.CurrentRevision != e.status.DesiredRevision || e.nodeDiffers)
}

// unconfirmed says for the condition UpToDate why the host is left as it is, and how somebody decides that.
func (e *evaluation) unconfirmed() {
	var differs string
	if e.status.CurrentRevision != e.status.DesiredRevision {
		differs = fmt.Sprintf("has revision %s; the desired one is %s", v1alpha1.ShortRevision(e.status.CurrentRevision), orUnknown(v1alpha1.ShortRevision(e.status.DesiredRevision)))
	} else {
		differs = "has the desired revision, but its Node has other labels or taints than those that are desired"
	}
	name, namespace := e.instance.Name, e.instance.Namespace
	text := fmt.Sprintf("The host was configured before this object or its pool was made, and %s. It is left as it is, and so are the labels and taints of Node %s, because what it was to have may be lost. ", differs, e.node.Name)
	if pool := e.instance.Spec.PoolRef; pool != nil {
		text += fmt.Sprintf("If pool %s is not as it was, restore it: kubectl edit wnp %[1]s -n %s. ", pool.Name, namespace)
		if e.pool != nil && e.pool.RolledBack(e.pool.Status.UpdateRevision) == nil { // to resume would roll out again what was rolled back
			text += fmt.Sprintf("To have all such hosts of the pool get what it says now: kubectl windows rollout resume %s -n %s. Only this one: ", pool.Name, namespace)
		} else {
			text += "To have it get what is desired now: "
		}
	} else {
		text += "To have it get what is desired: "
	}
	e.set(v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonConfirmationNeeded, text+fmt.Sprintf("kubectl windows reconfigure %s -n %s%s", name, namespace, e.warned()))
}
