// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
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

// separateParameters has policies read their parameters (spec.paramKind) apart from what this server watches for itself: it is not ready as long as it
// could not read one of these, and the plugins read the parameters of all policies of the cluster, also of those that are about pods only. Most kinds our account
// may not read, so that one such policy would take the API away, until a restart also after it was deleted.
func separateParameters(generic *genericapiserver.RecommendedConfig) ([]admission.PluginInitializer, error) {
	return []admission.PluginInitializer{policyInformers{byKind{generic.SharedInformerFactory}}}, nil
}

// policyInformers gives the plugins of policies a factory of informers of their own.
type policyInformers struct {
	factory informers.SharedInformerFactory
}

// Initialize implements admission.PluginInitializer, after that of all plugins.
func (p policyInformers) Initialize(plugin admission.Interface) {
	switch plugin := plugin.(type) {
	case *validatingpolicy.Plugin:
		plugin.SetExternalKubeInformerFactory(p.factory)
	case *mutatingpolicy.Plugin:
		plugin.SetExternalKubeInformerFactory(p.factory)
	}
}

// byKind has informers of the kinds that are named in code. Those by resource, with which the plugins read parameters only, they make
// themselves then, and end with the policy.
type byKind struct {
	informers.SharedInformerFactory
}

// ForResource has none.
func (byKind) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	return nil, fmt.Errorf("no informer of %s is shared", resource)
}
