// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package kubeclient

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestNew(t *testing.T) {
	requests := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.Header
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"w-1"}}`)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	client, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	node, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{}, metav1.CreateOptions{})
	if err != nil || node.Name != "w-1" {
		t.Errorf("an answer in JSON is read as %v: %v", node, err)
	}
	const protobuf = "application/vnd.kubernetes.protobuf"
	if got := <-requests; got.Get("Content-Type") != protobuf || got.Get("Accept") != protobuf+",application/json" {
		t.Errorf("it sends %q and accepts %q", got.Get("Content-Type"), got.Get("Accept"))
	}
	if config.ContentType != "" || config.AcceptContentTypes != "" {
		t.Error("the configuration of others was changed")
	}
}
