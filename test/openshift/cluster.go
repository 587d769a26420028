// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Resources are the kinds of OpenShift that a cluster has, as far as this package and our programs know them, each
// as <plural>.<group>.
var Resources = []string{
	"infrastructures.config.openshift.io", "networks.config.openshift.io", "proxies.config.openshift.io", "apiservers.config.openshift.io",
	"images.config.openshift.io", "imagedigestmirrorsets.config.openshift.io", "imagetagmirrorsets.config.openshift.io",
	"imagecontentsourcepolicies.operator.openshift.io", "networks.operator.openshift.io", "clusteroperators.config.openshift.io",
	"machines.machine.openshift.io", "machinesets.machine.openshift.io", "machinehealthchecks.machine.openshift.io",
	"controllerconfigs.machineconfiguration.openshift.io", "machineconfigpools.machineconfiguration.openshift.io", "machineconfigs.machineconfiguration.openshift.io",
	"kubeletconfigs.machineconfiguration.openshift.io",
}

// Namespaces of the cluster that our programs and its operators use.
var Namespaces = []string{MachineConfigNamespace, ConfigNamespace, NetworkOperatorNamespace, ManagedNamespace, "openshift-machine-api"}

// NetworkOperatorNamespace is that of the network operator.
const NetworkOperatorNamespace = "openshift-network-operator"

// Namespaces of what the cluster is configured with.
const (
	// ConfigNamespace is where administrators put what they set.
	ConfigNamespace = "openshift-config"
	// ManagedNamespace is where operators publish what others of the cluster use.
	ManagedNamespace = "openshift-config-managed"
)

// kubeletCAName is the ConfigMap in [ManagedNamespace] with the authorities of what kubelets serve with.
const kubeletCAName = "csr-controller-ca"

// MachineConfigNamespace is that of the Machine Config Operator.
const MachineConfigNamespace = "openshift-machine-config-operator"

// clusterName is the name of all objects of which a cluster has one.
const clusterName = "cluster"

// Cluster is what a cluster is made of that has just been installed.
type Cluster struct {
	// Platform of the cluster. Required.
	Platform configv1.PlatformType
	// APIServerURL is where nodes reach the API server. Those outside of the cluster reach it elsewhere. Required.
	APIServerURL string
	// APIServerCA verifies it, and ClientCA its clients; in PEM. Required.
	APIServerCA, ClientCA []byte
	// ServiceNetwork is that of Services. Required.
	ServiceNetwork string
	// DNS is the address of the Service of the cluster DNS. Required.
	DNS string
}

// AddToScheme adds the kinds that a cluster has.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, rbacv1.AddToScheme, certificatesv1.AddToScheme, configv1.Install, operatorv1.Install, operatorv1alpha1.Install, machinev1beta1.Install, mcfgv1.Install,
	} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("adding the kinds of OpenShift: %w", err)
		}
	}
	return nil
}

// NewClient returns a client of the kinds that a cluster has.
func NewClient(kube *rest.Config) (client.Client, error) {
	log.SetLogger(logr.Discard()) // the library says otherwise that nobody has
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(kube, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return c, nil
}

// Install creates the objects of the cluster. The client is one with all rights; fields that the cluster does not
// know are errors. The kinds are there already, see Resources.
func (o Cluster) Install(ctx context.Context, c client.Client) error {
	c = client.WithFieldValidation(c, metav1.FieldValidationStrict)
	objects, err := o.Objects()
	if err != nil {
		return err
	}
	for _, name := range Namespaces {
		if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	for _, object := range objects {
		// The server answers with what it has kept, which is no status.
		status := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy is of the same kind
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
		switch status.(type) {
		case *configv1.Infrastructure, *configv1.Proxy, *mcfgv1.MachineConfigPool: // of others, all is written at once
			status.SetResourceVersion(object.GetResourceVersion())
			if err := c.Status().Update(ctx, status); err != nil {
				return fmt.Errorf("writing the status of %T %s: %w", status, status.GetName(), err)
			}
		}
	}
	return nil
}

// Objects are those of the cluster but its namespaces, in the order in which they are created.
func (o Cluster) Objects() ([]client.Object, error) {
	pullSecret := []byte(`{"auths":{"registry.example.com":{"auth":"dXNlcjpwYXNzd29yZA=="}}}`)
	controller := o.controllerConfig()
	configs, err := o.machineConfigs(controller, pullSecret)
	if err != nil {
		return nil, err
	}
	authorities := func(name string, bundle []byte) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ManagedNamespace, Name: name}, Data: map[string]string{trustedCAKey: string(bundle)}}
	}
	named := metav1.ObjectMeta{Name: clusterName}
	return slices.Concat(bootstrapper(), configs, []client.Object{
		o.infrastructure(), o.network(), o.operatorNetwork(),
		&configv1.Proxy{ObjectMeta: named, Spec: configv1.ProxySpec{TrustedCA: configv1.ConfigMapNameReference{}}},
		&configv1.APIServer{ObjectMeta: named, Spec: configv1.APIServerSpec{Audit: configv1.Audit{Profile: configv1.DefaultAuditProfileType}}},
		&configv1.Image{ObjectMeta: named},
		controller,
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: MachineConfigNamespace, Name: bootstrapCAName},
			BinaryData: map[string][]byte{trustedCAKey: o.APIServerCA}, // the only one that is binary
		},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: pullSecretKey.Namespace, Name: pullSecretKey.Name}, Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: pullSecret},
		},
		authorities(ClientCAName, o.ClientCA), authorities(ServerCAName, o.APIServerCA), authorities(kubeletCAName, o.ClientCA),
	}), nil
}

