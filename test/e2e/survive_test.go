// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	certutil "k8s.io/client-go/util/cert"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	windowsclient "github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned/typed/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// shutdownDelay is how long windows-apiserver of TestSurviveServer goes on answering
// after it was told to stop: time for a few requests on a busy machine.
const shutdownDelay = 40 * time.Second

// TestSurviveServer kills and stops windows-apiserver with its embedded etcd.
func TestSurviveServer(t *testing.T) {
	t.Parallel()
	key, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s := startSystem(t, system.Options{
		PrivateKey:        key,
		WithoutController: true,
		APIServerArgs:     []string{"--max-log-streams-per-host=2", fmt.Sprintf("--shutdown-delay-duration=%s", shutdownDelay)},
	})
	host := startHost(t, winhost.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	createKnown(t, s, "w", host)

	t.Run("kill -9", func(t *testing.T) { surviveKill9(t, s) })
	t.Run("second server on the same data", func(t *testing.T) { refuseSecondServer(t, s) })
	t.Run("limit of streams", func(t *testing.T) { limitStreams(t, s, host) })
	t.Run("graceful stop", func(t *testing.T) { stopGracefully(t, s, host) })
}

// startSystem starts a system of the test's own, as soon as there is room for one. A test that has one must not wait for another one, neither
// of its own nor of its parts.
func startSystem(t *testing.T, o system.Options) *system.System {
	t.Helper()
	ownSystems <- struct{}{}
	t.Cleanup(func() { <-ownSystems })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// Without the place in a file that t.Logf adds: what the test itself says is what a summary of a failure repeats.
	logf := func(format string, args ...any) { _, _ = fmt.Fprintf(t.Output(), format+"\n", args...) }
	o.Logf, o.RecordRights, o.Programs = logf, true, sys.Programs()
	o.ControlPlane.Env = frugal
	o.ServerEnv, o.ControllerEnv = slices.Concat(o.ServerEnv, frugal), slices.Concat([]string{readOnly}, o.ControllerEnv, frugal)
	s, err := system.Start(ctx, o)
	if err != nil {
		t.Fatalf("starting a system: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logf("windows-apiserver:\n%s", s.Server.LogTail())
			if s.Controller != nil {
				logf("windows-controller:\n%s", s.Controller.LogTail())
			}
		}
		if err := errors.Join(checkRefusals(s), s.Stop()); err != nil {
			t.Errorf("stopping the system: %v", err)
		}
	})
	return s
}

// instances are those of the namespace default of a system.
func instances(s *system.System) windowsclient.WindowsInstanceInterface {
	return s.Windows.WindowsV1alpha1().WindowsInstances(metav1.NamespaceDefault)
}

// createKnown makes an instance for a host that the controller would have logged in to.
func createKnown(t *testing.T, s *system.System, name string, host winhost.Host) {
	t.Helper()
	err := s.CreateKnown(t.Context(), &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: host.Address(), Port: int32(host.Port()), Username: host.User()},
	}, host.HostKey())
	if err != nil {
		t.Fatal(err)
	}
}

// write is what became of one object of surviveKill9. Between what was acknowledged and
// what was tried is what nobody knows.
type write struct {
	name                         string
	created                      bool
	triedPort, acknowledgedPort  int32
	triedDelete, acknowledgedDel bool
}

// firstPort is that of a new object; each change of it counts up.
const firstPort, lastPort = 1, 4

