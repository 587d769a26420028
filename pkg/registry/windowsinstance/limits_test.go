// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// at is the instance with that name, with its namespace before it or in the default one.
func at(name string) types.NamespacedName {
	if namespace, name, found := strings.Cut(name, "/"); found {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Namespace: "default", Name: name}
}

func TestStreamLimits(t *testing.T) {
	type stream struct{ host, user string }
	for _, test := range []struct {
		name    string
		limits  StreamLimits
		open    []stream
		refused stream
		other   stream // is still admitted
	}{
		{"per host", StreamLimits{PerHost: 2}, []stream{{"h1", "a"}, {"h1", "b"}}, stream{"h1", "c"}, stream{"h2", "c"}},
		{"per user", StreamLimits{PerUser: 2}, []stream{{"h1", "a"}, {"h2", "a"}}, stream{"h3", "a"}, stream{"h1", "b"}},
		{"per user and host", StreamLimits{PerUserAndHost: 2}, []stream{{"h1", "a"}, {"h1", "a"}}, stream{"h1", "a"}, stream{"h1", "b"}},
		{"per namespace", StreamLimits{PerNamespace: 2}, []stream{{"team/h1", "a"}, {"team/h2", "b"}}, stream{"team/h3", "c"}, stream{"h1", "a"}},
		{"in total", StreamLimits{Total: 2}, []stream{{"h1", "a"}, {"h2", "b"}}, stream{"h3", "c"}, stream{}},
	} {
		for _, tracked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, streams open: %v", test.name, tracked), func(t *testing.T) {
				s := NewStreams(map[StreamKind]StreamLimits{StreamLogs: test.limits})
				var ends []func()
				for _, o := range test.open {
					release, err := s.admit(StreamLogs, at(o.host), o.user, 1)
					if err != nil {
						t.Fatal(err)
					}
					untrack := func() {}
					if tracked {
						untrack = s.track("u", func() {}).untrack
					}
					ends = append(ends, func() { untrack(); release() })
				}
				_, err := s.admit(StreamLogs, at(test.refused.host), test.refused.user, 1)
				if !apierrors.IsTooManyRequests(err) {
					t.Fatalf("got %v, want 429", err)
				}
				if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds != 5 {
					t.Errorf("%v does not say when to try again", err)
				}
				if test.other != (stream{}) {
					release, err := s.admit(StreamLogs, at(test.other.host), test.other.user, 1)
					if err != nil {
						t.Errorf("another stream was refused: %v", err)
					} else {
						release()
					}
				}
				ends[0]()
				ends[0]() // a second time changes nothing
				release, err := s.admit(StreamLogs, at(test.refused.host), test.refused.user, 1)
				if err != nil {
					t.Fatalf("after one has ended: %v", err)
				}
				if _, err := s.admit(StreamLogs, at(test.refused.host), test.refused.user, 1); err == nil {
					t.Error("one too many was admitted")
				}
				release()
				ends[1]()
				if n := s.Open(); n != 0 || len(s.kinds[StreamLogs].counts) != 0 {
					t.Errorf("%d streams are left, %+v", n, s.kinds[StreamLogs])
				}
			})
		}
	}
}

// TestKindsAreApart fills one kind and finds another one free; the message names the
// kind that is full.
func TestKindsAreApart(t *testing.T) {
	s := NewStreams(map[StreamKind]StreamLimits{StreamLogs: {PerHost: 1}, StreamExec: {PerHost: 1}, StreamPortForward: {PerUser: 1}})
	for _, kind := range []StreamKind{StreamLogs, StreamExec, StreamPortForward} {
		if _, err := s.admit(kind, at("h"), "u", 1); err != nil {
			t.Errorf("the first of %s: %v", kind, err)
		}
		if _, err := s.admit(kind, at("h"), "u", 1); !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "1 "+string(kind)) {
			t.Errorf("the second of %s: %v", kind, err)
		}
	}
	if n := s.Open(); n != 3 {
		t.Errorf("%d are open", n)
	}
}

// A port forward has one place for each of its ports, or none.
func TestStreamWithSeveralPlaces(t *testing.T) {
	for name, limits := range map[string]StreamLimits{"per host": {PerHost: 4}, "per user": {PerUser: 4}, "in total": {Total: 4}} {
		t.Run(name, func(t *testing.T) {
			s := NewStreams(map[StreamKind]StreamLimits{StreamPortForward: limits})
			release, err := s.admit(StreamPortForward, at("h"), "u", 3)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.admit(StreamPortForward, at("h"), "u", 2); !apierrors.IsTooManyRequests(err) {
				t.Errorf("two more: got %v, want 429", err)
			}
			if _, err := s.admit(StreamPortForward, at("h"), "u", 1); err != nil {
				t.Errorf("one more: got %v", err)
			}
			release()
			if _, err := s.admit(StreamPortForward, at("h"), "u", 3); err != nil {
				t.Errorf("after it has ended: got %v", err)
			}
		})
	}
}

