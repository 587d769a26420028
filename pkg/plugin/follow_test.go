// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestKeepLooking: what is lost is told once for each time, and is given up when it is refused for long.
func TestKeepLooking(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: instancesResource}, "w1", errors.New("x"))
	for _, tt := range []struct {
		name  string
		lasts time.Duration // each watch that is granted
		err   error         // at its end
		looks int           // until it is over. 0: it never is
		want  error
		tells int
	}{
		{"watches that last, and break off", time.Minute, io.ErrUnexpectedEOF, 4, nil, 3},
		{"watches that break off at once", 0, io.ErrUnexpectedEOF, 100, nil, 1},
		{"watches that the server ends at once", 0, nil, 100, nil, 0},
		{"refused in each watch", 0, refused, 0, refused, 1},
		{"refused in each watch after a second", time.Second, refused, 0, refused, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				looks, tells := 0, 0
				err := keepLooking(ctx, func(_ context.Context, seen func()) (over bool, err error) {
					if looks++; looks == tt.looks {
						return true, nil
					}
					seen()
					<-time.After(tt.lasts)
					return false, tt.err
				}, func(error) { tells++ })
				if !errors.Is(err, tt.want) || tells != tt.tells {
					t.Errorf("got %v, told %d times; want %v, %d times", err, tells, tt.want, tt.tells)
				}
			})
		})
	}
}
