// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
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
			eviction.Namespace != "shop" || eviction.Name != "web" ||
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

// Without evictions the pod is deleted, and only the very one that was meant.
func TestDisableEviction(t *testing.T) {
	client := fake.NewClientset(newPod("web"))
	got := New(client).evict(t.Context(), &tracked{namespace: "shop", name: "web", uid: "uid-of-web"}, false, Options{DisableEviction: true, GracePeriodSeconds: new(int64(7))})
	if got.stage != stageLeaving || got.blocked != nil {
		t.Errorf("got %+v", got)
	}
	var sent []metav1.DeleteOptions
	for _, action := range client.Actions() {
		if deletion, ok := action.(clienttesting.DeleteActionImpl); ok && deletion.Namespace == "shop" && deletion.Name == "web" {
			sent = append(sent, deletion.DeleteOptions)
		}
	}
	want := []metav1.DeleteOptions{{GracePeriodSeconds: new(int64(7)), Preconditions: metav1.NewUIDPreconditions("uid-of-web")}}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("sent (-want +got)\n%s", diff)
	}
}

// What came of an attempt, and which budget is named.
func TestEvict(t *testing.T) {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-budget"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	tests := []struct {
		name        string
		err         error
		terminating bool
		want        stage
		wantBlocked *v1alpha1.BlockedPod
		lists       int
	}{
		{name: "let go", want: stageLeaving},
		{name: "dies with its namespace", err: inDyingNamespace(), terminating: true, want: stageLeaving},
		{name: "dies not with its namespace", err: inDyingNamespace(), want: stageWaiting, wantBlocked: &v1alpha1.BlockedPod{Message: "its namespace is being deleted, but the pod is not yet"}},
		{name: "a budget that is named", err: overBudget("b"), want: stageWaiting, wantBlocked: &v1alpha1.BlockedPod{Budget: "b", Message: "The disruption budget b needs 2 healthy pods and has 2 currently"}},
		{name: "a budget that is not named", err: unnamed(), want: stageWaiting, wantBlocked: &v1alpha1.BlockedPod{Budget: "web-budget", Message: "no"}, lists: 1},
		{name: "the server is busy", err: apierrors.NewTooManyRequests("the server has received too many requests", 1), want: stageWaiting, wantBlocked: &v1alpha1.BlockedPod{Message: "the server has received too many requests"}},
		{name: "a webhook", err: deniedByWebhook(429, metav1.StatusReasonTooManyRequests), want: stageWaiting, wantBlocked: &v1alpha1.BlockedPod{Message: deniedByWebhook(429, "").Error()}},
		{name: "no right, or not yet", err: withoutRight("web"), want: stageWaiting, wantBlocked: &v1alpha1.BlockedPod{Message: withoutRight("web").Error()}},
		{name: "no right yet to have it go sooner", err: withoutRight("web"), terminating: true, want: stageWaiting, wantBlocked: &v1alpha1.BlockedPod{Message: withoutRight("web").Error()}},
		{name: "no budget", err: apierrors.NewForbidden(podsResource, "web", errors.New("no")), want: stageRefused, wantBlocked: &v1alpha1.BlockedPod{Message: `pods "web" is forbidden: no`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset(budget)
			d := New(client)
			d.ask = func(ctx context.Context, p *tracked, o Options) error {
				if _, limited := ctx.Deadline(); !limited || !o.Force || p.name != "web" {
					t.Errorf("asked for %s with %+v", p, o)
				}
				return tt.err
			}
			p := &tracked{namespace: "shop", name: "web", labels: map[string]string{"app": "web"}}
			if tt.wantBlocked != nil {
				tt.wantBlocked.Namespace, tt.wantBlocked.Name = "shop", "web"
			}
			got := d.evict(t.Context(), p, tt.terminating, Options{Force: true})
			if diff := cmp.Diff(tt.wantBlocked, got.blocked); diff != "" || got.pod != p || got.stage != tt.want {
				t.Errorf("%s: (-want +got)\n%s", stageNames[got.stage], diff)
			}
			if n := len(client.Actions()); n != tt.lists {
				t.Errorf("%d requests besides", n)
			}
		})
	}
}
