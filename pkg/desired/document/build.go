// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// minDigestKey is the least length of a key of digests, in bytes.
const minDigestKey = 32

// pauseImage matches the reference of an image; no character of it is special in TOML.
var pauseImage = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)

// Result is the desired configuration of a host.
type Result struct {
	// Bundle is the document with its secrets.
	Bundle config.Bundle
	// Revision identifies the document.
	Revision string
	// PoolRevision names the ControllerRevision of the pool that the document is of. Empty: not known, there is no pool, or it has the
	// template of one revision with the programs of another. Build leaves it empty.
	PoolRevision string
	// Waiting lists the services that a host does not get yet, and what they wait for. All of
	// them come without further action. A host that has them keeps them. A service is not waited for if its program is not in the
	// payload or something else that it needs was not provided; so are those that depend on it.
	Waiting []Waiting
	// Warnings describe inputs that cannot be used as they are.
	Warnings []string
	// Without: what cannot be read at present is not in the document, and not left as it is either, because the host has none of it. Build leaves it false.
	Without bool
	// Reach asks whether the host reaches the API server. Its proxy may have a password.
	Reach api.ReachRequest
	// Keep are the digests of the programs that the host keeps when they are replaced, see [api.ApplyRequest]. They are no part of
	// the document: what a host worked with changes without it. Build leaves it empty.
	Keep []string
}

// Waiting is a service that a host does not get until something exists.
type Waiting struct {
	// Service is its name.
	Service string
	// For is what has to exist: the Node, or something of it.
	For string
}

// String says it in messages, as one of a list.
func (w Waiting) String() string {
	return fmt.Sprintf("service %s (waits for %s)", w.Service, w.For)
}

// Build returns the desired configuration of a host. The error lists everything that is wrong
// with the inputs; an invalid document is never returned.
func Build(in Inputs) (*Result, error) {
	b := &builder{in: in, secrets: config.Secrets{}}
	if err := in.validate(); err != nil {
		return nil, err
	}
	b.document.Version = config.SchemaVersion
	b.host()
	b.variables()
	b.services()
	b.payload()
	b.configuration()
	b.credentials()
	b.network()
	b.registries()
	b.environment()
	b.trust()
	b.logs()
	b.document.Routes = MetadataRoutes(b.in.Instance.ProviderID)
	if err := errors.Join(b.errs...); err != nil {
		return nil, err
	}
	r := &Result{
		Bundle:   config.Bundle{Document: *b.document.Sorted(), Secrets: b.secrets},
		Waiting:  b.waiting,
		Warnings: b.warnings,
		Reach:    in.Cluster.reach(),
	}
	checked := r.Bundle // a copy
	if b.in.Cluster.checked {
		checked.Document.Certificates = nil // see Parse: to check them takes longer than all the rest
	}
	if err := checked.Validate(); err != nil {
		return nil, fmt.Errorf("the document of the host is not valid: %w", err)
	}
	revision, err := r.Bundle.Document.Revision()
	if err != nil {
		return nil, err
	}
	r.Revision = revision
	return r, nil
}

// validate returns everything that is missing from the inputs or cannot be used.
func (in *Inputs) validate() error {
	errs := []error{in.Cluster.ServiceOptions.validate()}
	missing := func(what string, absent bool) {
		if absent {
			errs = append(errs, errors.New(what))
		}
	}
	missing(fmt.Sprintf("the key of digests has %d bytes, want at least %d", len(in.DigestKey), minDigestKey), len(in.DigestKey) < minDigestKey)
	missing("there is no CA of the kubelet", len(in.Cluster.KubeletCA) == 0)
	missing("there is no CA of the API server", len(in.Cluster.APIServerCA) == 0)
	missing("there is no service network", len(in.Cluster.ServiceCIDRs) == 0)
	missing("there is a certificate of the exporter without its key, or a key without its certificate",
		(len(in.Cluster.ExporterCertificate) == 0) != (len(in.Cluster.ExporterKey) == 0))
	_, wantsCloudConfig := in.Cluster.cloudConfigPath()
	missing("the kubelet has the argument --cloud-config, and there is no configuration of the cloud provider",
		wantsCloudConfig && len(in.Cluster.CloudConfig) == 0)
	missing("there is no configuration of the credential provider of AWS",
		in.Cluster.CredentialProvider && len(in.Cluster.CredentialProviderConfig) == 0)
	missing("the kubelet is to get credentials of registries from a program that the payload does not have",
		in.Cluster.CredentialProvider && !in.Payload.CredentialProvider(in.Cluster.Platform))
	missing(fmt.Sprintf("the pause image %q is not a reference of an image", in.Cluster.PauseImage),
		in.Cluster.PauseImage != "" && !pauseImage.MatchString(in.Cluster.PauseImage))
	if in.Node != nil && in.Node.Subnet != "" {
		if _, err := netip.ParsePrefix(in.Node.Subnet); err != nil {
			errs = append(errs, fmt.Errorf("the subnet of node %s: %w", in.Node.Name, err))
		}
	}
	return errors.Join(errs...)
}

