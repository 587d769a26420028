// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The client of Kubernetes would repeat a request by itself when the answer says when,
// which an answer about a budget may, and keep it from everybody.
func TestRequestIsSentOnce(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		var eviction policyv1.Eviction
		if err := json.NewDecoder(r.Body).Decode(&eviction); err != nil {
			t.Error(err)
		}
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/shop/pods/web/eviction" || eviction.Kind != "Eviction" || eviction.APIVersion != "policy/v1" ||
			eviction.DeleteOptions == nil || eviction.DeleteOptions.Preconditions == nil || *eviction.DeleteOptions.Preconditions.UID != "uid-of-web" ||
			*eviction.DeleteOptions.GracePeriodSeconds != 7 {
			t.Errorf("got %s %s %+v", r.Method, r.URL.Path, eviction)
		}
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		var answer *apierrors.StatusError
		if errors.As(overBudget("web"), &answer) {
			answer.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		}
		if err := json.NewEncoder(w).Encode(answer.ErrStatus); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	got := New(client).evict(t.Context(), &tracked{namespace: "shop", name: "web", uid: "uid-of-web"}, false, Options{GracePeriodSeconds: new(int64(7))})
	if got.stage != stageWaiting || got.blocked == nil || got.blocked.Budget != "web" || requests.Load() != 1 {
		t.Errorf("got %+v after %d requests", got, requests.Load())
	}
}
