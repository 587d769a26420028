// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"maps"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/openshift"
)

// update writes the golden files anew:
//
//	go test ./pkg/desired/cluster -update
var update = flag.Bool("update", false, "write the golden files in testdata anew")

const (
	namespace = "windows"
	agentPath = `C:\Windows\windows-node-agent\windows-node-agent-0123456789abcdef.exe`
	fakeCA    = "CA OF THE TEST"
)

// realCA is a certificate that can be parsed. Golden files have [fakeCA] in its place.
var realCA = newCA()

func newCA() string { return newCANamed("ca") }

// newCANamed is another certificate, with that common name.
func newCANamed(name string) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// manifest is a payload with everything that has to be there, an agent, and kubeadm, which
// payloads of earlier releases have.
func manifest() *payload.Manifest {
	m := &payload.Manifest{SchemaVersion: payload.SchemaVersion, Name: "test", Version: "1", OS: "windows", Architecture: "amd64"}
	for i, f := range []struct {
		path string
		role payload.Role
	}{
		{`C:\k\kubelet.exe`, payload.RoleKubelet},
		{`C:\k\kube-proxy.exe`, payload.RoleKubeProxy},
		{`C:\k\kubeadm.exe`, payload.RoleKubeadm},
		{`C:\k\kube-log-runner.exe`, payload.RoleLogRunner},
		{`C:\k\containerd\containerd.exe`, payload.RoleContainerd},
		{`C:\k\containerd\containerd-shim-runhcs-v1.exe`, payload.RoleContainerdShim},
		{`C:\k\cni\win-bridge.exe`, payload.RoleCNIPlugin},
		{`C:\k\cni\win-overlay.exe`, payload.RoleCNIPlugin},
		{`C:\k\cni\host-local.exe`, payload.RoleCNIPlugin},
		{`C:\k\windows_exporter.exe`, payload.RoleMetricsExporter},
		{agentPath, payload.RoleAgent},
	} {
		m.Files = append(m.Files, payload.File{
			Slot:    payload.Slot{Name: f.path[strings.LastIndexByte(f.path, '\\')+1:], Path: f.path, Role: f.role},
			Version: "v1.36.1",
			Content: payload.Content{Size: int64(i + 1), SHA256: strings.Repeat(string(rune('a'+i%6)), 64)},
		})
	}
	m.Slots = []payload.Slot{{Name: "csi-proxy.exe", Path: `C:\k\csi-proxy.exe`, Role: payload.RoleCSIProxy}}
	return m
}

func settings() cluster.Settings {
	return cluster.Settings{Payloads: []*payload.Manifest{manifest()}, AgentPath: agentPath, Namespace: namespace}
}

// servingPair is a certificate and its key, the same ones each time.
func servingPair() map[string]string {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "exporter"}}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return map[string]string{
		"tls.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		"tls.key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	}
}

func configMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
}

func secret(namespace, name string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s
}

func digestKey() client.Object {
	return secret(namespace, cluster.DigestKeySecret, map[string]string{"key": strings.Repeat("k", 32)})
}

func clusterInfo(server string) *corev1.ConfigMap {
	kubeconfig, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config",
		"clusters": []any{map[string]any{"name": "", "cluster": map[string]any{"server": server, "certificate-authority-data": []byte(realCA)}}},
	})
	if err != nil {
		panic(err)
	}
	return configMap("kube-public", "cluster-info", map[string]string{"kubeconfig": string(kubeconfig)})
}

const clusterConfiguration = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.2
networking:
  dnsDomain: cluster.example.com
  podSubnet: 10.244.0.0/16
  serviceSubnet: fd00:10:96::/112,10.96.0.0/12