func (o Cluster) infrastructure() *configv1.Infrastructure {
	spec, status := platformSpec(o.Platform), platformStatus(o.Platform)
	i := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: clusterName}, Spec: configv1.InfrastructureSpec{PlatformSpec: spec}}
	i.Status = configv1.InfrastructureStatus{
		InfrastructureName: "demo-7k2xq", Platform: o.Platform, PlatformStatus: &status, //nolint:staticcheck // installers still write the former field
		APIServerURL: "https://api.demo.example.com:6443", APIServerInternalURL: o.APIServerURL, EtcdDiscoveryDomain: "",
		ControlPlaneTopology: configv1.HighlyAvailableTopologyMode, InfrastructureTopology: configv1.HighlyAvailableTopologyMode, CPUPartitioning: configv1.CPUPartitioningNone,
	}
	return i
}

// platformSpec is what an administrator may set; most installations leave it empty.
func platformSpec(platform configv1.PlatformType) configv1.PlatformSpec {
	spec := configv1.PlatformSpec{Type: platform}
	switch platform {
	case configv1.AWSPlatformType:
		spec.AWS = &configv1.AWSPlatformSpec{}
	case configv1.AzurePlatformType:
		spec.Azure = &configv1.AzurePlatformSpec{}
	case configv1.GCPPlatformType:
		spec.GCP = &configv1.GCPPlatformSpec{}
	case configv1.NutanixPlatformType:
		spec.Nutanix = &configv1.NutanixPlatformSpec{
			PrismCentral:  configv1.NutanixPrismEndpoint{Address: "prism.example.com", Port: 9440},
			PrismElements: []configv1.NutanixPrismElementEndpoint{{Name: "one", Endpoint: configv1.NutanixPrismEndpoint{Address: "element.example.com", Port: 9440}}},
		}
	}
	return spec
}

// platformStatus is what the installer found.
func platformStatus(platform configv1.PlatformType) configv1.PlatformStatus {
	status := configv1.PlatformStatus{Type: platform}
	switch platform {
	case configv1.AWSPlatformType:
		status.AWS = &configv1.AWSPlatformStatus{Region: "us-east-2"}
	case configv1.AzurePlatformType:
		status.Azure = &configv1.AzurePlatformStatus{ResourceGroupName: "demo-7k2xq-rg", NetworkResourceGroupName: "demo-7k2xq-rg", CloudName: configv1.AzurePublicCloud}
	case configv1.GCPPlatformType:
		status.GCP = &configv1.GCPPlatformStatus{ProjectID: "example", Region: "us-east1"}
	case configv1.NutanixPlatformType:
		status.Nutanix = &configv1.NutanixPlatformStatus{APIServerInternalIPs: []string{"192.0.2.5"}, IngressIPs: []string{"192.0.2.6"}}
	case configv1.VSpherePlatformType:
		status.VSphere = &configv1.VSpherePlatformStatus{APIServerInternalIPs: []string{"192.0.2.5"}, IngressIPs: []string{"192.0.2.6"}}
	case configv1.BareMetalPlatformType:
		status.BareMetal = &configv1.BareMetalPlatformStatus{APIServerInternalIPs: []string{"192.0.2.5"}, IngressIPs: []string{"192.0.2.6"}}
	}
	return status
}

func (o Cluster) network() *configv1.Network {
	pods := []configv1.ClusterNetworkEntry{{CIDR: "10.128.0.0/14", HostPrefix: 23}}
	return &configv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: clusterName},
		Spec:       configv1.NetworkSpec{ClusterNetwork: pods, ServiceNetwork: []string{o.ServiceNetwork}, NetworkType: string(operatorv1.NetworkTypeOVNKubernetes)},
		Status:     configv1.NetworkStatus{ClusterNetwork: pods, ServiceNetwork: []string{o.ServiceNetwork}, NetworkType: string(operatorv1.NetworkTypeOVNKubernetes), ClusterNetworkMTU: 1400},
	}
}