// builder makes one document.
type builder struct {
	in       Inputs
	document config.Document
	secrets  config.Secrets
	waiting  []Waiting
	warnings []string
	errs     []error
}

var (
	noImpact = config.OnChange{Impact: config.ImpactNone}
	reboot   = config.OnChange{Impact: config.ImpactReboot}
)

// change returns an impact on those of the services that are in the document.
func (b *builder) change(impact config.Impact, names ...string) config.OnChange {
	present := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !b.has(name) })
	if len(present) == 0 {
		return noImpact
	}
	return config.OnChange{Impact: impact, Services: present}
}

// has reports whether the service is in the document.
func (b *builder) has(name string) bool {
	return slices.ContainsFunc(b.document.Services, func(s config.Service) bool { return s.Name == name })
}

// waits reports whether the service is in the document and waits.
func (b *builder) waits(name string) bool {
	return slices.ContainsFunc(b.waiting, func(w Waiting) bool { return w.Service == name })
}

// digest returns the digest of a secret content.
func (b *builder) digest(content []byte) string {
	mac := hmac.New(sha256.New, b.in.DigestKey)
	mac.Write(content)
	return "hmac-sha256:" + hex.EncodeToString(mac.Sum(nil))
}

// text adds a file that is not secret.
func (b *builder) text(path string, role config.Role, content string, onChange config.OnChange) {
	b.document.Files = append(b.document.Files, config.File{
		Path: path, Role: role, Source: config.Source{Text: &content}, Digest: config.Digest([]byte(content)), OnChange: onChange,
	})
}

// secret adds a secret file, and returns it. Its name among the secrets is its path.
func (b *builder) secret(path string, content []byte, onChange config.OnChange) *config.File {
	b.secrets[path] = content
	b.document.Files = append(b.document.Files, config.File{
		Path: path, Role: config.RoleCredential, Source: config.Source{Secret: path}, Digest: b.digest(content),
		Access: config.AccessAdministrators, OnChange: onChange,
	})
	return &b.document.Files[len(b.document.Files)-1]
}

// host adds the configuration of Windows itself.
func (b *builder) host() {
	b.document.Hostname = b.in.Instance.Hostname
	b.document.Features = []config.Feature{{Name: "Containers", OnChange: reboot}}
	b.document.AntivirusExclusions = []string{containerdPath}
	b.document.Firewall = []config.FirewallRule{
		{Name: "ContainerLogsPort", Protocol: config.ProtocolTCP, Port: kubeletPort},
		{Name: "WindowsExporter", Protocol: config.ProtocolTCP, Port: exporterPort},
	}
	for _, path := range wmco.Directories() {
		directory := config.Directory{Path: path}
		switch path {
		case wmco.TempDir, wmco.WICDCertsDir, wmco.LogDir + `\wicd`:
			// We do not run what uses them.
			continue
		case wmco.CNIConfigDir:
			// hybrid-overlay-node creates a new certificate each day and removes none.
			directory.Access = config.AccessAdministrators
			directory.Retention = &config.Retention{Pattern: "ovnkube-client-*.pem", Keep: 2}
		case wmco.TLSDir, wmco.RegistriesDir:
			directory.Access = config.AccessAdministrators
		case wmco.KubernetesDir, wmco.CNIDir, wmco.ContainerdDir, wmco.ManifestsDir:
			// Every user may create files in directories below C:\, unless these say otherwise.
			directory.Access = config.AccessAdministratorsWrite
		}
		b.document.Directories = append(b.document.Directories, directory)
	}
	b.document.Directories = append(b.document.Directories,
		config.Directory{Path: kubeletPKIDir, Access: config.AccessAdministrators},
		config.Directory{Path: volumePluginsDir, Access: config.AccessAdministratorsWrite})
	b.document.Generated = generated()
}

