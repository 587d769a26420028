// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openshift/windows-instance-api/pkg/apiservice"
	"github.com/openshift/windows-instance-api/pkg/version"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
)

// request asks the health server.
func request(t *testing.T, address, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestHealthServer(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	health, err := newHealthServer(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- health.run(ctx) }()
	address := health.listener.Addr().String()

	// Before the caches are there, the process lives and is not ready.
	for path, want := range map[string]int{"/healthz": 200, "/livez": 200, "/readyz": 500, "/healthz/ping": 200, "/readyz/caches": 500, "/": 404} {
		if got, _ := request(t, address, path); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
	if _, body := request(t, address, "/readyz"); !strings.Contains(body, "caches") {
		t.Errorf("got %q", body)
	}
	for _, what := range []string{"the API", "the hosts of this cluster"} {
		health.setAwaited(what)
		if _, body := request(t, address, "/readyz/caches"); !strings.Contains(body, "waiting for "+what) {
			t.Errorf("got %q", body)
		}
	}
	filled := false
	health.setSynced(func(context.Context) bool { return filled })
	if got, _ := request(t, address, "/readyz"); got != 500 {
		t.Errorf("ready with empty caches: got %d", got)
	}
	filled = true
	if got, body := request(t, address, "/readyz?verbose"); got != 200 || !strings.Contains(body, "caches") {
		t.Errorf("got %d %q", got, body)
	}

	if _, err := newHealthServer(ctx, address); err == nil || !strings.Contains(err.Error(), "--health-probe-bind-address") {
		t.Errorf("an address in use: got %v", err)
	}
	cancel()
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not stop")
	}
}

func TestHealthServerIsNotWanted(t *testing.T) {
	health, err := newHealthServer(context.Background(), "0")
	if err != nil {
		t.Fatal(err)
	}
	if err := health.run(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestCompactNodeKeepsWhatIsRead(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "u", Labels: map[string]string{corev1.LabelOSStable: "windows", corev1.LabelHostname: "win-1"}, Annotations: map[string]string{"a": "b", wmco.SubnetAnnotation: "10.132.0.0/24", wmco.PublicKeyHashAnnotation: "hash", takeover.HostKeyAnnotation: "key"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Spec:       corev1.NodeSpec{ProviderID: "p"},
		Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{}}, VolumesAttached: []corev1.AttachedVolume{{}}, VolumesInUse: []corev1.UniqueVolumeName{"v"}, NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.0", OperatingSystem: "windows"},
			Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi")}, Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")},
			Addresses: []corev1.NodeAddress{{Address: "10.1.42.1"}}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady}}},
	}
	got, err := compactNode(node)
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "win-1", UID: "u", Labels: map[string]string{corev1.LabelOSStable: "windows", corev1.LabelHostname: "win-1"}, Annotations: map[string]string{wmco.SubnetAnnotation: "10.132.0.0/24", wmco.PublicKeyHashAnnotation: "hash", takeover.HostKeyAnnotation: "key"}, ManagedFields: []metav1.ManagedFieldsEntry{},
		},
		Spec: corev1.NodeSpec{ProviderID: "p"},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.0", OperatingSystem: "windows"}, Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
			Addresses: []corev1.NodeAddress{{Address: "10.1.42.1"}}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady}},
		},
	}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// An informer that missed a deletion hands out something else.
	missed := toolscache.DeletedFinalStateUnknown{Key: "win-1", Obj: node}
	if got, err := compactNode(missed); got != any(missed) || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestReaders(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "key"}, Data: map[string][]byte{"private-key.pem": []byte("x")}}
	c := fake.NewClientBuilder().WithObjects(secret).Build()
	secret, err := secretReader(c)(t.Context(), "ns", "key")
	if err != nil || string(secret.Data["private-key.pem"]) != "x" {
		t.Errorf("got %v, %v", secret, err)
	}
	// The kind of the error says what to do, so it must come through.
	if _, err := secretReader(c)(t.Context(), "ns", "none"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func TestCommandRefusesBadFlagsBeforeItDoesAnything(t *testing.T) {
	cmd := NewCommand()
	cmd.SetContext(t.Context())
	cmd.SetArgs([]string{"--agent-dir=/nowhere/agent", "--concurrent-probes=0"})
	cmd.SilenceErrors = true
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.Execute()
	if out.Len() > 0 {
		t.Errorf("what is wrong is lost in %q", out.String())
	}
	if err == nil || !strings.Contains(err.Error(), "--agent-dir") || !strings.Contains(err.Error(), "--concurrent-probes") {
		t.Errorf("got %v", err)
	}
}

// command runs the program until it ends, with a kubeconfig that leads to a server.
func command(ctx context.Context, t *testing.T, api http.HandlerFunc, args ...string) error {
	t.Helper()
	server := httptest.NewServer(api)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c"}}]}`, server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := NewCommand() //nolint:contextcheck // it has the context by SetContext
	cmd.SilenceErrors = true
	cmd.SetContext(ctx)
	cmd.SetOut(t.Output())
	cmd.SetErr(t.Output())
	cmd.SetArgs(append([]string{"--kubeconfig", file, "--agent-dir", t.TempDir(), "--metrics-bind-address=0", "--v=1"}, args...))
	return cmd.Execute()
}

// A process that waits for its turn answers the probes of the kubelet, is not ready, and ends when it is told to.
func TestCommandWaits(t *testing.T) {
	t.Setenv(namespaceVariable, "ours")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	asked := make(chan string, 1000)
	ended := make(chan error, 1)
	go func() {
		ended <- command(ctx, t, func(w http.ResponseWriter, r *http.Request) {
			asked <- r.UserAgent()
			w.WriteHeader(http.StatusServiceUnavailable)
		}, "--namespace=", "--health-probe-bind-address", address)
	}()
	select {
	case agent := <-asked:
		if agent != "windows-controller/"+version.Version {
			t.Errorf("it calls itself %s", agent)
		}
	case err := <-ended:
		t.Fatalf("it does not wait: %v", err)
	}
	if got, _ := request(t, address, "/livez"); got != 200 {
		t.Errorf("alive: got %d", got)
	}
	if got, body := request(t, address, "/readyz/caches"); got != 500 || !strings.Contains(body, "waiting for APIService v1alpha1.windows.openshift.io to be read") {
		t.Errorf("ready: got %d %s", got, body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("when it is stopped: %v", err)
	}
}

// What keeps the controllers from running ends the process, with what is wrong and without a text about flags.
func TestCommandFails(t *testing.T) {
	var out strings.Builder
	cmd := NewCommand()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--version"})
	if err := cmd.Execute(); err != nil || !strings.HasPrefix(out.String(), "windows-controller version "+version.Version) {
		t.Errorf("got %q, %v", out.String(), err)
	}
	// There is no APIService at first, and another installation gets it when the controllers are
	// about to begin: as soon as they ask for their API.
	var begun sync.Once
	asked := make(chan struct{})
	api := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/apis/windows.openshift.io/") {
			begun.Do(func() { close(asked) })
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1",
			"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-asked:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1",
			"metadata":{"name":"v1alpha1.windows.openshift.io","resourceVersion":"2"},"spec":{"service":{"namespace":"theirs"}}}}`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	if err := command(t.Context(), t, api, "--health-probe-bind-address=0"); err == nil || !strings.Contains(err.Error(), "--agent-dir: ") {
		t.Errorf("without an agent: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "windows-node-agent.exe"), []byte("agent"), 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere, ok := errors.AsType[*apiservice.ElsewhereError](command(t.Context(), t, api, "--health-probe-bind-address=0", "--agent-dir", dir))
	if !ok || elsewhere.Namespace != "theirs" {
		t.Errorf("another installation gets the hosts: %v", elsewhere)
	}
}

func TestClientConfigOutsideOfACluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := clientConfig(""); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("got %v", err)
	}
	if _, err := clientConfig("/nowhere/kubeconfig"); err == nil {
		t.Error("a kubeconfig that is not there is taken")
	}
}
