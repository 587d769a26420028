// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

const namespace = "windows"

// issuer remembers who got credentials, and as which node.
type issuer struct {
	mu     sync.Mutex
	issued []string
	err    error
}

func (f *issuer) Issue(_ context.Context, instance *v1alpha1.WindowsInstance, nodeName string) (*Credentials, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.issued = append(f.issued, instance.Name+" as "+nodeName)
	return &Credentials{Certificate: []byte("a certificate"), Key: []byte("a key")}, f.err
}

// authority is a certificate of an authority in PEM.
func authority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "ca"}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: ca.Raw})
}

// manifest has a file for each that hosts need.
func manifest() *payload.Manifest {
	m := &payload.Manifest{SchemaVersion: payload.SchemaVersion, Name: "test", Version: "v1", OS: "windows", Architecture: "amd64"}
	for _, f := range wmco.PayloadFiles(configv1.NonePlatformType) {
		path := f.Path()
		if !strings.HasSuffix(path, ".exe") {
			continue // WMCO ships configuration, which we make
		}
		m.Files = append(m.Files, payload.File{
			Slot:    payload.Slot{Name: path[strings.LastIndexByte(path, '\\')+1:], Path: path},
			Content: payload.Content{Size: 1, SHA256: strings.Repeat("ab", 32)},
		})
	}
	return m
}

// fakeCluster is a cluster of kubeadm, whose objects can be changed.
type fakeCluster struct {
	client.Client
	mu   sync.Mutex
	down error
	gets int
	// metadata is what watches see: nothing, until a test tells it.
	metadata *metadatafake.FakeMetadataClient
}

// count is how many objects were asked for so far.
func (c *fakeCluster) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gets
}

func (c *fakeCluster) setDown(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = err
}

func newCluster(t *testing.T, ca []byte, objects ...client.Object) *fakeCluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objects = append(objects,
		configMap(metav1.NamespaceSystem, "kubeadm-config", map[string]string{"ClusterConfiguration": "networking: {serviceSubnet: 10.96.0.0/12, dnsDomain: local}\n"}),
		configMap(metav1.NamespaceSystem, "extension-apiserver-authentication", map[string]string{"client-ca-file": string(ca)}),
	)
	metadataScheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(metadataScheme); err != nil {
		t.Fatal(err)
	}
	c := &fakeCluster{metadata: metadatafake.NewSimpleMetadataClient(metadataScheme)}
	c.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			c.mu.Lock()
			down := c.down
			c.gets++
			c.mu.Unlock()
			if down != nil {
				return down
			}
			return w.Get(ctx, key, obj, opts...)
		},
	}).Build()
	return c
}

func (c *fakeCluster) readPool(ctx context.Context, namespace, name string) (*v1alpha1.WindowsNodePool, error) {
	pool := &v1alpha1.WindowsNodePool{}
	return pool, c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pool)
}

func configMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
}

func clusterInfo(ca []byte, server string) *corev1.ConfigMap {
	return configMap(metav1.NamespacePublic, "cluster-info", map[string]string{"kubeconfig": fmt.Sprintf(
		"apiVersion: v1\nkind: Config\nclusters:\n- name: ''\n  cluster: {server: %q, certificate-authority-data: %s}\n", server, base64.StdEncoding.EncodeToString(ca))})
}

