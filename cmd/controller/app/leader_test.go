// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/openshift/windows-instance-api/pkg/apiservice"
)

// Without an election only another installation keeps a process from hosts.
func TestNoElection(t *testing.T) {
	lease, err := newLease(&rest.Config{Host: "http://127.0.0.1:0"}, &options{})
	if lease != nil || err != nil {
		t.Errorf("got %v, %v", lease, err)
	}
	for from, want := range map[string]bool{"ours": true, "theirs": false} {
		if got, err := leads(lease, served(from), "ours")(t.Context()); got != want || err != nil {
			t.Errorf("served from %s: got %v, %v", from, got, err)
		}
	}
}

// served is a cluster whose APIService leads to a namespace.
func served(from string) *fake.FakeDynamicClient {
	registration := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": apiservice.Name},
		"spec": map[string]any{"service": map[string]any{"namespace": from}},
	}}
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{apiservice.Resource: "APIServiceList"}, registration)
}

// Who has the Lease of an installation does not lead while another installation has the hosts: its
// watch may not have told it yet.
func TestLeadsWithoutTheHosts(t *testing.T) {
	lease := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "ours", Name: leaseName}, LockConfig: resourcelock.ResourceLockConfig{Identity: "this"},
		Client: kubefake.NewClientset(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: leaseName}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("this")},
		}).CoordinationV1(),
	}
	for _, tt := range []struct {
		name   string
		from   string
		change func(*fake.FakeDynamicClient)
		want   bool
		fails  bool
	}{
		{"the API is served from here", "ours", func(*fake.FakeDynamicClient) {}, true, false},
		{"from elsewhere", "theirs", func(*fake.FakeDynamicClient) {}, false, false},
		{"by kube-apiserver itself", "", func(*fake.FakeDynamicClient) {}, false, false},
		{"from nowhere", "ours", func(c *fake.FakeDynamicClient) {
			if err := c.Tracker().Delete(apiservice.Resource, "", apiservice.Name); err != nil {
				t.Fatal(err)
			}
		}, true, false},
		{"not known", "ours", func(c *fake.FakeDynamicClient) {
			c.PrependReactor("get", "apiservices", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(apiservice.Resource.GroupResource(), apiservice.Name, nil)
			})
		}, false, true},
	} {
		client := served(tt.from)
		tt.change(client)
		if got, err := leads(lease, client, "ours")(t.Context()); got != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s: got %v, %v", tt.name, got, err)
		}
	}
}

// A process leads exactly while the Lease names it; when that cannot be read, it does not.
func TestLeads(t *testing.T) {
	var holder atomic.Value // of *string; nil: the Lease cannot be read
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want := "/apis/coordination.k8s.io/v1/namespaces/leases/leases/windows-controller"; r.Method != http.MethodGet || r.URL.Path != want {
			t.Errorf("got %s %s, want %s", r.Method, r.URL.Path, want)
		}
		// A leader that does not hear of its Lease ends after ten seconds: it asks more than once until then.
		if got := r.URL.Query().Get("timeout"); got != "5s" {
			t.Errorf("the server may take %q to answer", got)
		}
		if got := r.UserAgent(); !strings.HasSuffix(got, "/leader-election") {
			t.Errorf("asked by %q", got)
		}
		name, _ := holder.Load().(*string)
		w.Header().Set("Content-Type", "application/json")
		if name == nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if err := json.NewEncoder(w).Encode(&coordinationv1.Lease{
			TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: name},
		}); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	o := &options{LeaderElect: true, LeaderElectionNamespace: "leases"}
	lease, err := newLease(config, o)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newLease(config, o)
	if err != nil {
		t.Fatal(err)
	}
	if lease.Identity() == other.Identity() {
		t.Fatal("two processes of a host have the same name")
	}
	if config.Timeout != 0 {
		t.Error("the requests of everybody are bounded like those about the Lease")
	}
	for _, tt := range []struct {
		name   string
		holder *string
		want   bool
		fails  bool
	}{
		{"this process", new(lease.Identity()), true, false},
		{"another process", new(other.Identity()), false, false},
		{"nobody", new(""), false, false},
		{"not known", nil, false, true},
	} {
		holder.Store(tt.holder)
		if got, err := leads(lease, served("ours"), "ours")(t.Context()); got != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s: got %v, %v", tt.name, got, err)
		}
	}
}

// TestLeadsLeavesTheLock: while many operations ask who leads, the lock renews what it has read itself. With what another process has
// written it would take the Lease from that one.
func TestLeadsLeavesTheLock(t *testing.T) {
	client := kubefake.NewClientset(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: leaseName, ResourceVersion: "1"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("this")},
	})
	lease := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "ours", Name: leaseName}, LockConfig: resourcelock.ResourceLockConfig{Identity: "this"}, Client: client.CoordinationV1(),
	}
	record, _, err := lease.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	taken := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: leaseName, ResourceVersion: "2"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("another")},
	}
	client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, taken, nil })
	var based string
	client.PrependReactor("update", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if update, ok := a.(clienttesting.UpdateAction); ok {
			if renewed, ok := update.GetObject().(*coordinationv1.Lease); ok {
				based = renewed.ResourceVersion
			}
		}
		return true, taken, nil
	})
	asks := leads(lease, served("ours"), "ours")
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if got, err := asks(t.Context()); got || err != nil {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	wg.Wait()
	if err := lease.Update(t.Context(), *record); err != nil {
		t.Fatal(err)
	}
	if based != "1" {
		t.Errorf("it renews version %q of the Lease", based)
	}
}
