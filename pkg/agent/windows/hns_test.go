// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

func TestParseHNSNetworks(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer string
		want   []api.HNSNetwork
		err    string
	}{
		{name: "none", answer: `{"Success":true,"Output":[]}`},
		{
			name: "two",
			answer: `{"Success":true,"Output":[{"ID":"1","Name":"nat","Type":"nat","Subnets":[{"AddressPrefix":"172.19.0.0/20","GatewayAddress":"172.19.0.1"}]},` +
				`{"ID":"2","Name":"OVNKubernetesHybridOverlayNetwork","Type":"Overlay","Subnets":[{"AddressPrefix":"10.132.0.0/24"},{"AddressPrefix":"10.133.0.0/24"}]}]}`,
			want: []api.HNSNetwork{
				{Name: "nat", Type: "nat", Subnets: []string{"172.19.0.0/20"}},
				{Name: "OVNKubernetesHybridOverlayNetwork", Type: "Overlay", Subnets: []string{"10.132.0.0/24", "10.133.0.0/24"}},
			},
		},
		{name: "refusal", answer: `{"Success":false,"Error":"access is denied"}`, err: "access is denied"},
		{name: "refusal without a word", answer: `{}`, err: "does not say why"},
		{name: "no JSON", answer: `oops`, err: "reading the answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			networks, err := parseHNS[[]hnsObject]([]byte(tt.answer))
			if diff := cmp.Diff(tt.want, networkFacts(networks)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v", err)
			}
		})
	}
}
