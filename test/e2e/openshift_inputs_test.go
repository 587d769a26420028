// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"github.com/vincent-petithory/dataurl"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/openshift"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// clusterInput is something of a cluster that hosts are configured with.
type clusterInput struct {
	name string
	// change changes it, or breaks it.
	change func()
	// has returns nil once a host has what follows.
	has func(t *testing.T, h *siteHost) error
	// said is what a host says while it is broken, and repair ends that.
	said   []string
	repair func()
}

// openShiftInputs has somebody change, break and repair the inputs of a host. What costs the same is changed at once: each
// change is followed, and what costs nothing starts nothing.
// The host is one of the ConfigMap, on a cloud if it is not empty; see administer.
func openShiftInputs(t *testing.T, o *openShiftSite, g *guided, h *siteHost, cloud string) {
	t.Run("change", func(t *testing.T) { openShiftChanges(t, o, h) })
	t.Run("network", func(t *testing.T) { openShiftNetwork(t, o, h) })
	t.Run("workers", func(t *testing.T) { openShiftWorkers(t, o, h) })
	t.Run("broken", func(t *testing.T) { openShiftBroken(t, o, g, h) })
	t.Run("without", func(t *testing.T) { openShiftWithout(t, o, h, cloud) })
}

// administer is what an administrator has set before there are hosts: an authority, which it returns, and a mirror.
func (o *openShiftSite) administer(t *testing.T) string {
	t.Helper()
	authority := newAuthority(t, "proxy.example.com")
	o.create(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: openshift.ConfigNamespace, Name: openshift.UserCAName}, Data: map[string]string{"ca-bundle.crt": authority},
	})
	o.create(t, mirrored("first", "quay.example.com/team", "registry.example.com/first/team"))
	return authority
}

