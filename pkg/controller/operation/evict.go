// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/drain"
)

const (
	// contestedDrain is how long a drain, or sending files before it, may take while hosts of other pools wait for its slot,
	// whatever its pool says: an hour is what the Machine Config Operator gives a drain before it alerts.
	contestedDrain = time.Hour
	// contestedInterval is how often a drain that has taken so long learns whether they do.
	contestedInterval = time.Minute
	// confirmedFor is for how long a drain takes a Node for what the API server has said of it, and how long it waits for that.
	confirmedFor = 10 * time.Second
	// lostAfter is for how long the cluster must not have heard of a kubelet that counts as lost. In the same time after an outage of the API server none
	// counts as lost. After one that was longer than --node-monitor-grace-period, Nodes are found lost whose kubelets are well and have not yet come to
	// say so: these do within some ten seconds, so that the clock of kube-controller-manager, which says since when, may also be half a minute behind.
	lostAfter = time.Minute
)

// requestedOptions are those of a drain, or of a reboot, that somebody requested, and its
// time-out. Zero: there is none. dead is asked unless somebody has said for how long pods that are being deleted are waited for.
func requestedOptions(requested *v1alpha1.DrainOptions, dead func() bool) (drain.Options, time.Duration) {
	o := v1alpha1.DrainOptions{}
	if requested != nil {
		o = *requested
	}
	v1alpha1.SetDefaults_DrainOptions(&o)
	skip, dead := skipWait(o.SkipWaitForDeleteTimeoutSeconds, dead)
	return drain.Options{
		GracePeriodSeconds: o.GracePeriodSeconds,
		IgnoreDaemonSets:   *o.IgnoreDaemonSets,
		DeleteEmptyDirData: o.DeleteEmptyDirData,
		Force:              o.Force,
		DisableEviction:    o.DisableEviction,
		PodSelector:        o.PodSelector,
		SkipWaitForDelete:  skip,
		Dead:               dead,
	}, time.Duration(*o.TimeoutSeconds) * time.Second
}

// poolOptions are those of an operation that changes or removes a host of a pool, and its
// time-out. The pool is nil for a host without one. dead is that of requestedOptions.
func poolOptions(pool *v1alpha1.WindowsNodePool, dead func() bool) (drain.Options, time.Duration) {
	o, path := v1alpha1.PoolDrainOptions{}, ""
	if pool != nil {
		o, path = pool.Spec.UpdateStrategy.Drain, fmt.Sprintf("pool %s, spec.updateStrategy.drain.", pool.Name)
	}
	v1alpha1.SetDefaults_PoolDrainOptions(&o)
	skip, dead := skipWait(o.SkipWaitForDeleteTimeoutSeconds, dead)
	return drain.Options{
		GracePeriodSeconds: o.GracePeriodSeconds,
		IgnoreDaemonSets:   true,
		DeleteEmptyDirData: *o.DeleteEmptyDirData,
		Force:              *o.Force,
		FieldPath:          path,
		SkipWaitForDelete:  skip,
		Dead:               dead,
	}, time.Duration(*o.TimeoutSeconds) * time.Second
}

// skipWait is for how long pods that are being deleted are waited for, and what is asked whether their kubelet is dead. Nil: somebody has said how
// long they are.
func skipWait(seconds *int32, dead func() bool) (time.Duration, func() bool) {
	if seconds == nil {
		return 0, dead
	}
	return time.Duration(*seconds) * time.Second, nil
}

// isDead says whether it may be that nobody speaks for a Node, so that its pods cannot be seen to end. A moment is enough: who asks waits for a while.
func isDead(node *corev1.Node) bool { return unready(node) != "" }

// unreachable says whether the cluster has lost the kubelet of a Node.
func unreachable(node *corev1.Node, now time.Time) bool {
	return node != nil && isSilent(node, now) && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnreachable })
}

