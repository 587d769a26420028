// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	ignition "github.com/coreos/ignition/v2/config/v3_5/types"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfigv1 "k8s.io/kubelet/config/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/openshift"
)

// kubeletOf is how the kubelet of a host is configured.
func kubeletOf(t *testing.T, in *cluster.Snapshot) (kubeletv1beta1.KubeletConfiguration, []string) {
	t.Helper()
	summary := summarize(t, in, cluster.Host{Instance: instance()})
	var c kubeletv1beta1.KubeletConfiguration
	if err := json.Unmarshal([]byte(summary.Files[wmco.KubeletConfigPath]), &c); err != nil {
		t.Fatal(err)
	}
	return c, summary.Warnings
}

// TestWorkersOnTheirWay: hosts follow a change when all workers have it, so that one that breaks a worker, is taken back, or is
// stopped on its way by a pause changes no host.
func TestWorkersOnTheirWay(t *testing.T) {
	const next = "rendered-worker-11111111111111111111111111111111"
	following := "the host follows MachineConfigPool worker from MachineConfig " + renderedWorker + " to " + next + " when all workers have that: oc get machineconfigpool worker"
	rendered := func(settings map[string]any) client.Object {
		config := workers(openshift.Worker{Platform: configv1.VSpherePlatformType, KubeletConfig: settings})
		config.Name = next
		return config
	}
	fewer := rendered(map[string]any{"maxPods": 111})
	for _, tt := range []struct {
		name         string
		next         client.Object
		spec, status string
		paused       bool
		maxPods      int32
		warns        string
	}{
		{"no worker has any", fewer, next, "", false, 111, ""},
		{"no worker has any, paused", fewer, next, "", true, 111, ""},
		{"on their way", fewer, next, renderedWorker, false, 250, following},
		{"paused on their way", fewer, next, renderedWorker, true, 250, following},
		{"all have it", fewer, next, next, false, 111, ""},
		{"all have it, paused", fewer, next, next, true, 111, ""},
		{"taken back on their way", fewer, renderedWorker, renderedWorker, false, 250, ""},
		{"a change that means nothing for hosts", rendered(nil), next, renderedWorker, false, 250, ""},
		{"a change that no kubelet would start with", rendered(map[string]any{"maxPods": -1}), next, renderedWorker, false, 250, "MachineConfig " + next + ", which MachineConfigPool worker is on its way to, cannot be used for hosts (file /etc/kubernetes/kubelet.conf: maxPods -1 is negative)"},
		{"a change that is not there", fewer, "rendered-worker-none", renderedWorker, false, 250, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
			pool.Spec.Paused, pool.Spec.Configuration.Name, pool.Status.Configuration.Name = tt.paused, tt.spec, tt.status
			kubelet, warnings := kubeletOf(t, read(t, settings(), append(replaced(openShiftCluster(), pool), tt.next)))
			if kubelet.MaxPods != tt.maxPods {
				t.Errorf("it takes %d pods, want %d", kubelet.MaxPods, tt.maxPods)
			}
			about := slices.DeleteFunc(warnings, func(w string) bool { return !strings.Contains(w, "MachineConfigPool") })
			if got := strings.Join(about, "\n"); !strings.HasPrefix(got, tt.warns) || (got == "") != (tt.warns == "") {
				t.Errorf("it warns %q, want %q", got, tt.warns)
			}
		})
	}
}

