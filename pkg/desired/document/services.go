// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Ports of a host that others connect to.
const (
	kubeletPort         = 10250
	exporterPort        = 9182
	kubeProxyHealthPort = 10256
)

// Arguments of the kubelet that are taken from the cluster's own nodes.
const (
	argumentCloudProvider = "cloud-provider"
	argumentCloudConfig   = "cloud-config"
	argumentVXLANPort     = "--hybrid-overlay-vxlan-port"
)

// Variables of commands and files.
const (
	variableNodeName         = "NODE_NAME"
	variableNodeSubnet       = "NODE_SUBNET"
	variableNodeIP           = "NODE_IP"
	variableHostnameOverride = "HOSTNAME_OVERRIDE"
	variableHNSSubnet        = "HNS_SUBNET"
	variableHNSAddress       = "HNS_MANAGEMENT_IP"
	variableSourceVIP        = "SOURCE_VIP"
	// variableExporterFile, variableRegistryFile and variableNodeManagerFile never have a value: they stand for files that a host keeps as
	// they are.
	variableExporterFile    = "EXPORTER_FILE"
	variableRegistryFile    = "REGISTRY_FILE"
	variableNodeManagerFile = "NODE_MANAGER_FILE"
)

// ref returns the reference to a variable in a document.
func ref(name string) string { return "$(" + name + ")" }

// ServiceOptions is what the services of a host depend on.
type ServiceOptions struct {
	Platform configv1.PlatformType
	// APIServerURL is the internal URL of the API server.
	APIServerURL string
	// KubeletArguments are those of the kubelets of the cluster's own nodes, without
	// dashes. Only cloud-provider and cloud-config are used.
	KubeletArguments map[string]string
	// CredentialProvider says that the kubelet gets credentials of registries from the program of AWS,
	// see [Payload.CredentialProvider].
	CredentialProvider bool
	// VXLANPort is the UDP port of the hybrid overlay. Zero: the default, 4789.
	VXLANPort uint16
	// LogRotation of the services that can rotate their logs.
	LogRotation LogRotation
	// Debug makes the services log more, unless the next two fields are set.
	Debug bool
	// LogVerbosity of the kubelet and kube-proxy, from 0 to 10. Nil: 2 and 0, or 4 for both with
	// Debug.
	LogVerbosity *int32
	// ContainerdLogLevel is the log level of containerd: trace, debug, info, warn or error.
	// Empty: info, or debug with Debug.
	ContainerdLogLevel string
}

// containerdLogLevels are the values of [ServiceOptions.ContainerdLogLevel].
var containerdLogLevels = []string{"trace", "debug", "info", "warn", "error"}

// maxVerbosity is the greatest value of [ServiceOptions.LogVerbosity] that any of the programs
// distinguishes.
const maxVerbosity = 10

// validate returns an error for everything that cannot be part of a command line.
func (o ServiceOptions) validate() error {
	var errs []error
	if u, err := url.Parse(o.APIServerURL); err != nil || u.Scheme != "https" || u.Host == "" || strings.ContainsAny(o.APIServerURL, " \t\r\n\"") {
		errs = append(errs, fmt.Errorf("%q is not an https URL of an API server", o.APIServerURL))
	}
	for _, name := range slices.Sorted(maps.Keys(o.KubeletArguments)) {
		if value := o.KubeletArguments[name]; strings.ContainsAny(value, " \t\r\n\"") {
			// A line break here once was a line of a systemd unit.
			errs = append(errs, fmt.Errorf("the argument --%s of the kubelet has white space or a quote: %q", name, value))
		}
	}
	if v := o.LogVerbosity; v != nil && (*v < 0 || *v > maxVerbosity) {
		errs = append(errs, fmt.Errorf("the verbosity %d of logs is not between 0 and %d", *v, maxVerbosity))
	}
	if l := o.ContainerdLogLevel; l != "" && !slices.Contains(containerdLogLevels, l) {
		errs = append(errs, fmt.Errorf("the log level %q of containerd is not one of %s", l, strings.Join(containerdLogLevels, ", ")))
	}
	return errors.Join(errs...)
}

// service is a service of a host, the source of both the document and the published form.
type service struct {
	name         string
	binary       string
	arguments    []string
	dependencies []string
	bootstrap    bool
	priority     int
	health       *config.Health
	// impact of a change of its command or of its program.
	impact config.Impact
	// needs are the variables without which the service cannot run, in addition to those in
	// its arguments.
	needs []string
	// runner, if not empty, are the arguments of kube-log-runner in documents, which runs the
	// program there. The published form is that of WMCO, which does not rotate its log.
	runner []string
	// scripts of the published form. The agent does the same without scripts.
	scripts []Script
	// foreign: the network that the program needs is made by another one, see [config.Service.Network].
	foreign string
	// manual services are not started with the host, because the agent writes a file that they
	// need first.
	manual bool
}