// openShiftChanges changes all that costs nothing at once, among it the authority of the clients of kubelets, which OpenShift rotates
// three times in a row.
func openShiftChanges(t *testing.T, o *openShiftSite, h *siteHost) {
	clients := o.authorities(t, openshift.ManagedNamespace, openshift.ClientCAName)
	var bundle string
	served, err := h.exporterCertificate(t)
	if err != nil {
		t.Fatal(err)
	}
	image, own, user := newAuthority(t, "administrator.example.com"), newAuthority(t, "registry.example.com"), newAuthority(t, "user.example.com")
	inputs := []clusterInput{
		{
			name: "authority of the clients of kubelets",
			change: func() {
				// The authority that has issued the certificates of kubelets, and that of the API server of the test, is not the one that is rotated.
				former := ""
				for range 3 {
					next := newAuthority(t, "kube-apiserver-to-kubelet-signer")
					for _, bundle = range []string{clients + former + next, clients + next} { // both, until all have the new one
						o.setAuthorities(t, openshift.ManagedNamespace, openshift.ClientCAName, bundle)
					}
					eventually(t, "each rotation reaches the host", func() error { return mustBe(h.read(t, wmco.KubeletCAPath), bundle) })
					former = next
				}
			},
			has: func(t *testing.T, h *siteHost) error {
				t.Helper()
				return mustBe(h.read(t, wmco.KubeletCAPath), bundle)
			},
		},
		{
			name: "authority of a registry of the administrator",
			change: func() {
				o.create(t, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: openshift.ConfigNamespace, Name: "registry-cas"}, Data: map[string]string{"registry.example.com..5000": image},
				})
				update(t, o, "cluster", func(i *configv1.Image) { i.Spec.AdditionalTrustedCA.Name = "registry-cas" })
			},
			has: func(t *testing.T, h *siteHost) error { t.Helper(); return h.trusts(t, image) },
		},
		{
			name: "authority of the registry of the cluster",
			change: func() {
				o.create(t, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: openshift.ManagedNamespace, Name: openshift.RegistryCAName},
					Data:       map[string]string{"image-registry.openshift-image-registry.svc..5000": own},
				})
			},
			has: func(t *testing.T, h *siteHost) error { t.Helper(); return h.trusts(t, own) },
		},
		{
			name: "authority of users",
			change: func() {
				o.setAuthorities(t, openshift.ConfigNamespace, openshift.UserCAName, o.authorities(t, openshift.ConfigNamespace, openshift.UserCAName)+user)
			},
			has: func(t *testing.T, h *siteHost) error { t.Helper(); return h.trusts(t, user) },
		},
		{
			name:   "mirror by digest, and an insecure registry",
			change: func() { o.create(t, mirrored("second", "docker.io/library", "registry.example.com/second/library")) },
			has: func(t *testing.T, h *siteHost) error {
				t.Helper()
				return mustHave(h.read(t, wmco.RegistriesDir+`\docker.io\hosts.toml`), `"http://registry.example.com/v2/second"`, "skip_verify = true")
			},
		},
		{
			name: "mirror by tag",
			change: func() {
				o.create(t, &configv1.ImageTagMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "third"}, Spec: configv1.ImageTagMirrorSetSpec{
					ImageTagMirrors: []configv1.ImageTagMirrors{{Source: "ghcr.io/third", Mirrors: []configv1.ImageMirror{"registry.example.com/tags/third"}}},
				}})
			},
			has: func(t *testing.T, h *siteHost) error {
				t.Helper()
				return mustHave(h.read(t, wmco.RegistriesDir+`\ghcr.io\hosts.toml`), "registry.example.com/v2/tags")
			},
		},
		{
			name: "mirror of an ImageContentSourcePolicy",
			change: func() {
				o.create(t, &operatorv1alpha1.ImageContentSourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: "fourth"}, Spec: operatorv1alpha1.ImageContentSourcePolicySpec{
					RepositoryDigestMirrors: []operatorv1alpha1.RepositoryDigestMirrors{{Source: "gcr.io/fourth", Mirrors: []string{"registry.example.com/policy/fourth"}}},
				}})
			},
			has: func(t *testing.T, h *siteHost) error {
				t.Helper()
				return mustHave(h.read(t, wmco.RegistriesDir+`\gcr.io\hosts.toml`), "registry.example.com/v2/policy")
			},
		},
		{
			name: "insecure and blocked registries",
			change: func() {
				update(t, o, "cluster", func(image *configv1.Image) {
					image.Spec.RegistrySources = configv1.RegistrySources{
						InsecureRegistries: []string{"registry.example.com"}, BlockedRegistries: []string{"bad.example.com", "quay.example.com/bad"},
					}
				})
			},
			has: func(t *testing.T, h *siteHost) error {
				t.Helper()
				return mustHave(h.read(t, wmco.RegistriesDir+`\bad.example.com\hosts.toml`), `capabilities = ["push"]`)
			},
		},
		{
			name: "credentials of a mirror",
			change: func() {
				o.setPullSecret(t, `{"auths":{"registry.example.com":{"auth":"b3RoZXI6cGFzc3dvcmQ="}}}`)
			},
			has: func(t *testing.T, h *siteHost) error {
				t.Helper()
				return mustHave(h.read(t, wmco.RegistriesDir+`\quay.example.com\hosts.toml`), "Basic b3RoZXI6cGFzc3dvcmQ=")
			},
		},
		{
			name: "certificate of metrics, which is away until openShiftWithout", // with the Service that it is for
			change: func() {
				if err := o.Kube.CoreV1().Services(system.Namespace).Delete(t.Context(), exporterName, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				err := o.Kube.CoreV1().Secrets(system.Namespace).Delete(t.Context(), cluster.ExporterSecret, metav1.DeleteOptions{})
				if client.IgnoreNotFound(err) != nil { // it belongs to the Service
					t.Fatal(err)
				}
			},
			has: func(t *testing.T, h *siteHost) error {
				t.Helper()
				now, err := h.exporterCertificate(t)
				if err != nil {
					return err
				}
				if !now.Equal(served) {
					return errors.New("the host serves metrics with another certificate")
				}
				return mustHave(messageOf(t, h.get(t), v1alpha1.ConditionUpToDate), "Secret "+system.Namespace+"/"+cluster.ExporterSecret+" does not exist", "go on with the certificate that they have")
			},
		},
	}
	before, starts, exporters, restarts := h.waitReady(t), h.kubelets.Load(), h.exporters.Load(), h.host.Restarts()
	for _, input := range inputs {
		input.change()
	}
	for _, input := range inputs {
		eventually(t, input.name+" reaches the host", func() error { return input.has(t, h) })
	}
	i := h.waitRevision(t, before.Status.DesiredRevision)
	mustSay(t, messageOf(t, i, v1alpha1.ConditionUpToDate), "quay.example.com/bad is not blocked")
	if op := i.Status.Operation; op.Impact != v1alpha1.ImpactNone {
		t.Errorf("the impact is %q\n%s", op.Impact, describeSteps(op))
	}
	if h.kubelets.Load() != starts || h.exporters.Load() != exporters || h.host.Restarts() != restarts {
		t.Errorf("the kubelet was started %d times, windows_exporter %d times, the host %d times", h.kubelets.Load()-starts, h.exporters.Load()-exporters, h.host.Restarts()-restarts)
	}
}

