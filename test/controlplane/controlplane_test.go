// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// startTimeout is far beyond what a start takes on a busy machine.
const startTimeout = 8 * time.Minute

// samples are inputs as real administrators write them; they are kept beside
// the checkout.
const samples = "../../../shared/samples"

// shared is the control plane that all tests use which do not break it. TestMain
// stops it.
var shared = sync.OnceValues(func() (*ControlPlane, error) {
	// The first start builds the binaries, which may take longer.
	if _, err := BinDir(context.Background(), logf); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cp, err := Start(ctx, Options{Logf: logf})
	sharedStarted = cp
	return cp, err
})

var sharedStarted *ControlPlane

func logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func TestMain(m *testing.M) {
	code := m.Run()
	if sharedStarted != nil {
		if err := errors.Join(sharedStarted.Err(), sharedStarted.Stop()); err != nil {
			fmt.Fprintln(os.Stderr, "the control plane of all tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func sharedControlPlane(t *testing.T) (*ControlPlane, *kubernetes.Clientset) {
	t.Helper()
	cp, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return cp, newClient(t, cp.AdminConfig())
}

func newClient(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// startOwn starts a control plane of the test's own.
func startOwn(t *testing.T, o Options) *ControlPlane {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	cp, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Stop() }) // tests that care stop it themselves
	return cp
}

func pids(cp *ControlPlane) map[string]int {
	return map[string]int{
		"etcd":                    cp.Etcd.PID(),
		"kube-apiserver":          cp.APIServer.PID(),
		"kube-controller-manager": cp.ControllerManager.PID(),
	}
}

func TestVersion(t *testing.T) {
	cp, client := sharedControlPlane(t)
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.Major != "1" || version.Minor != "37" || !strings.HasPrefix(version.GitVersion, "v1.37.") {
		t.Errorf("the API server calls itself %+v, want 1.37", version)
	}
	out, err := cp.Kubectl(t.Context(), "version", "--output=json")
	if err != nil {
		t.Fatal(err)
	}
	var both struct{ ClientVersion, ServerVersion struct{ GitVersion string } }
	if err := json.Unmarshal([]byte(out), &both); err != nil {
		t.Fatal(err)
	}
	if both.ClientVersion != both.ServerVersion || both.ServerVersion.GitVersion != version.GitVersion {
		t.Errorf("kubectl version says %+v, want %s twice", both, version.GitVersion)
	}
}

func TestKubectlError(t *testing.T) {
	cp, _ := sharedControlPlane(t)
	if _, err := cp.Kubectl(t.Context(), "get", "namespace", "nowhere"); err == nil || !strings.Contains(err.Error(), `namespaces "nowhere" not found`) {
		t.Errorf("Kubectl() = %v, want an error with kubectl's own words", err)
	}
}

// The controller manager makes a ServiceAccount for every namespace and the API
// server issues and verifies its tokens.
func TestServiceAccount(t *testing.T) {
	cp, client := sharedControlPlane(t)
	ctx := t.Context()
	if err := cp.EnsureNamespace(ctx, "serviceaccounts"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ServiceAccount default is created", func() bool {
		_, err := client.CoreV1().ServiceAccounts("serviceaccounts").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, "serviceaccounts", "default")
	if err != nil {
		t.Fatal(err)
	}
	got := whoAmI(t, kubeconfig)
	want := authenticationv1.UserInfo{
		Username: "system:serviceaccount:serviceaccounts:default",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:serviceaccounts", "system:authenticated"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the token is good for (-want +got):\n%s", diff)
	}

	if _, err := cp.ServiceAccountKubeconfig(ctx, "serviceaccounts", "missing"); !apierrors.IsNotFound(err) {
		t.Errorf("ServiceAccountKubeconfig() of a missing one = %v, want not found", err)
	}
}

func TestWriteKubeconfig(t *testing.T) {
	cp, _ := sharedControlPlane(t)
	kubeconfig, err := cp.WriteKubeconfig("jane", "jane", "developers", "windows-admins")
	if err != nil {
		t.Fatal(err)
	}
	got := whoAmI(t, kubeconfig)
	want := authenticationv1.UserInfo{Username: "jane", Groups: []string{"developers", "windows-admins", "system:authenticated"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the kubeconfig is that of (-want +got):\n%s", diff)
	}
	info, err := os.Stat(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode().Perm(), fs.FileMode(0o600); got != want {
		t.Errorf("a file with a private key has mode %v, want %v", got, want)
	}

	// Being known gives no rights.
	cmd := cp.KubectlCommand(t.Context(), kubeconfig, "get", "secrets", "--all-namespaces")
	if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte(`User "jane" cannot list`)) {
		t.Errorf("kubectl get secrets as jane = %v: %s; want it to be forbidden", err, out)
	}
}

// whoAmI returns the name and groups the API server knows the user of the
// kubeconfig by.
func whoAmI(t *testing.T, kubeconfig string) authenticationv1.UserInfo {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	review, err := newClient(t, config).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return authenticationv1.UserInfo{Username: review.Status.UserInfo.Username, Groups: review.Status.UserInfo.Groups}
}

// OpenShift's own CRDs take what administrators write for OpenShift.
func TestOpenShiftCRDs(t *testing.T) {
	cp, _ := sharedControlPlane(t)
	ctx := t.Context()
	crds, err := OpenShiftCRDs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.InstallCRDs(ctx, crds...); err != nil {
		t.Fatal(err)
	}
	if err := cp.EnsureNamespace(ctx, "openshift-machine-api"); err != nil {
		t.Fatal(err)
	}
	for _, sample := range []string{"machineset-vsphere.yaml", "mirrors.yaml"} {
		if _, err := cp.Kubectl(ctx, "apply", "-f", filepath.Join(samples, sample)); err != nil {
			t.Error(err)
		}
	}
	got, err := cp.Kubectl(ctx, "get", "machineset.machine.openshift.io/winworker", "--namespace=openshift-machine-api",
		"--output=jsonpath={.spec.template.spec.providerSpec.value.template}")
	if err != nil {
		t.Fatal(err)
	}
	if want := "windows-golden-2022"; got != want {
		t.Errorf("the MachineSet's template is %q, want %q", got, want)
	}
	// The schema is there: a MachineSet that makes no sense is refused.
	if _, err := cp.Kubectl(ctx, "patch", "machineset.machine.openshift.io/winworker", "--namespace=openshift-machine-api",
		"--type=merge", "--patch", `{"spec":{"replicas":"many"}}`); err == nil {
		t.Error("the MachineSet takes \"many\" for its replicas")
	}
}

// An aggregated server is reached by its Service, recognizes the front proxy and
// is told who asks.
func TestRegisterAPIService(t *testing.T) {
	cp, _ := sharedControlPlane(t)
	const group, version, namespace, service = "test.example.com", "v1", "aggregated", "api"
	ip := cp.ServiceIP(2)
	port, err := freePort(ip) // not 443, which takes root
	if err != nil {
		t.Fatal(err)
	}
	pair, err := cp.ServingCert(service, namespace, ip.String())
	if err != nil {
		t.Fatal(err)
	}
	serve(t, cp, pair, net.JoinHostPort(ip.String(), fmt.Sprint(port)), group, version)

	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	err = cp.RegisterAPIService(ctx, APIService{
		Group: group, Version: version, Namespace: namespace, Service: service, IP: ip, Port: port,
	})
	if err != nil {
		t.Fatal(err)
	}
	config, err := cp.UserConfig("jane", "system:masters", "windows-admins")
	if err != nil {
		t.Fatal(err)
	}
	got, err := newClient(t, config).RESTClient().Get().AbsPath("/apis", group, version, "whoami").DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if want := "front-proxy-client for jane [system:masters windows-admins system:authenticated]"; string(got) != want {
		t.Errorf("the server was asked by %q, want %q", got, want)
	}
}

// serve runs a server with just enough of an aggregated API for the test.
func serve(t *testing.T, cp *ControlPlane, pair KeyPair, address, group, version string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/"+group+"/"+version, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: group + "/" + version,
		})
	})
	mux.HandleFunc("GET /apis/"+group+"/"+version+"/whoami", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s for %s %v", r.TLS.PeerCertificates[0].Subject.CommonName, r.Header.Get("X-Remote-User"), r.Header["X-Remote-Group"])
	})
	cert, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	frontProxyCA, err := os.ReadFile(cp.FrontProxy().CAFile)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(frontProxyCA)
	listener, err := tls.Listen("tcp", address, &tls.Config{
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.VerifyClientCertIfGiven, // discovery is looked at without one
		ClientCAs:    clients,
		MinVersion:   tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // connections that end with the test
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the aggregated server ended: %v", err)
		}
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
}