// services returns the services of a host, by priority.
func services(o ServiceOptions) []service {
	list := []service{
		containerd(o), kubelet(o), windowsExporter(o), hybridOverlay(o), csiProxy(o), kubeProxy(o),
	}
	if o.Platform == configv1.AzurePlatformType {
		list = append(list, cloudNodeManager())
	}
	return list
}

const (
	containerdPath     = wmco.ContainerdDir + `\containerd.exe`
	containerdShimPath = wmco.ContainerdDir + `\containerd-shim-runhcs-v1.exe`
	kubeletPath        = wmco.KubernetesDir + `\kubelet.exe`
	kubeProxyPath      = wmco.KubernetesDir + `\kube-proxy.exe`
	logRunnerPath      = wmco.KubernetesDir + `\kube-log-runner.exe`
	exporterPath       = wmco.KubernetesDir + `\windows_exporter.exe`
	hybridOverlayPath  = wmco.KubernetesDir + `\hybrid-overlay-node.exe`
	csiProxyPath       = wmco.KubernetesDir + `\csi-proxy.exe`
	credentialsPath    = wmco.KubernetesDir + `\ecr-credential-provider.exe`
	nodeManagerPath    = wmco.KubernetesDir + `\azure-cloud-node-manager.exe`

	containerdLog    = wmco.LogDir + `\containerd\containerd.log`
	kubeletLog       = wmco.LogDir + `\kubelet\kubelet.log`
	kubeProxyLog     = wmco.LogDir + `\kube-proxy\kube-proxy.log`
	exporterLog      = wmco.LogDir + `\windows_exporter\windows_exporter.log`
	hybridOverlayLog = wmco.LogDir + `\hybrid-overlay\hybrid-overlay.log`
	csiProxyLog      = wmco.LogDir + `\csi-proxy\csi-proxy.log`
)

// level returns the log level of a program whose levels are words.
func level(debug bool) string {
	if debug {
		return "debug"
	}
	return "info"
}

// verbosity returns the argument of a program whose log levels are numbers (klog).
func verbosity(debug bool) string {
	if debug {
		return "--v=4"
	}
	return "--v=2"
}

// kube-log-runner cannot run containerd or windows_exporter, whose logs the agent rotates. A
// service of Windows has containerd only with --run-service, and then what it would write to its
// standard error is discarded, unless --log-file says where else it goes. And both connect to the
// service control manager only if that has started them itself (svc.IsWindowsService).

func containerd(o ServiceOptions) service {
	return service{
		name:   wmco.ContainerdService,
		binary: containerdPath,
		arguments: []string{
			"--config", wmco.ContainerdConfigPath, "--log-file", containerdLog,
			"--run-service", "--log-level", cmp.Or(o.ContainerdLogLevel, level(o.Debug)),
		},
		bootstrap: true,
		priority:  0,
		health:    &config.Health{Pipe: `\\.\pipe\containerd-containerd`, WithinSeconds: 60},
		impact:    config.ImpactDrain,
		scripts:   []Script{{Command: wmco.DefenderExclusionScript + " -BinPath " + containerdPath}},
	}
}

