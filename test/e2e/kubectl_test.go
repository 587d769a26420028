// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/test/output"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// pausedInstance is an instance that the controller leaves alone.
const pausedInstance = `apiVersion: windows.openshift.io/v1alpha1
kind: WindowsInstance
metadata: {name: %s}
spec: {address: %s, paused: true, poolRef: {name: %s}}
`

func TestKubectlReads(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	for i, pool := range []string{"a", "a", "b"} {
		kubectlIn(t, fmt.Sprintf(pausedInstance, fmt.Sprintf("w%d", i), fmt.Sprintf("127.0.3.%d", i+1), pool), "create", "-n", ns, "-f", "-").ok(t)
	}
	kubectlIn(t, "apiVersion: windows.openshift.io/v1alpha1\nkind: WindowsNodePool\nmetadata: {name: a}\nspec: {source: {instances: {}}}\n", "create", "-n", ns, "-f", "-").ok(t)

	for _, tc := range []struct {
		name string
		args []string
		want []string
		not  []string
	}{
		{"short name", []string{"get", "wi"}, []string{"w0", "w1", "w2", "NAME", "ADDRESS", "NODE", "PHASE", "READY", "VERSION", "AGE"}, []string{"POOL"}},
		{"wide", []string{"get", "windowsinstances", "-o", "wide"}, []string{"POOL", "OS", "REVISION", "HOSTKEY", "OPERATION"}, nil},
		{"pools", []string{"get", "wnp"}, []string{"NAME", "SOURCE", "DESIRED", "READY", "UPDATED", "UNAVAILABLE", "PHASE", "AGE", "Instances"}, nil},
		{"category", []string{"get", "windows"}, []string{"windowsinstance.windows.openshift.io/w0", "windowsnodepool.windows.openshift.io/a"}, nil},
		{"singular", []string{"get", "windowsinstance", "w0", "-o", "yaml"}, []string{"address: 127.0.3.1", "port: 22", "username: Administrator"}, nil},
		{"field selector", []string{"get", "wi", "--field-selector", "spec.poolRef.name=b"}, []string{"w2"}, []string{"w0", "w1"}},
		{"two field selectors", []string{"get", "wi", "--field-selector", "spec.poolRef.name=a,status.node.name=x"}, nil, []string{"w0", "w1", "w2"}},
		{"chunks", []string{"get", "wi", "--chunk-size", "1"}, []string{"w0", "w1", "w2"}, nil},
		{"one chunk", []string{"get", "--raw", "/apis/windows.openshift.io/v1alpha1/namespaces/" + ns + "/windowsinstances?limit=1"}, []string{`"w0"`, `"continue":`, `"remainingItemCount":2`}, []string{`"w1"`, `"w2"`}},
		{"explain", []string{"explain", "--recursive", "windowsinstances.spec"}, []string{"hostKeys", "credentialsSecretRef", "poolRef"}, nil},
		{"explain text", []string{"explain", "wi.spec.hostKeys"}, []string{"first key that the host presents"}, nil},
		{"can-i", []string{"auth", "can-i", "get", "windowsinstances/log"}, []string{"yes"}, nil},
		{"describe", []string{"describe", "wi", "w0"}, []string{"Paused:", "127.0.3.1"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := kubectl(t, append([]string{"-n", ns}, tc.args...)...).ok(t)
			for _, w := range tc.want {
				if !strings.Contains(out, w) {
					t.Errorf("no %q in\n%s", w, out)
				}
			}
			for _, w := range tc.not {
				if strings.Contains(out, w) {
					t.Errorf("%q in\n%s", w, out)
				}
			}
		})
	}
}

func TestKubectlWrites(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	yaml := fmt.Sprintf(pausedInstance, "w", "127.0.3.1", "p")
	moved := strings.Replace(yaml, "127.0.3.1", "127.0.3.2", 1)
	get := func(path string) string {
		return kubectl(t, "get", "wi", "w", "-n", ns, "-o", "jsonpath="+path).ok(t)
	}

	kubectlIn(t, yaml, "apply", "--server-side", "--field-manager=team-a", "-n", ns, "-f", "-").ok(t)
	kubectlIn(t, moved, "apply", "--server-side", "--field-manager=team-b", "-n", ns, "-f", "-").fails(t, `conflict with "team-a"`, ".spec.address")
	kubectlIn(t, moved, "apply", "--server-side", "--field-manager=team-b", "--force-conflicts", "-n", ns, "-f", "-").ok(t)
	if got := get("{.spec.address}"); got != "127.0.3.2" {
		t.Errorf("address is %s after a forced apply", got)
	}
	for _, patch := range []struct{ kind, body, want string }{
		{"merge", `{"spec":{"port":1001}}`, "1001"},
		{"strategic", `{"spec":{"port":1002}}`, "1002"},
		{"json", `[{"op":"replace","path":"/spec/port","value":1003}]`, "1003"},
	} {
		kubectl(t, "patch", "wi", "w", "-n", ns, "--type="+patch.kind, "-p", patch.body).ok(t)
		if got := get("{.spec.port}"); got != patch.want {
			t.Errorf("after a %s patch the port is %s, want %s", patch.kind, got, patch.want)
		}
	}
	if got := get("{.metadata.generation}"); got != "5" {
		t.Errorf("generation is %s after one creation and four changes, want 5", got)
	}
	kubectl(t, "label", "wi", "w", "-n", ns, "rack=r1").ok(t)
	if got := get("{.metadata.generation}"); got != "5" {
		t.Errorf("a label changed the generation to %s", got)
	}

	editor := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\nsed -i 's/port: 1003/port: 1004/' \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	edit := sys.KubectlCommand(t.Context(), sys.KubeconfigPath(), "edit", "wi", "w", "-n", ns)
	edit.Env = append(edit.Environ(), "KUBE_EDITOR="+editor)
	if out, err := edit.CombinedOutput(); err != nil {
		t.Fatalf("kubectl edit: %v\n%s", err, out)
	}
	if got := get("{.spec.port}"); got != "1004" {
		t.Errorf("port is %s after an edit", got)
	}

	diff := kubectlIn(t, yaml, "diff", "-n", ns, "-f", "-")
	if diff.err == nil || !strings.Contains(diff.stdout, "-  address: 127.0.3.2") || !strings.Contains(diff.stdout, "+  address: 127.0.3.1") {
		t.Errorf("kubectl diff shows\n%s%s", diff.stdout, diff.stderr)
	}
	kubectl(t, "delete", "wi", "w", "-n", ns).ok(t)
	kubectl(t, "get", "wi", "w", "-n", ns).fails(t, "NotFound")
}

