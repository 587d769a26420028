// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	ign3 "github.com/coreos/ignition/v2/config/v3_5"
	ignition "github.com/coreos/ignition/v2/config/v3_5/types"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// RoleLabel of a MachineConfig says for nodes of which role it is. Pools select by it.
	RoleLabel = "machineconfiguration.openshift.io/role"
	// poolLabel and the name of a pool are a label of that pool, by which a KubeletConfig selects it.
	poolLabel = "pools.operator.machineconfiguration.openshift.io/"

	// generatedAnnotation of a MachineConfig names the release of the controller that generated it.
	generatedAnnotation = "machineconfiguration.openshift.io/generated-by-controller-version"
	releaseAnnotation   = "machineconfiguration.openshift.io/release-image-version"
	controllerVersion   = "3f0c1b0a4f1d4c7e9f3b8d6a5c2e1f0d9b8a7c6e"
	releaseVersion      = "5.0.0"

	workerRole, masterRole = "worker", "master"
	renderedPrefix         = "rendered-"
)

// machineConfigInputs are what the Machine Config Operator renders from.
type machineConfigInputs struct {
	platform configv1.PlatformType
	// controller and pools are required.
	controller *mcfgv1.ControllerConfig
	pools      []mcfgv1.MachineConfigPool
	// apiServer has the profile of TLS. Nil: the default one.
	apiServer *configv1.APIServer
	// image, digests and tags say where images are pulled from.
	image   *configv1.Image
	digests []configv1.ImageDigestMirrorSet
	tags    []configv1.ImageTagMirrorSet
	// pullSecret has the credentials of registries, as JSON.
	pullSecret []byte
	kubelets   []mcfgv1.KubeletConfig
	// configs are the MachineConfigs that there are. Those that are generated are not read.
	configs []mcfgv1.MachineConfig
}

// machineConfigs are what the Machine Config Operator makes.
type machineConfigs struct {
	// generated are made of other objects than MachineConfigs.
	generated []*mcfgv1.MachineConfig
	// rendered is what a pool should have, by its name. A pool that cannot be rendered has none.
	rendered map[string]*mcfgv1.MachineConfig
	// sources are the MachineConfigs that one is rendered from, by the name of the pool.
	sources map[string][]string
	// refused says why a KubeletConfig is not used, by its name.
	refused map[string]string
}

// render is what the Machine Config Operator makes of its inputs. It is a pure function.
func render(in machineConfigInputs) (*machineConfigs, error) {
	out := &machineConfigs{rendered: map[string]*mcfgv1.MachineConfig{}, sources: map[string][]string{}, refused: map[string]string{}}
	if err := out.generate(in); err != nil {
		return nil, err
	}
	var errs []error
	for i := range in.pools {
		pool := &in.pools[i]
		selected, err := out.selected(pool, in.configs)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if len(selected) == 0 {
			continue
		}
		config, err := renderPool(pool, selected)
		if err != nil {
			errs = append(errs, fmt.Errorf("pool %s: %w", pool.Name, err))
			continue
		}
		out.rendered[pool.Name] = config
		for _, source := range selected {
			out.sources[pool.Name] = append(out.sources[pool.Name], source.Name)
		}
	}
	return out, errors.Join(errs...)
}

// generate makes what is there without any MachineConfig of an administrator.
func (m *machineConfigs) generate(in machineConfigInputs) error {
	for _, role := range []string{masterRole, workerRole} {
		worker := Worker{Platform: in.platform, Role: role}
		base, err := worker.base()
		if err != nil {
			return err
		}
		kubelet, err := worker.kubelet()
		if err != nil {
			return err
		}
		if err := errors.Join(
			m.add("00-"+role, role, nil, merge(base, configOf(map[string]ignition.Resource{
				"/etc/mco/proxy.env":           percent(proxyEnvironment(in.controller.Spec.Proxy)),
				"/var/lib/kubelet/config.json": percent(cmp.Or(string(in.pullSecret), `{"auths":{}}`)),
				"/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt": percent(string(in.controller.Spec.AdditionalTrustBundle)),
			}))),
			m.add("01-"+role+"-kubelet", role, nil, kubelet),
			m.add("99-"+role+"-generated-registries", role, nil, configOf(map[string]ignition.Resource{
				"/etc/containers/registries.conf": base64(registriesConf(in.image, in.digests, in.tags)),
			})),
		); err != nil {
			return err
		}
	}
	for i := range in.pools {
		pool := &in.pools[i]
		generated, err := in.worker(pool).generated()
		if err != nil {
			return err
		}
		if err := m.add("98-"+pool.Name+"-generated-kubelet", pool.Name, nil, generated); err != nil {
			return err
		}
	}
	return m.generateKubelets(in)
}

// worker is what the kubelets of a pool are configured with before anybody sets anything.
func (in *machineConfigInputs) worker(pool *mcfgv1.MachineConfigPool) Worker {
	var profile *configv1.TLSSecurityProfile
	if in.apiServer != nil {
		profile = in.apiServer.Spec.TLSSecurityProfile
	}
	version, suites := TLSSettings(profile)
	role := workerRole
	if pool.Name == masterRole {
		role = masterRole
	}
	return Worker{Platform: in.platform, Role: role, KubeletConfig: map[string]any{
		"clusterDNS": []string{in.controller.Spec.ClusterDNSIP}, "tlsMinVersion": version, "tlsCipherSuites": suites,
	}}
}

// add adds a MachineConfig that is generated, for an owner; nil: it has none.
func (m *machineConfigs) add(name, role string, owner *metav1.OwnerReference, config ignition.Config) error {
	raw, err := encode(config)
	if err != nil {
		return err
	}
	generated := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{RoleLabel: role}, Annotations: map[string]string{generatedAnnotation: controllerVersion},
	}}
	if owner != nil && owner.UID != "" {
		generated.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	generated.Spec.Config.Raw = raw
	m.generated = append(m.generated, generated)
	return nil
}