// Directories that programs create.
const (
	kubeletDir = `C:\var\lib\kubelet`
	// kubeletPKIDir has the keys of the kubelet. Volumes of pods are beside it, so the directory
	// above cannot be restricted to administrators.
	kubeletPKIDir = kubeletDir + `\pki`
	// kubeletClientCert is a link to the client certificate of the kubelet. The kubeconfig names
	// the link, and exists as soon as the kubelet requests the certificate: a kubelet that is
	// restarted before the certificate is issued needs the bootstrap credentials again.
	kubeletClientCert = kubeletPKIDir + `\kubelet-client-current.pem`
	volumePluginsDir  = `C:\usr\libexec\kubernetes`
	containerdData    = `C:\ProgramData\containerd`
)

// generated returns what programs leave on a host that was not a node before: credentials, by
// which the next user of the host could act as this node; logs, images.
func generated() []string {
	paths := []string{
		wmco.KubeconfigPath, wmco.CNIConfigDir, wmco.CNIStateDir, kubeletDir, containerdData, volumePluginsDir,
		wmco.LogDir + `\pods`, wmco.LogDir + `\containers`,
	}
	for _, log := range []string{containerdLog, kubeletLog, kubeProxyLog, exporterLog, hybridOverlayLog, csiProxyLog} {
		directory, _ := wmco.SplitPath(log)
		paths = append(paths, strings.TrimSuffix(directory, `\`))
	}
	return paths
}

// variables adds the variables whose values are known, or can be found on the host.
func (b *builder) variables() {
	add := func(v config.Variable) { b.document.Variables = append(b.document.Variables, v) }
	var known []string
	for _, a := range b.in.Instance.Addresses {
		if a = a.Unmap(); a.Is4() {
			known = append(known, a.String())
		}
	}
	// A name server may give them in another order each time.
	slices.Sort(known)
	add(config.Variable{Name: variableNodeIP, Source: config.SourceDefaultRouteAddress, Preferred: slices.Compact(known)})
	if source, _ := hostname(b.in.Cluster.Platform); source != "" {
		add(config.Variable{Name: variableHostnameOverride, Source: source})
	}
	// A host whose Node or its annotation is away for a while keeps what it has.
	ofNode := func(name, value string) {
		v := config.Variable{Name: name, Source: config.SourceKept}
		if value != "" {
			v.Source, v.Value = config.SourceValue, value
		}
		add(v)
	}
	var node Node
	if b.in.Node != nil {
		node = *b.in.Node
	}
	ofNode(variableNodeName, node.Name)
	ofNode(variableNodeSubnet, node.Subnet)
}

// services adds the services, in the order in which they are started. A service waits if it
// depends on one that waits, and is left out if it depends on one that is absent.
func (b *builder) services() {
	known := map[string]bool{}
	for _, v := range b.document.Variables {
		known[v.Name] = v.Source != config.SourceKept
	}
	absent, waits := map[string]bool{}, map[string]bool{}
	is := func(set map[string]bool) func(string) bool { return func(name string) bool { return set[name] } }
	var all []config.Service
	list := services(b.in.Cluster.ServiceOptions)
	if path := b.in.AgentPath; path != "" {
		list = append(list, agentService(path))
	}
	for _, s := range list {
		if s.name == wmco.KubeProxyService && absent[wmco.HybridOverlayService] && b.in.Cluster.HybridNetwork {
			s.dependencies, s.foreign = nil, wmco.OverlayNetwork
		}
		if b.absent(s) || slices.ContainsFunc(s.dependencies, is(absent)) {
			absent[s.name] = true
			continue
		}
		what := b.missing(s, known)
		if at := slices.IndexFunc(s.dependencies, is(waits)); at >= 0 && what == "" {
			what = "service " + s.dependencies[at]
		}
		if what != "" {
			waits[s.name] = true
			b.waiting = append(b.waiting, Waiting{Service: s.name, For: what})
		}
		d := s.document()
		d.Waiting = waits[s.name] || s.name == wmco.WindowsExporterService && b.keepsExporter() || s.name == wmco.CloudNodeManagerService && b.in.Cluster.NodeManager == nil
		all = append(all, d)
	}
	ordered, err := config.StartOrder(all)
	if err != nil {
		b.errs = append(b.errs, err)
	}
	b.document.Services = ordered
}

// absent reports whether the program of a service, or something that it needs to run, was not
// provided. Nobody may ever provide it, so it is not waited for.
func (b *builder) absent(s service) bool {
	switch {
	case !b.in.Payload.has(s.binary) && s.binary != b.in.AgentPath:
		return true
	case s.name == wmco.WindowsExporterService:
		return b.in.Cluster.NoMetrics
	case s.name == wmco.CloudNodeManagerService:
		return b.in.Cluster.NodeManager == nil && !b.in.Cluster.KeepNodeManager
	default:
		return false
	}
}

// missing returns what a service needs of the Node and does not exist yet. Empty: nothing.
func (b *builder) missing(s service, known map[string]bool) string {
	for _, name := range s.references() {
		switch {
		case known[name]:
		case name == variableNodeSubnet && b.in.Node != nil:
			return "annotation " + wmco.SubnetAnnotation + " of node " + b.in.Node.Name
		default:
			return "the Node of the host"
		}
	}
	return ""
}

// impacts returns the impact of a change of each program that runs all the time. The other
// programs are started when they are needed. Kubernetes asks for a drain before a kubelet of
// another minor version is started, and nobody knows here which one the host has.
func (b *builder) impacts() map[string]config.OnChange {
	return map[string]config.OnChange{
		containerdPath:     b.change(config.ImpactDrain, wmco.ContainerdService),
		containerdShimPath: b.change(config.ImpactDrain, wmco.ContainerdService),
		kubeletPath:        b.change(config.ImpactDrain, wmco.KubeletService),
		kubeProxyPath:      b.change(config.ImpactRestart, wmco.KubeProxyService),
		logRunnerPath:      b.change(config.ImpactRestart, wmco.KubeletService, wmco.CSIProxyService, wmco.KubeProxyService),
		exporterPath:       b.change(config.ImpactRestart, wmco.WindowsExporterService),
		hybridOverlayPath:  b.change(config.ImpactRestart, wmco.HybridOverlayService),
		csiProxyPath:       b.change(config.ImpactRestart, wmco.CSIProxyService),
		nodeManagerPath:    b.change(config.ImpactRestart, wmco.CloudNodeManagerService),
	}
}

// programs returns the programs of hosts of the platform, by path.
func programs(platform configv1.PlatformType) []string {
	var paths []string
	for _, f := range wmco.PayloadFiles(platform) {
		if path := f.Path(); strings.HasSuffix(path, ".exe") {
			paths = append(paths, path)
		}
	}
	return paths
}

// optionalPrograms are those that a site may add to the payload. A host can be a node without
// them.
func optionalPrograms() []string {
	return []string{hybridOverlayPath, csiProxyPath, nodeManagerPath, credentialsPath}
}

// CredentialProvider reports whether hosts of the platform have the program that gets credentials of
// registries.
func (p Payload) CredentialProvider(platform configv1.PlatformType) bool {
	return slices.Contains(programs(platform), credentialsPath) && p.has(credentialsPath)
}

// HybridOverlay reports whether hosts have the program that connects them by the overlay of OVN-Kubernetes.
func (p Payload) HybridOverlay() bool { return p.has(hybridOverlayPath) }

// CloudNodeManager reports whether hosts of the platform have the program that completes their Nodes, which needs credentials.
func (p Payload) CloudNodeManager(platform configv1.PlatformType) bool {
	return platform == configv1.AzurePlatformType && p.has(nodeManagerPath)
}

// TaintUninitialized is on Nodes whose kubelet says that a cloud completes them, until it has (k8s.io/cloud-provider/api).
const TaintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// Without says what hosts of a platform of OpenShift lack because the payload has no such program, one
// sentence for each. Drivers of volumes that still need csi-proxy.exe are rare but on vSphere.
func (p Payload) Without(platform configv1.PlatformType) []string {
	lacks := map[string]string{
		hybridOverlayPath: "pods have a network, and kube-proxy runs, only once something else has made network " + wmco.OverlayNetwork + " on the host",
		nodeManagerPath:   "Nodes keep their taint " + TaintUninitialized + " until something else completes them",
		credentialsPath:   "images of registries of AWS are pulled without the credentials of the host",
	}
	if platform == configv1.VSpherePlatformType {
		lacks[csiProxyPath] = "drivers of volumes that do not run as HostProcess containers, such as that of vSphere, mount nothing on hosts"
	}
	var all []string
	for _, path := range programs(platform) {
		if what, ok := lacks[path]; ok && !p.has(path) {
			_, name := wmco.SplitPath(path)
			all = append(all, fmt.Sprintf("the payload has no %s: %s; add it with hack/build-payload.sh --add %s=FILE", name, what, name))
		}
	}
	return all
}

// WithoutOfWMCO says which programs a host that was adopted loses by its first update: WMCO runs them on hosts of the platform, and the
// payload does not have them. Others it lacks either stay on such a host, or are no services. Empty: it loses none.
func (p Payload) WithoutOfWMCO(platform configv1.PlatformType) string {
	var names []string
	for _, path := range programs(platform) {
		if (path == csiProxyPath || path == nodeManagerPath) && !p.has(path) {
			_, name := wmco.SplitPath(path)
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("the first update takes %s from the host, which WMCO has there and the payload has not: to keep them, build a payload with those in the image of WMCO before (hack/take-from-wmco.sh)",
		strings.Join(names, " and "))
}

// For is what hosts of the platform get of a payload: all that the platform needs, and what a site added, but not what only
// another platform needs.
func (p Payload) For(platform configv1.PlatformType) Payload {
	wanted := programs(platform)
	var others []string
	for _, other := range []configv1.PlatformType{configv1.AWSPlatformType, configv1.AzurePlatformType} {
		others = append(others, programs(other)...)
	}
	p.Files = slices.DeleteFunc(slices.Clone(p.Files), func(f PayloadFile) bool {
		return slices.Contains(others, f.Path) && !slices.Contains(wanted, f.Path)
	})
	return p
}

// payload adds the files that are shipped.
func (b *builder) payload() {
	impacts := b.impacts()
	components := map[string]*config.Component{}
	for _, f := range b.in.Payload.For(b.in.Cluster.Platform).Files {
		onChange, known := impacts[f.Path]
		if !known {
			onChange = noImpact
		}
		b.document.Files = append(b.document.Files, config.File{
			Path: f.Path, Role: config.RoleProgram,
			Source: config.Source{Payload: f.Name, Size: f.Size, URL: f.URL},
			Digest: "sha256:" + f.SHA256, OnChange: onChange,
		})
		if f.Component == "" {
			continue
		}
		c := components[f.Component]
		if c == nil {
			c = &config.Component{Name: f.Component, Version: f.Version}
			components[f.Component] = c
		}
		if c.Version != f.Version {
			b.errs = append(b.errs, fmt.Errorf("component %s of the payload has the versions %s and %s", c.Name, c.Version, f.Version))
		}
		c.Files = append(c.Files, f.Path)
	}
	for _, name := range slices.Sorted(maps.Keys(components)) {
		slices.Sort(components[name].Files)
		b.document.Components = append(b.document.Components, *components[name])
	}
	for _, path := range b.in.Payload.Missing(b.in.Cluster.Platform) {
		b.errs = append(b.errs, fmt.Errorf("the payload has no %s", path))
	}
}

// Missing returns the paths of programs that a host of the platform needs and that the payload
// does not have. Optional programs are not among them.
func (p Payload) Missing(platform configv1.PlatformType) []string {
	var missing []string
	for _, path := range programs(platform) {
		if !p.has(path) && !slices.Contains(optionalPrograms(), path) {
			missing = append(missing, path)
		}
	}
	return missing
}

// has reports whether the payload has a file for the path.
func (p Payload) has(path string) bool {
	return slices.ContainsFunc(p.Files, func(f PayloadFile) bool { return f.Path == path })
}

// configuration adds the files that are the same on all hosts of a pool.
func (b *builder) configuration() {
	cluster := b.in.Cluster
	dns := cluster.DNS
	if !dns.IsValid() {
		var err error
		if dns, err = ClusterDNS(cluster.ServiceCIDRs[0]); err != nil {
			b.errs = append(b.errs, err)
			return
		}
	}
	options := b.in.Kubelet
	options.Version = b.in.Payload.version(kubeletPath)
	kubelet, err := kubeletConfigText(dns, options)
	if err != nil {
		b.errs = append(b.errs, err)
		return
	}
	b.text(wmco.KubeletConfigPath, config.RoleConfiguration, kubelet, b.change(config.ImpactDrain, wmco.KubeletService))
	b.document.Files[len(b.document.Files)-1].Format = config.FormatKubelet
	// The kubelet reloads it.
	b.text(wmco.KubeletCAPath, config.RoleCertificate, string(cluster.KubeletCA), noImpact)
	// The kubeconfig of the kubelet names it, so that a host need not join again when it changes.
	// The kubelet reads it only when it starts. kube-proxy reads it again from 1.36 on, but depends on the others.
	b.text(wmco.BootstrapCAPath, config.RoleCertificate, string(cluster.APIServerCA),
		b.change(config.ImpactRestart, wmco.KubeletService, wmco.HybridOverlayService, wmco.KubeProxyService))

	image := cmp.Or(cluster.PauseImage, DefaultPauseImage)
	b.text(wmco.ContainerdConfigPath, config.RoleConfiguration, containerdConfig(image), b.change(config.ImpactDrain, wmco.ContainerdService))
	if cluster.CredentialProvider {
		b.text(wmco.CredentialProviderPath, config.RoleConfiguration, string(cluster.CredentialProviderConfig),
			b.change(config.ImpactRestart, wmco.KubeletService))
	}
	if b.has(wmco.WindowsExporterService) {
		b.text(wmco.ExporterConfigPath, config.RoleConfiguration, exporterConfig(), noImpact)
		b.document.Files[len(b.document.Files)-1].Waiting = b.keepsExporter()
	}
}

// credentials adds the files that are secrets.
func (b *builder) credentials() {
	cluster := b.in.Cluster
	if path, ok := cluster.cloudConfigPath(); ok {
		// It may contain the password of an account of the cloud.
		b.secret(path, cluster.CloudConfig, b.change(config.ImpactRestart, wmco.KubeletService))
	}
	if b.has(wmco.WindowsExporterService) {
		b.exporterFiles()
	}
	b.document.ClientCertificate = &config.ClientCertificate{
		Path: kubeletClientCert, Kubeconfig: wmco.KubeconfigPath, CAFile: wmco.KubeletCAPath, ServerCAFile: wmco.BootstrapCAPath,
	}
	if source, _ := hostname(cluster.Platform); source != "" {
		b.document.ClientCertificate.NodeName = ref(variableHostnameOverride)
	}
	if b.in.Instance.Bootstrap != nil {
		if kubeconfig, ok := b.kubeconfig(b.in.Instance.Bootstrap, "kubelet"); ok {
			// A kubelet registers its Node only when it starts, and only then does it read this.
			onChange := b.change(config.ImpactRestart, wmco.KubeletService)
			b.secret(wmco.BootstrapKubeconfigPath, kubeconfig, onChange).UntilFile = kubeletClientCert
		}
	}
	switch {
	case !b.has(wmco.CloudNodeManagerService):
	case cluster.NodeManager == nil:
		b.kept(wmco.WICDKubeconfigPath, config.RoleCredential, config.AccessAdministrators, variableNodeManagerFile)
	default:
		if kubeconfig, ok := b.kubeconfig(cluster.NodeManager, wmco.CloudNodeManagerService); ok {
			b.secret(wmco.WICDKubeconfigPath, kubeconfig, b.change(config.ImpactRestart, wmco.CloudNodeManagerService)).Waiting = b.waits(wmco.CloudNodeManagerService)
		}
	}
}

// exporterFiles adds what the exporter serves with, both of which it reads for each connection.
func (b *builder) exporterFiles() {
	if !b.keepsExporter() {
		b.text(exporterCertPath, config.RoleCertificate, string(b.in.Cluster.ExporterCertificate), noImpact)
		b.secret(exporterKeyPath, b.in.Cluster.ExporterKey, noImpact)
		return
	}
	b.kept(exporterCertPath, config.RoleCertificate, config.AccessInherited, variableExporterFile)
	b.kept(exporterKeyPath, config.RoleCredential, config.AccessAdministrators, variableExporterFile)
}

// keepsExporter says that hosts serve metrics with what they have, if they have it, because there is no certificate for them.
func (b *builder) keepsExporter() bool { return len(b.in.Cluster.ExporterCertificate) == 0 }

func (b *builder) kubeconfig(c interface {
	Kubeconfig(server, user string) ([]byte, error)
}, user string) ([]byte, bool) {
	kubeconfig, err := c.Kubeconfig(b.in.Cluster.APIServerURL, user)
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("credentials of %s: %w", user, err))
		return nil, false
	}
	return kubeconfig, true
}

// keptPort is the port of the overlay, which networks have for as long as they exist: hybrid-overlay-node compares the other settings of
// those that it finds, and not this one. See EnsureExistingNetworkIsValid of ovn-kubernetes.
func (b *builder) keptPort() *config.KeptArgument {
	return &config.KeptArgument{
		Service: wmco.HybridOverlayService, Name: argumentVXLANPort, Default: "4789", Programs: []string{containerdShimPath},
		OnChange: b.change(config.ImpactDrain, wmco.ContainerdService),
	}
}

// network adds what depends on the network of the pods.
func (b *builder) network() {
	switch {
	case b.has(wmco.HybridOverlayService):
		b.document.HNS = &config.HNS{Networks: []string{wmco.BaseOverlayNetwork, wmco.OverlayNetwork}, Waiting: b.waits(wmco.HybridOverlayService), Keep: b.keptPort()}
	case b.has(wmco.KubeProxyService):
		b.document.HNS = &config.HNS{Foreign: []string{wmco.OverlayNetwork}}
	default:
		return
	}
	if !b.has(wmco.KubeProxyService) {
		return
	}
	// Health checks of load balancers ask whether it works, on the cluster's own workers as well.
	b.document.Firewall = append(b.document.Firewall, config.FirewallRule{Name: "KubeProxyHealth", Protocol: config.ProtocolTCP, Port: kubeProxyHealthPort})
	b.document.HNS.Endpoint = &config.HNSEndpoint{Name: wmco.VIPEndpoint, Network: wmco.OverlayNetwork, Waiting: b.waits(wmco.KubeProxyService)}
	for name, source := range map[string]config.VariableSource{
		variableHNSSubnet:  config.SourceHNSSubnet,
		variableHNSAddress: config.SourceHNSManagementAddress,
		variableSourceVIP:  config.SourceHNSEndpointAddress,
	} {
		b.document.Variables = append(b.document.Variables, config.Variable{Name: name, Source: source, Network: wmco.OverlayNetwork})
	}
	cni, err := cniConfig(b.in.Cluster.ServiceCIDRs[0])
	b.errs = append(b.errs, err)
	// containerd watches the directory.
	b.expanded(wmco.CNIConfigPath, cni, noImpact)
	proxy, err := kubeProxyConfig(b.in.Cluster.kubeProxyVerbosity(), b.in.Payload.version(kubeProxyPath))
	b.errs = append(b.errs, err)
	b.expanded(wmco.KubeProxyConfigPath, proxy, b.change(config.ImpactRestart, wmco.KubeProxyService))
}

// expanded adds a file with variables whose values come from the network of pods, which hybrid-overlay-node makes, or
// a program of others. The kubelet starts before either.
func (b *builder) expanded(path, content string, onChange config.OnChange) {
	b.text(path, config.RoleConfiguration, content, onChange)
	f := &b.document.Files[len(b.document.Files)-1]
	f.Source.Expand = true
	if f.AfterService = wmco.HybridOverlayService; !b.has(wmco.HybridOverlayService) {
		f.AfterService, f.Network = wmco.KubeletService, wmco.OverlayNetwork
	}
	f.Waiting = b.waits(wmco.KubeProxyService)
}

// registries adds where images are pulled from. containerd reads it for each pull.
func (b *builder) registries() {
	registries := RegistriesOf(&b.in.Cluster)
	b.warnings = append(b.warnings, registries.Warnings...)
	for _, f := range registries.Files {
		path := wmco.RegistriesDir + `\` + f.Directory + `\hosts.toml`
		switch {
		case f.Mirrored && b.in.Cluster.KeepMirrors:
			b.kept(path, config.RoleCredential, config.AccessAdministrators, variableRegistryFile)
		case f.HasCredentials:
			b.secret(path, []byte(f.Content), noImpact)
		default:
			b.text(path, config.RoleConfiguration, f.Content, noImpact)
		}
	}
}

// kept adds a file that stays as it is on hosts that have it, because what is in it is known to them alone. The variable is
// one that never has a value.
func (b *builder) kept(path string, role config.Role, access config.Access, variable string) {
	if !slices.ContainsFunc(b.document.Variables, func(v config.Variable) bool { return v.Name == variable }) {
		b.document.Variables = append(b.document.Variables, config.Variable{Name: variable, Source: config.SourceKept})
	}
	b.text(path, role, ref(variable), noImpact)
	f := &b.document.Files[len(b.document.Files)-1]
	f.Access, f.Source.Expand, f.Waiting = access, true, true
}

// environment adds the variables of the machine. A service inherits those that the
// service control manager had when it was started, so the host has to be rebooted.
func (b *builder) environment() {
	variables := b.in.Cluster.Proxy.variables()
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		v := config.EnvironmentVariable{Name: name, Value: variables[name], OnChange: reboot}
		if hasUserinfo(v.Value) {
			v.Secret, v.Digest = "environment/"+name, b.digest([]byte(v.Value))
			b.secrets[v.Secret] = config.SecretValue(v.Value)
			v.Value = ""
		}
		b.document.Environment = append(b.document.Environment, v)
	}
}

// Parse reads and checks the certificates of TrustedCA, once for all documents that are made of it: with a proxy there are more than a hundred.
// Without it each document does. It returns what cannot be read, which [Build] says as well. TrustedCA must not change after it.
func (c *Cluster) Parse() (damaged []string) {
	trusted, _, damaged := certificates(c.TrustedCA)
	if len(damaged) == 0 {
		c.trusted = once(trusted)
		c.checked = (&config.Document{Version: config.SchemaVersion, Certificates: c.trusted}).Validate() == nil
	}
	return damaged
}

// trust adds the authorities that hosts trust in addition to their own.
func (b *builder) trust() {
	cluster := b.in.Cluster // a copy
	if cluster.trusted == nil {
		if damaged := cluster.Parse(); len(damaged) > 0 {
			b.errs = append(b.errs, fmt.Errorf("trusted certificates: %s", strings.Join(damaged, ", ")))
		}
	}
	b.document.Certificates, b.document.KeepCertificates = slices.Clone(cluster.trusted), cluster.KeepTrusted
}

// logs adds the rotation of logs that no program rotates: kube-log-runner rotates those of the
// kubelet, kube-proxy and csi-proxy, and hybrid-overlay-node its own.
func (b *builder) logs() {
	rotation := b.in.Cluster.LogRotation
	size, age := rotation.maxBytes, int64(rotation.maxAge.Seconds())
	if size == 0 && age == 0 {
		return
	}
	for _, log := range []struct{ service, path string }{
		{wmco.ContainerdService, containerdLog},
		{wmco.WindowsExporterService, exporterLog},
	} {
		if b.has(log.service) {
			b.document.LogRotation = append(b.document.LogRotation, config.LogRotation{Path: log.path, MaxBytes: size, MaxAgeSeconds: age})
		}
	}
}
