// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Set is the payloads that a process has: one, or several of different versions side by side. Its
// methods may be called concurrently.
type Set struct {
	payloads []*Payload
}

// OpenSet opens the payload at path, or each one in a directory of path: those with a manifest, or with
// an OCI image layout. Directories whose names begin with a period, and those that are neither, are no
// payloads. It is an error if there is none.
func OpenSet(ctx context.Context, path string, o Options) (*Set, error) {
	paths, err := findPayloads(path)
	if err != nil {
		return nil, fmt.Errorf("payload %s: %w", path, err)
	}
	s := &Set{}
	for _, path := range paths {
		p, err := Open(ctx, path, o)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.payloads = append(s.payloads, p)
	}
	return s, nil
}

// findPayloads returns the directories of the payloads at path, by their names.
func findPayloads(path string) ([]string, error) {
	if isPayload(path) {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path) // sorted
	if err != nil {
		return nil, err
	}
	var found []string
	for _, entry := range entries {
		// What begins with a period is about to be written, or is how a volume keeps its versions.
		if below := filepath.Join(path, entry.Name()); !strings.HasPrefix(entry.Name(), ".") && isPayload(below) {
			found = append(found, below)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("neither %s nor a directory in it has a %s: make payload OUT=%s, or one for each minor version of Kubernetes, make payload KUBERNETES=1.N OUT=%s/1.N: %w",
			path, manifestName, path, path, os.ErrNotExist)
	}
	return found, nil
}

func isPayload(path string) bool {
	for _, name := range []string{manifestName, ociLayoutName} {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			return true
		}
	}
	return false
}

// Payloads are those of the set, in the order of the names of their directories. Not to be changed.
func (s *Set) Payloads() []*Payload { return s.payloads }

// Find returns the file with that name and effective content, of whichever payload has it: what a host is to get may
// have been decided with another one than that of now. If no payload has it, it is a file of that name with another
// content, or nil if there is none.
func (s *Set) Find(name, sha256 string) (of *Payload, file *File) {
	for _, p := range s.payloads {
		f := p.Manifest.File(name)
		if f != nil && (file == nil || f.Effective().SHA256 == sha256) {
			of, file = p, f
		}
	}
	return of, file
}

// Close closes all payloads.
func (s *Set) Close() error {
	var errs []error
	for _, p := range s.payloads {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
