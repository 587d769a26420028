// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package openshift

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/test/controlplane"
)

// ourNamespace is that of the manifests.
const ourNamespace = "openshift-windows-machine-config-operator"

// TestInputsAreWatched: with the rights of the manifests, and without any interval, a change of an input is told at
// once, takes one look at the cluster, and there is none without a change. What the cluster does not serve yet, or does
// not let us watch, is said once and taken up when it does.
func TestInputsAreWatched(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	// Somebody has forgotten a rule.
	forgotten := &rbacv1.Role{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: "kube-public", Name: "windows-inputs-watcher"}, forgotten); err != nil {
		t.Fatal(err)
	}
	rules := forgotten.Rules
	forgotten.Rules = nil
	w.update(t, forgotten)

	w.run(t)
	w.mustTell(t, "a cluster that says nothing", func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "no source says where hosts reach the API server")
	})
	infrastructures, info := "infrastructures.config.openshift.io cluster", "configmaps kube-public/cluster-info"
	w.mustLog(t, infrastructures, "The cluster does not serve the input")
	w.mustLog(t, info, "The input may not be watched")
	w.create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 53}}}})

	// Now both are there.
	forgotten.Rules = rules
	w.update(t, forgotten)
	w.install(t)
	w.mustTell(t, "a cluster of OpenShift", func(err error) bool { return err == nil })
	for _, input := range []string{infrastructures, info} {
		w.mustLog(t, input, "The input is watched now")
	}
	if twice := w.log.twice(); len(twice) > 0 {
		t.Errorf("it says more than once:\n%s", strings.Join(twice, "\n"))
	}

	rendered := object[mcfgv1.MachineConfigPool](t, w, client.ObjectKey{Name: "worker"}).Spec.Configuration.Name
	next := rendered + "f"
	for _, tt := range []struct {
		name   string
		change func()
		want   string
	}{
		{"authorities of clients of kubelets", func() {
			edit(t, w, client.ObjectKey{Name: "machine-config-controller"}, func(c *mcfgv1.ControllerConfig) {
				c.Spec.KubeAPIServerServingCAData = append(c.Spec.KubeAPIServerServingCAData, authorityOf(t)...)
			})
		}, ""},
		{"authorities of the API server", func() {
			edit(t, w, client.ObjectKey{Namespace: MachineConfigNamespace, Name: "kubeconfig-data"}, func(c *corev1.ConfigMap) {
				c.BinaryData["ca-bundle.crt"] = append(c.BinaryData["ca-bundle.crt"], authorityOf(t)...)
			})
		}, ""},
		{"configuration of workers", func() {
			raw, err := Worker{Platform: configv1.NonePlatformType, KubeletConfig: map[string]any{"maxPods": 110}}.Ignition()
			if err != nil {
				t.Fatal(err)
			}
			config := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: next}}
			config.Spec.Config.Raw = raw
			w.create(t, config)
			w.target(t, next)
		}, ""},
		{"configuration of workers that is not there", func() {
			w.target(t, "rendered-worker-none")
		}, "there is no MachineConfig rendered-worker-none"},
		{"the earlier one", func() {
			w.target(t, rendered)
		}, ""},
		{"mirror", func() {
			set := &configv1.ImageDigestMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
			set.Spec.ImageDigestMirrors = []configv1.ImageDigestMirrors{{Source: "quay.example.com/team", Mirrors: []configv1.ImageMirror{"registry.example.com/one"}}}
			w.create(t, set)
		}, ""},
		{"mirror of the older kind", func() {
			policy := &operatorv1alpha1.ImageContentSourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
			policy.Spec.RepositoryDigestMirrors = []operatorv1alpha1.RepositoryDigestMirrors{{Source: "quay.example.com/old", Mirrors: []string{"registry.example.com/old"}}}
			w.create(t, policy)
		}, ""},
		{"registries", func() {
			edit(t, w, client.ObjectKey{Name: clusterName}, func(i *configv1.Image) { i.Spec.RegistrySources.InsecureRegistries = []string{"plain.example.com"} })
		}, ""},
		{"certificate of metrics", func() {
			w.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ourNamespace, Name: cluster.ExporterSecret}, Data: servingPair(t)})
		}, ""},
		{"metrics that nobody wants", func() {
			w.create(t, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: ourNamespace, Name: cluster.ExporterService, Annotations: map[string]string{v1alpha1.MetricsAnnotation: "none"}},
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9182}}},
			})
		}, ""},
	} {
		// What is beside an input is none.
		for _, namespace := range []string{ourNamespace, "kube-system", "openshift-config", MachineConfigNamespace} {
			beside := metav1.ObjectMeta{Namespace: namespace, GenerateName: "beside-"}
			w.create(t, &corev1.ConfigMap{ObjectMeta: beside})
			w.create(t, &corev1.Secret{ObjectMeta: beside})
		}
		before := w.requests.looks()
		tt.change()
		w.mustTell(t, tt.name, func(err error) bool {
			return tt.want == "" && err == nil || tt.want != "" && err != nil && strings.Contains(err.Error(), tt.want)
		})
		if n := w.requests.looks() - before; n != 1 {
			t.Errorf("%s: %d looks at the cluster, want one", tt.name, n)
		}
	}
	// Only now that there is a mirror its credentials count, and are watched.
	before := w.requests.looks()
	edit(t, w, client.ObjectKey{Namespace: "openshift-config", Name: "pull-secret"}, func(s *corev1.Secret) {
		s.Data[corev1.DockerConfigJsonKey] = []byte(`{"auths":{"registry.example.com":{"auth":"b3RoZXI6cGFzc3dvcmQ="}}}`)
	})
	w.mustTell(t, "credentials", func(err error) bool { return err == nil })
	if n := w.requests.looks() - before; n != 1 {
		t.Errorf("credentials: %d looks at the cluster, want one", n)
	}
	if wide := w.requests.wide(); len(wide) > 0 {
		t.Errorf("it asks for more than it reads:\n%s", strings.Join(wide, "\n"))
	}
}