// Whoever has what there is for them is refused before anything else is asked, which may be costly: rights,
// the instance, and what the request says.
func TestAdmittedFirst(t *testing.T) {
	for _, test := range []struct {
		kind StreamKind
		ask  func(ctx context.Context, s *fixture) error
	}{
		{StreamLogs, func(ctx context.Context, s *fixture) error {
			_, err := s.Log.Get(ctx, "nowhere", &windows.WindowsInstanceLogOptions{Pattern: "("})
			return err
		}},
		{StreamExec, func(ctx context.Context, s *fixture) error {
			return connect(ctx, s.Exec, &windows.WindowsInstanceExecOptions{})
		}},
		{StreamPortForward, func(ctx context.Context, s *fixture) error {
			return connect(ctx, s.PortForward, &windows.WindowsInstancePortForwardOptions{Ports: []int32{1, 2}})
		}},
		{StreamQuery, func(ctx context.Context, s *fixture) error {
			_, err := s.Check.Create(ctx, "nowhere", &windows.WindowsInstanceCheck{}, nil, &metav1.CreateOptions{})
			return err
		}},
		{StreamQuery, func(ctx context.Context, s *fixture) error {
			_, err := s.Inspect.Get(ctx, "nowhere", &metav1.GetOptions{})
			return err
		}},
		{StreamQuery, func(ctx context.Context, s *fixture) error {
			_, err := s.Reconfigure.Create(ctx, "nowhere", &windows.WindowsInstanceReconfigure{}, nil, &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}},
	} {
		s := newStorage(t, base.Deleters{})
		s.streams.kinds[test.kind].limits.PerUser = 2
		ctx := requestFor(t.Context(), "get", "any")
		if err := test.ask(ctx, s); err == nil || apierrors.IsTooManyRequests(err) {
			t.Errorf("%s: got %v with all places free", test.kind, err)
		}
		asked := len(s.rights())
		for range 2 {
			if _, err := s.streams.admitRequest(ctx, test.kind, "another", 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := test.ask(ctx, s); !apierrors.IsTooManyRequests(err) || len(s.rights()) > asked {
			t.Errorf("%s: got %v, asked for %v", test.kind, err, s.rights())
		}
		if s.streams.Open() != 2 {
			t.Errorf("%s: %d places are taken, want 2", test.kind, s.streams.Open())
		}
	}
}

// A port forward counts with each of its ports.
func TestForwardCountsItsPorts(t *testing.T) {
	s := newStorage(t, base.Deleters{})
	s.streams.kinds[StreamPortForward].limits.PerUser = 2
	for ports, refused := range map[int]bool{2: false, 3: true} {
		err := connect(requestFor(t.Context(), "get", "portforward"), s.PortForward, &windows.WindowsInstancePortForwardOptions{Ports: make([]int32, ports)})
		if apierrors.IsTooManyRequests(err) != refused {
			t.Errorf("%d ports: got %v", ports, err)
		}
	}
}

// connect is the answer to a request for a session.
func connect(ctx context.Context, connecter rest.Connecter, options runtime.Object) error {
	answer := &answers{}
	handler, err := connecter.Connect(ctx, "nowhere", options, answer)
	if err != nil {
		return err
	}
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	return answer.err
}

func TestNoLimits(t *testing.T) {
	s := NewStreams(nil)
	for range 1000 {
		if _, err := s.admit(StreamLogs, at("h"), "u", 1); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDrainWaitsForStreams(t *testing.T) {
	s := NewStreams(nil)
	asked := make(chan struct{}, 2)
	var ends []func()
	for range 2 {
		release, err := s.admit(StreamLogs, at("h"), "u", 1)
		if err != nil {
			t.Fatal(err)
		}
		untrack := s.track("u", func() { asked <- struct{}{} }).untrack
		ends = append(ends, func() { untrack(); release() })
	}
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(t.Context()) }()
	<-asked
	<-asked

	_, err := s.admit(StreamLogs, at("h2"), "u2", 1)
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("while draining: got %v, want 503", err)
	}
	ends[0]()
	select {
	case err := <-drained:
		t.Fatalf("returned %v with a stream open", err)
	default:
	}
	ends[1]()
	if err := <-drained; err != nil {
		t.Errorf("got %v", err)
	}
	// Nothing is left: a second time returns at once.
	if err := s.Drain(t.Context()); err != nil {
		t.Errorf("again: got %v", err)
	}
}

// TestDrainReachesWhatIsBeingOpened covers a stream that was admitted before the
// server stops and is open only afterwards.
func TestDrainReachesWhatIsBeingOpened(t *testing.T) {
	s := NewStreams(nil)
	release, err := s.admit(StreamLogs, at("h"), "u", 1)
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Drain(canceled); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v with a stream being opened", err)
	}
	stopped := false
	untrack := s.track("u", func() { stopped = true }).untrack
	if !stopped {
		t.Error("the stream was not told to end")
	}
	untrack()
	release()
	if err := s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDrainGivesUp(t *testing.T) {
	s := NewStreams(nil)
	if _, err := s.admit(StreamLogs, at("h"), "u", 1); err != nil {
		t.Fatal(err)
	}
	s.track("u", func() {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Drain(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if want := "1 streams did not end in time: context canceled"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

// TestStreamsConcurrently is for the race detector, and checks that the count is
// right in the end and never above the limit.
func TestStreamsConcurrently(t *testing.T) {
	const limit = 8
	s := NewStreams(map[StreamKind]StreamLimits{StreamLogs: {Total: limit}})
	var open, highest, refused atomic.Int64
	var wait sync.WaitGroup
	for worker := range 16 {
		wait.Go(func() {
			for range 200 {
				release, err := s.admit(StreamLogs, at(fmt.Sprintf("h%d", worker%3)), fmt.Sprintf("u%d", worker%5), 1)
				if err != nil {
					refused.Add(1)
					continue
				}
				n := open.Add(1)
				for {
					seen := highest.Load()
					if n <= seen || highest.CompareAndSwap(seen, n) {
						break
					}
				}
				untrack := s.track("u", func() {}).untrack
				open.Add(-1)
				untrack()
				release()
			}
		})
	}
	wait.Wait()
	if highest.Load() > limit {
		t.Errorf("%d streams were open at one time", highest.Load())
	}
	if err := s.Drain(t.Context()); err != nil || s.Open() != 0 {
		t.Errorf("left over: %d, %v", s.Open(), err)
	}
}
