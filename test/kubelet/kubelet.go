// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package kubelet stands in for kubelets. Pods that are bound to the Node run, and pods
// that are being deleted end. [Start] is for a Node that no machine is behind, and [Join]
// for a host that was configured: it reads the files of the host and makes a Node of it,
// with certificates and all. Tests, benchmarks and the demo import it; it imports nothing
// of ours.
package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// defaultReportInterval is far below the 40 s after which kube-controller-manager
	// takes a Node for lost, and short enough for tests that wait for a report.
	defaultReportInterval = 200 * time.Millisecond
	// workers is how many pods are looked after at the same time.
	workers = 8
	// lookForHost is how often a kubelet whose host is down looks whether it is up.
	lookForHost = time.Second
)

// Options for [Start].
type Options struct {
	// Client acts as the kubelet. It needs all rights on nodes and pods.
	Client kubernetes.Interface
	// Node is the name of a Node that exists.
	Node string
	// ReportInterval is the time between two reports. 0: 200 ms.
	ReportInterval time.Duration
	// Up says whether the host is up. While it is not, nothing is done; when it is up
	// again, the Node is reported at once. Nil: it always is.
	Up func() bool
	// Logf is told of requests that failed; they are tried again. Nil: nobody is.
	Logf func(format string, args ...any)

	// report writes the status of the Node and says whether it is done. Nil: it only says
	// that the Node is ready.
	report func(ctx context.Context) bool
}

// Kubelet is a running stand-in. Its methods may be called concurrently.
//
// A pod that was bound to its Node is ready after the longest initialDelaySeconds of the
// readiness probes of its containers. One that is being deleted ends after the longest
// sleep of their preStop hooks, and at the end of its grace period at the latest.
type Kubelet struct {
	options Options
	pods    cache.SharedIndexInformer
	queue   workqueue.TypedRateLimitingInterface[string]
	stop    context.CancelFunc
	wait    sync.WaitGroup

	mu     sync.Mutex // guards what follows
	silent bool
	keep   bool
	grace  map[string]int64
}

// Start starts a stand-in, which works until Stop.
func Start(o Options) (*Kubelet, error) {
	if o.ReportInterval <= 0 {
		o.ReportInterval = defaultReportInterval
	}
	if o.Up == nil {
		o.Up = func() bool { return true }
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if o.report == nil {
		o.report = o.reportReady
	}
	selector := fields.OneTermEqualSelector("spec.nodeName", o.Node).String()
	factory := informers.NewSharedInformerFactoryWithOptions(o.Client, 0,
		informers.WithTweakListOptions(func(list *metav1.ListOptions) { list.FieldSelector = selector }))
	k := &Kubelet{
		options: o,
		pods:    factory.Core().V1().Pods().Informer(),
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, time.Second)),
		grace:   map[string]int64{},
	}
	if _, err := k.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: k.enqueue, UpdateFunc: func(_, object any) { k.enqueue(object) },
	}); err != nil {
		return nil, fmt.Errorf("watching the pods of Node %s: %w", o.Node, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.stop = cancel
	k.wait.Go(func() { k.pods.RunWithContext(ctx) })
	k.wait.Go(func() { k.report(ctx) })
	for range workers {
		k.wait.Go(func() { k.work(ctx) })
	}
	return k, nil
}

// Stop ends the stand-in and waits until it has ended. Its Node and pods stay as they are.
func (k *Kubelet) Stop() {
	k.stop()
	k.queue.ShutDown()
	k.wait.Wait()
}

// SetSilent keeps the kubelet from reporting, as if it had died, until it is told otherwise.
func (k *Kubelet) SetSilent(silent bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.silent = silent
}

// SetKeep keeps pods that are being deleted from ending, until it is told otherwise.
func (k *Kubelet) SetKeep(keep bool) {
	k.mu.Lock()
	k.keep = keep
	k.mu.Unlock()
	for _, object := range k.pods.GetStore().List() {
		k.enqueue(object)
	}
}

// GracePeriod is what a pod that has ended was given to do so, in seconds. ok is false
// if no pod of that name has.
func (k *Kubelet) GracePeriod(pod string) (seconds int64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	seconds, ok = k.grace[pod]
	return seconds, ok
}

func (k *Kubelet) enqueue(object any) {
	if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
		k.queue.Add(key)
	}
}

// report reports the Node until ctx is done.
func (k *Kubelet) report(ctx context.Context) {
	ticker := time.NewTicker(min(k.options.ReportInterval, lookForHost))
	defer ticker.Stop()
	var reported time.Time // zero: not since it could
	for {
		k.mu.Lock()
		silent := k.silent
		k.mu.Unlock()
		switch {
		case silent || !k.options.Up():
			reported = time.Time{}
		case time.Since(reported) >= k.options.ReportInterval:
			if k.options.report(ctx) {
				reported = time.Now()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (o *Options) reportReady(ctx context.Context) bool {
	now := time.Now().UTC().Format(time.RFC3339)
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"kubelet is posting ready status","lastHeartbeatTime":%q}]}}`, now)
	_, err := o.Client.CoreV1().Nodes().PatchStatus(ctx, o.Node, patch)
	if err != nil && ctx.Err() == nil {
		o.Logf("reporting Node %s: %v", o.Node, err)
	}
	return err == nil
}

// work looks after pods until the queue is shut down.
func (k *Kubelet) work(ctx context.Context) {
	for {
		key, shutdown := k.queue.Get()
		if shutdown {
			return
		}
		if err := k.sync(ctx, key); err != nil && ctx.Err() == nil {
			k.options.Logf("looking after pod %s: %v", key, err)
			k.queue.AddRateLimited(key)
		} else {
			k.queue.Forget(key)
		}
		k.queue.Done(key)
	}
}

// sync does for a pod what is to be done now.
func (k *Kubelet) sync(ctx context.Context, key string) error {
	object, exists, err := k.pods.GetStore().GetByKey(key)
	if err != nil || !exists {
		return err
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("it is a %T", object)
	}
	if !k.options.Up() {
		k.queue.AddAfter(key, lookForHost)
		return nil
	}
	k.mu.Lock()
	keep := k.keep
	// 0 is what it is ended with, below.
	if pod.DeletionTimestamp != nil && !keep && *pod.DeletionGracePeriodSeconds > 0 {
		k.grace[pod.Name] = *pod.DeletionGracePeriodSeconds
	}
	k.mu.Unlock()
	switch now := time.Now(); {
	case pod.DeletionTimestamp != nil && keep, isReady(pod) && pod.DeletionTimestamp == nil:
	case pod.DeletionTimestamp != nil && now.Before(endOf(pod)):
		k.queue.AddAfter(key, endOf(pod).Sub(now))
	case pod.DeletionTimestamp != nil:
		err = k.options.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
	case pod.Status.Phase != corev1.PodRunning:
		err = k.setStatus(ctx, pod, running(pod, now))
	case now.Before(readyAt(pod)):
		k.queue.AddAfter(key, readyAt(pod).Sub(now))
	default:
		err = k.setStatus(ctx, pod, ready(pod))
	}
	// A conflict says that another pod has the name by now.
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// setStatus patches what differs from the status that the pod had.
func (k *Kubelet) setStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	body, err := mergePatch(&corev1.Pod{Status: pod.Status}, &corev1.Pod{Status: status})
	if err != nil {
		return err
	}
	_, err = k.options.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}
