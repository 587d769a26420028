// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	ignition "github.com/coreos/ignition/v2/config/v3_5/types"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// renderInputs are those of a cluster in which nobody has set anything.
func renderInputs() machineConfigInputs {
	o := Cluster{Platform: configv1.NonePlatformType, APIServerURL: "https://api-int.demo.example.com:6443", ServiceNetwork: "172.30.0.0/16", DNS: "172.30.0.53"}
	return machineConfigInputs{
		platform: o.Platform, controller: o.controllerConfig(), apiServer: &configv1.APIServer{}, image: &configv1.Image{},
		pools: []mcfgv1.MachineConfigPool{*newPool(masterRole), *newPool(workerRole)},
	}
}

// kubeletConfig is one for a pool, with settings as JSON.
func kubeletConfig(name, pool, settings string) mcfgv1.KubeletConfig {
	k := mcfgv1.KubeletConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	k.Spec.MachineConfigPoolSelector = &metav1.LabelSelector{MatchLabels: map[string]string{poolLabel + pool: ""}}
	if settings != "" {
		k.Spec.KubeletConfig = &runtime.RawExtension{Raw: []byte(settings)}
	}
	return k
}

// ownConfig is a MachineConfig of an administrator with one file.
func ownConfig(t *testing.T, name, role, path, content string) mcfgv1.MachineConfig {
	t.Helper()
	raw, err := encode(configOf(map[string]ignition.Resource{path: base64(content)}))
	if err != nil {
		t.Fatal(err)
	}
	config := mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{RoleLabel: role}}}
	config.Spec.Config.Raw = raw
	return config
}

