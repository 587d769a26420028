// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// writeLog puts a file below the log directory of the host.
func writeLog(t *testing.T, s *site, name, content string) {
	t.Helper()
	path := filepath.Join(s.Host.LogDir(), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(content); err != nil {
		t.Fatal(err)
	}
}

func request(query string) api.LogRequest {
	return api.LogRequest{Queries: []string{query}, CaseSensitive: true}
}

func TestLogs(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	writeLog(t, s, "my/app.log", "one\r\ntwo\r\n")
	stream, err := s.client.Logs(t.Context(), s.Instance, request("my/app.log"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(stream)
	if err != nil || string(got) != "one\ntwo\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	hosttest.Eventually(t, "the session is given back", func() bool { return s.Pool.Stats().Sessions == 0 })
}

func TestLogRefusal(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	for _, test := range []struct {
		name    string
		request api.LogRequest
		code    int
	}{
		{"no such file", request("my/none.log"), http.StatusNotFound},
		{"out of the log directory", request("../../Windows/x.log"), http.StatusForbidden},
		{"bad output", api.LogRequest{Queries: []string{"my/none.log"}, Output: "yaml"}, http.StatusBadRequest},
	} {
		t.Run(test.name, func(t *testing.T) {
			stream, err := s.client.Logs(t.Context(), s.Instance, test.request)
			var refused *LogRefusedError
			if !errors.As(err, &refused) || refused.Refusal.Code != test.code || refused.Error() == "" {
				t.Errorf("got %v, want a refusal with code %d", err, test.code)
			}
			if stream != nil {
				t.Error("a stream was returned, too")
			}
		})
	}
	if n := s.uploads(); n != 1 {
		t.Errorf("a refusal is no reason to put the agent there again, which happened %d times", n)
	}
	hosttest.Eventually(t, "all sessions are given back", func() bool { return s.Pool.Stats().Sessions == 0 })
}

func TestFollowAndResume(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	writeLog(t, s, "my/app.log", "one\n")
	follow := request("my/app.log")
	follow.Follow, follow.EmitCursor = true, true
	stream, err := s.client.Logs(t.Context(), s.Instance, follow)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	lines := bufio.NewScanner(stream)
	if !lines.Scan() || lines.Text() != "one" {
		t.Fatalf("got %q, %v", lines.Text(), lines.Err())
	}
	writeLog(t, s, "my/app.log", "two\n")
	if !lines.Scan() || lines.Text() != "two" {
		t.Fatalf("got %q, %v", lines.Text(), lines.Err())
	}
	stream.Stop()
	stream.Stop() // a second time changes nothing
	if !lines.Scan() {
		t.Fatalf("ended without a cursor: %v", lines.Err())
	}
	cursor, ok := strings.CutPrefix(lines.Text(), "# cursor: ")
	if !ok {
		t.Fatalf("got %q where the cursor was expected", lines.Text())
	}
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("after the cursor came %q, %v", lines.Text(), lines.Err())
	}

	writeLog(t, s, "my/app.log", "three\n")
	resume := request("my/app.log")
	resume.Cursor = cursor
	rest, err := s.client.Logs(t.Context(), s.Instance, resume)
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close()
	if got, err := io.ReadAll(rest); err != nil || string(got) != "three\n" {
		t.Errorf("resumed with %q, %v", got, err)
	}
}

// TestLogEndsWithItsContext proves that a client that leaves leaves nothing behind,
// and does no harm to others on the same connection.
func TestLogEndsWithItsContext(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	writeLog(t, s, "my/app.log", "one\n")
	follow := request("my/app.log")
	follow.Follow = true
	other, err := s.client.Logs(t.Context(), s.Instance, follow)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := s.client.Logs(ctx, s.Instance, follow)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, stream)
		ended <- err
	}()
	cancel()
	if err := <-ended; err == nil {
		t.Error("a stream that was cut looks complete")
	}
	if err := stream.Close(); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	hosttest.Eventually(t, "only the other session is left", func() bool { return s.Pool.Stats().Sessions == 1 })
	writeLog(t, s, "my/app.log", "two\n")
	lines := bufio.NewScanner(other)
	for _, want := range []string{"one", "two"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the other one got %q, %v; want %q", lines.Text(), lines.Err(), want)
		}
	}
}