func surviveKill9(t *testing.T, s *system.System) {
	const kills, writers, perRound = 6, 4, 60
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var (
		acknowledged atomic.Int64
		wg           sync.WaitGroup
		writes       [writers][]write
	)
	for id := range writers {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				writes[id] = append(writes[id], writeObject(ctx, instances(s), fmt.Sprintf("kill9-%d-%d", id, n), n%3 == 0, &acknowledged))
			}
		})
	}
	for range kills {
		from := acknowledged.Load()
		eventually(t, "writes are acknowledged", func() error {
			if n := acknowledged.Load() - from; n < perRound {
				return fmt.Errorf("%d are", n)
			}
			return nil
		})
		// Any moment will do.
		pause(ctx, rand.N(100*time.Millisecond))
		s.Server.Kill9()
		if err := s.Server.Restart(ctx); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	wg.Wait()

	// kube-apiserver needs a moment to notice that it is there again.
	var list *v1alpha1.WindowsInstanceList
	eventually(t, "the instances are served", func() (err error) {
		list, err = instances(s).List(t.Context(), metav1.ListOptions{})
		return err
	})
	found := map[string]*v1alpha1.WindowsInstance{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	for _, ofWriter := range writes {
		for _, w := range ofWriter {
			if err := w.lost(found[w.name]); err != nil {
				t.Errorf("%s: %v", w.name, err)
			}
		}
	}
	t.Logf("%d writes were acknowledged in spite of %d kills", acknowledged.Load(), kills)
}

// writeObject creates an object, changes it a few times and perhaps deletes it again. It
// stops at the first write that fails.
func writeObject(ctx context.Context, client windowsclient.WindowsInstanceInterface, name string, deleted bool, acknowledged *atomic.Int64) write {
	w := write{name: name, triedPort: firstPort}
	_, err := client.Create(ctx, &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: "127.0.3.1", Port: firstPort, Paused: true},
	}, metav1.CreateOptions{})
	if err == nil {
		w.created, w.acknowledgedPort = true, firstPort
		acknowledged.Add(1)
	}
	for err == nil && w.acknowledgedPort < lastPort {
		w.triedPort++
		patch := fmt.Appendf(nil, `{"spec":{"port":%d}}`, w.triedPort)
		if _, err = client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err == nil {
			w.acknowledgedPort = w.triedPort
			acknowledged.Add(1)
		}
	}
	if err == nil && deleted {
		w.triedDelete = true
		if err = client.Delete(ctx, name, metav1.DeleteOptions{}); err == nil {
			w.acknowledgedDel = true
			acknowledged.Add(1)
		}
	}
	if err != nil {
		// The server is down: there is no use in asking it as fast as can be.
		pause(ctx, 50*time.Millisecond)
	}
	return w
}

// lost says which acknowledged write is not in what was found, nil if nothing was.
func (w write) lost(found *v1alpha1.WindowsInstance) error {
	switch {
	case found == nil && w.created && !w.triedDelete:
		return errors.New("its creation was acknowledged, and it is not there")
	case found != nil && w.acknowledgedDel:
		return errors.New("its deletion was acknowledged, and it is there")
	case found != nil && (found.Spec.Port < w.acknowledgedPort || found.Spec.Port > w.triedPort):
		return fmt.Errorf("its port is %d, acknowledged was %d, tried %d", found.Spec.Port, w.acknowledgedPort, w.triedPort)
	}
	return nil
}

// pause lets time go by until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// commandOf returns the program and the arguments of a running process.
func commandOf(t *testing.T, p *controlplane.Process) (path string, args []string) {
	t.Helper()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	return words[0], words[1:]
}

func refuseSecondServer(t *testing.T, s *system.System) {
	path, args := commandOf(t, s.Server)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the second server ended with %v:\n%s", err, out)
	}
	mustSay(t, string(out), "is in use by another windows-apiserver", filepath.Join(s.Dir(), "windows-apiserver"), "--etcd-servers")
	if err := s.ServerReady(t.Context()); err != nil {
		t.Errorf("the first server suffers: %v", err)
	}
}

