// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/system"
)

// asController is a client with the rights of windows-controller.
func asController(t *testing.T, s *system.System) kubernetes.Interface {
	t.Helper()
	config, err := s.UserConfig("system:serviceaccount:"+system.Namespace+":windows-controller", "system:serviceaccounts", "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// mustBeRefused wants a request refused with these words.
func mustBeRefused(t *testing.T, what string, err error, words string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: got %v, want a refusal with %q", what, err, words)
	}
}

// TestKubeletCannotHandItsHostOver has the kubelet of a host, as whoever has taken the host over, change for whom the
// host was configured.
func TestKubeletCannotHandItsHostOver(t *testing.T) {
	t.Parallel()
	const name = "e2e-handed-over"
	nodes := sys.Kube.CoreV1().Nodes()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.NamespaceLabel: "theirs"}}}
	if _, err := nodes.Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubelet := kubeletOf(t, name).CoreV1().Nodes()
	for what, patch := range map[string]string{
		"to another namespace": `{"metadata":{"labels":{"` + v1alpha1.NamespaceLabel + `":"mine"}}}`,
		"to nobody":            `{"metadata":{"labels":{"` + v1alpha1.NamespaceLabel + `":null}}}`,
	} {
		_, err := kubelet.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		mustBeRefused(t, what, err, "is not allowed to modify labels")
	}
	if _, err := kubelet.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("it can write nothing: %v", err)
	}
	if err := nodes.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// TestNodesOfOthers: whoever takes windows-controller over cordons and deletes no Node but those of
