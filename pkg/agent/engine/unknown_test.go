// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// later is an inventory as an agent of a later release writes it.
func later(body string) []byte {
	sum := sha256.Sum256([]byte(body))
	return []byte(inventoryMagic + hex.EncodeToString(sum[:]) + "\n" + body)
}

// parsed is the body of an inventory.
func parsed(t *testing.T, content []byte) (body any) {
	t.Helper()
	_, text, _ := strings.Cut(string(content), "\n")
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		t.Fatal(err)
	}
	return body
}

// TestInventoryOfLaterRelease: what an agent does not know of an inventory it keeps, beside what it changes, as long as that is there
// which it belongs to.
func TestInventoryOfLaterRelease(t *testing.T) {
	const (
		file    = `"path":"C:\\k\\a","saved":true,"onChange":{"impact":"None","grace":"5s"},"signed":{"by":"us","at":1e3}`
		rest    = `"directories":{},"environment":{},"certificates":{},"antivirusExclusions":{},"hnsEndpoints":{}`
		rule    = `"firewall":{"r":{"name":"r","protocol":"TCP","port":1,"profiles":["Domain"]}}`
		service = `{"name":"kubelet","onChange":{"impact":"None"},"delayed":true},{"name":"proxy","onChange":{"impact":"None"},"recovery":{"jitter":7}}`
	)
	inventoryOf := func(applied, files, services string) string {
		return `{"applied":"` + applied + `","nextAside":3,` + rest + `,` + rule + `,"files":{` + files + `},"services":[` + services + `],"tasks":{"t":{"path":"x"}},"none":null}`
	}
	content := later(inventoryOf("r1", `"a":{`+file+`},"b":{"path":"C:\\k\\b","saved":true,"onChange":{"impact":"None"},"x":1}`, service))
	inv, err := decodeInventory(content)
	if err != nil {
		t.Fatal(err)
	}
	same, err := inv.encode()
	if err != nil {
		t.Fatal(err)
	}
	drop := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == `["recovery"]` }, cmp.Ignore()) // what it has besides is written in full
	if diff := cmp.Diff(parsed(t, content), parsed(t, same), drop); diff != "" || !strings.Contains(string(same), `"jitter":7`) {
		t.Errorf("unchanged (-read +written)\n%s", diff)
	}
	inv.Applied = "r2"
	delete(inv.Files, "b")
	inv.Services = inv.Services[:1]
	changed, err := inv.encode()
	if err != nil {
		t.Fatal(err)
	}
	want := later(inventoryOf("r2", `"a":{`+file+`}`, strings.Split(service, `,{"name":"proxy"`)[0]))
	if diff := cmp.Diff(parsed(t, want), parsed(t, changed)); diff != "" {
		t.Errorf("changed (-want +got)\n%s", diff)
	}
	if again, err := decodeInventory(changed); err != nil {
		t.Error(err)
	} else if text, err := again.encode(); err != nil || !bytes.Equal(text, changed) {
		t.Errorf("written once more it is %q, %v", text, err)
	}
}

// TestInventoryOfAnotherReader: an inventory that an older agent must not use is refused with the release to install.
func TestInventoryOfAnotherReader(t *testing.T) {
	for name, tt := range map[string]struct{ body, want string }{
		"of this reader":    {body: `{"requires":{"reader":1,"release":"v1.0.0"}}`},
		"of a later one":    {body: `{"requires":{"reader":2,"release":"v9.1.0"},"files":[]}`, want: "Install release v9.1.0 of windows-apiserver and windows-controller again"},
		"without a release": {body: `{"requires":{"reader":2}}`, want: "Install the later release of windows-apiserver"},
		"another type":      {body: `{"files":[]}`, want: "cannot unmarshal"},
		"something follows": {body: `{}{}`, want: "after top-level value"},
	} {
		t.Run(name, func(t *testing.T) {
			inv, err := decodeInventory(later(tt.body))
			if tt.want == "" {
				if err != nil || inv.Requires == nil {
					t.Errorf("got %+v, %v", inv, err)
				}
				return
			}
			var failed *Error
			if !errors.As(err, &failed) || failed.Reason != api.ReasonInventory || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestGoingBack: an agent works on a host that one of a later release has configured, and takes everything off it. It only does not
// repair it by a document that it does not understand completely.
func TestGoingBack(t *testing.T) {
	first, second := bundles(t)
	f := usedHost(t, first)
	revision := converge(t, f, first).Revision
	amend := func(path, before, after string) {
		t.Helper()
		file, ok := f.files[fold(path)]
		content := file.Content
		if path == inventoryPath {
			_, content, _ = strings.Cut(content, "\n")
		}
		if !ok || !strings.Contains(content, before) {
			t.Fatalf("%s is %q", path, content)
		}
		if content = strings.Replace(content, before, after, 1); path == inventoryPath {
			content = string(later(content))
		}
		file.Content = content
		f.files[fold(path)] = file
	}
	amend(inventoryPath, `"nextAside":`, `"later":{"x":1},"nextAside":`)
	amend(appliedPath, `"version":1`, `"version":1,"later":"x"`)

	state, err := ReadState(t.Context(), f, f.clock)
	if err != nil || state.AppliedRevision != revision {
		t.Errorf("the state is %+v, %v", state, err)
	}
	delete(f.files, `c:\k\kubelet.conf`)
	drifts := watch(t, f, 1)
	if _, repaired := f.files[`c:\k\kubelet.conf`]; repaired || len(drifts) != 1 || !strings.Contains(drifts[0].Error, "a later release has configured the host") {
		t.Errorf("repaired: %v, %+v", repaired, drifts)
	}
	if r := engineOf(f).RestartServices(t.Context()); r.Outcome != api.OutcomeApplied {
		t.Errorf("restarting services: %+v", r)
	}
	f.files[`c:\k\until`] = fakeFile{Content: "x"}
	converge(t, f, second)
	if !strings.Contains(f.files[fold(inventoryPath)].Content, `"later":{"x":1}`) {
		t.Errorf("the inventory is %q", f.files[fold(inventoryPath)].Content)
	}
	if drifts := watch(t, f, 1); len(drifts) > 0 {
		t.Errorf("by its own document: %+v", drifts)
	}
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("got %+v", r)
	}
}

// TestDecodeRecordIsNoRequest: what is to be applied must be understood.
func TestDecodeRecordIsNoRequest(t *testing.T) {
	first, _ := bundles(t)
	text, err := first.Encode()
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), `"version":1`, `"version":1,"later":"x"`, 1))
	if _, err := config.Decode(strings.NewReader(string(text))); err == nil || !strings.Contains(err.Error(), `unknown field "later"`) {
		t.Errorf("got %v", err)
	}
	if got, err := config.DecodeRecord(strings.NewReader(string(text))); err != nil || len(got.Document.Files) != len(first.Document.Files) {
		t.Errorf("got %+v, %v", got, err)
	}
	text = []byte(strings.Replace(string(text), `"version":1`, `"version":2`, 1))
	if _, err := config.DecodeRecord(strings.NewReader(string(text))); !errors.Is(err, config.ErrVersion) {
		t.Errorf("another version: %v", err)
	}
}