// limitStreams opens as many streams as one host may have, and one more.
func limitStreams(t *testing.T, s *system.System, host winhost.Host) {
	path := subresource(metav1.NamespaceDefault, "w", "log", "query=kubelet&follow=true")
	first := follow(t, s, path)
	second := follow(t, s, path)
	third := ask(t, s, http.MethodGet, path)
	status := third.refused(t, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	mustSay(t, status.Message, "at most 2 logs of one host may be open")
	if third.header.Get("Retry-After") == "" {
		t.Errorf("there is no Retry-After in %v", third.header)
	}
	createKnown(t, s, "other", host)
	ask(t, s, http.MethodGet, subresource(metav1.NamespaceDefault, "other", "log", "")).ok(t)

	// The client goes away without a word: its place becomes free.
	first.stop()
	waitForPlace(t, s)
	if second.ended() {
		t.Errorf("the other stream ended, too: %v", second.err)
	}
}

// waitForPlace waits until a log of instance w is admitted: places become free a moment
// after their streams have ended.
func waitForPlace(t *testing.T, s *system.System) {
	t.Helper()
	eventually(t, "a log is admitted", func() error {
		if a := ask(t, s, http.MethodGet, subresource(metav1.NamespaceDefault, "w", "log", "")); a.code != http.StatusOK {
			return fmt.Errorf("got %d: %s", a.code, a.body)
		}
		return nil
	})
}

// stopGracefully stops the server while a log is followed.
func stopGracefully(t *testing.T, s *system.System, host winhost.Host) {
	path := subresource(metav1.NamespaceDefault, "w", "log", "query=kubelet&follow=true")
	waitForPlace(t, s)
	f := follow(t, s, path)
	writeLog(t, host, "kubelet/kubelet.log", numbered(0))
	f.waitFor(t, numbered(0))

	stopped := make(chan error, 1)
	go func() { stopped <- s.Server.Stop() }()
	eventually(t, "the server is not ready", func() error {
		if err := s.ServerReady(t.Context()); err == nil {
			return errors.New("it is")
		} else if !strings.Contains(err.Error(), "500") {
			t.Fatalf("readiness did not fail before the server was gone: %v", err)
		}
		return nil
	})
	// kube-apiserver needs a while to notice, and sends requests here until then.
	if err := s.ServerGet(t.Context(), "/livez", io.Discard); err != nil {
		t.Errorf("not alive while stopping: %v", err)
	}
	if _, err := instances(s).Get(t.Context(), "w", metav1.GetOptions{}); err != nil {
		t.Errorf("a request while stopping: %v", err)
	}
	writeLog(t, host, "kubelet/kubelet.log", numbered(1))
	f.waitFor(t, numbered(1))

	f.waitForEnd(t)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if code := s.Server.ExitCode(); code != 0 {
		t.Errorf("the exit code is %d; the log ends with\n%s", code, s.Server.LogTail())
	}
	out := f.out.String()
	cursor := f.cursor(t)
	if want := numbered(0) + numbered(1) + "# cursor: " + cursor + "\n# end: the server is shutting down; continue with the cursor above\n"; out != want {
		t.Errorf("the stream was\n%s\nwant\n%s", out, want)
	}

	writeLog(t, host, "kubelet/kubelet.log", numbered(2))
	if err := s.Server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log goes on with the cursor", func() error {
		a := ask(t, s, http.MethodGet, subresource(metav1.NamespaceDefault, "w", "log", "query=kubelet&cursor="+cursor))
		if a.code != http.StatusOK {
			return fmt.Errorf("got %d: %s", a.code, a.body)
		}
		if a.body != numbered(2) {
			t.Fatalf("after the cursor comes %q", a.body)
		}
		return nil
	})
}