// isSilent says whether no kubelet has spoken for a Node, nil for none, for lostAfter. What is said to begin in the future, by another clock, has just begun.
func isSilent(node *corev1.Node, now time.Time) bool {
	if node == nil {
		return true
	}
	since := node.CreationTimestamp // of one that nobody has ever spoken for
	if ready := object.NodeReady(node); ready != nil {
		since = ready.LastTransitionTime
	}
	return !object.KubeletReports(node) && now.Sub(since.Time) >= lostAfter
}

// nodeIs returns what says whether something is true of a Node, which is nil if it does not exist: by the cache and, as that may be behind and
// pods are killed for it, also by the API server, which is asked once for all questions within confirmedFor. Without an answer it is not true. What
// is returned reads nothing of the execution that changes, so that the goroutine of the drain may call it, and no other one beside that.
func (e *execution) nodeIs(ctx context.Context, name string) func(is func(*corev1.Node) bool) bool {
	var (
		live    *corev1.Node
		err     error
		askedAt time.Time
	)
	return func(is func(*corev1.Node) bool) bool {
		if cached, cacheErr := object.Get(ctx, e.client, client.ObjectKey{Name: name}, &corev1.Node{}); cacheErr != nil || !is(cached) {
			return false
		}
		if now := e.clock.Now(); askedAt.IsZero() || now.Sub(askedAt) >= confirmedFor {
			live, err = e.liveNode(ctx, name)
			askedAt = e.clock.Now()
		}
		return err == nil && is(live)
	}
}

// liveNode reads a Node from the API server, once. Nil: it does not exist. Any goroutine may call it.
func (e *execution) liveNode(ctx context.Context, name string) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, confirmedFor)
	defer cancel()
	node, err := e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // no Node is an ordinary answer
	}
	return node, err
}

// drainOptions are those of the operation. The time counts from when the
// step began.
func (e *execution) drainOptions(ctx context.Context) (drain.Options, error) {
	op := e.operation()
	nodeIs := e.nodeIs(ctx, op.Node.Name)
	dead := func() bool { return nodeIs(isDead) }
	o, timeout := requestedOptions(op.Drain, dead)
	if op.Type == v1alpha1.OperationReconfigure || op.Type == v1alpha1.OperationRemove || op.ByController() {
		pool, err := e.pool(ctx)
		if err != nil {
			return drain.Options{}, fmt.Errorf("reading how Nodes of the pool are drained: %w", err)
		}
		o, timeout = poolOptions(pool, dead)
		e.noteDrain(pool)
	}
	o.Unreachable = func() bool {
		return nodeIs(func(node *corev1.Node) bool { return unreachable(node, e.clock.Now()) })
	}
	// Since the Node was cordoned, maybe by another process, another one may have got its name.
	o.NodeUID = op.Node.UID
	if timeout > 0 {
		o.Deadline = e.deadline(op.FindStep(e.current).StartedAt.Time, timeout)
	}
	return o, nil
}

// noteDrain notes with which options of a pool the Node is drained. If the pods do not leave, that says whether the next attempt, with others, may do better.
func (e *execution) noteDrain(pool *v1alpha1.WindowsNodePool) {
	var o v1alpha1.PoolDrainOptions
	if pool != nil {
		o = pool.Spec.UpdateStrategy.Drain
	}
	e.note(func(status *v1alpha1.WindowsInstanceStatus) { status.Operation.Drain = o.Recorded() })
}

