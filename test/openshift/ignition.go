// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

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
	// KubeletConfig is what an administrator has set in a KubeletConfig, as lines of kubelet.conf.
	// It wins over the defaults.
	KubeletConfig map[string]any
	// SystemReserved is what a KubeletConfig reserves: memory, cpu, ephemeral-storage. It does not
	// go to kubelet.conf.
	SystemReserved map[string]string
	// LogLevel of a KubeletConfig. Zero: none.
	LogLevel int
	// CloudConfigFlag: the kubelet has --cloud-config, as before release 4.16.
	CloudConfigFlag bool
	// ExtraFiles are those of MachineConfigs of administrators, by path.
	ExtraFiles map[string]ignition.Resource
}

// Ignition returns the configuration of workers as the field spec.config of their rendered
// MachineConfig has it.
func (w Worker) Ignition() ([]byte, error) {
	p, ok := platforms[w.Platform]
	if !ok {
		return nil, fmt.Errorf("platform %q is not known", w.Platform)
	}
	config := ignition.Config{Ignition: ignition.Ignition{Version: ignition.MaxVersion.String()}}
	kubelet, err := w.kubeletConf()
	if err != nil {
		return nil, err
	}
	contents := map[string]ignition.Resource{
		"/etc/kubernetes/cloud.conf": percent(p.cloudConf),
		// What the controller of KubeletConfigs generates is in base64, other files are not.
		"/etc/kubernetes/kubelet.conf":    base64(kubelet),
		"/etc/node-sizing-enabled.env":    percent(w.nodeSizing()),
		"/etc/mco/proxy.env":              percent("# Proxy environment variables will be populated in this file\n"),
		"/etc/containers/registries.conf": percent("unqualified-search-registries = [\"registry.access.redhat.com\", \"docker.io\"]\n"),
		"/var/lib/kubelet/config.json":    percent(`{"auths":{}}`),
	}
	if p.credentials != "" {
		contents["/etc/kubernetes/credential-providers/"+p.credentials+".yaml"] = percent(p.credentialsConfig)
	}
	if w.LogLevel != 0 {
		contents["/etc/systemd/system/kubelet.service.d/20-logging.conf"] = base64(fmt.Sprintf("[Service]\nEnvironment=\"KUBELET_LOG_LEVEL=%d\"\n", w.LogLevel))
	}
	maps.Copy(contents, w.ExtraFiles)
	for file, resource := range contents {
		config.Storage.Files = append(config.Storage.Files, ignition.File{
			Node:          ignition.Node{Path: file, Overwrite: ptr.To(true)},
			FileEmbedded1: ignition.FileEmbedded1{Contents: resource, Mode: ptr.To(0o644)},
		})
	}
	slices.SortFunc(config.Storage.Files, func(a, b ignition.File) int { return strings.Compare(a.Path, b.Path) })
	config.Systemd.Units = []ignition.Unit{
		{Name: "crio.service", Dropins: []ignition.Dropin{{Name: "10-mco-default-madv.conf", Contents: ptr.To("[Service]\nEnvironment=\"GODEBUG=x509ignoreCN=0,madvdontneed=1\"\n")}}},
		{Name: "kubelet.service", Enabled: ptr.To(true), Contents: ptr.To(w.kubeletUnit(p)), Dropins: dropins(p)},
		// Ten units of a worker have no contents at all.
		{Name: "kubelet-auto-node-size.service", Enabled: ptr.To(true)},
	}
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
		"--node-labels=node-role.kubernetes.io/worker,node.openshift.io/os_id=${ID},${CUSTOM_KUBELET_LABELS}",
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
	if p.externalCloud {
		return "external"
	}
	return ""
}

// nodeSizing returns the file from which a script on a worker learns what to reserve.
func (w Worker) nodeSizing() string {
	if len(w.SystemReserved) == 0 {
		return "NODE_SIZING_ENABLED=true\nSYSTEM_RESERVED_MEMORY=1Gi\nSYSTEM_RESERVED_CPU=500m\nSYSTEM_RESERVED_ES=1Gi\n"
	}
	return fmt.Sprintf("NODE_SIZING_ENABLED=false\nSYSTEM_RESERVED_MEMORY=%s\nSYSTEM_RESERVED_CPU=%s\nSYSTEM_RESERVED_ES=%s\n",
		w.SystemReserved["memory"], w.SystemReserved["cpu"], w.SystemReserved["ephemeral-storage"])
}

// kubeletConf returns the configuration of the kubelet with the zero values that its controller writes.
func (w Worker) kubeletConf() (string, error) {
	conf := map[string]any{
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
		"featureGates": map[string]bool{"MachineAPIMigration": false, "GatewayAPI": true, "RotateKubeletServerCertificate": true},
	}
	maps.Copy(conf, w.KubeletConfig)
	encoded, err := yaml.Marshal(conf)
	if err != nil {
		return "", fmt.Errorf("encode the configuration of a kubelet: %w", err)
	}
	return string(encoded), nil
}