// openShiftNetwork has an administrator change the proxy, and wish for another port of the overlay, which the network operator refuses: the
// host says so and keeps its port, and is restarted once, because services have the variables of the machine from its start.
func openShiftNetwork(t *testing.T, o *openShiftSite, h *siteHost) {
	ready, restarts := h.waitReady(t), h.host.Restarts()
	overlay := object[operatorv1.Network](t, o, "cluster").Spec.DefaultNetwork.OVNKubernetesConfig.HybridOverlayConfig
	command := func() (string, error) {
		service, err := h.theirs(t).Service(wmco.HybridOverlayService)
		if err != nil || service == nil {
			return "", fmt.Errorf("the service of the overlay: %+v, %w", service, err)
		}
		return service.Settings.CommandLine, nil
	}
	connected, err := command()
	if err != nil {
		t.Fatal(err)
	}
	wished := overlay.DeepCopy()
	wished.HybridOverlayVXLANPort = ptr.To[uint32](9999)
	setOverlay(t, o, wished)
	const notApplied = "is not what the network operator has applied"
	i := h.wait(t, "it says that the port is not applied", func(i *v1alpha1.WindowsInstance) error {
		return mustHave(messageOf(t, i, v1alpha1.ConditionUpToDate), notApplied, "oc get clusteroperator network")
	})
	if i.Status.DesiredRevision != ready.Status.DesiredRevision {
		t.Errorf("the host is to follow it\n%s", describeConditions(i))
	}
	eventually(t, "the network operator says so", func() error {
		conditions := object[configv1.ClusterOperator](t, o, openshift.NetworkOperatorName).Status.Conditions
		if len(conditions) != 1 || conditions[0].Type != configv1.OperatorDegraded || conditions[0].Status != configv1.ConditionTrue {
			return fmt.Errorf("its conditions are %+v", conditions)
		}
		return nil
	})
	update(t, o, "cluster", func(p *configv1.Proxy) {
		p.Spec.HTTPSProxy, p.Spec.NoProxy, p.Spec.TrustedCA.Name = "http://proxy.example.com:3129", ".example.net", openshift.UserCAName
	})
	eventually(t, "the host is up to date", func() error {
		environment := h.environment(t)
		return errors.Join(mustBe(environment["HTTPS_PROXY"], "http://proxy.example.com:3129"), mustHave(environment["NO_PROXY"], ".cluster.local", ".example.net"))
	})
	i = h.waitRevision(t, ready.Status.DesiredRevision)
	if n := h.host.Restarts() - restarts; n != 1 {
		t.Errorf("the host was restarted %d times, want once\n%s", n, describeOperation(i))
	}
	if now, err := command(); err != nil || now != connected {
		t.Errorf("the overlay is connected by %q, before %q: %v", now, connected, err)
	}
	setOverlay(t, o, overlay)
	h.wait(t, "it has nothing to say of the port", func(i *v1alpha1.WindowsInstance) error {
		if message := messageOf(t, i, v1alpha1.ConditionUpToDate); strings.Contains(message, notApplied) {
			return errors.New(message)
		}
		return nil
	})

	// The port changes with an overlay that is removed and made again. The host is drained for it, and its networks are made again.
	for _, port := range []*operatorv1.HybridOverlayConfig{wished, overlay} {
		before := h.waitReady(t)
		setOverlay(t, o, nil)
		h.wait(t, "it says that there is no overlay", func(i *v1alpha1.WindowsInstance) error {
			return mustHave(messageOf(t, i, v1alpha1.ConditionUpToDate), "the cluster has no hybrid networking with OVN-Kubernetes")
		})
		setOverlay(t, o, port)
		i = h.waitRevision(t, before.Status.DesiredRevision)
		if op := i.Status.Operation; op.Impact != v1alpha1.ImpactDrain {
			t.Errorf("the impact of another port is %q\n%s", op.Impact, describeOperation(i))
		}
		now, err := command()
		if changed := strings.Contains(now, "--hybrid-overlay-vxlan-port 9999"); err != nil || changed != (port == wished) {
			t.Errorf("the overlay is connected by %q: %v", now, err)
		}
	}
}

// setOverlay changes the overlay that an administrator wants. Nil: none.
func setOverlay(t *testing.T, o *openShiftSite, overlay *operatorv1.HybridOverlayConfig) {
	t.Helper()
	update(t, o, "cluster", func(n *operatorv1.Network) { n.Spec.DefaultNetwork.OVNKubernetesConfig.HybridOverlayConfig = overlay })
}

