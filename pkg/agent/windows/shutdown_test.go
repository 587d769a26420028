// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// TestScheduledShutdown: a shutdown that others have scheduled may end in anything, at any time, so
// it is not taken for the restart that was requested. One of ours whose answer was lost is.
func TestScheduledShutdown(t *testing.T) {
	denied := errors.New("access is denied")
	tests := []struct {
		name    string
		answers []error // of Windows, one for each request
		want    string  // part of the error; empty: it has agreed
	}{
		{name: "Windows agrees", answers: []error{nil}},
		{name: "Windows refuses", answers: []error{denied}, want: "access is denied"},
		{name: "the host is going down already", answers: []error{errShutdownInProgress}},
		{name: "ours was scheduled before", answers: []error{errShutdownScheduled, errShutdownInProgress}},
		{name: "another one is scheduled", answers: []error{errShutdownScheduled, errShutdownScheduled}, want: "another shutdown of the host is scheduled"},
		{name: "another one is scheduled and canceled", answers: []error{errShutdownScheduled, nil}},
		{name: "another one is canceled, and somebody works", answers: []error{errShutdownScheduled, errUsersLoggedOn}, want: errUsersLoggedOn.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			requests := 0
			var waited time.Duration
			err := initiateShutdown(func(d time.Duration) { waited += d }, func() error {
				requests++
				return tt.answers[requests-1]
			})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if requests != len(tt.answers) || (waited > api.RestartNotice) != (requests > 1) {
				t.Errorf("%d requests, waited %s", requests, waited)
			}
		})
	}
	if err := initiateShutdown(func(time.Duration) {}, func() error { return errShutdownScheduled }); err == nil || !strings.Contains(err.Error(), "shutdown /a") {
		t.Errorf("it is not said what to do: %v", err)
	}
}
