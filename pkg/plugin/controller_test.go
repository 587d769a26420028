// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned/fake"
)

// leaving is a server that may go away. It has no network, so that its clients may have a clock of their own.
type leaving struct {
	*fake.Clientset

	mu      sync.Mutex
	away    bool
	watches []watch.Interface
}

func newLeaving(objects ...runtime.Object) *leaving {
	s := &leaving{Clientset: fake.NewSimpleClientset(objects...)}
	s.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.away {
			return true, nil, apierrors.NewServiceUnavailable("away")
		}
		return false, nil, nil
	})
	s.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.away {
			return true, nil, apierrors.NewServiceUnavailable("away")
		}
		w, err := s.Tracker().Watch(action.GetResource(), action.GetNamespace())
		s.watches = append(s.watches, w)
		return true, w, err
	})
	return s
}

// goAway makes the server answer nothing for a while.
func (s *leaving) goAway(lasts time.Duration) {
	s.mu.Lock()
	s.away = true
	for _, w := range s.watches {
		w.Stop()
	}
	s.watches = nil
	s.mu.Unlock()
	<-time.After(lasts)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = false
}

// saidAt notes when something is written that contains a text.
type saidAt struct {
	text  string
	began time.Time
	at    []time.Duration
}

// Write implements [io.Writer].
func (s *saidAt) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.text) {
		s.at = append(s.at, time.Since(s.began))
	}
	return len(p), nil
}

// TestFollowUnbegun: who follows an operation that no controller begins is told so once, and keeps following it.
func TestFollowUnbegun(t *testing.T) {
	for _, tt := range []struct {
		name string
		// after 10 seconds the operation becomes this. Nil: it stays as it is.
		becomes *v1alpha1.Operation
		// away is for how long the server is, after 10 seconds.
		away time.Duration
		want []time.Duration
	}{
		{"no controller works", nil, 0, []time.Duration{30 * time.Second}},
		{"it is begun", operation("op", drain, running, ""), 0, nil},
		{"it says what it waits for", operation("op", drain, pending, "It waits for a slot."), 0, nil},
		{"nobody could see it for long", nil, 60_500 * time.Millisecond, []time.Duration{101 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host := with(instance("w1", "node-1"), operation("op", drain, pending, ""))
				s := newLeaving(host)
				said := &saidAt{text: "w1: windows-controller has not begun the drain for 30s: it does not work, or it is busy with other operations. See", began: time.Now()}
				e := &env{IOStreams: genericiooptions.IOStreams{ErrOut: said}}
				ended := make(chan error, 1)
				go func() {
					_, err := e.follow(t.Context(), &client{windows: s.WindowsV1alpha1()}, target{host}, host.Status.Operation, 10*time.Minute)
					ended <- err
				}()
				<-time.After(10 * time.Second)
				if tt.becomes != nil {
					if _, err := s.WindowsV1alpha1().WindowsInstances("hosts").UpdateStatus(t.Context(), with(host.DeepCopy(), tt.becomes), metav1.UpdateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if tt.away > 0 {
					s.goAway(tt.away)
				}
				if err := <-ended; !errors.Is(err, errWaitTimeout) || !slices.Equal(said.at, tt.want) {
					t.Errorf("it ended with %v, and said it after %v, want %v", err, said.at, tt.want)
				}
			})
		})
	}
}

// TestRolloutStatusUnobserved: a rollout whose pool no controller looks at is said to stand still, and is given up.
func TestRolloutStatusUnobserved(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*v1alpha1.WindowsNodePool)
		// observes is what the controller observes after 100 seconds. 0: nothing.
		observes int64
		// away is for how long the server is, after 100 seconds.
		away time.Duration
		want []time.Duration
		ends time.Duration
		err  string
	}{
		{"no controller works", nil, 0, 0, []time.Duration{30 * time.Second}, 4 * time.Minute,
			"windowsnodepool/p does not go on by itself: windows-controller has not observed its change for 4m0s (metadata.generation is 4, status.observedGeneration 2). The change is recorded, and need not be repeated. See whether"},
		{"it is late", nil, 4, 0, []time.Duration{30 * time.Second}, 103 * time.Second, ""},
		{"it is behind", nil, 3, 0, []time.Duration{30 * time.Second}, 340 * time.Second, "status.observedGeneration 3"},
		{"nobody could see it for long", nil, 0, 60_500 * time.Millisecond, []time.Duration{30 * time.Second}, 401 * time.Second, "status.observedGeneration 2"},
		{"the pool is new", func(p *v1alpha1.WindowsNodePool) { p.Status = v1alpha1.WindowsNodePoolStatus{} }, 0, 0, []time.Duration{30 * time.Second}, 4 * time.Minute, "status.observedGeneration 0"},
		{"it was observed", func(p *v1alpha1.WindowsNodePool) { p.Status.ObservedGeneration = 4 }, 0, 0, nil, 3 * time.Second, ""},
		{"the pool is being deleted", func(p *v1alpha1.WindowsNodePool) { p.DeletionTimestamp = new(metav1.Now()) }, 0, 0, nil, 10 * time.Minute, "context deadline exceeded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := finishedPool()
				pool.Generation = 4
				if tt.edit != nil {
					tt.edit(pool)
				}
				s := newLeaving(pool, hostOfPool("a"))
				said := &saidAt{text: "p: windows-controller has not observed its change for 30s. See", began: time.Now()}
				f := &rolloutFollower{
					e: &env{IOStreams: genericiooptions.IOStreams{Out: said, ErrOut: said}}, c: &client{windows: s.WindowsV1alpha1()},
					pool: pool, said: map[string]string{},
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				if err := f.list(ctx); err != nil {
					t.Fatal(err)
				}
				var took time.Duration
				ended := make(chan error, 1)
				go func() {
					err := f.follow(ctx)
					took = time.Since(said.began)
					ended <- err
				}()
				<-time.After(100 * time.Second)
				if tt.observes > 0 {
					now := pool.DeepCopy()
					now.Status.ObservedGeneration = tt.observes
					if _, err := s.WindowsV1alpha1().WindowsNodePools("hosts").UpdateStatus(t.Context(), now, metav1.UpdateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if tt.away > 0 {
					s.goAway(tt.away)
				}
				err := <-ended
				if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || took != tt.ends {
					t.Errorf("it ended after %v with %v, want %q after %v", took, err, tt.err, tt.ends)
				}
				if !slices.Equal(said.at, tt.want) {
					t.Errorf("it was said after %v, want %v", said.at, tt.want)
				}
			})
		})
	}
}
