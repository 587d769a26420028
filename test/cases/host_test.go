// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// hostCase is a case of one of the kinds about the content of hosts. The members of
// its kind are in the map.
type hostCase map[string]any

func (c hostCase) text(member string) string {
	text, _ := c[member].(string)
	return text
}

// wanted is what a case asks for.
type wanted struct {
	output  any
	isError bool
	// entries is how many things are reported about parts of the case.
	entries int
	// check looks at the output where the case says in words what is right.
	check func(t *testing.T, output any)
}

// peerError says whether WMCO returned an error.
func (c hostCase) peerError() bool { return c.text("peerError") != "" }

// hostKinds says for each kind what its cases ask for. A case where WMCO is wrong
// must be among corrections.
var hostKinds = map[string]func(c hostCase) wanted{
	"csr-content": func(c hostCase) wanted {
		return wanted{output: map[string]any{"accepts": c["peerAccepts"], "classifiedAsNodeClient": c["classifiedAsNodeClient"]}}
	},
	"csr-parse": func(c hostCase) wanted { return wanted{output: c["peerAccepts"], isError: c.peerError()} },
	"csr-nodename": func(c hostCase) wanted {
		return wanted{output: c["peerMatches"]}
	},
	"kubelet-config": func(c hostCase) wanted {
		return wanted{output: c["peerKubeletConfiguration"], isError: c.peerError()}
	},
	"bootstrap-kubeconfig":  func(c hostCase) wanted { return wanted{output: c["peerKubeconfig"], isError: c.peerError()} },
	"ignition-kubelet-args": func(c hostCase) wanted { return wanted{output: c["peerArgs"], isError: c.peerError()} },
	"ignition-files":        func(c hostCase) wanted { return wanted{output: c["peerFiles"]} },
	"ca-bundle":             func(c hostCase) wanted { return wanted{output: c["peerBundleFragment"]} },
	"hosts-toml":            func(c hostCase) wanted { return wanted{output: c["peerFiles"]} },
	"mirror-prefix": func(c hostCase) wanted {
		output := map[string]any{}
		for _, member := range []string{"uniqueMirrorPrefix", "mirrorHostUsed", "mirrorHostname", "mirrorOrgPath"} {
			output[member] = c[member]
		}
		return wanted{output: output}
	},
}

// rootOf returns a check that the one file of the output has these lines, in this order,
// before its first mirror.
func rootOf(file string, lines ...string) func(t *testing.T, output any) {
	return func(t *testing.T, output any) {
		t.Helper()
		content, _ := output.(map[string]any)[file].(string)
		root, _, _ := strings.Cut(content, "\n[host.")
		if diff := cmp.Diff(lines, strings.FieldsFunc(root, func(r rune) bool { return r == '\n' })); diff != "" {
			t.Errorf("%s before the first mirror (-want +got):\n%s", file, diff)
		}
	}
}

// corrections are the cases where WMCO is wrong, with what is right.
var corrections = map[string]wanted{
	"nm-03": {output: false}, // a part of a name is not the name
	"ht-04-idms-never": {check: rootOf(`registry.access.redhat.com\hosts.toml`,
		`server = "https://example.io/v2/example"`, `override_path = true`, `capabilities = ["pull"]`)},
	"ht-07-auth-never": {check: rootOf(`registry.access.redhat.com\hosts.toml`,
		`server = "https://example.io/v2/example"`, `override_path = true`, `capabilities = ["pull"]`)},
	"ht-09-source-port": {output: map[string]any{`source1.local_5000_\hosts.toml`: "server = \"https://source1.local:5000/v2\"\n\n" +
		"override_path = true\n\n[host.\"https://mirror1.local/v2\"]\n  capabilities = [\"pull\"]\n  override_path = true\n"}},
}

// surfaced are the cases with a caveat that is reported.
var surfaced = map[string]int{
	"ht-08-mixed-merge": 1, // one repository's NeverContactSource widens to its registry
}

func TestHostCases(t *testing.T) {
	for kind, want := range hostKinds {
		t.Run(kind, func(t *testing.T) {
			file := readCases(t, kind)
			var cases []hostCase
			if err := json.Unmarshal(file, &cases); err != nil {
				t.Fatal(err)
			}
			results := runCases(t, kind, file)
			if len(results) != len(cases) {
				t.Errorf("%d results for %d cases", len(results), len(cases))
			}
			for _, c := range cases {
				id := c.text("id")
				t.Run(id, func(t *testing.T) {
					w := want(c)
					if c.text("verdict") == "peer-defect" {
						var ok bool
						if w, ok = corrections[id]; !ok {
							t.Fatal("WMCO is wrong here, and this test does not say what is right")
						}
					}
					w.entries = surfaced[id]
					checkHostCase(t, w, results[id])
				})
			}
		})
	}
}

