// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	ign3 "github.com/coreos/ignition/v2/config/v3_5"
	ignition "github.com/coreos/ignition/v2/config/v3_5/types"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/vincent-petithory/dataurl"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// Worker is what a rendered MachineConfig of workers is made of, besides their platform.
type Worker struct {
	// Platform of the cluster. Required.
	Platform configv1.PlatformType
	// Role of the nodes. Empty: worker.
	Role string
	// KubeletConfig is what an administrator has set in a KubeletConfig, as lines of kubelet.conf.
	// It wins over the defaults.
	KubeletConfig map[string]any
	// SystemReserved is what a KubeletConfig reserves: memory, cpu, ephemeral-storage. It does not
	// go to kubelet.conf.
	SystemReserved map[string]string
	// AutoSizingReserved is what a KubeletConfig says of that: whether workers compute what they reserve, or reserve the defaults. It does not count
	// with SystemReserved. Nil: nothing, and they compute it.
	AutoSizingReserved *bool
	// LogLevel of a KubeletConfig. Zero: none.
	LogLevel int
	// ExternalCloud: a cloud controller manager completes Nodes, as on a platform that is not one of [Platforms].
	ExternalCloud bool
	// CloudConfigFlag: the kubelet has --cloud-config, as before release 4.16.
	CloudConfigFlag bool
	// ExtraFiles are those of MachineConfigs of administrators, by path.
	ExtraFiles map[string]ignition.Resource
}

// Ignition returns the configuration of workers as the field spec.config of their rendered
// MachineConfig has it.
func (w Worker) Ignition() ([]byte, error) {
	base, err := w.base()
	if err != nil {
		return nil, err
	}
	kubelet, err := w.kubelet()
	if err != nil {
		return nil, err
	}
	generated, err := w.generated()
	if err != nil {
		return nil, err
	}
	return encode(merge(base, kubelet, generated, configOf(w.ExtraFiles)))
}

// base is what the template 00-worker has: everything but the kubelet.
func (w Worker) base() (ignition.Config, error) {
	p, ok := platforms[w.Platform]
	if !ok {
		return ignition.Config{}, fmt.Errorf("platform %q is not known", w.Platform)
	}
	contents := map[string]ignition.Resource{
		"/etc/kubernetes/cloud.conf":      percent(p.cloudConf),
		"/etc/mco/proxy.env":              percent("# Proxy environment variables will be populated in this file\n"),
		"/etc/containers/registries.conf": percent(searchedRegistries),
		"/var/lib/kubelet/config.json":    percent(`{"auths":{}}`),
	}
	if p.credentials != "" {
		contents["/etc/kubernetes/credential-providers/"+p.credentials+".yaml"] = percent(p.credentialsConfig)
	}
	config := configOf(contents)
	config.Systemd.Units = []ignition.Unit{
		{Name: "crio.service", Dropins: []ignition.Dropin{{Name: "10-mco-default-madv.conf", Contents: ptr.To("[Service]\nEnvironment=\"GODEBUG=x509ignoreCN=0,madvdontneed=1\"\n")}}},
		// Ten units of a worker have no contents at all.
		{Name: "kubelet-auto-node-size.service", Enabled: ptr.To(true)},
	}
	return config, nil
}

// kubelet is what the template 01-worker-kubelet has.
func (w Worker) kubelet() (ignition.Config, error) {
	p, ok := platforms[w.Platform]
	if !ok {
		return ignition.Config{}, fmt.Errorf("platform %q is not known", w.Platform)
	}
	conf, err := yaml.Marshal(defaultKubeletConf())
	if err != nil {
		return ignition.Config{}, fmt.Errorf("encode the configuration of a kubelet: %w", err)
	}
	config := configOf(map[string]ignition.Resource{kubeletConfPath: percent(string(conf)), nodeSizingPath: percent(nodeSizing(true, nil))})
	config.Systemd.Units = []ignition.Unit{{Name: "kubelet.service", Enabled: ptr.To(true), Contents: ptr.To(w.kubeletUnit(p)), Dropins: dropins(p)}}
	return config, nil
}

// generated is what the controllers of kubelets generate: kubelet.conf as a whole, and the rest of a KubeletConfig.
func (w Worker) generated() (ignition.Config, error) {
	conf := defaultKubeletConf()
	conf["featureGates"] = featureGates
	override(conf, w.KubeletConfig)
	encoded, err := yaml.Marshal(conf)
	if err != nil {
		return ignition.Config{}, fmt.Errorf("encode the configuration of a kubelet: %w", err)
	}
	contents := map[string]ignition.Resource{kubeletConfPath: base64(string(encoded))}
	if len(w.SystemReserved) > 0 || w.AutoSizingReserved != nil {
		computed := len(w.SystemReserved) == 0 && *w.AutoSizingReserved
		contents[nodeSizingPath] = base64(nodeSizing(computed, w.SystemReserved))
	}
	if w.LogLevel != 0 {
		contents["/etc/systemd/system/kubelet.service.d/20-logging.conf"] = base64(fmt.Sprintf("[Service]\nEnvironment=\"KUBELET_LOG_LEVEL=%d\"\n", w.LogLevel))
	}
	return configOf(contents), nil
}

