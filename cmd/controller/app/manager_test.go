// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/source/configmap"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/standin"
)

// Only the leader works, by the Lease that is asked who leads; no Secret is kept, nobody reads
// metrics without the right to, and of the cluster only what controllers need is cached.
func TestManagerOptions(t *testing.T) {
	o, err := parse(t, "--agent-dir", t.TempDir(), "--namespace=ours", "--instances-configmap=list", "--metrics-bind-address=:9443")
	if err != nil {
		t.Fatal(err)
	}
	lease := &resourcelock.LeaseLock{}
	got := managerOptions(runtime.NewScheme(), o, lease)
	if !got.LeaderElection || got.LeaderElectionResourceLockInterface != resourcelock.Interface(lease) || !got.LeaderElectionReleaseOnCancel {
		t.Errorf("who works is decided by %+v", got.LeaderElectionResourceLockInterface)
	}
	if *got.LeaseDuration != o.LeaderElectLeaseDuration || *got.RenewDeadline != o.LeaderElectRenewDeadline || *got.RetryPeriod != o.LeaderElectRetryPeriod {
		t.Errorf("the Lease lasts %v, and is renewed for %v, each %v", got.LeaseDuration, got.RenewDeadline, got.RetryPeriod)
	}
	if !slices.ContainsFunc(got.Client.Cache.DisableFor, func(o client.Object) bool { _, ok := o.(*corev1.Secret); return ok }) {
		t.Error("Secrets are kept")
	}
	if m := got.Metrics; !m.SecureServing || m.FilterProvider == nil || m.BindAddress != ":9443" || got.HealthProbeBindAddress != "0" || got.Scheme == nil || got.Logger.GetSink() == nil {
		t.Errorf("served are %+v and %s", m, got.HealthProbeBindAddress)
	}
	o.TLSMinVersion, o.TLSCipherSuites = "VersionTLS13", []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}
	config := &tls.Config{}
	for _, configure := range got.Metrics.TLSOpts {
		configure(config)
	}
	if config.MinVersion != tls.VersionTLS13 || !slices.Equal(config.CipherSuites, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}) {
		t.Errorf("metrics are served from TLS %x on, with the suites %x", config.MinVersion, config.CipherSuites)
	}
	for object, by := range got.Cache.ByObject {
		switch object.(type) {
		case *corev1.Node:
			if by.Transform == nil {
				t.Error("all of a Node is kept")
			}
		case *v1alpha1.WindowsInstance:
			if by.Transform == nil || by.Label != nil || by.Field != nil || by.Namespaces != nil {
				t.Errorf("WindowsInstances %+v", by)
			}
		case *corev1.ConfigMap:
			if _, ours := by.Namespaces["ours"]; !ours || len(by.Namespaces) != 1 || by.Field.String() != "metadata.name=list" {
				t.Errorf("ConfigMaps %+v", by)
			}
		case *certificatesv1.CertificateSigningRequest:
		case *appsv1.ControllerRevision:
			if by.Label.Matches(labels.Set{"controller-revision-hash": "1"}) || !by.Label.Matches(labels.Set{v1alpha1.PoolLabel: "p"}) {
				t.Errorf("ControllerRevisions %+v", by)
			}
		default:
			t.Errorf("%T is restricted", object)
		}
	}
	if len(got.Cache.ByObject) != 5 {
		t.Errorf("restricted are %d kinds", len(got.Cache.ByObject))
	}
	o.LeaderElect = false
	if got := managerOptions(runtime.NewScheme(), o, nil); got.LeaderElection || got.LeaderElectionResourceLockInterface != nil {
		t.Error("a process that was told to work waits")
	}
}

