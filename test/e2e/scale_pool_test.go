// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/system"
)

// poolYAML is a pool made by hand.
func poolYAML(name, source string) string {
	return fmt.Sprintf("apiVersion: windows.openshift.io/v1alpha1\nkind: WindowsNodePool\nmetadata: {name: %s}\nspec: {source: %s}\n", name, source)
}

// TestPoolScale scales a pool in every way there is, and looks at the MachineSet, which
// is the one authority.
func TestPoolScale(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	// As artifacts/openshift does it in openshift-machine-api.
	if _, err := sys.Kube.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "windows-machineset-scaler"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "windows-machineset-scaler"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: system.Namespace, Name: "windows-apiserver"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create := func(yaml string) {
		t.Helper()
		kubectlIn(t, yaml, "create", "-n", ns, "-f", "-").ok(t)
	}
	create(machineSetYAML("winworker", windowsLabel, 2))
	waitForPool(t, ns, "winworker", func(pool *v1alpha1.WindowsNodePool) error { return sourceSynced.among(pool.Status.Conditions) })
	machineSet := func(path string) string {
		t.Helper()
		return kubectl(t, "get", "machineset", "winworker", "-n", ns, "--show-managed-fields", "-o", "jsonpath={"+path+"}").ok(t)
	}
	mustHave := func(t *testing.T, replicas string) {
		t.Helper()
		if got := machineSet(".spec.replicas"); got != replicas {
			t.Errorf("the MachineSet asks for %s Machines, want %s", got, replicas)
		}
	}

	t.Run("kubectl", func(t *testing.T) {
		kubectl(t, "scale", "wnp/winworker", "-n", ns, "--replicas=3").ok(t)
		mustHave(t, "3")
		kubectl(t, "scale", "wnp/winworker", "-n", ns, "--current-replicas=3", "--replicas=4").ok(t)
		mustHave(t, "4")
		kubectl(t, "scale", "wnp/winworker", "-n", ns, "--current-replicas=3", "--replicas=5").fails(t, "3")
		mustHave(t, "4")
		mustSay(t, kubectl(t, "get", "wnp/winworker", "-n", ns, "--subresource=scale").ok(t), "DESIRED", "CURRENT", "winworker", "4")
		kubectl(t, "scale", "wnp/winworker", "-n", ns, "--replicas=9", "--dry-run=server").ok(t)
		mustHave(t, "4")
	})
	t.Run("kubectl scales the MachineSet", func(t *testing.T) {
		kubectl(t, "scale", "machineset/winworker", "-n", ns, "--replicas=6").ok(t)
		if got := kubectl(t, "get", "wnp/winworker", "-n", ns, "--subresource=scale", "-o", "jsonpath={.spec.replicas} {.status.selector}").ok(t); got != "6 set=winworker" {
			t.Errorf("the scale of the pool is %q", got)
		}
	})
	t.Run("whose the replicas are", func(t *testing.T) {
		kubectl(t, "patch", "wnp", "winworker", "-n", ns, "--subresource=scale", "--type=merge", "--field-manager=autoscaler", "-p", `{"spec":{"replicas":7}}`).ok(t)
		mustHave(t, "7")
		if owners := machineSet(`.metadata.managedFields[?(@.subresource=="scale")].manager`); owners != "autoscaler" {
			t.Errorf("the replicas of the MachineSet are those of %q, want autoscaler", owners)
		}
		pools := sys.Windows.WindowsV1alpha1().RESTClient()
		patch := func(replicas int, force bool) error {
			body := fmt.Appendf(nil, `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"winworker"},"spec":{"replicas":%d}}`, replicas)
			return pools.Patch("application/apply-patch+yaml").Namespace(ns).Resource("windowsnodepools").Name("winworker").SubResource("scale").
				VersionedParams(&metav1.PatchOptions{FieldManager: "gitops", Force: &force}, metav1.ParameterCodec).Body(body).Do(t.Context()).Error()
		}
		if err := patch(8, false); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "autoscaler") {
			t.Errorf("got %v, want a conflict with autoscaler", err)
		}
		mustHave(t, "7")
		if err := patch(8, true); err != nil {
			t.Fatal(err)
		}
		mustHave(t, "8")
		if owners := machineSet(`.metadata.managedFields[?(@.subresource=="scale")].manager`); owners != "gitops" {
			t.Errorf("the replicas of the MachineSet are those of %q, want gitops", owners)
		}
		if err := patch(9, false); err != nil {
			t.Errorf("applying another number to one's own: %v", err)
		}
		mustHave(t, "9")
	})
	t.Run("scale client", func(t *testing.T) {
		config := sys.AdminConfig()
		discoverer, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer))
		client, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(discoverer))
		if err != nil {
			t.Fatal(err)
		}
		resource := schema.GroupResource{Group: "windows.openshift.io", Resource: "windowsnodepools"}
		current, err := client.Scales(ns).Get(t.Context(), resource, "winworker", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		old := current.DeepCopy()
		current.Spec.Replicas = 1
		if _, err := client.Scales(ns).Update(t.Context(), resource, current, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		mustHave(t, "1")
		old.Spec.Replicas = 9
		if _, err := client.Scales(ns).Update(t.Context(), resource, old, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("a change of something old: got %v, want a conflict", err)
		}
		mustHave(t, "1")
	})
	t.Run("somebody else changes the MachineSet in between", func(t *testing.T) {
		pools := sys.Windows.WindowsV1alpha1().WindowsNodePools(ns)
		got, err := pools.GetScale(t.Context(), "winworker", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		kubectl(t, "label", "machineset", "winworker", "-n", ns, "team=a").ok(t)
		got.Spec.Replicas = 5
		if _, err := pools.UpdateScale(t.Context(), "winworker", got, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("got %v, want a conflict", err)
		}
		got.ResourceVersion = ""
		if _, err := pools.UpdateScale(t.Context(), "winworker", got, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		mustHave(t, "5")
	})
	t.Run("an operator scales pools and no MachineSets", func(t *testing.T) {
		operator := bind(t, "scaler-"+ns, "windows-operator", ns)
		eventually(t, "the operator scales", func() error {
			if r := kubectlAs(t, operator, "", "scale", "wnp/winworker", "-n", ns, "--replicas=2"); r.err != nil {
				return errors.New(r.stderr)
			}
			return nil
		})
		mustHave(t, "2")
		kubectlAs(t, operator, "", "scale", "machineset/winworker", "-n", ns, "--replicas=9").fails(t, "Forbidden")
	})
	t.Run("a pool is no way to other MachineSets", func(t *testing.T) {
		create(machineSetYAML("linux", "machine.openshift.io/os-id: Linux", 1))
		create(poolYAML("trick", "{machineSet: {name: linux}}"))
		for _, args := range [][]string{
			{"scale", "wnp/trick", "-n", ns, "--replicas=0"},
			{"get", "wnp/trick", "-n", ns, "--subresource=scale"},
		} {
			kubectl(t, args...).fails(t, "not of Windows", "machine.openshift.io/os-id")
		}
		if got := kubectl(t, "get", "machineset", "linux", "-n", ns, "-o", "jsonpath={.spec.replicas}").ok(t); got != "1" {
			t.Errorf("the MachineSet of Linux was scaled to %s", got)
		}
	})
	t.Run("sources without a number", func(t *testing.T) {
		create(poolYAML("hand-made", "{instances: {}}"))
		create(poolYAML("entries", "{configMap: {name: hosts}}"))
		create(poolYAML("orphan", "{machineSet: {name: gone}}"))
		kubectl(t, "scale", "wnp/hand-made", "-n", ns, "--replicas=2").fails(t, "MethodNotAllowed", "spec.poolRef")
		kubectl(t, "scale", "wnp/entries", "-n", ns, "--replicas=2").fails(t, "MethodNotAllowed", "ConfigMap "+ns+"/hosts", "add or remove entries")
		kubectl(t, "scale", "wnp/orphan", "-n", ns, "--replicas=2").fails(t, "NotFound", `"gone" not found`)
	})
}

// grant gives a user a role made for the test.
func grant(t *testing.T, user, namespace string, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	role, err := sys.Kube.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}, Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a role: %v", err)
	}
	_, err = sys.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("binding the role: %v", err)
	}
	return bind(t, user, "", namespace)
}
