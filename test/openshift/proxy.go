// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"context"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	trustedCAKey = "ca-bundle.crt"
	// injectTrustedCALabel of a ConfigMap asks for the authorities that the cluster trusts.
	injectTrustedCALabel = "config.openshift.io/inject-trusted-cabundle"
)

// publishProxy stands in for what the network operator does about the proxy: it checks what an administrator has
// set, and changes nothing while that is no proxy; it adds the addresses of the cluster to what is reached without it, says in the status what is in effect, and
// writes the authorities of the cluster wherever they are wanted.
func publishProxy(ctx context.Context, c client.Client, proxy *configv1.Proxy) error {
	for _, text := range []string{proxy.Spec.HTTPProxy, proxy.Spec.HTTPSProxy} {
		if text != "" && !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") {
			return nil
		}
	}
	status := configv1.ProxyStatus{HTTPProxy: proxy.Spec.HTTPProxy, HTTPSProxy: proxy.Spec.HTTPSProxy}
	if status != (configv1.ProxyStatus{}) {
		status.NoProxy = strings.Join([]string{".cluster.local", ".svc", "127.0.0.1", proxy.Spec.NoProxy}, ",")
	}
	if proxy.Status != status {
		proxy.Status = status
		return c.Status().Update(ctx, proxy) // and this again
	}
	var wanted corev1.ConfigMapList
	if err := c.List(ctx, &wanted, client.MatchingLabels{injectTrustedCALabel: "true"}); err != nil {
		return err
	}
	for i := range wanted.Items {
		if err := injectTrustedCA(ctx, c, &wanted.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// injectTrustedCA stands in for what the network operator does for a ConfigMap with a label: it writes the
// authorities that the cluster trusts into it: those of the administrator, if there are some, and those that it has itself.
func injectTrustedCA(ctx context.Context, c client.Client, config *corev1.ConfigMap) error {
	proxy, trusted := &configv1.Proxy{}, &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Name: clusterName}, proxy); err != nil {
		return err
	}
	if name := proxy.Spec.TrustedCA.Name; name != "" {
		if err := c.Get(ctx, client.ObjectKey{Namespace: ConfigNamespace, Name: name}, trusted); err != nil {
			return err
		}
	}
	bundle := trusted.Data[trustedCAKey] + SystemAuthorities()
	if config.Labels[injectTrustedCALabel] != "true" || config.Data[trustedCAKey] == bundle {
		return nil
	}
	config = config.DeepCopy()
	config.Data = map[string]string{trustedCAKey: bundle}
	return c.Update(ctx, config)
}