func TestRegisterAPIServiceOfNobody(t *testing.T) {
	cp, _ := sharedControlPlane(t)
	ip := cp.ServiceIP(3)
	port, err := freePort(ip)
	if err != nil {
		t.Fatal(err)
	}
	// Once the API server has said why, there is nothing to wait for.
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go func() {
		defer cancel(errors.New("enough"))
		_ = poll(ctx, nil, func(ctx context.Context) error {
			out, err := cp.Kubectl(ctx, "get", "apiservice", "v1.nobody.example.com", "--output=jsonpath={.status.conditions}")
			if err == nil && !strings.Contains(out, "FailedDiscoveryCheck") {
				err = errors.New("not looked at yet")
			}
			return err
		})
	}()
	err = cp.RegisterAPIService(ctx, APIService{
		Group: "nobody.example.com", Version: "v1", Namespace: "nobody", Service: "api", IP: ip, Port: port,
	})
	for _, want := range []string{"v1.nobody.example.com", "FailedDiscoveryCheck", "connection refused"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("RegisterAPIService() = %v, want %q in it", err, want)
		}
	}
	if _, err := cp.Kubectl(t.Context(), "delete", "apiservice", "v1.nobody.example.com"); err != nil {
		t.Error(err)
	}
}

func TestSideBySide(t *testing.T) {
	const n = 2
	planes := make([]*ControlPlane, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
			defer cancel()
			cp, err := Start(ctx, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			planes[i] = cp
		})
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, cp := range planes {
			if cp == nil {
				continue
			}
			if err := cp.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
	if t.Failed() {
		return
	}
	if planes[0].ServiceIP(1) == planes[1].ServiceIP(1) {
		t.Errorf("both have the Service range of %v", planes[0].ServiceIP(1))
	}
	if err := planes[0].EnsureNamespace(t.Context(), "only-here"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		_, err := newClient(t, planes[i].AdminConfig()).CoreV1().Namespaces().Get(t.Context(), "only-here", metav1.GetOptions{})
		if got := err == nil; got != want {
			t.Errorf("control plane %d has the namespace of the first: %v, want %v (%v)", i, got, want, err)
		}
	}
	// The credentials of one are nothing to the other.
	config := planes[0].AdminConfig()
	config.Host, config.CAData = planes[1].URL(), planes[1].AdminConfig().CAData
	if _, err := newClient(t, config).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("the administrator of one asks the other and gets %v, want unauthorized", err)
	}
}

