// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// bundledAgent is the name of the build in the directory of a bundle.
const bundledAgent = "windows-node-agent.exe"

// Bundle is the build of the agent that is put on hosts.
type Bundle struct {
	path   string // on this machine
	size   int64
	sha256 string // lower-case hexadecimal
}

// LoadBundle reads the build in dir, windows-node-agent.exe.
func LoadBundle(dir string) (*Bundle, error) {
	path := filepath.Join(dir, bundledAgent)
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the agent: %w", err)
	}
	defer file.Close()
	h := sha256.New()
	size, err := io.Copy(h, file)
	if err != nil {
		return nil, fmt.Errorf("reading the agent: %w", err)
	}
	return &Bundle{path: path, size: size, sha256: hex.EncodeToString(h.Sum(nil))}, nil
}

// Digest is as much of the SHA-256 digest as surely names one build and still fits into a
// file name and a table.
func (b *Bundle) Digest() string { return b.sha256[:16] }

// command is the path of the agent on hosts, in the form of their shells.
func (b *Bundle) command() string { return commandPath(b.name()) }

// name is that of the file on a host.
func (b *Bundle) name() string { return "windows-node-agent-" + b.Digest() + ".exe" }
