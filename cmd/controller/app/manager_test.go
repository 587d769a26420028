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

// The controllers begin once the API is there, and end without it when they are stopped.
func TestWaitForAPI(t *testing.T) {
	var there atomic.Bool
	asked := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/windows.openshift.io/v1alpha1" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		asked <- struct{}{}
		if !there.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"windows.openshift.io/v1alpha1"}`))
	}))
	defer server.Close()
	begun := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { begun <- waitForAPI(ctx, &rest.Config{Host: server.URL}) }()
	select {
	case err := <-begun:
		t.Fatalf("the controllers begin without the API, %v", err)
	case <-asked:
	}
	stop()
	if err := <-begun; err != nil {
		t.Errorf("when it is stopped: %v", err)
	}
	there.Store(true)
	if err := waitForAPI(t.Context(), &rest.Config{Host: server.URL}); err != nil {
		t.Error(err)
	}
}

// The manager knows our kinds as soon as they are served, whatever kube-apiserver says of them among all APIs.
func TestNewMapper(t *testing.T) {
	const (
		core  = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":""},"versions":[{"version":"v1","freshness":"Current","resources":[{"resource":"nodes","responseKind":{"group":"","version":"v1","kind":"Node"},"scope":"Cluster","singularResource":"node","verbs":["get"]}]}]}]}`
		all   = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[%s]}`
		stale = `{"metadata":{"name":"windows.openshift.io"},"versions":[{"version":"v1alpha1","freshness":"Stale","resources":[]}]}`
		ours  = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"windows.openshift.io/v1alpha1","resources":[{"name":"windowsinstances","singularName":"windowsinstance","namespaced":true,"kind":"WindowsInstance","verbs":["get"]}]}`
	)
	for name, groups := range map[string]string{"it was not there when kube-apiserver asked": "", "it was away then": stale} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				contentType, body := "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", ""
				switch r.URL.Path {
				case "/api":
					body = core
				case "/apis":
					body = fmt.Sprintf(all, groups)
				case "/apis/windows.openshift.io/v1alpha1":
					contentType, body = "application/json", ours
				default:
					t.Errorf("asked for %s", r.URL.Path)
				}
				w.Header().Set("Content-Type", contentType)
				_, _ = w.Write([]byte(body))
			}))
			defer server.Close()
			mapper, err := managerOptions(runtime.NewScheme(), newOptions(), nil).MapperProvider(&rest.Config{Host: server.URL}, server.Client())
			if err != nil {
				t.Fatal(err)
			}
			mapping, err := mapper.RESTMapping(v1alpha1.SchemeGroupVersion.WithKind("WindowsInstance").GroupKind(), v1alpha1.SchemeGroupVersion.Version)
			if err != nil {
				t.Fatal(err)
			}
			if got := mapping.Resource; got != v1alpha1.SchemeGroupVersion.WithResource("windowsinstances") {
				t.Errorf("got %v", got)
			}
		})
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
