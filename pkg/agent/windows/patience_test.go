// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"testing"
	"time"
)

// TestPatiently: what somebody has open for a moment is waited for, and for no more than 2 seconds.
func TestPatiently(t *testing.T) {
	open, other := errors.New("open"), errors.New("other")
	tests := []struct {
		name   string
		errs   []error // of one try after the other, the last one for all others
		waited time.Duration
		want   error
	}{
		{name: "at once", errs: []error{nil}},
		{name: "the third time", errs: []error{open, open, nil}, waited: 30 * time.Millisecond},
		{name: "never", errs: []error{open}, waited: 2 * time.Second, want: open},
		{name: "for another reason", errs: []error{other}, want: other},
		{name: "for another reason in the end", errs: []error{open, other}, waited: 10 * time.Millisecond, want: other},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			waited, tries := time.Duration(0), 0
			err := patiently(func(d time.Duration) { waited += d }, func(err error) bool { return errors.Is(err, open) }, func() error {
				tries++
				return tt.errs[min(tries, len(tt.errs))-1]
			})
			if !errors.Is(err, tt.want) || waited != tt.waited {
				t.Errorf("got %v after %v, want %v after %v", err, waited, tt.want, tt.waited)
			}
		})
	}
}