func TestLogOfALostHost(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	writeLog(t, s, "my/app.log", "one\n")
	follow := request("my/app.log")
	follow.Follow = true
	stream, err := s.client.Logs(t.Context(), s.Instance, follow)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if err := s.Host.PowerOff(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, stream); hostsite.Reason(err) == "" {
		t.Errorf("a stream whose host is gone ended with %v", err)
	}
}

func TestLogsPutADeletedAgentBack(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	writeLog(t, s, "my/app.log", "one\n")
	for range 2 {
		stream, err := s.client.Logs(t.Context(), s.Instance, request("my/app.log"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(stream); err != nil || string(got) != "one\n" {
			t.Errorf("got %q, %v", got, err)
		}
		if err := stream.Close(); err != nil {
			t.Error(err)
		}
		// Nobody can remove a program that runs, so the end of this one is waited for.
		hosttest.Eventually(t, "the program has ended", func() bool { return s.Pool.Stats().Sessions == 0 })
		if err := os.Remove(s.agentPath(t)); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.uploads(); n != 2 {
		t.Errorf("it was uploaded %d times", n)
	}
}

func TestLogsOfAFailingAgent(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	s.SetFault(t, winhost.Fault{ExecExit: 3, ExecMatch: " logs$"})
	_, err := s.client.Logs(t.Context(), s.Instance, request("my/app.log"))
	var agent *Error
	if !errors.As(err, &agent) || agent.Step != StepRun || !strings.Contains(err.Error(), "exit code 3") {
		t.Errorf("got %v, want what the program said", err)
	}
	hosttest.Eventually(t, "the session is given back", func() bool { return s.Pool.Stats().Sessions == 0 })
}

// TestLogThatIsCutShort does not look complete, in whichever way it is read.
func TestLogThatIsCutShort(t *testing.T) {
	for name, read := range map[string]func(*LogStream) (string, error){
		"Read": func(l *LogStream) (string, error) {
			got, err := io.ReadAll(struct{ io.Reader }{l})
			return string(got), err
		},
		"WriteTo": func(l *LogStream) (string, error) {
			var got strings.Builder
			_, err := l.WriteTo(&got)
			return got.String(), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, winhost.InProcessOptions{Command: func(_ context.Context, c winhost.CommandLine) (uint32, bool) {
				_, _ = bufio.NewReader(c.Stdin).ReadString('\n')
				_, _ = io.WriteString(c.Stdout, `{"protocol":1}`+"\none\n")
				return 5, true
			}})
			stream, err := s.client.openLog(t.Context(), mustTarget(t, s), "hostile", api.LogRequest{})
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			got, err := read(stream)
			if failed := (*Error)(nil); got != "one\n" || !errors.As(err, &failed) || failed.Step != StepRun {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// TestHostLearnsThatTheReaderLeft: sshd of Windows ends no command whose channel is closed, and one that
// finds nothing to write goes on until it notices by its standard input.
func TestHostLearnsThatTheReaderLeft(t *testing.T) {
	learned := make(chan struct{})
	s := newSite(t, winhost.InProcessOptions{Command: func(_ context.Context, c winhost.CommandLine) (uint32, bool) {
		in := bufio.NewReader(c.Stdin)
		line, _ := in.ReadString('\n')
		if !strings.Contains(line, `"attended":true`) {
			t.Errorf("the host was asked %q", line)
		}
		_, _ = io.WriteString(c.Stdout, `{"protocol":1}`+"\n")
		_, _ = io.Copy(io.Discard, in)
		close(learned)
		return 0, true
	}})
	stream, err := s.client.openLog(t.Context(), mustTarget(t, s), "patient", api.LogRequest{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-learned:
		t.Error("it was told while the reader was there")
	default:
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	<-learned
}

func TestReadLine(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     string
		fails    bool
	}{
		{"a line", "abc\ndef\n", "abc", false},
		{"an empty line", "\n", "", false},
		{"longer than the buffer", strings.Repeat("x", 50) + "\n", strings.Repeat("x", 50), false},
		{"longer than the limit", strings.Repeat("x", 101) + "\n", "", true},
		{"without an end", "abc", "", true},
		{"nothing", "", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := readLine(bufio.NewReaderSize(strings.NewReader(test.in), 16), 100)
			if string(got) != test.want || (err != nil) != test.fails {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