// openShiftWorkers has an administrator change how kubelets are configured, and take that back: hosts follow the pool of the workers
// when these have followed, not while it is on its way or paused, and not to the newest configuration.
func openShiftWorkers(t *testing.T, o *openShiftSite, h *siteHost) {
	first := object[mcfgv1.MachineConfigPool](t, o, "worker").Spec.Configuration.Name
	linux := o.newLinuxNode(t, "ocp-linux", first)
	before, starts := h.waitReady(t), h.kubelets.Load()
	pause := func(paused bool) {
		t.Helper()
		update(t, o, "worker", func(p *mcfgv1.MachineConfigPool) { p.Spec.Paused = paused })
	}
	pause(true) // else the node goes to the configuration with the profile only, and from there to that with all of it
	update(t, o, "cluster", func(a *configv1.APIServer) {
		a.Spec.TLSSecurityProfile = &configv1.TLSSecurityProfile{Type: configv1.TLSProfileModernType, Modern: &configv1.ModernTLSProfile{}}
	})
	eventually(t, "the pool has a configuration with the profile", func() error {
		if name := object[mcfgv1.MachineConfigPool](t, o, "worker").Spec.Configuration.Name; name == first {
			return fmt.Errorf("it is still to have %s", name)
		}
		return nil
	})
	const registry = "private.example.com"
	providers := workersFile("99-zz-providers", "/etc/kubernetes/credential-providers/ecr-credential-provider.yaml", `{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1","providers":[
		{"name":"ecr-credential-provider","matchImages":["`+registry+`"],"defaultCacheDuration":"1h","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}]}`)
	o.create(t, providers)
	kubelets := &mcfgv1.KubeletConfig{ObjectMeta: metav1.ObjectMeta{Name: "fewer-pods"}, Spec: mcfgv1.KubeletConfigSpec{
		MachineConfigPoolSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pools.operator.machineconfiguration.openshift.io/worker": ""}},
		KubeletConfig:             &runtime.RawExtension{Raw: []byte(`{"maxPods":110,"systemReserved":{"memory":"3Gi"}}`)},
	}}
	o.create(t, kubelets)
	second := ""
	eventually(t, "the pool has a configuration with all of it", func() error {
		pool := object[mcfgv1.MachineConfigPool](t, o, "worker")
		second = pool.Spec.Configuration.Name
		for _, name := range []string{"99-worker-generated-kubelet", providers.Name} {
			if !slices.ContainsFunc(pool.Spec.Configuration.Source, func(r corev1.ObjectReference) bool { return r.Name == name }) {
				return fmt.Errorf("it is rendered from %v", pool.Spec.Configuration.Source)
			}
		}
		if pool.Status.Configuration.Name != first || pool.Status.UpdatedMachineCount != 0 {
			return fmt.Errorf("its workers have %s", pool.Status.Configuration.Name)
		}
		return nil
	})
	follows := func(from, to string) {
		t.Helper()
		h.wait(t, "it says that it follows when the workers have", func(i *v1alpha1.WindowsInstance) error {
			if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionUpToDate); c == nil || !strings.Contains(c.Message, from+" to "+to+" when all workers have that") {
				return errors.New(describeConditions(i))
			}
			return nil
		})
	}
	pause(false)
	follows(first, second)
	pause(true)
	follows(first, second)
	if i := h.waitReady(t); i.Status.CurrentRevision != before.Status.CurrentRevision || h.kubelets.Load() != starts {
		t.Errorf("workers are on their way, and the host has revision %s, before %s; its kubelet was started %d times", i.Status.CurrentRevision, before.Status.CurrentRevision, h.kubelets.Load()-starts)
	}
	for _, want := range []struct {
		name, tls, memory string
		maxPods           int32
		impact            v1alpha1.ChangeImpact
		change            func()
	}{
		{second, "VersionTLS13", "3Gi", 110, v1alpha1.ImpactDrain, func() {}},
		{first, "VersionTLS12", "2Gi", 250, v1alpha1.ImpactRestart, func() {
			update(t, o, "cluster", func(a *configv1.APIServer) { a.Spec.TLSSecurityProfile = nil })
			if err := errors.Join(o.client.Delete(t.Context(), kubelets), o.client.Delete(t.Context(), providers)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		before, starts, restarts := h.waitReady(t).Status.DesiredRevision, h.kubelets.Load(), h.host.Restarts()
		want.change()
		eventually(t, "the pool is to have "+want.name, func() error {
			if name := object[mcfgv1.MachineConfigPool](t, o, "worker").Spec.Configuration.Name; name != want.name {
				return fmt.Errorf("it is to have %s", name)
			}
			return nil
		})
		pause(false)
		linux.follow(t, o, want.name)
		i := h.waitRevision(t, before)
		if op := i.Status.Operation; op.Impact != want.impact || h.kubelets.Load()-starts != 1 || h.host.Restarts() != restarts {
			t.Errorf("the impact is %q, want %q; the kubelet was started %d times, want once, and the host %d times\n%s", op.Impact, want.impact, h.kubelets.Load()-starts, h.host.Restarts()-restarts, describeSteps(op))
		}
		var kubelet kubeletv1beta1.KubeletConfiguration
		if err := json.Unmarshal([]byte(h.read(t, wmco.KubeletConfigPath)), &kubelet); err != nil {
			t.Fatal(err)
		}
		if kubelet.MaxPods != want.maxPods || kubelet.TLSMinVersion != want.tls || len(kubelet.TLSCipherSuites) == 0 || kubelet.SystemReserved["memory"] != want.memory {
			t.Errorf("the kubelet takes %d pods, has %s with %q, and reserves %v", kubelet.MaxPods, kubelet.TLSMinVersion, kubelet.TLSCipherSuites, kubelet.SystemReserved)
		}
		onAWS := o.Cloud.Platform == configv1.AWSPlatformType
		if has := strings.Contains(h.read(t, wmco.CredentialProviderPath), registry); has != (onAWS && want.name == second) {
			t.Errorf("the kubelet asks for credentials of %s: %t", registry, has)
		}
		eventually(t, "the Node takes as many pods", func() error {
			if n := h.node(t, h.get(t).Status.Node.Name).Status.Allocatable.Pods().Value(); n != int64(want.maxPods) {
				return fmt.Errorf("it takes %d", n)
			}
			return nil
		})
		pause(true) // until the next one is rendered from all that it should be
	}
	pause(false)
	if err := o.Kube.CoreV1().Nodes().Delete(t.Context(), "ocp-linux", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// workersFile is what an administrator writes to have a file on all workers.
func workersFile(name, path, content string) *mcfgv1.MachineConfig {
	config := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{openshift.RoleLabel: "worker"}}}
	config.Spec.Config.Raw = fmt.Appendf(nil, `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":%q,"overwrite":true,"contents":{"source":%q}}]}}`, path, dataurl.EncodeBytes([]byte(content)))
	return config
}

// openShiftBroken has somebody break inputs that no host can be a node without: the host names all of them, stays as it is, and goes on
// when they are repaired.
func openShiftBroken(t *testing.T, o *openShiftSite, g *guided, h *siteHost) {
	clients := o.authorities(t, openshift.ManagedNamespace, openshift.ClientCAName)
	own := workersFile("99-zz-own", "/etc/kubernetes/kubelet.conf", "tlsMinVersion: VersionTLS14\n")
	servers := o.authorities(t, openshift.ManagedNamespace, openshift.ServerCAName)
	networkType := func(kind string) func() {
		return func() {
			update(t, o, "cluster", func(n *configv1.Network) { n.Spec.NetworkType, n.Status.NetworkType = kind, kind })
		}
	}
	h.mustSayAndStay(t, []clusterInput{
		{
			name: "configuration of workers", change: func() { o.create(t, own) },
			repair: func() {
				if err := o.client.Delete(t.Context(), own); err != nil {
					t.Fatal(err)
				}
			},
			said: []string{"MachineConfig rendered-worker-", `tlsMinVersion "VersionTLS14" is not one of`, "correct the MachineConfig, KubeletConfig or profile of TLS that it comes from"},
		},
		{
			name:   "authority of the clients of kubelets",
			change: func() { o.setAuthorities(t, openshift.ManagedNamespace, openshift.ClientCAName, "none") },
			repair: func() { o.setAuthorities(t, openshift.ManagedNamespace, openshift.ClientCAName, clients) },
			said:   []string{"the CA of the clients of kubelets cannot be read: ControllerConfig machine-config-controller", "kube-apiserver-client-ca"},
		},
		{
			name:   "authority of the API server",
			change: func() { o.setAuthorities(t, openshift.ManagedNamespace, openshift.ServerCAName, "none") },
			repair: func() { o.setAuthorities(t, openshift.ManagedNamespace, openshift.ServerCAName, servers) },
			said:   []string{"the CA of the API server cannot be read: ConfigMap openshift-machine-config-operator/kubeconfig-data", "kube-apiserver-server-ca"},
		},
		{
			name: "type of the network", change: networkType("OpenShiftSDN"), repair: networkType("OVNKubernetes"),
			said: []string{`the network type of the cluster is "OpenShiftSDN"`, "migrate the cluster to OVNKubernetes"},
		},
		{
			name: "authorities of the proxy", // which the network operator writes again unless its label is off
			change: func() {
				setTrustedCA(t, o, func(c *corev1.ConfigMap) {
					delete(c.Labels, cluster.InjectTrustedCALabel)
					c.Data["ca-bundle.crt"] = "none"
				})
			},
			repair: func() {
				setTrustedCA(t, o, func(c *corev1.ConfigMap) {
					metav1.SetMetaDataLabel(&c.ObjectMeta, cluster.InjectTrustedCALabel, "true")
				})
			},
			said: []string{"/trusted-ca has no certificates below ca-bundle.crt", "its label must be config.openshift.io/inject-trusted-cabundle=true"},
		},
		deleted[operatorv1.Network](t, o, "Network.operator.openshift.io"),
	})
	proxy := object[configv1.Proxy](t, o, "cluster")
	h.mustSayAndStay(t, []clusterInput{
		{
			name: "proxy", // the network operator does not correct the status while the spec is damaged as well
			change: func() {
				update(t, o, "cluster", func(p *configv1.Proxy) { p.Spec.HTTPProxy = "proxy.example.com:3128" })
				eventually(t, "the status is damaged", func() error {
					p := object[configv1.Proxy](t, o, "cluster")
					p.Status.HTTPProxy = p.Spec.HTTPProxy
					return o.client.Status().Update(t.Context(), p)
				})
			},
			repair: func() { update(t, o, "cluster", func(p *configv1.Proxy) { p.Spec = proxy.Spec }) },
			said:   []string{"status.httpProxy of Proxy cluster cannot be used", "oc edit proxy cluster"},
		},
		{
			name: "overlay", change: func() { setOverlay(t, o, nil) },
			repair: func() {
				message := messageOf(t, h.get(t), v1alpha1.ConditionUpToDate)
				command := overlayCommand.FindString(message)
				if out, err := g.try(t, command); command == "" || err != nil {
					t.Fatalf("%q of %s: %v\n%s", command, message, err, out)
				}
			},
			said: []string{"the cluster has no hybrid networking with OVN-Kubernetes", "oc patch network.operator cluster"},
		},
		deleted[configv1.Image](t, o, "Image.config.openshift.io"),
		deletedObject(t, o, object[mcfgv1.ControllerConfig](t, o, "machine-config-controller"), "ControllerConfig machine-config-controller does not exist, which each cluster of OpenShift has"),
		deletedObject(t, o, object[mcfgv1.MachineConfigPool](t, o, "worker"), "there is no MachineConfigPool worker, which says how kubelets are configured"),
		deleted[configv1.Network](t, o, "Network"),
	})
	// The network operator writes the status of a Proxy, until which the host keeps what it has.
	h.mustSayAndStay(t, []clusterInput{deletedInfrastructure(t, o), deleted[configv1.Proxy](t, o, "Proxy")})
	if got, want := h.environment(t)["HTTPS_PROXY"], proxy.Spec.HTTPSProxy; got != want || want == "" {
		t.Errorf("HTTPS_PROXY is %q, want %q", got, want)
	}
	// Only a host that has another authority than pods have can lose it.
	before := h.waitReady(t)
	o.setAuthorities(t, openshift.ManagedNamespace, openshift.ServerCAName, servers+newAuthority(t, "kube-apiserver-lb-signer"))
	h.waitRevision(t, before.Status.DesiredRevision)
	nodes := &corev1.ConfigMap{}
	if err := o.client.Get(t.Context(), client.ObjectKey{Namespace: openshift.MachineConfigNamespace, Name: "kubeconfig-data"}, nodes); err != nil {
		t.Fatal(err)
	}
	// Other hosts would join without it, so it is said only while nothing else is wrong.
	h.mustSayAndStay(t, []clusterInput{deletedObject(t, o, nodes, "ConfigMap openshift-machine-config-operator/kubeconfig-data has no certificates below ca-bundle.crt of its binaryData, or does not exist")})
}

// overlayCommand matches the command by which a condition says how the cluster gets an overlay.
var overlayCommand = regexp.MustCompile(`oc patch network\.operator cluster --type=merge -p '[^']*'`)

// setTrustedCA changes the ConfigMap with the authorities of the cluster.
func setTrustedCA(t *testing.T, o *openShiftSite, change func(*corev1.ConfigMap)) {
	t.Helper()
	eventually(t, "the authorities are changed", func() error { // the network operator writes them, too
		config := &corev1.ConfigMap{}
		if err := o.client.Get(t.Context(), client.ObjectKey{Namespace: system.Namespace, Name: "trusted-ca"}, config); err != nil {
			return err
		}
		change(config)
		return o.client.Update(t.Context(), config)
	})
}

// deleted has somebody delete the object that each cluster of OpenShift has of a kind, and create it again as it was.
func deleted[T any, P interface {
	*T
	client.Object
}](t *testing.T, o *openShiftSite, kind string,
) clusterInput {
	t.Helper()
	return deletedObject(t, o, object[T, P](t, o, "cluster"), kind+" cluster does not exist, which each cluster of OpenShift has")
}

// deletedObject has somebody delete an object, of which hosts say something then, and create it again as it was.
func deletedObject(t *testing.T, o *openShiftSite, was client.Object, said string) clusterInput {
	t.Helper()
	return clusterInput{
		name: fmt.Sprintf("%T %s", was, was.GetName()), said: []string{said},
		change: func() {
			if err := o.client.Delete(t.Context(), was); err != nil {
				t.Fatal(err)
			}
		},
		repair: func() {
			was.SetResourceVersion("")
			was.SetUID("")
			o.create(t, was)
		},
	}
}

// deletedInfrastructure has somebody delete what the installer has written, and create it again with its status, as the condition says.
func deletedInfrastructure(t *testing.T, o *openShiftSite) clusterInput {
	t.Helper()
	was := object[configv1.Infrastructure](t, o, "cluster")
	input := deletedObject(t, o, was, "Infrastructure cluster does not exist, which each cluster of OpenShift has")
	create := input.repair
	input.repair = func() {
		status := was.Status
		create()
		eventually(t, "its status is there again", func() error {
			now := object[configv1.Infrastructure](t, o, "cluster")
			now.Status = status
			return o.client.Status().Update(t.Context(), now)
		})
	}
	return input
}

// openShiftWithout has somebody break inputs that a host can be a node without: the host keeps what it has of them and gets everything else,
// another one joins without them, and both have them when they are repaired.
func openShiftWithout(t *testing.T, o *openShiftSite, h *siteHost, cloud string) {
	const administrators, clusters = "registry.example.com..5000", "image-registry.openshift-image-registry.svc..5000"
	setRegistry := func(namespace, name, key, authority string) (before string) {
		t.Helper()
		registries := &corev1.ConfigMap{}
		if err := o.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, registries); err != nil {
			t.Fatal(err)
		}
		before, registries.Data[key] = registries.Data[key], authority
		if err := o.client.Update(t.Context(), registries); err != nil {
			t.Fatal(err)
		}
		return before
	}
	const mirrors = wmco.RegistriesDir + `\quay.example.com\hosts.toml`
	h.waitReady(t)
	had, starts := h.read(t, mirrors), h.kubelets.Load()
	good := setRegistry(openshift.ConfigNamespace, "registry-cas", administrators, "none")
	own := setRegistry(openshift.ManagedNamespace, openshift.RegistryCAName, clusters, "none")
	if err := o.client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: openshift.ConfigNamespace, Name: "pull-secret"}}); err != nil {
		t.Fatal(err)
	}
	h.wait(t, "it says what is broken", func(i *v1alpha1.WindowsInstance) error {
		c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionUpToDate)
		if c == nil || c.Status != metav1.ConditionTrue {
			return errors.New(describeConditions(i))
		}
		return mustHave(c.Message, "goes on to trust all authorities that it has", "hosts cannot be given the authorities of registry.example.com:5000: ControllerConfig machine-config-controller",
			"correct key registry.example.com..5000 of the ConfigMap in namespace openshift-config",
			"hosts cannot be given the authorities of image-registry.openshift-image-registry.svc:5000", "it comes from key "+clusters+" of ConfigMap openshift-config-managed/image-registry-ca", "the host goes on with the credentials and mirrors that it has", "Secret openshift-config/pull-secret does not exist")
	})
	clients := o.authorities(t, openshift.ManagedNamespace, openshift.ClientCAName) + newAuthority(t, "kube-apiserver-to-kubelet-signer")
	o.setAuthorities(t, openshift.ManagedNamespace, openshift.ClientCAName, clients)
	eventually(t, "another authority of the clients of kubelets reaches the host all the same", func() error { return mustBe(h.read(t, wmco.KubeletCAPath), clients) })

	// What another host joins with is not changed while it does: it has nothing to lose only then.
	h.wait(t, "nothing more changes", func(i *v1alpha1.WindowsInstance) error {
		c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionUpToDate)
		if c == nil || c.Status != metav1.ConditionTrue || i.Status.Operation.Active() || i.Status.CurrentRevision != i.Status.DesiredRevision {
			return fmt.Errorf("%s\n%s", describeConditions(i), describeOperation(i))
		}
		return nil
	})
	other := o.newHost(t, system.Namespace, "ocp-other", winhost.Options{Metadata: winhost.Metadata{Cloud: cloud, Hostname: "ocp-other.example.internal"}})
	o.addEntry(t, other)
	joined := other.waitReady(t)
	mustSay(t, messageOf(t, joined, v1alpha1.ConditionUpToDate), "does without it: hosts cannot be given the authorities of registry.example.com:5000")
	if step := joined.Status.Operation.FindStep(v1alpha1.StepVerify); step == nil || strings.Contains(step.Message, "configured again") {
		t.Errorf("it has joined and is not as it should be:\n%s", describeOperation(joined))
	}
	for _, authority := range []string{good, own} {
		if err := other.trusts(t, authority); err == nil {
			t.Error("it trusts what cannot be read")
		}
	}
	if _, err := other.exporterCertificate(t); err == nil {
		t.Error("it serves metrics without a certificate")
	}
	if err := errors.Join(h.trusts(t, good), h.trusts(t, own), mustBe(h.read(t, mirrors), had), mustHave(had, "Basic ")); err != nil {
		t.Errorf("the host has lost what cannot be read: %v", err)
	}

	setRegistry(openshift.ConfigNamespace, "registry-cas", administrators, good)
	setRegistry(openshift.ManagedNamespace, openshift.RegistryCAName, clusters, own)
	update(t, o, "cluster", func(image *configv1.Image) {
		sources := &image.Spec.RegistrySources // one of the two lists only
		sources.BlockedRegistries, sources.AllowedRegistries = nil, []string{"quay.example.com", "registry.example.com", "mcr.microsoft.com"}
	})
	o.setPullSecret(t, `{"auths":{"registry.example.com":{"auth":"dXNlcjpwYXNzd29yZA=="}}}`)
	if _, err := o.Kubectl(t.Context(), "apply", "-f", filepath.Join("..", "..", "artifacts", "openshift", "exporter.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, host := range []*siteHost{h, other} {
		eventually(t, "it has what can be read again", func() error {
			return errors.Join(host.trusts(t, good), host.trusts(t, own), mustHave(host.read(t, mirrors), "Basic dXNlcjpwYXNzd29yZA=="))
		})
		eventually(t, "it pulls from the registries only that are allowed", func() error {
			others := mustHave(host.read(t, wmco.RegistriesDir+`\_default\hosts.toml`), `capabilities = ["push"]`)
			return errors.Join(others, mustBe(host.read(t, wmco.RegistriesDir+`\ghcr.io\hosts.toml`), ""))
		})
		host.waitReady(t)
		eventually(t, "it serves metrics with the new certificate", func() error {
			secret, err := o.Kube.CoreV1().Secrets(system.Namespace).Get(t.Context(), cluster.ExporterSecret, metav1.GetOptions{})
			if err != nil {
				return err
			}
			now, err := host.exporterCertificate(t)
			if err != nil {
				return err
			}
			return mustHave(string(secret.Data[corev1.TLSCertKey]), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: now.Raw})))
		})
	}
	// The service CA does not leave it in the Secret that nobody wants metrics, so the Service says it.
	annotation := v1alpha1.MetricsAnnotation
	for _, change := range []string{annotation + "=none", annotation + "-"} {
		if _, err := o.Kubectl(t.Context(), "annotate", "service", exporterName, "-n", system.Namespace, change); err != nil {
			t.Fatal(err)
		}
		for _, host := range []*siteHost{h, other} {
			eventually(t, "it follows "+change, func() error {
				if _, err := host.exporterCertificate(t); (err == nil) != strings.HasSuffix(change, "-") {
					return fmt.Errorf("serving metrics: %w", err)
				}
				return nil
			})
			host.waitReady(t)
		}
	}
	if n := h.kubelets.Load() - starts; n != 0 {
		t.Errorf("the kubelet was started %d times", n)
	}
}

