// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

func (h *fakeHost) Boot(context.Context) (api.BootFacts, error) { return h.facts.Boot, nil }

func (h *fakeHost) Restart(_ context.Context, r api.RestartRequest) error {
	h.restarts = append(h.restarts, r)
	return h.restartErr
}

// EnsureRoute knows the routes that it was given before.
func (h *fakeHost) EnsureRoute(_ context.Context, r api.Route) (bool, error) {
	if slices.Contains(h.routes, r) {
		return false, nil
	}
	h.routes = append(h.routes, r)
	return true, nil
}

func TestRestart(t *testing.T) {
	tests := []struct {
		name     string
		boot     string
		err      error
		stdin    string
		want     api.RestartAnswer
		restarts []api.RestartRequest
	}{
		{
			name: "in the boot to end", boot: "one", stdin: `{"bootID":"one","reason":"update","force":true}`,
			want: api.RestartAnswer{BootID: "one"}, restarts: []api.RestartRequest{{BootID: "one", Reason: "update", Force: true}},
		},
		{name: "restarted already", boot: "two", stdin: `{"bootID":"one"}`, want: api.RestartAnswer{BootID: "two", Restarted: true}},
		{name: "no boot named", boot: "two", stdin: `{}`, want: api.RestartAnswer{Refused: "the request does not say which boot is to end"}},
		{name: "no request", boot: "two", want: api.RestartAnswer{Refused: "reading the request: EOF"}},
		{
			name: "a system that cannot tell its boots apart", stdin: `{"bootID":"one"}`,
			want: api.RestartAnswer{Refused: "the system does not say which boot this is"},
		},
		{
			name: "the system refuses", boot: "one", err: errors.New("access is denied"), stdin: `{"bootID":"one"}`,
			want: api.RestartAnswer{BootID: "one", Refused: "restarting the host: access is denied"}, restarts: []api.RestartRequest{{BootID: "one"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newFakeHost(t)
			h.facts.Boot.ID, h.restartErr = tt.boot, tt.err
			var stdout, stderr bytes.Buffer
			code := Main(t.Context(), h, []string{api.CommandRestart}, strings.NewReader(tt.stdin), &stdout, &stderr)
			var got api.RestartAnswer
			if err := json.Unmarshal(stdout.Bytes(), &got); code != api.ExitOK || err != nil || got != tt.want || stderr.Len() > 0 {
				t.Errorf("got code %d, %q and %q on standard error, %v", code, stdout.String(), stderr.String(), err)
			}
			if diff := cmp.Diff(tt.restarts, h.restarts); diff != "" {
				t.Errorf("restarts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBoot(t *testing.T) {
	h := newFakeHost(t)
	var stdout, stderr bytes.Buffer
	if code := Main(t.Context(), h, []string{api.CommandBoot}, strings.NewReader(""), &stdout, &stderr); code != api.ExitFailed {
		t.Errorf("a boot without ID: got code %d and %q", code, stdout.String())
	}
	h.facts.Boot = api.BootFacts{ID: "one", UptimeSeconds: 7}
	stdout.Reset()
	if code := Main(t.Context(), h, []string{api.CommandBoot}, strings.NewReader(""), &stdout, &stderr); code != api.ExitOK || stdout.String() != `{"uptimeSeconds":7,"id":"one"}`+"\n" {
		t.Errorf("got code %d and %q", code, stdout.String())
	}
}

func TestRoutes(t *testing.T) {
	const metadata = `{"destination":"169.254.169.254/32"}`
	tests := []struct {
		name   string
		stdin  string
		code   int
		stdout string
		stderr string
	}{
		{name: "none", stdin: `{}`, stdout: "{}\n"},
		{
			name:   "only what is not there is named",
			stdin:  `{"ensure":[` + metadata + `,` + metadata + `,{"destination":"fd00:ec2::254/128","gateway":"fe80::1","interface":4}]}`,
			stdout: `{"changed":[` + metadata + `,{"destination":"fd00:ec2::254/128","gateway":"fe80::1","interface":4}]}` + "\n",
		},
		{name: "default route", stdin: `{"ensure":[` + metadata + `,{"destination":"0.0.0.0/0"}]}`, code: api.ExitFailed, stderr: "default route"},
		{name: "no destination", stdin: `{"ensure":[{"interface":4}]}`, code: api.ExitFailed, stderr: "no destination"},
		{name: "bits behind the prefix", stdin: `{"ensure":[{"destination":"10.0.0.1/8"}]}`, code: api.ExitFailed, stderr: "use 10.0.0.0/8"},
		{name: "another IP version", stdin: `{"ensure":[{"destination":"10.0.0.0/8","gateway":"fe80::1"}]}`, code: api.ExitFailed, stderr: "IP version"},
		{name: "no adapter", stdin: `{"ensure":[{"destination":"10.0.0.0/8","interface":-1}]}`, code: api.ExitFailed, stderr: "adapter"},
		{name: "too many", stdin: `{"ensure":[` + strings.Repeat(metadata+",", 64) + metadata + `]}`, code: api.ExitFailed, stderr: "65 routes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newFakeHost(t)
			var stdout, stderr bytes.Buffer
			code := Main(t.Context(), h, []string{api.CommandRoutes}, strings.NewReader(tt.stdin), &stdout, &stderr)
			if code != tt.code || stdout.String() != tt.stdout || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("got code %d, %q and %q on standard error", code, stdout.String(), stderr.String())
			}
			if code != api.ExitOK && len(h.routes) > 0 {
				t.Errorf("a refused request made routes: %v", h.routes)
			}
		})
	}
}
