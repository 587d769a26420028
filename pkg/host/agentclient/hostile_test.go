// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// newHostileSite is a host on which something else is in the place of the agent. It answers
// whatever it is asked as respond writes it, and goes on as long as somebody reads.
func newHostileSite(t *testing.T, respond func(w io.Writer)) *site {
	t.Helper()
	s := newSite(t, winhost.InProcessOptions{Command: func(_ context.Context, c winhost.CommandLine) (uint32, bool) {
		_, _ = bufio.NewReader(c.Stdin).ReadString('\n') // the request, if there is one
		respond(c.Stdout)
		return 0, true
	}})
	s.place(t, "hostile")
	return s
}

// endless writes until nobody reads any more.
func endless(w io.Writer) {
	line := bytes.Repeat([]byte("x"), 32<<10)
	for {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

func mustTarget(t *testing.T, s *site) ssh.Target {
	t.Helper()
	target, err := s.connector.Target(t.Context(), s.Instance)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// TestEndlessAnswers: what a host sends without an end is not kept.
func TestEndlessAnswers(t *testing.T) {
	for name, use := range map[string]func(s *site) error{
		"facts":   func(s *site) error { _, err := s.client.Facts(t.Context(), s.Instance); return err },
		"inspect": func(s *site) error { _, err := s.client.Inspect(t.Context(), s.Instance); return err },
		"boot":    func(s *site) error { _, err := s.client.BootID(t.Context(), s.Instance); return err },
		"restart": func(s *site) error {
			_, err := s.client.Restart(t.Context(), s.Instance, api.RestartRequest{BootID: "one"})
			return err
		},
		"routes": func(s *site) error { _, err := s.client.EnsureRoutes(t.Context(), s.Instance, nil); return err },
	} {
		t.Run(name, func(t *testing.T) {
			s := newHostileSite(t, endless)
			err := use(s)
			var failed *Error
			if want := fmt.Sprintf("its answer to %q has more than %d bytes", name, answer.Usual.Bytes); !errors.As(err, &failed) || failed.Step != StepRun || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
			// It was there, and is not put there again.
			if n := len(s.Host.Commands()); n != 1 {
				t.Errorf("%d commands were run: %q", n, s.Host.Commands())
			}
		})
	}
	t.Run("logs", func(t *testing.T) {
		s := newHostileSite(t, endless)
		_, err := s.client.openLog(t.Context(), mustTarget(t, s), "hostile", api.LogRequest{})
		if failed := (*Error)(nil); !errors.As(err, &failed) || !strings.Contains(err.Error(), "more than") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("version", func(t *testing.T) {
		s := newHostileSite(t, endless)
		_, err := verifyAgent(t.Context(), s.Pool, mustTarget(t, s), "hostile", &Bundle{})
		if failed := (*Error)(nil); !errors.As(err, &failed) || failed.Step != StepVerify || !strings.Contains(err.Error(), `its answer to "version" has more than 4096 bytes`) {
			t.Errorf("got %v", err)
		}
	})
}

// TestHostileAnswers: an answer that is small enough can still not be what it should be.
func TestHostileAnswers(t *testing.T) {
	// Asked once: the second time our agent would have been put there.
	boot := func(s *site) error {
		_, err := queryProgram(t.Context(), s.Pool, mustTarget(t, s), "hostile", query{command: api.CommandBoot}, &api.BootFacts{})
		return err
	}
	logs := func(s *site) error {
		_, err := s.client.openLog(t.Context(), mustTarget(t, s), "hostile", api.LogRequest{})
		return err
	}
	for _, tt := range []struct {
		name   string
		answer string
		use    func(s *site) error
		want   string
	}{
		{"no boot", `{}`, boot, "does not name the boot"},
		{"boot that is too long", fmt.Sprintf(`{"id":%q}`, strings.Repeat("x", answer.MaxBootID+1)), boot, "is not valid"},
		{"boot that terminals act upon", `{"id":"\u001b[2J"}`, boot, "is not valid"},
		{"not JSON", "\x00", boot, "cannot be read"},
		{
			"more objects than there can be", `{"id":"one","x":[` + strings.Repeat("{},", answer.Usual.Objects) + `{}]}`, boot,
			"8194 objects",
		},
		{
			"route that was not asked for", `{"changed":[{"destination":"0.0.0.0/0"}]}`,
			func(s *site) error { _, err := s.client.EnsureRoutes(t.Context(), s.Instance, nil); return err },
			"0.0.0.0/0, which was not requested",
		},
		{"log refused with a code of another server", `{"protocol":1,"error":{"code":401,"message":"log in again"}}` + "\n", logs, "refuses with the code 401"},
		{"log refused with no code at all", `{"protocol":1,"error":{"code":7}}` + "\n", logs, "refuses with the code 7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newHostileSite(t, func(w io.Writer) { _, _ = io.WriteString(w, tt.answer) })
			err := tt.use(s)
			if failed := (*Error)(nil); !errors.As(err, &failed) || failed.Step != StepRun || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

// TestBound: what is as long as it may be is read.
func TestBound(t *testing.T) {
	for _, tt := range []struct {
		text  string
		fails bool
	}{{"abc", false}, {"abcd", true}} {
		got, err := io.ReadAll(&boundedReader{r: strings.NewReader(tt.text), left: 3})
		if tooLarge := (*answer.TooLargeError)(nil); errors.As(err, &tooLarge) != tt.fails || err == nil && string(got) != tt.text {
			t.Errorf("%q: got %q, %v", tt.text, got, err)
		}
	}
}
