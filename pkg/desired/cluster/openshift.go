// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// How an Infrastructure comes back that was deleted, and the status of one that was created again: the installer wrote it, and no
// operator does it again. The copy of the Machine Config Operator is one only as long as there is no Infrastructure: one without a status
// is copied, too, as of platform None.
const (
	restoreInfrastructure = "save the copy that the Machine Config Operator has of it, which is lost when it is created without a status (oc get controllerconfig " + controllerConfigName + " -o jsonpath='{.spec.infra}'). " +
		"Then create it again from that or from a backup, and at once its status: oc edit infrastructure " + clusterName + " --subresource=status"
	restoreInfrastructureStatus = "write it again from a backup of before (oc edit infrastructure " + clusterName + " --subresource=status): no operator does, and the copy of the Machine Config Operator says platform None by now"
)

// readInfrastructure reads the platform, and where nodes reach the API server.
func (r *reader) readInfrastructure(ctx context.Context) error {
	infrastructure, known := &configv1.Infrastructure{}, len(r.findings)
	found, err := r.get(ctx, "Infrastructure", "", clusterName, infrastructure)
	if r.unclear = len(r.findings) > known; err != nil || r.unclear {
		return err
	}
	if !found {
		return r.missInfrastructure(ctx)
	}
	r.openShift, r.hosted = true, infrastructure.Status.ControlPlaneTopology == configv1.ExternalTopologyMode
	r.cluster.APIServerURL = infrastructure.Status.APIServerInternalURL
	var missing []string
	if platform := wmco.PlatformOf(infrastructure); platform != "" {
		r.takePlatform(platform)
	} else {
		missing = append(missing, "status.platformStatus.type")
	}
	if r.cluster.APIServerURL == "" && r.settings.APIServerURL == "" {
		missing = append(missing, "status.apiServerInternalURI")
	}
	if len(missing) > 0 {
		r.find(fmt.Sprintf("Infrastructure %s has no %s, as when it was created again without its status", clusterName, strings.Join(missing, " and no ")), restoreInfrastructureStatus)
	}
	if r.cluster.Platform == configv1.AWSPlatformType {
		r.cluster.CredentialProviderConfig = []byte(ecrCredentialProvider)
	}
	return nil
}

// missInfrastructure tells an Infrastructure that was deleted from a cluster that is not OpenShift, by what the Machine Config Operator
// has. That the kind is not served, or has no object, says neither: other clusters may have the kind as well, and hosts of OpenShift that
// are taken for those of kubeadm lose the platform and all settings of workers.
func (r *reader) missInfrastructure(ctx context.Context) error {
	known := len(r.findings)
	found, err := r.get(ctx, "ControllerConfig", "", controllerConfigName, &mcfgv1.ControllerConfig{})
	if r.unclear = len(r.findings) > known; r.unclear {
		// Whoever reads it for what is in it says so of that.
		r.findings = append(r.findings[:known], Finding{
			Problem: fmt.Sprintf("Infrastructure %s does not exist, and ControllerConfig %s, which says whether it was deleted from a cluster of OpenShift, may not be read", clusterName, controllerConfigName),
			Remedy:  "allow this program to get it: " + allowInputs,
		})
	}
	if found {
		r.openShift = true
		r.find(fmt.Sprintf("Infrastructure %s does not exist, which each cluster of OpenShift has", clusterName), restoreInfrastructure)
	}
	return err
}

// known are the platforms whose hosts this project knows: what else they need, and how they are named.
var known = []configv1.PlatformType{
	configv1.AWSPlatformType, configv1.AzurePlatformType, configv1.GCPPlatformType, configv1.VSpherePlatformType,
	configv1.NutanixPlatformType, configv1.BareMetalPlatformType, configv1.NonePlatformType,
}

// takePlatform takes the platform of the cluster. Hosts on one that is not known may well become nodes as they
// are; what their platform would do for them, nobody has tried.
func (r *reader) takePlatform(platform configv1.PlatformType) {
	if slices.Contains(known, platform) {
		r.cluster.Platform = platform
		return
	}
	r.otherPlatform = platform
}

// externalCloud is the value of --cloud-provider by which a kubelet leaves its Node to a cloud controller manager.
const externalCloud = "external"

