// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// DefaultInterval is the default of [Options.Interval].
const DefaultInterval = 10 * time.Second

// freshFor is for how long a snapshot is what is in the cluster now. Many hosts that are
// configured at the same time need it several times each, and one snapshot is two dozen requests.
// What changes within that time is in the next snapshot, and brings a new configuration.
const freshFor = time.Second

// Options of a [Source].
type Options struct {
	// Live reads the cluster. Its pools may come from a cache. Required.
	Live Live
	// Client writes the key of digests. Required.
	Client client.Client
	// Issuer issues what hosts join with. Required.
	Issuer Issuer
	// Interval is the time between two snapshots. Default [DefaultInterval].
	Interval time.Duration

	// clock is set in tests.
	clock clock.WithTicker
}

// Source knows the desired configurations of hosts. It keeps a snapshot of the cluster
// current and says when it has changed. It is safe for concurrent use.
//
// It polls and does not watch: it reads a handful of objects in namespaces that a cache
// would otherwise have to hold whole, some of them of kinds that a cluster may not have, and
// a change of them may take some seconds to arrive.
type Source struct {
	o           Options
	subscribers []chan event.GenericEvent
	// reader has room for one: the goroutine that has sent to it reads the cluster. It guards began, which is
	// when the last read began, and failure, which is how it ended if it found out nothing.
	reader  chan struct{}
	began   time.Time
	failure error

	mu sync.Mutex // guards what follows
	// last is what was read last; nil before the first time.
	last *reading
	// changed: last differs from what was sent to subscribers.
	changed bool
}

// reading is a snapshot, or what is wrong with the cluster.
type reading struct {
	snapshot *Snapshot
	err      error
}

// NewSource returns a Source, which reads nothing before it is started or called.
func NewSource(o Options) (*Source, error) {
	if o.Live.Cluster == nil || o.Live.ReadPool == nil || o.Client == nil || o.Issuer == nil {
		return nil, errors.New("options of the source of desired configurations: Live, Client and Issuer are required")
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.clock == nil {
		o.clock = clock.RealClock{}
	}
	return &Source{o: o, reader: make(chan struct{}, 1)}, nil
}

// Changed returns a channel that says when the cluster has changed: then the desired
// configuration of every host may have. Its events are about no object. To be called before
// Start.
func (s *Source) Changed() <-chan event.GenericEvent {
	c := make(chan event.GenericEvent)
	s.subscribers = append(s.subscribers, c)
	return c
}

// NeedLeaderElection says that only the leader configures hosts.
func (*Source) NeedLeaderElection() bool { return true }

// Start polls the cluster until ctx ends.
func (s *Source) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("desired")
	if err := s.ensureKey(ctx); err != nil {
		return err
	}
	ticker := s.o.clock.NewTicker(s.o.Interval)
	defer ticker.Stop()
	logged := ""
	for {
		_, err := s.refresh(ctx, 0)
		if ctx.Err() != nil {
			return nil
		}
		if text := errorText(err); text != logged {
			logged = text
			if err != nil {
				logger.Error(err, "Hosts cannot be configured")
			}
		}
		if s.takeChanged() {
			s.notify(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// ensureKey makes the key of the digests of secrets, which has to be there before anything
// else. An API server that is away for a while is waited for.
func (s *Source) ensureKey(ctx context.Context) error {
	for {
		err := EnsureDigestKey(ctx, s.o.Client, s.o.Live.Settings.Namespace)
		if err == nil || ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is an ordinary end
		}
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			return fmt.Errorf("making the key of the digests of secrets: %w", err)
		}
		log.FromContext(ctx).Error(err, "The key of the digests of secrets cannot be made yet")
		select {
		case <-ctx.Done():
		case <-s.o.clock.After(s.o.Interval):
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// refresh returns a snapshot whose reading began no longer ago than maxAge. One caller reads
// at a time, and those that wait meanwhile get its result. The error says what is wrong
// with the cluster, or why it cannot be read.
func (s *Source) refresh(ctx context.Context, maxAge time.Duration) (*Snapshot, error) {
	select {
	case s.reader <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.reader }()
	began := s.o.clock.Now()
	if s.began.After(began.Add(-maxAge)) {
		if s.failure != nil {
			return nil, s.failure
		}
		return s.latest()
	}
	snapshot, err := Read(ctx, s.o.Live.Cluster, s.o.Live.Settings)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // which is not the result of other callers
	}
	s.began, s.failure = began, nil
	var wrong *InputError
	if err != nil && !errors.As(err, &wrong) {
		// A cluster that does not answer does not make what was read before wrong.
		s.failure = fmt.Errorf("reading the cluster for the configuration of hosts: %w", err)
		return nil, s.failure
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || errorText(s.last.err) != errorText(err) || !reflect.DeepEqual(s.last.snapshot, snapshot) {
		s.changed = true
	}
	s.last = &reading{snapshot: snapshot, err: err}
	return snapshot, err
}

// latest returns the last snapshot, or what was wrong with the cluster; nil before the first.
func (s *Source) latest() (*Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return nil, nil //nolint:nilnil // nothing was read yet
	}
	return s.last.snapshot, s.last.err
}

// takeChanged reports whether the cluster has changed since it last reported so, whoever has
// noticed.
func (s *Source) takeChanged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.changed
	s.changed = false
	return changed
}

// notify sends an event to every subscriber.
func (s *Source) notify(ctx context.Context) {
	for _, c := range s.subscribers {
		select {
		case c <- event.GenericEvent{Object: &v1alpha1.WindowsInstance{}}:
		case <-ctx.Done():
			return
		}
	}
}

// current returns the last snapshot, and reads one if there is none.
func (s *Source) current(ctx context.Context) (*Snapshot, error) {
	if snapshot, err := s.latest(); snapshot != nil || err != nil {
		return snapshot, err
	}
	return s.refresh(ctx, freshFor)
}

// Revision names the desired configuration of a host, and says which services wait and for
// what, and which inputs cannot be used as they are. Pool and node are nil when there is none. The
// error is an [InputError] when it is the cluster that is wrong.
func (s *Source) Revision(ctx context.Context, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node) (revision string, waiting, warnings []string, err error) {
	snapshot, err := s.current(ctx)
	if err != nil {
		return "", nil, nil, err
	}
	result, err := snapshot.Build(Host{Instance: instance, Pool: pool, Node: node})
	if err != nil {
		return "", nil, nil, err
	}
	for _, w := range result.Waiting {
		waiting = append(waiting, w.String())
	}
	return result.Revision, waiting, result.Warnings, nil
}

// Build returns the desired configuration of a host, by what is in the cluster now. node is
// its Node, nil if it has none. A host that joins as joinAs gets credentials for it; empty: it does
// not join.
func (s *Source) Build(ctx context.Context, instance *v1alpha1.WindowsInstance, node *corev1.Node, joinAs string) (*document.Result, error) {
	snapshot, err := s.refresh(ctx, freshFor)
	if err != nil {
		return nil, err
	}
	host := Host{Instance: instance, Node: node}
	if host.Pool, err = s.o.Live.pool(ctx, instance); err != nil {
		return nil, err
	}
	if joinAs != "" {
		if host.Join, err = s.o.Issuer.Issue(ctx, instance, joinAs); err != nil {
			return nil, fmt.Errorf("issuing the certificate with which the host becomes Node %s: %w", joinAs, err)
		}
	}
	return snapshot.Build(host)
}

// Published returns the services of hosts, for tools of others that read them.
func (s *Source) Published(ctx context.Context) (*document.PublishedServices, error) {
	snapshot, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	return snapshot.Published()
}
