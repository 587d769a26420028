// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package networks knows which addresses are those of the cluster itself, where no Windows host
// is: of Services, pods, the API server and Nodes that do not run Windows. It watches the objects
// that say so; what they say is in facts.go, and what follows from that in kind.go.
package networks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// source is a kind of objects that say something about addresses. Our programs have the rights
// to list and watch these, and where name is set only that one.
type source struct {
	schema.GroupVersionResource

	namespace, name string
	// read reads an object of another kind than [corev1.Node].
	read func(*unstructured.Unstructured) (facts, error)
}

// nodesSource are the Nodes. There may be thousands, each of which reports every few minutes with all its images: they are
// watched as what they are, which costs a fraction of the time and memory of a map. Each cluster has them.
var nodesSource = source{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes")}

// otherSources are all others that may be there; those that the cluster does not have say nothing.
func otherSources() []source {
	v1 := func(group, resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
	}
	return []source{
		{GroupVersionResource: v1("networking.k8s.io", "servicecidrs"), read: typed(ofServiceCIDR)},
		{GroupVersionResource: v1("discovery.k8s.io", "endpointslices"), namespace: metav1.NamespaceDefault, name: "kubernetes", read: typed(ofEndpointSlice)},
		{GroupVersionResource: v1("", "configmaps"), namespace: metav1.NamespaceSystem, name: "kubeadm-config", read: typed(ofKubeadm)},
		{GroupVersionResource: v1("config.openshift.io", "networks"), name: "cluster", read: typed(ofConfigNetwork)},
		{GroupVersionResource: v1("operator.openshift.io", "networks"), name: "cluster", read: typed(ofOperatorNetwork)},
	}
}

// Networks are the addresses of the cluster itself. It is safe for concurrent use.
type Networks struct {
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	watches []*watch
	// said is whether it was logged that something is not known: several may wait.
	said sync.Once
}

// patience is how long programs wait at their start for what cannot be read, and for how long a refusal may be one for a moment.
const patience = 10 * time.Second

// Watch keeps the addresses of the cluster current until Close is called, or ctx is done. What the cluster does not have, or does
// not let us read, is logged once and says nothing. As long as something cannot be read for another
// reason, Kind has an error; once it is known it stays as it was.
func Watch(ctx context.Context, nodes kubernetes.Interface, client dynamic.Interface) (*Networks, error) {
	informer := coreinformers.NewNodeInformer(nodes, 0, cache.Indexers{})
	return start(ctx, client, func(answers func() bool) (*watch, error) { return nodesSource.watch(informer, answers) })
}

// WatchBeside is Watch for a program that has an informer of Nodes anyway. Somebody else runs that, before or after this is called. It may
// keep of a Node no more than its network for pods, its addresses, its labels and its operating system.
func WatchBeside(ctx context.Context, nodes Informer, client dynamic.Interface) (*Networks, error) {
	return start(ctx, client, func(func() bool) (*watch, error) { return nodesSource.listen(nodes) })
}

// Informer is an informer as a program shares it.
type Informer interface {
	AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
}

func start(ctx context.Context, client dynamic.Interface, nodes func(answers func() bool) (*watch, error)) (*Networks, error) {
	ctx, cancel := context.WithCancel(ctx)
	n := &Networks{cancel: cancel}
	answers := func() bool { return n.watches[0].unknown() == nil }
	w, err := nodes(answers)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watching %s: %w", nodesSource.GroupResource(), err)
	}
	n.watches = append(n.watches, w)
	for _, s := range otherSources() {
		if w, err = s.watch(s.informer(client), answers); err != nil {
			cancel()
			return nil, fmt.Errorf("watching %s: %w", s.GroupResource(), err)
		}
		n.watches = append(n.watches, w)
	}
	n.wg.Go(func() { // the others are asked for when it is known whether the API server answers
		first, others := n.watches[:1], n.watches[1:]
		n.run(ctx, first)
		if known(ctx, first) == nil {
			n.run(ctx, others)
		}
	})
	return n, nil
}

func (n *Networks) run(ctx context.Context, watches []*watch) {
	for _, w := range watches {
		n.wg.Go(func() { w.run(ctx) })
	}
}

// Close ends the watch, and returns when nothing of it runs any more.
func (n *Networks) Close() {
	n.cancel()
	n.wg.Wait()
}

// Kind says what an address is that no Windows host has, such as "a Service's"; empty: one may
// have it. The error says what is not known yet, as it cannot be read.
func (n *Networks) Kind(address netip.Addr) (string, error) {
	if err := n.unknown(); err != nil {
		return "", err
	}
	var all []*facts
	for _, w := range n.watches {
		for _, object := range w.store.List() {
			if f, ok := object.(*facts); ok {
				all = append(all, f)
			}
		}
	}
	return kindOf(address, all), nil
}

