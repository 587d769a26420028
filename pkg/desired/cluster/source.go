// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// DefaultInterval is the default of [Options.Interval].
const DefaultInterval = 5 * time.Minute

const (
	// failedInterval is the time until a cluster that does not answer is read again.
	failedInterval = 10 * time.Second
	// unwatchedInterval is that until it is read again while it has something that may be read and not watched.
	unwatchedInterval = time.Minute
	// settleTime is what follows a change before it is read: what belongs together often changes together.
	settleTime = 200 * time.Millisecond
	// changesInterval and changesBurst bound how often changes are read: as many at once, and one each interval from
	// then on, whatever somebody writes in a loop.
	changesInterval = 10 * time.Second
	changesBurst    = 6
	// intervalJitter is by how much an interval may be longer, so that clusters that began together do not go on so.
	intervalJitter = 0.2
)

// freshFor is for how long a snapshot is what is in the cluster now. Many hosts that are
// configured at the same time need it several times each, and one snapshot is two dozen requests.
// What changes within that time is in the next snapshot, and brings a new configuration.
const freshFor = time.Second

// watchedFor replaces freshFor while every input of the snapshot is watched and unchanged. It bounds for how long a watch that has lost its
// connection may keep an old snapshot in use.
const watchedFor = 5 * time.Second

// Options of a [Source].
type Options struct {
	// Live reads the cluster. Its pools may come from a cache. Required.
	Live Live
	// Client writes the key of digests. Required.
	Client client.Client
	// Issuer issues what hosts join with. Required.
	Issuer Issuer
	// Metadata watches the inputs of snapshots, one by one. Required.
	Metadata metadata.Interface
	// Interval is the time between two snapshots while nothing changes, for what cannot be watched, and in case that
	// a watch is silent that should not be. Default [DefaultInterval].
	Interval time.Duration

	// clock is set in tests.
	clock clock.Clock
}

// Source knows the desired configurations of hosts. It keeps a snapshot of the cluster
// current and says when it has changed. It is safe for concurrent use.
//
// It watches the metadata of what the last snapshot was made of, each object by its name, and takes another snapshot when
// that changes: a snapshot is read at once, and a cache would give objects of different times. See decision 30.
type Source struct {
	o           Options
	subscribers []chan event.GenericEvent
	// reader has room for one: the goroutine that has sent to it reads the cluster. It guards began, which is
	// when the last read began, and failure, which is how it ended if it found out nothing.
	reader  chan struct{}
	began   time.Time
	failure error
	// remembered are the revisions that were asked for.
	remembered remembered
	// woken has room for one: something may have changed.
	woken chan struct{}

	mu sync.Mutex // guards what follows
	// last is what was read last; nil before the first time.
	last *reading
	// changed: last differs from what was sent to subscribers.
	changed bool
	// seen is what last was made of. It is replaced and never changed.
	seen seen
	// exporterExpires is as [Source.ExporterExpires] says.
	exporterExpires time.Time
	// watches are those of Start. Nil while that does not run.
	watches *watches
}

// reading is a snapshot, or what is wrong with the cluster.
type reading struct {
	snapshot *Snapshot
	err      error
}

// NewSource returns a Source, which reads nothing before it is started or called.
func NewSource(o Options) (*Source, error) {
	if o.Live.Cluster == nil || o.Live.ReadPool == nil || o.Client == nil || o.Issuer == nil || o.Metadata == nil {
		return nil, errors.New("options of the source of desired configurations: Live, Client, Issuer and Metadata are required")
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.clock == nil {
		o.clock = clock.RealClock{}
	}
	return &Source{o: o, reader: make(chan struct{}, 1), woken: make(chan struct{}, 1), remembered: remembered{build: document.Build}}, nil
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

// Start keeps the snapshot current until ctx ends.
func (s *Source) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("desired")
	if err := s.ensureKey(ctx); err != nil {
		return err
	}
	w := newWatches(s.o.Metadata, s.o.clock, s.wake)
	s.setWatches(w)
	defer func() {
		s.setWatches(nil)
		w.close()
	}()
	changes := rate.NewLimiter(rate.Every(changesInterval), changesBurst)
	logged := ""
	for ctx.Err() == nil {
		// Somebody may have deleted it. What keeps it from being made again is found when it is read.
		if err := EnsureDigestKey(ctx, s.o.Client, s.o.Live.Settings.Namespace); err != nil && ctx.Err() == nil {
			logger.Error(err, "The key of the digests of secrets cannot be made again")
		}
		w.begin()
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
		s.wait(ctx, w, changes, err)
	}
	return nil
}

// wait returns when another snapshot is due after one that ended with err, or ctx has ended. What others read
// meanwhile is watched, and told to subscribers.
func (s *Source) wait(ctx context.Context, w *watches, changes *rate.Limiter, err error) {
	began := s.o.clock.Now()
	interval := wait.Jitter(s.o.Interval, intervalJitter)
	for {
		if s.takeChanged() {
			s.notify(ctx)
		}
		known := s.known()
		w.follow(ctx, known.inputs)
		if w.outdate(known) {
			now := s.o.clock.Now()
			if s.sleep(ctx, max(settleTime, changes.ReserveN(now, 1).DelayFrom(now))); w.outdate(s.known()) {
				return
			}
		}
		timer := s.o.clock.NewTimer(s.until(interval, err, known.awaits || w.refused()) - s.o.clock.Since(began))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
			return
		case <-s.woken:
			timer.Stop()
		}
	}
}