// selected are the MachineConfigs of a pool in the order in which they are merged: by name, and those of workers before
// others, so that a custom pool wins.
func (m *machineConfigs) selected(pool *mcfgv1.MachineConfigPool, configs []mcfgv1.MachineConfig) ([]*mcfgv1.MachineConfig, error) {
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.MachineConfigSelector)
	if err != nil {
		return nil, fmt.Errorf("the machineConfigSelector of pool %s: %w", pool.Name, err)
	}
	var selected []*mcfgv1.MachineConfig
	take := func(config *mcfgv1.MachineConfig) {
		if !selector.Empty() && selector.Matches(labels.Set(config.Labels)) {
			selected = append(selected, config)
		}
	}
	for _, config := range m.generated {
		take(config)
	}
	for i := range configs {
		if configs[i].Annotations[generatedAnnotation] == "" {
			take(&configs[i])
		}
	}
	slices.SortFunc(selected, func(a, b *mcfgv1.MachineConfig) int {
		rank := func(c *mcfgv1.MachineConfig) int {
			if c.Labels[RoleLabel] == workerRole {
				return 0
			}
			return 1
		}
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.Name, b.Name))
	})
	return selected, nil
}

// renderPool merges the MachineConfigs of a pool. The name of what comes out has a digest of it: what is taken back has the
// name that it had.
func renderPool(pool *mcfgv1.MachineConfigPool, configs []*mcfgv1.MachineConfig) (*mcfgv1.MachineConfig, error) {
	merged := make([]ignition.Config, 0, len(configs))
	rendered := &mcfgv1.MachineConfig{}
	rendered.Spec.OSImageURL, rendered.Spec.KernelType = "registry.example.com/os@sha256:"+strings.Repeat("0", sha256.Size*2), "default"
	for _, config := range configs {
		rendered.Spec.KernelArguments = append(rendered.Spec.KernelArguments, config.Spec.KernelArguments...)
		if len(config.Spec.Config.Raw) == 0 {
			continue
		}
		parsed, _, err := ign3.ParseCompatibleVersion(config.Spec.Config.Raw)
		if err != nil {
			return nil, fmt.Errorf("MachineConfig %s: %w", config.Name, err)
		}
		merged = append(merged, parsed)
	}
	var err error
	if rendered.Spec.Config.Raw, err = encode(merge(merged...)); err != nil {
		return nil, err
	}
	spec, err := json.Marshal(rendered.Spec)
	if err != nil {
		return nil, fmt.Errorf("encode a MachineConfig: %w", err)
	}
	digest := sha256.Sum256(spec)
	rendered.Name = renderedPrefix + pool.Name + "-" + hex.EncodeToString(digest[:16])
	rendered.Annotations = map[string]string{generatedAnnotation: controllerVersion, releaseAnnotation: releaseVersion}
	if pool.UID != "" {
		rendered.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pool, mcfgv1.SchemeGroupVersion.WithKind("MachineConfigPool"))}
	}
	return rendered, nil
}

// configurationOf says in a pool which MachineConfig it is about, and what that was rendered from.
func configurationOf(name string, sources []string) mcfgv1.MachineConfigPoolStatusConfiguration {
	reference := func(name string) corev1.ObjectReference {
		return corev1.ObjectReference{APIVersion: mcfgv1.SchemeGroupVersion.String(), Kind: "MachineConfig", Name: name}
	}
	configuration := mcfgv1.MachineConfigPoolStatusConfiguration{ObjectReference: reference(name)}
	for _, source := range sources {
		configuration.Source = append(configuration.Source, reference(source))
	}
	return configuration
}

// proxyEnvironment is the file by which services of a worker know the proxy.
func proxyEnvironment(proxy *configv1.ProxyStatus) string {
	if proxy == nil {
		return "# Proxy environment variables will be populated in this file\n"
	}
	text := ""
	for _, variable := range [][2]string{{"HTTP_PROXY", proxy.HTTPProxy}, {"HTTPS_PROXY", proxy.HTTPSProxy}, {"NO_PROXY", proxy.NoProxy}} {
		if variable[1] != "" {
			text += variable[0] + "=" + variable[1] + "\n"
		}
	}
	return text
}

// registriesConf is the file by which the runtime of a worker knows mirrors, insecure and blocked registries.
func registriesConf(image *configv1.Image, digests []configv1.ImageDigestMirrorSet, tags []configv1.ImageTagMirrorSet) string {
	var registries []string
	add := func(location, setting string) {
		registries = append(registries, fmt.Sprintf("\n[[registry]]\n  prefix = \"\"\n  location = %q\n  %s\n", location, setting))
	}
	mirrored := func(source, pull string, mirrors []configv1.ImageMirror) {
		for _, mirror := range mirrors {
			add(source, fmt.Sprintf("[[registry.mirror]]\n    location = %q\n    pull-from-mirror = %q", mirror, pull))
		}
	}
	for i := range digests {
		for _, m := range digests[i].Spec.ImageDigestMirrors {
			mirrored(m.Source, "digest-only", m.Mirrors)
		}
	}
	for i := range tags {
		for _, m := range tags[i].Spec.ImageTagMirrors {
			mirrored(m.Source, "tag-only", m.Mirrors)
		}
	}
	if image != nil {
		for _, registry := range image.Spec.RegistrySources.InsecureRegistries {
			add(registry, "insecure = true")
		}
		for _, registry := range image.Spec.RegistrySources.BlockedRegistries {
			add(registry, "blocked = true")
		}
	}
	slices.Sort(registries)
	return searchedRegistries + strings.Join(registries, "")
}