// watched is a cluster whose inputs are watched.
type watched struct {
	cp       *controlplane.ControlPlane
	admin    client.Client
	source   *cluster.Source
	changed  <-chan event.GenericEvent
	requests *requests
	log      *lines
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	cp, err := controlplane.Start(t.Context(), controlplane.Options{Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cluster.AddToScheme, AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &watched{cp: cp, requests: &requests{}, log: &lines{written: make(chan struct{}, 1)}}
	if w.admin, err = client.New(cp.AdminConfig(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{ourNamespace}, Namespaces...) {
		w.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, file := range []string{"rbac/controller.yaml", "rbac/inputs.yaml", "rbac/networks.yaml", "openshift/inputs.yaml"} {
		w.apply(t, filepath.Join("..", "..", "artifacts", file))
	}
	config, err := cp.ServiceAccountConfig(t.Context(), ourNamespace, "windows-controller")
	if err != nil {
		t.Fatal(err)
	}
	config.Wrap(w.requests.count)
	ours, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w.source, err = cluster.NewSource(cluster.Options{
		Live: cluster.Live{
			Cluster: ours,
			ReadPool: func(context.Context, string, string) (*v1alpha1.WindowsNodePool, error) {
				return nil, errors.New("there are no pools")
			},
			Settings: cluster.Settings{Namespace: ourNamespace, AgentPath: `C:\Windows\windows-node-agent\windows-node-agent-0123456789abcdef.exe`, Payloads: []*payload.Manifest{manifest(t)}},
		},
		Client: ours, Issuer: noIssuer{}, Metadata: inputs,
		Interval: time.Hour, // longer than the test
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// noIssuer issues nothing: no host joins.
type noIssuer struct{}

func (noIssuer) Issue(context.Context, *v1alpha1.WindowsInstance, string) (*cluster.Credentials, error) {
	return nil, errors.New("no host joins")
}

// apply creates what a manifest has.
func (w *watched) apply(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		w.create(t, o)
	}
}

func (w *watched) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := w.admin.Create(t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

func (w *watched) update(t *testing.T, object client.Object) {
	t.Helper()
	if err := w.admin.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// target has the pool of the workers name a configuration, which all of them have. Nobody reads the one without the other, however long
// it takes to write both.
func (w *watched) target(t *testing.T, name string) {
	t.Helper()
	w.requests.gate.Lock()
	defer w.requests.gate.Unlock()
	worker := client.ObjectKey{Name: "worker"}
	edit(t, w, worker, func(p *mcfgv1.MachineConfigPool) { p.Spec.Configuration.Name = name })
	pool := object[mcfgv1.MachineConfigPool](t, w, worker)
	pool.Status.Configuration.Name = name
	if err := w.admin.Status().Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
}

// object reads an object.
func object[T any, P interface {
	*T
	client.Object
}](t *testing.T, w *watched, key client.ObjectKey,
) P {
	t.Helper()
	found := P(new(T))
	if err := w.admin.Get(t.Context(), key, found); err != nil {
		t.Fatal(err)
	}
	return found
}

// edit changes an object.
func edit[T any, P interface {
	*T
	client.Object
}](t *testing.T, w *watched, key client.ObjectKey, change func(P),
) {
	t.Helper()
	found := object[T, P](t, w, key)
	change(found)
	w.update(t, found)
}

// install makes it a cluster of OpenShift.
func (w *watched) install(t *testing.T) {
	t.Helper()
	crds, err := controlplane.OpenShiftCRDs(t.Context(), Resources...)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cp.InstallCRDs(t.Context(), crds...); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(w.cp.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	o := Cluster{Platform: configv1.NonePlatformType, APIServerURL: "https://api-int.demo.example.com:6443", APIServerCA: ca, ClientCA: ca, ServiceNetwork: "172.30.0.0/16", DNS: "172.30.0.10"}
	if err := o.Install(t.Context(), w.admin); err != nil {
		t.Fatal(err)
	}
}

// run keeps the source current until the test ends.
func (w *watched) run(t *testing.T) {
	t.Helper()
	w.changed = w.source.Changed()
	ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), w.log.logger()))
	ended := make(chan error, 1)
	go func() { ended <- w.source.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// mustTell waits for changes until one is what the test wants.
func (w *watched) mustTell(t *testing.T, what string, is func(error) bool) {
	t.Helper()
	var err error
	for deadline := time.After(8 * time.Minute); ; {
		select {
		case <-w.changed:
		case <-deadline:
			t.Fatalf("%s is not told; the last said: %v\n%s", what, err, w.log)
		}
		if _, _, _, err = w.source.Revision(t.Context(), &v1alpha1.WindowsInstance{}, nil, nil); is(err) {
			return
		}
	}
}

// mustLog waits for a message about an input.
func (w *watched) mustLog(t *testing.T, input, message string) {
	t.Helper()
	for deadline := time.After(8 * time.Minute); !w.log.has(input, message); {
		select {
		case <-w.log.written:
		case <-deadline:
			t.Fatalf("the log does not say of %s: %s\n%s", input, message, w.log)
		}
	}
}

func authorityOf(t *testing.T) []byte {
	t.Helper()
	certificate, _, err := certutil.GenerateSelfSignedCertKey("authority.example.com", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// requests are what our client has asked for.
type requests struct {
	mu   sync.Mutex
	urls []string
	// gate is locked while no request may go on but those that have begun.
	gate sync.RWMutex
}

func (r *requests) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		r.mu.Lock()
		r.urls = append(r.urls, request.Method+" "+request.URL.RequestURI())
		r.mu.Unlock()
		r.gate.RLock()
		r.gate.RUnlock() //nolint:staticcheck,gocritic // it is passed and not held: a watch lasts
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// looks is how often the cluster was read, each of which reads this.
func (r *requests) looks() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, url := range r.urls {
		if url == "GET /apis/config.openshift.io/v1/infrastructures/cluster" {
			n++
		}
	}
	return n
}

// wide are requests for more than one object of a kind that others have objects of, too.
func (r *requests) wide() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.urls), func(url string) bool {
		for _, resource := range []string{"/secrets", "/configmaps", "/services", "/machineconfigs", "/machineconfigpools", "/deployments"} {
			if strings.Contains(url, resource+"?") && !strings.Contains(url, "fieldSelector=metadata.name%3D") {
				return false
			}
		}
		return true
	})
}

// lines are those of a log.
type lines struct {
	mu   sync.Mutex
	text []string
	// written has room for one: there is another line.
	written chan struct{}
}

func (l *lines) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text = append(l.text, args)
		select {
		case l.written <- struct{}{}:
		default:
		}
	}, funcr.Options{})
}

func (l *lines) has(input, message string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.text, func(line string) bool {
		return strings.Contains(line, fmt.Sprintf("%q=%q", "input", input)) && strings.Contains(line, message)
	})
}

// twice are lines about inputs that are there more than once.
func (l *lines) twice() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(l.text), func(line string) bool {
		if !strings.Contains(line, `"input"=`) || !known[line] {
			known[line] = true
			return true
		}
		return false
	})
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.text, "\n")
}

// servingPair is a certificate and its key, as a Secret has them.
func servingPair(t *testing.T) map[string][]byte {
	t.Helper()
	certificate, key, err := certutil.GenerateSelfSignedCertKey("exporter", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}
}
