// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	kubectldrain "k8s.io/kubectl/pkg/drain"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

const (
	// RetryInterval is how long to wait before a pod that may not leave is asked again. It
	// is that of kubectl drain.
	RetryInterval = 5 * time.Second
	// slowRetryInterval is the same after retryOften: budgets that are short for that long are for hours, and the requests of
	// many drains that wait so must not keep others from the API server.
	slowRetryInterval = 30 * time.Second
	retryOften        = 5 * time.Minute
	// skipWaitForDead is for how long a pod is waited for whose kubelet is dead, and askDead how often it is asked whether it is.
	skipWaitForDead = time.Minute
	askDead         = time.Minute
	// graceUnreachable is what a pod gets to end, in seconds, if its kubelet cannot be reached. With 0 the API server would forget the pod at once,
	// and a StatefulSet make another one while this one may still run.
	graceUnreachable int64 = 1
	// parallel bounds how many pods of a Node are asked to leave at the same time.
	parallel = 10
	// nodeNameField selects the pods of a Node.
	nodeNameField = "spec.nodeName"
)

// Drainer has pods leave. It is safe for concurrent use.
type Drainer struct {
	client kubernetes.Interface
	clock  clock.Clock
	// ask asks a pod to leave and returns the answer of the API server as it is.
	ask func(ctx context.Context, p *tracked, o Options) error
}

// New returns a Drainer.
func New(client kubernetes.Interface) *Drainer {
	d := &Drainer{client: client, clock: clock.RealClock{}}
	d.ask = d.request
	return d
}

// Run has the pods of a Node leave and waits until they have. The Node should be
// cordoned. report is called from this goroutine with what has changed; it should not
// take long. Run ends with ctx, and then with its cause; what it has asked for until
// then goes on. It may be called again and continues where things are.
//
// Errors are [NotAllowedError], [TimeoutError], [RefusedError] and [ErrNodeReplaced], which calling again
// does not change, and others, mostly of the API server, which it may.
func (d *Drainer) Run(ctx context.Context, node string, o Options, report func(Progress)) error {
	t := &tracker{options: o}
	for round := 1; ; round++ {
		if err := d.isSame(ctx, node, o.NodeUID); err != nil {
			return err
		}
		pods, err := d.selectPods(ctx, node, o)
		if err != nil {
			return err
		}
		if round > 1 {
			// The scheduler may have put pods on the Node just before it was cordoned. Those
			// that tolerate the cordon come back as often as they are evicted.
			t.staying = nil
			pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
				if toleratesCordon(&pod) {
					t.staying = append(t.staying, nameOf(&pod))
					return true
				}
				return t.abandoned(pod.UID)
			})
		}
		if len(pods) == 0 {
			report(t.progress())
			return nil
		}
		if round > 2 { // whatever makes pods on a cordoned Node makes them again at once
			if err := d.sleep(ctx, RetryInterval); err != nil {
				return err
			}
		}
		t.add(pods, d.clock.Now())
		if err := d.follow(ctx, node, t, report); err != nil {
			return err
		}
	}
}

// isSame fails if another Node has got the name. The pods of one that is gone may still leave.
func (d *Drainer) isSame(ctx context.Context, name string, uid types.UID) error {
	if uid == "" {
		return nil
	}
	node, err := d.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading Node %s: %w", name, err)
	case node.UID != uid:
		return fmt.Errorf("the pods of Node %s stay: %w", name, ErrNodeReplaced)
	}
	return nil
}

// sleep waits for a while, or until ctx ends, whose cause it then returns.
func (d *Drainer) sleep(ctx context.Context, long time.Duration) error {
	timer := d.clock.NewTimer(long)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C():
		return nil
	}
}

// selectPods returns the pods that are to leave, or a [NotAllowedError].
func (d *Drainer) selectPods(ctx context.Context, node string, o Options) ([]corev1.Pod, error) {
	// The helper is told to allow everything: what is not allowed is found out below,
	// all of it at once and in the words of our options.
	skip := o.SkipWaitForDelete
	if o.dead() {
		skip = skipWaitForDead
	}
	helper := &kubectldrain.Helper{
		Ctx: ctx, Client: lean{d.client}, Force: true, DeleteEmptyDirData: true, IgnoreAllDaemonSets: true,
		PodSelector: o.PodSelector, ChunkSize: podsPage,
		SkipWaitForDeleteTimeoutSeconds: int(skip / time.Second),
		Out:                             io.Discard, ErrOut: io.Discard,
	}
	list, errs := helper.GetPodsForDeletion(node)
	switch len(errs) {
	case 0:
	case 1: // an aggregate hides what the API server has said
		return nil, fmt.Errorf("finding the pods to evict: %w", errs[0])
	default:
		return nil, fmt.Errorf("finding the pods to evict: %w", utilerrors.NewAggregate(errs))
	}
	evictable := list.Pods()
	var daemons []corev1.Pod
	if !o.IgnoreDaemonSets {
		var err error
		if daemons, err = d.daemonPods(ctx, node, o, evictable); err != nil {
			return nil, err
		}
	}
	if against := objections(evictable, daemons, o); len(against) > 0 {
		return nil, &NotAllowedError{Objections: against}
	}
	return evictable, nil
}

