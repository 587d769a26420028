// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/windows/svc"
)

// TestStopMakesProgress: the service manager waits for what the service is in the middle of, as long
// as it is told in time that the stop goes on.
func TestStopMakesProgress(t *testing.T) {
	for _, stop := range []svc.Cmd{svc.Stop, svc.Shutdown, svc.PreShutdown} {
		stopMakesProgress(t, stop)
	}
}

func stopMakesProgress(t *testing.T, stop svc.Cmd) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		service := &serviceHandler{ctx: t.Context(), run: func(ctx context.Context) error {
			<-ctx.Done()
			<-finish
			return nil
		}}
		requests, status, ended := make(chan svc.ChangeRequest), make(chan svc.Status), make(chan uint32, 1)
		go func() {
			_, code := service.Execute(nil, requests, status)
			ended <- code
		}()
		if got := <-status; got.State != svc.Running || got.Accepts != svc.AcceptStop|svc.AcceptShutdown|svc.AcceptPreShutdown {
			t.Fatalf("started, it says %+v", got)
		}
		requests <- svc.ChangeRequest{Cmd: stop}
		for n := range uint32(3) {
			got := <-status
			if got.State != svc.StopPending || got.CheckPoint != n || got.WaitHint <= uint32(stopProgress.Milliseconds()) {
				t.Errorf("stopping, it says %+v, want checkpoint %d", got, n)
			}
		}
		close(finish)
		if got := <-status; got.State != svc.StopPending {
			t.Errorf("at its end it says %+v", got)
		}
		if code := <-ended; code != 0 {
			t.Errorf("it ends with %d", code)
		}
	})
}
