// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConfigMaps with authorities from which the ControllerConfig is made.
const (
	// ClientCAName is that of the clients of kubelets, and ServerCAName that of the API server, both in [ManagedNamespace].
	ClientCAName = "kube-apiserver-client-ca"
	ServerCAName = "kube-apiserver-server-ca"
	// RegistryCAName is that of the registry of the cluster itself.
	RegistryCAName = "image-registry-ca"
	// UserCAName is that of an administrator, in [ConfigNamespace].
	UserCAName = "user-ca-bundle"

	controllerConfigName = "machine-config-controller"
	bootstrapCAName      = "kubeconfig-data"
)

// syncControllerConfig stands in for what the Machine Config Operator does before it renders: it collects what the cluster
// says into the ControllerConfig. What it refuses leaves that as it is.
func (m machineConfigOperator) syncControllerConfig(ctx context.Context) error {
	config, proxy, image := &mcfgv1.ControllerConfig{}, &configv1.Proxy{}, &configv1.Image{}
	cluster := client.ObjectKey{Name: clusterName}
	if err := errors.Join(
		m.client.Get(ctx, client.ObjectKey{Name: controllerConfigName}, config), m.client.Get(ctx, cluster, proxy), m.client.Get(ctx, cluster, image),
	); err != nil {
		return err
	}
	before := config.DeepCopy()
	spec := &config.Spec
	spec.Proxy = nil
	if proxy.Status != (configv1.ProxyStatus{}) {
		spec.Proxy = &proxy.Status
	}
	var err error
	if spec.KubeAPIServerServingCAData, err = m.authorities(ctx, ManagedNamespace, ClientCAName); err != nil {
		return err
	}
	if spec.ImageRegistryBundleData, err = m.registryBundles(ctx, ManagedNamespace, RegistryCAName); err != nil {
		return err
	}
	if spec.ImageRegistryBundleUserData, err = m.registryBundles(ctx, ConfigNamespace, image.Spec.AdditionalTrustedCA.Name); err != nil {
		return err
	}
	if spec.AdditionalTrustBundle, err = m.trustBundle(ctx, proxy.Spec.TrustedCA.Name); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(before.Spec, config.Spec) {
		if err := m.client.Update(ctx, config); err != nil {
			return err
		}
	}
	return m.syncBootstrapCA(ctx)
}

// syncBootstrapCA writes the authorities of the API server to where new nodes have them from.
func (m machineConfigOperator) syncBootstrapCA(ctx context.Context) error {
	bundle, err := m.authorities(ctx, ManagedNamespace, ServerCAName)
	if err != nil {
		return err
	}
	data := &corev1.ConfigMap{}
	if err := m.client.Get(ctx, client.ObjectKey{Namespace: MachineConfigNamespace, Name: bootstrapCAName}, data); err != nil {
		return err
	}
	if bytes.Equal(data.BinaryData[trustedCAKey], bundle) {
		return nil
	}
	data.BinaryData = map[string][]byte{trustedCAKey: bundle}
	return m.client.Update(ctx, data)
}

// authorities are those of a ConfigMap. What is in it is taken as it is.
func (m machineConfigOperator) authorities(ctx context.Context, namespace, name string) ([]byte, error) {
	config := &corev1.ConfigMap{}
	if err := m.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, config); err != nil {
		return nil, err
	}
	text, ok := config.Data[trustedCAKey]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s/%s has no %s", namespace, name, trustedCAKey)
	}
	return []byte(text), nil
}

// registryBundles are those of a ConfigMap by registry. There are none if there is no ConfigMap.
func (m machineConfigOperator) registryBundles(ctx context.Context, namespace, name string) ([]mcfgv1.ImageRegistryBundle, error) {
	if name == "" {
		return nil, nil
	}
	config := &corev1.ConfigMap{}
	if err := m.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, config); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	var bundles []mcfgv1.ImageRegistryBundle
	for _, registry := range slices.Sorted(maps.Keys(config.Data)) {
		bundles = append(bundles, mcfgv1.ImageRegistryBundle{File: registry, Data: []byte(config.Data[registry])})
	}
	return bundles, nil
}

// trustBundle has the authorities of the administrator, and those of the proxy if they are in another ConfigMap. Some that are
// no certificates at all are refused.
func (m machineConfigOperator) trustBundle(ctx context.Context, ofProxy string) ([]byte, error) {
	var bundle []byte
	take := func(name string, optional bool) error {
		authorities, err := m.authorities(ctx, ConfigNamespace, name)
		switch {
		case apierrors.IsNotFound(err) && optional:
			return nil // most clusters have none
		case err != nil:
			return err
		}
		if len(authorities) > 0 && !x509.NewCertPool().AppendCertsFromPEM(authorities) {
			return fmt.Errorf("ConfigMap %s/%s does not have a valid PEM bundle", ConfigNamespace, name)
		}
		bundle = append(bundle, authorities...)
		return nil
	}
	if err := take(UserCAName, true); err != nil {
		return nil, err
	}
	if ofProxy != "" && ofProxy != UserCAName {
		if err := take(ofProxy, false); err != nil {
			return nil, err
		}
	}
	return bundle, nil
}
