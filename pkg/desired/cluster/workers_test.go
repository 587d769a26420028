// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
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