func TestStop(t *testing.T) {
	cp := startOwn(t, Options{Dir: filepath.Join(t.TempDir(), "run")})
	c := shell(t, orderly)
	c.LogFile, c.Ready = "", nil
	extra, err := cp.StartProcess(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(cp.Dir(), "log", "test.log"); extra.LogFile() != want {
		t.Errorf("the log is %s, want %s", extra.LogFile(), want)
	}
	all := pids(cp)
	all["the extra process"] = extra.PID()
	for name, pid := range all {
		if !running(pid) {
			t.Errorf("%s (%d) does not run before Stop", name, pid)
		}
	}
	for range 2 {
		if err := cp.Stop(); err != nil {
			t.Errorf("Stop() = %v", err)
		}
	}
	for name, pid := range all {
		if running(pid) {
			t.Errorf("%s (%d) runs after Stop", name, pid)
		}
	}
	if _, err := os.Stat(cp.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the run directory is still there: %v", err)
	}
	if err := cp.Err(); err != nil {
		t.Errorf("Err() after Stop = %v", err)
	}
}

func TestDeathWatch(t *testing.T) {
	// etcd says more at this level than nothing.
	cp := startOwn(t, Options{EtcdArgs: []string{"--log-level=info"}})
	select {
	case <-cp.Failed():
		t.Fatalf("failed to begin with: %v", cp.Err())
	default:
	}
	if err := syscall.Kill(cp.Etcd.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-cp.Failed()
	var exit *ExitError
	if !errors.As(cp.Err(), &exit) {
		t.Fatalf("Err() = %v, want an ExitError", cp.Err())
	}
	if exit.Name != "etcd" || exit.State != "signal: killed" || !strings.Contains(exit.LogTail, "ready to serve client requests") {
		t.Errorf("Err() = %+v, want etcd, killed, and what it logged last", exit)
	}
	// Whoever waits for something is told instead of waiting on.
	if err := cp.WaitForAPIService(t.Context(), "v1.missing.example.com"); !errors.As(err, &exit) {
		t.Errorf("WaitForAPIService() = %v, want the death of etcd", err)
	}
}

// A control plane survives the crash of its parts when they are started again.
func TestRestart(t *testing.T) {
	cp := startOwn(t, Options{})
	if err := cp.EnsureNamespace(t.Context(), "kept"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Process{cp.Etcd, cp.APIServer, cp.ControllerManager} {
		p.Kill9()
	}
	for _, p := range []*Process{cp.Etcd, cp.APIServer, cp.ControllerManager} {
		if err := p.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	namespace, err := newClient(t, cp.AdminConfig()).CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if namespace.Status.Phase != corev1.NamespaceActive {
		t.Errorf("the namespace is %s", namespace.Status.Phase)
	}
	if err := cp.Err(); err != nil {
		t.Errorf("Err() = %v after crashes that were asked for", err)
	}
}

func TestStartFails(t *testing.T) {
	full := writeFiles(t, map[string]string{"precious": ""})
	tests := []struct {
		name    string
		options Options
		want    []string
	}{
		{name: "no binaries", options: Options{BinDir: "/nonexistent"}, want: []string{"/nonexistent has no etcd", "hack/build-controlplane.sh"}},
		{name: "run directory in use", options: Options{Dir: full}, want: []string{"is not empty"}},
		{
			name:    "a process gives up",
			options: Options{APIServerArgs: []string{"--no-such-flag"}},
			want:    []string{"kube-apiserver ended unexpectedly", "exit status 1", "unknown flag: --no-such-flag"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
			defer cancel()
			cp, err := Start(ctx, test.options)
			if err == nil {
				_ = cp.Stop()
				t.Fatal("Start() succeeded")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Start() = %v\nwant it to say %q", err, want)
				}
			}
		})
	}
	if _, err := os.Stat(filepath.Join(full, "precious")); err != nil {
		t.Errorf("a failed start removed what was there before: %v", err)
	}
}

// Between being found free and being used, a port can be taken.
func TestStartOnFreePortsTriesAgain(t *testing.T) {
	block, err := claimBlock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = block.release() })
	var said []string
	cp := &ControlPlane{
		block: block, dir: t.TempDir(), failed: make(chan struct{}),
		options: Options{Logf: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }},
	}
	var attempts int
	p, err := cp.startOnFreePorts(t.Context(), 1, func([]int) (Command, error) {
		attempts++
		c := shell(t, orderly)
		if attempts == 1 {
			c = shell(t, `echo "listen tcp 127.0.0.1:1: bind: address already in use"; exit 1`)
			c.Ready = func(context.Context) error { return errors.New("never") }
		} else {
			c.Ready = nil
		}
		return c, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill9)
	if attempts != 2 || len(said) != 1 || !strings.Contains(said[0], "a port of test was taken") {
		t.Errorf("%d attempts, said %q; want 2 and a word about it", attempts, said)
	}
}