// Windows.
func TestNodesOfOthers(t *testing.T) {
	t.Parallel()
	const refused = "windows-controller changes and deletes no Nodes but those whose status.nodeInfo.operatingSystem is windows"
	theirs, ours := sys.Kube.CoreV1().Nodes(), asController(t, sys).CoreV1().Nodes()
	cordon := []byte(`{"spec":{"unschedulable":true}}`)
	for _, tt := range []struct {
		name, system string
		want         bool
	}{{"e2e-linux", "linux", false}, {"e2e-unknown", "", false}, {"e2e-windows", "windows", true}} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: tt.name, Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
		node.Status.NodeInfo.OperatingSystem = tt.system
		if _, err := theirs.Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if !tt.want {
			eventually(t, "the policy is in force", func() error {
				if err := ours.Delete(t.Context(), tt.name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err == nil {
					return errors.New("it is not")
				}
				return nil
			})
		}
		_, err := ours.Patch(t.Context(), tt.name, types.MergePatchType, cordon, metav1.PatchOptions{})
		if tt.want {
			if err == nil {
				err = ours.Delete(t.Context(), tt.name, metav1.DeleteOptions{})
			}
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		mustBeRefused(t, "cordoning "+tt.name, err, refused)
		mustBeRefused(t, "deleting "+tt.name, ours.Delete(t.Context(), tt.name, metav1.DeleteOptions{}), refused)
		_, err = ours.Patch(t.Context(), tt.name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		mustBeRefused(t, "changing nothing of "+tt.name, err, refused) // by which the controller tries the policy
		if _, err := theirs.Patch(t.Context(), tt.name, types.MergePatchType, cordon, metav1.PatchOptions{}); err != nil {
			t.Errorf("somebody else is concerned: %v", err)
		}
		if err := theirs.Delete(t.Context(), tt.name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("it is gone, or somebody else is concerned: %v", err)
		}
	}
}

// TestRevisionsOfOthers: whoever takes windows-controller over does not change what the pods of a workload are made from.
func TestRevisionsOfOthers(t *testing.T) {
	t.Parallel()
	const refused = "windows-controller makes, changes and deletes no ControllerRevisions but those that a WindowsNodePool controls"
	ns := newNamespace(t)
	theirs, ours := sys.Kube.AppsV1().ControllerRevisions(ns), asController(t, sys).AppsV1().ControllerRevisions(ns)
	// Their owners exist, or the garbage collector would delete them.
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pool.Spec.Source.Instances = &v1alpha1.InstancesSource{}
	pool, err := sys.Windows.WindowsV1alpha1().WindowsNodePools(ns).Create(t.Context(), pool, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := sys.Kube.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "w"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	controlledBy := func(name string, owner metav1.Object, of schema.GroupVersionKind) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{Revision: 1, Data: runtime.RawExtension{Raw: []byte("{}")}, ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, of)}}}
	}
	ofPool := controlledBy("of-pool", pool, v1alpha1.SchemeGroupVersion.WithKind("WindowsNodePool"))
	ofWorkload := controlledBy("of-workload", other, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	eventually(t, "the policy is in force", func() error {
		if _, err := ours.Create(t.Context(), ofWorkload, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil {
			return errors.New("it is not")
		}
		return nil
	})
	_, err = ours.Create(t.Context(), ofWorkload, metav1.CreateOptions{})
	mustBeRefused(t, "making one of a workload", err, refused)
	ofNobody := ofWorkload.DeepCopy()
	ofNobody.OwnerReferences = nil
	_, err = ours.Create(t.Context(), ofNobody, metav1.CreateOptions{})
	mustBeRefused(t, "making one of nobody, which a workload would take", err, refused)
	ofNobody.OwnerReferences = ofPool.DeepCopy().OwnerReferences
	ofNobody.OwnerReferences[0].Controller = nil
	_, err = ours.Create(t.Context(), ofNobody, metav1.CreateOptions{})
	mustBeRefused(t, "making one that a pool owns and does not control", err, refused)

	made, err := theirs.Create(t.Context(), ofWorkload, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("somebody else is concerned: %v", err)
	}
	taken := made.DeepCopy()
	taken.OwnerReferences = ofPool.OwnerReferences
	_, err = ours.Update(t.Context(), taken, metav1.UpdateOptions{})
	mustBeRefused(t, "taking one of a workload", err, refused)
	mustBeRefused(t, "deleting one of a workload", ours.Delete(t.Context(), made.Name, metav1.DeleteOptions{}), refused)

	kept, err := ours.Create(t.Context(), ofPool, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	given := kept.DeepCopy()
	given.OwnerReferences = ofWorkload.OwnerReferences
	_, err = ours.Update(t.Context(), given, metav1.UpdateOptions{})
	mustBeRefused(t, "giving one to a workload", err, refused)
	kept.Revision++
	if _, err := ours.Update(t.Context(), kept, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	if err := ours.Delete(t.Context(), kept.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// TestSecretsOfOthers: whoever takes windows-controller over has the cluster make no token of another account for it.
func TestSecretsOfOthers(t *testing.T) {
	t.Parallel()
	const refused = "windows-controller writes no Secrets but windows-digest-key, windows-keys-in-use and windows-user-data, of type Opaque"
	theirs, ours := sys.Kube.CoreV1().Secrets(system.Namespace), asController(t, sys).CoreV1().Secrets(system.Namespace)
	named := func(name string, kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{Type: kind, ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "windows-apiserver"}}}
	}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	eventually(t, "the policy is in force", func() error {
		if _, err := ours.Create(t.Context(), named("e2e-other", ""), dryRun); err == nil {
			return errors.New("it is not")
		}
		return nil
	})
	_, err := ours.Create(t.Context(), named("windows-keys-in-use", corev1.SecretTypeServiceAccountToken), dryRun)
	mustBeRefused(t, "making a token", err, refused)
	_, err = ours.Create(t.Context(), named("e2e-other", ""), dryRun)
	mustBeRefused(t, "making a Secret that is none of its own", err, refused)
	if _, err := ours.Create(t.Context(), named("windows-user-data", ""), dryRun); err != nil {
		t.Errorf("making one of its own: %v", err)
	}
	if _, err := theirs.Create(t.Context(), named("e2e-other", ""), dryRun); err != nil {
		t.Errorf("somebody else is concerned: %v", err)
	}
}

// TestPoliciesAreGone: windows-controller says so of each, with the rights that it has, and nothing comes of its
// tries.
func TestPoliciesAreGone(t *testing.T) {
	t.Parallel()
	s := startSystem(t, system.Options{WithoutController: true})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux"}}}
	node, err := s.Kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"windows-controller-nodes", "windows-controller-revisions", "windows-controller-secrets"}
	for _, name := range names {
		if err := s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the policy is not in force any more", func() error {
		return asController(t, s).CoreV1().Nodes().Delete(t.Context(), node.Name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	})
	if err := s.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is told that the policy is gone", func() error {
		events, err := s.Kube.CoreV1().Events(system.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=PolicyNotEnforced"})
		if err != nil {
			return err
		}
		for _, name := range names {
			if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, name) }) {
				return fmt.Errorf("of %d events none is about %s", len(events.Items), name)
			}
		}
		return nil
	})
	after, err := s.Kube.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
	if err != nil || after.ResourceVersion != node.ResourceVersion && after.Spec.Unschedulable {
		t.Errorf("the Node was changed: %v", err)
	}
}

