// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// module is the path of this module.
const module = "github.com/openshift/windows-instance-api"

// goPackage is what `go list` knows of a package, reduced to what the rules need.
// Paths of this module are shortened to those below its root.
type goPackage struct {
	path string
	// imports are those of its files that are no tests.
	imports []string
	// deps is everything that it imports directly or through others.
	deps []string
}

// leaves are the parts of the tree that import nothing of this module but themselves.
var leaves = []string{
	"pkg/apis", "pkg/version", "pkg/wmco",
	// What servers and the agent say to each other, and the program on a host.
	"pkg/agent/api",
	// Useful without the rest.
	"pkg/backoff", "pkg/coalesce", "pkg/forbidden", "pkg/kubeclient", "pkg/noproxy", "pkg/notfound", "pkg/passing", "pkg/words", "pkg/servingcert", "pkg/stream", "pkg/stream/limits", "pkg/volume", "pkg/host/lookup", "pkg/host/ssh", "pkg/desired/payload", "pkg/desired/machineconfig", "pkg/controller/csr/policy",
	// The world that the programs live in knows little of them.
	"test/controlplane", "test/openshift", "test/winpath",
}

// layers says for each other part of the tree which parts of this module it may
// import, besides itself. The longest prefix of a package counts. A package that is
// below none of them breaks the rules: whoever adds one decides here where it stands.
//
// The order is that of the architecture, from what everybody may import to what
// nobody does.
var layers = map[string][]string{
	"pkg/generated": {"pkg/apis"},
	"pkg/agent":     {}, // and its own api
	"pkg/drain":     {"pkg/apis", "pkg/forbidden", "pkg/words"},
	// What windows-controller writes for people, and the plugin reads.
	"pkg/blockedby": {"pkg/words"},
	// Where in the cluster our API is served, and by whom.
	"pkg/apiservice": {"pkg/apis", "pkg/notfound"},
	// A server's way to a host, for the API server and the controller alike.
	"pkg/host":             {"pkg/apis", "pkg/backoff", "pkg/passing", "pkg/wmco"},
	"pkg/host/transfer":    {"pkg/agent/api", "pkg/host"},
	"pkg/host/agentclient": {"pkg/apis", "pkg/agent/api", "pkg/desired/payload", "pkg/host", "pkg/version"},
	"pkg/host/diagnose":    {"pkg/apis", "pkg/agent/api", "pkg/host", "pkg/words"},
	// The desired configuration of a host: a pure function, and what reads its inputs.
	"pkg/desired/document": {"pkg/agent/api", "pkg/wmco", "pkg/words"},
	"pkg/desired":          {"pkg/apis", "pkg/agent/api", "pkg/wmco", "pkg/words"},
	"pkg/stream/recheck":   {"pkg/stream"},
	"pkg/stream/relief":    {"pkg/stream"},
	"pkg/stream/recording": {"pkg/volume"},
	"pkg/storage":          {"pkg/volume"},
	// The API server. It sees hosts through small interfaces of its own; the backend
	// plugs them in.
	"pkg/registry":          {"pkg/apis", "pkg/agent/api", "pkg/stream", "pkg/words"},
	"pkg/apiserver":         {"pkg/apis", "pkg/generated", "pkg/registry", "pkg/stream/limits", "pkg/stream/relief", "pkg/version"},
	"pkg/apiserver/backend": {"pkg/apis", "pkg/notfound", "pkg/agent/api", "pkg/apiserver", "pkg/apiservice", "pkg/desired/cluster", "pkg/host", "pkg/registry", "pkg/stream", "pkg/wmco"},
	// The controllers. None knows another one, but whose Node is whose.
	"pkg/controller/internal":  {"pkg/apis", "pkg/notfound", "pkg/passing", "pkg/generated", "pkg/wmco"},
	"pkg/controller/source":    {"pkg/apis", "pkg/generated", "pkg/wmco", "pkg/controller/internal", "pkg/words"},
	"pkg/controller/csr":       {"pkg/apis", "pkg/desired/cluster", "pkg/controller/internal"},
	"pkg/controller/keys":      {"pkg/apis", "pkg/controller/internal", "pkg/host", "pkg/wmco", "pkg/words"},
	"pkg/controller/lifecycle": {"pkg/apis", "pkg/backoff", "pkg/controller/csr/identity", "pkg/controller/internal", "pkg/forbidden", "pkg/words"},
	"pkg/controller/rollout":   {"pkg/apis", "pkg/backoff", "pkg/blockedby", "pkg/generated", "pkg/controller/internal", "pkg/desired/document", "pkg/desired/revision", "pkg/drain", "pkg/wmco", "pkg/words"},
	"pkg/controller/node":      {"pkg/apis", "pkg/drain", "pkg/wmco", "pkg/controller/csr", "pkg/controller/internal", "pkg/desired/revision"},
	"pkg/controller/policies":  {},
	"pkg/controller/trustedca": {"pkg/desired/cluster", "pkg/controller/internal"},
	"pkg/controller/userdata":  {"pkg/apis", "pkg/desired/userdata", "pkg/host", "pkg/wmco", "pkg/controller/internal"},
	"pkg/controller/services":  {"pkg/desired/document", "pkg/wmco", "pkg/controller/internal"},
	"pkg/controller/instance":  {"pkg/apis", "pkg/agent/api", "pkg/backoff", "pkg/host", "pkg/controller/csr/identity", "pkg/controller/internal", "pkg/desired/document", "pkg/wmco", "pkg/words"},
	"pkg/controller/operation": {"pkg/apis", "pkg/agent/api", "pkg/desired/document", "pkg/drain", "pkg/forbidden", "pkg/host", "pkg/wmco", "pkg/controller/internal", "pkg/words"},
	// The plugin is a client as any other.
	"pkg/plugin": {"pkg/apis", "pkg/blockedby", "pkg/generated", "pkg/version", "pkg/words"},
	// Wiring.
	"cmd/apiserver":       {"pkg"},
	"cmd/controller":      {"pkg"},
	"cmd/agent":           {"pkg/agent"},
	"cmd/kubectl-windows": {"pkg/plugin"},
	// What helps to develop.
	"hack":         {"pkg/apis", "pkg/apiserver", "pkg/desired/payload", "pkg/generated"},
	"test/kubelet": {"test/winpath"},
	"test/winhost": {"pkg/agent", "pkg/host/ssh", "test/agenthost", "test/programs", "test/winpath"},
	"test":         {"pkg", "test"},
}

