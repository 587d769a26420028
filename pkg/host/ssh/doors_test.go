// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestDoors: so many are in at a time, those at another door do not count, and nothing is left when all have gone.
func TestDoors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d doors
		var leave []func()
		for range maxAtDoor {
			l, err := d.enter(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			leave = append(leave, l)
		}
		other, err := d.enter(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		entered := make(chan func(), 1)
		gaveUp := make(chan error, 1)
		go func() {
			l, err := d.enter(t.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			entered <- l
		}()
		synctest.Wait()
		go func() {
			_, err := d.enter(ctx, "a")
			gaveUp <- err
		}()
		synctest.Wait()
		select {
		case <-entered:
			t.Fatal("one more is in")
		default:
		}
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		leave[0]()
		leave[0] = <-entered
		for _, l := range append(leave, other) {
			l()
		}
		if len(d.open) != 0 {
			t.Errorf("%d doors are remembered", len(d.open))
		}
	})
}
