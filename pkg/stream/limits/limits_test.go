// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
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
		limits  Limits
		open    []stream
		refused stream
		other   stream // is still admitted
	}{
		{"per host", Limits{PerHost: 2}, []stream{{"h1", "a"}, {"h1", "b"}}, stream{"h1", "c"}, stream{"h2", "c"}},
		{"per user", Limits{PerUser: 2}, []stream{{"h1", "a"}, {"h2", "a"}}, stream{"h3", "a"}, stream{"h1", "b"}},
		{"per user and host", Limits{PerUserAndHost: 2}, []stream{{"h1", "a"}, {"h1", "a"}}, stream{"h1", "a"}, stream{"h1", "b"}},
		{"per host of each namespace", Limits{PerHost: 2}, []stream{{"h1", "a"}, {"h1", "b"}}, stream{"h1", "c"}, stream{"team/h1", "c"}},
		{"per user and each host", Limits{PerUserAndHost: 2}, []stream{{"h1", "a"}, {"h1", "a"}}, stream{"h1", "a"}, stream{"h2", "a"}},
		{"per user and host of each namespace", Limits{PerUserAndHost: 2}, []stream{{"h1", "a"}, {"h1", "a"}}, stream{"h1", "a"}, stream{"team/h1", "a"}},
		{"per namespace", Limits{PerNamespace: 2}, []stream{{"team/h1", "a"}, {"team/h2", "b"}}, stream{"team/h3", "c"}, stream{"h1", "a"}},
		{"in total", Limits{Total: 2}, []stream{{"h1", "a"}, {"h2", "b"}}, stream{"h3", "c"}, stream{}},
	} {
		for _, tracked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, streams open: %v", test.name, tracked), func(t *testing.T) {
				s := New(map[Kind]Limits{Logs: test.limits})
				var ends []func()
				for _, o := range test.open {
					admitted, err := s.Admit(Logs, at(o.host), o.user, 1)
					if err != nil {
						t.Fatal(err)
					}
					if tracked {
						admitted.OnDrain(func() {}, nil)
					}
					ends = append(ends, admitted.Release)
				}
				_, err := s.Admit(Logs, at(test.refused.host), test.refused.user, 1)
				if !apierrors.IsTooManyRequests(err) {
					t.Fatalf("got %v, want 429", err)
				}
				if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds != 5 {
					t.Errorf("%v does not say when to try again", err)
				}
				if test.other != (stream{}) {
					admitted, err := s.Admit(Logs, at(test.other.host), test.other.user, 1)
					if err != nil {
						t.Errorf("another stream was refused: %v", err)
					} else {
						admitted.Release()
					}
				}
				ends[0]()
				ends[0]() // a second time changes nothing
				admitted, err := s.Admit(Logs, at(test.refused.host), test.refused.user, 1)
				if err != nil {
					t.Fatalf("after one has ended: %v", err)
				}
				if _, err := s.Admit(Logs, at(test.refused.host), test.refused.user, 1); err == nil {
					t.Error("one too many was admitted")
				}
				admitted.Release()
				ends[1]()
				if n := s.Open(); n != 0 || len(s.kinds[Logs].counts) != 0 {
					t.Errorf("%d streams are left, %+v", n, s.kinds[Logs])
				}
			})
		}
	}
}

func TestNegative(t *testing.T) {
	for limits, want := range map[Limits]bool{
		{}: false, {PerHost: 1, PerUser: 1, PerUserAndHost: 1, PerNamespace: 1, Total: 1}: false,
		{PerHost: -1}: true, {PerUser: -1}: true, {PerUserAndHost: -1}: true, {PerNamespace: -1}: true, {Total: -1}: true,
	} {
		if limits.Negative() != want {
			t.Errorf("%+v: got %v", limits, !want)
		}
	}
}

// TestKindsAreApart fills one kind and finds another one free; the message names the
// kind that is full.
func TestKindsAreApart(t *testing.T) {
	s := New(map[Kind]Limits{Logs: {PerHost: 1}, Exec: {PerHost: 1}, PortForward: {PerUser: 1}})
	for _, kind := range []Kind{Logs, Exec, PortForward} {
		if _, err := s.Admit(kind, at("h"), "u", 1); err != nil {
			t.Errorf("the first of %s: %v", kind, err)
		}
		if _, err := s.Admit(kind, at("h"), "u", 1); !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "1 "+string(kind)) {
			t.Errorf("the second of %s: %v", kind, err)
		}
	}
	if n := s.Open(); n != 3 {
		t.Errorf("%d are open", n)
	}
}