// addEntry adds a host to the ConfigMap.
func (o *openShiftSite) addEntry(t *testing.T, h *siteHost) {
	t.Helper()
	source := &corev1.ConfigMap{}
	if err := o.client.Get(t.Context(), client.ObjectKey{Namespace: system.Namespace, Name: sourceName}, source); err != nil {
		t.Fatal(err)
	}
	source.Data[h.host.Address()] = entryFor(h.host, "name="+h.name)
	if err := o.client.Update(t.Context(), source); err != nil {
		t.Fatal(err)
	}
}

// mustSayAndStay breaks inputs and repairs them: the host says what of each is wrong, and is not touched
// before they are repaired.
func (h *siteHost) mustSayAndStay(t *testing.T, inputs []clusterInput) {
	t.Helper()
	before, starts := h.waitReady(t), h.kubelets.Load()
	for _, input := range inputs {
		input.change()
	}
	h.wait(t, "it says what is broken", func(i *v1alpha1.WindowsInstance) error {
		c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionUpToDate)
		if c == nil || c.Reason != v1alpha1.ReasonInputsMissing {
			return errors.New(describeConditions(i))
		}
		for _, input := range inputs {
			if err := mustHave(c.Message, input.said...); err != nil {
				return fmt.Errorf("%s: %w", input.name, err)
			}
		}
		return nil
	})
	if i := h.get(t); i.Status.CurrentRevision != before.Status.CurrentRevision || i.Status.Operation.ID != before.Status.Operation.ID || h.kubelets.Load() != starts {
		t.Errorf("the host was touched: %s\n%s", describeConditions(i), describeOperation(i))
	}
	for _, input := range inputs {
		input.repair()
	}
	h.wait(t, "it goes on", func(i *v1alpha1.WindowsInstance) error {
		if !meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionUpToDate) {
			return errors.New(describeConditions(i))
		}
		return nil
	})
	h.waitReady(t)
	if h.kubelets.Load() != starts {
		t.Errorf("the kubelet was started %d times", h.kubelets.Load()-starts)
	}
}

