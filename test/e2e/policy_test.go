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

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/token"
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

// TestTokensOfOthers: whoever takes windows-controller over gets and deletes no other Secrets of
// kube-system; tokens of hosts are made, replaced and revoked.
func TestTokensOfOthers(t *testing.T) {
	t.Parallel()
	const refused = "creates and deletes bootstrap tokens of the group system:bootstrappers:windows-instances and no other Secrets"
	controller := asController(t, sys)
	theirs, ours := sys.Kube.CoreV1().Secrets(metav1.NamespaceSystem), controller.CoreV1().Secrets(metav1.NamespaceSystem)
	secret := func(name string, kind corev1.SecretType, groups string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, StringData: map[string]string{"token-id": strings.TrimPrefix(name, "bootstrap-token-"), "token-secret": "0123456789abcdef"}}
		if groups != "" {
			s.StringData["auth-extra-groups"] = groups
		}
		return s
	}
	const hosts = "system:bootstrappers:windows-instances"
	others := []*corev1.Secret{
		secret("e2e-cloud-credentials", corev1.SecretTypeOpaque, ""),
		secret("e2e-disguised", corev1.SecretTypeOpaque, hosts),
		secret("bootstrap-token-e2e001", corev1.SecretTypeBootstrapToken, "system:bootstrappers:kubeadm:default-node-token"),
		secret("bootstrap-token-e2e002", corev1.SecretTypeBootstrapToken, hosts+"-of-others"),
		secret("bootstrap-token-e2e003", corev1.SecretTypeBootstrapToken, hosts+",system:bootstrappers:kubeadm:default-node-token"),
		secret("bootstrap-token-e2e004", corev1.SecretTypeBootstrapToken, ""),
	}
	eventually(t, "the policy is in force", func() error {
		_, err := ours.Create(t.Context(), others[0], metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("it is not")
		}
		return nil
	})
	for _, other := range others {
		_, err := ours.Create(t.Context(), other, metav1.CreateOptions{})
		mustBeRefused(t, "creating "+other.Name, err, refused)
		if _, err := theirs.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
			t.Fatalf("nobody else is concerned: %v", err)
		}
		mustBeRefused(t, "deleting "+other.Name, ours.Delete(t.Context(), other.Name, metav1.DeleteOptions{}), refused)
		_, err = ours.Get(t.Context(), other.Name, metav1.GetOptions{})
		mustBeRefused(t, "reading "+other.Name, err, `cannot get resource "secrets"`)
		_, err = ours.Update(t.Context(), other, metav1.UpdateOptions{})
		mustBeRefused(t, "writing "+other.Name, err, `cannot update resource "secrets"`)
		if err := theirs.Delete(t.Context(), other.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("it is gone, or somebody else is concerned: %v", err)
		}
	}

	// What a host joins with.
	instance := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "e2e-tokens", Name: "w", UID: uuid.NewUUID()}}
	count := func() int {
		list, err := theirs.List(t.Context(), bootstrapTokens)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range list.Items {
			if list.Items[i].Annotations["windows.openshift.io/instance"] == "e2e-tokens/w" {
				n++
			}
		}
		return n
	}
	first, err := token.New(controller, clock.RealClock{}).Issue(t.Context(), instance)
	if err != nil {
		t.Fatal(err)
	}
	restarted := token.New(controller, clock.RealClock{})
	second, err := restarted.Issue(t.Context(), instance)
	if err != nil || first == second || count() != 1 {
		t.Fatalf("the token was not replaced: %v, there are %d", err, count())
	}
	if err := restarted.Revoke(t.Context(), instance); err != nil || count() != 0 {
		t.Errorf("the token was not revoked: %v, there are %d", err, count())
	}
	// An earlier release made them without a group of the host.
	if _, err := theirs.Create(t.Context(), secret("bootstrap-token-e2e005", corev1.SecretTypeBootstrapToken, hosts), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := ours.Delete(t.Context(), "bootstrap-token-e2e005", metav1.DeleteOptions{}); err != nil {
		t.Errorf("the token of an earlier release cannot be revoked: %v", err)
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

// TestPoliciesAreGone: windows-controller says so, with the rights that it has, and nothing comes of its
// tries.
func TestPoliciesAreGone(t *testing.T) {
	t.Parallel()
	s := startSystem(t, system.Options{WithoutController: true})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux"}}}
	node, err := s.Kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"windows-controller-bootstrap-tokens", "windows-controller-nodes"}
	for _, name := range names {
		if err := s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the policies are not in force any more", func() error {
		dryRun, controller := []string{metav1.DryRunAll}, asController(t, s).CoreV1()
		_, secretErr := controller.Secrets(metav1.NamespaceSystem).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}, metav1.CreateOptions{DryRun: dryRun})
		return errors.Join(secretErr, controller.Nodes().Delete(t.Context(), node.Name, metav1.DeleteOptions{DryRun: dryRun}))
	})
	if err := s.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		eventually(t, "it is told that "+name+" is gone", func() error {
			events, err := s.Kube.CoreV1().Events(system.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=PolicyNotEnforced"})
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, name) }) {
				return fmt.Errorf("there are %d events", len(events.Items))
			}
			return nil
		})
	}
	secrets, err := s.Kube.CoreV1().Secrets(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(secrets.Items) > 0 {
		t.Errorf("kube-system has %d Secrets, %v", len(secrets.Items), err)
	}
	after, err := s.Kube.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
	if err != nil || after.ResourceVersion != node.ResourceVersion && after.Spec.Unschedulable {
		t.Errorf("the Node was changed: %v", err)
	}
}

// TestPoliciesAreUnderstood: kube-controller-manager finds nothing wrong with the expressions.
func TestPoliciesAreUnderstood(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"windows-controller-bootstrap-tokens", "windows-controller-nodes"} {
		eventually(t, name+" is checked", func() error {
			policy, err := sys.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if policy.Status.TypeChecking == nil || policy.Status.ObservedGeneration != policy.Generation {
				return errors.New("it is not")
			}
			for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s %s: %s", name, warning.FieldRef, warning.Warning)
			}
			return nil
		})
	}
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
