// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machineconfig_test

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	ignition "github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/vincent-petithory/dataurl"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cliflag "k8s.io/component-base/cli/flag"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/openshift/windows-instance-api/pkg/desired/machineconfig"
	"github.com/openshift/windows-instance-api/test/openshift"
)

// render returns the configuration of a worker, edited.
func render(t *testing.T, w openshift.Worker, edit ...func(*ignition.Config)) []byte {
	t.Helper()
	raw, err := w.Ignition()
	if err != nil {
		t.Fatal(err)
	}
	var config ignition.Config
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	for _, e := range edit {
		e(&config)
	}
	if raw, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	return raw
}

// unit returns the unit of the kubelet.
func unit(c *ignition.Config) *ignition.Unit {
	for i := range c.Systemd.Units {
		if c.Systemd.Units[i].Name == "kubelet.service" {
			return &c.Systemd.Units[i]
		}
	}
	panic("there is no such unit")
}

func file(path, source string) ignition.File {
	return ignition.File{Node: ignition.Node{Path: path}, FileEmbedded1: ignition.FileEmbedded1{Contents: ignition.Resource{Source: &source}}}
}

func TestParsePlatforms(t *testing.T) {
	for _, c := range []struct {
		platform      configv1.PlatformType
		cloudProvider string
		credentials   string // a part of the file
	}{
		{configv1.AWSPlatformType, "external", "registry.example.com"},
		{configv1.AzurePlatformType, "external", "azurecr.io"},
		{configv1.GCPPlatformType, "external", "pkg.dev"},
		{configv1.VSpherePlatformType, "external", ""},
		{configv1.NutanixPlatformType, "external", ""},
		{configv1.NonePlatformType, "", ""},
		{configv1.BareMetalPlatformType, "", ""},
	} {
		t.Run(string(c.platform), func(t *testing.T) {
			w, err := machineconfig.Parse(render(t, openshift.Worker{Platform: c.platform}))
			if err != nil {
				t.Fatal(err)
			}
			if w.CloudProvider == nil || *w.CloudProvider != c.cloudProvider {
				t.Errorf("--cloud-provider is %v, want %q", w.CloudProvider, c.cloudProvider)
			}
			if w.CloudConfigPath != "" || w.CloudConfig != nil {
				t.Errorf("it has a cloud config %q at %q, which no argument names", w.CloudConfig, w.CloudConfigPath)
			}
			if got := string(w.CredentialProviders); !strings.Contains(got, c.credentials) || (got == "") != (c.credentials == "") {
				t.Errorf("the credential providers are %q, want some of %q", got, c.credentials)
			}
		})
	}
}

// Before release 4.16 the kubelet had the argument.
func TestParseCloudConfig(t *testing.T) {
	w, err := machineconfig.Parse(render(t, openshift.Worker{Platform: configv1.AzurePlatformType, CloudConfigFlag: true}))
	if err != nil {
		t.Fatal(err)
	}
	if w.CloudConfigPath != "/etc/kubernetes/cloud.conf" || !bytes.Contains(w.CloudConfig, []byte("AzurePublicCloud")) {
		t.Errorf("the cloud config is %q at %q", w.CloudConfig, w.CloudConfigPath)
	}
}