func newSource(t *testing.T, c *fakeCluster, f *issuer) *Source {
	t.Helper()
	s, err := NewSource(Options{
		Live: Live{
			Cluster: c, ReadPool: c.readPool,
			Settings: Settings{Payloads: []*payload.Manifest{manifest()}, Namespace: namespace, AgentPath: `C:\Windows\windows-node-agent\windows-node-agent-0123456789abcdef.exe`},
		},
		Client: c, Issuer: f, Metadata: c.metadata,
		clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sourceWithKey is a source of a cluster of kubeadm that has all that hosts need, the key of digests too.
func sourceWithKey(t *testing.T) (*fakeCluster, *Source) {
	t.Helper()
	ca := authority(t)
	c := newCluster(t, ca, clusterInfo(ca, "https://api.example.com:6443"))
	if err := EnsureDigestKey(t.Context(), c, namespace); err != nil {
		t.Fatal(err)
	}
	return c, newSource(t, c, &issuer{})
}

func instance() *v1alpha1.WindowsInstance {
	return &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "hosts", Name: "win-1", UID: "1"}}
}

// run starts the source, and stops it at the end of the test.
func run(t *testing.T, s *Source) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

// next waits for a change, while time passes.
func next(t *testing.T, s *Source, changed <-chan event.GenericEvent) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(30 * time.Second); ; {
		select {
		case <-changed:
			return
		case <-ticker.C:
			s.o.clock.(*clocktesting.FakeClock).Step(time.Minute)
		case <-deadline:
			t.Fatal("no change was told")
		}
	}
}

func TestInputsAreKeptCurrent(t *testing.T) {
	ca := authority(t)
	c := newCluster(t, ca)
	s := newSource(t, c, &issuer{})
	changed := s.Changed()
	run(t, s)
	next(t, s, changed) // the first look is news

	var missing *InputError
	if _, _, _, err := s.Revision(t.Context(), instance(), nil, nil); !errors.As(err, &missing) || !strings.Contains(err.Error(), "--api-server-url") {
		t.Fatalf("without cluster-info got %v", err)
	}
	if from, known := s.NodeNames(); known {
		t.Errorf("without it Nodes are named by %q", from)
	}
	if n := s.InputsWrong(); n == 0 || n != len(missing.Findings) {
		t.Errorf("without it %d inputs are wrong, want %d", n, len(missing.Findings))
	}
	if kept := s.MetricsKept(); kept != "" {
		t.Errorf("without it hosts serve metrics, because %s", kept)
	}
	if err := c.Create(t.Context(), clusterInfo(ca, "https://api.example.com:6443")); err != nil {
		t.Fatal(err)
	}
	next(t, s, changed)
	first, waiting, _, err := s.Revision(t.Context(), instance(), nil, nil)
	if err != nil || first == "" || len(waiting) == 0 {
		t.Fatalf("got revision %q, waiting %v, %v", first, waiting, err)
	}
	if n := s.InputsWrong(); n != 0 {
		t.Errorf("with it %d inputs are wrong, want none", n)
	}
	if from, known := s.NodeNames(); !known || from != wmco.HostnameOfWindows {
		t.Errorf("Nodes are named by %q, %v", from, known)
	}
	if kept := s.MetricsKept(); !strings.Contains(kept, "Secret "+namespace+"/"+ExporterSecret+" does not exist: create it again; if hosts are to serve none: kubectl create secret generic "+ExporterSecret+" -n "+namespace+" --from-literal=metrics=none") {
		t.Errorf("hosts serve metrics, because %q", kept)
	}

	// A cluster that does not answer makes nothing wrong.
	c.setDown(apierrors.NewServiceUnavailable("away"))
	if _, err := s.refresh(t.Context(), 0); err == nil {
		t.Error("an API server that is away is no error")
	}
	if again, _, _, err := s.Revision(t.Context(), instance(), nil, nil); err != nil || again != first {
		t.Errorf("while the API server is away: got %q, %v, want %q", again, err, first)
	}
	c.setDown(nil)

	// Another DNS is another revision.
	if err := c.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-dns"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.77"},
	}); err != nil {
		t.Fatal(err)
	}
	next(t, s, changed)
	other, _, warnings, err := s.Revision(t.Context(), instance(), nil, nil)
	if err != nil || other == first || len(warnings) > 0 {
		t.Errorf("with another DNS: got %q, %q, %v", other, warnings, err)
	}

	// What cannot hold on hosts is news, too.
	image := &configv1.Image{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	image.Spec.RegistrySources.BlockedRegistries = []string{"quay.io/bad"}
	if err := c.Create(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	next(t, s, changed)
	if same, _, warnings, err := s.Revision(t.Context(), instance(), nil, nil); err != nil || same != other || len(warnings) != 1 || !strings.Contains(warnings[0], "quay.io/bad is not blocked") {
		t.Errorf("with a repository that is blocked: got %q, %q, %v, want %q", same, warnings, err, other)
	}

	if at := s.ExporterExpires(); !at.IsZero() {
		t.Errorf("without a certificate of metrics it expires at %s", at)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: "windows-exporter", MaxAge: 48 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ExporterSecret},
		Data:       map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	}); err != nil {
		t.Fatal(err)
	}
	next(t, s, changed)
	expires := s.ExporterExpires()
	if left := time.Until(expires); left <= 0 || left > 48*time.Hour {
		t.Errorf("the certificate of metrics expires in %s", left)
	}
	// Hosts go on with it until there is another one.
	if err := c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ExporterSecret}}); err != nil {
		t.Fatal(err)
	}
	next(t, s, changed)
	if at := s.ExporterExpires(); !at.Equal(expires) {
		t.Errorf("without the Secret the certificate of metrics expires at %s, and not at %s", at, expires)
	}
	info := clusterInfo(ca, "https://api.example.com:6443")
	if err := c.Delete(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	next(t, s, changed)
	if at := s.ExporterExpires(); !at.Equal(expires) || s.InputsWrong() == 0 {
		t.Errorf("while %d inputs are wrong the certificate of metrics expires at %s, and not at %s", s.InputsWrong(), at, expires)
	}
	if err := c.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ExporterSecret},
		Data:       map[string][]byte{metricsKey: []byte(noMetrics)},
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), clusterInfo(ca, "https://api.example.com:6443")); err != nil {
		t.Fatal(err)
	}
	next(t, s, changed)
	if at := s.ExporterExpires(); !at.IsZero() {
		t.Errorf("a certificate expires at %s that no host is to serve metrics with", at)
	}

	// Somebody deletes the key of digests: there is another one, and hosts get their secrets again.
	if err := c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: DigestKeySecret}}); err != nil {
		t.Fatal(err)
	}
	next(t, s, changed)
	if _, _, _, err := s.Revision(t.Context(), instance(), nil, nil); err != nil {
		t.Errorf("without the key of digests: %v", err)
	}
}

