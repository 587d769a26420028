// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// machineConfigOperator stands in for the Machine Config Operator: it keeps the ControllerConfig, the MachineConfigs and the
// pools as the objects that they come from have them. It never deletes what it has rendered.
type machineConfigOperator struct{ client client.Client }

// setup has it called when one of these objects changes.
func (m machineConfigOperator) setup(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: clusterName}}}
	})
	b := ctrl.NewControllerManagedBy(mgr).Named("machine configs")
	for _, kind := range []client.Object{
		&mcfgv1.MachineConfig{}, &mcfgv1.MachineConfigPool{}, &mcfgv1.KubeletConfig{}, &mcfgv1.ControllerConfig{}, &configv1.APIServer{},
		&configv1.Proxy{}, &configv1.Image{}, &configv1.ImageDigestMirrorSet{}, &configv1.ImageTagMirrorSet{}, &operatorv1alpha1.ImageContentSourcePolicy{},
	} {
		b = b.Watches(kind, all)
	}
	of := func(does func(client.Object) bool) builder.Predicates {
		return builder.WithPredicates(predicate.NewPredicateFuncs(does))
	}
	return b.
		Watches(&corev1.ConfigMap{}, all, of(func(o client.Object) bool {
			return o.GetNamespace() == ConfigNamespace || o.GetNamespace() == ManagedNamespace || o.GetName() == bootstrapCAName
		})).
		Watches(&corev1.Secret{}, all, of(func(o client.Object) bool { return client.ObjectKeyFromObject(o) == pullSecretKey })).
		Watches(&corev1.Node{}, all, of(func(o client.Object) bool { return o.GetAnnotations()[CurrentConfigAnnotation] != "" })).
		Complete(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, errors.Join(m.syncControllerConfig(ctx), m.sync(ctx))
		}))
}

// sync renders, and has the cluster have it.
func (m machineConfigOperator) sync(ctx context.Context) error {
	in, err := m.inputs(ctx)
	if err != nil {
		return err
	}
	out, failed := render(in)
	if out == nil {
		return failed
	}
	if err := errors.Join(m.keepGenerated(ctx, in, out), m.answer(ctx, in, out)); err != nil {
		return errors.Join(failed, err)
	}
	var nodes corev1.NodeList
	if err := m.client.List(ctx, &nodes); err != nil {
		return err
	}
	for i := range in.pools {
		pool := &in.pools[i]
		if err := m.keepPool(ctx, pool, out.rendered[pool.Name], out.sources[pool.Name]); err != nil {
			return err
		}
		if err := m.rollOut(ctx, pool, machinesOf(pool, in.pools, nodes.Items)); err != nil {
			return err
		}
	}
	return failed
}

// inputs reads what it renders from.
func (m machineConfigOperator) inputs(ctx context.Context) (machineConfigInputs, error) {
	in := machineConfigInputs{controller: &mcfgv1.ControllerConfig{}, apiServer: &configv1.APIServer{}, image: &configv1.Image{}}
	infrastructure, secret := &configv1.Infrastructure{}, &corev1.Secret{}
	var pools mcfgv1.MachineConfigPoolList
	var configs mcfgv1.MachineConfigList
	var kubelets mcfgv1.KubeletConfigList
	var digests configv1.ImageDigestMirrorSetList
	var tags configv1.ImageTagMirrorSetList
	var policies operatorv1alpha1.ImageContentSourcePolicyList
	cluster := client.ObjectKey{Name: clusterName}
	err := errors.Join(
		m.client.Get(ctx, cluster, infrastructure), m.client.Get(ctx, client.ObjectKey{Name: controllerConfigName}, in.controller),
		m.client.Get(ctx, cluster, in.apiServer), m.client.Get(ctx, cluster, in.image), client.IgnoreNotFound(m.client.Get(ctx, pullSecretKey, secret)),
		m.client.List(ctx, &pools), m.client.List(ctx, &configs), m.client.List(ctx, &kubelets), m.client.List(ctx, &digests), m.client.List(ctx, &tags), m.client.List(ctx, &policies),
	)
	if err != nil {
		return in, err
	}
	in.platform, in.pullSecret = infrastructure.Status.PlatformStatus.Type, secret.Data[corev1.DockerConfigJsonKey]
	in.pools, in.configs, in.kubelets, in.digests, in.tags = pools.Items, configs.Items, kubelets.Items, digests.Items, tags.Items
	for i := range policies.Items {
		in.digests = append(in.digests, setOf(&policies.Items[i]))
	}
	return in, nil
}

