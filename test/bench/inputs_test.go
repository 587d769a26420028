// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"regexp"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/test/openshift"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/system"
)

// BenchmarkInputs changes each input of a cluster of OpenShift once, and reports what that costs each of a hundred
// hosts until all of them have followed: it prints a table of what they were sent, which of their services were
// started, and how many of them were drained and restarted. Bytes are counted where hosts accept SSH connections, and
// have in them what a look at a host costs meanwhile. Eight hosts are disrupted at a time, and the next ones follow as soon as
// these are ready; by default it is one, which must stay ready for 30 seconds. BENCH_INPUTS is a regular expression of which inputs are changed.
func BenchmarkInputs(b *testing.B) {
	only, err := regexp.Compile(os.Getenv("BENCH_INPUTS"))
	if err != nil {
		b.Fatalf("BENCH_INPUTS: %v", err)
	}
	c := startConfigured(b, configuredOptions{
		payload: standin.PayloadOptions{Overlay: true},
		system:  system.Options{OpenShift: configv1.NonePlatformType, ControllerArgs: []string{"--max-disruptive-operations=8"}},
	})
	admin, err := openshift.NewClient(c.AdminConfig())
	if err != nil {
		b.Fatal(err)
	}
	if err := c.patchPool(`{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":8,"settleSeconds":0}}}}`)(b.Context()); err != nil {
		b.Fatal(err)
	}
	c.setUp(b, manyHosts)
	// Not as a log, of which a benchmark shows a few lines; and row by row, as all of it takes long.
	fmt.Printf("\n| what changes | KiB to each host | services started on each | drained | restarted | until all %d have followed |\n|---|---|---|---|---|---|\n", len(c.hosts))
	for _, input := range inputsOf(b, c, admin) { // once: a second time nothing would change
		if !only.MatchString(input.name) {
			continue
		}
		cost := c.cost(b, input.change, c.configuredAnew(b))
		hosts := float64(cost.hosts)
		fmt.Printf("| %s | %.0f | %.1f | %d | %d | %.0f s |\n",
			input.name, float64(cost.bytes)/hosts/1024, float64(cost.starts)/hosts, cost.drains, cost.reboots, cost.took.Seconds())
	}
}

// input is one thing that is changed.
type input struct {
	name   string
	change func(context.Context) error
}

