// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Objects in the namespace of the operator that people or others may make.
const (
	// TrustedCAConfigMap has certificates that hosts trust besides their own, in PEM
	// below ca-bundle.crt. In OpenShift it counts only while the cluster has a proxy.
	TrustedCAConfigMap = "trusted-ca"
	// InjectTrustedCALabel of it is "true" where OpenShift is asked to write the authorities that the cluster trusts there; see "Certificate
	// injection using Operators" in the documentation of OpenShift.
	InjectTrustedCALabel = "config.openshift.io/inject-trusted-cabundle"
	// ExporterSecret has the certificate that hosts serve metrics with, as a Secret of type
	// kubernetes.io/tls. One that has [noMetrics] below [metricsKey] says that they serve none.
	ExporterSecret = "windows-machine-config-operator-tls"
	// ExporterService is the Service for which the service CA of OpenShift makes that Secret.
	ExporterService = "windows-exporter"
	// NodeManagerSecret has the credentials of the cloud node manager, as a Secret of type
	// kubernetes.io/service-account-token. Hosts on Azure need it.
	NodeManagerSecret = wmco.WICDService
)

// Where everything else is.
const (
	metricsKey = "metrics"
	noMetrics  = "none"

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

	machineConfigNamespace = "openshift-machine-config-operator"
	bootstrapCAConfigMap   = "kubeconfig-data"
	pullSecretNamespace    = "openshift-config" //nolint:gosec // the name of a namespace
	pullSecretName         = "pull-secret"
)

// AddToScheme adds the types of OpenShift that this package reads.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{configv1.Install, operatorv1.Install, operatorv1alpha1.Install, mcfgv1.Install} {
		if err := add(scheme); err != nil {
			return err //nolint:wrapcheck // it says which type it is
		}
	}
	return nil
}
