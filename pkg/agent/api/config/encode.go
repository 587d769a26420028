// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
)

// Prefixes of digests.
const (
	digestPrefix      = "sha256:"
	keyedDigestPrefix = "hmac-sha256:"
)

// Digest returns the digest of a content that may be seen.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// Canonical returns the one encoding of the document: JSON without space, members in
// the order of the types, lists that have no order sorted, nothing that is empty.
func (d *Document) Canonical() ([]byte, error) {
	return encode(d.Sorted())
}

// Revision names the document: the SHA-256 of its canonical encoding in hexadecimal
// digits. Two documents that ask for the same have the same revision.
func (d *Document) Revision() (string, error) {
	encoded, err := d.Canonical()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:]), nil
}

// Sorted returns a copy whose lists without an order are sorted. The order of the
// services, of the networks, of arguments and delays means something and stays.
func (d *Document) Sorted() *Document {
	c := *d
	byPath := func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }
	c.Features = sortedBy(d.Features, func(a, b Feature) int { return cmp.Compare(a.Name, b.Name) })
	c.Directories = sortedBy(d.Directories, func(a, b Directory) int { return byPath(a.Path, b.Path) })
	c.Files = sortedBy(d.Files, func(a, b File) int { return byPath(a.Path, b.Path) })
	c.Generated = sortedBy(d.Generated, byPath)
	c.Environment = sortedBy(d.Environment, func(a, b EnvironmentVariable) int { return cmp.Compare(a.Name, b.Name) })
	c.Certificates = sortedBy(d.Certificates, func(a, b Certificate) int {
		return cmp.Or(cmp.Compare(a.Store, b.Store), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	c.Firewall = sortedBy(d.Firewall, func(a, b FirewallRule) int { return cmp.Compare(a.Name, b.Name) })
	c.AntivirusExclusions = sortedBy(d.AntivirusExclusions, byPath)
	c.Variables = sortedBy(d.Variables, func(a, b Variable) int { return cmp.Compare(a.Name, b.Name) })
	c.Routes = sortedBy(d.Routes, netip.Prefix.Compare)
	c.LogRotation = sortedBy(d.LogRotation, func(a, b LogRotation) int { return byPath(a.Path, b.Path) })
	c.Components = sortedBy(d.Components, func(a, b Component) int { return cmp.Compare(a.Name, b.Name) })
	for i := range c.Components {
		c.Components[i].Files = sortedBy(c.Components[i].Files, byPath)
	}
	return &c
}

func sortedBy[T any](list []T, compare func(a, b T) int) []T {
	list = slices.Clone(list)
	slices.SortStableFunc(list, compare)
	return list
}

// encode is json.Marshal without its escapes for HTML.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encode the document: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Encode returns the bundle as it travels.
func (b *Bundle) Encode() ([]byte, error) {
	return encode(Bundle{Document: *b.Document.Sorted(), Secrets: b.Secrets})
}

// ErrVersion is wrapped by what [Decode] returns for a document of another schema.
var ErrVersion = errors.New("version of the schema is not supported")

// MaxBundleBytes is how long an encoded bundle may be. The largest part of one are the
// certificates that a cluster trusts, some hundred of two kilobytes each.
const MaxBundleBytes = 16 << 20

// DecodeStrict reads one JSON value into target, and nothing may follow it. A member that is
// not known is an error: it requests something that would not be done.
func DecodeStrict(text []byte, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its end")
	}
	return nil
}

// Decode reads one bundle, as [DecodeStrict] does, and validates it.
func Decode(r io.Reader) (*Bundle, error) { return decode(r, DecodeStrict) }

// DecodeRecord reads a bundle that was applied, maybe by an agent of a later release, and validates it. It is for whoever wants to know
// what a host was configured with, and does not make it so: members that are not known are left out.
func DecodeRecord(r io.Reader) (*Bundle, error) { return decode(r, json.Unmarshal) }

func decode(r io.Reader, into func(text []byte, target any) error) (*Bundle, error) {
	// The version is checked first, so that the error for a newer document says so.
	text, err := io.ReadAll(io.LimitReader(r, MaxBundleBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the bundle: %w", err)
	}
	if len(text) > MaxBundleBytes {
		return nil, fmt.Errorf("the bundle has more than %d bytes", MaxBundleBytes)
	}
	var head struct {
		Document struct {
			Version int `json:"version"`
		} `json:"document"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("the bundle is no JSON: %w", err)
	}
	if head.Document.Version != SchemaVersion {
		return nil, fmt.Errorf("%w: %d, want %d", ErrVersion, head.Document.Version, SchemaVersion)
	}
	var bundle Bundle
	if err := into(text, &bundle); err != nil {
		return nil, fmt.Errorf("decode the bundle: %w", err)
	}
	if err := bundle.Validate(); err != nil {
		return nil, fmt.Errorf("the bundle is not valid: %w", err)
	}
	return &bundle, nil
}