// warnOfPlatform says what hosts on a platform that is not known do without. Of its workers they have --cloud-provider, as WMCO configures them: where
// it is external, a Machine needs what the cloud completes, its addresses and provider ID, and a Node without that looks to nobody like one of the
// platform. The price is paid by hosts that are no machines of the cloud.
func (r *reader) warnOfPlatform(cloudProvider *string) {
	if r.otherPlatform == "" {
		return
	}
	text := fmt.Sprintf("hosts are configured as on platform %s, because nothing is known of Windows hosts on %s, the platform of the cluster", configv1.NonePlatformType, r.otherPlatform)
	if ptr.Deref(cloudProvider, "") == externalCloud {
		text += "; as on its workers, a cloud controller manager completes Nodes (--cloud-provider=" + externalCloud + "): the Node of a host that it does not find in its cloud keeps the taint " + document.TaintUninitialized +
			", and gets no pods, until somebody takes that away: kubectl taint node NAME " + document.TaintUninitialized + "-"
	}
	r.warnings = append(r.warnings, text)
}

// ecrCredentialProvider says for which images the kubelet requests credentials from the provider of
// AWS, where its own workers do not say it: those of the registries that cloud-provider-aws documents.
//
//nolint:gosec // the name of a program, no credential
const ecrCredentialProvider = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: ecr-credential-provider.exe
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  defaultCacheDuration: 12h
  matchImages:
  - "*.dkr.ecr.*.amazonaws.com"
  - "*.dkr.ecr.*.amazonaws.com.cn"
  - "*.dkr.ecr-fips.*.amazonaws.com"
  - "*.dkr.ecr.*.c2s.ic.gov"
  - "*.dkr.ecr.*.sc2s.sgov.gov"