// TestProfilesOfTLS: each profile of the cluster reaches the kubelets of hosts, as those of workers have it.
func TestProfilesOfTLS(t *testing.T) {
	custom := func(version configv1.TLSProtocolVersion, ciphers ...string) *configv1.TLSSecurityProfile {
		return &configv1.TLSSecurityProfile{Type: configv1.TLSProfileCustomType, Custom: &configv1.CustomTLSProfile{
			TLSProfileSpec: configv1.TLSProfileSpec{MinTLSVersion: version, Ciphers: ciphers},
		}}
	}
	for name, tt := range map[string]struct {
		profile *configv1.TLSSecurityProfile
		version string
		suites  int
		has     string
	}{
		"none":         {nil, "VersionTLS12", 9, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"},
		"Old":          {&configv1.TLSSecurityProfile{Type: configv1.TLSProfileOldType}, "VersionTLS10", 21, "TLS_RSA_WITH_3DES_EDE_CBC_SHA"},
		"Intermediate": {&configv1.TLSSecurityProfile{Type: configv1.TLSProfileIntermediateType}, "VersionTLS12", 9, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
		"Modern":       {&configv1.TLSSecurityProfile{Type: configv1.TLSProfileModernType}, "VersionTLS13", 3, "TLS_CHACHA20_POLY1305_SHA256"},
		"Custom":       {custom(configv1.VersionTLS11, "ECDHE-RSA-AES128-GCM-SHA256", "AES256-SHA"), "VersionTLS11", 2, "TLS_RSA_WITH_AES_256_CBC_SHA"},
	} {
		t.Run(name, func(t *testing.T) {
			version, suites := openshift.TLSSettings(tt.profile)
			kubelet, warnings := kubeletOf(t, read(t, settings(), replaced(openShiftCluster(), workers(openshift.Worker{
				Platform: configv1.VSpherePlatformType, KubeletConfig: map[string]any{"tlsMinVersion": version, "tlsCipherSuites": suites},
			}))))
			if kubelet.TLSMinVersion != tt.version || len(kubelet.TLSCipherSuites) != tt.suites || !slices.Contains(kubelet.TLSCipherSuites, tt.has) {
				t.Errorf("it has %s and %q", kubelet.TLSMinVersion, kubelet.TLSCipherSuites)
			}
			if said := strings.Join(warnings, "\n"); strings.Contains(said, "cipher") {
				t.Errorf("it warns %s", said)
			}
		})
	}
	kubelet, warnings := kubeletOf(t, read(t, settings(), replaced(openShiftCluster(), workers(openshift.Worker{
		Platform: configv1.VSpherePlatformType, KubeletConfig: map[string]any{"tlsCipherSuites": []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_OF_TOMORROW"}},
	}))))
	if want := "MachineConfig " + renderedWorker + ": the kubelets of hosts do without the cipher suite TLS_OF_TOMORROW, which they do not know"; len(kubelet.TLSCipherSuites) != 1 || !slices.Contains(warnings, want) {
		t.Errorf("it has %q and warns %q", kubelet.TLSCipherSuites, warnings)
	}
}

// TestCredentialProviders: a kubelet does not start with a program that is not there, so hosts have the one that the payload
// has, as workers have it, and the others are named.
func TestCredentialProviders(t *testing.T) {
	const ecr, own = `{name: ecr-credential-provider, apiVersion: credentialprovider.kubelet.k8s.io/v1, defaultCacheDuration: 12h, matchImages: ["registry.example.com"], args: [get-credentials]}`,
		`{name: own-provider, apiVersion: credentialprovider.kubelet.k8s.io/v1, defaultCacheDuration: 1m, matchImages: ["own.example.com", "*.own.example.com"]}`
	const named = "Windows hosts do not run own-provider, which workers run (MachineConfig " + renderedWorker + "): images of own.example.com, *.own.example.com are pulled there without credentials of the platform; name a pull secret"
	for _, tt := range []struct {
		name      string
		platform  configv1.PlatformType
		providers string
		images    string // of the one provider that hosts have. Empty: they have none
		warns     string
	}{
		{"one", configv1.AWSPlatformType, ecr, "registry.example.com", ""},
		{"a second one", configv1.AWSPlatformType, ecr + ", " + own, "registry.example.com", named},
		{"a second one before it", configv1.AWSPlatformType, own + ", " + ecr, "registry.example.com", named},
		{"another one alone", configv1.AWSPlatformType, own, "*.dkr.ecr.*.amazonaws.com", named},
		{"that of another platform", configv1.AzurePlatformType, ecr, "", "Windows hosts do not run ecr-credential-provider, which workers run"},
		{"another one on another platform", configv1.GCPPlatformType, own, "", named},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]ignition.Resource{}
			text := "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1\nproviders: [" + tt.providers + "]\n"
			for _, program := range []string{"ecr", "acr", "gcr"} {
				files["/etc/kubernetes/credential-providers/"+program+"-credential-provider.yaml"] = ignition.Resource{Source: ptr.To(dataurl.EncodeBytes([]byte(text)))}
			}
			s := settings()
			s.Payloads[0].Files = append(s.Payloads[0].Files, payload.File{
				Slot:    payload.Slot{Name: "ecr-credential-provider.exe", Path: `C:\k\ecr-credential-provider.exe`, Role: payload.RoleCredentialProvider},
				Content: payload.Content{Size: 1, SHA256: strings.Repeat("0", 64)},
			})
			got := summarize(t, read(t, s, replaced(openShiftClusterOn(tt.platform), workers(openshift.Worker{Platform: tt.platform, ExtraFiles: files}))), cluster.Host{Instance: instance()})
			var c kubeletconfigv1.CredentialProviderConfig
			if err := yaml.Unmarshal([]byte(got.Files[wmco.CredentialProviderPath]), &c); err != nil {
				t.Fatal(err)
			}
			var programs, images string
			for i := range c.Providers {
				programs, images = programs+c.Providers[i].Name, c.Providers[i].MatchImages[0]
			}
			if want := map[bool]string{true: "ecr-credential-provider.exe"}[tt.images != ""]; programs != want || images != tt.images {
				t.Errorf("it has %q for %q, want %q for %q", programs, images, want, tt.images)
			}
			about := strings.Join(slices.DeleteFunc(got.Warnings, func(w string) bool { return !strings.Contains(w, "do not run") }), "\n")
			if !strings.HasPrefix(about, tt.warns) || (about == "") != (tt.warns == "") {
				t.Errorf("it warns %q, want %q", about, tt.warns)
			}
		})
	}
}
