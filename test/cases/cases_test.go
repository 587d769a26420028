// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// casesDir returns where the case files are: next to the checkout.
func casesDir(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
	dir = filepath.Join(dir, "..", "shared", "cases")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the case files are not part of this repository and are not next to this checkout: %v", err)
	}
	return dir
}

func readCases(t *testing.T, kind string) []byte {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(casesDir(t), kind+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// runCases runs a file of cases through the program and returns the results by id.
func runCases(t *testing.T, kind string, file []byte) map[string]result {
	t.Helper()
	var out bytes.Buffer
	if err := run(kind, bytes.NewReader(file), &out); err != nil {
		t.Fatal(err)
	}
	results := map[string]result{}
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var r result
		if err := decoder.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if _, twice := results[r.ID]; twice {
			t.Errorf("two results have the id %q", r.ID)
		}
		results[r.ID] = r
	}
	return results
}

// deviation is where this project does something else than the cases tell of
// existing systems, and why.
type deviation struct {
	output  any
	entries []string // keys of entries that are reported
	why     string
}

var deviations = map[string]deviation{
	"wi-07": {
		output:  []any{map[string]any{"address": "127.0.0.1", "ipv4": "127.0.0.1", "username": "Admin"}},
		entries: []string{"localhost"},
		why:     "two keys that lead to one host are one host; the other key is reported",
	},
	"wi-08": {
		output:  []any{map[string]any{"address": "127.0.0.1", "ipv4": "127.0.0.1", "username": "Admin"}},
		entries: []string{"localhost"},
		why:     "as wi-07; no node has the address of the host, so none is named",
	},
	"machineEventFilter/ipv6 only": {
		output: true,
		why:    "hosts are reached over IPv6 too where they have no IPv4 address",
	},
}

// listCase is a case of a file that is a list: what is common to all kinds of them.
type listCase struct {
	ID            string `json:"id"`
	Verdict       string `json:"verdict"`
	PeerError     string `json:"peerError"`
	PeerInstances []any  `json:"peerInstances"`
}

// peerInstances is what WMCO makes of the case, without the Nodes of the instances: no
// program here looks for them by entry.
func (c listCase) peerInstances() any {
	for _, element := range c.PeerInstances {
		delete(element.(map[string]any), "node")
	}
	if c.PeerInstances == nil {
		return nil
	}
	return c.PeerInstances
}

// anyOrder compares lists of instances, which have no order.
var anyOrder = cmpopts.SortSlices(func(a, b any) bool { return fmt.Sprint(a) < fmt.Sprint(b) })

func TestListCases(t *testing.T) {
	for _, kind := range []string{"windows-instances-parse"} {
		t.Run(kind, func(t *testing.T) {
			file := readCases(t, kind)
			var cases []listCase
			if err := json.Unmarshal(file, &cases); err != nil {
				t.Fatal(err)
			}
			results := runCases(t, kind, file)
			if len(results) != len(cases) {
				t.Errorf("%d results for %d cases", len(results), len(cases))
			}
			for _, c := range cases {
				t.Run(c.ID, func(t *testing.T) { checkListCase(t, c, results[c.ID]) })
			}
		})
	}
}

func checkListCase(t *testing.T, c listCase, got result) {
	if want, ok := deviations[c.ID]; ok {
		checkDeviation(t, want, got)
		return
	}
	switch c.Verdict {
	case "", "agree", "agree-with-caveat":
	case "peer-defect":
		t.Fatal("WMCO is wrong here, and this test does not say what is right")
	default:
		t.Fatalf("unknown verdict %q", c.Verdict)
	}
	if c.PeerError != "" {
		if got.Error == "" {
			t.Errorf("got output %v, want an error as %q", got.Output, c.PeerError)
		}
		return
	}
	if got.Error != "" || len(got.Entries) > 0 {
		t.Fatalf("got error %q, bad entries %v, want none", got.Error, got.Entries)
	}
	if diff := cmp.Diff(c.peerInstances(), got.Output, anyOrder); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func checkDeviation(t *testing.T, want deviation, got result) {
	t.Helper()
	if got.Error != "" {
		t.Fatalf("got error %q, want output %v because %s", got.Error, want.output, want.why)
	}
	if diff := cmp.Diff(want.output, got.Output, anyOrder); diff != "" {
		t.Errorf("output (-want +got), because %s:\n%s", want.why, diff)
	}
	if diff := cmp.Diff(want.entries, slices.Sorted(maps.Keys(got.Entries)), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("reported entries (-want +got), because %s:\n%s", want.why, diff)
	}
}

func TestPlatformFacts(t *testing.T) {
	file := readCases(t, "platform-facts")
	var members map[string]any
	if err := json.Unmarshal(file, &members); err != nil {
		t.Fatal(err)
	}
	// No Machine runs on a cluster without a platform, so its user means nothing.
	delete(members["sshUserForMachines"].(map[string]any), "None")

	results := runCases(t, "platform-facts", file)
	for name, want := range members {
		got, ok := results[name]
		if !ok || got.Error != "" {
			t.Errorf("%s: got %+v, want a result", name, got)
			continue
		}
		if got.Skipped+got.Missing != "" {
			continue
		}
		switch name {
		case "sshUserForMachines":
			delete(got.Output.(map[string]any), "None")
		case "kubeletHostnameOverride":
			// The file tells in prose how WMCO finds the name; the kind of place counts.
			want = kindsOfPlace(t, want.(map[string]any))
		case "userDataExtra":
			// As prose, too.
			prose := want.(map[string]any)
			for platform, text := range prose {
				parts := regexp.MustCompile(`>= ([0-9.]+) .*EC2Launch.exe (.*)$`).FindStringSubmatch(text.(string))
				prose[platform] = parts[1] + " " + parts[2]
			}
		}
		if diff := cmp.Diff(want, got.Output); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func kindsOfPlace(t *testing.T, prose map[string]any) map[string]any {
	t.Helper()
	kinds := map[string]any{}
	for platform, text := range prose {
		switch text, _ := text.(string); {
		case text == "":
			kinds[platform] = nil
		case strings.Contains(text, "/latest/meta-data/local-hostname"):
			kinds[platform] = "Metadata"
		case strings.Contains(text, "gcp-get-hostname"):
			kinds[platform] = "GCP"
		case strings.HasPrefix(text, "FQDN"):
			kinds[platform] = "FQDN"
		default:
			t.Errorf("platform %s: no idea what %q means", platform, text)
		}
	}
	return kinds
}

func TestControllerDecisions(t *testing.T) {
	file := readCases(t, "controller-decisions")
	var cases map[string][]map[string]any
	if err := json.Unmarshal(file, &cases); err != nil {
		t.Fatal(err)
	}
	results := runCases(t, "controller-decisions", file)
	checked := 0
	for decision, list := range cases {
		if results[decision].Missing != "" {
			delete(results, decision)
			continue
		}
		for i, c := range list {
			id := fmt.Sprintf("%s/%d", decision, i)
			if name, ok := c["name"].(string); ok {
				id = decision + "/" + name
			}
			got, ok := results[id]
			if !ok {
				t.Errorf("%s: no result", id)
				continue
			}
			checked++
			t.Run(id, func(t *testing.T) { checkDecision(t, decision, c, got) })
		}
	}
	if checked != len(results) {
		t.Errorf("%d results for %d cases", len(results), checked)
	}
}

func checkDecision(t *testing.T, decision string, c map[string]any, got result) {
	if want, ok := deviations[got.ID]; ok {
		checkDeviation(t, want, got)
		return
	}
	var want any
	switch decision {
	case "addressChoice":
		// What WMCO takes for the address of a Node has no counterpart: hosts are
		// reached by the address of their instance.
		if c["peerMachineIPError"] != "" {
			if got.Error == "" {
				t.Errorf("got address %v, want an error as %q", got.Output, c["peerMachineIPError"])
			}
			return
		}
		want = c["peerMachineIP"]
	case "machineEventFilter":
		want = c["peerReconciles"]
	case "nodeEventFilters":
		if got.Skipped == "" {
			t.Errorf("got %+v, want it skipped: no controller of a source watches Nodes", got)
		}
		return
	default:
		t.Fatalf("unknown decision %q", decision)
	}
	if diff := cmp.Diff(want, got.Output); got.Error != "" || diff != "" {
		t.Errorf("error %q, output (-want +got):\n%s", got.Error, diff)
	}
}

func TestRunUnknownKind(t *testing.T) {
	if err := run("no-such-kind", strings.NewReader("[]"), &bytes.Buffer{}); err == nil {
		t.Error("got no error")
	}
}

// TestMissing names what of the cases no program has, and holds this list to be complete:
// each file is of a kind that runs or that is missing, and what is missing says so.
func TestMissing(t *testing.T) {
	reported := map[string]string{}
	for kind, members := range caseFiles(t) {
		reason, isMissing := missing[kind]
		if _, runs := kinds[kind]; runs == isMissing {
			t.Errorf("kind %s: it runs (%v), or it is missing (%v), and not both", kind, runs, isMissing)
			continue
		}
		if isMissing {
			if results := runCases(t, kind, nil); len(results) != 1 || results[kind].Missing != reason {
				t.Errorf("kind %s: got %+v, want that it is missing", kind, results)
			}
			reported[kind] = reason
			continue
		}
		if kind == "csr-content" { // a list; each case says for whom the certificate is
			for _, got := range runCases(t, kind, readCases(t, kind)) {
				if got.Missing != "" && got.Output == nil {
					reported[kind+"/wicd"] = got.Missing
				}
			}
		}
		for _, member := range members {
			if reason, isMissing := missing[kind+"/"+member]; isMissing {
				if got := runCases(t, kind, readCases(t, kind))[member]; got.Missing != reason || got.Output != nil {
					t.Errorf("%s/%s: got %+v, want that it is missing", kind, member, got)
				}
				reported[kind+"/"+member] = reason
			}
		}
	}
	if diff := cmp.Diff(missing, reported); diff != "" {
		t.Errorf("missing (-listed +found in the files):\n%s", diff)
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		t.Logf("missing: %s: %s", name, missing[name])
	}
}

// caseFiles returns the kinds that there are files of, with the members of those files
// that are one object.
func caseFiles(t *testing.T) map[string][]string {
	t.Helper()
	entries, err := os.ReadDir(casesDir(t))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]string{}
	for _, entry := range entries {
		kind, isJSON := strings.CutSuffix(entry.Name(), ".json")
		if entry.IsDir() {
			files[kind] = nil
		}
		if !isJSON {
			continue
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(readCases(t, kind), &members); err != nil {
			members = nil // it is a list of cases
		}
		files[kind] = slices.Sorted(maps.Keys(members))
	}
	return files
}

// TestPublicKeyHash: a host that is given back has the annotation that WMCO compares with its key.
func TestPublicKeyHash(t *testing.T) {
	file := readCases(t, "pubkey-hash")
	var cases []struct{ ID, Annotation, PeerHash string }
	if err := json.Unmarshal(file, &cases); err != nil {
		t.Fatal(err)
	}
	results := runCases(t, "pubkey-hash", file)
	for _, c := range cases {
		if diff := cmp.Diff(map[string]any{"annotation": c.Annotation, "hash": c.PeerHash}, results[c.ID].Output); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.ID, diff)
		}
	}
}

// TestUserData: the user data has the shape that WMCO's has. What it does is for package userdata to show.
func TestUserData(t *testing.T) {
	file := readCases(t, "userdata")
	var cases []map[string]any
	if err := json.Unmarshal(file, &cases); err != nil {
		t.Fatal(err)
	}
	results := runCases(t, "userdata", file)
	for _, c := range cases {
		got, _ := results[c["id"].(string)].Output.(map[string]any)
		for member, value := range got {
			if member == "userData" {
				delete(got, member)
				rest, there := value.(string), false
				for _, want := range []string{
					"'capi'", "Set-LocalUser -Password $password", "Enable-LocalUser", "OpenSSH.Server~~~~0.0.1.0", "'OpenSSH-Server-In-TCP'", "10250", "9182",
					"Start-Service -Name sshd", "PubkeyAuthentication yes", "PasswordAuthentication no", "administrators_authorized_keys", "icacls.exe", "Move-Item", "Restart-Service -Name sshd",
				} {
					if _, rest, there = strings.Cut(rest, want); !there {
						t.Errorf("%s: it has no %s after those before it", c["id"], want)
						break
					}
				}
				continue
			}
			if diff := cmp.Diff(c[member], value); diff != "" {
				t.Errorf("%s: %s (-want +got)\n%s", c["id"], member, diff)
			}
		}
		if len(got) != 5 {
			t.Errorf("%s: got %v", c["id"], results[c["id"].(string)])
		}
	}
}