// linuxNode is a worker of OpenShift's own, whose daemon the test plays.
type linuxNode struct{ name string }

func (o *openShiftSite) newLinuxNode(t *testing.T, name, config string) linuxNode {
	t.Helper()
	o.create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"node-role.kubernetes.io/worker": "", corev1.LabelOSStable: "linux"},
		Annotations: map[string]string{openshift.CurrentConfigAnnotation: config, openshift.DesiredConfigAnnotation: config},
	}})
	eventually(t, "the pool has that Node", func() error {
		if n := object[mcfgv1.MachineConfigPool](t, o, "worker").Status.MachineCount; n != 1 {
			return fmt.Errorf("it has %d", n)
		}
		return nil
	})
	return linuxNode{name}
}

// follow waits until the Node should have a configuration, and says that it has.
func (n linuxNode) follow(t *testing.T, o *openShiftSite, config string) {
	t.Helper()
	eventually(t, "the Linux Node should have "+config, func() error {
		node, err := o.Kube.CoreV1().Nodes().Get(t.Context(), n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := node.Annotations[openshift.DesiredConfigAnnotation]; got != config {
			return fmt.Errorf("it should have %s", got)
		}
		node.Annotations[openshift.CurrentConfigAnnotation] = config
		return o.client.Update(t.Context(), node)
	})
}

// authorities are those of a ConfigMap.
func (o *openShiftSite) authorities(t *testing.T, namespace, name string) string {
	t.Helper()
	config := &corev1.ConfigMap{}
	if err := o.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, config); err != nil {
		t.Fatal(err)
	}
	return config.Data["ca-bundle.crt"]
}