func TestKubectlErrors(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	object := func(kind, spec string) string {
		return fmt.Sprintf("apiVersion: windows.openshift.io/v1alpha1\nkind: %s\nmetadata: {name: x}\nspec: %s\n", kind, spec)
	}
	for _, tc := range []struct {
		name, yaml string
		want       []string
	}{
		{"no address", object("WindowsInstance", "{}"), []string{"spec.address: Required value"}},
		{"bad IPv4", object("WindowsInstance", `{address: 10.0.0.300}`), []string{"spec.address: Invalid value", "IPv4"}},
		{"address with port", object("WindowsInstance", `{address: "10.0.0.3:22"}`), []string{"spec.address: Invalid value", "spec.port"}},
		{"port", object("WindowsInstance", `{address: h, port: 70000}`), []string{"spec.port: Invalid value", "65535"}},
		{"username", object("WindowsInstance", `{address: h, username: "a*b"}`), []string{"spec.username: Invalid value"}},
		{"host key", object("WindowsInstance", `{address: h, hostKeys: [bla]}`), []string{"spec.hostKeys[0]: Invalid value", "ssh-keyscan"}},
		{"several at once", object("WindowsInstance", `{address: 10.0.0.300, port: -1}`), []string{"spec.address", "spec.port"}},
		{"no source", object("WindowsNodePool", `{source: {}}`), []string{"spec.source: Invalid value", "must specify one of"}},
		{"two sources", object("WindowsNodePool", `{source: {instances: {}, configMap: {name: a}}}`), []string{"spec.source: Invalid value", "exactly one"}},
		{"unknown field", object("WindowsInstance", `{address: h, bogus: h}`), []string{`unknown field "spec.bogus"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kubectlIn(t, tc.yaml, "create", "-n", ns, "-f", "-").fails(t, tc.want...)
		})
	}
	kubectlIn(t, object("WindowsNodePool", `{source: {instances: {}}}`), "create", "-n", ns, "-f", "-").ok(t)
	kubectl(t, "patch", "wnp", "x", "-n", ns, "--type=merge", "-p", `{"spec":{"source":{"instances":null,"configMap":{"name":"c"}}}}`).fails(t, "spec.source: Invalid value", "immutable")
	kubectl(t, "get", "wi", "-n", ns, "--field-selector", "spec.nope=1").fails(t, "spec.nope", "status.node.name")
	kubectl(t, "get", "wi", "nope", "-n", ns).fails(t, `windowsinstances.windows.openshift.io "nope" not found`)
	kubectl(t, "get", "--raw", subresource(ns, "nope", "log", "query=kubelet")).fails(t, "not found")
	kubectl(t, "get", "--raw", subresource(ns, "nope", "log", "query=kubelet&tailLines=-1&pattern=(")).fails(t, "tailLines", "pattern")
}

func TestKubectlWatchesAndWaits(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	host := startHost(t, winhost.Options{})
	watch := sys.KubectlCommand(t.Context(), sys.KubeconfigPath(), "get", "wi", "-n", ns, "--watch")
	var seen output.Buffer
	watch.Stdout = &seen
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Process.Kill(); _ = watch.Wait() }()

	kubectlIn(t, instanceYAML(ns, "w", host), "create", "-f", "-").ok(t)
	kubectl(t, "wait", "-n", ns, "--for=condition=Authenticated", "wi/w", "--timeout="+patience.String()).ok(t)
	kubectl(t, "wait", "-n", ns, "--for=condition=PreflightPassed", "wi/w", "--timeout="+patience.String()).ok(t)
	eventually(t, "the watch shows the host", func() error {
		if !strings.Contains(seen.String(), "Connected") {
			return fmt.Errorf("so far\n%s", seen.String())
		}
		return nil
	})
	describe := kubectl(t, "describe", "wi", "w", "-n", ns).ok(t)
	for _, w := range []string{"Events:", "HostKeyTrusted", "FirstUse", "Windows Server 2022"} {
		if !strings.Contains(describe, w) {
			t.Errorf("kubectl describe does not show %q:\n%s", w, describe)
		}
	}
}