// TestSurviveController kills windows-controller, on a system that keeps its objects in
// an etcd of its own.
func TestSurviveController(t *testing.T) {
	t.Parallel()
	fleet, err := winhost.NewFleet(t.Context(), winhost.FleetOptions{Count: 22, Customize: func(i int, o *winhost.Options) {
		if i == stubborn {
			o.InProcess.KeysFile = `C:\ProgramData\keys`
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fleet.Close(); err != nil {
			t.Errorf("closing the hosts: %v", err)
		}
	})
	certs, certPEM := metricsCertificate(t)
	s := startSystem(t, system.Options{PrivateKey: fleet.PrivateKey, ExternalEtcd: true, ControllerArgs: append([]string{"--metrics-cert-dir=" + certs, "--recheck-interval=10s", "--probe-timeout=20s"}, shortLease...)})
	m := newScraper(t, s, certPEM)

	t.Run("health and metrics", m.testEndpoints)
	t.Run("kill -9 of the server with an external etcd", func(t *testing.T) { surviveWithExternalEtcd(t, s) })
	t.Run("kill -9 of the controller", func(t *testing.T) { resumeWork(t, s, fleet.Hosts[:20]) })
	t.Run("another key", func(t *testing.T) { rotateKey(t, s, fleet) })
	t.Run("alerts", m.testAlerts)
	t.Run("two controllers", func(t *testing.T) { takeOver(t, s, m, fleet.Hosts[20], fleet.Hosts[21]) })
}

func surviveWithExternalEtcd(t *testing.T, s *system.System) {
	created, err := instances(s).Create(t.Context(), &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "kept"},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: "127.0.3.1", Paused: true},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Server.Kill9()
	if err := s.Server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the object is there", func() error {
		got, err := instances(s).Get(t.Context(), "kept", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if err == nil && (got.UID != created.UID || got.Spec.Address != created.Spec.Address) {
			t.Fatalf("it is another one: %+v", got)
		}
		return err
	})
	if _, err := os.Stat(filepath.Join(s.Dir(), "windows-apiserver")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a data directory of an embedded etcd: %v", err)
	}
}