// until says how long after a snapshot that ended with err the next one follows if nothing changes.
func (s *Source) until(interval time.Duration, err error, unwatched bool) time.Duration {
	var wrong *InputError
	switch {
	case err != nil && !errors.As(err, &wrong):
		return min(interval, failedInterval)
	case unwatched:
		return min(interval, unwatchedInterval)
	}
	return interval
}

// sleep waits, or until ctx ends.
func (s *Source) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-s.o.clock.After(d):
	}
}

// wake says that something may have changed.
func (s *Source) wake() {
	select {
	case s.woken <- struct{}{}:
	default: // it was said already
	}
}

// known returns what the last snapshot was made of.
func (s *Source) known() *seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.seen
	return &known
}

// setWatches says what watches the inputs. Nil: nothing does any more.
func (s *Source) setWatches(w *watches) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches = w
}

// unchanged reports whether every input of the last snapshot is watched, and as it was read.
func (s *Source) unchanged() bool {
	s.mu.Lock()
	w, known := s.watches, s.seen
	s.mu.Unlock()
	return w != nil && !known.awaits && w.unchanged(&known)
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
		s.sleep(ctx, failedInterval)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// refresh returns a snapshot whose reading began no longer ago than maxAge, or than watchedFor while it is [Source.unchanged]; with
// a maxAge of 0 it always reads. One caller reads at a time, and those that wait meanwhile get its result. The error says what is wrong
// with the cluster, or why it cannot be read.
func (s *Source) refresh(ctx context.Context, maxAge time.Duration) (*Snapshot, error) {
	select {
	case s.reader <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.reader }()
	began := s.o.clock.Now()
	if maxAge > 0 && s.failure == nil && s.unchanged() {
		maxAge = max(maxAge, watchedFor)
	}
	if s.began.After(began.Add(-maxAge)) {
		if s.failure != nil {
			return nil, s.failure
		}
		return s.latest()
	}
	record := newRecorder(s.o.Live.Cluster, s.o.Client.Scheme())
	snapshot, err := Read(ctx, record, s.o.Live.Settings)
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
	} else {
		snapshot = s.last.snapshot // what is remembered is of that
	}
	// Nothing tells of another version of an API server, by which one of several payloads is chosen.
	record.seen.awaits = record.seen.awaits || len(s.o.Live.Settings.Payloads) > 1
	s.last, s.seen = &reading{snapshot: snapshot, err: err}, record.seen
	if snapshot != nil {
		s.exporterExpires = snapshot.exporterExpires(s.exporterExpires)
	}
	s.wake()
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
	back, err := s.o.Live.backTo(ctx, snapshot, instance, pool, node)
	if err != nil {
		return "", nil, nil, err
	}
	result, err := snapshot.buildBy(Host{Instance: instance, Pool: pool, Node: node, Back: back}, s.remembered.forHost(snapshot, instance.UID))
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
	if host.Back, err = s.o.Live.backTo(ctx, snapshot, instance, host.Pool, node); err != nil {
		return nil, err
	}
	if joinAs != "" {
		if host.Join, err = s.o.Issuer.Issue(ctx, instance, joinAs); err != nil {
			return nil, fmt.Errorf("issuing the certificate with which the host becomes Node %s: %w", joinAs, err)
		}
	}
	result, err := snapshot.Build(host)
	if err != nil {
		return nil, err
	}
	if result.PoolRevision, err = s.o.Live.revisionOf(ctx, snapshot, host); err != nil {
		return nil, err
	}
	if result.Keep, err = s.o.Live.programsToKeep(ctx, snapshot, instance, host.Pool, &result.Bundle.Document); err != nil {
		return nil, err
	}
	return result, nil
}

// Published returns the services of hosts, for tools of others that read them.
func (s *Source) Published(ctx context.Context) (*document.PublishedServices, error) {
	snapshot, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	return snapshot.Published()
}

// InputsWrong says how many inputs were missing, or could not be used, when the cluster was last read. What is left to another operator is not
// wrong.
func (s *Source) InputsWrong() int {
	snapshot, err := s.latest()
	findings, missing := []Finding(nil), new(InputError)
	switch {
	case errors.As(err, &missing):
		findings = missing.Findings
	case snapshot != nil:
		findings = snapshot.wrong()
	}
	return len(slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.OtherOperator }))
}

// ExporterExpires is when the certificate expires that hosts serve metrics with: the last one that was read, as hosts go on with it while there is
// none or inputs are wrong. Zero: none was read, or hosts are to serve no metrics.
func (s *Source) ExporterExpires() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exporterExpires
}

// MetricsKept says why a host that serves metrics goes on with the certificate that it has, and what to do about it, where others
// need none. Empty: there is nothing to say.
func (s *Source) MetricsKept() string {
	snapshot, err := s.latest()
	if snapshot == nil || err != nil {
		return ""
	}
	return snapshot.metricsKept
}
