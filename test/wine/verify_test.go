// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package wine

import (
	"crypto/sha1" //nolint:gosec // what Windows calls certificates by
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// verify checks that the host is as its document says, by asking Windows' own tools and
// looking at its files from outside, and not the agent.
func (h *host) verify(b *config.Bundle) {
	h.Helper()
	d := &b.Document
	for _, s := range d.Services {
		if got := h.run("sc query "+s.Name, nil); !strings.Contains(got, "RUNNING") {
			h.Errorf("service %s: %s", s.Name, got)
		}
		key := `HKLM\System\CurrentControlSet\Services\` + s.Name
		command := h.registryValue(key, "ImagePath")
		arguments := strings.ReplaceAll(strings.Join(s.Arguments, " "), "$(NODE_IP)", h.Address())
		if !strings.Contains(command, s.BinaryPath) || !strings.HasSuffix(command, arguments) {
			h.Errorf("service %s runs %s; want %s with %s", s.Name, command, s.BinaryPath, arguments)
		}
		for _, name := range s.Dependencies {
			if got := h.registryValue(key, "DependOnService"); !strings.Contains(got, name) {
				h.Errorf("service %s depends on %q, want %s", s.Name, got, name)
			}
		}
	}
	for _, f := range d.Files {
		content, err := os.ReadFile(h.local(f.Path))
		if errors.Is(err, fs.ErrNotExist) && f.UntilFile != "" {
			// The agent's service removes it when this is there.
			_, err = os.Stat(h.local(f.UntilFile))
			if err == nil {
				continue
			}
		}
		if err != nil {
			h.Error(err)
		}
		got := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
		if f.Source.Secret != "" {
			if string(content) != string(b.Secrets[f.Source.Secret]) {
				h.Errorf("%s has not its secret", f.Path)
			}
		} else if got != f.Digest {
			h.Errorf("%s has the digest %s, want %s", f.Path, got, f.Digest)
		}
	}
	for _, dir := range d.Directories {
		if st, err := os.Stat(h.local(dir.Path)); err != nil || !st.IsDir() {
			h.Errorf("directory %s: %v", dir.Path, err)
		}
	}
	rules := h.run(`reg query HKLM\System\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules`, nil)
	for _, r := range d.Firewall {
		want := fmt.Sprintf("Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=%d|Name=windows-node-agent %s|", r.Port, r.Name)
		if strings.Count(rules, want) != 1 {
			h.Errorf("firewall rule %s: want %s once in\n%s", r.Name, want, rules)
		}
	}
	for _, program := range d.AntivirusExclusions {
		h.registryValue(`HKLM\Software\Policies\Microsoft\Windows Defender\Exclusions\Processes`, program)
	}
	for _, v := range d.Environment {
		want := v.Value
		if v.Secret != "" {
			want = string(b.Secrets[v.Secret])
		}
		if got := h.registryValue(`HKLM\System\CurrentControlSet\Control\Session Manager\Environment`, v.Name); !strings.HasSuffix(got, want) {
			h.Errorf("the variable %s is %s, want %s", v.Name, got, want)
		}
	}
	for _, f := range d.Features {
		if got := h.registryValue(`HKLM\Software\Winhost\Features`, f.Name); !strings.HasSuffix(got, "0x4") {
			h.Errorf("feature %s is %s, want installed", f.Name, got)
		}
	}
	for _, c := range d.Certificates {
		block, _ := pem.Decode([]byte(c.PEM))
		thumbprint := fmt.Sprintf("%X", sha1.Sum(block.Bytes))
		h.registryValue(`HKLM\Software\Microsoft\SystemCertificates\`+c.Store+`\Certificates\`+thumbprint, "Blob")
	}
}

// registryValue is what reg.exe prints of a value that must be there.
func (h *host) registryValue(key, value string) string {
	h.Helper()
	return strings.TrimSpace(h.run(fmt.Sprintf(`reg query "%s" /v "%s"`, key, value), nil))
}

// file is what a file of the host has.
func (h *host) file(path string) []byte {
	h.Helper()
	content, err := os.ReadFile(h.local(path))
	if err != nil {
		h.Error(err)
	}
	return content
}