`

// networkOperator is who has what is known of networks.
const networkOperator = "the network operator needs it as well: create it again as it was, for example from a backup"

// bootstrapCASince is the version of Kubernetes from which on each cluster of OpenShift has what [reader.readBootstrapCA] reads: 4.16.
var bootstrapCASince = utilversion.MajorMinor(1, 29)

// readBootstrapCA reads the CA of the API server from where OpenShift's own nodes have it. It
// follows a rotation at once, and has no other authorities as what pods get; [serverAuthorities] leaves out what is none of hosts. Where that is away, hosts would restart their services
// for another bundle, and again once it is back; those that join do so with what pods get.
func (r *reader) readBootstrapCA(ctx context.Context) error {
	if !r.openShift {
		return nil
	}
	object, known := &corev1.ConfigMap{}, len(r.findings)
	if _, err := r.get(ctx, "ConfigMap", machineConfigNamespace, bootstrapCAConfigMap, object); err != nil || len(r.findings) > known {
		return err
	}
	// Unlike those of all other ConfigMaps with certificates they are binary.
	r.cluster.APIServerCA = object.BinaryData[trustedCAKey]
	if len(r.cluster.APIServerCA) == 0 && !newer(bootstrapCASince, r.servers.Lowest) {
		r.keep(fmt.Sprintf("ConfigMap %s/%s has no certificates below %s of its binaryData, or does not exist: hosts that join verify the API server by ConfigMap %s/%s meanwhile",
			machineConfigNamespace, bootstrapCAConfigMap, trustedCAKey, r.settings.Namespace, rootCAConfigMap),
			"the Machine Config Operator writes it: oc get clusteroperator machine-config; oc logs -n openshift-machine-config-operator deployment/machine-config-operator")
	}
	return nil
}

// readNetwork reads the networks of services, and refuses networks that Windows cannot be part of.
func (r *reader) readNetwork(ctx context.Context) error {
	network := &configv1.Network{}
	found, err := r.must(ctx, "Network", clusterName, network, networkOperator)
	if !found {
		return err
	}
	for _, networks := range [][]string{network.Status.ServiceNetwork, network.Spec.ServiceNetwork} {
		if len(networks) > 0 {
			r.cluster.ServiceCIDRs = networks
			break
		}
	}
	if kind := cmp.Or(network.Status.NetworkType, network.Spec.NetworkType); kind != string(operatorv1.NetworkTypeOVNKubernetes) {
		r.find(fmt.Sprintf("the network type of the cluster is %q, and Windows hosts can be part of %s only", kind, operatorv1.NetworkTypeOVNKubernetes),
			"migrate the cluster to "+string(operatorv1.NetworkTypeOVNKubernetes))
	}
	return nil
}

// proxyPatience is how long a Proxy that was created may be without a status. One that was deleted and is created again has none for
// a moment; hosts would be drained to do without a proxy, and again to have it.
const proxyPatience = 15 * time.Minute

// readProxy reads the proxy that is in effect. Hosts are drained and restarted for another one, and would pull nothing through
// one that is none.
func (r *reader) readProxy(ctx context.Context) error {
	proxy := &configv1.Proxy{}
	_, err := r.must(ctx, "Proxy", clusterName, proxy, "create it again: oc create -f - <<< '{\"apiVersion\":\"config.openshift.io/v1\",\"kind\":\"Proxy\",\"metadata\":{\"name\":\"cluster\"},\"spec\":{}}', with the spec that it had")
	r.cluster.Proxy = document.Proxy{HTTP: proxy.Status.HTTPProxy, HTTPS: proxy.Status.HTTPSProxy, None: proxy.Status.NoProxy}
	if proxy.Status.HTTPProxy+proxy.Status.HTTPSProxy == "" && proxy.Spec.HTTPProxy+proxy.Spec.HTTPSProxy != "" {
		const problem, remedy = "the network operator has not put the proxy of Proxy " + clusterName + " into effect", "see why: oc get clusteroperator network"
		if time.Since(proxy.CreationTimestamp.Time) < proxyPatience {
			r.keep(problem+" yet", "wait, or "+remedy)
		} else { // it does not accept it, and workers go without as well
			r.warnings = append(r.warnings, problem+", so hosts have none either: "+remedy)
		}
	}
	for _, field := range []struct {
		name, value string
		valid       func(string) bool
	}{
		{"httpProxy", proxy.Status.HTTPProxy, isProxy}, {"httpsProxy", proxy.Status.HTTPSProxy, isProxy}, {"noProxy", proxy.Status.NoProxy, isOneLine},
	} {
		if !field.valid(field.value) {
			r.find(fmt.Sprintf("status.%s of Proxy %s cannot be used", field.name, clusterName),
				fmt.Sprintf("correct spec.%s, of which the network operator makes it: oc edit proxy %s", field.name, clusterName))
		}
	}
	return err
}

// isProxy says whether text is the URL of a proxy, or none.
func isProxy(text string) bool {
	u, err := url.Parse(text)
	return text == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// isOneLine says whether text can be the value of a variable of a machine.
func isOneLine(text string) bool { return !strings.ContainsFunc(text, unicode.IsControl) }

// readControllerConfig reads the CA of the clients of kubelets, which OpenShift rotates
// there, and those that workers trust: of registries, and whatever administrators add, with a proxy or without. The name of the
// former says otherwise, and no MachineConfig has it.
func (r *reader) readControllerConfig(ctx context.Context) error {
	object := &mcfgv1.ControllerConfig{}
	found, err := r.must(ctx, "ControllerConfig", controllerConfigName, object, "the Machine Config Operator creates it: oc logs -n openshift-machine-config-operator deployment/machine-config-operator")
	if !found {
		return err
	}
	_, ofClients := r.requiredBundles()
	r.cluster.KubeletCA = r.require(ofClients, object.Spec.KubeAPIServerServingCAData)
	r.trustRegistries("imageRegistryBundleUserData", object.Spec.ImageRegistryBundleUserData, func(key string) string {
		return fmt.Sprintf("correct key %s of the ConfigMap in namespace openshift-config that spec.additionalTrustedCA of Image.config.openshift.io %s names", key, clusterName)
	})
	r.trustRegistries("imageRegistryBundleData", object.Spec.ImageRegistryBundleData, func(key string) string {
		return fmt.Sprintf("it comes from key %s of ConfigMap openshift-config-managed/image-registry-ca: oc get clusteroperator image-registry", key)
	})
	r.trust("# the additional trust bundle of the cluster\n%s\n", bundle{
		whose:  "that the cluster trusts in addition",
		where:  fmt.Sprintf("ControllerConfig %s, spec.additionalTrustBundle", controllerConfigName),
		remedy: fmt.Sprintf("correct ConfigMap openshift-config/user-ca-bundle, key %s, and that which spec.trustedCA of Proxy %s names", trustedCAKey, clusterName),
	}, object.Spec.AdditionalTrustBundle)
	return nil
}

// trustRegistries adds the authorities of registries to what hosts trust. remedy says what to do about those below a key.
func (r *reader) trustRegistries(field string, bundles []mcfgv1.ImageRegistryBundle, remedy func(key string) string) {
	for _, b := range bundles {
		from := bundle{
			whose: "of " + registryOf(b), where: fmt.Sprintf("ControllerConfig %s, spec.%s of %s", controllerConfigName, field, registryOf(b)), remedy: remedy(b.File),
		}
		if usable := r.optional(from, b.Data); usable != nil {
			r.cluster.TrustedCA = append(r.cluster.TrustedCA, RegistryAuthorities(mcfgv1.ImageRegistryBundle{File: b.File, Data: usable})...)
		}
	}
}

// RegistryAuthorities returns what a bundle of a ControllerConfig adds to what hosts trust: its certificates,
// below the name of their registry, which warnings about them cite.
func RegistryAuthorities(b mcfgv1.ImageRegistryBundle) string {
	return fmt.Sprintf("# %s\n%s\n\n", registryOf(b), b.Data)
}

// registryOf returns the registry that a bundle is of. Its name is the key of a ConfigMap, which has no colons.
func registryOf(b mcfgv1.ImageRegistryBundle) string {
	return strings.ReplaceAll(b.File, "..", ":")
}

// readTrustedCA adds what else hosts trust. In OpenShift that is what the network operator
// writes there, which only matters with a proxy.
func (r *reader) readTrustedCA(ctx context.Context) error {
	if r.openShift && r.cluster.Proxy == (document.Proxy{}) {
		return nil
	}
	object := &corev1.ConfigMap{}
	found, err := r.get(ctx, "ConfigMap", r.settings.Namespace, TrustedCAConfigMap, object)
	if err != nil {
		return err
	}
	text := object.Data[trustedCAKey]
	// Nobody puts it back: without it the ConfigMap may be somebody's own.
	if _, labeled := object.Labels[InjectTrustedCALabel]; found && r.openShift && !labeled {
		label := fmt.Sprintf("oc label configmap %s -n %s %s=", TrustedCAConfigMap, r.settings.Namespace, InjectTrustedCALabel)
		r.warnings = append(r.warnings, fmt.Sprintf("ConfigMap %s/%s has no label %s, so the network operator does not write other authorities of the proxy there: %strue; if you maintain it yourself: %sfalse",
			r.settings.Namespace, TrustedCAConfigMap, InjectTrustedCALabel, label, label))
	}
	if r.openShift && !strings.Contains(text, "-----BEGIN CERTIFICATE-----") {
		// Hosts would stop to trust the proxy.
		r.find(fmt.Sprintf("ConfigMap %s/%s has no certificates below %s, which the network operator writes there where there is a proxy", r.settings.Namespace, TrustedCAConfigMap, trustedCAKey),
			"see whether the operator works: oc get clusteroperator network; its label must be "+InjectTrustedCALabel+"=true")
		return nil
	}
	from := bundle{whose: "that hosts trust", where: fmt.Sprintf("ConfigMap %s/%s, key %s", r.settings.Namespace, TrustedCAConfigMap, trustedCAKey), remedy: "correct it"}
	if r.openShift {
		from.ofProxy = true
		from.remedy = fmt.Sprintf("the network operator writes it: correct the ConfigMap in namespace openshift-config that spec.trustedCA of Proxy %s names", clusterName)
	}
	r.trust("# ConfigMap "+r.settings.Namespace+"/"+TrustedCAConfigMap+"\n%s", from, []byte(text))
	return nil
}

// readMirrors reads the mirrors of registries, and their credentials where there are some.
func (r *reader) readMirrors(ctx context.Context) error {
	var digests configv1.ImageDigestMirrorSetList
	if _, err := r.list(ctx, "ImageDigestMirrorSets", &digests); err != nil {
		return err
	}
	var tags configv1.ImageTagMirrorSetList
	if _, err := r.list(ctx, "ImageTagMirrorSets", &tags); err != nil {
		return err
	}
	var others elsewhere
	slices.SortFunc(digests.Items, func(a, b configv1.ImageDigestMirrorSet) int { return strings.Compare(a.Name, b.Name) })
	for i := range digests.Items {
		set := &digests.Items[i]
		for _, m := range set.Spec.ImageDigestMirrors {
			others.add("imagedigestmirrorset/"+set.Name, m.Source, m.Mirrors)
		}
		r.cluster.ImageDigestMirrors = append(r.cluster.ImageDigestMirrors, set.Spec.ImageDigestMirrors...)
	}
	if err := r.readPolicies(ctx, &others); err != nil {
		return err
	}
	slices.SortFunc(tags.Items, func(a, b configv1.ImageTagMirrorSet) int { return strings.Compare(a.Name, b.Name) })
	for i := range tags.Items {
		set := &tags.Items[i]
		for _, m := range set.Spec.ImageTagMirrors {
			others.add("imagetagmirrorset/"+set.Name, m.Source, m.Mirrors)
		}
		r.cluster.ImageTagMirrors = append(r.cluster.ImageTagMirrors, set.Spec.ImageTagMirrors...)
	}
	r.warnings = append(r.warnings, others.warnings()...)
	if len(r.cluster.ImageDigestMirrors)+len(r.cluster.ImageTagMirrors) == 0 {
		return nil
	}
	data, err := r.secret(ctx, pullSecretNamespace, pullSecretName)
	if err != nil {
		return err
	}
	if data == nil && r.openShift {
		r.leave(mirrorFiles, fmt.Sprintf("Secret %s/%s does not exist, which has the credentials of the mirrors", pullSecretNamespace, pullSecretName), "create it again, with the credentials that it had")
	}
	if data == nil {
		return nil
	}
	if r.cluster.PullSecret, err = document.ParsePullSecret(data[corev1.DockerConfigJsonKey]); err != nil {
		r.leave(mirrorFiles, fmt.Sprintf("Secret %s/%s cannot be used (%v)", pullSecretNamespace, pullSecretName, err), "correct it")
	}
	return nil
}

// readPolicies reads ImageContentSourcePolicies, which ImageDigestMirrorSets have replaced. Workers have their mirrors as those of a set
// that does not say whether images are pulled from the source, too: see convertICSPToIDMS of openshift/machine-config-operator.
func (r *reader) readPolicies(ctx context.Context, others *elsewhere) error {
	var policies operatorv1alpha1.ImageContentSourcePolicyList
	if _, err := r.list(ctx, "ImageContentSourcePolicies", &policies); err != nil {
		return err
	}
	slices.SortFunc(policies.Items, func(a, b operatorv1alpha1.ImageContentSourcePolicy) int { return strings.Compare(a.Name, b.Name) })
	for i := range policies.Items {
		policy := &policies.Items[i]
		for _, m := range policy.Spec.RepositoryDigestMirrors {
			mirrors := configv1.ImageDigestMirrors{Source: m.Source}
			for _, mirror := range m.Mirrors {
				mirrors.Mirrors = append(mirrors.Mirrors, configv1.ImageMirror(mirror))
			}
			others.add("imagecontentsourcepolicy/"+policy.Name, mirrors.Source, mirrors.Mirrors)
			r.cluster.ImageDigestMirrors = append(r.cluster.ImageDigestMirrors, mirrors)
		}
	}
	return nil
}

// readRegistrySources reads which registries are insecure, blocked, or the only ones that are allowed. Workers have
// it in files for another runtime.
func (r *reader) readRegistrySources(ctx context.Context) error {
	image := &configv1.Image{}
	_, err := r.must(ctx, "Image.config.openshift.io", clusterName, image, "create it again, with the spec that it had")
	r.cluster.RegistrySources = image.Spec.RegistrySources
	return err
}

// list reads all objects of a kind, and says whether the cluster has it.
func (r *reader) list(ctx context.Context, kinds string, list client.ObjectList) (bool, error) {
	return r.outcome(kinds, allowInputs, r.List(ctx, list))
}

// readExporter reads the certificate that metrics are served with. Until it exists, there are no metrics, and one that is
// missing was deleted: hosts that have one keep it, as with one that cannot be used, and that must keep nothing else from them. On
// OpenShift, where the service CA makes it, it is said of each host that it is missing. There the Service says that no host is to serve metrics.
func (r *reader) readExporter(ctx context.Context) error {
	service := &corev1.Service{}
	if r.openShift {
		if _, err := r.get(ctx, "Service", r.settings.Namespace, ExporterService, service); err != nil {
			return err
		}
	}
	switch value := service.Annotations[v1alpha1.MetricsAnnotation]; value {
	case "":
	case noMetrics:
		r.cluster.NoMetrics = true
		return nil
	default:
		r.warnings = append(r.warnings, fmt.Sprintf("annotation %s of Service %s/%s is %q, which means nothing, so that hosts serve metrics. To have none served: oc annotate service %s -n %s %s=%s --overwrite",
			v1alpha1.MetricsAnnotation, r.settings.Namespace, ExporterService, value, ExporterService, r.settings.Namespace, v1alpha1.MetricsAnnotation, noMetrics))
	}
	data, err := r.secret(ctx, r.settings.Namespace, ExporterSecret)
	if err != nil {
		return err
	}
	const goOn = ": hosts that serve metrics go on with the certificate that they have, and others serve none; "
	if data == nil {
		missing := fmt.Sprintf("Secret %s/%s does not exist", r.settings.Namespace, ExporterSecret)
		if r.openShift {
			r.warnings = append(r.warnings, missing+", which the service CA makes for Service "+ExporterService+goOn+"to create the Service: oc apply -f artifacts/openshift/exporter.yaml")
		} else {
			r.metricsKept = fmt.Sprintf("the host serves metrics with the certificate that it has, because %s: create it again; if hosts are to serve none: kubectl create secret generic %s -n %s --from-literal=%s=%s", missing, ExporterSecret, r.settings.Namespace, metricsKey, noMetrics)
		}
		return nil
	}
	if string(data[metricsKey]) == noMetrics {
		r.cluster.NoMetrics = true
		return nil
	}
	certificate, key := data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]
	if _, err := tls.X509KeyPair(certificate, key); err != nil {
		r.warnings = append(r.warnings, fmt.Sprintf("Secret %s/%s has no certificate and key that belong together below %s and %s (%v)"+goOn+"correct it, or delete it, so that it is made again",
			r.settings.Namespace, ExporterSecret, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err))
		return nil
	}
	r.cluster.ExporterCertificate, r.cluster.ExporterKey = certificate, key
	return nil
}

// readNodeManager reads the credentials of the cloud node manager of Azure, where hosts have that program. Hosts that have some keep them while
// there are none here, and others become nodes, which keep a taint until there are.
func (r *reader) readNodeManager(ctx context.Context) error {
	if r.cluster.Platform != configv1.AzurePlatformType {
		return nil
	}
	data, err := r.secret(ctx, r.settings.Namespace, NodeManagerSecret)
	if err != nil {
		return err
	}
	credentials, wrong := document.TokenCredentialsOf(data)
	if wrong == nil {
		r.cluster.NodeManager = &credentials
		return nil
	}
	if !slices.ContainsFunc(r.candidates(), func(c candidate) bool { return c.payload.CloudNodeManager(r.cluster.Platform) }) {
		return nil
	}
	const apply = "oc apply -k artifacts/azure"
	problem, remedy := "does not exist", "create it: "+apply
	if data != nil {
		problem, remedy = fmt.Sprintf("has no credentials (%s)", oneLine(wrong)), "delete it, and create it again: "+apply
	}
	r.leave(nodeManager, fmt.Sprintf("Secret %s/%s %s, by which the cloud node manager logs in; the Nodes of hosts without it keep their taint %s",
		r.settings.Namespace, NodeManagerSecret, problem, document.TaintUninitialized), remedy)
	return nil
}