// inputsOf are all inputs, in an order in which each of them counts: certificates of a proxy do only where there is one.
func inputsOf(b *testing.B, c *configured, admin client.Client) []input {
	b.Helper()
	authority := func(name string) []byte {
		certificate, _, err := certutil.GenerateSelfSignedCertKey(name, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		return certificate
	}
	mirror := func(source, mirror string) (string, []configv1.ImageMirror) {
		return source, []configv1.ImageMirror{configv1.ImageMirror(mirror)}
	}
	authorities := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: openshift.ConfigNamespace, Name: name}, Data: map[string]string{"ca-bundle.crt": string(authority(name))}}
	}
	addAuthority := func(bundle, name string) func(context.Context) error {
		return edit(admin, client.ObjectKey{Namespace: openshift.ManagedNamespace, Name: bundle}, &corev1.ConfigMap{}, func(o *corev1.ConfigMap) {
			o.Data["ca-bundle.crt"] += string(authority(name))
		})
	}
	served, private, err := certutil.GenerateSelfSignedCertKey("windows-exporter."+system.Namespace+".svc", nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	cluster := client.ObjectKey{Name: "cluster"}
	create := func(object client.Object) func(context.Context) error {
		return func(ctx context.Context) error { return admin.Create(ctx, object) }
	}
	digests, tags := &configv1.ImageDigestMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}, &configv1.ImageTagMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}
	digests.Spec.ImageDigestMirrors = make([]configv1.ImageDigestMirrors, 1)
	digests.Spec.ImageDigestMirrors[0].Source, digests.Spec.ImageDigestMirrors[0].Mirrors = mirror("quay.example.com", "registry.example.com/q")
	moreDigests := digests.DeepCopy()
	moreDigests.Name, moreDigests.Spec.ImageDigestMirrors[0].Source = "bench-more", "ghcr.example.com"
	tags.Spec.ImageTagMirrors = make([]configv1.ImageTagMirrors, 1)
	tags.Spec.ImageTagMirrors[0].Source, tags.Spec.ImageTagMirrors[0].Mirrors = mirror("docker.io", "registry.example.com/d")
	return []input{
		{"CA of the clients of kubelets (`kube-apiserver-client-ca`)", addAuthority(openshift.ClientCAName, "clients")},
		{"CA of the API server (`kube-apiserver-server-ca`)", addAuthority(openshift.ServerCAName, "server")},
		{"CA of an image registry (`image-registry-ca`)", create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: openshift.ManagedNamespace, Name: openshift.RegistryCAName}, Data: map[string]string{"registry.example.com": string(authority("registry"))},
		})},
		{"additional trust bundle (`user-ca-bundle`)", create(authorities(openshift.UserCAName))},
		{"mirror by digest (ImageDigestMirrorSet)", create(digests)},
		{"mirror by tag (ImageTagMirrorSet)", create(tags)},
		{"insecure registry (Image config)", edit(admin, cluster, &configv1.Image{}, func(o *configv1.Image) {
			o.Spec.RegistrySources.InsecureRegistries = []string{"plain.example.com"}
		})},
		{"blocked registry (Image config)", edit(admin, cluster, &configv1.Image{}, func(o *configv1.Image) {
			o.Spec.RegistrySources.BlockedRegistries = []string{"bad.example.com"}
		})},
		// In place of the blocked one: only one of the lists may be there.
		{"allowed registries (Image config)", edit(admin, cluster, &configv1.Image{}, func(o *configv1.Image) {
			o.Spec.RegistrySources.BlockedRegistries = nil
			o.Spec.RegistrySources.AllowedRegistries = []string{"quay.example.com", "docker.io", "registry.example.com", "mcr.microsoft.com"}
		})},
		{"credentials of a mirror (pull secret)", edit(admin, client.ObjectKey{Namespace: "openshift-config", Name: "pull-secret"}, &corev1.Secret{}, func(o *corev1.Secret) {
			o.Data[corev1.DockerConfigJsonKey] = []byte(`{"auths":{"registry.example.com":{"auth":"b3RoZXI6cGFzc3dvcmQ="}}}`)
		})},
		{"certificate of metrics (`windows-machine-config-operator-tls`)", edit(admin, client.ObjectKey{Namespace: system.Namespace, Name: "windows-machine-config-operator-tls"}, &corev1.Secret{}, func(o *corev1.Secret) {
			o.Data[corev1.TLSCertKey], o.Data[corev1.TLSPrivateKeyKey] = served, private
		})},
		{"profile of TLS (APIServer)", edit(admin, cluster, &configv1.APIServer{}, func(o *configv1.APIServer) {
			o.Spec.TLSSecurityProfile = &configv1.TLSSecurityProfile{Type: configv1.TLSProfileModernType, Modern: &configv1.ModernTLSProfile{}}
		})},
		{"setting of kubelets (KubeletConfig of pool `worker`)", create(&mcfgv1.KubeletConfig{
			ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: mcfgv1.KubeletConfigSpec{
				MachineConfigPoolSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pools.operator.machineconfiguration.openshift.io/worker": ""}},
				KubeletConfig:             &runtime.RawExtension{Raw: []byte(`{"maxPods":300}`)},
			},
		})},
		{"setting of kubelets (pool)", c.patchPool(`{"spec":{"template":{"kubelet":{"maxPods":301}}}}`)},
		{"fewer pods (`maxPods` of a pool)", c.patchPool(`{"spec":{"template":{"kubelet":{"maxPods":200}}}}`)},
		{"rotation of logs (pool)", c.patchPool(`{"spec":{"template":{"logRotation":{"maxSize":"50Mi"}}}}`)},
		{"proxy and its authority (Proxy, `trusted-ca`)", func(ctx context.Context) error {
			return edit(admin, cluster, &configv1.Proxy{}, func(o *configv1.Proxy) {
				o.Spec.HTTPProxy, o.Spec.TrustedCA.Name = "http://proxy.example.com:3128", openshift.UserCAName
			})(ctx)
		}},
		{"another authority of the proxy (`trusted-ca`)", func(ctx context.Context) error {
			if err := admin.Create(ctx, authorities("other-ca-bundle")); err != nil {
				return err
			}
			return edit(admin, cluster, &configv1.Proxy{}, func(o *configv1.Proxy) { o.Spec.TrustedCA.Name = "other-ca-bundle" })(ctx)
		}},
		{"as many authorities of the proxy as real clusters have (`trusted-ca`, 140)", func(ctx context.Context) error {
			many := authorities("many-ca-bundle")
			for i := range authoritiesOfClusters {
				many.Data["ca-bundle.crt"] += smallAuthority(b, fmt.Sprint("Authority ", i))
			}
			if err := admin.Create(ctx, many); err != nil {
				return err
			}
			return edit(admin, cluster, &configv1.Proxy{}, func(o *configv1.Proxy) { o.Spec.TrustedCA.Name = many.Name })(ctx)
		}},
		{"mirror by digest, with that many (ImageDigestMirrorSet)", create(moreDigests)},
		{"pause image (pool)", c.patchPool(`{"spec":{"template":{"containerd":{"sandboxImage":"registry.example.com/pause:3.10"}}}}`)},
	}
}

// authoritiesOfClusters is how many authorities the network operator of a real cluster writes: those of the system that it runs on.
const authoritiesOfClusters = 140

// smallAuthority is the certificate of one, with a key of elliptic curves.
func smallAuthority(b *testing.B, name string) string {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	certificate, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: name, Organization: []string{"Trust services of " + name}}, key)
	if err != nil {
		b.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: certificate.Raw}))
}

// edit changes an object, which others write as well.
func edit[T client.Object](admin client.Client, key client.ObjectKey, object T, change func(T)) func(context.Context) error {
	return func(ctx context.Context) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			if err := admin.Get(ctx, key, object); err != nil {
				return err
			}
			change(object)
			return admin.Update(ctx, object)
		})
	}
}