// Files of workers, and the beginning of the one that says where they pull images from.
const (
	kubeletConfPath    = "/etc/kubernetes/kubelet.conf"
	nodeSizingPath     = "/etc/node-sizing-enabled.env"
	searchedRegistries = "unqualified-search-registries = [\"registry.access.redhat.com\", \"docker.io\"]\n"
)

// configOf is a configuration with files, by path.
func configOf(contents map[string]ignition.Resource) ignition.Config {
	config := ignition.Config{Ignition: ignition.Ignition{Version: ignition.MaxVersion.String()}}
	for _, file := range slices.Sorted(maps.Keys(contents)) {
		config.Storage.Files = append(config.Storage.Files, ignition.File{
			Node:          ignition.Node{Path: file, Overwrite: ptr.To(true)},
			FileEmbedded1: ignition.FileEmbedded1{Contents: contents[file], Mode: ptr.To(0o644)},
		})
	}
	return config
}

// merge merges configurations; later ones win, file by file and unit by unit.
func merge(configs ...ignition.Config) ignition.Config {
	var merged ignition.Config
	for _, config := range configs {
		for i := range config.Storage.Files {
			// Else a file would keep the compression of the content that it replaces.
			if contents := &config.Storage.Files[i].Contents; contents.Compression == nil {
				contents.Compression = ptr.To("")
			}
		}
		merged = ign3.Merge(merged, config)
	}
	slices.SortFunc(merged.Storage.Files, func(a, b ignition.File) int { return strings.Compare(a.Path, b.Path) })
	return merged
}

func encode(config ignition.Config) ([]byte, error) {
	encoded, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode a configuration of Ignition: %w", err)
	}
	return encoded, nil
}

// percent returns a file as the templates of the Machine Config Operator have it.
func percent(content string) ignition.Resource {
	return ignition.Resource{Source: ptr.To("data:," + url.PathEscape(content)), Compression: ptr.To("")}
}

// base64 returns a file as its controllers generate it.
func base64(content string) ignition.Resource {
	return ignition.Resource{Source: ptr.To(dataurl.New([]byte(content), "text/plain", "charset", "utf-8").String())}
}

func dropins(p platform) []ignition.Dropin {
	list := []ignition.Dropin{
		{Name: "01-kubens.conf", Contents: ptr.To("[Unit]\nDescription=Kubernetes Kubelet in its own mount namespace\nRequires=kubens.service\nAfter=kubens.service\n")},
		{Name: "10-mco-default-env.conf", Contents: ptr.To("")},
		{Name: "10-mco-default-madv.conf", Contents: ptr.To("[Service]\nEnvironment=\"GODEBUG=x509ignoreCN=0,madvdontneed=1\"\n")},
	}
	for _, name := range p.dropins {
		list = append(list, ignition.Dropin{Name: name, Contents: ptr.To("[Service]\nEnvironmentFile=-/etc/kubernetes/node.env\n")})
	}
	if p.onPrem {
		list = append(list, ignition.Dropin{Name: "10-mco-on-prem-wait-resolv.conf", Contents: ptr.To("[Unit]\nAfter=on-prem-resolv-prepender.service\n")})
	}
	return list
}

