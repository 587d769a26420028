// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmcostandin

import (
	"encoding/json"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
)

// service is one of the services of a host, as ConfigMap windows-services-<version> has it.
type service struct {
	Name         string     `json:"name"`
	Path         string     `json:"path"`
	Variables    []variable `json:"nodeVariablesInCommand,omitempty"`
	PreScripts   []script   `json:"powershellPreScripts,omitempty"`
	Dependencies []string   `json:"dependencies,omitempty"`
	Bootstrap    bool       `json:"bootstrap"`
	Priority     int        `json:"priority"`
}

type variable struct {
	Name string `json:"name"`
	Path string `json:"nodeObjectJsonPath"`
}

type script struct {
	VariableName string     `json:"variableName,omitempty"`
	Path         string     `json:"path"`
	NodeArgs     []variable `json:"NodeArgs"` // as it is: the real one has no name for it
}

var nodeName = variable{"NODE_NAME", "{.metadata.name}"}

// services are those that the daemon makes, in the order in which they start, and the daemon itself, which is in no ConfigMap.
func (m Made) services() []service {
	logged := func(name string) string {
		return `C:\k\kube-log-runner.exe -log-file=C:\var\log\` + name + `\` + name + `.log C:\k\` + name + `.exe `
	}
	all := []service{
		{
			Name: "containerd", Bootstrap: true,
			Path:       `C:\k\containerd\containerd.exe --config C:\k\containerd\containerd_conf.toml --log-file C:\var\log\containerd\containerd.log --run-service --log-level info`,
			PreScripts: []script{{Path: `C:\Temp\windows-defender-exclusion.ps1 -BinPath C:\k\containerd\containerd.exe`}},
		},
		{
			Name: "kubelet", Bootstrap: true, Priority: 1, Dependencies: []string{"containerd"},
			Path: logged("kubelet") + `--config=C:\k\kubelet.conf --bootstrap-kubeconfig=C:\k\bootstrap-kubeconfig --kubeconfig=C:\k\kubeconfig --cert-dir=c:\var\lib\kubelet\pki\ ` +
				`--windows-service --node-labels=node.openshift.io/os_id=Windows --windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS --v=2` + m.cloudArguments(),
			PreScripts: []script{{VariableName: "NODE_IP", Path: `(Get-NetRoute -DestinationPrefix '0.0.0.0/0' | Get-NetIpAddress -AddressFamily IPv4 -ifIndex {$_.ifIndex}[0]).IPAddress`}},
		},
		{
			Name: "windows_exporter", Priority: 2,
			Path: `C:\k\windows_exporter.exe --collectors.enabled cpu,logical_disk,net,os,service,system,container,memory,cpu_info --web.config.file C:\k\tls\windows-exporter-webconfig.yaml ` +
				`--log.level info --log.file C:\var\log\windows_exporter\windows_exporter.log`,
		},
		{
			Name: "hybrid-overlay-node", Priority: 2, Dependencies: []string{"kubelet"}, Variables: []variable{nodeName},
			Path: `C:\k\hybrid-overlay-node.exe --node NODE_NAME --bootstrap-kubeconfig=C:\k\kubeconfig --cert-dir=C:\k\cni\config --cert-duration=24h --windows-service ` +
				`--logfile C:\var\log\hybrid-overlay\hybrid-overlay.log --k8s-apiserver=` + m.Server + ` --k8s-cacert C:\k\bootstrap-ca.crt`,
		},
		{Name: "csi-proxy", Priority: 2, Path: `C:\k\csi-proxy.exe -log_file=C:\var\log\csi-proxy\csi-proxy.log -logtostderr=false -windows-service --v=2`},
		{
			Name: "kube-proxy", Priority: 3, Dependencies: []string{"hybrid-overlay-node"}, Path: logged("kube-proxy") + `--config C:\k\kube-proxy.conf --windows-service`,
			PreScripts: []script{{
				Path: `C:\Temp\network-conf.ps1 -hostnameOverride NODE_NAME -clusterCIDR NODE_SUBNET -kubeConfigPath KUBE_CONFIG_PATH -kubeProxyConfigPath KUBE_PROXY_CONFIG_PATH -verbosity VERBOSITY`,
				NodeArgs: []variable{
					nodeName, {"NODE_SUBNET", `{.metadata.annotations.k8s\.ovn\.org/hybrid-overlay-node-subnet}`},
					{"KUBE_CONFIG_PATH", `C:\k\kubeconfig`}, {"KUBE_PROXY_CONFIG_PATH", `C:\k\kube-proxy.conf`}, {"VERBOSITY", "0"},
				},
			}},
		},
	}
	if m.Platform == configv1.AzurePlatformType {
		all = append(all, service{
			Name: "cloud-node-manager", Priority: 3, Variables: []variable{nodeName},
			Path: `C:\k\azure-cloud-node-manager.exe --windows-service --node-name=NODE_NAME --wait-routes=false --kubeconfig=C:\k\wicd-kubeconfig`,
		})
	}
	return append(all, service{
		Name: daemonName,
		Path: `C:\k\windows-instance-config-daemon.exe controller --windows-service --log-dir C:\var\log\wicd --namespace openshift-windows-machine-config-operator --kubeconfig C:\k\wicd-kubeconfig ` +
			`--cert-dir C:\k\wicd-certs --cert-duration 1h --ca-bundle C:\k\ca-bundle.crt`,
	})
}

// cloudArguments are the last ones of the kubelet, which depend on the cloud.
func (m Made) cloudArguments() string {
	switch m.Platform {
	case configv1.AWSPlatformType:
		return " --cloud-provider=external --hostname-override=" + m.Node + ` --node-ip=NODE_IP --image-credential-provider-bin-dir=C:\k --image-credential-provider-config=C:\k\credential-provider-config.yaml`
	case configv1.AzurePlatformType: // with an argument that OpenShift had until 4.15
		return ` --cloud-provider=external --cloud-config=C:\k\cloud.conf --node-ip=NODE_IP`
	default:
		return " --node-ip=NODE_IP"
	}
}

// commandLine is that of a service on the host.
func (m Made) commandLine(s service) string {
	return strings.NewReplacer(nodeName.Name, m.Node, "NODE_IP", m.Address).Replace(s.Path)
}

// Published is what ConfigMap windows-services-<version> has, which is immutable.
func (m Made) Published() (map[string]string, error) {
	services := m.services()
	list, err := json.Marshal(services[:len(services)-1])
	if err != nil {
		return nil, err
	}
	names, err := json.Marshal(watched)
	if err != nil {
		return nil, err
	}
	data := map[string]string{"services": string(list), "files": "[]", "watchedEnvironmentVars": string(names)}
	if len(m.Proxy) > 0 {
		variables, err := json.Marshal(m.Proxy)
		if err != nil {
			return nil, err
		}
		data["environmentVars"] = string(variables)
	}
	return data, nil
}
