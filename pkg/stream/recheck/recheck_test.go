// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package recheck

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/stream"
)

// A stream lasts while the answers allow it, and while there is one now and then.
func TestWatch(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "hosts"}, "win-1", nil)
	away, failed := errors.New("away"), apierrors.NewInternalError(errors.New("away"))
	for _, test := range []struct {
		name    string
		answers []error // then nobody asks any more
		ends    func(error) bool
		after   int
	}{
		{"allowed", make([]error, 20), nil, 20},
		{"refused", []error{nil, refused}, apierrors.IsForbidden, 2},
		{"refused when it is over", []error{nil, refused}, nil, 2},
		{"no answer for a while", []error{away, failed, away, away, away, nil, away, away, away, away, away}, nil, 11},
		{"no answer for long", []error{nil, away, failed, away, away, away, away}, apierrors.IsServiceUnavailable, 7},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began, asked := time.Now(), 0
				allowed := func(context.Context) error { return nil }
				err := Watch(ctx, clock.RealClock{}, nil, allowed, func(context.Context) error {
					answer := test.answers[asked]
					if asked++; asked == len(test.answers) && test.ends == nil {
						cancel()
					}
					return answer
				})
				if test.ends == nil && err != nil || test.ends != nil && !test.ends(err) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); asked != test.after || took != time.Duration(asked)*time.Minute {
					t.Errorf("asked %d times in %s", asked, took)
				}
			})
		})
	}
}

// Want of memory ends a stream at once, also while nobody answers.
func TestWatchIsRelieved(t *testing.T) {
	want := errors.New("short of memory")
	for name, after := range map[string]time.Duration{"between two questions": time.Second, "while nobody answers": time.Minute + time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				relieved := make(chan error, 1)
				began := time.Now()
				time.AfterFunc(after, func() { relieved <- want })
				err := Watch(t.Context(), clock.RealClock{}, relieved, func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				})
				if took := time.Since(began); !errors.Is(err, want) || took != after {
					t.Errorf("got %v after %s", err, took)
				}
			})
		})
	}
}

// Whoever takes nothing for some minutes loses the stream, also after something was taken.
func TestTaking(t *testing.T) {
	var backlog stream.Backlog
	ask := Taking(&backlog)
	backlog.Begin()
	backlog.End()
	backlog.Begin()
	for range maxUntaken {
		if err := ask(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	err := ask(t.Context())
	if !apierrors.IsTimeout(err) || !IsRefusal(err) || err.Error() != "nothing was read for 10m0s" {
		t.Errorf("got %v", err)
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); !ok || status.ErrStatus.Status != metav1.StatusFailure || status.ErrStatus.Code != http.StatusRequestTimeout {
		t.Errorf("got %+v", status)
	}
}

// A reader that is slow, and one that waits for lines, keep their log.
func TestSlowReaderKeepsItsLog(t *testing.T) {
	var backlog stream.Backlog
	ask := Taking(&backlog)
	for range 3 * maxUntaken {
		backlog.Begin()
		for range maxUntaken - 1 {
			if err := ask(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		backlog.End()
	}
	for range 3 * maxUntaken {
		if err := ask(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
