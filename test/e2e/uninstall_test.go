// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/openshift/windows-instance-api/test/system"
)

// objects are all that the cluster has, by resource and name, but what others change all the time.
func (g *guided) objects(t *testing.T) map[string]types.UID {
	t.Helper()
	lists, err := g.Kube.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(g.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]types.UID{}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "create"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if r.Name == "events" || r.Name == "leases" {
				continue
			}
			objects, err := client.Resource(version.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("listing %s: %v", r.Name, err)
			}
			for _, o := range objects.Items {
				found[r.Name+" "+o.GetNamespace()+"/"+o.GetName()] = o.GetUID()
			}
		}
	}
	return found
}

// uninstall does what the user guide says, and then deletes the namespace.
func (g *guided) uninstall(t *testing.T) {
	t.Helper()
	commands := section(t, "Uninstall")
	g.run(t, commands, "kubectl delete -k artifacts/deploy ", "kubectl delete deployment ")
	// As their pods are.
	if err := errors.Join(g.Controller.Stop(), g.Server.Stop()); err != nil {
		t.Fatal(err)
	}
	g.run(t, commands, "kubectl delete apiservice ", "kubectl delete -k artifacts/rbac", "kubectl delete -f artifacts/components/ha/", "kubectl delete -f artifacts/openshift/machine-api.yaml",
		"kubectl delete -f artifacts/openshift/cluster-api.yaml", "kubectl delete -k artifacts/nodes ",
		"kubectl delete -k artifacts/azure ",
		"kubectl delete -f artifacts/components/monitoring/rbac.yaml ")
	if _, err := g.Kube.CoreV1().Secrets(system.Namespace).Get(t.Context(), "of-others", metav1.GetOptions{}); err != nil {
		t.Errorf("what others have in our namespace is gone: %v", err)
	}
	g.run(t, []string{"kubectl delete -k artifacts/namespace"}, "kubectl delete -k artifacts/namespace")
}

// TestInstallAndUninstall does what the user guide says, in its order: that leaves nothing of ours in the
// cluster, and everything of others.
func TestInstallAndUninstall(t *testing.T) {
	t.Parallel()
	g := &guided{System: startSystem(t, system.Options{}), dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(g.dir, "private-key.pem"), []byte("a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	ofOthers := func() {
		t.Helper()
		if _, err := g.Kube.CoreV1().Secrets(system.Namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "of-others"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "others-of-windows"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ofOthers()
	g.uninstall(t)
	clean := g.objects(t)
	for name := range clean {
		if strings.Contains(name, "windows") && name != "clusterroles /others-of-windows" {
			t.Errorf("it leaves %s", name)
		}
	}

	install := section(t, "On other clusters")
	g.run(t, install, "kubectl apply -k artifacts/base")
	if err := g.Reinstall(t.Context()); err != nil { // the programs, which would be in pods
		t.Fatal(err)
	}
	wantRefusedUntilNow(g.System)
	g.run(t, install, "kubectl wait --for=create apiservice ", "kubectl wait --for=condition=Available apiservice ", "kubectl create secret generic cloud-private-key ")
	if out, err := g.Kubectl(t.Context(), "get", "windowsinstances", "-A"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	// Who deletes the APIService gets another one by restarting the server.
	g.run(t, section(t, "Uninstall"), "kubectl delete apiservice ")
	if err := g.Server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.run(t, install, "kubectl wait --for=create apiservice ", "kubectl wait --for=condition=Available apiservice ")
	ofOthers()
	g.uninstall(t)
	if diff := cmp.Diff(clean, g.objects(t)); diff != "" {
		t.Errorf("it was not as before (-before +after)\n%s", diff)
	}
}

var (
	named           = regexp.MustCompile(`-([kf]) (\S+)`)
	namedDeployment = regexp.MustCompile(`^kubectl delete deployment (\S+) -n (\S+)`)
)

// ofWMCO are objects that the Windows Machine Config Operator has by the same names as we.
var ofWMCO = []string{
	"ServiceAccount " + system.Namespace + "/windows-instance-config-daemon", "Secret " + system.Namespace + "/windows-instance-config-daemon",
	"Service " + system.Namespace + "/windows-exporter", "ServiceMonitor " + system.Namespace + "/windows-exporter",
	"PrometheusRule " + system.Namespace + "/windows-prometheus-k8s-rules",
}

// TestUninstallLeavesWMCO: what the Windows Machine Config Operator has is in the commands only that are for clusters without it.
func TestUninstallLeavesWMCO(t *testing.T) {
	t.Parallel()
	with, without := map[string]bool{}, map[string]bool{}
	for _, b := range blocksBelow(t, "Uninstall") {
		commands, into := strings.Split(b.text, "\n"), with
		if strings.Contains(b.text, "artifacts/components/monitoring/exporter.yaml") {
			into = without
		}
		maps.Copy(into, deletedBy(t, commands))
	}
	for _, name := range ofWMCO {
		if with[name] || !without[name] {
			t.Errorf("%s is deleted where WMCO is: %t, where it is not: %t", name, with[name], without[name])
		}
	}
}

func keyOf(o manifest) string { return o.Kind + " " + o.Namespace + "/" + o.Name }

// deletedBy are the objects of manifests that commands of kubectl delete.
func deletedBy(t *testing.T, commands []string) map[string]bool {
	t.Helper()
	deleted := map[string]bool{}
	for _, command := range commands {
		if match := namedDeployment.FindStringSubmatch(command); match != nil {
			deleted["Deployment "+match[2]+"/"+match[1]] = true
		}
		for _, match := range named.FindAllStringSubmatch(command, -1) {
			var objects []manifest
			if path := strings.TrimPrefix(match[2], "artifacts/"); match[1] == "k" {
				objects = render(t, path)
			} else {
				text, err := os.ReadFile(filepath.Join("..", "..", "artifacts", path))
				if err != nil {
					t.Fatal(err)
				}
				objects = decodeManifests(t, bytes.NewReader(text))
			}
			for _, o := range objects {
				deleted[keyOf(o)] = true
			}
		}
	}
	return deleted
}

// TestUninstallIsComplete: what an overlay makes is in the commands that uninstall it.
func TestUninstallIsComplete(t *testing.T) {
	t.Parallel()
	deleted := deletedBy(t, section(t, "Uninstall"))
	deleted["Namespace /"+system.Namespace] = true
	made := map[string]bool{}
	for _, overlay := range []string{"base", "ha", "openshift", "openshift-ha", "monitoring", "azure"} {
		for _, o := range render(t, overlay) {
			made[keyOf(o)] = true
		}
	}
	// That is applied by itself.
	text, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "openshift", "cluster-api.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range decodeManifests(t, bytes.NewReader(text)) {
		made[keyOf(o)] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(made)), slices.Sorted(maps.Keys(deleted))); diff != "" {
		t.Errorf("(-made +deleted)\n%s", diff)
	}
}