// daemonPods returns the pods of DaemonSets that the helper passes over.
func (d *Drainer) daemonPods(ctx context.Context, node string, o Options, evictable []corev1.Pod) ([]corev1.Pod, error) {
	var daemons []corev1.Pod
	err := EachPod(ctx, d.client, node, o.PodSelector, func(pod *corev1.Pod) {
		if ofDaemonSet(pod) && !slices.ContainsFunc(evictable, func(e corev1.Pod) bool { return e.UID == pod.UID }) {
			daemons = append(daemons, *trimmed(pod))
		}
	})
	return daemons, err
}

// answer is what came of asking a pod to leave.
type answer struct {
	pod     *tracked
	stage   stage
	blocked *v1alpha1.BlockedPod // nil: it leaves
}

// follow asks the pods of t to leave and returns when they have.
func (d *Drainer) follow(ctx context.Context, node string, t *tracker, report func(Progress)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)

	changed := make(chan struct{}, 1)
	informer := d.podsOf(node, changed)
	wg.Go(func() { informer.RunWithContext(ctx) })
	began := d.clock.Now()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return context.Cause(ctx)
	}
	synced := d.clock.Now()
	lookup := func(namespace, name string) *corev1.Pod {
		found, ok, err := informer.GetStore().GetByKey(namespace + "/" + name)
		if pod, isPod := found.(*corev1.Pod); ok && err == nil && isPod {
			return pod
		}
		return nil
	}
	answers := make(chan answer, parallel)
	var reported *Progress
	for {
		now := d.clock.Now()
		t.observe(now, lookup)
		if progress := t.progress(); reported == nil || !reflect.DeepEqual(*reported, progress) {
			reported = &progress
			report(progress)
		}
		if t.settled() {
			return t.refused()
		}
		if deadline := t.options.Deadline; !deadline.IsZero() && !now.Before(deadline) {
			later := deadline
			if t.options.Extend != nil {
				later = t.options.Extend()
			}
			switch {
			case now.Before(later):
				t.options.Deadline = later
			case began.Before(deadline) && !synced.Before(deadline) && synced.Sub(began) > requestTimeout: // no pod was asked to leave
				return fmt.Errorf("the API server did not list the pods of Node %s before the end of the time", node)
			default:
				return d.giveUp(ctx, node, t, report)
			}
		}
		options := t.options // without a deadline that changes
		options.GracePeriodSeconds = t.grace()
		for _, p := range t.due(now, parallel) {
			terminating := p.deleted != nil
			wg.Go(func() { answers <- d.evict(ctx, p, terminating, options) })
		}
		timer := d.alarm(t.next(), now)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case a := <-answers:
			t.answered(a, d.clock.Now())
		case <-changed:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// giveUp ends a drain at its deadline, unless the pods have left. The API server says which have: what follow knows is as old as an outage of it,
// and up to a minute older. Without an answer nobody knows, and the error is another one than at the end of the time.
func (d *Drainer) giveUp(ctx context.Context, node string, t *tracker, report func(Progress)) error {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	left := map[string]*corev1.Pod{}
	if err := EachPod(bounded, d.client, node, "", func(pod *corev1.Pod) { left[pod.Namespace+"/"+pod.Name] = followed(pod) }); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("finding out at the end of the time which pods have left: %w", err)
	}
	t.unanswered()
	t.observe(d.clock.Now(), func(namespace, name string) *corev1.Pod { return left[namespace+"/"+name] })
	report(t.progress())
	if t.settled() {
		return t.refused()
	}
	return t.timeout()
}

// alarm goes off at the given time; the zero value is a day from now.
func (d *Drainer) alarm(at, now time.Time) clock.Timer {
	if at.IsZero() {
		return d.clock.NewTimer(24 * time.Hour)
	}
	return d.clock.NewTimer(max(at.Sub(now), 0))
}

// podsOf follows the pods of a Node and keeps of them what a drain needs. changed is
// filled when something happens.
func (d *Drainer) podsOf(node string, changed chan<- struct{}) cache.SharedIndexInformer {
	selector := fields.OneTermEqualSelector(nodeNameField, node).String()
	pods := d.client.CoreV1().Pods(metav1.NamespaceAll)
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return pods.Watch(ctx, o)
		},
	}, d.client), &corev1.Pod{}, 0, cache.Indexers{})
	// Both can only fail on an informer that runs.
	_ = informer.SetTransform(func(object any) (any, error) {
		if pod, ok := object.(*corev1.Pod); ok {
			return followed(pod), nil
		}
		return object, nil
	})
	wake := func(any) {
		select {
		case changed <- struct{}{}:
		default: // somebody was woken and has not looked yet
		}
	}
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: wake, UpdateFunc: func(_, object any) { wake(object) }, DeleteFunc: wake,
	})
	return informer
}

// followed is what a drain keeps of a pod that it waits for.
func followed(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, DeletionTimestamp: pod.DeletionTimestamp,
	}}
}