func TestBuildForAHostThatJoins(t *testing.T) {
	ca := authority(t)
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "hosts", Name: "pool"}}
	pool.Spec.Template.Kubelet = &v1alpha1.KubeletTemplate{MaxPods: new(int32(77))}
	c := newCluster(t, ca, clusterInfo(ca, "https://api.example.com:6443"), pool)
	if err := EnsureDigestKey(t.Context(), c, namespace); err != nil {
		t.Fatal(err)
	}
	f := &issuer{}
	s := newSource(t, c, f)
	host := instance()
	host.Spec.PoolRef = &v1alpha1.PoolReference{Name: "pool"}

	joined, err := s.Build(t.Context(), host, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(f.issued) > 0 {
		t.Error("a host that does not join got credentials")
	}
	joining, err := s.Build(t.Context(), host, nil, "win-1")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.issued, []string{"win-1 as win-1"}) || !strings.Contains(string(joining.Bundle.Secrets[wmco.BootstrapKubeconfigPath]), base64.StdEncoding.EncodeToString([]byte("a key"))) {
		t.Errorf("credentials were issued for %v, and the bundle has not the ones", f.issued)
	}
	if joining.Revision == joined.Revision {
		t.Error("with and without credentials to join it is the same document")
	}
	text := ""
	for _, file := range joined.Bundle.Document.Files {
		if file.Path == wmco.KubeletConfigPath {
			text = *file.Source.Text
		}
	}
	if !strings.Contains(text, `"maxPods":77`) {
		t.Errorf("the pool has no say in the configuration of the kubelet: %s", text)
	}
	host.Spec.PoolRef.Name = "another"
	if _, err := s.Build(t.Context(), host, nil, ""); err != nil {
		t.Errorf("a pool that is not there: %v", err)
	}
	f.err = errors.New("no certificates today")
	if _, err := s.Build(t.Context(), host, nil, "win-1"); !errors.Is(err, f.err) {
		t.Errorf("without a certificate: %v", err)
	}
	c.setDown(apierrors.NewServiceUnavailable("away"))
	s.o.clock.(*clocktesting.FakeClock).Step(freshFor)
	if _, err := s.Build(t.Context(), host, nil, ""); err == nil {
		t.Error("an operation builds from what may be out of date")
	}
}