// evict has the pods of the Node leave.
func (e *execution) evict(ctx context.Context) (result, error) {
	op := e.operation()
	if op.Node == nil {
		return noNode, nil
	}
	o, err := e.drainOptions(ctx)
	if err != nil {
		return result{}, err
	}
	before := v1alpha1.OperationProgress{}
	if e.interrupted && op.Progress != nil {
		before = *op.Progress
	}
	latest := drain.Progress{}
	contested := false
	bounded := e.untilContested(&contested)
	stopWaiting := e.yieldLater(ctx)
	defer stopWaiting()
	err = follow(ctx, e.clock, &e.pace, firstAtOnce, func(ctx context.Context, report func(drain.Progress)) error {
		return retryDrain(ctx, e.clock, o, func(o drain.Options) error {
			return e.drainer.Run(ctx, op.Node.Name, bounded(o), report)
		})
	}, func(p drain.Progress, _ bool) error {
		latest = p
		return e.progress(ctx, op.Node.Name, countPods(before, p), p)
	})
	var timeout *drain.TimeoutError
	switch {
	case contested && errors.As(err, &timeout):
		return result{}, fmt.Errorf("hosts of other pools wait for the slot of this one, so that its drain ended after %s: %w", duration.HumanDuration(contestedDrain), err)
	case err != nil:
		return result{}, err
	}
	volumes, err := e.awaitVolumes(ctx)
	if err != nil {
		return result{}, err
	}
	message := "Pods that left: 0."
	if p := e.operation().Progress; p != nil {
		message = fmt.Sprintf("Pods that left: %d.", p.Done)
	}
	switch latest.Abandoned {
	case 0:
	case 1:
		message += " 1 pod took too long to be deleted and was not waited for."
	default:
		message += fmt.Sprintf(" %d pods took too long to be deleted and were not waited for.", latest.Abandoned)
	}
	if len(latest.Staying) > 0 {
		message += fmt.Sprintf(" Pods that came later and tolerate the cordon: %d.", len(latest.Staying))
	}
	return result{message: message + volumes}, nil
}

// untilContested returns what has a drain end at its own deadline or, when it has taken contestedDrain, as
// soon as hosts of other pools wait for the slot of this one: then it sets contested. What needs no slot
// has its own deadline only. What is returned reads nothing that changes while the drain runs, so that the goroutine of the drain may call it.
func (e *execution) untilContested(contested *bool) func(drain.Options) drain.Options {
	op := e.operation()
	if op.Type != v1alpha1.OperationReconfigure && op.Type != v1alpha1.OperationRemove && op.Cause == "" {
		return func(o drain.Options) drain.Options { return o }
	}
	until := e.deadline(op.FindStep(e.current).StartedAt.Time, contestedDrain)
	return func(o drain.Options) drain.Options {
		own := o.Deadline
		sooner := func(t time.Time) time.Time {
			if !own.IsZero() && own.Before(t) {
				return own
			}
			return t
		}
		o.Deadline = sooner(until)
		o.Extend = func() time.Time {
			now := e.clock.Now()
			if own.IsZero() || now.Before(own) {
				if *contested = e.Policy.Contested(e.key); *contested {
					return now
				}
			}
			return sooner(now.Add(contestedInterval))
		}
		return o
	}
}

// retryDrain drains again when the API server was in trouble, once also after the deadline: the
// trouble may have lasted for all of the time. What the drain itself says is final, the
// end of its time included.
func retryDrain(ctx context.Context, c clock.Clock, o drain.Options, run func(drain.Options) error) error {
	extended := false
	return retryAPI(ctx, c, "Draining the Node", isFinal, func() error {
		err := run(o)
		var (
			notAllowed *drain.NotAllowedError
			timeout    *drain.TimeoutError
			refused    *drain.RefusedError
		)
		switch {
		case err == nil:
			return nil
		case errors.As(err, &notAllowed) || errors.As(err, &timeout) || errors.As(err, &refused) || errors.Is(err, drain.ErrNodeReplaced):
			return finalError{err}
		case o.Deadline.IsZero() || c.Now().Before(o.Deadline):
			return err
		case extended:
			return finalError{err}
		}
		extended, o.Deadline = true, c.Now().Add(fullAttempt)
		return err
	})
}

// countPods counts pods across interruptions: a drain that continues knows only of the pods
// that are left. before is what was counted until then.
func countPods(before v1alpha1.OperationProgress, p drain.Progress) v1alpha1.OperationProgress {
	left := int32(p.Left())
	total := max(before.Total, left+int32(p.Gone+p.Abandoned))
	return v1alpha1.OperationProgress{Done: total - left, Total: total, Unit: "pods"}
}