// WaitBriefly returns when all is known, or after ten seconds, and then logs once what is not; or when ctx is done.
func (n *Networks) WaitBriefly(ctx context.Context) {
	bounded, done := context.WithTimeout(ctx, patience)
	defer done()
	if err := known(bounded, n.watches); err != nil && ctx.Err() == nil {
		n.said.Do(func() {
			klog.InfoS("Nothing connects to hosts until it is known which addresses are those of the cluster", "cause", n.unknown())
		})
	}
}

// Wait returns when all is known, or with the cause of ctx when that is done before.
func (n *Networks) Wait(ctx context.Context) error {
	n.WaitBriefly(ctx)
	return known(ctx, n.watches)
}

func known(ctx context.Context, watches []*watch) error {
	for _, w := range watches {
		select {
		case <-w.synced.Done():
		case <-w.refused:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// unknownError says what cannot be read.
type unknownError struct {
	resource schema.GroupResource
	cause    error
}

func (e *unknownError) Error() string {
	return fmt.Sprintf("which addresses are those of the cluster itself is not known yet, as its %s cannot be read: %v", e.resource, e.cause)
}

// Unwrap lets a connection that is not made for it be told from one that is refused.
func (e *unknownError) Unwrap() []error { return []error{ssh.ErrUndecided, e.cause} }

// unknown says what is not known yet, and why. Nil: all is.
func (n *Networks) unknown() error {
	for _, w := range n.watches {
		if err := w.unknown(); err != nil {
			return err
		}
	}
	return nil
}

// watch is one of a source. refused is closed when the cluster does not have it, or does not let
// us read it.
type watch struct {
	source  source
	store   interface{ List() []any } // of facts
	synced  cache.DoneChecker
	run     func(context.Context)
	refused chan struct{}
	// failure is the last error.
	failure atomic.Pointer[error]
}

func (w *watch) unknown() error {
	select {
	case <-w.synced.Done():
		return nil
	case <-w.refused:
		return nil
	default:
	}
	cause := errors.New("they were not read yet")
	if failure := w.failure.Load(); failure != nil {
		cause = *failure
	}
	return &unknownError{w.source.GroupResource(), cause}
}

// watch makes the watch of a source by an informer of its own, which does not run yet. answers says whether the API server has
// answered: before, a 404 says nothing.
func (s source) watch(informer cache.SharedIndexInformer, answers func() bool) (*watch, error) {
	w := &watch{source: s, store: informer.GetStore(), synced: informer.HasSyncedChecker(), run: informer.RunWithContext, refused: make(chan struct{})}
	var once sync.Once
	var since time.Time // of the refusals without anything else in between; the reflector calls one by one
	return w, errors.Join(
		informer.SetTransform(s.transform),
		informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			w.failure.Store(&err)
			switch {
			case apierrors.IsNotFound(err) && answers(): // and what answers is no load balancer without an API server
			case apierrors.IsForbidden(err):
				// An API server that has just started refuses what it will allow as soon as it has read the roles.
				if since.IsZero() {
					since = time.Now()
				}
				if time.Since(since) < patience {
					return
				}
			default:
				since = time.Time{}
				cache.DefaultWatchErrorHandler(ctx, r, err)
				return
			}
			once.Do(func() {
				klog.InfoS("Cannot be read, so addresses of the cluster that it would say are not refused to hosts", "resource", s.GroupResource(), "cause", err)
				close(w.refused)
			})
		}),
	)
}

// listen makes the watch of a source by an informer of somebody else, who says what cannot be read.
func (s source) listen(informer Informer) (*watch, error) {
	store := cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc)
	keep := func(object any, put func(any) error) {
		f, err := s.transform(object)
		if err == nil {
			err = put(f)
		}
		if err != nil {
			klog.ErrorS(err, "Reading the addresses that an object says", "resource", s.GroupResource())
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { keep(object, store.Add) },
		UpdateFunc: func(_, object any) { keep(object, store.Update) },
		DeleteFunc: func(object any) { keep(object, store.Delete) },
	})
	if err != nil {
		return nil, err
	}
	return &watch{source: s, store: store, synced: registration.HasSyncedChecker(), run: func(context.Context) {}, refused: make(chan struct{})}, nil
}

func (s source) informer(client dynamic.Interface) cache.SharedIndexInformer {
	return dynamicinformer.NewFilteredDynamicInformer(client, s.GroupVersionResource, s.namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		if s.name != "" {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String()
		}
	}).Informer()
}

// transform keeps of an object what it says about addresses.
func (s source) transform(object any) (any, error) {
	var f facts
	switch o := object.(type) {
	case *corev1.Node:
		f = ofNode(o)
	case *unstructured.Unstructured:
		var err error
		if f, err = s.read(o); err != nil {
			// Not an error of the watch, which would end: the object is one that a cluster of another
			// version has, and the others count.
			klog.ErrorS(err, "Reading the addresses that an object says", "resource", s.GroupResource(), "object", klog.KObj(o))
		}
	default:
		return object, nil // that was done before, or what an informer makes of a deletion that it missed
	}
	o, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	f.ObjectMeta = metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), CreationTimestamp: o.GetCreationTimestamp()}
	return &f, nil
}
