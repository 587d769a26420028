// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/openshift/windows-instance-api/test/output"
)

func TestLogParameters(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"index", []string{"logs", "w1"}, ""},
		{"sources", []string{"logs", "w1", "kubelet", "eventlog/System"}, "query=kubelet&query=eventlog%2FSystem"},
		{"by node", []string{"logs", "node-1", "kubelet"}, "query=kubelet"},
		{"tail and since", []string{"logs", "w1", "kubelet", "--tail=0", "--since=1500ms"}, "query=kubelet&sinceSeconds=2&tailLines=0"},
		{"times", []string{"logs", "w1", "kubelet", "--since-time=2026-01-01T00:00:00Z", "--until-time=2026-01-02T00:00:00Z"}, "query=kubelet&sinceTime=2026-01-01T00%3A00%3A00Z&untilTime=2026-01-02T00%3A00%3A00Z"},
		{"the rest", []string{"logs", "w1", "kubelet", "-p", "--timestamps", "--limit-bytes=9", "--pattern=a b", "--ignore-case", "--boot=-1", "-o", "json"},
			"boot=-1&case-sensitive=false&limitBytes=9&output=json&pattern=a+b&previous=true&query=kubelet&timestamps=true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAPI(t, instance("w1", "node-1"))
			a.handle(http.MethodGet, "log", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "the log\n") })
			got := a.run(tc.args...)
			got.want(t, 0)
			if got.stdout != "the log\n" {
				t.Errorf("got %q", got.stdout)
			}
			request := a.asked("/log")
			if len(request) != 1 || !strings.HasPrefix(request[0], "GET "+apiPrefix+"namespaces/hosts/windowsinstances/w1/log") {
				t.Fatalf("requests: %q", request)
			}
			_, query, _ := strings.Cut(request[0], "?")
			values, err := url.ParseQuery(query)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, values.Encode()); diff != "" {
				t.Errorf("parameters (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLogsRefused(t *testing.T) {
	a := newAPI(t, instance("w1", ""))
	a.handle(http.MethodGet, "log", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "w1", "no log of \"nope\" was found")
	})
	a.run("logs", "w1", "nope").want(t, 1, `Error from server (NotFound): no log of "nope" was found`)
	a.run("logs", "w1", "nope", "-f").want(t, 1, `no log of "nope" was found`)
	a.run("logs").want(t, 1, "name a host")
	a.run("logs", "w1", "-f").want(t, 1, "name a source")
	a.run("logs", "w1", "kubelet", "-f", "-p").want(t, 1, "does not grow")
	a.run("logs", "w1", "kubelet", "--since=-1s").want(t, 1, "must not be negative")
}

// Whoever may read logs and nothing else names the instance.
func TestLogsWithoutSeeingInstances(t *testing.T) {
	a := newAPI(t)
	a.handle(http.MethodGet, "instance", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "w1", "you may not")
	})
	a.handle(http.MethodGet, "log", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "the log\n") })
	a.run("logs", "w1", "kubelet").want(t, 0, "the log")
}

func TestLogsOfSeveral(t *testing.T) {
	a := newAPI(t, inPool(instance("w1", ""), "a"), inPool(instance("w2", ""), "a"))
	a.handle(http.MethodGet, "log", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("name") == "w2" {
			refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "", "it cannot be reached")
			return
		}
		fmt.Fprint(w, "one\ntwo")
	})
	got := a.run("logs", "--pool=a", "kubelet")
	got.want(t, 1, "[w2] Error from server (ServiceUnavailable): it cannot be reached\n", "1 of 2 hosts did not succeed")
	if want := "[w1] one\n[w1] two\n"; got.stdout != want {
		t.Errorf("got %q, want %q", got.stdout, want)
	}
	a.run("logs", "--pool=a", "kubelet", "-f", "--max-parallel=1").want(t, 1, "2 hosts are selected and at most 1")
}

// The server goes away in the middle of a line and comes back.
func TestLogsFollowGoesOn(t *testing.T) {
	a := newAPI(t, instance("w1", ""))
	var n atomic.Int32
	a.handle(http.MethodGet, "log", func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) {
		case 1:
			fmt.Fprint(w, "o\n# cursor: A\n")
		case 2:
			fmt.Fprint(w, "ne\ntwo\nthr")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case 3:
			refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "", "not yet")
		case 4:
			fmt.Fprint(w, "ne\ntwo\nthree\n# cursor: B\n# end: the server is shutting down; continue with the cursor above\n")
		default:
			fmt.Fprint(w, "four\n")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errOut output.Buffer
	done := make(chan int, 1)
	go func() {
		done <- Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, a.args("hosts", "logs", "w1", "kubelet", "-f", "--tail=5"))
	}()
	eventually(t, "the last line comes", func() bool { return strings.Contains(out.String(), "four\n") })
	cancel()
	if code := <-done; code != ExitInterrupted {
		t.Errorf("exit code %d, want %d", code, ExitInterrupted)
	}
	if want := "one\ntwo\nthree\nfour\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if got := errOut.String(); !strings.Contains(got, "the connection was lost") || !strings.Contains(got, "the log continues") {
		t.Errorf("it says %q", got)
	}
}

func TestMayPass(t *testing.T) {
	resource := schema.GroupResource{Group: "windows.openshift.io", Resource: instancesResource}
	gone := apierrors.NewNotFound(resource, "w1")
	gone.ErrStatus.Details.Kind = instancesResource
	for _, tc := range []struct {
		name  string
		err   error
		since time.Duration
		want  bool
	}{
		{"no connection", io.ErrUnexpectedEOF, time.Hour, true},
		{"not available", apierrors.NewServiceUnavailable("x"), time.Hour, true},
		{"too many", apierrors.NewTooManyRequests("x", 1), time.Hour, true},
		{"instance removed", gone, 0, false},
		{"API not there yet", apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "", "", 0, true), time.Second, true},
		{"forbidden after a restart", apierrors.NewForbidden(resource, "w1", errors.New("x")), time.Second, true},
		{"forbidden", apierrors.NewForbidden(resource, "w1", errors.New("x")), time.Hour, false},
		{"bad cursor", apierrors.NewBadRequest("x"), 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := mayPass(tc.err, tc.since); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