func TestParseKubelet(t *testing.T) {
	w, err := machineconfig.Parse(render(t, openshift.Worker{
		Platform: configv1.AWSPlatformType,
		KubeletConfig: map[string]any{
			"maxPods": 100, "imageGCHighThresholdPercent": 75, "imageGCLowThresholdPercent": 70, "containerLogMaxFiles": 7,
			"evictionHard":  map[string]string{"memory.available": "1Gi", "nodefs.available": "12%", "nodefs.inodesFree": "5%", "imagefs.available": "20%"},
			"tlsMinVersion": "VersionTLS13", "tlsCipherSuites": []string{"TLS_AES_128_GCM_SHA256"}, "podsPerCore": 20,
			"evictionSoft":                     map[string]string{"memory.available": "400Mi", "nodefs.available": "15%", "nodefs.inodesFree": "7%", "imagefs.available": "100%"},
			"evictionSoftGracePeriod":          map[string]string{"memory.available": "90s", "nodefs.available": "2m", "nodefs.inodesFree": "4m"},
			"evictionMinimumReclaim":           map[string]string{"memory.available": "0Mi", "nodefs.available": "500Mi", "pid.available": "1"},
			"evictionPressureTransitionPeriod": "30s", "evictionMaxPodGracePeriod": 60,
		},
		SystemReserved: map[string]string{"memory": "3Gi", "cpu": "1", "ephemeral-storage": "2Gi"},
		LogLevel:       5,
	}))
	if err != nil {
		t.Fatal(err)
	}
	// Nothing of Linux, and no gate of OpenShift.
	want := kubeletv1beta1.KubeletConfiguration{
		ClusterDNS: []string{"172.30.0.10"}, ClusterDomain: "cluster.local", MaxPods: 100, KubeAPIQPS: ptr.To[int32](50), KubeAPIBurst: 100,
		ContainerLogMaxSize: "50Mi", ContainerLogMaxFiles: ptr.To[int32](7), SerializeImagePulls: ptr.To(false),
		ImageGCHighThresholdPercent: ptr.To[int32](75), ImageGCLowThresholdPercent: ptr.To[int32](70),
		EvictionHard: map[string]string{"memory.available": "1Gi", "nodefs.available": "12%", "imagefs.available": "20%"},
		EvictionSoft: map[string]string{"memory.available": "500Mi", "nodefs.available": "15%", "imagefs.available": "100%"}, EvictionSoftGracePeriod: map[string]string{"memory.available": "90s", "nodefs.available": "2m"},
		EvictionMinimumReclaim: map[string]string{"memory.available": "0Mi", "nodefs.available": "500Mi"}, PodsPerCore: 20,
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: 30 * time.Second}, EvictionMaxPodGracePeriod: 60,
		TLSMinVersion: "VersionTLS13", TLSCipherSuites: []string{"TLS_AES_128_GCM_SHA256"},
		SystemReserved: map[string]string{"memory": "3Gi", "cpu": "1", "ephemeral-storage": "2Gi"},
	}
	if diff := cmp.Diff(want, w.Kubelet); diff != "" {
		t.Error(diff)
	}
	// What workers compute from their own size is not set by anybody.
	w, err = machineconfig.Parse(render(t, openshift.Worker{Platform: configv1.NonePlatformType}))
	if err != nil || w.Kubelet.SystemReserved != nil {
		t.Errorf("got %v (%v), want nothing reserved", w.Kubelet.SystemReserved, err)
	}
}

// TestParseMemoryThreshold: a threshold for memory that suffices on Linux is raised to what Windows needs.
func TestParseMemoryThreshold(t *testing.T) {
	for workers, want := range map[string]string{
		"100Mi": "500Mi", "524287999": "500Mi", "500Mi": "500Mi", "0.5Gi": "0.5Gi", "2Gi": "2Gi",
		// What part of the memory that is, only the host knows.
		"1%": "1%", "0%": "0%",
	} {
		w, err := machineconfig.Parse(kubelet(t, "evictionHard", map[string]string{"memory.available": workers}))
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Kubelet.EvictionHard["memory.available"]; got != want {
			t.Errorf("%s: got %s, want %s", workers, got, want)
		}
	}
	w, err := machineconfig.Parse(kubelet(t, "evictionHard", map[string]string{"nodefs.available": "12%"}))
	if _, has := w.Kubelet.EvictionHard["memory.available"]; err != nil || has {
		t.Errorf("got %v (%v), want no threshold that workers do not have", w.Kubelet.EvictionHard, err)
	}
}

