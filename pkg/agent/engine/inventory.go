// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// inventory is what is ours on a host, and what existed before. A record is written before its
// object is created. Keys are in lower case where Windows ignores the case.
type inventory struct {
	// Applied is the revision of the last document that was applied completely.
	Applied string `json:"applied,omitempty"`
	// Applying is the revision of a document that is being applied, or that was not applied
	// completely.
	Applying string `json:"applying,omitempty"`
	// Reboot is set when something takes effect with the next boot only.
	Reboot *pendingReboot `json:"reboot,omitempty"`
	// NextAside numbers the files that were put aside.
	NextAside   int                            `json:"nextAside"`
	Directories map[string]directoryRecord     `json:"directories"`
	Files       map[string]fileRecord          `json:"files"`
	Generated   map[string]string              `json:"generated,omitempty"` // paths
	Services    []serviceRecord                `json:"services,omitempty"`  // in the order in which they start
	Environment map[string]environmentRecord   `json:"environment"`
	Certs       map[string]certificateRecord   `json:"certificates"`
	Firewall    map[string]config.FirewallRule `json:"firewall"`
	Exclusions  map[string]string              `json:"antivirusExclusions"`
	Networks    []string                       `json:"hnsNetworks,omitempty"`
	Endpoints   map[string]config.HNSEndpoint  `json:"hnsEndpoints"`
	// Values of variables that another document, or a look at another time, may not know.
	Values map[string]string `json:"values,omitempty"`
	// NodeName is the name of the node of a host that was adopted, until a document is applied, which says it.
	NodeName string `json:"nodeName,omitempty"`
	// Machine tells the machine that the values are of from others, see [System]. Empty: an earlier release
	// recorded them, or it cannot be read.
	Machine string `json:"machine,omitempty"`
	// Requires says which agents may use this inventory. Nil: all that read the format.
	Requires *requiredReader `json:"requires,omitempty"`

	// unknown is what a later release has recorded besides.
	unknown *unknown
}

// pendingReboot is a restart that the host needs.
type pendingReboot struct {
	// Boot that has to end. In another one, the restart is done.
	Boot string `json:"boot"`
	// Reasons are the items that need it.
	Reasons []string `json:"reasons"`
}

type directoryRecord struct {
	Path string `json:"path"`
}

type fileRecord struct {
	Path string `json:"path"`
	// Aside is the path of the file that existed before. Empty: there was none.
	Aside string `json:"aside,omitempty"`
	// Released is where a release has moved that file, or was about to. It is at Aside if that is there. Empty: none has.
	Released string `json:"released,omitempty"`
	// Saved: the file that existed before, if any, is at Aside. What is at Path is ours.
	Saved    bool            `json:"saved"`
	OnChange config.OnChange `json:"onChange"`
	// Done is the digest of the content that was applied last. Set only for what the kubelet
	// joins with.
	Done string `json:"done,omitempty"`
}

type serviceRecord struct {
	Name         string          `json:"name"`
	Dependencies []string        `json:"dependencies,omitempty"`
	OnChange     config.OnChange `json:"onChange"`
	// Recovery is that of a service that was adopted, until a document has it. Nil: the document says, or it has none.
	Recovery *config.Recovery `json:"recovery,omitempty"`
}

type environmentRecord struct {
	config.OwnedVariable
	// Previous is the value that we set before Value. After a crash the host may still
	// have it, and then it is ours as well.
	Previous *string         `json:"previous,omitempty"`
	Name     string          `json:"name"`
	OnChange config.OnChange `json:"onChange"`
}

type certificateRecord struct {
	Store       string          `json:"store"`
	Fingerprint string          `json:"fingerprint"`
	OnChange    config.OnChange `json:"onChange"`
}

// inventoryMagic begins the file; the digest of the rest follows.
const inventoryMagic = "windows-node-agent inventory 1 "

func newInventory() *inventory {
	inv := &inventory{}
	inv.fill()
	return inv
}

// fill creates the maps that are nil.
func (inv *inventory) fill() {
	makeMap(&inv.Directories)
	makeMap(&inv.Files)
	makeMap(&inv.Generated)
	makeMap(&inv.Environment)
	makeMap(&inv.Certs)
	makeMap(&inv.Firewall)
	makeMap(&inv.Exclusions)
	makeMap(&inv.Endpoints)
}