// setAuthorities changes those of a ConfigMap.
func (o *openShiftSite) setAuthorities(t *testing.T, namespace, name, bundle string) {
	t.Helper()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"ca-bundle.crt": bundle}}
	if err := o.client.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// setPullSecret changes the pull secret, or makes it.
func (o *openShiftSite) setPullSecret(t *testing.T, text string) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: openshift.ConfigNamespace, Name: "pull-secret"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(text)},
	}
	err := o.client.Update(t.Context(), secret)
	if err != nil && client.IgnoreNotFound(err) == nil {
		err = o.client.Create(t.Context(), secret)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// trusts returns nil if the host trusts the authority.
func (h *siteHost) trusts(t *testing.T, authority string) error {
	t.Helper()
	block, _ := pem.Decode([]byte(authority))
	digest := sha256.Sum256(block.Bytes)
	if name := "Certificates: root/" + hex.EncodeToString(digest[:]); settingsOf(t, h.local(t, `C:\`)+".json")[name] != "true" {
		return fmt.Errorf("it has no %s", name)
	}
	return nil
}

// mustBe returns an error unless a text is another one.
func mustBe(got, want string) error {
	if got != want {
		return fmt.Errorf("it is\n%s\nwant\n%s", got, want)
	}
	return nil
}

// mustHave returns an error unless a text has all parts.
func mustHave(text string, parts ...string) error {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return fmt.Errorf("there is no %q in\n%s", part, text)
		}
	}
	return nil
}
