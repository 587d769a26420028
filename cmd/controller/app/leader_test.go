// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Without an election nothing says who leads, and nobody is asked.
func TestNoElection(t *testing.T) {
	lease, err := newLease(&rest.Config{Host: "http://127.0.0.1:0"}, &options{})
	if lease != nil || err != nil || leads(lease) != nil {
		t.Errorf("got %v, %v", lease, err)
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
		if got, err := leads(lease)(t.Context()); got != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s: got %v, %v", tt.name, got, err)
		}
	}
}