// ban forbids a part of the tree to use packages of others.
type ban struct {
	name string
	// from are prefixes of packages of this module; empty is all of it.
	from []string
	// but are prefixes of packages below from that it is not for.
	but []string
	// packages are prefixes of import paths. "." in the first element is what tells
	// other people's packages from the standard library; "std" only lets that pass.
	packages []string
	// stdOnly forbids everything but the standard library and the prefixes in except.
	stdOnly bool
	except  []string
	// through also forbids what comes in through other packages.
	through bool
	why     string
}

var bans = []ban{
	{
		name: "kubernetes itself", packages: []string{"k8s.io/kubernetes"}, through: true,
		why: "it is no library: it drags in a replace line for each of its parts and promises nothing",
	},
	{
		name: "pools of connections know no Kubernetes", from: []string{"pkg/host/ssh"},
		packages: []string{"k8s.io", "sigs.k8s.io"}, through: true,
		why: "what is generally useful about SSH stays testable and usable without it",
	},
	{
		name: "the agent is small", from: []string{"pkg/agent", "cmd/agent"},
		stdOnly: true, except: []string{"golang.org/x/sys"}, through: true,
		why: "it is copied to every host and runs there as an administrator",
	},
	{
		name: "types only need apimachinery", from: []string{"pkg/apis"},
		packages: []string{"k8s.io/client-go", "k8s.io/apiserver", "sigs.k8s.io/controller-runtime"},
		why:      "whoever imports the types must not get a server or a client with them",
	},
	{
		name: "the registry has no clients", from: []string{"pkg/registry", "pkg/apiserver"}, but: []string{"pkg/apiserver/backend"},
		packages: []string{"k8s.io/client-go/kubernetes", "sigs.k8s.io/controller-runtime", "go.etcd.io/etcd"},
		why:      "what it needs of hosts and of the cluster comes in through its own interfaces",
	},
	{
		name: "controllers are no servers", from: []string{"pkg/controller"},
		packages: []string{"k8s.io/apiserver", "go.etcd.io/etcd"},
		why:      "they speak to the API as every other client",
	},
	{
		name: "one package knows SSH", from: []string{"pkg/host", "pkg/desired", "pkg/registry", "pkg/apiserver", "pkg/controller", "cmd"}, but: []string{"pkg/host/ssh"},
		packages: []string{"golang.org/x/crypto/ssh"},
		why:      "it is the one that verifies host keys; validation, the plugin and wmco/takeover only read what keys look like",
	},
	{
		name: "controllers name no SSH", from: []string{"pkg/controller"},
		packages: []string{"pkg/host/ssh"},
		why:      "they decide by what package diagnose makes of an error",
	},
	{
		name: "WMCO is not what we take it for", from: []string{"test/wmcostandin"},
		packages: []string{"pkg/wmco", "pkg/desired", "pkg/controller"}, through: true,
		why: "what it had from the product would be wrong in both, or be missing in both",
	},
	{
		name: "only the pool speaks SFTP", from: []string{"pkg/registry", "pkg/apiserver", "pkg/controller", "pkg/storage/etcd", "cmd"},
		packages: []string{"github.com/pkg/sftp"},
		why:      "every way to a host goes through the pool, which verifies host keys",
	},
}

