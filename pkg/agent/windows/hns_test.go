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

// TestPolicyListsOf: only those of the network are removed, whatever the case in which an ID is written.
func TestPolicyListsOf(t *testing.T) {
	const lists = `{"Success":true,"Output":[{"ID":"a","References":["/endpoints/E1","/endpoints/e9"]},{"ID":"b","References":["/endpoints/e2"]},` +
		`{"ID":"c","References":["/endpoints/gone"]},{"ID":"d"},{"ID":"e","References":["/endpoints/e3"]}]}`
	const endpoints = `{"Success":true,"Output":[{"ID":"e1","Name":"pod","VirtualNetwork":"N1"},{"ID":"e2","VirtualNetwork":"n2"},{"ID":"E3","VirtualNetwork":"n1"}]}`
	l, err := parseHNS[[]hnsPolicyList]([]byte(lists))
	if err != nil {
		t.Fatal(err)
	}
	e, err := parseHNS[[]hnsObject]([]byte(endpoints))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "e"}, policyListsOf(l, e, "n1")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
