// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

// A load balancer whose API server is not there yet says 404 to everything. The policies of the cluster hold all
// the same: the process does not start, and is started again.
func TestPoliciesAreNotTurnedOffForALoadBalancer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	o := NewOptions()
	o.Recommended.CoreAPI.CoreAPIKubeconfigPath = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(o.Recommended.CoreAPI.CoreAPIKubeconfigPath, []byte("clusters: [{name: c, cluster: {server: '"+server.URL+"'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.disableAbsentPolicies(genericapiserver.NewRecommendedConfig(Codecs)); err == nil || len(o.Recommended.Admission.DisablePlugins) > 0 {
		t.Errorf("got %v, turned off are %v", err, o.Recommended.Admission.DisablePlugins)
	}
}
