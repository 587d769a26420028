// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build unix

package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// asPlugin makes the program of the tests the plugin.
const asPlugin = "KUBECTL_WINDOWS_TEST_AS_PLUGIN"

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestSignals ends the plugin while it waits for an answer.
func TestSignals(t *testing.T) {
	for _, tt := range []struct {
		signal syscall.Signal
		want   int
	}{
		{syscall.SIGINT, 130},
		{syscall.SIGTERM, 143},
	} {
		t.Run(tt.signal.String(), func(t *testing.T) {
			asked := make(chan struct{}, 10)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				asked <- struct{}{}
				<-r.Context().Done()
			}))
			defer server.Close()
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			cmd := exec.CommandContext(t.Context(), program, "get", "--server="+server.URL)
			cmd.Env = append(os.Environ(), asPlugin+"=1", "KUBECONFIG="+os.DevNull)
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-asked
			if err := cmd.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
			if out.Len() != 0 {
				t.Errorf("it said %q", out.String())
			}
		})
	}
}