// fileOf is the content of a file of a rendered configuration.
func fileOf(t *testing.T, config *mcfgv1.MachineConfig, path string) string {
	t.Helper()
	var c ignition.Config
	if err := json.Unmarshal(config.Spec.Config.Raw, &c); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.Storage.Files, func(f ignition.File) bool { return f.Path == path })
	if i < 0 {
		t.Fatalf("there is no file %s", path)
	}
	content, err := dataurl.DecodeString(ptr.Deref(c.Storage.Files[i].Contents.Source, ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(content.Data)
}

// settingsIn are the lines of kubelet.conf.
func settingsIn(t *testing.T, config *mcfgv1.MachineConfig) map[string]any {
	t.Helper()
	settings := map[string]any{}
	if err := yaml.Unmarshal([]byte(fileOf(t, config, kubeletConfPath)), &settings); err != nil {
		t.Fatal(err)
	}
	return settings
}

func TestRenderKubelets(t *testing.T) {
	profile := func(kind configv1.TLSProfileType) *configv1.TLSSecurityProfile {
		return &configv1.TLSSecurityProfile{Type: kind}
	}
	custom := profile(configv1.TLSProfileCustomType)
	custom.Custom = &configv1.CustomTLSProfile{TLSProfileSpec: configv1.TLSProfileSpec{MinTLSVersion: configv1.VersionTLS11, Ciphers: []string{"ECDHE-RSA-AES128-GCM-SHA256", "NO-SUCH-CIPHER"}}}
	for name, tt := range map[string]struct {
		change func(in *machineConfigInputs)
		pool   string
		want   map[string]any
	}{
		"nobody has set anything": {nil, workerRole, map[string]any{"maxPods": 250.0, "clusterDNS": []any{"172.30.0.53"}, "tlsMinVersion": "VersionTLS12", "containerLogMaxSize": "50Mi"}},
		"a setting, and the others as they are": {func(in *machineConfigInputs) {
			in.kubelets = []mcfgv1.KubeletConfig{kubeletConfig("pods", workerRole, `{"maxPods":110,"evictionHard":{"nodefs.available":"12%"}}`)}
		}, workerRole, map[string]any{"maxPods": 110.0, "containerLogMaxSize": "50Mi", "evictionHard": map[string]any{"nodefs.available": "12%"}}},
		"one of another pool": {func(in *machineConfigInputs) {
			in.kubelets = []mcfgv1.KubeletConfig{kubeletConfig("pods", masterRole, `{"maxPods":110}`)}
		}, workerRole, map[string]any{"maxPods": 250.0}},
		"of two the later one, as a whole": {func(in *machineConfigInputs) {
			in.kubelets = []mcfgv1.KubeletConfig{kubeletConfig("b", workerRole, `{"kubeAPIQPS":7}`), kubeletConfig("a", workerRole, `{"maxPods":110}`)}
		}, workerRole, map[string]any{"maxPods": 250.0, "kubeAPIQPS": 7.0}},
		"what is reserved is elsewhere": {func(in *machineConfigInputs) {
			in.kubelets = []mcfgv1.KubeletConfig{kubeletConfig("a", workerRole, `{"systemReserved":{"cpu":"2"}}`)}
		}, workerRole, map[string]any{"systemReserved": nil}},
		"one that is refused": {func(in *machineConfigInputs) {
			in.kubelets = []mcfgv1.KubeletConfig{kubeletConfig("a", workerRole, `{"maxPods":110,"clusterDNS":["10.0.0.10"]}`)}
		}, workerRole, map[string]any{"maxPods": 250.0, "clusterDNS": []any{"172.30.0.53"}}},
		"the profile of TLS of the cluster": {func(in *machineConfigInputs) {
			in.apiServer.Spec.TLSSecurityProfile = profile(configv1.TLSProfileModernType)
		}, workerRole,
			map[string]any{"tlsMinVersion": "VersionTLS13", "tlsCipherSuites": []any{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}}},
		"its own profile wins": {func(in *machineConfigInputs) {
			in.apiServer.Spec.TLSSecurityProfile = profile(configv1.TLSProfileModernType)
			k := kubeletConfig("tls", workerRole, "")
			k.Spec.TLSSecurityProfile = custom
			in.kubelets = []mcfgv1.KubeletConfig{k}
		}, workerRole, map[string]any{"tlsMinVersion": "VersionTLS11", "tlsCipherSuites": []any{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}}},
		"a profile without content is the default": {func(in *machineConfigInputs) {
			in.apiServer.Spec.TLSSecurityProfile = profile(configv1.TLSProfileCustomType)
		}, workerRole,
			map[string]any{"tlsMinVersion": "VersionTLS12"}},
		"a file of an administrator wins": {func(in *machineConfigInputs) {
			in.configs = []mcfgv1.MachineConfig{ownConfig(t, "99-zz", workerRole, kubeletConfPath, "maxPods: 5")}
		}, workerRole, map[string]any{"maxPods": 5.0}},
		"not one with an earlier name": {func(in *machineConfigInputs) {
			in.configs = []mcfgv1.MachineConfig{ownConfig(t, "50-early", workerRole, kubeletConfPath, "maxPods: 5")}
		}, workerRole, map[string]any{"maxPods": 250.0}},
		"what a custom pool takes of its own wins": {func(in *machineConfigInputs) {
			in.pools = append(in.pools, *CustomPool("gpu"))
			in.kubelets = []mcfgv1.KubeletConfig{kubeletConfig("a", "gpu", `{"maxPods":30}`), kubeletConfig("b", workerRole, `{"maxPods":110}`)}
		}, "gpu", map[string]any{"maxPods": 30.0}},
	} {
		t.Run(name, func(t *testing.T) {
			in := renderInputs()
			if tt.change != nil {
				tt.change(&in)
			}
			out, err := render(in)
			if err != nil {
				t.Fatal(err)
			}
			got := settingsIn(t, out.rendered[tt.pool])
			for setting, want := range tt.want {
				if a, b := mustJSON(t, got[setting]), mustJSON(t, want); a != b {
					t.Errorf("%s is %s, want %s", setting, a, b)
				}
			}
		})
	}
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// As many suites as the controllers of a real cluster write for each profile.
func TestRenderProfiles(t *testing.T) {
	for profile, want := range map[configv1.TLSProfileType]int{configv1.TLSProfileOldType: 21, configv1.TLSProfileIntermediateType: 9, configv1.TLSProfileModernType: 3} {
		if _, suites := TLSSettings(&configv1.TLSSecurityProfile{Type: profile}); len(suites) != want {
			t.Errorf("%s has %d suites, want %d: %q", profile, len(suites), want, suites)
		}
	}
}

// What is rendered has the name of its pool and of its content: what is taken back has its former name.
func TestRenderNames(t *testing.T) {
	in := renderInputs()
	in.pools = append(in.pools, *CustomPool("worker-gpu"))
	names := func() map[string]string {
		t.Helper()
		out, err := render(in)
		if err != nil {
			t.Fatal(err)
		}
		of := map[string]string{}
		for pool, config := range out.rendered {
			of[pool] = config.Name
			if !regexp.MustCompile("^rendered-"+pool+"-[0-9a-f]{32}$").MatchString(config.Name) || config.Annotations[generatedAnnotation] == "" || config.Annotations[releaseAnnotation] == "" {
				t.Errorf("pool %s has %+v", pool, config.ObjectMeta)
			}
			if !slices.Contains(out.sources[pool], "01-worker-kubelet") && pool != masterRole {
				t.Errorf("pool %s is rendered from %q", pool, out.sources[pool])
			}
		}
		return of
	}
	first := names()
	in.kubelets = []mcfgv1.KubeletConfig{kubeletConfig("pods", workerRole, `{"maxPods":110}`)}
	// Each pool has all of kubelet.conf of its own, so a KubeletConfig of the workers says nothing to a custom one.
	if got := names(); got[workerRole] == first[workerRole] || got["worker-gpu"] != first["worker-gpu"] || got[masterRole] != first[masterRole] {
		t.Errorf("with a KubeletConfig of workers the names are %v, before %v", got, first)
	}
	in.kubelets, in.configs = nil, []mcfgv1.MachineConfig{ownConfig(t, "50-own", workerRole, "/etc/own", "own")}
	second := names()
	if second[workerRole] == first[workerRole] || second["worker-gpu"] == first["worker-gpu"] || second[masterRole] != first[masterRole] {
		t.Errorf("after a change for workers the names are %v, before %v", second, first)
	}
	in.configs = nil
	if got := names(); !maps.Equal(got, first) {
		t.Errorf("what was taken back is %v, want %v", got, first)
	}
}

// A MachineConfig that cannot be merged leaves its pool as it is, and no other one.
func TestRenderDamaged(t *testing.T) {
	in := renderInputs()
	damaged := ownConfig(t, "99-own", workerRole, "/etc/own", "")
	damaged.Spec.Config.Raw = []byte(`{"ignition":{"version":"9.0.0"}}`)
	in.configs = []mcfgv1.MachineConfig{damaged}
	out, err := render(in)
	if err == nil || !strings.Contains(err.Error(), "99-own") || out.rendered[workerRole] != nil || out.rendered[masterRole] == nil {
		t.Errorf("got %v and %v", out.rendered, err)
	}
}

func TestRenderFiles(t *testing.T) {
	in := renderInputs()
	in.controller.Spec.Proxy = &configv1.ProxyStatus{HTTPProxy: "http://proxy.example.com:3128"}
	in.controller.Spec.AdditionalTrustBundle = []byte("authorities")
	in.image.Spec.RegistrySources = configv1.RegistrySources{InsecureRegistries: []string{"plain.example.com"}, BlockedRegistries: []string{"bad.example.com"}}
	in.digests = []configv1.ImageDigestMirrorSet{{Spec: configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: []configv1.ImageDigestMirrors{{Source: "quay.io/a", Mirrors: []configv1.ImageMirror{"mirror.example.com/a"}}}}}}
	in.pullSecret = []byte(`{"auths":{"a":{}}}`)
	k := kubeletConfig("a", workerRole, `{"systemReserved":{"cpu":"2"}}`)
	k.Spec.LogLevel = ptr.To[int32](5)
	in.kubelets = []mcfgv1.KubeletConfig{k}
	out, err := render(in)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		"/etc/mco/proxy.env":              {"HTTP_PROXY=http://proxy.example.com:3128"},
		"/etc/containers/registries.conf": {`location = "mirror.example.com/a"`, "digest-only", "insecure = true", "blocked = true"},
		"/var/lib/kubelet/config.json":    {string(in.pullSecret)},
		nodeSizingPath:                    {"NODE_SIZING_ENABLED=false", "SYSTEM_RESERVED_CPU=2", "SYSTEM_RESERVED_MEMORY=1Gi"},
		"/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt": {"authorities"},
		"/etc/systemd/system/kubelet.service.d/20-logging.conf":                {"KUBELET_LOG_LEVEL=5"},
	} {
		for _, part := range want {
			if got := fileOf(t, out.rendered[workerRole], path); !strings.Contains(got, part) {
				t.Errorf("%s has no %q: %s", path, part, got)
			}
		}
	}
}

