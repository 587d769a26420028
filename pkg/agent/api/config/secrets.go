// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package config

import (
	"errors"
	"fmt"
	"io"
)

// SecretValue is a content that must not be seen. Whatever prints it, prints that it
// is a secret; only JSON has the content, because that is how it travels.
type SecretValue []byte

// Format implements [fmt.Formatter] for every verb.
func (SecretValue) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, "[secret]") }

// String implements [fmt.Stringer] for those who call it directly.
func (SecretValue) String() string { return "[secret]" }

// Secrets are contents by the name that a document gives them.
type Secrets map[string]SecretValue

// Bundle is a document with its secrets, as it is sent to a host over standard input.
// It is never logged, shown or stored outside of the host.
type Bundle struct {
	Document Document `json:"document"`
	Secrets  Secrets  `json:"secrets,omitempty"`
}

// Validate returns everything that is wrong with the bundle: with its document, a
// secret that is missing, one that is not used.
func (b *Bundle) Validate() error {
	errs := []error{b.Document.Validate()}
	wanted := b.Document.SecretNames()
	known := make(map[string]bool, len(wanted))
	for _, name := range wanted {
		known[name] = true
		if _, ok := b.Secrets[name]; !ok {
			errs = append(errs, fmt.Errorf("secret %s is missing", name))
		}
	}
	for name := range b.Secrets {
		if !known[name] {
			errs = append(errs, fmt.Errorf("secret %s is used by nothing", name))
		}
	}
	return errors.Join(errs...)
}

// SecretNames returns the names of the secrets that the document needs.
func (d *Document) SecretNames() []string {
	var names []string
	for _, f := range d.Files {
		if f.Source.Secret != "" {
			names = append(names, f.Source.Secret)
		}
	}
	for _, v := range d.Environment {
		if v.Secret != "" {
			names = append(names, v.Secret)
		}
	}
	return names
}