func kubelet(o ServiceOptions) service {
	arguments := append(o.LogRotation.runner(kubeletLog, kubeletPath),
		"--config="+wmco.KubeletConfigPath,
		"--bootstrap-kubeconfig="+wmco.BootstrapKubeconfigPath,
		"--kubeconfig="+wmco.KubeconfigPath,
		`--cert-dir=c:\var\lib\kubelet\pki\`,
		"--windows-service",
		"--node-labels=node.openshift.io/os_id=Windows",
		// Pods that use all processors must not keep the kubelet from running.
		"--windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS",
		o.kubeletVerbosity(),
	)
	if provider, ok := o.KubeletArguments[argumentCloudProvider]; ok {
		arguments = append(arguments, "--"+argumentCloudProvider+"="+provider)
	}
	if path, ok := o.cloudConfigPath(); ok {
		arguments = append(arguments, "--"+argumentCloudConfig+"="+path)
	}
	var scripts []Script
	if _, command := hostname(o.Platform); command != "" {
		arguments = append(arguments, "--hostname-override="+ref(variableHostnameOverride))
		scripts = append(scripts, Script{Variable: variableHostnameOverride, Command: command})
	}
	arguments = append(arguments, "--node-ip="+ref(variableNodeIP))
	scripts = append(scripts, Script{
		Variable: variableNodeIP,
		Command:  "(Get-NetRoute -DestinationPrefix '0.0.0.0/0' | Get-NetIpAddress -AddressFamily IPv4 -ifIndex {$_.ifIndex}[0]).IPAddress",
	})
	if o.CredentialProvider {
		arguments = append(arguments,
			"--image-credential-provider-bin-dir="+wmco.KubernetesDir,
			"--image-credential-provider-config="+wmco.CredentialProviderPath)
	}
	return service{
		name:         wmco.KubeletService,
		binary:       logRunnerPath,
		arguments:    arguments,
		dependencies: []string{wmco.ContainerdService},
		bootstrap:    true,
		priority:     1,
		health:       &config.Health{URL: "http://127.0.0.1:10248/healthz", WithinSeconds: 120},
		impact:       config.ImpactRestart,
		scripts:      scripts,
	}
}

// cloudConfigPath returns the path of the configuration of the cloud provider on a host, and
// whether there is one. It has the name that it has on the cluster's own nodes.
func (o ServiceOptions) cloudConfigPath() (string, bool) {
	path, ok := o.KubeletArguments[argumentCloudConfig]
	if !ok {
		return "", false
	}
	return wmco.KubernetesDir + `\` + path[strings.LastIndexByte(path, '/')+1:], true
}

// hostname returns the source of the name of the Node for the agent, and the published command
// that prints the same name. Both are empty where the host chooses the name.
func hostname(platform configv1.PlatformType) (source config.VariableSource, script string) {
	switch wmco.KubeletHostname(platform) {
	case wmco.HostnameOfMetadata:
		return config.SourceAWSLocalHostname, "Invoke-RestMethod -UseBasicParsing -Uri http://169.254.169.254/latest/meta-data/local-hostname"
	case wmco.HostnameOfGCP:
		return config.SourceGCPHostname, wmco.GCPHostnameScript
	case wmco.HostnameOfFQDN:
		return config.SourceFQDN, "$p = [System.Net.NetworkInformation.IPGlobalProperties]::GetIPGlobalProperties(); " +
			"if ($p.DomainName) { $p.HostName + '.' + $p.DomainName } else { $p.HostName }"
	default:
		return "", ""
	}
}

func windowsExporter(o ServiceOptions) service {
	return service{
		name:   wmco.WindowsExporterService,
		binary: exporterPath,
		arguments: []string{
			"--collectors.enabled", "cpu,logical_disk,net,os,service,system,container,memory,cpu_info",
			"--web.config.file", wmco.ExporterConfigPath, "--log.level", level(o.Debug), "--log.file", exporterLog,
		},
		priority: 2,
		impact:   config.ImpactRestart,
	}
}

func hybridOverlay(o ServiceOptions) service {
	arguments := []string{
		"--node", ref(variableNodeName), "--bootstrap-kubeconfig=" + wmco.KubeconfigPath,
		"--cert-dir=" + wmco.CNIConfigDir, "--cert-duration=24h", "--windows-service",
		"--logfile", hybridOverlayLog, "--k8s-apiserver=" + o.APIServerURL, "--k8s-cacert", wmco.BootstrapCAPath,
	}
	if o.VXLANPort != 0 {
		arguments = append(arguments, argumentVXLANPort, strconv.Itoa(int(o.VXLANPort)))
	}
	if o.Debug {
		arguments = append(arguments, "--loglevel", "5")
	}
	return service{
		name:         wmco.HybridOverlayService,
		binary:       hybridOverlayPath,
		arguments:    arguments,
		dependencies: []string{wmco.KubeletService},
		priority:     2,
		impact:       config.ImpactRestart,
	}
}

func csiProxy(o ServiceOptions) service {
	return service{
		name:      wmco.CSIProxyService,
		binary:    csiProxyPath,
		arguments: []string{"-log_file=" + csiProxyLog, "-logtostderr=false", "-windows-service", verbosity(o.Debug)},
		// klog, which it logs with, writes to its standard error by default.
		runner:   append(o.LogRotation.runner(csiProxyLog, csiProxyPath), "-windows-service", verbosity(o.Debug)),
		priority: 2,
		impact:   config.ImpactRestart,
	}
}

// kubeletVerbosity returns the argument for the verbosity of the kubelet.
func (o ServiceOptions) kubeletVerbosity() string {
	if o.LogVerbosity != nil {
		return "--v=" + strconv.Itoa(int(*o.LogVerbosity))
	}
	return verbosity(o.Debug)
}

// kubeProxyVerbosity returns the verbosity of kube-proxy, which is in its configuration.
func (o ServiceOptions) kubeProxyVerbosity() int {
	switch {
	case o.LogVerbosity != nil:
		return int(*o.LogVerbosity)
	case o.Debug:
		return 4
	default:
		return 0
	}
}

func kubeProxy(o ServiceOptions) service {
	return service{
		name:         wmco.KubeProxyService,
		binary:       logRunnerPath,
		arguments:    append(o.LogRotation.runner(kubeProxyLog, kubeProxyPath), "--config", wmco.KubeProxyConfigPath, "--windows-service"),
		dependencies: []string{wmco.HybridOverlayService},
		priority:     3,
		impact:       config.ImpactRestart,
		health:       &config.Health{URL: fmt.Sprintf("http://127.0.0.1:%d/healthz", kubeProxyHealthPort), WithinSeconds: 120},
		needs:        []string{variableNodeName, variableNodeSubnet},
		manual:       true,
		scripts: []Script{{
			Command: wmco.NetworkConfigurationScript + " -hostnameOverride NODE_NAME -clusterCIDR NODE_SUBNET " +
				"-kubeConfigPath KUBE_CONFIG_PATH -kubeProxyConfigPath KUBE_PROXY_CONFIG_PATH -verbosity VERBOSITY",
			NodeVariables: []NodeVariable{
				{variableNodeName, "{.metadata.name}"},
				{variableNodeSubnet, "{.metadata.annotations." + strings.ReplaceAll(wmco.SubnetAnnotation, ".", `\.`) + "}"},
				{"KUBE_CONFIG_PATH", wmco.KubeconfigPath},
				{"KUBE_PROXY_CONFIG_PATH", wmco.KubeProxyConfigPath},
				{"VERBOSITY", strconv.Itoa(o.kubeProxyVerbosity())},
			},
		}},
	}
}

func cloudNodeManager() service {
	return service{
		name:   wmco.CloudNodeManagerService,
		binary: nodeManagerPath,
		arguments: []string{
			"--windows-service", "--node-name=" + ref(variableNodeName), "--wait-routes=false",
			"--kubeconfig=" + wmco.WICDKubeconfigPath,
		},
		priority: 3,
		impact:   config.ImpactRestart,
	}
}

// agentService keeps a host at its desired configuration. WMCO does not have it, so it is not
// published. It starts last, after the services that it watches.
func agentService(path string) service {
	return service{
		name:      api.ServiceName,
		binary:    path,
		arguments: []string{"run"},
		priority:  4,
		impact:    config.ImpactRestart,
	}
}

// references returns the variables that the service cannot run without.
func (s service) references() []string {
	names := slices.Clone(s.needs)
	for _, argument := range s.arguments {
		names = append(names, config.References(argument)...)
	}
	return names
}

// published returns the service in the schema of WMCO.
func (s service) published() PublishedService {
	p := PublishedService{
		Name: s.name, Scripts: s.scripts, Dependencies: s.dependencies, Bootstrap: s.bootstrap, Priority: uint(s.priority),
	}
	words := []string{s.binary}
	for _, argument := range s.arguments {
		for _, name := range config.References(argument) {
			if name == variableNodeName {
				p.NodeVariables = append(p.NodeVariables, NodeVariable{name, "{.metadata.name}"})
			}
			argument = strings.ReplaceAll(argument, ref(name), name)
		}
		words = append(words, argument)
	}
	p.Command = strings.Join(words, " ")
	return p
}

// document returns the service for a document.
func (s service) document() config.Service {
	start := config.StartAutomatic
	if s.manual {
		start = config.StartManual
	}
	binary, arguments := s.binary, s.arguments
	if len(s.runner) > 0 {
		binary, arguments = logRunnerPath, s.runner
	}
	return config.Service{
		Name: s.name, Description: config.Description(s.name), BinaryPath: binary, Arguments: arguments,
		Dependencies: s.dependencies, StartType: start, Bootstrap: s.bootstrap, Priority: s.priority,
		Recovery: &config.Recovery{
			ResetAfterSeconds:         300,
			RestartDelaysMilliseconds: []int64{10_000, 30_000, 60_000, 120_000},
		},
		Health:   s.health,
		Network:  s.foreign,
		OnChange: config.OnChange{Impact: s.impact, Services: []string{s.name}},
	}
}

// Publish returns the services of a host for the ConfigMap windows-services-<version>.
// User names and passwords in the addresses of proxies are left out of it.
func Publish(o ServiceOptions, proxy Proxy) (*PublishedServices, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	p := &PublishedServices{Environment: map[string]string{}, WatchedEnvironment: ProxyVariables()}
	for _, s := range services(o) {
		p.Services = append(p.Services, s.published())
	}
	for name, value := range proxy.variables() {
		p.Environment[name] = withoutUserinfo(value)
	}
	if err := p.validate(); err != nil {
		return nil, err
	}
	return p, nil
}