`

// kubeadmCluster is what kubeadm leaves in a cluster.
func kubeadmCluster() []client.Object {
	return []client.Object{
		digestKey(), clusterInfo("https://10.0.0.1:6443"),
		configMap("kube-system", "kubeadm-config", map[string]string{"ClusterConfiguration": clusterConfiguration}),
		configMap("kube-system", "extension-apiserver-authentication", map[string]string{"client-ca-file": realCA}),
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"},
			Spec:       corev1.ServiceSpec{ClusterIP: "fd00:10:96::a", ClusterIPs: []string{"fd00:10:96::a", "10.96.0.53"}},
		},
	}
}

// openShiftCluster is what is read of a cluster of OpenShift on vSphere.
func openShiftCluster() []client.Object { return openShiftClusterOn(configv1.VSpherePlatformType) }

// machineConfig is a rendered one.
func machineConfig(name string, raw []byte) *mcfgv1.MachineConfig {
	return &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}}}
}

// renderedWorker is the name of the MachineConfig that workers should have.
const renderedWorker = "rendered-worker-3f2a9c5d7e8b4a1c9d0e6f7a8b2c3d4e"

func workers(w openshift.Worker) *mcfgv1.MachineConfig {
	raw, err := w.Ignition()
	if err != nil {
		panic(err)
	}
	return machineConfig(renderedWorker, raw)
}

// infrastructure says which platform a cluster has, and where its nodes reach the API server. Empty: not that.
func infrastructure(platform configv1.PlatformType, url string) *configv1.Infrastructure {
	i := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	i.Status.PlatformStatus, i.Status.APIServerInternalURL = &configv1.PlatformStatus{Type: platform}, url
	return i
}

func openShiftClusterOn(platform configv1.PlatformType) []client.Object {
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	pool.Spec.Configuration.Name = renderedWorker
	// One of the same pool that was taken back, and one of another pool whose name begins alike.
	takenBack := machineConfig("rendered-worker-ffffffffffffffffffffffffffffffff", []byte(`{"ignition":{"version":"3.5.0"}}`))
	takenBack.CreationTimestamp = metav1.NewTime(time.Now())
	other := machineConfig("rendered-worker-gpu-00000000000000000000000000000000", []byte(`{"ignition":{"version":"3.5.0"}}`))
	named := metav1.ObjectMeta{Name: "cluster"}
	network := &operatorv1.Network{ObjectMeta: named}
	network.Spec.DefaultNetwork.OVNKubernetesConfig = &operatorv1.OVNKubernetesConfig{HybridOverlayConfig: &operatorv1.HybridOverlayConfig{
		HybridClusterNetwork: []operatorv1.ClusterNetworkEntry{{CIDR: "10.132.0.0/14", HostPrefix: 23}}, HybridOverlayVXLANPort: ptr.To[uint32](9898),
	}}
	controllerConfig := &mcfgv1.ControllerConfig{ObjectMeta: metav1.ObjectMeta{Name: "machine-config-controller"}, Spec: mcfgv1.ControllerConfigSpec{
		KubeAPIServerServingCAData: []byte(realCA), ImageRegistryBundleData: []mcfgv1.ImageRegistryBundle{{File: "registry..5000", Data: []byte(realCA)}},
	}}
	mirrors := func(source, mirror string, policy configv1.MirrorSourcePolicy) []configv1.ImageDigestMirrors {
		return []configv1.ImageDigestMirrors{{Source: source, Mirrors: []configv1.ImageMirror{configv1.ImageMirror(mirror)}, MirrorSourcePolicy: policy}}
	}
	return []client.Object{
		digestKey(), network, controllerConfig, pool, workers(openshift.Worker{Platform: platform}), takenBack, other,
		configMap(namespace, "kube-root-ca.crt", map[string]string{"ca.crt": realCA}), bootstrapCA(realCA),
		trustedCA("true", realCA),
		infrastructure(platform, "https://api-int.c.example.com:6443"),
		&configv1.Network{ObjectMeta: named, Status: configv1.NetworkStatus{NetworkType: "OVNKubernetes", ServiceNetwork: []string{"172.30.0.0/16"}}},
		&configv1.Proxy{ObjectMeta: named, Status: configv1.ProxyStatus{HTTPProxy: "http://proxy.example.com:3128", NoProxy: "localhost"}},
		&configv1.Image{ObjectMeta: named, Spec: configv1.ImageSpec{RegistrySources: configv1.RegistrySources{
			InsecureRegistries: []string{"other.example.com"}, BlockedRegistries: []string{"bad.example.com", "quay.io/bad"},
		}}},
		&configv1.ImageDigestMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: mirrors("quay.io/b", "mirror.example.com/b", configv1.NeverContactSource)}},
		&configv1.ImageDigestMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: mirrors("quay.io/a", "mirror.example.com/a", "")}},
		&configv1.ImageTagMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: configv1.ImageTagMirrorSetSpec{
			ImageTagMirrors: []configv1.ImageTagMirrors{{Source: "docker.io/c", Mirrors: []configv1.ImageMirror{"other.example.com/c"}}},
		}},
		secret("openshift-config", "pull-secret", map[string]string{".dockerconfigjson": `{"auths":{"mirror.example.com":{"auth":"dXNlcjpodW50ZXIy"}}}`}),
		secret(namespace, cluster.ExporterSecret, servingPair()),
	}
}

// bootstrapCA is where workers of OpenShift have the authorities of the API server from.
func bootstrapCA(bundle string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-machine-config-operator", Name: "kubeconfig-data"},
		BinaryData: map[string][]byte{"ca-bundle.crt": []byte(bundle)},
	}
}

// trustedCA is the ConfigMap of what hosts trust, with a value of the label by which the network operator writes it. Empty: it has no label.
func trustedCA(inject, bundle string) *corev1.ConfigMap {
	c := configMap(namespace, cluster.TrustedCAConfigMap, map[string]string{"ca-bundle.crt": bundle})
	if inject != "" {
		c.Labels = map[string]string{"config.openshift.io/inject-trusted-cabundle": inject}
	}
	return c
}

// fakeCluster is a cluster with objects and without the kinds that no object is of, where they
// are OpenShift's. Reads are kept, and fail where errs says so by "Kind namespace/name".
type fakeCluster struct {
	client.Client
	// reads has "group/version Kind namespace/name" of what was read.
	reads []string
}

func newCluster(t *testing.T, objects []client.Object, errs map[string]error) *fakeCluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cluster.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kinds := map[schema.GroupKind]bool{}
	for _, object := range objects {
		gvk, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			t.Fatal(err)
		}
		kinds[gvk.GroupKind()] = true
	}
	c := &fakeCluster{}
	read := func(gvk schema.GroupVersionKind, key client.ObjectKey) error {
		c.reads = append(c.reads, gvk.GroupVersion().String()+" "+gvk.Kind+" "+key.String())
		if err, fails := errs[gvk.Kind+" "+strings.TrimPrefix(key.String(), "/")]; fails {
			return err
		}
		if strings.HasSuffix(gvk.Group, ".openshift.io") && !kinds[gvk.GroupKind()] {
			return &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
		}
		return nil
	}
	c.Client = interceptor.NewClient(ctrlfake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption) error {
			gvk, err := apiutil.GVKForObject(object, scheme)
			if err == nil {
				err = read(gvk, key)
			}
			if err != nil {
				return err
			}
			return w.Get(ctx, key, object, o...)
		},
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			gvk, err := apiutil.GVKForObject(list, scheme)
			gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
			if err == nil {
				err = read(gvk, client.ObjectKey{})
			}
			if err != nil {
				return err
			}
			return w.List(ctx, list, o...)
		},
	})
	return c
}

func read(t *testing.T, s cluster.Settings, objects []client.Object) *cluster.Snapshot {
	t.Helper()
	in, err := cluster.Read(t.Context(), newCluster(t, objects, nil), s)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// golden compares with the file in testdata, or writes it.
func golden(t *testing.T, name string, value any) {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")); diff != "" {
		t.Errorf("%s (-want +got; see the flag update):\n%s", path, diff)
	}
}

// summary is what a document says that depends on the cluster.
type summary struct {
	Files       map[string]string // of text, by path; digests of certificates are left out
	Environment map[string]string
	Services    map[string]string // command lines
	Secrets     map[string]string // by path
	Components  map[string]string
	Trusted     int
	Waiting     map[string]string
	Warnings    []string
}

func summarize(t *testing.T, in *cluster.Snapshot, h cluster.Host) summary {
	t.Helper()
	r, err := in.Build(h)
	if err != nil {
		t.Fatal(err)
	}
	s := summary{
		Files: map[string]string{}, Environment: map[string]string{}, Services: map[string]string{}, Components: map[string]string{},
		Secrets: map[string]string{}, Waiting: map[string]string{}, Warnings: r.Warnings, Trusted: len(r.Bundle.Document.Certificates),
	}
	for _, f := range r.Bundle.Document.Files {
		switch {
		case f.Waiting:
		case f.Source.Text != nil:
			s.Files[f.Path] = strings.ReplaceAll(*f.Source.Text, realCA, fakeCA)
		case f.Source.Secret != "":
			s.Secrets[f.Path] = string(r.Bundle.Secrets[f.Source.Secret])
		}
	}
	for _, e := range r.Bundle.Document.Environment {
		s.Environment[e.Name] = e.Value
	}
	for _, service := range r.Bundle.Document.Services {
		if service.Waiting {
			continue
		}
		s.Services[service.Name] = strings.Join(append([]string{service.BinaryPath}, service.Arguments...), " ")
	}
	for _, c := range r.Bundle.Document.Components {
		s.Components[c.Name] = c.Version
	}
	for _, w := range r.Waiting {
		s.Waiting[w.Service] = w.For
	}
	return s
}

func TestGoldenKubeadm(t *testing.T) {
	golden(t, "kubeadm.json", summarize(t, read(t, settings(), kubeadmCluster()), cluster.Host{Instance: instance()}))
}

func TestGoldenOpenShift(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", Annotations: map[string]string{"k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.0.0/24"}}}
	golden(t, "openshift.json", summarize(t, read(t, withOverlay(), openShiftCluster()), cluster.Host{Instance: instance(), Node: node}))
}

// withOverlay are settings with a payload that connects hosts by the overlay.
func withOverlay() cluster.Settings {
	s := settings()
	s.Payloads[0].Files = append(s.Payloads[0].Files, payload.File{
		Slot:    payload.Slot{Name: "hybrid-overlay-node.exe", Path: `C:\k\hybrid-overlay-node.exe`, Role: payload.RoleHybridOverlay},
		Content: payload.Content{Size: 1, SHA256: strings.Repeat("0", 64)},
	})
	return s
}

// TestSources: each input comes from where it is found first, and the settings win.
func TestSources(t *testing.T) {
	without := func(objects []client.Object, names ...string) []client.Object {
		return slices.DeleteFunc(objects, func(o client.Object) bool { return slices.Contains(names, o.GetName()) })
	}
	rootCA := configMap(namespace, "kube-root-ca.crt", map[string]string{"ca.crt": realCA})
	const (
		kubelet  = `C:\k\kubelet.conf`
		clientCA = `C:\k\kubelet-ca.crt`
	)
	tests := []struct {
		name    string
		objects []client.Object
		change  func(s *cluster.Settings)
		// file has part.
		file, part string
	}{
		{name: "DNS of the Service, IPv4 first", objects: kubeadmCluster(), file: kubelet, part: `"clusterDNS":["10.96.0.53"]`},
		{name: "DNS without a Service", objects: without(kubeadmCluster(), "kube-dns"), file: kubelet, part: `"clusterDNS":["10.96.0.10"]`},
		{
			name: "DNS of the settings", objects: kubeadmCluster(), change: func(s *cluster.Settings) { s.ClusterDNS = netip.MustParseAddr("10.9.9.9") },
			file: kubelet, part: `"clusterDNS":["10.9.9.9"]`,
		},
		{
			name: "network of the settings", objects: without(kubeadmCluster(), "kube-dns"),
			change: func(s *cluster.Settings) { s.ServiceCIDR = "fd00::/112, 10.5.0.0/16" },
			file:   kubelet, part: `"clusterDNS":["10.5.0.10"]`,
		},
		{
			name: "network of the API server",
			objects: append(without(kubeadmCluster(), "kubeadm-config", "kube-dns"), &networkingv1.ServiceCIDR{
				ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.7.0.0/16"}},
			}),
			file: kubelet, part: `"clusterDNS":["10.7.0.10"]`,
		},
		{name: "domain", objects: kubeadmCluster(), file: kubelet, part: `"clusterDomain":"cluster.example.com"`},
		{name: "domain that nobody says", objects: openShiftCluster(), file: kubelet, part: `"clusterDomain":"cluster.local"`},
		{
			name: "CA of clients is that of the cluster", objects: without(kubeadmCluster(), "extension-apiserver-authentication"),
			file: clientCA, part: realCA,
		},
		{
			name: "no cluster-info", objects: append(without(kubeadmCluster(), "cluster-info"), rootCA),
			change: func(s *cluster.Settings) { s.APIServerURL = "https://10.0.0.2:6443" },
			file:   `C:\k\bootstrap-ca.crt`, part: realCA,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := settings()
			if tt.change != nil {
				tt.change(&s)
			}
			got := summarize(t, read(t, s, tt.objects), cluster.Host{Instance: instance()}).Files
			if !strings.Contains(got[tt.file], strings.ReplaceAll(tt.part, realCA, fakeCA)) {
				t.Errorf("%s has no %s: %s", tt.file, tt.part, got[tt.file])
			}
		})
	}
	s := settings()
	s.APIServerURL = "https://10.0.0.2:6443"
	join := &cluster.Credentials{Certificate: []byte("a certificate"), Key: []byte("a key")}
	kubeconfig := summarize(t, read(t, s, kubeadmCluster()), cluster.Host{Instance: instance(), Join: join}).Secrets[`C:\k\bootstrap-kubeconfig`]
	for what, part := range map[string]string{"API server": s.APIServerURL, "CA": `C:\\k\\bootstrap-ca.crt`, "key": base64.StdEncoding.EncodeToString(join.Key)} {
		if !strings.Contains(kubeconfig, part) {
			t.Errorf("hosts join with another %s than %s: %s", what, part, kubeconfig)
		}
	}
}

// TestClouds: in OpenShift, a cloud controller manager completes Nodes where there is one.
func TestClouds(t *testing.T) {
	tests := []struct {
		platform configv1.PlatformType
		external bool
		named    bool // by something else than the host itself
	}{
		{platform: configv1.NonePlatformType},
		{platform: configv1.BareMetalPlatformType},
		{platform: configv1.VSpherePlatformType, external: true, named: true},
		{platform: configv1.NutanixPlatformType, external: true},
		{platform: configv1.AzurePlatformType, external: true},
		{platform: configv1.GCPPlatformType, external: true, named: true},
		{platform: configv1.AWSPlatformType, external: true, named: true},
	}
	if len(tests) != len(openshift.Platforms) {
		t.Errorf("%d platforms, want %d", len(tests), len(openshift.Platforms))
	}
	for _, tt := range tests {
		t.Run(string(tt.platform), func(t *testing.T) {
			objects := openShiftClusterOn(tt.platform)
			s := settings()
			s.Payloads[0].Files = append(s.Payloads[0].Files, payload.File{
				Slot:    payload.Slot{Name: "ecr-credential-provider.exe", Path: `C:\k\ecr-credential-provider.exe`, Role: payload.RoleCredentialProvider},
				Content: payload.Content{Size: 1, SHA256: strings.Repeat("0", 64)},
			})
			got := summarize(t, read(t, s, objects), cluster.Host{Instance: instance()})
			if external := strings.Contains(got.Services["kubelet"], " --cloud-provider=external "); external != tt.external {
				t.Errorf("external is %v, want %v: %s", external, tt.external, got.Services["kubelet"])
			}
			if named := strings.Contains(got.Services["kubelet"], " --hostname-override=$(HOSTNAME_OVERRIDE) "); named != tt.named {
				t.Errorf("named by something else is %v, want %v: %s", named, tt.named, got.Services["kubelet"])
			}
			config := got.Files[`C:\k\credential-provider-config.yaml`]
			// The registry is one that the cluster's own workers have.
			if want := tt.platform == configv1.AWSPlatformType; strings.Contains(config, "name: ecr-credential-provider.exe") != want || strings.Contains(config, "registry.example.com") != want {
				t.Errorf("the credential provider has %q", config)
			}
		})
	}
}

// TestFormerPlatform: hosts of a cluster that names its platform as the first releases did are as those of others.
func TestFormerPlatform(t *testing.T) {
	former := infrastructure("", "https://api-int.c.example.com:6443")
	former.Status.PlatformStatus, former.Status.Platform = nil, configv1.VSpherePlatformType //nolint:staticcheck // it is what this is about
	got := build(t, read(t, settings(), replaced(openShiftCluster(), former)), cluster.Host{Instance: instance()})
	if want := build(t, read(t, settings(), openShiftCluster()), cluster.Host{Instance: instance()}); got.Revision != want.Revision {
		t.Error("they are configured in another way")
	}
}

// Hosts on a platform that nobody knows become nodes as those on none, but that a cloud completes their Nodes where it does those of workers, and
// it is said.
func TestOtherPlatforms(t *testing.T) {
	const completes = "as on its workers, a cloud controller manager completes Nodes (--cloud-provider=external)"
	on := func(platform configv1.PlatformType, external bool) summary {
		objects := replaced(openShiftClusterOn(configv1.NonePlatformType), workers(openshift.Worker{Platform: configv1.NonePlatformType, ExternalCloud: external}))
		return summarize(t, read(t, settings(), replaced(objects, infrastructure(platform, "https://api-int.c.example.com:6443"))), cluster.Host{Instance: instance()})
	}
	for _, tt := range []struct {
		platform configv1.PlatformType
		external bool
	}{
		{configv1.ExternalPlatformType, false},
		{configv1.ExternalPlatformType, true},
		{configv1.OpenStackPlatformType, true},
		{configv1.KubevirtPlatformType, true},
		{configv1.IBMCloudPlatformType, true},
		{configv1.PowerVSPlatformType, true},
		{"tomorrow's", false},
	} {
		got, want := on(tt.platform, tt.external), on(configv1.NonePlatformType, false)
		said := strings.Join(got.Warnings, "\n")
		if !strings.Contains(said, "as on platform None, because nothing is known of Windows hosts on "+string(tt.platform)) || strings.Contains(said, completes) != tt.external {
			t.Errorf("the warnings on %s, with a cloud controller manager: %t, are\n%s", tt.platform, tt.external, said)
		}
		if tt.external {
			want.Services["kubelet"] = strings.Replace(want.Services["kubelet"], " --cloud-provider= ", " --cloud-provider=external ", 1)
			if !strings.Contains(said, "kubectl taint node NAME node.cloudprovider.kubernetes.io/uninitialized-") {
				t.Errorf("the warnings on %s do not say what to do:\n%s", tt.platform, said)
			}
		}
		got.Warnings, want.Warnings = nil, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("hosts on %s are configured in another way than those on none (-none +%s):\n%s", tt.platform, tt.platform, diff)
		}
	}
	for _, platform := range openshift.Platforms {
		if got := strings.Join(build(t, read(t, settings(), openShiftClusterOn(platform)), cluster.Host{Instance: instance()}).Warnings, "\n"); strings.Contains(got, "nothing is known") {
			t.Errorf("the warnings on %s are\n%s", platform, got)
		}
	}
}

// What an administrator sets for workers holds for Windows hosts, and what a pool sets wins.
func TestWorkersConfigureKubelets(t *testing.T) {
	objects := replaced(openShiftCluster(), workers(openshift.Worker{
		Platform: configv1.VSpherePlatformType, SystemReserved: map[string]string{"memory": "3Gi", "cpu": "1", "ephemeral-storage": "2Gi"},
		KubeletConfig: map[string]any{
			"clusterDNS": []string{"172.30.0.53"}, "maxPods": 111, "kubeAPIQPS": 70, "containerLogMaxSize": "20Mi", "serializeImagePulls": true,
			"tlsMinVersion": "VersionTLS13", "imageGCHighThresholdPercent": 77, "imageGCLowThresholdPercent": 70, "evictionHard": map[string]string{"nodefs.available": "12%"},
			"evictionSoft": map[string]string{"nodefs.available": "14%"}, "evictionSoftGracePeriod": map[string]string{"nodefs.available": "2m"}, "evictionMinimumReclaim": map[string]string{"nodefs.available": "1Gi"},
			"evictionMaxPodGracePeriod": 60, "evictionPressureTransitionPeriod": "1m", "podsPerCore": 20,
		},
	}))
	in := read(t, settings(), objects)
	kubelet := func(pool *v1alpha1.WindowsNodePool) kubeletv1beta1.KubeletConfiguration {
		t.Helper()
		var c kubeletv1beta1.KubeletConfiguration
		text := summarize(t, in, cluster.Host{Instance: instance(), Pool: pool}).Files[`C:\k\kubelet.conf`]
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := kubelet(nil)
	if !slices.Equal(c.ClusterDNS, []string{"172.30.0.53"}) || c.MaxPods != 111 || *c.KubeAPIQPS != 70 || c.ContainerLogMaxSize != "20Mi" || !*c.SerializeImagePulls ||
		c.TLSMinVersion != "VersionTLS13" || *c.ImageGCHighThresholdPercent != 77 || c.EvictionHard["nodefs.available"] != "12%" || c.EvictionHard["imagefs.available"] != "15%" ||
		c.SystemReserved["memory"] != "3Gi" || c.EvictionSoft["nodefs.available"] != "14%" || c.EvictionSoftGracePeriod["nodefs.available"] != "2m" || c.EvictionMinimumReclaim["nodefs.available"] != "1Gi" ||
		c.EvictionMaxPodGracePeriod != 60 || c.EvictionPressureTransitionPeriod.Duration != time.Minute || c.PodsPerCore != 20 {
		t.Errorf("the kubelet has %+v", c)
	}
	pool := &v1alpha1.WindowsNodePool{}
	pool.Spec.Template.Kubelet = &v1alpha1.KubeletTemplate{
		MaxPods: ptr.To[int32](22), EvictionHard: map[string]string{"nodefs.available": "5%"},
		SystemReserved: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")},
	}
	c = kubelet(pool)
	// How many pods it has is decided by the pool then, whatever its processors are.
	if c.MaxPods != 22 || c.PodsPerCore != 0 || c.EvictionSoft["nodefs.available"] != "14%" || c.EvictionHard["nodefs.available"] != "5%" || c.SystemReserved["memory"] != "4Gi" || c.SystemReserved["cpu"] != "1" || *c.KubeAPIQPS != 70 {
		t.Errorf("the kubelet of the pool has %+v", c)
	}
}

// replaced returns the objects with another one in place of that of its name.
func replaced(objects []client.Object, object client.Object) []client.Object {
	return append(slices.DeleteFunc(objects, func(o client.Object) bool {
		return o.GetName() == object.GetName() && o.GetNamespace() == object.GetNamespace() && reflect.TypeOf(o) == reflect.TypeOf(object)
	}), object)
}

// hosted is a cluster whose control plane is hosted elsewhere.
func hosted(objects []client.Object) []client.Object {
	i := infrastructure(configv1.NonePlatformType, "https://api.hosted.example.com:6443")
	i.Status.ControlPlaneTopology = configv1.ExternalTopologyMode
	return replaced(objects, i)
}

// lacking returns the objects but those of a name.
func lacking(objects []client.Object, name string) []client.Object {
	return slices.DeleteFunc(objects, func(o client.Object) bool { return o.GetName() == name })
}

// without is a cluster without the objects of a type.
func without[T client.Object](objects []client.Object) []client.Object {
	return slices.DeleteFunc(objects, func(o client.Object) bool {
		_, is := o.(T)
		return is
	})
}

// TestFindings: everything that keeps hosts from being set up is said at once, and what to
// do about it.
func TestFindings(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "cluster-info", errors.New("no"))
	tests := []struct {
		name    string
		objects []client.Object
		errs    map[string]error
		change  func(s *cluster.Settings)
		want    []string // problems and remedies in the order of the findings
	}{
		{
			name: "nothing is there", change: func(s *cluster.Settings) { s.Payloads = nil },
			want: []string{
				"there is no Secret windows/windows-digest-key", "let windows-controller run with --payload",
				"no source says where hosts reach the API server", "set --api-server-url",
				"there is no CA of the API server", "create ConfigMap kube-public/cluster-info, or ConfigMap windows/kube-root-ca.crt",
				"the network of services is not known", "set --service-cidr",
				"there is no payload", "set --payload",
			},
		},
		{
			name: "cluster-info without a cluster", objects: replaced(kubeadmCluster(), configMap("kube-public", "cluster-info", nil)),
			want: []string{
				"ConfigMap kube-public/cluster-info has no kubeconfig of one cluster below kubeconfig", "correct it",
				"no source says where hosts reach the API server", "--api-server-url", "there is no CA of the API server", "create ConfigMap",
			},
		},
		{
			name: "cluster-info that may not be read", objects: kubeadmCluster(), errs: map[string]error{"ConfigMap kube-public/cluster-info": forbidden},
			want: []string{
				"ConfigMap kube-public/cluster-info may not be read", "allow this program to get it",
				"no source says where hosts reach the API server", "--api-server-url", "there is no CA of the API server", "create ConfigMap",
			},
		},
		{
			name: "API server without TLS", objects: replaced(kubeadmCluster(), clusterInfo("http://10.0.0.1:8080")),
			want: []string{`"http://10.0.0.1:8080", where hosts should reach the API server, is not an https URL`, "set --api-server-url"},
		},
		{
			name:    "configuration of the cluster that is no YAML",
			objects: replaced(kubeadmCluster(), configMap("kube-system", "kubeadm-config", map[string]string{"ClusterConfiguration": "\t"})),
			want:    []string{"ClusterConfiguration in ConfigMap kube-system/kubeadm-config cannot be read", "correct it", "the network of services is not known", "--service-cidr"},
		},
		{
			name: "network that is none", objects: kubeadmCluster(), change: func(s *cluster.Settings) { s.ServiceCIDR = "10.96.0.0" },
			want: []string{`"10.96.0.0", which should be a network of services, is not one`, "set --service-cidr"},
		},
		{
			name:    "network that is too small",
			objects: slices.DeleteFunc(kubeadmCluster(), func(o client.Object) bool { return o.GetName() == "kube-dns" }),
			change:  func(s *cluster.Settings) { s.ServiceCIDR = "10.96.0.0/30" },
			want:    []string{"the address of the cluster DNS is not known", "set --cluster-dns"},
		},
		{
			name:    "CA of clients that is none",
			objects: replaced(kubeadmCluster(), configMap("kube-system", "extension-apiserver-authentication", map[string]string{"client-ca-file": "x"})),
			want:    []string{"the CA of the clients of kubelets cannot be read: ConfigMap kube-system/extension-apiserver-authentication, key client-ca-file has no certificate in PEM", "correct ConfigMap kube-system/extension-apiserver-authentication, key client-ca-file"},
		},
		{
			name: "key of digests that is too short", objects: replaced(kubeadmCluster(), secret(namespace, cluster.DigestKeySecret, map[string]string{"key": "k"})),
			want: []string{"Secret windows/windows-digest-key has no key of at least 32 bytes", "delete it"},
		},
		{
			name: "payload without a kubelet", objects: kubeadmCluster(),
			change: func(s *cluster.Settings) { s.Payloads[0].Files = s.Payloads[0].Files[2:] },
			want:   []string{`the payload has no C:\k\kube-proxy.exe, no C:\k\kubelet.exe`, "set --payload"},
		},
		{
			// All hosts would be configured as those of kubeadm.
			name: "no Infrastructure", objects: without[*configv1.Infrastructure](openShiftCluster()),
			want: []string{"Infrastructure cluster does not exist, which each cluster of OpenShift has", "oc get controllerconfig machine-config-controller -o jsonpath='{.spec.infra}'"},
		},
		{
			name:    "no Infrastructure of that name, and an address of the settings",
			objects: replaced(without[*configv1.Infrastructure](openShiftCluster()), &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "another"}}),
			change:  func(s *cluster.Settings) { s.APIServerURL = "https://10.0.0.2:6443" },
			want:    []string{"Infrastructure cluster does not exist, which each cluster of OpenShift has", "create it again"},
		},
		{
			name: "an Infrastructure that may not be read", objects: openShiftCluster(), errs: map[string]error{"Infrastructure cluster": forbidden},
			want: []string{
				"Infrastructure cluster may not be read", "allow this program to get it: kubectl apply -k artifacts/rbac",
			},
		},
		{
			name: "no Infrastructure, and a ControllerConfig that may not be read", objects: without[*configv1.Infrastructure](openShiftCluster()),
			errs: map[string]error{"ControllerConfig machine-config-controller": forbidden},
			want: []string{
				"Infrastructure cluster does not exist, and ControllerConfig machine-config-controller, which says whether it was deleted from a cluster of OpenShift, may not be read", "kubectl apply -k artifacts/rbac",
				"ControllerConfig machine-config-controller may not be read", "allow this program to get it: kubectl apply -k artifacts/rbac",
			},
		},
		{
			name: "a ConfigMap of OpenShift that may not be read", objects: openShiftCluster(), errs: map[string]error{"ConfigMap openshift-machine-config-operator/kubeconfig-data": forbidden},
			want: []string{"ConfigMap openshift-machine-config-operator/kubeconfig-data may not be read", "allow this program to get it: kubectl apply -f artifacts/openshift/inputs.yaml"},
		},
		{
			name: "an Infrastructure that was created again", objects: replaced(openShiftCluster(), infrastructure("", "")),
			want: []string{"Infrastructure cluster has no status.platformStatus.type and no status.apiServerInternalURI, as when it was created again without its status", "oc edit infrastructure cluster --subresource=status"},
		},
		{
			name: "an Infrastructure without a platform", objects: replaced(openShiftCluster(), infrastructure("", "https://api-int.c.example.com:6443")),
			want: []string{"Infrastructure cluster has no status.platformStatus.type, as", "--subresource=status"},
		},
		{
			name: "an Infrastructure that says nothing of the API server", objects: replaced(openShiftCluster(), infrastructure(configv1.VSpherePlatformType, "")),
			want: []string{"Infrastructure cluster has no status.apiServerInternalURI, as", "--subresource=status"},
		},
		{
			// All hosts would be drained and restarted to do without one.
			name: "no Proxy", objects: without[*configv1.Proxy](openShiftCluster()),
			want: []string{"Proxy cluster does not exist, which each cluster of OpenShift has", "oc create -f"},
		},
		{
			// They would be drained and restarted, and pull nothing then.
			name: "a Proxy that is damaged",
			objects: replaced(openShiftCluster(), &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Status: configv1.ProxyStatus{
				HTTPProxy: "proxy.example.com:3128", HTTPSProxy: "https://user:hunter2@:3128", NoProxy: "localhost\n",
			}}),
			want: []string{
				"status.httpProxy of Proxy cluster cannot be used", "correct spec.httpProxy",
				"status.httpsProxy of Proxy cluster cannot be used", "correct spec.httpsProxy",
				"status.noProxy of Proxy cluster cannot be used", "oc edit proxy cluster",
			},
		},
		{
			// What is blocked would be pulled.
			name: "no Image config", objects: without[*configv1.Image](openShiftCluster()),
			want: []string{"Image.config.openshift.io cluster does not exist", "create it again"},
		},
		{
			// Hosts would stop to trust registries.
			name: "no ControllerConfig", objects: without[*mcfgv1.ControllerConfig](openShiftCluster()),
			want: []string{"ControllerConfig machine-config-controller does not exist", "oc logs -n openshift-machine-config-operator"},
		},
		{
			name: "no Network", objects: without[*configv1.Network](openShiftCluster()),
			want: []string{"Network cluster does not exist", "create it again", "the network of services is not known", "--service-cidr"},
		},
		{
			// The port of the overlay would be another one.
			name: "no configuration of the network", objects: without[*operatorv1.Network](openShiftCluster()),
			want: []string{"Network.operator.openshift.io cluster does not exist", "create it again"},
		},
		{
			// Hosts would stop to trust the proxy.
			name: "a bundle of the proxy without certificates", objects: replaced(openShiftCluster(), configMap(namespace, "trusted-ca", map[string]string{"ca-bundle.crt": "none"})),
			want: []string{"ConfigMap windows/trusted-ca has no certificates below ca-bundle.crt", "oc get clusteroperator network"},
		},
		{
			name: "an overlay that is not applied yet", objects: append(openShiftCluster(), applied(t, operatorv1.NetworkSpec{})),
			want: []string{"the network operator has not applied the hybrid networking", "oc get clusteroperator network"},
		},
		{
			name: "what is applied cannot be read", objects: append(openShiftCluster(), configMap("openshift-network-operator", "applied-cluster", map[string]string{"applied": "{"})),
			want: []string{"ConfigMap openshift-network-operator/applied-cluster, which says how the network is configured, cannot be read", "oc get clusteroperator network"},
		},
		{
			name:    "another type of network",
			objects: replaced(openShiftCluster(), &configv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Status: configv1.NetworkStatus{NetworkType: "OpenShiftSDN", ServiceNetwork: []string{"172.30.0.0/16"}}}),
			want:    []string{`the network type of the cluster is "OpenShiftSDN"`, "migrate the cluster to OVNKubernetes"},
		},
		{
			name: "the other operator runs", objects: append(openShiftCluster(), otherOperator(1)),
			want: []string{"the Windows Machine Config Operator runs (Deployment openshift-windows-machine-config-operator/windows-machine-config-operator)", "--replicas=0"},
		},
		{
			name:    "no hybrid networking",
			objects: replaced(openShiftCluster(), &operatorv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}),
			want:    []string{"the cluster has no hybrid networking with OVN-Kubernetes", "oc patch network.operator cluster"},
		},
		{
			name: "no pool of workers", objects: lacking(openShiftCluster(), "worker"),
			want: []string{"there is no MachineConfigPool worker", "oc get clusteroperator machine-config"},
		},
		{
			name: "a hosted control plane", objects: hosted(without[*mcfgv1.ControllerConfig](without[*mcfgv1.MachineConfigPool](without[*mcfgv1.MachineConfig](lacking(openShiftCluster(), "kubeconfig-data"))))),
			want: []string{"the control plane of the cluster is hosted elsewhere (status.controlPlaneTopology of Infrastructure cluster is External), and Windows hosts of this operator need the Machine Config Operator, which such clusters do not have", "use a cluster that has its own control plane"},
		},
		{
			name: "a hosted control plane of which one kind is there", objects: hosted(without[*mcfgv1.ControllerConfig](openShiftCluster())),
			want: []string{"the control plane of the cluster is hosted elsewhere", "use a cluster"},
		},
		{
			name: "a hosted control plane, and a Proxy that was deleted", objects: hosted(without[*configv1.Proxy](without[*mcfgv1.MachineConfigPool](openShiftCluster()))),
			want: []string{"the control plane of the cluster is hosted elsewhere", "use a cluster", "Proxy cluster does not exist", "create it again"},
		},
		{
			name: "a pool of workers that nothing was rendered for", objects: replaced(openShiftCluster(), &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}),
			want: []string{"MachineConfigPool worker has no configuration yet", "wait until the Machine Config Operator has rendered one"},
		},
		{
			name: "a MachineConfig that is gone", objects: lacking(openShiftCluster(), renderedWorker),
			want: []string{"there is no MachineConfig " + renderedWorker, "oc get clusteroperator machine-config"},
		},
		{
			name: "a MachineConfig that may not be read", objects: openShiftCluster(), errs: map[string]error{"MachineConfig " + renderedWorker: forbidden},
			want: []string{"MachineConfig " + renderedWorker + " may not be read", "allow this program to get it"},
		},
		{
			name: "a MachineConfig of tomorrow", objects: replaced(openShiftCluster(), machineConfig(renderedWorker, []byte(`{"ignition":{"version":"3.6.0"}}`))),
			want: []string{"MachineConfig " + renderedWorker + " cannot be used (its version of Ignition is newer than 3.5: 3.6.0)", "install a newer release of this project"},
		},
		{
			name: "a MachineConfig of yesterday", objects: replaced(openShiftCluster(), machineConfig(renderedWorker, []byte(`{"ignition":{"version":"2.2.0"}}`))),
			want: []string{"MachineConfig " + renderedWorker + " cannot be used (it is not a configuration of Ignition 3.0 to 3.5", "correct the MachineConfig"},
		},
		{
			// The kubelets of all hosts would not start.
			name:    "a kubelet that would not start",
			objects: replaced(openShiftCluster(), workers(openshift.Worker{Platform: configv1.VSpherePlatformType, KubeletConfig: map[string]any{"tlsMinVersion": "VersionTLS14", "evictionHard": map[string]string{"nodefs.available": "much"}}})),
			want:    []string{`tlsMinVersion "VersionTLS14" is not one of VersionTLS10`, "correct the MachineConfig, KubeletConfig or profile of TLS that it comes from"},
		},
		{
			name:    "a network of services of IPv6 only",
			objects: replaced(openShiftCluster(), &configv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Status: configv1.NetworkStatus{NetworkType: "OVNKubernetes", ServiceNetwork: []string{"fd02::/112"}}}),
			want:    []string{"the network of services is fd02::/112, and pods on Windows hosts have IPv4 addresses only", "installed with IPv4"},
		},
		{
			name:    "a DNS that is no address",
			objects: replaced(openShiftCluster(), workers(openshift.Worker{Platform: configv1.VSpherePlatformType, KubeletConfig: map[string]any{"clusterDNS": []string{"dns"}}})),
			want:    []string{`clusterDNS "dns" of its kubelet is not an address`, "correct the KubeletConfig"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := settings()
			if tt.change != nil {
				tt.change(&s)
			}
			c := newCluster(t, tt.objects, tt.errs)
			_, err := cluster.Read(t.Context(), c, s)
			inputs := new(cluster.InputError)
			if !errors.As(err, &inputs) {
				t.Fatalf("got %v, want an InputError", err)
			}
			var got []string
			for _, f := range inputs.Findings {
				got = append(got, f.Problem, f.Remedy)
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i := range got {
				if !strings.Contains(got[i], tt.want[i]) || strings.ContainsAny(got[i], "\n") {
					t.Errorf("got %q, want something about %q", got[i], tt.want[i])
				}
				if !strings.Contains(err.Error(), got[i]) {
					t.Errorf("the text %q has no %q", err, got[i])
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the text has a secret: %v", err)
			}
			if _, again := cluster.Read(t.Context(), c, s); again.Error() != err.Error() {
				t.Errorf("the text is another one each time:\n%v\n%v", err, again)
			}
		})
	}
}

// applied is what the network operator says that it has applied.
func applied(t *testing.T, spec operatorv1.NetworkSpec) *corev1.ConfigMap {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return configMap("openshift-network-operator", "applied-cluster", map[string]string{"applied": string(text)})
}

// TestOverlay: hosts are connected by the overlay that there is, and not by one that somebody wishes.
func TestOverlay(t *testing.T) {
	spec := func(port *uint32) operatorv1.NetworkSpec {
		var s operatorv1.NetworkSpec
		s.DefaultNetwork.OVNKubernetesConfig = &operatorv1.OVNKubernetesConfig{HybridOverlayConfig: &operatorv1.HybridOverlayConfig{
			HybridClusterNetwork: []operatorv1.ClusterNetworkEntry{{CIDR: "10.132.0.0/14", HostPrefix: 23}}, HybridOverlayVXLANPort: port,
		}}
		return s
	}
	host := cluster.Host{Instance: instance(), Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", Annotations: map[string]string{"k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.0.0/24"}}}}
	before := build(t, read(t, withOverlay(), openShiftCluster()), host) // with port 9898
	for name, tt := range map[string]struct {
		applied operatorv1.NetworkSpec
		same    bool
	}{
		"as it is wished":          {spec(ptr.To[uint32](9898)), true},
		"with another port":        {spec(ptr.To[uint32](4000)), false},
		"with the usual port":      {spec(nil), false},
		"and nobody wishes for it": {spec(ptr.To[uint32](9898)), true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(openShiftCluster(), applied(t, tt.applied))
			wished := name != "and nobody wishes for it"
			if !wished {
				objects = replaced(objects, &operatorv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}})
			}
			r := build(t, read(t, withOverlay(), objects), host)
			if same := r.Revision == before.Revision; same != tt.same {
				t.Errorf("the same as before: %t", same)
			}
			warned := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "is not what the network operator has applied") })
			if warned != (!tt.same || !wished) {
				t.Errorf("warnings %q", r.Warnings)
			}
		})
	}
}

// TestHostsOfIPv6: a host whose Node nobody would find, because only addresses of IPv6 are known, is left as it is and says what to do.
func TestHostsOfIPv6(t *testing.T) {
	for _, tt := range []struct {
		name      string
		addresses []string
		change    func(*cluster.Host)
		wrong     bool
	}{
		{name: "IPv6", addresses: []string{"2001:db8::7", "fd00::7"}, wrong: true},
		{name: "both", addresses: []string{"fd00::7", "10.0.0.7"}},
		{name: "IPv4 in the form of IPv6", addresses: []string{"::ffff:10.0.0.7"}},
		{name: "not known yet"},
		{name: "its provider says whose the Node is", addresses: []string{"fd00::7"}, change: func(h *cluster.Host) { h.Instance.Spec.ProviderID = "aws:///a/i-1" }},
		{name: "its Node is known", addresses: []string{"fd00::7"}, change: func(h *cluster.Host) { h.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1"}} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := cluster.Host{Instance: instance()}
			host.Instance.Status.Addresses = tt.addresses
			if tt.change != nil {
				tt.change(&host)
			}
			_, err := read(t, settings(), kubeadmCluster()).Build(host)
			if wrong := err != nil; wrong != tt.wrong {
				t.Fatalf("got %v", err)
			}
			if tt.wrong && (!errors.Is(err, document.ErrInputs) || !strings.Contains(err.Error(), "addresses of IPv6 only (2001:db8::7, fd00::7)") || !strings.Contains(err.Error(), "set spec.address")) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestPortOfTheOverlay: a host whose Windows knows only the usual port of an overlay stays as it is where the cluster has another
// one, and other hosts join.
func TestPortOfTheOverlay(t *testing.T) {
	usual := openShiftCluster()
	for _, o := range usual {
		if network, ok := o.(*operatorv1.Network); ok {
			network.Spec.DefaultNetwork.OVNKubernetesConfig.HybridOverlayConfig.HybridOverlayVXLANPort = ptr.To[uint32](4789)
		}
	}
	for _, tt := range []struct {
		name    string
		objects []client.Object
		s       cluster.Settings
		build   string
		wrong   bool
	}{
		{"2019", openShiftCluster(), withOverlay(), "10.0.17763.6532", true},
		{"between 2019 and 2022", openShiftCluster(), withOverlay(), "10.0.19042.1", true},
		{"2022", openShiftCluster(), withOverlay(), "10.0.20348.2700", false},
		{"2025", openShiftCluster(), withOverlay(), "10.0.26100.1", false},
		{"nobody knows", openShiftCluster(), withOverlay(), "", false},
		{"2019, which something else connects", openShiftCluster(), settings(), "10.0.17763.6532", false},
		{"2019 with the usual port", usual, withOverlay(), "10.0.17763.6532", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := instance()
			host.Status.System = &v1alpha1.SystemStatus{Build: tt.build}
			_, err := read(t, tt.s, tt.objects).Build(cluster.Host{Instance: host})
			if wrong := err != nil; wrong != tt.wrong {
				t.Fatalf("got %v", err)
			}
			if tt.wrong && (!errors.Is(err, document.ErrInputs) || !strings.Contains(err.Error(), "VXLAN port 9898, and the host has Windows Server 2019 or older ("+tt.build+"), which knows only port 4789: install Windows Server 2022 or newer")) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// wantsNothing says how a host was set up that has nothing to lose: while it joins its revision is that without its Node, and then
// the one that it is to have.
func wantsNothing(revision string) map[string]v1alpha1.WindowsInstanceStatus {
	under := v1alpha1.Operation{ID: "2", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning, HostChanged: true}
	brings, brought := under, under
	brings.Revision, brought.Revision, brought.Phase = revision, revision, v1alpha1.OperationSucceeded
	again := []v1alpha1.Operation{{ID: "1", HostChanged: true}}
	return map[string]v1alpha1.WindowsInstanceStatus{
		"before it joins":       {},
		"while it joins":        {CurrentRevision: "r1", Operation: &under},
		"at the end of that":    {CurrentRevision: "r1", Operation: &brings, History: again},
		"not probed since":      {CurrentRevision: "r1", Operation: &brought, History: again},
		"when it has joined":    {CurrentRevision: revision},
		"tried again to join":   {CurrentRevision: revision, Operation: &under, History: again},
		"after what changed it": {CurrentRevision: revision, History: again},
	}
}

// mayLose says how a host was set up that may have what cannot be read at present.
func mayLose() map[string]v1alpha1.WindowsInstanceStatus {
	under := v1alpha1.Operation{ID: "2", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning, HostChanged: true}
	return map[string]v1alpha1.WindowsInstanceStatus{
		"configured":                   {CurrentRevision: "r1"},
		"while it is updated":          {CurrentRevision: "r1", Operation: &under, History: []v1alpha1.Operation{{ID: "1", Type: v1alpha1.OperationReconfigure, HostChanged: true}}},
		"while it is restarted":        {CurrentRevision: "r1", Operation: &v1alpha1.Operation{ID: "2", Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationRunning}},
		"when the update was broken":   {CurrentRevision: "r1", Operation: &v1alpha1.Operation{ID: "2", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationFailed, HostChanged: true}},
		"the first after its adoption": {CurrentRevision: "r1", Operation: &under, History: []v1alpha1.Operation{{ID: "1", Type: v1alpha1.OperationAdopt, Phase: v1alpha1.OperationSucceeded}}},
		"while it is adopted":          {Operation: &v1alpha1.Operation{ID: "2", Type: v1alpha1.OperationAdopt, Phase: v1alpha1.OperationRunning}},
		"nobody knows any more":        {CurrentRevision: "r1", Operation: &under, History: make([]v1alpha1.Operation, v1alpha1.MaxHistory)},
	}
}

// TestInputsThatHostsDoWithout: what is damaged and a host can be a node without leaves configured hosts as they are, and
// those that join become nodes without it.
func TestInputsThatHostsDoWithout(t *testing.T) {
	notYet := &configv1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster", CreationTimestamp: metav1.Now()}, Spec: configv1.ProxySpec{HTTPSProxy: "http://user:hunter2@proxy.example.com:3128"},
	}
	pods := newCA()
	ofPods := func() []client.Object {
		return replaced(openShiftCluster(), configMap(namespace, "kube-root-ca.crt", map[string]string{"ca.crt": pods}))
	}
	for _, tt := range []struct {
		name    string
		objects []client.Object
		want    string
		// server is the authority of the API server that hosts that join get.
		server string
	}{
		{"a proxy that is not in effect yet", replaced(openShiftCluster(), notYet), "the network operator has not put the proxy of Proxy cluster into effect yet", realCA},
		{
			"no authority of workers for the API server", lacking(ofPods(), "kubeconfig-data"),
			"ConfigMap openshift-machine-config-operator/kubeconfig-data has no certificates below ca-bundle.crt of its binaryData, or does not exist", pods,
		},
		{
			"an authority of workers that is empty", replaced(ofPods(), bootstrapCA("")),
			"ConfigMap openshift-machine-config-operator/kubeconfig-data has no certificates below ca-bundle.crt of its binaryData, or does not exist", pods,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			snapshot := read(t, settings(), tt.objects)
			joining := build(t, snapshot, cluster.Host{Instance: instance()})
			if !slices.ContainsFunc(joining.Warnings, func(w string) bool { return strings.HasPrefix(w, "the host does without it: "+tt.want) }) {
				t.Errorf("a host that joins: %q", joining.Warnings)
			}
			if givenBy(joining).server != tt.server {
				t.Error("a host that joins verifies the API server by another authority")
			}
			for name, status := range wantsNothing(joining.Revision) {
				host := instance()
				host.Status = status
				if got := build(t, snapshot, cluster.Host{Instance: host}); got.Revision != joining.Revision {
					t.Errorf("%s it is to have revision %s, want %s", name, got.Revision, joining.Revision)
				}
			}
			for name, status := range mayLose() {
				host := instance()
				host.Status = status
				_, err := snapshot.Build(cluster.Host{Instance: host})
				if wrong := new(cluster.InputError); !errors.As(err, &wrong) || len(wrong.Findings) != 1 || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// TestWorkersOfOlderClusters: before Kubernetes 1.29 the Machine Config Operator publishes no authority of workers, and hosts verify the API server
// by that of pods.
func TestWorkersOfOlderClusters(t *testing.T) {
	for server, stays := range map[string]bool{"v1.28.9": false, "v1.29.0": true, "": true} {
		s := settings()
		s.Payloads[0].Files[0].Version = "v1.28.1"
		s.ServerVersion = serverVersion(t, server)
		host := instance()
		host.Status.CurrentRevision = "r1"
		_, err := read(t, s, lacking(openShiftCluster(), "kubeconfig-data")).Build(cluster.Host{Instance: host})
		if stays != (err != nil) {
			t.Errorf("with an API server %q: %v", server, err)
		}
	}
}

// TestPartsThatStay: what is damaged and only a part of a host depends on leaves that part of configured hosts as it is. They get
// everything else, such as another authority of the clients of kubelets; those that join do without.
func TestPartsThatStay(t *testing.T) {
	const trusts, mirrors = "the host goes on to trust all authorities that it has, also those that were taken away since: ", "the host goes on with the credentials and mirrors that it has for registries that are mirrored, whatever was changed in them since: "
	for _, tt := range []struct {
		name   string
		damage func([]client.Object) []client.Object
		says   string
		want   string
		// Files that stay as they are.
		files []string
	}{
		{
			name: "pull secret that is none",
			damage: func(o []client.Object) []client.Object {
				return replaced(o, secret("openshift-config", "pull-secret", map[string]string{".dockerconfigjson": "hunter2"}))
			},
			says: mirrors, want: "Secret openshift-config/pull-secret cannot be used", files: []string{"docker.io", "quay.io"},
		},
		{
			name:   "no pull secret where there are mirrors",
			damage: func(o []client.Object) []client.Object { return lacking(o, "pull-secret") },
			says:   mirrors, want: "Secret openshift-config/pull-secret does not exist, which has the credentials of the mirrors", files: []string{"docker.io", "quay.io"},
		},
		{
			name: "authority of a registry",
			damage: func(o []client.Object) []client.Object {
				authorities := find[*mcfgv1.ControllerConfig](t, o).DeepCopy()
				authorities.Spec.ImageRegistryBundleUserData = []mcfgv1.ImageRegistryBundle{{File: "registry.example.com..5000", Data: []byte("hunter2")}}
				return replaced(o, authorities)
			},
			says: trusts, want: "hosts cannot be given the authorities of registry.example.com:5000",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			another := newCA()
			clients := find[*mcfgv1.ControllerConfig](t, openShiftCluster()).DeepCopy()
			clients.Spec.KubeAPIServerServingCAData = []byte(another)
			good, broken := read(t, settings(), replaced(openShiftCluster(), clients)), read(t, settings(), tt.damage(replaced(openShiftCluster(), clients)))

			joining := build(t, broken, cluster.Host{Instance: instance()})
			if !joining.Without || !strings.HasPrefix(joining.Warnings[0], "the host does without it: "+tt.want) || joining.Bundle.Document.KeepCertificates || slices.ContainsFunc(joining.Bundle.Document.Files, stays) {
				t.Errorf("a host that joins: %q", joining.Warnings)
			}
			without, may := wantsNothing(joining.Revision), mayLose()
			// It may as well be one whose objects were lost, and that had a revision before.
			const joins = "while it joins"
			may[joins] = without[joins]
			delete(without, joins)
			for name, status := range without {
				host := instance()
				host.Status = status
				if got := build(t, broken, cluster.Host{Instance: host}); got.Revision != joining.Revision {
					t.Errorf("%s it is to have revision %s, want %s", name, got.Revision, joining.Revision)
				}
			}
			for name, status := range may {
				host := instance()
				host.Status = status
				was, is := build(t, good, cluster.Host{Instance: host}), build(t, broken, cluster.Host{Instance: host})
				if was.Without || is.Without || !strings.HasPrefix(is.Warnings[0], tt.says+tt.want) || strings.Contains(strings.Join(is.Warnings, " "), "hunter2") {
					t.Errorf("%s it says %q", name, is.Warnings)
				}
				if got := givenBy(is).clients; got != another {
					t.Errorf("%s it does not get another authority of the clients of kubelets, but %q", name, got)
				}
				d := is.Bundle.Document
				if d.KeepCertificates != (tt.says == trusts) {
					t.Errorf("%s it goes on to trust what it trusts: %t", name, d.KeepCertificates)
				}
				var left []string
				for i, f := range d.Files {
					if directory, ok := strings.CutPrefix(f.Path, wmco.RegistriesDir+`\`); ok && stays(f) {
						left = append(left, strings.TrimSuffix(directory, `\hosts.toml`))
					} else if i >= len(was.Bundle.Document.Files) || was.Bundle.Document.Files[i].Path != f.Path || was.Bundle.Document.Files[i].Digest != f.Digest {
						t.Errorf("%s %s is another one, or was not there", name, f.Path)
					}
				}
				if !slices.Equal(left, tt.files) {
					t.Errorf("%s the files of registries %q stay, want %q", name, left, tt.files)
				}
				// It has that then, and it is what it is to have.
				host.Status = v1alpha1.WindowsInstanceStatus{CurrentRevision: is.Revision}
				if again := build(t, broken, cluster.Host{Instance: host}); again.Revision != is.Revision {
					t.Errorf("%s it is to have revision %s, and then %s", name, is.Revision, again.Revision)
				}
			}
		})
	}
}

// stays says whether a file of registries stays as it is on hosts that have it.
func stays(f config.File) bool {
	return f.Waiting && f.Source.Expand && strings.HasPrefix(f.Path, wmco.RegistriesDir)
}

// find returns the first object of a type.
func find[T client.Object](t *testing.T, objects []client.Object) T {
	t.Helper()
	at := slices.IndexFunc(objects, func(o client.Object) bool { _, is := o.(T); return is })
	if at < 0 {
		t.Fatal("there is none")
	}
	return objects[at].(T) //nolint:forcetypeassert // it was found by that
}

// TestProxyThatIsRefused: what the network operator does not accept is in effect nowhere, so hosts go on without it, as workers do.
func TestProxyThatIsRefused(t *testing.T) {
	snapshot := read(t, settings(), replaced(openShiftCluster(), &configv1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}, Spec: configv1.ProxySpec{HTTPSProxy: "http://user:hunter2@proxy.example.com:3128"},
	}))
	configured := instance()
	configured.Status.CurrentRevision = "r1"
	got := build(t, snapshot, cluster.Host{Instance: configured})
	const want = "the network operator has not put the proxy of Proxy cluster into effect, so hosts have none either: see why: oc get clusteroperator network"
	if !slices.Contains(got.Warnings, want) {
		t.Errorf("got %q", got.Warnings)
	}
}

// An API server that is away is nothing that people have to correct in their cluster.
func TestReadFails(t *testing.T) {
	away := errors.New("connection refused")
	for _, what := range []string{"ConfigMap kube-public/cluster-info", "Secret windows/windows-digest-key", "ImageTagMirrorSet "} {
		_, err := cluster.Read(t.Context(), newCluster(t, kubeadmCluster(), map[string]error{what: away}), settings())
		inputs := new(cluster.InputError)
		if !errors.Is(err, away) || errors.As(err, &inputs) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// otherOperator is the Deployment of WMCO.
func otherOperator(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: wmco.Namespace, Name: wmco.Deployment},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas}, Status: appsv1.DeploymentStatus{Replicas: replicas, AvailableReplicas: replicas},
	}
}

// TestOtherOperator: hosts are configured once WMCO has ended.
func TestOtherOperator(t *testing.T) {
	if _, err := cluster.Read(t.Context(), newCluster(t, append(openShiftCluster(), otherOperator(1)), nil), settings()); !errors.Is(err, document.ErrOtherOperator) || !errors.Is(err, document.ErrInputs) {
		t.Errorf("while it runs: %v", err)
	}
	if _, err := cluster.Read(t.Context(), newCluster(t, lacking(openShiftCluster(), "worker"), nil), settings()); errors.Is(err, document.ErrOtherOperator) {
		t.Errorf("something else is wrong: %v", err)
	}
	unknown := map[string]error{"Deployment " + wmco.Namespace + "/" + wmco.Deployment: apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, wmco.Deployment, nil)}
	if _, err := cluster.Read(t.Context(), newCluster(t, openShiftCluster(), unknown), settings()); !errors.Is(err, document.ErrOtherOperator) {
		t.Errorf("it may run: %v", err)
	}
	build(t, read(t, settings(), append(openShiftCluster(), otherOperator(0))), cluster.Host{Instance: instance()})
}

// exporterService is the Service for which the service CA makes the certificate of metrics.
func exporterService(metrics string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster.ExporterService}}
	if metrics != "" {
		s.Annotations = map[string]string{v1alpha1.MetricsAnnotation: metrics}
	}
	return s
}

// TestNoExporter: without a certificate of metrics hosts are configured, and those that have one keep it. On OpenShift, and of one that
// is damaged, that is said of each host, and elsewhere of those that serve metrics. Who wants no metrics says so in its place.
func TestNoExporter(t *testing.T) {
	none := secret(namespace, cluster.ExporterSecret, map[string]string{"metrics": "none"})
	damaged := secret(namespace, cluster.ExporterSecret, map[string]string{"tls.crt": "hunter2"})
	const (
		missing = "Secret windows/windows-machine-config-operator-tls does not exist, which the service CA makes"
		wrong   = "Secret windows/windows-machine-config-operator-tls has no certificate and key that belong together"
	)
	for name, tt := range map[string]struct {
		objects []client.Object
		said    string
		// kept: hosts that serve metrics go on with that. served: all do.
		kept, served bool
	}{
		"on OpenShift":             {lacking(openShiftCluster(), cluster.ExporterSecret), missing, true, false},
		"with it":                  {openShiftCluster(), "", false, true},
		"damaged":                  {replaced(openShiftCluster(), damaged), wrong, true, false},
		"elsewhere":                {kubeadmCluster(), "", true, false},
		"elsewhere, with it":       {append(kubeadmCluster(), secret(namespace, cluster.ExporterSecret, servingPair())), "", false, true},
		"elsewhere, damaged":       {append(kubeadmCluster(), damaged), wrong, true, false},
		"nobody wants metrics":     {append(kubeadmCluster(), none), "", false, false},
		"on OpenShift nobody does": {append(openShiftCluster(), exporterService("none")), "", false, false},
		"nobody does, without it":  {append(lacking(openShiftCluster(), cluster.ExporterSecret), exporterService("none")), "", false, false},
		"a Service like others":    {append(openShiftCluster(), exporterService("")), "", false, true},
		"a value without meaning":  {append(openShiftCluster(), exporterService("off")), "annotation windows.openshift.io/metrics of Service windows/windows-exporter is \"off\", which means nothing", false, true},
		"the Secret says so, too":  {replaced(openShiftCluster(), none), "", false, false},
	} {
		configured := instance()
		configured.Status.CurrentRevision = "r1"
		snapshot := read(t, settings(), tt.objects)
		result := build(t, snapshot, cluster.Host{Instance: configured})
		said := ""
		for _, w := range result.Warnings {
			if strings.HasPrefix(w, "Secret ") || strings.HasPrefix(w, "annotation ") {
				said = w
			}
		}
		if !strings.HasPrefix(said, tt.said) || (said == "") != (tt.said == "") || strings.Contains(said, "go on with the certificate that they have") != strings.HasPrefix(tt.said, "Secret ") || strings.Contains(said, "hunter2") {
			t.Errorf("%s: %q", name, result.Warnings)
		}
		at := slices.IndexFunc(result.Bundle.Document.Services, func(s config.Service) bool { return s.Name == wmco.WindowsExporterService })
		if kept := at >= 0 && result.Bundle.Document.Services[at].Waiting; kept != tt.kept || (at >= 0 && !kept) != tt.served {
			t.Errorf("%s: a host that has windows_exporter keeps it: %t, each is to have it: %t", name, kept, at >= 0 && !kept)
		}
	}
}

// TestOtherOperatorEnded: only a Deployment without replicas, or none, is known to do nothing.
func TestOtherOperatorEnded(t *testing.T) {
	terminating := otherOperator(0)
	terminating.Status.Replicas = 1
	for name, tt := range map[string]struct {
		objects []client.Object
		fail    error
		want    bool
		wantErr bool
	}{
		"there is none":      {want: true},
		"it has ended":       {objects: []client.Object{otherOperator(0)}, want: true},
		"it runs":            {objects: []client.Object{otherOperator(1)}},
		"its pod ends":       {objects: []client.Object{terminating}},
		"it may not be read": {fail: apierrors.NewForbidden(schema.GroupResource{}, "", nil)},
		"it cannot be read":  {fail: errors.New("boom"), wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			errs := map[string]error{}
			if tt.fail != nil {
				errs["Deployment "+wmco.Namespace+"/"+wmco.Deployment] = tt.fail
			}
			got, err := cluster.OtherOperatorEnded(t.Context(), newCluster(t, tt.objects, errs))
			if got != tt.want || (err != nil) != tt.wantErr {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// TestOtherOperatorWithoutPods: hosts are left to WMCO also while no pod of it is available, and the message says that and how to
// find out why.
func TestOtherOperatorWithoutPods(t *testing.T) {
	const unavailable = "no pod of it is available at present"
	forbidden := otherOperator(1)
	forbidden.Status = appsv1.DeploymentStatus{}
	_, err := cluster.Read(t.Context(), newCluster(t, append(openShiftCluster(), forbidden), nil), settings())
	if !errors.Is(err, document.ErrOtherOperator) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{unavailable, "oc describe deployment windows-machine-config-operator -n openshift-windows-machine-config-operator", "oc get events -n openshift-windows-machine-config-operator", "but keep the namespace", "--replicas=0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q: %v", want, err)
		}
	}
	_, err = cluster.Read(t.Context(), newCluster(t, append(openShiftCluster(), otherOperator(1)), nil), settings())
	if err == nil || strings.Contains(err.Error(), unavailable) {
		t.Errorf("one that works: %v", err)
	}
}

// TestAuthoritiesOfNodes: hosts verify the API server with what the cluster's own nodes do, which is not in the
// usual place of a ConfigMap.
func TestAuthoritiesOfNodes(t *testing.T) {
	nodes := newCA()
	r := build(t, read(t, settings(), replaced(openShiftCluster(), bootstrapCA(nodes))), cluster.Host{Instance: instance()})
	for _, f := range r.Bundle.Document.Files {
		if f.Path == wmco.BootstrapCAPath && *f.Source.Text != nodes {
			t.Error("hosts verify the API server with what pods do")
		}
	}
}

// TestOpenShiftIsNotOfKubeadm: ConfigMaps of the names that those of kubeadm have change nothing for the hosts of OpenShift, whatever is in them.
func TestOpenShiftIsNotOfKubeadm(t *testing.T) {
	want := build(t, read(t, settings(), openShiftCluster()), cluster.Host{Instance: instance()})
	info := clusterInfo("https://10.0.0.1:6443")
	info.Data["kubeconfig"] = strings.ReplaceAll(info.Data["kubeconfig"], base64.StdEncoding.EncodeToString([]byte(realCA)), base64.StdEncoding.EncodeToString([]byte(newCA())))
	for name, stray := range map[string]*corev1.ConfigMap{
		"another authority":       info,
		"no kubeconfig":           configMap("kube-public", "cluster-info", nil),
		"another domain":          configMap("kube-system", "kubeadm-config", map[string]string{"ClusterConfiguration": clusterConfiguration}),
		"no ClusterConfiguration": configMap("kube-system", "kubeadm-config", map[string]string{"ClusterConfiguration": "{"}),
	} {
		snapshot, err := cluster.Read(t.Context(), newCluster(t, append(openShiftCluster(), stray), nil), settings())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := build(t, snapshot, cluster.Host{Instance: instance()}); got.Revision != want.Revision {
			t.Errorf("%s changes hosts", name)
		}
	}
}

// Everything that is read has to be granted, see artifacts/rbac.
func TestReadsNothingElse(t *testing.T) {
	azure := openShiftClusterOn(configv1.AzurePlatformType)
	want := []string{
		"apps/v1 Deployment openshift-windows-machine-config-operator/windows-machine-config-operator",
		"config.openshift.io/v1 Image /cluster",
		"config.openshift.io/v1 ImageDigestMirrorSet /",
		"config.openshift.io/v1 ImageTagMirrorSet /",
		"config.openshift.io/v1 Infrastructure /cluster",
		"config.openshift.io/v1 Network /cluster",
		"config.openshift.io/v1 Proxy /cluster",
		"machineconfiguration.openshift.io/v1 ControllerConfig /machine-config-controller",
		"machineconfiguration.openshift.io/v1 MachineConfig /" + renderedWorker,
		"machineconfiguration.openshift.io/v1 MachineConfigPool /worker",
		"networking.k8s.io/v1 ServiceCIDR /kubernetes",
		"operator.openshift.io/v1 Network /cluster",
		"operator.openshift.io/v1alpha1 ImageContentSourcePolicy /",
		"v1 ConfigMap kube-public/cluster-info",
		"v1 ConfigMap kube-system/extension-apiserver-authentication",
		"v1 ConfigMap kube-system/kubeadm-config",
		"v1 ConfigMap openshift-machine-config-operator/kubeconfig-data",
		"v1 ConfigMap openshift-network-operator/applied-cluster",
		"v1 ConfigMap windows/kube-root-ca.crt",
		"v1 ConfigMap windows/trusted-ca",
		"v1 Secret openshift-config/pull-secret",
		"v1 Secret windows/windows-digest-key",
		"v1 Secret windows/windows-instance-config-daemon",
		"v1 Secret windows/windows-machine-config-operator-tls",
		"v1 Service kube-system/kube-dns",
		"v1 Service windows/windows-exporter",
	}
	reads := map[string]bool{}
	withoutConfig := slices.DeleteFunc(openShiftCluster(), func(o client.Object) bool { return o.GetName() == "machine-config-controller" })
	for _, objects := range [][]client.Object{nil, kubeadmCluster(), openShiftCluster(), azure, withoutConfig} {
		c := newCluster(t, objects, nil)
		_, _ = cluster.Read(t.Context(), c, settings()) // what is missing is tested elsewhere
		for _, read := range c.reads {
			reads[read] = true
		}
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(reads))); diff != "" {
		t.Errorf("what is read (-want +got):\n%s", diff)
	}
}