// create makes the instance of a host, for the controller to work on.
func create(t *testing.T, s *system.System, name string, host winhost.Host) {
	t.Helper()
	eventually(t, "instance "+name+" is made", func() error { // kube-apiserver may refuse it for a while after a restart of windows-apiserver
		_, err := instances(s).Create(t.Context(), &v1alpha1.WindowsInstance{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.WindowsInstanceSpec{Address: host.Address(), Port: int32(host.Port()), Username: host.User()},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil // an answer was lost
		}
		return err
	})
}

// resumeWork kills the controller when it has done a part of its work.
func resumeWork(t *testing.T, s *system.System, hosts []winhost.Host) {
	slow := hosts[len(hosts)/2:]
	for _, host := range slow {
		setFault(t, host, winhost.Fault{Latency: 50 * time.Millisecond})
	}
	for i, host := range hosts {
		create(t, s, fmt.Sprintf("resume-%d", i), host)
	}
	list := func() (all []v1alpha1.WindowsInstance, connected int) {
		for i := range hosts {
			var instance *v1alpha1.WindowsInstance
			eventually(t, "the instance is served", func() (err error) { // as with create
				instance, err = instances(s).Get(t.Context(), fmt.Sprintf("resume-%d", i), metav1.GetOptions{})
				return err
			})
			if instance.Status.Phase == v1alpha1.InstanceConnected {
				connected++
			}
			all = append(all, *instance)
		}
		return all, connected
	}
	eventually(t, "the work has begun", func() error {
		if _, connected := list(); connected == 0 {
			return errors.New("no host is connected")
		}
		return nil
	})
	s.Controller.Kill9()
	before, connected := list()
	if connected == len(hosts) {
		t.Fatal("the controller was killed when all the work was done")
	}
	t.Logf("killed when %d of %d hosts were connected", connected, len(hosts))
	for _, host := range slow {
		setFault(t, host, winhost.Fault{})
	}
	if err := s.Controller.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	var after []v1alpha1.WindowsInstance
	eventually(t, "all hosts are connected", func() error {
		if after, connected = list(); connected < len(hosts) {
			return fmt.Errorf("%d are", connected)
		}
		return nil
	})
	for i := range after {
		was, is := before[i].Status.HostKeys, after[i].Status.HostKeys
		if len(was) > 0 && !equality.Semantic.DeepEqual(was, is) {
			t.Errorf("%s: the host key was %+v and is %+v", after[i].Name, was, is)
		}
		if len(is) != 1 {
			t.Errorf("%s: the host keys are %+v", after[i].Name, is)
		}
	}
}

// takeOver runs a second controller, which does nothing until the first one is gone.
func takeOver(t *testing.T, s *system.System, m *scraper, before, after winhost.Host) {
	path, args := commandOf(t, s.Controller)
	const health, metrics = 8082, 8444
	second, err := s.StartProcess(t.Context(), controlplane.Command{
		Name: "windows-controller-2",
		Path: path,
		// The last of two values for a flag counts.
		Args: append(args, fmt.Sprintf("--health-probe-bind-address=%s:%d", s.HostIP(), health), fmt.Sprintf("--metrics-bind-address=%s:%d", s.HostIP(), metrics)),
		Ready: func(ctx context.Context) error {
			_, err := m.get(ctx, fmt.Sprintf("http://%s:%d/readyz", s.HostIP(), health), "")
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	holder := func() string {
		lease, err := s.Kube.CoordinationV1().Leases(system.Namespace).Get(t.Context(), "windows-controller", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return *lease.Spec.HolderIdentity
	}
	connect := func(name string, host winhost.Host) {
		create(t, s, name, host)
		eventually(t, name+" is connected", func() error {
			instance, err := instances(s).Get(t.Context(), name, metav1.GetOptions{})
			if err == nil && instance.Status.Phase != v1alpha1.InstanceConnected {
				err = fmt.Errorf("it is %s", instance.Status.Phase)
			}
			return err
		})
	}
	dials := func() float64 {
		return m.value(t, fmt.Sprintf("https://%s:%d/metrics", s.HostIP(), metrics), "windows_controller_ssh_dials_total")
	}

	first := holder()
	connect("before", before)
	if n := dials(); n != 0 || holder() != first {
		t.Errorf("the second controller has made %v connections; the first one was %s, and %s leads", n, first, holder())
	}
	s.Controller.Kill9()
	connect("after", after)
	if n := dials(); n == 0 || holder() == first {
		t.Errorf("after the end of %s the second controller has made %v connections, and %s leads", first, n, holder())
	}
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
	if code := second.ExitCode(); code != 0 {
		t.Errorf("the second controller ended with %d:\n%s", code, second.LogTail())
	}
}

// metricsName is whom the certificate of the controller's metrics is for.
const metricsName = "windows-controller-metrics." + system.Namespace + ".svc"

// scraper reads metrics as a monitoring system does.
type scraper struct {
	system *system.System
	client *http.Client
	token  string
}

// metricsCertificate makes a certificate for the metrics of the controller, and the directory that has it with its key.
func metricsCertificate(t *testing.T) (dir string, certPEM []byte) {
	t.Helper()
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey(metricsName, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name, content := range map[string][]byte{"tls.crt": certPEM, "tls.key": keyPEM} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, certPEM
}

// newScraper makes the account of Prometheus, with the rights that artifacts give it. controllerCA
// signed the certificate of the controller's metrics.
func newScraper(t *testing.T, s *system.System, controllerCA []byte) *scraper {
	t.Helper()
	const namespace, name = "openshift-monitoring", "prometheus-k8s"
	ctx := t.Context()
	err := s.EnsureNamespace(ctx, namespace)
	if err == nil {
		_, err = s.Kube.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = s.Kubectl(ctx, "apply", "-f", filepath.Join("..", "..", "artifacts", "components", "monitoring", "rbac.yaml"))
	}
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.ServiceAccountConfig(ctx, namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	transport := func(ca []byte, serverName string) *http.Transport {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ca)
		return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: serverName, MinVersion: tls.VersionTLS12}}
	}
	found := monitors(t, "monitoring")
	server, controller := transport(serverCA(t, s), found["windows-apiserver"].Endpoints[0].TLSConfig.ServerName), transport(controllerCA, found["windows-controller"].Endpoints[0].TLSConfig.ServerName)
	m := &scraper{system: s, token: config.BearerToken}
	m.client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.String(), s.ServerURL+"/") {
			return server.RoundTrip(r)
		}
		return controller.RoundTrip(r)
	})}
	t.Cleanup(server.CloseIdleConnections)
	t.Cleanup(controller.CloseIdleConnections)
	return m
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// httpError is an answer other than 200.
type httpError struct {
	code int
	body string
}

func (e *httpError) Error() string { return fmt.Sprintf("got %d: %s", e.code, e.body) }

func (m *scraper) get(ctx context.Context, url, token string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := m.client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", &httpError{response.StatusCode, body.String()}
	}
	return body.String(), nil
}