// TestPolicyWithParameters: a policy of the cluster whose parameters windows-apiserver may not read holds up what it is about, and not the
// whole API; when it is gone, nothing of it is left.
func TestPolicyWithParameters(t *testing.T) {
	t.Parallel()
	s := startSystem(t, system.Options{WithoutController: true})
	ready := func() {
		t.Helper()
		var answer bytes.Buffer
		if err := s.ServerGet(t.Context(), "/readyz?verbose", &answer); err != nil {
			t.Errorf("%v: %s", err, &answer)
		}
	}
	for _, name := range []string{"concerned", "other"} {
		if _, err := s.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "e2e-parameters"}}
	policy.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	for _, verb := range []string{"list", "watch"} {
		want(wantedRefusal{system: s, right: system.Right{Verb: verb, Resource: "configmaps"}})
	}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "concerned"}},
		ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{v1alpha1.GroupName}, APIVersions: []string{"*"}, Resources: []string{"windowsinstances"}},
		}}},
	}
	policy.Spec.Validations = []admissionv1.Validation{{Expression: "true"}}
	policies, bindings := s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies(), s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}
	binding.Spec.PolicyName, binding.Spec.ValidationActions = policy.Name, []admissionv1.ValidationAction{admissionv1.Deny}
	binding.Spec.ParamRef = &admissionv1.ParamRef{Name: "x", Namespace: "other", ParameterNotFoundAction: new(admissionv1.AllowAction)}
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create := func(namespace string) error {
		instance := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.WindowsInstanceSpec{Address: "192.0.2.1"}}
		_, err := s.Windows.WindowsV1alpha1().WindowsInstances(namespace).Create(t.Context(), instance, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	eventually(t, "the policy is known", func() error {
		if err := create("concerned"); err == nil || !strings.Contains(err.Error(), "not yet synced to use for admission") {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	ready()
	if err := create("other"); err != nil {
		t.Errorf("an object that the policy is not about: %v", err)
	}
	if err := errors.Join(bindings.Delete(t.Context(), binding.Name, metav1.DeleteOptions{}), policies.Delete(t.Context(), policy.Name, metav1.DeleteOptions{})); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy is gone", func() error { return create("concerned") })
	ready()
}

// TestPoliciesAreUnderstood: kube-controller-manager finds nothing wrong with the expressions.
func TestPoliciesAreUnderstood(t *testing.T) {
	t.Parallel()
	eventually(t, "it is checked", func() error {
		policies, err := sys.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		ours := 0
		for _, policy := range policies.Items {
			if !strings.HasPrefix(policy.Name, "windows-controller-") {
				continue
			}
			if ours++; policy.Status.TypeChecking == nil || policy.Status.ObservedGeneration != policy.Generation {
				return fmt.Errorf("%s is not", policy.Name)
			}
			for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s: %s", policy.Name, warning.FieldRef, warning.Warning)
			}
		}
		if ours < 3 {
			return fmt.Errorf("there are %d", ours)
		}
		return nil
	})
}

// TestLivenessWithoutEtcd: kubelets restart windows-apiserver for what a restart may help with. An
// etcd cluster that is away would restart all replicas, with their sessions, again and again.
func TestLivenessWithoutEtcd(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "deploy", "apiserver.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var set appsv1.StatefulSet
	if err := yaml.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	container := set.Spec.Template.Spec.Containers[0]
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe} {
		var answer bytes.Buffer
		if err := sys.ServerGet(t.Context(), probe.HTTPGet.Path+"&verbose", &answer); err != nil || !strings.Contains(answer.String(), "[+]etcd excluded: ok") {
			t.Errorf("%s: %v, %s", probe.HTTPGet.Path, err, &answer)
		}
	}
	var answer bytes.Buffer
	if err := sys.ServerGet(t.Context(), container.ReadinessProbe.HTTPGet.Path+"?verbose", &answer); err != nil || !strings.Contains(answer.String(), "[+]etcd ok") {
		t.Errorf("who reaches no etcd would get requests: %v, %s", err, &answer)
	}
}