// operatorNetwork is that of the network operator, with what the documentation of Windows containers has an
// administrator set.
func (o Cluster) operatorNetwork() *operatorv1.Network {
	n := &operatorv1.Network{ObjectMeta: metav1.ObjectMeta{Name: clusterName}}
	n.Spec = operatorv1.NetworkSpec{
		OperatorSpec:   operatorv1.OperatorSpec{ManagementState: operatorv1.Managed, LogLevel: operatorv1.Normal, OperatorLogLevel: operatorv1.Normal},
		ClusterNetwork: []operatorv1.ClusterNetworkEntry{{CIDR: "10.128.0.0/14", HostPrefix: 23}}, ServiceNetwork: []string{o.ServiceNetwork},
	}
	n.Spec.DefaultNetwork = operatorv1.DefaultNetworkDefinition{Type: operatorv1.NetworkTypeOVNKubernetes, OVNKubernetesConfig: &operatorv1.OVNKubernetesConfig{
		HybridOverlayConfig: &operatorv1.HybridOverlayConfig{HybridClusterNetwork: []operatorv1.ClusterNetworkEntry{{CIDR: "10.132.0.0/14", HostPrefix: 23}}},
	}}
	if o.Platform == configv1.VSpherePlatformType { // which uses the usual port itself
		n.Spec.DefaultNetwork.OVNKubernetesConfig.HybridOverlayConfig.HybridOverlayVXLANPort = ptr.To[uint32](9898)
	}
	return n
}

// newPool is the pool of a role, which has no configuration yet.
func newPool(role string) *mcfgv1.MachineConfigPool {
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: role, Labels: map[string]string{poolLabel + role: ""}}}
	pool.Spec = mcfgv1.MachineConfigPoolSpec{
		MachineConfigSelector: &metav1.LabelSelector{MatchLabels: map[string]string{RoleLabel: role}},
		NodeSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/" + role: ""}},
	}
	return pool
}

// CustomPool is a pool of an administrator for a role: what workers have, and what is for that role alone.
func CustomPool(role string) *mcfgv1.MachineConfigPool {
	pool := newPool(role)
	pool.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: RoleLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{workerRole, role}},
	}}
	return pool
}

// machineConfigs are the pools and what the Machine Config Operator renders for them.
func (o Cluster) machineConfigs(controller *mcfgv1.ControllerConfig, pullSecret []byte) ([]client.Object, error) {
	in := machineConfigInputs{platform: o.Platform, controller: controller, pullSecret: pullSecret, pools: []mcfgv1.MachineConfigPool{*newPool(masterRole), *newPool(workerRole)}}
	out, err := render(in)
	if err != nil {
		return nil, err
	}
	var objects []client.Object
	for _, generated := range out.generated {
		objects = append(objects, generated)
	}
	for i := range in.pools {
		pool := &in.pools[i]
		rendered := out.rendered[pool.Name]
		pool.Spec.Configuration = configurationOf(rendered.Name, out.sources[pool.Name])
		pool.Status.Configuration = pool.Spec.Configuration
		objects = append(objects, rendered, pool)
	}
	return objects, nil
}

// controllerConfig is what the Machine Config Operator renders from. Fields that it has nothing for are null.
func (o Cluster) controllerConfig() *mcfgv1.ControllerConfig {
	infrastructure := o.infrastructure()
	infrastructure.TypeMeta = metav1.TypeMeta{APIVersion: configv1.SchemeGroupVersion.String(), Kind: "Infrastructure"}
	dns := &configv1.DNS{
		TypeMeta: metav1.TypeMeta{APIVersion: configv1.SchemeGroupVersion.String(), Kind: "DNS"}, ObjectMeta: metav1.ObjectMeta{Name: clusterName},
		Spec: configv1.DNSSpec{BaseDomain: "demo.example.com"},
	}
	return &mcfgv1.ControllerConfig{
		ObjectMeta: metav1.ObjectMeta{Name: controllerConfigName},
		Spec: mcfgv1.ControllerConfigSpec{
			ClusterDNSIP: cmp.Or(o.DNS, "172.30.0.10"), CloudProviderConfig: "", KubeAPIServerServingCAData: o.ClientCA, RootCAData: o.APIServerCA,
			IPFamilies: mcfgv1.IPFamiliesIPv4, NetworkType: string(operatorv1.NetworkTypeOVNKubernetes), Images: map[string]string{}, OSImageURL: "registry.example.com/os:1",
			Infra: infrastructure, DNS: dns, ReleaseImage: "registry.example.com/release:5.0",
		},
	}
}
