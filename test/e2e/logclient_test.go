// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/test/output"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// answer is an answer of kube-apiserver, read to its end.
type answer struct {
	code   int
	header http.Header
	body   string
}

// request asks kube-apiserver of a system, with all rights, and leaves the body to the
// caller. Unlike client-go it does not try again when it is told to come back later.
func request(ctx context.Context, s *system.System, method, path string) (*http.Response, error) {
	transport, err := rest.TransportFor(s.AdminConfig())
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, s.URL()+path, nil)
	if err != nil {
		return nil, err
	}
	return transport.RoundTrip(r)
}

// ask sends a request through kube-apiserver of a system and reads the whole answer.
func ask(t *testing.T, s *system.System, method, path string) answer {
	t.Helper()
	response, err := request(t.Context(), s, method, path)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: the answer breaks off after %q: %v", method, path, body, err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// ok fails the test when the request was refused, and returns the body.
func (a answer) ok(t *testing.T) string {
	t.Helper()
	if a.code != http.StatusOK {
		t.Fatalf("got %d: %s", a.code, a.body)
	}
	return a.body
}

// refused fails the test unless the answer is a Status with that code and reason, and
// returns it.
func (a answer) refused(t *testing.T, code int, reason metav1.StatusReason) metav1.Status {
	t.Helper()
	var status metav1.Status
	if err := json.Unmarshal([]byte(a.body), &status); err != nil {
		t.Fatalf("got %d with what is no Status: %v\n%s", a.code, err, a.body)
	}
	if status.Kind != "Status" || status.Status != metav1.StatusFailure || a.code != code || int(status.Code) != code || status.Reason != reason {
		t.Errorf("got HTTP %d with %s, want a Status with code %d, reason %s", a.code, a.body, code, reason)
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("the Status is of type %q", got)
	}
	return status
}

// follower reads a log stream in the background.
type follower struct {
	out  output.Buffer
	done chan struct{}
	err  error // how the stream ended; set when done is closed
	stop func()
}

// followWithKubectl follows with `kubectl get --raw`, until the stream ends or the test does.
func followWithKubectl(t *testing.T, path string) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{done: make(chan struct{}), stop: cancel}
	var stderr output.Buffer
	cmd := sys.KubectlCommand(ctx, sys.KubeconfigPath(), "get", "--raw", path)
	cmd.Stdout, cmd.Stderr = &f.out, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(f.done)
		if f.err = cmd.Wait(); f.err != nil {
			f.err = fmt.Errorf("%w: %s", f.err, stderr.String())
		}
	}()
	t.Cleanup(func() { cancel(); <-f.done })
	return f
}

// follow follows with a plain HTTP client. It returns when the stream was accepted.
func follow(t *testing.T, s *system.System, path string) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	response, err := request(ctx, s, http.MethodGet, path)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		defer cancel()
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body) // shown as far as it comes
		t.Fatalf("GET %s: %s: %s", path, response.Status, body)
	}
	f := &follower{done: make(chan struct{}), stop: cancel}
	go func() {
		defer close(f.done)
		defer response.Body.Close()
		_, f.err = io.Copy(&f.out, response.Body)
	}()
	t.Cleanup(func() { cancel(); <-f.done })
	return f
}

// ended says whether the stream is over.
func (f *follower) ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// waitFor waits until the stream has brought a line that is or contains text.
func (f *follower) waitFor(t *testing.T, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the stream brings %q", text), func() error {
		over := f.ended()
		out := f.out.String()
		switch {
		case strings.Contains(out, text):
			return nil
		case over:
			t.Fatalf("the stream ended (%v) without %q:\n%s", f.err, text, out)
		}
		return fmt.Errorf("so far\n%s", out)
	})
}

// waitForEnd waits until the stream has ended in good order.
func (f *follower) waitForEnd(t *testing.T) {
	t.Helper()
	eventually(t, "the stream ends", func() error {
		if !f.ended() {
			return errors.New("it is still open")
		}
		return nil
	})
	if f.err != nil {
		t.Fatalf("the stream broke off: %v\n%s", f.err, f.out.String())
	}
}

// lines returns what came without the lines that are about the stream itself.
func (f *follower) lines() []string {
	return slices.DeleteFunc(strings.Split(strings.TrimSuffix(f.out.String(), "\n"), "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, "# ")
	})
}

// cursor returns where a stream says that it can be continued.
func (f *follower) cursor(t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(f.out.String()) {
		if cursor, ok := strings.CutPrefix(line, "# cursor: "); ok {
			return strings.TrimSpace(cursor)
		}
	}
	t.Fatalf("there is no cursor in\n%s", f.out.String())
	return ""
}

// mustBeComplete checks that lines are those of numbered(0) to numbered(n-1), in order,
// none missing and none twice.
func mustBeComplete(t *testing.T, who string, lines []string, n int) {
	t.Helper()
	for i := range max(n, len(lines)) {
		want, got := "nothing", "nothing"
		if i < n {
			want = strings.TrimSuffix(numbered(i), "\n")
		}
		if i < len(lines) {
			got = lines[i]
		}
		if got != want {
			t.Errorf("%s: line %d of %d is %q, want %q; all of them:\n%s", who, i, len(lines), got, want, strings.Join(lines, "\n"))
			return
		}
	}
}

// numbered is the n-th line of a log that tests write.
func numbered(n int) string { return fmt.Sprintf("line %d\n", n) }

// newLogHost starts a host and waits until the controller has logged in to it as
// instance w of the returned namespace.
func newLogHost(t *testing.T, o winhost.Options) (namespace string, host winhost.Host) {
	t.Helper()
	namespace = newNamespace(t)
	host = startHost(t, o)
	createInstance(t, namespace, "w", host, "")
	waitFor(t, namespace, "w", loggedIn)
	return namespace, host
}