// controllerMetrics is where the controller serves its metrics.
func (m *scraper) controllerMetrics() string {
	return fmt.Sprintf("https://%s:8443/metrics", m.system.HostIP())
}

// value reads one metric, summed up over its labels.
func (m *scraper) value(t *testing.T, url, name string) float64 {
	t.Helper()
	n, err := m.read(t.Context(), url, name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (m *scraper) read(ctx context.Context, url, name string) (float64, error) {
	body, err := m.get(ctx, url, m.token)
	if err != nil {
		return 0, fmt.Errorf("reading metrics: %w", err)
	}
	sum, found := 0.0, false
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		n, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum, found = sum+n, true
	}
	if !found {
		return 0, fmt.Errorf("%s has no metric %s", url, name)
	}
	return sum, nil
}

// administrator makes an account that may do everything, and returns its token.
func (m *scraper) administrator(t *testing.T) string {
	t.Helper()
	const name = "administrator"
	_, err := m.system.Kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err == nil {
		_, err = m.system.Kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	config, err := m.system.ServiceAccountConfig(t.Context(), metav1.NamespaceDefault, name)
	if err != nil {
		t.Fatal(err)
	}
	return config.BearerToken
}

// testEndpoints looks at what monitoring systems and kubelets look at.
func (m *scraper) testEndpoints(t *testing.T) {
	s := m.system
	controllerMetrics := m.controllerMetrics()
	for _, url := range []string{
		s.ServerURL + "/readyz", s.ServerURL + "/livez", s.ServerURL + "/healthz",
		s.ControllerHealth + "/readyz", s.ControllerHealth + "/livez", s.ControllerHealth + "/healthz",
	} {
		if body, err := m.get(t.Context(), url, ""); err != nil || strings.TrimSpace(body) != "ok" {
			t.Errorf("%s answers %q, %v", url, body, err)
		}
	}
	stranger, err := s.ServiceAccountConfig(t.Context(), metav1.NamespaceDefault, "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{s.ServerURL + "/metrics", controllerMetrics} {
		for who, token := range map[string]string{"nobody": "", "somebody else": stranger.BearerToken} {
			var refused *httpError
			if _, err := m.get(t.Context(), url, token); !errors.As(err, &refused) || refused.code != http.StatusUnauthorized && refused.code != http.StatusForbidden {
				t.Errorf("%s for %s: %v", url, who, err)
			}
		}
		// A binding is seen by the authorizer a moment after it was made.
		eventually(t, "metrics may be read", func() error {
			_, err := m.get(t.Context(), url, m.token)
			return err
		})
	}
	// The objects are not to be had here, whoever asks: the cluster's audit log would not see it.
	objects, administrator := s.ServerURL+"/apis/windows.openshift.io/v1alpha1/namespaces/"+metav1.NamespaceDefault+"/windowsinstances", m.administrator(t)
	eventually(t, "an administrator is told whom to ask", func() error { // a binding is seen a moment after it was made
		_, err := m.get(t.Context(), objects, administrator)
		if err == nil {
			t.Fatal("an administrator is served directly")
		}
		if !strings.Contains(err.Error(), "ask kube-apiserver") {
			return err
		}
		return nil
	})
	for url, names := range map[string][]string{
		s.ServerURL + "/metrics": {"apiserver_request_total", "windows_apiserver_ssh_connections", "windows_apiserver_ssh_sessions"},
		controllerMetrics:        {"controller_runtime_active_workers", "windows_controller_ssh_connections", "windows_controller_ssh_dials_total"},
	} {
		for _, name := range names {
			// A metric with labels is there once something was counted.
			eventually(t, "there is a metric "+name, func() error {
				_, err := m.read(t.Context(), url, name)
				return err
			})
		}
	}
}