// under says whether path is prefix or below it.
func under(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

func underAny(path string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return under(path, prefix) })
}

// ours says whether a shortened path belongs to this module.
func ours(path string) bool { return underAny(path, []string{"pkg", "cmd", "hack", "test"}) }

// standard says whether path is of the standard library: only other people's
// packages have a dot in the first element.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// layerOf returns the longest of leaves and layers that path is below.
func layerOf(path string) (string, bool) {
	layer, found := "", false
	for _, prefix := range slices.AppendSeq(slices.Clone(leaves), maps.Keys(layers)) {
		if under(path, prefix) && len(prefix) >= len(layer) {
			layer, found = prefix, true
		}
	}
	return layer, found
}

// checkLayers returns what breaks layers.
func checkLayers(packages []goPackage) []string {
	var problems []string
	for _, p := range packages {
		layer, ok := layerOf(p.path)
		if !ok {
			problems = append(problems, fmt.Sprintf("%s has no place in the layers: add it there, with what it may import", p.path))
			continue
		}
		for _, imported := range p.imports {
			if ours(imported) && !under(imported, layer) && !underAny(imported, layers[layer]) {
				problems = append(problems, fmt.Sprintf("%s must not import %s: %s may import %q of this module", p.path, imported, layer, layers[layer]))
			}
		}
	}
	return problems
}

// checkBans returns what breaks bans.
func checkBans(packages []goPackage) []string {
	var problems []string
	for _, p := range packages {
		for _, b := range bans {
			if len(b.from) > 0 && !underAny(p.path, b.from) || underAny(p.path, b.but) {
				continue
			}
			used := p.imports
			if b.through {
				used = p.deps
			}
			for _, path := range used {
				forbidden := underAny(path, b.packages)
				if b.stdOnly {
					forbidden = !standard(path) && !underAny(path, b.except)
				}
				if forbidden && (!b.stdOnly || !ours(path)) {
					problems = append(problems, fmt.Sprintf("%s must not use %s (%s: %s)", p.path, path, b.name, b.why))
				}
			}
		}
	}
	return problems
}

// platforms are the ones on which the rules are checked: files for one of them may
// import what those for the other do not.
var platforms = []string{"linux", "windows"}

// listPackages asks the go tool for all packages of this module.
func listPackages(t *testing.T, goos string) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath    string
			Imports, Deps []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("reading the answer of go list: %v", err)
		}
		packages = append(packages, goPackage{path: shorten(p.ImportPath), imports: shortenAll(p.Imports), deps: shortenAll(p.Deps)})
	}
}

func shorten(path string) string { return strings.TrimPrefix(path, module+"/") }

func shortenAll(paths []string) []string {
	short := make([]string, len(paths))
	for i, path := range paths {
		short[i] = shorten(path)
	}
	return short
}

func TestImports(t *testing.T) {
	for _, goos := range platforms {
		t.Run(goos, func(t *testing.T) {
			packages := listPackages(t, goos)
			if len(packages) < 20 {
				t.Fatalf("go list found %d packages, which cannot be all", len(packages))
			}
			for _, problem := range slices.Concat(checkLayers(packages), checkBans(packages)) {
				t.Error(problem)
			}
		})
	}
}

// TestLayersExist keeps the table from speaking of packages that are gone.
func TestLayersExist(t *testing.T) {
	used := map[string]bool{}
	for _, goos := range platforms {
		for _, p := range listPackages(t, goos) {
			layer, _ := layerOf(p.path)
			used[layer] = true
		}
	}
	for _, layer := range slices.Sorted(slices.Values(slices.AppendSeq(slices.Clone(leaves), maps.Keys(layers)))) {
		if !used[layer] {
			t.Errorf("there is no package in %s: take it out of the layers", layer)
		}
	}
}

