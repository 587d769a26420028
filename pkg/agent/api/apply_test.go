// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// TestApplyRequest: what is requested arrives, and what names no program of the host does not.
func TestApplyRequest(t *testing.T) {
	digest := config.Digest([]byte("x"))
	for _, tt := range []struct {
		name    string
		request api.ApplyRequest
		want    string // part of the error; empty: none
	}{
		{name: "whole", request: api.ApplyRequest{Allow: config.ImpactDrain, Keep: []string{digest}}},
		{name: "least"},
		{name: "an impact that is none", request: api.ApplyRequest{Allow: "Much"}, want: `impact "Much" is not known`},
		{name: "a path to keep", request: api.ApplyRequest{Keep: []string{digest, `..\x`}}, want: "a program to keep: digest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.request.Bundle.Document.Version = config.SchemaVersion
			encoded, err := tt.request.Encode()
			if err != nil {
				t.Fatal(err)
			}
			got, err := api.DecodeApplyRequest(bytes.NewReader(encoded))
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.request, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