func checkHostCase(t *testing.T, want wanted, got result) {
	t.Helper()
	if got.Missing != "" {
		return // [TestMissing] holds the list of these to be complete
	}
	if want.isError {
		if got.Error == "" {
			t.Errorf("got output %v, want an error", got.Output)
		}
		return
	}
	if got.Error != "" || len(got.Entries) != want.entries {
		t.Fatalf("got error %q and reports %v, want none and %d", got.Error, got.Entries, want.entries)
	}
	if want.check != nil {
		want.check(t, got.Output)
		return
	}
	// What a decision says for people is not compared.
	people := cmpopts.IgnoreMapEntries(func(key string, _ any) bool { return key == "reason" || key == "message" })
	if diff := cmp.Diff(want.output, got.Output, people); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestServicesManifest(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(casesDir(t), "services-manifest", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			file, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var want map[string]any
			if err := json.Unmarshal(file, &want); err != nil {
				t.Fatal(err)
			}
			delete(want, "input")
			results := runCases(t, "services-manifest", file)
			if len(results) != 1 {
				t.Fatalf("got %d results, want one", len(results))
			}
			for _, got := range results {
				if diff := cmp.Diff(any(want), got.Output); got.Error != "" || diff != "" {
					t.Errorf("error %q, output (-want +got):\n%s", got.Error, diff)
				}
			}
		})
	}
}

func TestClusterConfig(t *testing.T) {
	file := readCases(t, "cluster-config")
	var cases map[string][]hostCase
	if err := json.Unmarshal(file, &cases); err != nil {
		t.Fatal(err)
	}
	results := runCases(t, "cluster-config", file)
	for i, c := range cases["clusterDNS"] {
		id := fmt.Sprintf("clusterDNS/%d", i)
		t.Run(id, func(t *testing.T) {
			checkHostCase(t, wanted{output: c["peerClusterDNS"], isError: c.peerError()}, results[id])
		})
	}
	for i, c := range cases["network"] {
		id := fmt.Sprintf("network/%d", i)
		t.Run(id, func(t *testing.T) {
			checkHostCase(t, wanted{isError: c.text("peerFactoryError")+c.text("peerValidateError") != ""}, results[id])
		})
	}
	for i, c := range cases["kubeVersionGate(base v1.36)"] {
		id := fmt.Sprintf("kubeVersionGate(base v1.36)/%d", i)
		t.Run(id, func(t *testing.T) {
			checkHostCase(t, wanted{isError: c.peerError()}, results[id])
		})
	}
}

func TestWindowsLayer(t *testing.T) {
	file := readCases(t, "windows-layer")
	var members map[string]any
	if err := json.Unmarshal(file, &members); err != nil {
		t.Fatal(err)
	}
	results := runCases(t, "windows-layer", file)
	for name, member := range members {
		if results[name].Missing != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			switch name {
			case "remoteCommands":
				if results[name].Skipped == "" {
					t.Errorf("got %+v, want it skipped", results[name])
				}
			case "requiredDirectoriesInOrder":
				// The file has the first of them.
				want, got := member.([]any), results[name].Output.([]any)
				if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
					t.Errorf("output (-want +got):\n%s", diff)
				}
			case "splitPath":
				for i, c := range member.([]any) {
					c := hostCase(c.(map[string]any))
					checkHostCase(t, wanted{output: map[string]any{"dir": c["peerDir"], "file": c["peerFile"]}}, results[fmt.Sprintf("%s/%d", name, i)])
				}
			default:
				checkHostCase(t, wanted{output: member}, results[name])
			}
		})
	}
}

func TestWICD(t *testing.T) {
	file := readCases(t, "wicd-variable-substitution")
	var members map[string]json.RawMessage
	if err := json.Unmarshal(file, &members); err != nil {
		t.Fatal(err)
	}
	var pruning struct {
		Cases json.RawMessage `json:"cases"`
	}
	if err := json.Unmarshal(members["ovnkubeCertCleanup"], &pruning); err != nil {
		t.Fatal(err)
	}
	members["ovnkubeCertCleanup"] = pruning.Cases
	results := runCases(t, "wicd-variable-substitution", file)
	for name, want := range map[string]func(c hostCase) any{
		"serviceReconcile": func(c hostCase) any {
			state := c["want"].(map[string]any)
			if _, ok := state["dependencies"]; !ok {
				state["dependencies"] = nil
			}
			return state
		},
		"envReconcile":       func(c hostCase) any { return map[string]any{"rebootAnnotation": c["rebootAnnotation"]} },
		"ovnkubeCertCleanup": func(c hostCase) any { return c["deleted"] },
	} {
		var cases []hostCase
		if err := json.Unmarshal(members[name], &cases); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, c := range cases {
			id := c.text("id")
			if id == "" {
				id = fmt.Sprintf("%s/%d", name, i)
			}
			t.Run(id, func(t *testing.T) {
				got, ok := results[id]
				if !ok {
					t.Fatal("no result")
				}
				if name == "envReconcile" {
					output := got.Output.(map[string]any)
					// The case does not say what the variables are then, but it is clear.
					if diff := cmp.Diff(c["desired"], output["environment"]); diff != "" {
						t.Errorf("environment (-want +got):\n%s", diff)
					}
					delete(output, "environment")
				}
				w := want(c)
				checkHostCase(t, wanted{output: w, isError: w == "error"}, got)
			})
		}
	}
}
