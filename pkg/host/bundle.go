// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// platform is the operating system of a host, as far as it matters for putting a
// program there.
type platform string

const (
	windows platform = "windows"
	// unix is what the OpenSSH tier of the tests runs on.
	unix platform = "linux"
)

// agentFiles are the names of the builds in the directory of a bundle.
var agentFiles = map[platform]string{
	windows: "windows-node-agent.exe",
	unix:    "windows-node-agent",
}

// Bundle are the builds of the agent that can be put on hosts.
type Bundle struct {
	builds map[platform]agentBuild
}

// agentBuild is one build.
type agentBuild struct {
	path   string // on this machine
	size   int64
	sha256 string // lower-case hexadecimal
}

// LoadBundle reads the builds in dir: windows-node-agent.exe, which must be there,
// and windows-node-agent for hosts that are no Windows.
func LoadBundle(dir string) (*Bundle, error) {
	bundle := &Bundle{builds: map[platform]agentBuild{}}
	for p, name := range agentFiles {
		build, err := loadBuild(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) && p != windows {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the agent: %w", err)
		}
		bundle.builds[p] = build
	}
	return bundle, nil
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

// Revision names the content of the build for Windows.
func (b *Bundle) Revision() string { return b.builds[windows].revision() }

// revision is as much of the digest as names a build beyond doubt and still fits
// into a file name and a table.
func (b agentBuild) revision() string { return b.sha256[:16] }
