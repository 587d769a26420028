// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/openshift/windows-instance-api/test/output"
)

// TestInterrupted has Ctrl-C while the server does not answer.
func TestInterrupted(t *testing.T) {
	for _, tc := range []struct {
		unanswered string // the resource that is waited for
		method     string
		args       string
	}{
		{"instance", http.MethodGet, "get w1"},
		{"instance", http.MethodGet, "get w1 w2"},
		{"instance", http.MethodGet, "get w1 w2 -o name --ignore-not-found"},
		{"instance", http.MethodGet, "check w1 w2"},
		{"list", http.MethodGet, "get -A"},
		{"list", http.MethodGet, "check -A"},
		{"list", http.MethodGet, "top"},
		{"check", http.MethodPost, "check w1"},
		{"check", http.MethodPost, "check w1 w2"},
		{"check", http.MethodPost, "check w1 w2 -o yaml"},
		{"inspect", http.MethodGet, "inspect w1 w2"},
		{"inspect", http.MethodGet, "inspect -A -o name"},
		{"inspect", http.MethodGet, "top w1 w2"},
		{"log", http.MethodGet, "logs -A kubelet"},
		{"log", http.MethodGet, "logs -A kubelet -f"},
		{"exec", http.MethodGet, "exec w1 -- hostname"},
		{"exec", http.MethodGet, "exec -A -- hostname"},
		{"portforward", http.MethodGet, "port-forward w1 :5985"},
		{"drain", http.MethodPost, "drain w1 w2"},
		{"drain", http.MethodPost, "drain w1 w2 --max-parallel=2 -o yaml"},
		{"/api/v1/namespaces/hosts/events", http.MethodGet, "describe w1 w2"},
	} {
		t.Run(tc.args+" without "+tc.unanswered, func(t *testing.T) {
			a := newAPI(t, instance("w1", ""), instance("w2", ""))
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			a.handle(tc.method, tc.unanswered, func(http.ResponseWriter, *http.Request) {
				interrupt()
				<-t.Context().Done()
			})
			command, rest, _ := strings.Cut(tc.args, " ")
			var out output.Buffer
			code := Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, a.args("hosts", append([]string{command}, strings.Fields(rest)...)...))
			result{out.String(), "", code}.want(t, ExitInterrupted)
			if got := out.String(); strings.Contains(got, "context canceled") {
				t.Errorf("it says\n%s", got)
			}
		})
	}
}