// kubeletUnit returns the unit of the kubelet.
func (w Worker) kubeletUnit(p platform) string {
	lines := []string{
		"--config=/etc/kubernetes/kubelet.conf", "--bootstrap-kubeconfig=/etc/kubernetes/kubeconfig", "--kubeconfig=/var/lib/kubelet/kubeconfig",
		"--container-runtime-endpoint=/var/run/crio/crio.sock", "--runtime-cgroups=/system.slice/crio.service",
		"--node-labels=node-role.kubernetes.io/" + cmp.Or(w.Role, "worker") + ",node.openshift.io/os_id=${ID},${CUSTOM_KUBELET_LABELS}",
	}
	if p.onPrem {
		lines = append(lines, "--node-ip=${KUBELET_NODE_IP}", "--address=${KUBELET_NODE_IP}")
	} else {
		lines = append(lines, "--node-ip=${KUBELET_NODE_IP}")
	}
	lines = append(lines, "--minimum-container-ttl-duration=6m0s", "--cloud-provider="+w.cloudProvider(p))
	if w.CloudConfigFlag {
		lines = append(lines, "--cloud-config=/etc/kubernetes/cloud.conf")
	}
	lines = append(lines, "--volume-plugin-dir=/etc/kubernetes/kubelet-plugins/volume/exec", "--hostname-override=${KUBELET_NODE_NAME}")
	if p.providerID {
		lines = append(lines, "--provider-id=${KUBELET_PROVIDERID}")
	}
	lines = append(lines, "--register-with-taints=${NODE_TAINTS}")
	if p.credentials != "" {
		// Two on one line, as there.
		lines = append(lines, "--image-credential-provider-bin-dir=/usr/libexec/kubelet-image-credential-provider-plugins --image-credential-provider-config=/etc/kubernetes/credential-providers/"+p.credentials+".yaml")
	}
	if p.onPrem {
		lines = append(lines, "$KUBELET_CRIO_IMAGE_CREDENTIAL_PROVIDER_FLAGS")
	}
	lines = append(lines, "--system-reserved-cgroup=/system.slice", "--config-dir=/etc/openshift/kubelet.conf.d", "--v=${KUBELET_LOG_LEVEL}")
	return "[Unit]\nDescription=Kubernetes Kubelet\nRequires=crio.service\nAfter=network-online.target crio.service\n\n" +
		"[Service]\nType=notify\nExecStartPre=/bin/mkdir --parents /etc/kubernetes/manifests\nExecStartPre=-/usr/sbin/restorecon /usr/local/bin/kubenswrapper /usr/bin/kubelet\n" +
		"Environment=\"KUBELET_LOG_LEVEL=2\"\nEnvironmentFile=/etc/os-release\nEnvironmentFile=-/etc/kubernetes/kubelet-workaround\nEnvironmentFile=-/etc/kubernetes/kubelet-env\n\n" +
		"ExecStart=/usr/local/bin/kubenswrapper \\\n    /usr/bin/kubelet \\\n      " + strings.Join(lines, " \\\n      ") +
		"\n\nRestart=always\nRestartSec=10\n\n[Install]\nWantedBy=multi-user.target\n"
}

func (w Worker) cloudProvider(p platform) string {
	if p.externalCloud || w.ExternalCloud {
		return "external"
	}
	return ""
}

// nodeSizing returns the file from which a script on a worker learns what to reserve: whether it computes that, or what it is. What nobody has said
// is completed by these defaults, also where the script computes it.
func nodeSizing(computed bool, reserved map[string]string) string {
	return fmt.Sprintf("NODE_SIZING_ENABLED=%t\nSYSTEM_RESERVED_MEMORY=%s\nSYSTEM_RESERVED_CPU=%s\nSYSTEM_RESERVED_ES=%s\n", computed,
		cmp.Or(reserved["memory"], "1Gi"), cmp.Or(reserved["cpu"], "500m"), cmp.Or(reserved["ephemeral-storage"], "1Gi"))
}

// featureGates of a kubelet of OpenShift. Nearly all are its own.
var featureGates = map[string]any{"MachineAPIMigration": false, "GatewayAPI": true, "RotateKubeletServerCertificate": true}

// defaultKubeletConf returns the configuration of the kubelet with the zero values that its controller writes.
func defaultKubeletConf() map[string]any {
	return map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
		"authentication": map[string]any{"x509": map[string]any{"clientCAFile": "/etc/kubernetes/kubelet-ca.crt"}, "anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"cacheTTL": "0s"}},
		"authorization":  map[string]any{"webhook": map[string]any{"cacheAuthorizedTTL": "0s", "cacheUnauthorizedTTL": "0s"}},
		"cgroupDriver":   "systemd", "cgroupRoot": "/", "systemCgroups": "/system.slice", "systemReservedCgroup": "/system.slice",
		"enforceNodeAllocatable": []string{"pods", "system-reserved-compressible"}, "protectKernelDefaults": false, "podPidsLimit": 4096,
		"staticPodPath": "/etc/kubernetes/manifests", "memorySwap": map[string]any{},
		"clusterDNS": []string{"172.30.0.10"}, "clusterDomain": "cluster.local", "containerLogMaxSize": "50Mi", "maxPods": 250,
		"kubeAPIQPS": 50, "kubeAPIBurst": 100, "serializeImagePulls": false, "rotateCertificates": true, "serverTLSBootstrap": true,
		"tlsMinVersion": "VersionTLS12", "tlsCipherSuites": []string{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
		"imageMinimumGCAge": "0s", "imageMaximumGCAge": "0s", "syncFrequency": "0s", "runtimeRequestTimeout": "0s",
	}
}

// override puts values over those that are there. Settings within a setting are put over one by one.
func override(settings, values map[string]any) {
	for name, value := range values {
		within, nested := value.(map[string]any)
		if of, ok := settings[name].(map[string]any); ok && nested {
			of = maps.Clone(of)
			override(of, within)
			value = of
		}
		settings[name] = value
	}
}