// Hosts that are set up at the same time share a snapshot.
func TestOneSnapshotForMany(t *testing.T) {
	c, s := sourceWithKey(t)
	build := func() {
		t.Helper()
		if _, err := s.Build(t.Context(), instance(), nil, ""); err != nil {
			t.Error(err)
		}
	}
	before := c.count()
	build()
	once := c.count() - before
	var many sync.WaitGroup
	for range 20 {
		many.Go(build)
	}
	many.Wait()
	if got := c.count() - before; got != once {
		t.Errorf("within %s there were %d requests, want those of one snapshot, %d", freshFor, got, once)
	}
	s.o.clock.(*clocktesting.FakeClock).Step(freshFor)
	build()
	if got := c.count() - before; got != 2*once {
		t.Errorf("after %s there were %d requests, want those of two snapshots, %d", freshFor, got, 2*once)
	}
}

// Hosts share a snapshot for longer while it is watched and unchanged.
func TestSnapshotLastsWhileItIsWatched(t *testing.T) {
	c, s := sourceWithKey(t)
	requests := func() int {
		t.Helper()
		before := c.count()
		if _, err := s.Build(t.Context(), instance(), nil, ""); err != nil {
			t.Fatal(err)
		}
		return c.count() - before
	}
	pass := func(d time.Duration) {
		s.o.clock.(*clocktesting.FakeClock).Step(d)
		// The watches of the test cannot tell objects of one kind apart.
		s.seen.inputs = map[input]versions{infoInput: s.seen.inputs[infoInput]}
	}
	once := requests()
	if err := c.metadata.Tracker().Create(configMaps, shown(s.seen.inputs[infoInput][infoInput.name]), infoInput.namespace); err != nil {
		t.Fatal(err)
	}
	w, woken := watchesOf(t, c, s.o.clock)
	s.setWatches(w)
	pass(freshFor)
	if got := requests(); got != once {
		t.Errorf("before anything is watched there were %d requests, want those of a snapshot, %d", got, once)
	}
	pass(0)
	w.follow(t.Context(), s.known().inputs)
	until(t, woken, s.unchanged)
	s.seen.awaits = true
	if s.unchanged() {
		t.Error("something that is not watched is said to be as it was")
	}
	s.seen.awaits = false
	pass(watchedFor - time.Nanosecond)
	if got := requests(); got != 0 {
		t.Errorf("while all is watched, and as it was, there were %d requests within %s", got, watchedFor)
	}
	pass(time.Nanosecond)
	if got := requests(); got != once {
		t.Errorf("after %s there were %d requests, want those of a snapshot, %d", watchedFor, got, once)
	}
	pass(0)
	if err := c.metadata.Tracker().Update(configMaps, shown("changed"), infoInput.namespace); err != nil {
		t.Fatal(err)
	}
	until(t, woken, func() bool { return !s.unchanged() })
	pass(freshFor)
	if got := requests(); got != once {
		t.Errorf("after a change there were %d requests, want those of a snapshot, %d", got, once)
	}
}

// Whoever notices first that the inputs have changed, all hosts have to hear of it.
func TestChangeThatAnOperationNoticesIsTold(t *testing.T) {
	ca := authority(t)
	c := newCluster(t, ca, clusterInfo(ca, "https://api.example.com:6443"))
	s := newSource(t, c, &issuer{})
	changed := s.Changed()
	run(t, s)
	next(t, s, changed) // the first look is news
	if err := c.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-dns"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.77"},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.refresh(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	next(t, s, changed)
}

func TestOptions(t *testing.T) {
	if _, err := NewSource(Options{}); err == nil {
		t.Error("a source without anything is made")
	}
}
