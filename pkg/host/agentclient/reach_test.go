// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/test/winhost"
)

func TestReach(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	request := api.ReachRequest{URL: server.URL, CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))}
	if got, err := s.client.Reach(t.Context(), s.Instance, request); err != nil || got != (api.ReachAnswer{Address: server.Listener.Addr().String()}) {
		t.Errorf("got %+v, %v", got, err)
	}
	request.URL = "https://api..example.com:6443"
	if got, err := s.client.Reach(t.Context(), s.Instance, request); err != nil || got.Failed != api.ReachDNS {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := s.client.Reach(t.Context(), s.Instance, api.ReachRequest{}); err == nil {
		t.Error("a request for nothing is no error")
	}
}

// TestReachOfHostile: a host names no layer that there is not, and repeats no password.
func TestReachOfHostile(t *testing.T) {
	const password = "c0rrect-horse"
	request := api.ReachRequest{URL: "https://api.example.com", CA: "x", Proxy: config.SecretValue("http://user:" + password + "@proxy.example.com:3128")}
	for layer, want := range map[string]string{"DNS": "", "Coffee": "a layer \"Coffee\" that there is not"} {
		s := newHostileSite(t, func(w io.Writer) {
			_, _ = fmt.Fprintf(w, `{"failed":%q,"error":"proxy says %s"}`+"\n", layer, password)
		})
		got, err := s.client.Reach(t.Context(), s.Instance, request)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", layer, err, want)
		}
		if strings.Contains(fmt.Sprint(got, err), password) {
			t.Errorf("%s: it has the password: %+v, %v", layer, got, err)
		}
	}
}
