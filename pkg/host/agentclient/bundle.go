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
	build agentBuild
}

// agentBuild is one build of the agent.
type agentBuild struct {
	path   string // on this machine
	size   int64
	sha256 string // lower-case hexadecimal
}

// LoadBundle reads the build in dir, windows-node-agent.exe.
func LoadBundle(dir string) (*Bundle, error) {
	build, err := loadBuild(filepath.Join(dir, bundledAgent))
	if err != nil {
		return nil, fmt.Errorf("reading the agent: %w", err)
	}
	return &Bundle{build: build}, nil
}

func loadBuild(path string) (agentBuild, error) {
	file, err := os.Open(path)
	if err != nil {
		return agentBuild{}, err
	}
	defer file.Close()
	h := sha256.New()
	size, err := io.Copy(h, file)
	if err != nil {
		return agentBuild{}, err
	}
	return agentBuild{path: path, size: size, sha256: hex.EncodeToString(h.Sum(nil))}, nil
}

// Digest names the content of the build.
func (b *Bundle) Digest() string { return b.build.shortDigest() }

// shortDigest is as much of the digest as surely names one build and still fits
// into a file name and a table.
func (b agentBuild) shortDigest() string { return b.sha256[:16] }
