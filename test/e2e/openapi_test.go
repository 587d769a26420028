// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/test/winhost"
)

var updateOpenAPI = flag.Bool("update-openapi", false, "write testdata/openapi.json instead of comparing with it")

// TestOpenAPI compares what clients are told about our API with testdata/openapi.json, which shows
// what a change means for them. Texts and what is Kubernetes' own are left out.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	const golden = "testdata/openapi.json"
	var served struct {
		Paths      map[string]any `json:"paths"`
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	// kube-apiserver reads it from us a while after our API is available.
	eventually(t, "our API is described", func() error {
		answer := kubectl(t, "get", "--raw", "/openapi/v3/apis/windows.openshift.io/v1alpha1")
		return errors.Join(answer.err, json.Unmarshal([]byte(answer.stdout), &served))
	})
	maps.DeleteFunc(served.Components.Schemas, func(name string, _ any) bool { return strings.HasPrefix(name, "io.k8s.") })
	got, err := json.MarshalIndent(withoutTexts(map[string]any{"paths": served.Paths, "schemas": served.Components.Schemas}), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *updateOpenAPI {
		writeFile(t, golden, string(got))
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("clients are told something else; if that is meant: go test ./test/e2e -run TestOpenAPI -update-openapi (-want +got):\n%s", diff)
	}
}

// withoutTexts removes from a document what says nothing to programs, and the answers and
// parameters that all resources of Kubernetes have.
func withoutTexts(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			if _, isText := value.(string); isText && key == "description" {
				continue
			}
			switch key {
			case "tags", "responses", "x-kubernetes-group-version-kind":
				continue
			}
			out[key] = withoutTexts(value)
		}
		return out
	case []any:
		var out []any
		for _, value := range v {
			if parameter, ok := value.(map[string]any); ok && commonParameters[parameter["name"]] {
				continue
			}
			out = append(out, withoutTexts(value))
		}
		return out
	default:
		return v
	}
}

// commonParameters are those that every resource has.
var commonParameters = map[any]bool{
	"pretty": true, "dryRun": true, "fieldManager": true, "fieldValidation": true, "force": true,
	"allowWatchBookmarks": true, "continue": true, "fieldSelector": true, "labelSelector": true, "limit": true,
	"resourceVersion": true, "resourceVersionMatch": true, "sendInitialEvents": true, "timeoutSeconds": true, "watch": true,
	"gracePeriodSeconds": true, "ignoreStoreReadErrorWithClusterBreakingPotential": true, "orphanDependents": true,
	"propagationPolicy": true, "name": true, "namespace": true,
}

// TestTwoManagers has two managers apply parts of the same objects: labels belong to whoever applies
// them, and the lists belong to one of them as a whole.
func TestTwoManagers(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	host := startHost(t, winhost.Options{})
	pool := func(template string) string {
		return `apiVersion: windows.openshift.io/v1alpha1
kind: WindowsNodePool
metadata: {name: p}
spec: {source: {instances: {}}, template: ` + template + `}
`
	}
	keys := func(key string) string {
		return strings.TrimSuffix(strings.TrimSpace(instanceYAML(ns, "w", host)), "}") + `, hostKeys: ["` + key + `"]}` + "\n"
	}
	apply := func(manager, manifest string, args ...string) result {
		t.Helper()
		return kubectlIn(t, manifest, append([]string{"apply", "--server-side", "--field-manager=" + manager, "-n", ns, "-f", "-"}, args...)...)
	}
	get := func(object, path string) string {
		t.Helper()
		return kubectl(t, "get", "-n", ns, object, "-o", "jsonpath={"+path+"}").ok(t)
	}
	const own, other = "{key: a, effect: NoSchedule}", "{key: b, effect: NoSchedule}"
	apply("one", pool("{nodeLabels: {a: one}, nodeTaints: ["+own+"]}")).ok(t)
	apply("two", pool("{nodeLabels: {b: two}}")).ok(t)
	if got := get("wnp/p", ".spec.template.nodeLabels"); got != `{"a":"one","b":"two"}` {
		t.Errorf("labels of two managers: %s", got)
	}
	apply("two", pool("{nodeLabels: {a: two}}")).fails(t, "conflict", `"one"`, ".spec.template.nodeLabels.a")
	apply("two", pool("{nodeTaints: ["+other+"]}")).fails(t, "conflict", `"one"`, ".spec.template.nodeTaints")
	apply("two", pool("{nodeTaints: ["+other+"]}"), "--force-conflicts").ok(t)
	// The labels of the manager that applies no more are gone, those of the other one are not.
	if got := get("wnp/p", ".spec.template.nodeLabels") + get("wnp/p", ".spec.template.nodeTaints[*].key"); got != `{"a":"one"}b` {
		t.Errorf("labels and taints: %s", got)
	}
	// A strategic merge patch replaces the list, too.
	kubectl(t, "patch", "-n", ns, "wnp/p", "--type=strategic", "-p", `{"spec":{"template":{"nodeTaints":[{"key":"c","effect":"NoSchedule"}]}}}`).ok(t)
	if got := get("wnp/p", ".spec.template.nodeTaints[*].key"); got != "c" {
		t.Errorf("taints after a patch: %s", got)
	}

	apply("one", keys(strings.TrimSpace(string(marshalKey(host.HostKey()))))).ok(t)
	apply("two", keys(strings.TrimSpace(string(marshalKey(hostSigner.PublicKey()))))).fails(t, "conflict", `"one"`, ".spec.hostKeys")
}