// A port forward has one place for each of its ports, or none.
func TestStreamWithSeveralPlaces(t *testing.T) {
	for name, limits := range map[string]Limits{"per host": {PerHost: 4}, "per user": {PerUser: 4}, "in total": {Total: 4}} {
		t.Run(name, func(t *testing.T) {
			s := New(map[Kind]Limits{PortForward: limits})
			admitted, err := s.Admit(PortForward, at("h"), "u", 3)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Admit(PortForward, at("h"), "u", 2); !apierrors.IsTooManyRequests(err) {
				t.Errorf("two more: got %v, want 429", err)
			}
			if _, err := s.Admit(PortForward, at("h"), "u", 1); err != nil {
				t.Errorf("one more: got %v", err)
			}
			admitted.Release()
			if _, err := s.Admit(PortForward, at("h"), "u", 3); err != nil {
				t.Errorf("after it has ended: got %v", err)
			}
		})
	}
}

func TestNoLimits(t *testing.T) {
	s := New(nil)
	for range 1000 {
		if _, err := s.Admit(Logs, at("h"), "u", 1); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNamespacesLeaveRoom: a namespace alone has its whole limit, and each one after it leaves a part of the rest.
func TestNamespacesLeaveRoom(t *testing.T) {
	streams := New(map[Kind]Limits{Logs: {PerNamespace: 1536, Total: 2048}})
	fill := func(namespace string) (admitted int, err error) {
		for ; ; admitted++ {
			if _, err = streams.Admit(Logs, types.NamespacedName{Namespace: namespace, Name: "win-1"}, "u", 1); err != nil {
				return admitted, err
			}
		}
	}
	for i, want := range []int{1536, 384, 96, 24, 6} {
		if got, err := fill(fmt.Sprint("n", i)); got != want || !apierrors.IsTooManyRequests(err) {
			t.Errorf("namespace %d: %d, %v, want %d", i, got, err, want)
		}
	}
	small := New(map[Kind]Limits{Logs: {PerNamespace: 1, Total: 100}})
	for i := range 99 {
		if _, err := small.Admit(Logs, types.NamespacedName{Namespace: fmt.Sprint("n", i), Name: "win-1"}, "u", 1); err != nil {
			t.Fatalf("the only stream of namespace %d: %v", i, err)
		}
	}
	_, err := fill("n1")
	if err == nil || !strings.Contains(err.Error(), "the hosts of namespace n1 have as many of the logs of this server") {
		t.Errorf("got %v", err)
	}
}

func TestDrainWaitsForStreams(t *testing.T) {
	s := New(nil)
	asked := make(chan struct{}, 2)
	var ends []func()
	for range 2 {
		admitted, err := s.Admit(Logs, at("h"), "u", 1)
		if err != nil {
			t.Fatal(err)
		}
		admitted.OnDrain(func() { asked <- struct{}{} }, func() { t.Error("a stream was broken off that has time") })
		ends = append(ends, admitted.Release)
	}
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(t.Context()) }()
	<-asked
	<-asked

	_, err := s.Admit(Logs, at("h2"), "u2", 1)
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
	s := New(nil)
	admitted, err := s.Admit(Logs, at("h"), "u", 1)
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Drain(canceled); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v with a stream being opened", err)
	}
	stopped := false
	admitted.OnDrain(func() { stopped = true }, nil)
	if !stopped {
		t.Error("the stream was not told to end")
	}
	admitted.Release()
	if err := s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDrainGivesUp(t *testing.T) {
	s := New(nil)
	admitted, err := s.Admit(Logs, at("h"), "u", 1)
	if err != nil {
		t.Fatal(err)
	}
	cut := 0
	admitted.OnDrain(func() {}, func() { cut++ })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = s.Drain(ctx)
	if cut != 1 {
		t.Errorf("the stream was broken off %d times", cut)
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if want := "1 streams did not end in time: context canceled"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

// TestDrainBreaksOffWhatComesLate: a stream that was still being opened when the others were broken off does not stay.
func TestDrainBreaksOffWhatComesLate(t *testing.T) {
	s := New(nil)
	admitted, err := s.Admit(Logs, at("h"), "u", 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Drain(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	var done []string
	admitted.OnDrain(func() { done = append(done, "stopped") }, func() { done = append(done, "broken off") })
	if want := []string{"stopped", "broken off"}; !slices.Equal(done, want) {
		t.Errorf("got %q, want %q", done, want)
	}
}

// TestStreamsConcurrently is for the race detector, and checks that the count is
// right in the end and never above the limit.
func TestStreamsConcurrently(t *testing.T) {
	const limit = 8
	s := New(map[Kind]Limits{Logs: {Total: limit}})
	var open, highest, refused atomic.Int64
	var wait sync.WaitGroup
	for worker := range 16 {
		wait.Go(func() {
			for range 200 {
				admitted, err := s.Admit(Logs, at(fmt.Sprintf("h%d", worker%3)), fmt.Sprintf("u%d", worker%5), 1)
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
				admitted.OnDrain(func() {}, nil)
				open.Add(-1)
				admitted.Release()
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
