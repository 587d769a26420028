// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package inputs

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

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// DefaultInterval is the default of [Options.Interval].
const DefaultInterval = 10 * time.Second

// freshFor is for how long what was read is what is in the cluster now. Many hosts that are
// set up at the same time ask several times each, and one look is two dozen requests. What
// changes within that time is noticed at the next look, and brings a new configuration.
const freshFor = time.Second

// Tokens are the credentials by which hosts join; see package bootstraptoken.
type Tokens interface {
	// Issue returns a token for the host of an instance, the same one as long as it is good.
	Issue(ctx context.Context, instance *windowsv1alpha1.WindowsInstance) (token string, err error)
	// Revoke ends the token. That there is none is no error.
	Revoke(ctx context.Context, instance *windowsv1alpha1.WindowsInstance) error
}

// Options of a [Source].
type Options struct {
	// Live reads the cluster itself, and Client reads pools from a cache and writes. Required.
	Live   client.Reader
	Client client.Client
	// Settings are what is not read from the cluster.
	Settings cluster.Settings
	// Tokens are issued to hosts that join. Required.
	Tokens Tokens
	// Interval is the time between two looks at the cluster. Default [DefaultInterval].
	Interval time.Duration

	// clock is set in tests.
	clock clock.WithTicker
}

// Source knows what hosts shall be like. It is safe for concurrent use.
type Source struct {
	o           Options
	subscribers []chan event.GenericEvent
	// looking has room for one: who is in it looks at the cluster.
	looking chan struct{}

	mu sync.Mutex
	// last is what was read last; nil before the first time.
	last *reading
	// news: what was read last is another than what was told last.
	news bool
	// began is when the last look began, and failure how it ended if it found out nothing.
	began   time.Time
	failure error
}

// reading is the result of one look at the cluster.
type reading struct {
	inputs *cluster.Snapshot
	err    error
}