// TestRenderNodeSizing: what a KubeletConfig says of the reservation is in the file of workers as the Machine Config Operator writes it.
func TestRenderNodeSizing(t *testing.T) {
	for name, tt := range map[string]struct {
		computed *bool
		settings string
		want     string
	}{
		"nothing":        {nil, `{"maxPods":100}`, "NODE_SIZING_ENABLED=true\nSYSTEM_RESERVED_MEMORY=1Gi\nSYSTEM_RESERVED_CPU=500m\nSYSTEM_RESERVED_ES=1Gi\n"},
		"computed":       {ptr.To(true), "", "NODE_SIZING_ENABLED=true\nSYSTEM_RESERVED_MEMORY=1Gi\nSYSTEM_RESERVED_CPU=500m\nSYSTEM_RESERVED_ES=1Gi\n"},
		"not computed":   {ptr.To(false), "", "NODE_SIZING_ENABLED=false\nSYSTEM_RESERVED_MEMORY=1Gi\nSYSTEM_RESERVED_CPU=500m\nSYSTEM_RESERVED_ES=1Gi\n"},
		"a part of it":   {nil, `{"systemReserved":{"cpu":"2"}}`, "NODE_SIZING_ENABLED=false\nSYSTEM_RESERVED_MEMORY=1Gi\nSYSTEM_RESERVED_CPU=2\nSYSTEM_RESERVED_ES=1Gi\n"},
		"a part and not": {ptr.To(false), `{"systemReserved":{"memory":"3Gi"}}`, "NODE_SIZING_ENABLED=false\nSYSTEM_RESERVED_MEMORY=3Gi\nSYSTEM_RESERVED_CPU=500m\nSYSTEM_RESERVED_ES=1Gi\n"},
	} {
		in := renderInputs()
		k := kubeletConfig("a", workerRole, tt.settings)
		k.Spec.AutoSizingReserved = tt.computed
		in.kubelets = []mcfgv1.KubeletConfig{k}
		out, err := render(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := fileOf(t, out.rendered[workerRole], nodeSizingPath); got != tt.want {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
}

func TestRefusedKubeletConfigs(t *testing.T) {
	automatic := kubeletConfig("automatic", workerRole, `{"systemReserved":{"cpu":"2"}}`)
	automatic.Spec.AutoSizingReserved = ptr.To(true)
	for _, tt := range []struct {
		kubelet mcfgv1.KubeletConfig
		want    string
	}{
		{kubeletConfig("dns", workerRole, `{"clusterDNS":["10.0.0.1"]}`), "clusterDNS is not allowed to be set"},
		{kubeletConfig("gates", workerRole, `{"featureGates":{"A":true}}`), "featureGates is not allowed to be set"},
		{kubeletConfig("type", workerRole, `{"maxPods":"many"}`), "could not be unmarshalled"},
		{kubeletConfig("pool", "none", `{"maxPods":3}`), "does not match any MachineConfigPools"},
		{automatic, "cannot be set together"},
		{kubeletConfig("good", workerRole, `{"maxPods":3}`), ""},
	} {
		in := renderInputs()
		in.kubelets = []mcfgv1.KubeletConfig{tt.kubelet}
		out, err := render(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := out.refused[tt.kubelet.Name]; !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s is refused: %q, want %q", tt.kubelet.Name, got, tt.want)
		}
	}
}