func makeMap[T any](m *map[string]T) {
	if *m == nil {
		*m = map[string]T{}
	}
}

func (inv *inventory) encode() ([]byte, error) {
	body, err := json.Marshal(inv)
	if err == nil {
		body, err = inv.unknown.addTo(body)
	}
	if err != nil {
		return nil, fmt.Errorf("encode the inventory: %w", err)
	}
	sum := sha256.Sum256(body)
	return append([]byte(inventoryMagic+hex.EncodeToString(sum[:])+"\n"), body...), nil
}

// decodeInventory refuses every content that encode did not write, of this release or of one whose inventory this one may use.
func decodeInventory(content []byte) (*inventory, error) {
	head, body, _ := bytes.Cut(content, []byte("\n"))
	digest, ok := bytes.CutPrefix(head, []byte(inventoryMagic))
	if !ok {
		return nil, inventoryError("it does not begin with %q", strings.TrimSpace(inventoryMagic))
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != string(digest) {
		return nil, inventoryError("its digest is not that of its content")
	}
	var needs struct {
		Requires *requiredReader `json:"requires"`
	}
	if err := json.Unmarshal(body, &needs); err != nil {
		return nil, inventoryError("%w", err)
	}
	if err := needs.Requires.check(); err != nil {
		return nil, err
	}
	inv := newInventory()
	if err := json.Unmarshal(body, inv); err != nil {
		return nil, inventoryError("%w", err)
	}
	inv.fill() // a null in the file is a nil map
	known, err := json.Marshal(inv)
	if err != nil {
		return nil, inventoryError("%w", err)
	}
	inv.unknown = unknownOf(body, known)
	return inv, nil
}

// Paths of the agent's own files.
const (
	stateDirectory = api.Root + `\state`
	inventoryPath  = stateDirectory + `\inventory.json`
	appliedPath    = stateDirectory + `\applied.json`
	driftPath      = stateDirectory + `\drift.json`
	asideDirectory = stateDirectory + `\aside`
	trashDirectory = stateDirectory + `\trash`
)

// maxStateFile bounds what is read of a file of the agent, in bytes.
const maxStateFile = 4 * config.MaxBundleBytes

func readFile(s FileSystem, path string) ([]byte, error) {
	in, err := s.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, maxStateFile+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxStateFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxStateFile)
	}
	return content, nil
}

// store is the inventory with its file.
type store struct {
	system System
	*inventory
	written []byte // what the file has; nil: there is none
}

// openStore reads the inventory. A host without one is new, unless it has an applied document.
func openStore(s System) (*store, error) {
	content, err := readFile(s, inventoryPath)
	if errors.Is(err, fs.ErrNotExist) {
		info, err := s.Stat(appliedPath)
		if err != nil {
			return nil, fmt.Errorf("inspect the applied document: %w", err)
		}
		if info.Kind != FileMissing {
			return nil, inventoryError("%s is missing, but a document was applied", inventoryPath)
		}
		return &store{system: s, inventory: newInventory()}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the inventory: %w", err)
	}
	inv, err := decodeInventory(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", inventoryPath, err)
	}
	inv.compact()
	return &store{system: s, inventory: inv, written: content}, nil
}

// save writes the inventory if it differs from the file.
func (s *store) save() error {
	content, err := s.encode()
	if err != nil {
		return err
	}
	if bytes.Equal(content, s.written) {
		return nil
	}
	if s.written == nil {
		for _, directory := range []string{api.Root, stateDirectory} {
			if err := makeOwnDirectory(s.system, directory); err != nil {
				return err
			}
		}
	}
	if err := s.system.WriteFile(inventoryPath, content, config.AccessAdministrators); err != nil {
		return fmt.Errorf("write the inventory: %w", err)
	}
	s.written = content
	return nil
}

// makeOwnDirectory creates a directory of the agent, if it does not exist.
func makeOwnDirectory(s System, path string) error {
	info, err := s.Stat(path)
	if err != nil {
		return fmt.Errorf("inspect %s: %w", path, err)
	}
	if info.Kind == FileDirectory {
		return nil
	}
	if err := s.MakeDirectory(path, config.AccessAdministrators); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

// hasService says whether this agent made a service.
func (inv *inventory) hasService(name string) bool {
	return slices.ContainsFunc(inv.Services, func(r serviceRecord) bool { return strings.EqualFold(r.Name, name) })
}

func fold(s string) string { return strings.ToLower(s) }