// New returns a Source, which reads nothing before it is started or asked.
func New(o Options) (*Source, error) {
	if o.Live == nil || o.Client == nil || o.Tokens == nil {
		return nil, errors.New("options of the inputs: Live, Client and Tokens are required")
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.clock == nil {
		o.clock = clock.RealClock{}
	}
	return &Source{o: o, looking: make(chan struct{}, 1)}, nil
}

// Changed returns a channel that says when the inputs have changed: then every host may
// have to be another one. Its events are about no object. To be called before Start.
func (s *Source) Changed() <-chan event.GenericEvent {
	c := make(chan event.GenericEvent)
	s.subscribers = append(s.subscribers, c)
	return c
}

// NeedLeaderElection says that only the leader sets hosts up.
func (*Source) NeedLeaderElection() bool { return true }

// Start looks at the cluster until ctx ends.
func (s *Source) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("inputs")
	if err := s.ensureKey(ctx); err != nil {
		return err
	}
	ticker := s.o.clock.NewTicker(s.o.Interval)
	defer ticker.Stop()
	said := ""
	for {
		err := s.look(ctx, 0)
		if ctx.Err() != nil {
			return nil
		}
		if text := message(err); text != said {
			said = text
			if err != nil {
				logger.Error(err, "Hosts cannot be set up")
			}
		}
		if s.takeNews() {
			s.tell(ctx)
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
		err := cluster.EnsureDigestKey(ctx, s.o.Client, s.o.Settings.Namespace)
		if err == nil || ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is the end that was asked for
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

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// look makes sure that the last look at the cluster began no longer ago than age. One looks
// at a time, and those who wait meanwhile have what it finds out. The error says what is
// wrong with the inputs, or why they cannot be read.
func (s *Source) look(ctx context.Context, age time.Duration) error {
	select {
	case s.looking <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.looking }()
	began := s.o.clock.Now()
	if s.lookedSince(began.Add(-age)) {
		_, err := s.found()
		return err
	}
	inputs, err := cluster.Read(ctx, s.o.Live, s.o.Settings)
	if ctx.Err() != nil {
		return context.Cause(ctx) // which says nothing to anybody else
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.failure = began, nil
	var missing *cluster.InputError
	if err != nil && !errors.As(err, &missing) {
		// A cluster that does not answer does not make what was read before wrong.
		s.failure = fmt.Errorf("reading what hosts are set up with: %w", err)
		return s.failure
	}
	if s.last == nil || message(s.last.err) != message(err) || !reflect.DeepEqual(s.last.inputs, inputs) {
		s.news = true
	}
	s.last = &reading{inputs: inputs, err: err}
	return err
}

// lookedSince says whether the last look began after a time.
func (s *Source) lookedSince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began.After(t)
}

// found is what the last look found out.
func (s *Source) found() (*cluster.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return nil, s.failure
	}
	return s.last.inputs, s.last.err
}

// takeNews says whether the inputs are others than when it last said so, whoever has
// noticed.
func (s *Source) takeNews() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.news
	s.news = false
	return news
}

// tell says to everybody who wants to know that the inputs have changed.
func (s *Source) tell(ctx context.Context) {
	for _, c := range s.subscribers {
		select {
		case c <- event.GenericEvent{Object: &windowsv1alpha1.WindowsInstance{}}:
		case <-ctx.Done():
			return
		}
	}
}

// current returns what was read last, and reads if nothing was.
func (s *Source) current(ctx context.Context) (*cluster.Snapshot, error) {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if last == nil {
		return s.fresh(ctx)
	}
	return last.inputs, last.err
}

// fresh returns what is in the cluster now.
func (s *Source) fresh(ctx context.Context) (*cluster.Snapshot, error) {
	if err := s.look(ctx, freshFor); err != nil {
		return nil, err
	}
	return s.found()
}

// Revision names what a host shall be like, and says which services wait and for what.
// Pool and node are nil when there is none. The error is a [cluster.InputError] when it
// is the inputs that are wrong.
func (s *Source) Revision(ctx context.Context, instance *windowsv1alpha1.WindowsInstance, pool *windowsv1alpha1.WindowsNodePool, node *corev1.Node) (revision string, waiting []string, err error) {
	inputs, err := s.current(ctx)
	if err != nil {
		return "", nil, err
	}
	result, err := inputs.Build(cluster.Host{Instance: instance, Pool: pool, Node: node})
	if err != nil {
		return "", nil, err
	}
	for _, w := range result.Waiting {
		waiting = append(waiting, fmt.Sprintf("service %s waits for %s", w.Service, w.For))
	}
	return result.Revision, waiting, nil
}

// Build returns what a host shall be like, by what is in the cluster now. A host that
// joins gets a token for it, which Joined revokes.
func (s *Source) Build(ctx context.Context, instance *windowsv1alpha1.WindowsInstance, node *corev1.Node, join bool) (*document.Result, error) {
	inputs, err := s.fresh(ctx)
	if err != nil {
		return nil, err
	}
	host := cluster.Host{Instance: instance, Node: node}
	if ref := instance.Spec.PoolRef; ref != nil {
		pool := &windowsv1alpha1.WindowsNodePool{}
		switch err := s.o.Client.Get(ctx, client.ObjectKey{Namespace: instance.Namespace, Name: ref.Name}, pool); {
		case err == nil:
			host.Pool = pool
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading pool %s: %w", ref.Name, err)
		}
	}
	if join {
		token, err := s.o.Tokens.Issue(ctx, instance)
		if err != nil {
			return nil, fmt.Errorf("making a token to join with: %w", err)
		}
		host.JoinToken = []byte(token)
	}
	return inputs.Build(host)
}

// Joined ends the token of a host.
func (s *Source) Joined(ctx context.Context, instance *windowsv1alpha1.WindowsInstance) error {
	if err := s.o.Tokens.Revoke(ctx, instance); err != nil {
		return fmt.Errorf("revoking the token to join with: %w", err)
	}
	return nil
}

// Published returns the services of hosts, for tools of others that read them.
func (s *Source) Published(ctx context.Context) (*document.PublishedServices, error) {
	inputs, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	return inputs.Published()
}