// The limits of removals reach who removes.
func TestConfigMapOptions(t *testing.T) {
	for _, without := range []bool{false, true} {
		args := []string{"--agent-dir", t.TempDir(), "--namespace=ours", "--instances-configmap=list", "--max-removals=20%", "--removal-window=2h"}
		if without {
			args = append(args, "--remove-without-confirmation")
		}
		o, err := parse(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		want := configmap.Options{Namespace: "ours", Name: "list", MaxRemovals: intstr.FromString("20%"), RemovalWindow: 2 * time.Hour, RemoveWithoutConfirmation: without}
		if diff := cmp.Diff(want, configMapOptions(o)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

// The controllers begin once the API is there, and kube-apiserver says so among all APIs, and end without it when they are stopped.
func TestWaitForAPI(t *testing.T) {
	const (
		api = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"windows.openshift.io/v1alpha1"}`
		// As kube-apiserver answers, while the server was away when it was asked last, and later.
		all   = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[%s]}`
		group = `{"metadata":{"name":"windows.openshift.io"},"versions":[{"version":"v1alpha1","freshness":%q,"resources":[]}]}`
		other = `{"metadata":{"name":"apps"},"versions":[{"version":"v1","freshness":"Current","resources":[]}]}`
	)
	var there atomic.Bool
	var groups atomic.Value
	asked := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := ""
		switch r.URL.Path {
		case "/apis/windows.openshift.io/v1alpha1":
			w.Header().Set("Content-Type", "application/json")
			if body = api; !there.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				body = ""
			}
		case "/api", "/apis":
			w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
			if body = fmt.Sprintf(all, other); r.URL.Path == "/apis" {
				if body = groups.Load().(string); strings.Contains(body, "APIGroupList") {
					w.Header().Set("Content-Type", "application/json")
				}
			}
		default:
			t.Errorf("asked for %s", r.URL.Path)
		}
		_, _ = w.Write([]byte(body))
		asked <- r.URL.Path
	}))
	defer server.Close()
	for _, tt := range []struct {
		name, groups, last string
		there              bool
	}{
		{"nobody answers", fmt.Sprintf(all, other), "/apis/windows.openshift.io/v1alpha1", false},
		{"it is not among all APIs", fmt.Sprintf(all, other), "/apis", true},
		{"it was away when kube-apiserver asked", fmt.Sprintf(all, other+","+fmt.Sprintf(group, "Stale")), "/apis", true},
	} {
		there.Store(tt.there)
		groups.Store(tt.groups)
		begun := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() { begun <- waitForAPI(ctx, &rest.Config{Host: server.URL}) }()
		for last := ""; last != tt.last; {
			select {
			case err := <-begun:
				t.Fatalf("%s: the controllers begin, %v", tt.name, err)
			case last = <-asked:
			}
		}
		// It asks again, which it would not if that had been enough.
		select {
		case err := <-begun:
			t.Fatalf("%s: the controllers begin, %v", tt.name, err)
		case <-asked:
		}
		stop()
		if err := <-begun; err != nil {
			t.Errorf("%s, when it is stopped: %v", tt.name, err)
		}
	}
	for name, found := range map[string]string{
		"it is among all APIs":       fmt.Sprintf(all, other+","+fmt.Sprintf(group, "Current")),
		"APIs are not said together": `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
	} {
		groups.Store(found)
		if err := waitForAPI(t.Context(), &rest.Config{Host: server.URL}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// readers is a manager that only reads the cluster.
type readers struct {
	ctrl.Manager // nil: nothing else is expected to be called

	cluster client.Client
}

func (r readers) GetAPIReader() client.Reader { return r.cluster }
func (r readers) GetClient() client.Client    { return r.cluster }
func (r readers) GetConfig() *rest.Config     { return &rest.Config{} }
func (r readers) GetHTTPClient() *http.Client { return http.DefaultClient }

// Hosts are only watched without a payload.
func TestConfigure(t *testing.T) {
	for name, p := range map[string]*payload.Set{"no payload": nil, "a payload": {}} {
		c := &controllers{
			Manager: readers{cluster: clientfake.NewClientBuilder().Build()},
			hosts:   hosts{Client: agentclient.New(agentclient.Options{})}, kube: fake.NewClientset(), options: newOptions(),
		}
		if err := c.configure(p); err != nil || (c.desired != nil) != (p != nil) {
			t.Errorf("%s: got %v, %v", name, c.desired, err)
		}
	}
}

// What is shipped is opened with its limits, and what is temporary is removed in the end.
func TestOpenPayload(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "payload")
	if err := standin.WritePayload(t.Context(), dir, standin.PayloadOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		payload string
		want    bool
		fails   bool
	}{{"", false, false}, {dir, true, false}, {t.TempDir(), false, true}} {
		o := newOptions()
		o.Desired.Payload, o.HostUploadLimit, o.TotalUploadLimit = tt.payload, "1Mi", "2Mi"
		got, err := openPayload(t.Context(), ssh.Options{}, o)
		if err != nil {
			if !tt.fails {
				t.Errorf("%q: %v", tt.payload, err)
			}
			continue
		}
		want := agentclient.TransferLimits{}
		if tt.want {
			want = agentclient.TransferLimits{HostBytesPerSecond: 1 << 20, TotalBytesPerSecond: 2 << 20}
		}
		if (got.payload != nil) != tt.want || (got.connections != nil) != tt.want || got.limits != want {
			t.Errorf("%q: got %+v", tt.payload, got)
		}
		got.close()
		if tt.want {
			if err := got.connections.Ping(t.Context(), ssh.Target{Address: "10.1.42.1"}); err == nil || !strings.Contains(err.Error(), "closed") {
				t.Errorf("its connections are left open: %v", err)
			}
		}
	}
}

func TestPoolReader(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	read := poolReader(clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(&v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}).Build())
	if got, err := read(t.Context(), "ns", "p"); err != nil || got.Name != "p" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := read(t.Context(), "other", "p"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func TestClientConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":"https://api.example.com:6443"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := clientConfig(file)
	if err != nil || got.Host != "https://api.example.com:6443" || got.QPS != clientQPS || got.Burst != clientBurst || got.UserAgent == "" {
		t.Errorf("got %+v, %v", got, err)
	}
}
