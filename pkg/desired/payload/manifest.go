// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payload

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// SchemaVersion is the version of the manifest that this package reads and writes. It
// changes when a reader of the old version would do something wrong with a new manifest;
// fields that an old reader may ignore can be added without.
const SchemaVersion = 1

// Role is what a file is for, so that the rest of the program need not know file names.
type Role string

// The roles.
const (
	RoleKubelet            Role = "Kubelet"
	RoleKubeProxy          Role = "KubeProxy"
	RoleKubeadm            Role = "Kubeadm" // in payloads of earlier releases, and sent to no host
	RoleLogRunner          Role = "LogRunner"
	RoleContainerd         Role = "Containerd"
	RoleContainerdShim     Role = "ContainerdShim"
	RoleCNIPlugin          Role = "CNIPlugin"
	RoleMetricsExporter    Role = "MetricsExporter"
	RoleAgent              Role = "Agent"
	RoleHybridOverlay      Role = "HybridOverlay"
	RoleCSIProxy           Role = "CSIProxy"
	RoleCloudNodeManager   Role = "CloudNodeManager"
	RoleCredentialProvider Role = "CredentialProvider" //nolint:gosec // the name of a role, no credential
)

// Manifest describes a payload. It is the file manifest.json.
type Manifest struct {
	// SchemaVersion is that of the manifest's format: see the constant of this name.
	SchemaVersion int `json:"schemaVersion"`
	// Name and Version are the payload's own, for people and for status.
	Name    string `json:"name"`
	Version string `json:"version"`
	// OS and Architecture are those of the hosts, in Go's terms: windows and amd64.
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	// Files are what is shipped, sorted by name.
	Files []File `json:"files"`
	// Slots are files that have a place but no content in this payload, because they can
	// not be built here. A site that needs them adds them. Sorted by name.
	Slots []Slot `json:"slots,omitempty"`
}

// Slot is a place for a file.
type Slot struct {
	// Name is that of the file, unique in the payload: letters, digits and "._-".
	Name string `json:"name"`
	// Path is where the file goes on the host: an absolute path with a drive and
	// backslashes, C:\k\kubelet.exe.
	Path string `json:"path"`
	// Role is what it is for.
	Role Role `json:"role"`
}

// File is a file with its content.
type File struct {
	Slot
	// Version is that of the program, for people and for status: v1.37.1.
	Version string `json:"version,omitempty"`
	// Source is where it comes from, for people: a Go package with its module version, or
	// what a site says. Not interpreted.
	Source string `json:"source,omitempty"`
	Content
	// Gzip is the same content compressed with gzip. Nil: not worth it.
	Gzip *Content `json:"gzip,omitempty"`
	// Override replaces the content by one from elsewhere.
	Override *Override `json:"override,omitempty"`
}

// Content identifies bytes.
type Content struct {
	// Size is their number.
	Size int64 `json:"size"`
	// SHA256 is their digest in lower-case hexadecimal.
	SHA256 string `json:"sha256"`
}

// Override is for sites that sign programs themselves: the file is taken from there
// instead. What the site signed has another digest, so the site states it, too.
type Override struct {
	// URL is where to download it: http or https. The digest protects it either way.
	URL string `json:"url"`
	Content
}

// Effective is the content that the file has on a host: that of the override if there is one.
func (f *File) Effective() Content {
	if f.Override != nil {
		return f.Override.Content
	}
	return f.Content
}

// Compressed is the effective content compressed with gzip; nil if there is no such thing.
func (f *File) Compressed() *Content {
	if f.Override != nil {
		return nil
	}
	return f.Gzip
}

// File returns the file of that name; nil if there is none.
func (m *Manifest) File(name string) *File {
	for i := range m.Files {
		if m.Files[i].Name == name {
			return &m.Files[i]
		}
	}
	return nil
}

// ByRole returns the files with a role, in the order of the manifest.
func (m *Manifest) ByRole(role Role) []*File {
	var files []*File
	for i := range m.Files {
		if m.Files[i].Role == role {
			files = append(files, &m.Files[i])
		}
	}
	return files
}

// encode is how a manifest is written.
func (m *Manifest) encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	return append(b, '\n'), nil
}

// decodeManifest reads and validates.
func decodeManifest(b []byte) (*Manifest, error) {
	var version struct {
		SchemaVersion int `json:"schemaVersion"`
	}
	if err := json.Unmarshal(b, &version); err != nil {
		return nil, fmt.Errorf("the manifest is not a JSON document of its kind: %w", err)
	}
	if version.SchemaVersion != SchemaVersion {
		return nil, fmt.Errorf("the manifest has schema version %d, and this program reads %d only", version.SchemaVersion, SchemaVersion)
	}
	m := &Manifest{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("the manifest is not a JSON document of its kind: %w", err)
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("the manifest is invalid: %w", err)
	}
	return m, nil
}

var (
	// nameFormat keeps names usable as file names everywhere, and inside the payload. Names are
	// compared without regard to case, as Windows does.
	nameFormat = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	// pathFormat leaves out what NTFS does not allow in names, relative parts and names
	// that end in a dot, which Windows would silently drop.
	pathFormat = regexp.MustCompile(`^[A-Za-z]:(\\[^\\/:*?"<>|\x00-\x1f]*[^\\/:*?"<>|\x00-\x1f. ])+$`)
)

// Validate reports everything that is wrong with the manifest itself.
func (m *Manifest) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, field := range []struct{ name, value string }{
		{"name", m.Name}, {"version", m.Version}, {"os", m.OS}, {"architecture", m.Architecture},
	} {
		if field.value == "" {
			bad("%s is empty", field.name)
		}
	}
	names, paths := map[string]bool{}, map[string]string{}
	slot := func(s Slot) {
		name, path := strings.ToLower(s.Name), strings.ToLower(s.Path)
		switch {
		case !nameFormat.MatchString(s.Name):
			bad("%q is not a valid file name: use letters, digits and ._- only", s.Name)
		case names[name]:
			bad("%s exists twice", s.Name)
		}
		names[name] = true
		switch other, taken := paths[path]; {
		case !pathFormat.MatchString(s.Path):
			bad(`%s: %q is not an absolute path on Windows: use one like C:\k\%s`, s.Name, s.Path, s.Name)
		case taken:
			bad("%s has the same path as %s: %s", s.Name, other, s.Path)
		}
		paths[path] = s.Name
		if s.Role == "" {
			bad("%s: role is empty", s.Name)
		}
	}
	content := func(what string, c Content) {
		if c.Size < 0 {
			bad("%s: size %d is negative", what, c.Size)
		}
		if b, err := hex.DecodeString(c.SHA256); err != nil || len(b) != 32 || c.SHA256 != strings.ToLower(c.SHA256) {
			bad("%s: %q is not a SHA-256 digest in lower-case hexadecimal", what, c.SHA256)
		}
	}
	for _, f := range m.Files {
		slot(f.Slot)
		content(f.Name, f.Content)
		if f.Gzip != nil {
			content(f.Name+": gzip", *f.Gzip)
		}
		if f.Override != nil {
			content(f.Name+": override", f.Override.Content)
			u, err := url.Parse(f.Override.URL)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				bad("%s: override: %q is not an http or https URL", f.Name, f.Override.URL)
			}
		}
	}
	for _, s := range m.Slots {
		slot(s)
	}
	return errors.Join(errs...)
}
