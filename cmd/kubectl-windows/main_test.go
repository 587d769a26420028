// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build unix

package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// TestCompletion: under the names that kubectl and oc look for, the plugin completes.
func TestCompletion(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"/opt/bin/kubectl_complete-windows", ":4\n"},
		{"oc_complete-windows", ":4\n"},
		{"kubectl_complete-windows.exe", ":4\n"},
		{"Kubectl_Complete-Windows.EXE", ":4\n"},
		{"/opt/bin/kubectl-windows", "unknown command"},
		{"kubectl-windows.exe", "unknown command"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, _ := runPlugin(t, tt.name, "rollo")
			if !strings.Contains(out, tt.want) || strings.Contains(out, "rollout\t") != (tt.want == ":4\n") {
				t.Errorf("it says %q", out)
			}
		})
	}
}

// runPlugin runs the plugin under a name until it ends, and returns all that it says.
func runPlugin(t *testing.T, name string, args ...string) (out string, code int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Args[0] = name
	cmd.Env = append(os.Environ(), asPlugin+"=1", "KUBECONFIG="+os.DevNull)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return said.String(), cmd.ProcessState.ExitCode()
}

// TestVerbosity: -v shows requests and what is sent and received, as with kubectl, and no credentials.
func TestVerbosity(t *testing.T) {
	const answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not now","reason":"ServiceUnavailable","code":503}`
	var authorized atomic.Bool
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorized.Store(r.Header.Get("Authorization") == "Bearer hunter2")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, answer) // the plugin would not get it
	}))
	defer server.Close()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	const url = "/apis/windows.openshift.io/v1alpha1/namespaces/default/windowsinstances/win-5"
	for _, tt := range []struct {
		args          []string
		url, has, all bool // what it says: the URL, the headers or the command line of curl, and the body
	}{
		{nil, false, false, false},
		{[]string{"-v=0"}, false, false, false},
		{[]string{"-v", "6"}, true, false, false},
		{[]string{"--v=7"}, true, true, false},
		{[]string{"-v=8"}, true, true, true},
		{[]string{"-v=9"}, true, true, true},
		{[]string{"-v=10"}, true, true, true},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			authorized.Store(false)
			out, code := runPlugin(t, "kubectl-windows", append([]string{"get", "win-5", "--server=" + server.URL, "--certificate-authority=" + authority, "--token=hunter2"}, tt.args...)...)
			if code != 1 || !strings.HasSuffix(out, "Error from server (ServiceUnavailable): not now\n") || !authorized.Load() {
				t.Errorf("exit code %d, authorized %v", code, authorized.Load())
			}
			if got := strings.Contains(out, url); got != tt.url {
				t.Errorf("it shows the URL: %v", got)
			}
			if got := strings.Contains(out, "Bearer <masked>"); got != tt.has {
				t.Errorf("it shows headers: %v", got)
			}
			if got := strings.Contains(out, "Response Body") && strings.Contains(out, "not now\\\""); got != tt.all {
				t.Errorf("it shows bodies: %v", got)
			}
			if strings.Contains(out, "hunter2") {
				t.Error("it has the token")
			}
			if t.Failed() {
				t.Logf("it says\n%s", out)
			}
		})
	}
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
