// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
)

// policyPlugins are the admission plugins that apply policies of the cluster, by the kind that has to be
// served in admissionregistration.k8s.io/v1: since Kubernetes 1.36 and 1.30.
var policyPlugins = map[string]string{
	"MutatingAdmissionPolicy":   mutatingpolicy.PluginName,
	"ValidatingAdmissionPolicy": validatingpolicy.PluginName,
}

// disableAbsentPolicies turns the plugins off whose policies the cluster does not have: one that cannot
// read its policies refuses every write, and the server never becomes ready.
func (o *Options) disableAbsentPolicies(generic *genericapiserver.RecommendedConfig) error {
	if o.Recommended.CoreAPI == nil || o.Recommended.Admission == nil {
		return nil
	}
	if err := o.Recommended.CoreAPI.ApplyTo(generic); err != nil {
		return fmt.Errorf("reading the kubeconfig of the cluster: %w", err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(generic.ClientConfig)
	if err != nil {
		return fmt.Errorf("making a client for the cluster: %w", err)
	}
	// Every cluster that we support serves this version; a 404 is that of something in front of it.
	served, err := client.ServerResourcesForGroupVersion(admissionregistrationv1.SchemeGroupVersion.String())
	if err != nil {
		return fmt.Errorf("asking the cluster for the kinds of its admission policies: %w", err)
	}
	for kind, plugin := range policyPlugins {
		if slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind }) {
			continue
		}
		klog.InfoS("The cluster has no such policies, so none is applied to our objects; restart this process after an upgrade of the cluster", "kind", kind, "version", admissionregistrationv1.SchemeGroupVersion.Version)
		o.Recommended.Admission.DisablePlugins = append(o.Recommended.Admission.DisablePlugins, plugin)
	}
	return nil
}
