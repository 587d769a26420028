// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestMetadata(t *testing.T) {
	long := strings.Repeat("a", 70)
	tests := []struct {
		name    string
		ask     func(ctx context.Context, address string) (string, error)
		answer  string
		status  int
		wantErr string
		want    string
	}{
		{name: "AWS", ask: awsLocalHostname, answer: "ip-10-0-0-7.ec2.internal\n", want: "ip-10-0-0-7.ec2.internal"},
		{name: "GCP", ask: gcpHostname, answer: "win.c.project.internal", want: "win.c.project.internal"},
		{name: "GCP, too long", ask: gcpHostname, answer: "win." + long, want: "win"},
		{name: "GCP, too long without dots", ask: gcpHostname, answer: long, want: long[:63]},
		{name: "refused", ask: awsLocalHostname, status: http.StatusForbidden, wantErr: "403 Forbidden"},
		{name: "redirected", ask: gcpHostname, status: http.StatusFound, wantErr: "302 Found"},
		{name: "empty", ask: gcpHostname, wantErr: "not one line"},
		{name: "two lines", ask: gcpHostname, answer: "a\nb", wantErr: "not one line"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.status != 0 {
					w.WriteHeader(tt.status)
					return
				}
				answer := ""
				switch {
				case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") != "":
					answer = "token"
				case r.URL.Path == "/latest/meta-data/local-hostname" && r.Header.Get("X-aws-ec2-metadata-token") == "token",
					r.URL.Path == "/computeMetadata/v1/instance/hostname" && r.Header.Get("Metadata-Flavor") == "Google":
					answer = tt.answer
				default:
					w.WriteHeader(http.StatusNotFound)
				}
				if _, err := w.Write([]byte(answer)); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			got, err := tt.ask(t.Context(), server.URL)
			if (err != nil) != (tt.wantErr != "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Fatalf("got error %v, want one about %q", err, tt.wantErr)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestProbeURL(t *testing.T) {
	status := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	if err := probeURL(t.Context(), server.URL); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v, want the status", err)
	}
	status = http.StatusOK
	if err := probeURL(t.Context(), server.URL); err != nil {
		t.Error(err)
	}
}

// TestFirstName: the options of a network may give a host several names, and absolute ones.
func TestFirstName(t *testing.T) {
	for names, want := range map[string]string{
		"ip-10-0-0-7.ec2.internal":                  "ip-10-0-0-7.ec2.internal",
		"ip-10-0-0-7.ec2.internal.":                 "ip-10-0-0-7.ec2.internal",
		"ip-10-0-0-7.example.com ip-10-0-0-7.corp.": "ip-10-0-0-7.example.com",
	} {
		if got := firstName(names); got != want {
			t.Errorf("%q: got %q, want %q", names, got, want)
		}
	}
}
