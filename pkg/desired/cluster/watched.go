// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Objects in the namespace of the operator that people or others may make.
const (
	// TrustedCAConfigMap has certificates that hosts trust besides their own, in PEM
	// below ca-bundle.crt. In OpenShift it counts only while the cluster has a proxy.
	TrustedCAConfigMap = "trusted-ca"
	// ExporterSecret has the certificate that hosts serve metrics with, as a Secret of type
	// kubernetes.io/tls.
	ExporterSecret = "windows-machine-config-operator-tls"
	// NodeManagerSecret has the credentials of the cloud node manager, as a Secret of type
	// kubernetes.io/service-account-token. Hosts on Azure need it.
	NodeManagerSecret = wmco.WICDService
)

// Where everything else is.
const (
	rootCAConfigMap         = "kube-root-ca.crt"
	authenticationConfigMap = "extension-apiserver-authentication"
	clientCAKey             = "client-ca-file"
	serviceCIDRName         = "kubernetes"
	trustedCAKey            = "ca-bundle.crt"

	clusterInfoConfigMap    = "cluster-info"
	clusterInfoName         = metav1.NamespacePublic + "/" + clusterInfoConfigMap
	kubeconfigKey           = "kubeconfig"
	kubeadmConfigMap        = "kubeadm-config"
	clusterConfigurationKey = "ClusterConfiguration"
	dnsService              = "kube-dns"

	clusterName          = "cluster"
	controllerConfigName = "machine-config-controller"
	pullSecretNamespace  = "openshift-config" //nolint:gosec // the name of a namespace
	pullSecretName       = "pull-secret"
)

// Kinds whose types are not worth a dependency.
var (
	operatorNetworkKind  = schema.GroupVersionKind{Group: "operator.openshift.io", Version: "v1", Kind: "Network"}
	controllerConfigKind = schema.GroupVersionKind{Group: "machineconfiguration.openshift.io", Version: "v1", Kind: "ControllerConfig"}
)

// Object is an object of the cluster, or all of a kind.
type Object struct {
	schema.GroupVersionKind
	// Namespace of the object. Empty: the kind has none.
	Namespace string
	// Name of the object. Empty: all of the kind.
	Name string
}

// Watched returns everything that [Read] may read, given the namespace of the operator.
// When one of these changes, what hosts shall be like may have changed. The cluster need
// not have all the kinds.
//
// Besides, [Inputs.Build] depends on the WindowsInstance, on its WindowsNodePool and on
// the name and the annotation [wmco.SubnetAnnotation] of its Node.
func Watched(namespace string) []Object {
	core := func(kind string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(kind) }
	openShift := func(kind string) schema.GroupVersionKind { return configv1.GroupVersion.WithKind(kind) }
	return []Object{
		{core("ConfigMap"), namespace, rootCAConfigMap},
		{core("ConfigMap"), namespace, TrustedCAConfigMap},
		{core("ConfigMap"), metav1.NamespacePublic, clusterInfoConfigMap},
		{core("ConfigMap"), metav1.NamespaceSystem, kubeadmConfigMap},
		{core("ConfigMap"), metav1.NamespaceSystem, authenticationConfigMap},
		{core("Service"), metav1.NamespaceSystem, dnsService},
		{core("Secret"), namespace, DigestKeySecret},
		{core("Secret"), namespace, ExporterSecret},
		{core("Secret"), namespace, NodeManagerSecret},
		{core("Secret"), pullSecretNamespace, pullSecretName},
		{networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"), "", serviceCIDRName},
		{openShift("Infrastructure"), "", clusterName},
		{openShift("Network"), "", clusterName},
		{openShift("Proxy"), "", clusterName},
		{openShift("ImageDigestMirrorSet"), "", ""},
		{openShift("ImageTagMirrorSet"), "", ""},
		{operatorNetworkKind, "", clusterName},
		{controllerConfigKind, "", controllerConfigName},
	}
}