func TestCheckLayers(t *testing.T) {
	tests := []struct {
		name string
		from string
		to   string
		want bool // whether the import is allowed
	}{
		{name: "within a layer", from: "pkg/apis/windows/validation", to: "pkg/apis/windows", want: true},
		{name: "down", from: "pkg/host", to: "pkg/host/ssh", want: true},
		{name: "another module", from: "pkg/apis/windows", to: "k8s.io/apimachinery/pkg/runtime", want: true},
		{name: "wiring", from: "cmd/controller/app", to: "pkg/controller/instance", want: true},
		{name: "types import the rest", from: "pkg/apis/windows/v1alpha1", to: "pkg/wmco", want: false},
		{name: "pool imports types", from: "pkg/host/ssh", to: "pkg/apis/windows/v1alpha1", want: false},
		{name: "agent imports pool", from: "pkg/agent/logs", to: "pkg/host/ssh", want: false},
		{name: "registry reaches hosts", from: "pkg/registry/windowsinstance", to: "pkg/host", want: false},
		{name: "registry imports controller", from: "pkg/registry/windowsinstance", to: "pkg/controller/internal/apply", want: false},
		{name: "controller imports registry", from: "pkg/controller/instance", to: "pkg/registry/windowsinstance", want: false},
		{name: "controller imports controller", from: "pkg/controller/rollout", to: "pkg/controller/instance", want: false},
		{name: "server imports storage", from: "pkg/apiserver", to: "pkg/storage/etcd", want: false},
		{name: "product imports tests", from: "pkg/host", to: "test/winhost", want: false},
		{name: "command imports tests", from: "cmd/apiserver/app", to: "test/controlplane", want: false},
		{name: "command imports command", from: "cmd/controller/app", to: "cmd/apiserver/app", want: false},
		{name: "the world imports the product", from: "test/controlplane", to: "pkg/host/ssh", want: false},
		{name: "no such layer", from: "pkg/new", to: "fmt", want: false},
		{name: "similar name", from: "pkg/host", to: "pkg/sshpool2", want: false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			problems := checkLayers([]goPackage{{path: tt.from, imports: []string{tt.to}}})
			if got := len(problems) == 0; got != tt.want {
				t.Errorf("import of %s by %s: allowed is %v, want %v (%q)", tt.to, tt.from, got, tt.want, problems)
			}
		})
	}
}

func TestCheckBans(t *testing.T) {
	tests := []struct {
		name string
		p    goPackage
		want []string // names of the bans that are broken
	}{
		{name: "nothing", p: goPackage{path: "pkg/host/ssh", imports: []string{"fmt", "golang.org/x/crypto/ssh"}}},
		{name: "kubernetes in depth", p: goPackage{path: "test/e2e", deps: []string{"k8s.io/kubernetes/pkg/api"}}, want: []string{"kubernetes itself"}},
		{name: "staging is not kubernetes", p: goPackage{path: "cmd/apiserver", deps: []string{"k8s.io/kubernetes2", "k8s.io/apiserver"}}},
		{name: "apimachinery below the pool", p: goPackage{path: "pkg/host/ssh", deps: []string{"k8s.io/apimachinery/pkg/types"}}, want: []string{"pools of connections know no Kubernetes"}},
		{name: "system calls in the agent", p: goPackage{path: "pkg/agent/windows", deps: []string{"golang.org/x/sys/windows", "os", "pkg/agent"}}},
		{name: "library in the agent", p: goPackage{path: "cmd/agent", deps: []string{"github.com/spf13/cobra"}}, want: []string{"the agent is small"}},
		{name: "client in the types", p: goPackage{path: "pkg/apis/windows", imports: []string{"k8s.io/client-go/rest"}}, want: []string{"types only need apimachinery"}},
		{name: "SSH in the registry", p: goPackage{path: "pkg/registry/windowsinstance", imports: []string{"golang.org/x/crypto/ssh"}}, want: []string{"one package knows SSH"}},
		{name: "SSH in a controller", p: goPackage{path: "pkg/controller/instance", imports: []string{"pkg/host/ssh"}}, want: []string{"controllers name no SSH"}},
		{name: "client in the server", p: goPackage{path: "pkg/apiserver", imports: []string{"k8s.io/client-go/kubernetes"}}, want: []string{"the registry has no clients"}},
		{name: "client in the backend", p: goPackage{path: "pkg/apiserver/backend", imports: []string{"k8s.io/client-go/kubernetes"}}},
		{name: "server in a controller", p: goPackage{path: "pkg/controller/rollout", imports: []string{"k8s.io/apiserver/pkg/server"}}, want: []string{"controllers are no servers"}},
		{name: "names of the product in the stand-in for WMCO", p: goPackage{path: "test/wmcostandin", deps: []string{"pkg/agent/engine", "pkg/wmco"}}, want: []string{"WMCO is not what we take it for"}},
		{name: "SFTP in a controller", p: goPackage{path: "pkg/controller/instance", imports: []string{"github.com/pkg/sftp"}}, want: []string{"only the pool speaks SFTP"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, problem := range checkBans([]goPackage{tt.p}) {
				i := slices.IndexFunc(bans, func(b ban) bool { return strings.Contains(problem, "("+b.name+": ") })
				got = append(got, bans[i].name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("broken bans (-want +got):\n%s", diff)
			}
		})
	}
}
