// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document_test

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// TestReach: hosts are asked about the API server by the address and the authorities that their kubelets get, through the proxy
// only where these go through it.
func TestReach(t *testing.T) {
	const proxy = "http://user:pr0xy@proxy.example.com:3128"
	for _, tt := range []struct {
		name  string
		proxy document.Proxy
		want  string
	}{
		{name: "no proxy"},
		{name: "a proxy for https", proxy: document.Proxy{HTTPS: proxy}, want: proxy},
		{name: "a proxy for http", proxy: document.Proxy{HTTP: proxy}},
		{name: "not for the cluster", proxy: document.Proxy{HTTPS: proxy, None: ".cluster.local,.example.com"}},
		{name: "a proxy that cannot be read", proxy: document.Proxy{HTTPS: "http://pr0xy:%zz"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := inputs(configv1.VSpherePlatformType)
			in.Cluster.Proxy = tt.proxy
			got := build(t, in).Reach
			if got.URL != in.Cluster.APIServerURL || got.CA != string(in.Cluster.APIServerCA) || string(got.Proxy) != tt.want {
				t.Errorf("got %s with CA %q through %q, want the proxy %q", got.URL, got.CA, []byte(got.Proxy), tt.want)
			}
		})
	}
}
