// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/test/system"
)

// TestFlowSchemas: what our programs ask kube-apiserver for has the priority of artifacts/rbac/flowschemas.yaml, and not that of all accounts.
func TestFlowSchemas(t *testing.T) {
	t.Parallel()
	const review = `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"eve","resourceAttributes":{"verb":"get","resource":"pods"}}}`
	for _, tt := range []struct{ account, method, path, body, want, level string }{
		{"windows-apiserver", http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review, "windows-apiserver-reviews", "exempt"},
		{"windows-apiserver", http.MethodGet, "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas?limit=1", "", "windows-instance-api", "workload-high"},
		{"windows-apiserver", http.MethodGet, "/version", "", "windows-instance-api", "workload-high"},
		{"windows-controller", http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/" + system.Namespace + "/leases/windows-controller", "", "windows-controller-leader-election", "leader-election"},
		{"windows-controller", http.MethodGet, "/apis/windows.openshift.io/v1alpha1/windowsinstances?limit=1", "", "windows-instance-api", "workload-high"},
		{"windows-controller", http.MethodGet, "/api/v1/nodes?limit=1", "", "windows-instance-api", "workload-high"},
		{"default", http.MethodGet, "/version", "", "service-accounts", "workload-low"},
	} {
		t.Run(tt.account+" "+tt.path, func(t *testing.T) {
			config, err := sys.ServiceAccountConfig(t.Context(), system.Namespace, tt.account)
			if err != nil {
				t.Fatal(err)
			}
			client, err := rest.HTTPClientFor(config)
			if err != nil {
				t.Fatal(err)
			}
			schema, err := sys.Kube.FlowcontrolV1().FlowSchemas().Get(t.Context(), tt.want, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := schema.Spec.PriorityLevelConfiguration.Name; got != tt.level {
				t.Errorf("FlowSchema %s has the level %s, want %s", tt.want, got, tt.level)
			}
			eventually(t, "kube-apiserver knows "+tt.want, func() error {
				request, err := http.NewRequestWithContext(t.Context(), tt.method, config.Host+tt.path, strings.NewReader(tt.body))
				if err != nil {
					return err
				}
				request.Header.Set("Content-Type", "application/json")
				response, err := client.Do(request)
				if err != nil {
					return err
				}
				defer response.Body.Close()
				if _, err := io.Copy(io.Discard, response.Body); err != nil {
					return err
				}
				if got := response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID); got != string(schema.UID) || response.StatusCode >= http.StatusBadRequest {
					return fmt.Errorf("%s, FlowSchema %s, want %s", response.Status, got, schema.UID)
				}
				return nil
			})
		})
	}
}