// setOf is what an ImageContentSourcePolicy is rendered as.
func setOf(policy *operatorv1alpha1.ImageContentSourcePolicy) (set configv1.ImageDigestMirrorSet) {
	for _, m := range policy.Spec.RepositoryDigestMirrors {
		mirrors := configv1.ImageDigestMirrors{Source: m.Source}
		for _, mirror := range m.Mirrors {
			mirrors.Mirrors = append(mirrors.Mirrors, configv1.ImageMirror(mirror))
		}
		set.Spec.ImageDigestMirrors = append(set.Spec.ImageDigestMirrors, mirrors)
	}
	return set
}

// keepGenerated has the generated MachineConfigs be there, and no others that are generated.
func (m machineConfigOperator) keepGenerated(ctx context.Context, in machineConfigInputs, out *machineConfigs) error {
	wanted := map[string]bool{}
	for _, config := range out.generated {
		wanted[config.Name] = true
		if err := m.apply(ctx, config); err != nil {
			return err
		}
	}
	for i := range in.configs {
		config := &in.configs[i]
		if config.Annotations[generatedAnnotation] == "" || strings.HasPrefix(config.Name, renderedPrefix) || wanted[config.Name] {
			continue
		}
		if err := client.IgnoreNotFound(m.client.Delete(ctx, config)); err != nil {
			return err
		}
	}
	return nil
}

// apply creates a MachineConfig, or gives the one of its name its content.
func (m machineConfigOperator) apply(ctx context.Context, config *mcfgv1.MachineConfig) error {
	found := &mcfgv1.MachineConfig{}
	err := m.client.Get(ctx, client.ObjectKeyFromObject(config), found)
	if apierrors.IsNotFound(err) {
		return m.client.Create(ctx, config.DeepCopy())
	}
	if err != nil {
		return err
	}
	if sameJSON(found.Spec.Config.Raw, config.Spec.Config.Raw) && equality.Semantic.DeepEqual(found.OwnerReferences, config.OwnerReferences) {
		return nil
	}
	found.Spec, found.OwnerReferences = config.Spec, config.OwnerReferences
	return m.client.Update(ctx, found)
}

// sameJSON says whether two texts are the same document. The API server writes them in its own way.
func sameJSON(a, b []byte) bool {
	var documents [2]any
	return json.Unmarshal(a, &documents[0]) == nil && json.Unmarshal(b, &documents[1]) == nil && equality.Semantic.DeepEqual(documents[0], documents[1])
}

// answer says in the status of each KubeletConfig whether it is used.
func (m machineConfigOperator) answer(ctx context.Context, in machineConfigInputs, out *machineConfigs) error {
	for i := range in.kubelets {
		kubelet := &in.kubelets[i]
		condition := mcfgv1.KubeletConfigCondition{Type: mcfgv1.KubeletConfigAccepted, Status: corev1.ConditionTrue, Message: "Success", LastTransitionTime: metav1.Now()}
		if why := out.refused[kubelet.Name]; why != "" {
			condition.Status, condition.Message = corev1.ConditionFalse, why
		}
		if before := kubelet.Status.Conditions; kubelet.Status.ObservedGeneration == kubelet.Generation && len(before) == 1 && before[0].Message == condition.Message {
			continue
		}
		kubelet.Status = mcfgv1.KubeletConfigStatus{ObservedGeneration: kubelet.Generation, Conditions: []mcfgv1.KubeletConfigCondition{condition}}
		if err := m.client.Status().Update(ctx, kubelet); err != nil {
			return err
		}
	}
	return nil
}

// keepPool says in a pool what its nodes should have, also while it is paused. Nil: nothing can be rendered, and it stays.
func (m machineConfigOperator) keepPool(ctx context.Context, pool *mcfgv1.MachineConfigPool, rendered *mcfgv1.MachineConfig, sources []string) error {
	if rendered == nil {
		return nil
	}
	if err := m.apply(ctx, rendered); err != nil {
		return err
	}
	configuration := configurationOf(rendered.Name, sources)
	if equality.Semantic.DeepEqual(pool.Spec.Configuration, configuration) {
		return nil
	}
	pool.Spec.Configuration = configuration
	return m.client.Update(ctx, pool)
}

// pullSecretKey is where the credentials of registries are.
var pullSecretKey = client.ObjectKey{Namespace: ConfigNamespace, Name: "pull-secret"}

// sortedByName sorts Nodes, so that they are updated in an order that a test knows.
func sortedByName(nodes []*corev1.Node) []*corev1.Node {
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}