// TestParseReserved: hosts reserve the memory that Windows needs also where workers reserve what Linux needs, and what is computed from the size
// of a worker is nothing for hosts.
func TestParseReserved(t *testing.T) {
	for name, tt := range map[string]struct {
		worker openshift.Worker
		want   map[string]string
	}{
		"nobody says anything":               {openshift.Worker{}, nil},
		"workers compute it":                 {openshift.Worker{AutoSizingReserved: ptr.To(true)}, nil},
		"workers do not compute it":          {openshift.Worker{AutoSizingReserved: ptr.To(false)}, map[string]string{"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "1Gi"}},
		"only cpu":                           {openshift.Worker{SystemReserved: map[string]string{"cpu": "2"}}, map[string]string{"cpu": "2", "memory": "2Gi", "ephemeral-storage": "1Gi"}},
		"less memory than Windows needs":     {openshift.Worker{SystemReserved: map[string]string{"memory": "2047Mi"}}, map[string]string{"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "1Gi"}},
		"as much memory as Windows needs":    {openshift.Worker{SystemReserved: map[string]string{"memory": "2048Mi"}}, map[string]string{"cpu": "500m", "memory": "2048Mi", "ephemeral-storage": "1Gi"}},
		"more memory and less of the others": {openshift.Worker{SystemReserved: map[string]string{"memory": "2.5Gi", "cpu": "100m", "ephemeral-storage": "1Mi"}}, map[string]string{"cpu": "100m", "memory": "2.5Gi", "ephemeral-storage": "1Mi"}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.worker.Platform = configv1.NonePlatformType
			w, err := machineconfig.Parse(render(t, tt.worker))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, w.Kubelet.SystemReserved); diff != "" {
				t.Errorf("what hosts reserve (-want +got):\n%s", diff)
			}
		})
	}
}

// command has a unit run the kubelet with these arguments.
func command(arguments string) func(*ignition.Config) {
	return func(c *ignition.Config) {
		unit(c).Contents = ptr.To("[Service]\nExecStart=/usr/bin/kubelet " + arguments)
	}
}

// TestParseUnits: the command is read as systemd reads it.
func TestParseUnits(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*ignition.Config)
		want string
	}{
		"a drop-in replaces the command": {func(c *ignition.Config) {
			unit(c).Dropins = append(unit(c).Dropins, ignition.Dropin{Name: "50-own.conf", Contents: ptr.To("[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --cloud-provider=mine\n")})
		}, "mine"},
		"a file is a drop-in": {func(c *ignition.Config) {
			c.Storage.Files = append(c.Storage.Files, file("/etc/systemd/system/kubelet.service.d/60-own.conf", "data:,%5BService%5D%0AExecStart%3D%0AExecStart%3D%2Fusr%2Fbin%2Fkubelet%20--cloud-provider%3Dfile"))
		}, "file"},
		"the last one counts": {func(c *ignition.Config) {
			unit(c).Contents = ptr.To("[Service]\nExecStart=/usr/bin/kubelet --cloud-provider=a \\\n   --cloud-provider=b\n")
		}, "b"},
		"a comment within the command": {func(c *ignition.Config) {
			unit(c).Contents = ptr.To("[Service]\n# ExecStart=/usr/bin/kubelet --cloud-provider=comment\nExecStart=/usr/bin/kubelet --cloud-provider=a\n")
		}, "a"},
		"a value of its own":                 {command(`--cloud-provider mine`), "mine"},
		"an empty value of its own":          {command(`--cloud-provider "" --v=2`), ""},
		"the value comes on the next line":   {command("--cloud-provider \\\n   mine"), "mine"},
		"what is no value":                   {command(`--feature --cloud-provider=mine other`), "mine"},
		"underscores":                        {command(`--cloud_provider=mine`), "mine"},
		"a quoted argument":                  {command(`"--cloud-provider=mine"`), "mine"},
		"an argument in other quotes":        {command(`'--cloud-provider=mine'`), "mine"},
		"a quoted value":                     {command(`--cloud-provider="mine"`), "mine"},
		"a quoted value of its own":          {command(`--cloud-provider 'mine'`), "mine"},
		"an argument in another's value":     {command(`--cloud-provider=mine --node-labels="a --cloud-provider=b"`), "mine"},
		"a quote within quotes":              {command(`--cloud-provider=mine '--a="' "--b='" --c`), "mine"},
		"escapes":                            {command(`--node-labels=a\s--cloud-provider=b\"\q --cloud-provider=m\x69\156\u0065`), "mine"},
		"tabs":                               {command("--v=2\t--cloud-provider=mine\t"), "mine"},
		"a comment between lines":            {command("\\\n  # --v=4 \\\n;\n  --cloud-provider=mine"), "mine"},
		"two backslashes":                    {command(`--cloud-provider=mine --path=a\\` + "\n--cloud-provider=next"), "mine"},
		"it ends while it goes on":           {command(`--cloud-provider=mine \`), "mine"},
		"lines that end as those of Windows": {command("\\\r\n --cloud-provider=mine\r"), "mine"},
		"a long line of a file": {func(c *ignition.Config) {
			environment := "[Service]\nEnvironment=NO_PROXY=" + strings.Repeat("a.example.com,", 1000) + "\n"
			c.Storage.Files = append(c.Storage.Files, file("/etc/systemd/system/kubelet.service.d/60-own.conf", dataurl.EncodeBytes([]byte(environment))))
			command(`--cloud-provider=mine`)(c)
		}, "mine"},
		"a command that another one replaces is not read": {func(c *ignition.Config) {
			unit(c).Contents = ptr.To("[Service]\nExecStart=/usr/bin/kubelet --cloud-provider=\"other\nExecStart=\nExecStart=/usr/bin/kubelet --cloud-provider=mine\n")
		}, "mine"},
		"a program that starts the kubelet": {func(c *ignition.Config) {
			unit(c).Contents = ptr.To("[Service]\nExecStart=/usr/local/bin/kubenswrapper /usr/bin/kubelet --cloud-provider=mine\n")
		}, "mine"},
		"another section": {func(c *ignition.Config) {
			unit(c).Contents = ptr.To("[Service]\nExecStart = /usr/bin/kubelet --cloud-provider=mine\n[X-Other]\nExecStart=/usr/bin/kubelet --cloud-provider=other\n")
		}, "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := machineconfig.Parse(render(t, openshift.Worker{Platform: configv1.NonePlatformType}, c.edit))
			if err != nil {
				t.Fatal(err)
			}
			if w.CloudProvider == nil || *w.CloudProvider != c.want {
				t.Errorf("--cloud-provider is %v, want %q", w.CloudProvider, c.want)
			}
		})
	}
}

func TestParseFiles(t *testing.T) {
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	if _, err := z.Write([]byte("maxPods: 33\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	replace := func(resource ignition.Resource) func(*ignition.Config) {
		return func(c *ignition.Config) {
			for i := range c.Storage.Files {
				if c.Storage.Files[i].Path == "/etc/kubernetes/kubelet.conf" {
					c.Storage.Files[i].Contents = resource
				}
			}
		}
	}
	for name, resource := range map[string]ignition.Resource{
		"percent":    {Source: ptr.To("data:,maxPods%3A%2033%0A")},
		"base64":     {Source: ptr.To("data:text/plain;charset=utf-8;base64,bWF4UG9kczogMzMK")},
		"compressed": {Source: ptr.To(dataurl.EncodeBytes(compressed.Bytes())), Compression: ptr.To("gzip")},
	} {
		w, err := machineconfig.Parse(render(t, openshift.Worker{Platform: configv1.NonePlatformType}, replace(resource)))
		if err != nil || w.Kubelet.MaxPods != 33 {
			t.Errorf("%s: got %d pods (%v), want 33", name, w.Kubelet.MaxPods, err)
		}
	}
}

// kubelet is a configuration of workers with one setting of their kubelets.
func kubelet(t *testing.T, name string, value any) []byte {
	t.Helper()
	return render(t, openshift.Worker{Platform: configv1.NonePlatformType, KubeletConfig: map[string]any{name: value}})
}

// TestParseTLS: what is taken is what a server of HTTP/2 serves with, and what is refused none does.
func TestParseTLS(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		suites  []string
		want    []string
		warns   int
		refused bool
	}{
		"no suites":                     {"VersionTLS12", nil, nil, 0, false},
		"no version":                    {"", []string{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, []string{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, 0, false},
		"one that is not known":         {"VersionTLS12", []string{"TLS_X", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}, []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}, 1, false},
		"suites without that of HTTP/2": {"VersionTLS12", []string{"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}, nil, 0, true},
		"the same where none is chosen": {"VersionTLS13", []string{"TLS_AES_256_GCM_SHA384"}, []string{"TLS_AES_256_GCM_SHA384"}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := machineconfig.Parse(render(t, openshift.Worker{Platform: configv1.NonePlatformType, KubeletConfig: map[string]any{"tlsMinVersion": c.version, "tlsCipherSuites": c.suites}}))
			if refused := err != nil; refused != c.refused {
				t.Fatalf("got %v", err)
			}
			suites, version := c.suites, c.version
			if !c.refused {
				suites, version = w.Kubelet.TLSCipherSuites, w.Kubelet.TLSMinVersion
				if !slices.Equal(suites, c.want) || version != c.version || len(w.Warnings) != c.warns {
					t.Errorf("got %s and %q, and warnings %q", version, suites, w.Warnings)
				}
			}
			if err := serve(t, version, suites); strings.Contains(err.Error(), "HTTP/2-required") != c.refused {
				t.Errorf("a server with it says %v", err)
			}
		})
	}
}

// serve returns why a server with these settings ends at once, as a kubelet would: its listener is closed, if nothing else is wrong.
func serve(t *testing.T, version string, suites []string) error {
	t.Helper()
	config := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("no client comes") }}
	var err error
	if config.MinVersion, err = cliflag.TLSVersion(version); err != nil {
		t.Fatal(err)
	}
	if config.CipherSuites, err = cliflag.TLSCipherSuites(suites); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{TLSConfig: config, ReadHeaderTimeout: time.Second}
	return server.ServeTLS(listener, "", "")
}

func TestParseRefuses(t *testing.T) {
	none := openshift.Worker{Platform: configv1.NonePlatformType}
	set := func(contents string) func(*ignition.Config) {
		return func(c *ignition.Config) { unit(c).Contents = &contents }
	}
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"nothing":                  {nil, "not a configuration of Ignition"},
		"no JSON":                  {[]byte("{"), "not a configuration of Ignition"},
		"a version of tomorrow":    {[]byte(`{"ignition":{"version":"3.6.0"}}`), "its version of Ignition is newer than 3.5: 3.6.0"},
		"a version of yesterday":   {[]byte(`{"ignition":{"version":"2.2.0"}}`), "not a configuration of Ignition"},
		"no unit":                  {render(t, none, func(c *ignition.Config) { c.Systemd.Units = nil }), "there is no unit kubelet.service"},
		"a unit that runs nothing": {render(t, none, set("[Service]\nType=notify\n")), "it has no ExecStart="},
		"a command taken back":     {render(t, none, set("[Service]\nExecStart=/usr/bin/kubelet\nExecStart=\n")), "it has no ExecStart="},
		"no unit at all":           {render(t, none, set("[Service\nExecStart")), "unable to find end of section"},
		"the command of a shell": {render(t, none, func(c *ignition.Config) {
			unit(c).Contents = ptr.To("[Service]\nExecStart=/bin/bash -c \"exec /usr/bin/kubelet --cloud-provider=external\"\n")
		}), "does not run kubelet as a command of its own"},
		"a quote that is not closed": {render(t, none, command(`--cloud-provider="mine`)), `ExecStart= in kubelet.service: a quote " is not closed`},
		"an argument without value":  {render(t, none, command(`--v=2 --cloud-provider`)), "unit kubelet.service: --cloud-provider has no value"},
		"a value of two words":       {render(t, none, command(`"--cloud-provider=a b"`)), `the value "a b" of --cloud-provider is not one word`},
		"what systemd fills in":      {render(t, none, command(`--cloud-config=/etc/%p.conf`)), `the value "/etc/%p.conf" of --cloud-config is not the same on all hosts`},
		"a value that systemd fills": {render(t, none, set("[Service]\nExecStart=/usr/bin/kubelet --cloud-provider=${CLOUD}\n")), "not the same on all hosts"},
		"a file that is not there":   {render(t, none, set("[Service]\nExecStart=/usr/bin/kubelet --cloud-config=/etc/nothing\n")), "there is no file /etc/nothing"},
		"no configuration":           {render(t, none, func(c *ignition.Config) { c.Storage.Files = nil }), "there is no file /etc/kubernetes/kubelet.conf"},
		"a configuration elsewhere": {render(t, none, func(c *ignition.Config) {
			c.Storage.Files = []ignition.File{file("/etc/kubernetes/kubelet.conf", "https://example.com/kubelet.conf")}
		}), "not a data URL"},
		"a configuration that is none":    {render(t, openshift.Worker{Platform: configv1.NonePlatformType, KubeletConfig: map[string]any{"maxPods": "many"}}), "/etc/kubernetes/kubelet.conf"},
		"what is reserved is no quantity": {render(t, openshift.Worker{Platform: configv1.NonePlatformType, SystemReserved: map[string]string{"memory": "much"}}), "not a quantity"},
		"a version of TLS of tomorrow":    {kubelet(t, "tlsMinVersion", "VersionTLS14"), "is not one of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13"},
		"suites that nobody knows":        {kubelet(t, "tlsCipherSuites", []string{"TLS_A", "TLS_B"}), "no kubelet knows any of its tlsCipherSuites"},
		"suites without that of HTTP/2":   {kubelet(t, "tlsCipherSuites", []string{"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}), "need TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
		"fewer pods than none":            {kubelet(t, "maxPods", -1), "maxPods -1 is negative"},
		"fewer requests than none":        {kubelet(t, "kubeAPIQPS", -1), "kubeAPIQPS -1 is negative"},
		"a burst below none":              {kubelet(t, "kubeAPIBurst", -1), "kubeAPIBurst -1 is negative"},
		"images kept above all space":     {kubelet(t, "imageGCHighThresholdPercent", 101), "imageGCHighThresholdPercent 101"},
		"a lower limit above the upper":   {kubelet(t, "imageGCHighThresholdPercent", 70), "imageGCLowThresholdPercent 80 and imageGCHighThresholdPercent 70"},
		"images younger than new ones":    {kubelet(t, "imageMinimumGCAge", "-1s"), "imageMinimumGCAge -1s is negative"},
		"images that are never too old":   {kubelet(t, "imageMaximumGCAge", "-1s"), "imageMaximumGCAge -1s must be 0"},
		"no image at all at a time":       {kubelet(t, "maxParallelImagePulls", 0), "maxParallelImagePulls 0 must be positive"},
		"one log":                         {kubelet(t, "containerLogMaxFiles", 1), "containerLogMaxFiles 1 must be 2 or more"},
		"a log without a size":            {kubelet(t, "containerLogMaxSize", "big"), `containerLogMaxSize "big" is not a size`},
		"a threshold that is none":        {kubelet(t, "evictionHard", map[string]string{"nodefs.available": "much"}), `evictionHard has "much" for nodefs.available`},
		"more than all":                   {kubelet(t, "evictionHard", map[string]string{"nodefs.available": "101%"}), `evictionHard has "101%" for nodefs.available`},
		"memory that is none":             {kubelet(t, "evictionHard", map[string]string{"memory.available": "much"}), `evictionHard has "much" for memory.available`},
		"memory of nothing":               {kubelet(t, "evictionHard", map[string]string{"memory.available": "0"}), `evictionHard has "0" for memory.available`},
		"fewer pods than none for a core": {kubelet(t, "podsPerCore", -1), "podsPerCore -1 is negative"},
		"a soft threshold without a time": {kubelet(t, "evictionSoft", map[string]string{"nodefs.available": "12%"}), `evictionSoft has a threshold for nodefs.available, and evictionSoftGracePeriod none`},
		"a soft threshold of nothing":     {kubelet(t, "evictionSoft", map[string]string{"nodefs.available": "0"}), `evictionSoft has "0" for nodefs.available`},
		"a time that is none":             {kubelet(t, "evictionSoftGracePeriod", map[string]string{"nodefs.available": "90"}), `evictionSoftGracePeriod has "90" for nodefs.available`},
		"a time before now":               {kubelet(t, "evictionSoftGracePeriod", map[string]string{"nodefs.available": "-1s"}), `evictionSoftGracePeriod has "-1s" for nodefs.available`},
		"nothing to reclaim":              {kubelet(t, "evictionMinimumReclaim", map[string]string{"nodefs.available": "0%"}), `evictionMinimumReclaim has "0%" for nodefs.available`},
		"less than nothing to reclaim":    {kubelet(t, "evictionMinimumReclaim", map[string]string{"nodefs.available": "-1"}), `evictionMinimumReclaim has "-1" for nodefs.available`},
		"a threshold of nothing":          {kubelet(t, "evictionHard", map[string]string{"nodefs.available": "0"}), `evictionHard has "0" for nodefs.available`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := machineconfig.Parse(c.raw); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, p := range openshift.Platforms {
		raw, err := openshift.Worker{Platform: p}.Ignition()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		w, err := machineconfig.Parse(raw)
		if err == nil && w.CloudProvider != nil && strings.ContainsAny(*w.CloudProvider, " \t\n$") {
			t.Errorf("--cloud-provider=%q was taken", *w.CloudProvider)
		}
	})
}
