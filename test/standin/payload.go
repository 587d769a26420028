// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package standin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Version is that of the programs in a payload for stand-ins, unless it is told otherwise.
const Version = "v1.37.1"

// PayloadOptions say what a payload for stand-ins is like.
type PayloadOptions struct {
	// Version of all programs. A kubelet reports it. Empty: [Version].
	Version string
	// Overlay adds the program that makes the networks of a host. Nodes are then ready only
	// when they have those, for which they need the annotation [wmco.SubnetAnnotation].
	Overlay bool
	// Platform adds what only hosts of that platform have. Empty: nothing.
	Platform configv1.PlatformType
	// Bytes is how large the largest program is, which is that of containerd. Nothing of it can be
	// compressed. 0: 64 KiB.
	Bytes int
	// Broken is the name of a file whose content is not what the manifest says. Empty: none.
	Broken string
}

// WritePayload makes a payload for in-process hosts in a directory, which must not exist. It
// has everything that a host of any platform but a cloud needs, and no file of it is a program.
func WritePayload(ctx context.Context, dir string, o PayloadOptions) (err error) {
	if o.Version == "" {
		o.Version = Version
	}
	if o.Bytes == 0 {
		o.Bytes = 64 << 10
	}
	contents, err := os.MkdirTemp(filepath.Dir(dir), ".contents-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(contents)) }()
	slot := func(name, directory string, role payload.Role) payload.Slot {
		return payload.Slot{Name: name, Path: directory + `\` + name, Role: role}
	}
	slots := []payload.Slot{
		slot("kubelet.exe", wmco.KubernetesDir, payload.RoleKubelet),
		slot("kube-proxy.exe", wmco.KubernetesDir, payload.RoleKubeProxy),
		slot("kube-log-runner.exe", wmco.KubernetesDir, payload.RoleLogRunner),
		slot("windows_exporter.exe", wmco.KubernetesDir, payload.RoleMetricsExporter),
		slot("containerd.exe", wmco.ContainerdDir, payload.RoleContainerd),
		slot("containerd-shim-runhcs-v1.exe", wmco.ContainerdDir, payload.RoleContainerdShim),
		slot("host-local.exe", wmco.CNIDir, payload.RoleCNIPlugin),
		slot("win-bridge.exe", wmco.CNIDir, payload.RoleCNIPlugin),
		slot("win-overlay.exe", wmco.CNIDir, payload.RoleCNIPlugin),
	}
	if o.Overlay {
		slots = append(slots, slot("hybrid-overlay-node.exe", wmco.KubernetesDir, payload.RoleHybridOverlay))
	}
	switch o.Platform {
	case configv1.AWSPlatformType:
		slots = append(slots, slot("ecr-credential-provider.exe", wmco.KubernetesDir, payload.RoleCredentialProvider))
	case configv1.AzurePlatformType:
		slots = append(slots, slot("azure-cloud-node-manager.exe", wmco.KubernetesDir, payload.RoleCloudNodeManager))
	}
	var sources []payload.Source
	for _, s := range slots {
		content := fmt.Appendf(nil, "%s %s\nThis is no program.\n", s.Name[:len(s.Name)-len(".exe")], o.Version)
		if s.Role == payload.RoleContainerd {
			content = append(content, noise(o.Bytes)...)
		}
		path := filepath.Join(contents, s.Name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
		sources = append(sources, payload.Source{File: payload.File{Slot: s, Version: o.Version, Source: "stand-in"}, LocalPath: path})
	}
	err = payload.Build(ctx, dir, payload.Manifest{Name: "stand-ins", Version: o.Version, OS: "windows", Architecture: "amd64"}, sources)
	if err != nil || o.Broken == "" {
		return err
	}
	return spoil(filepath.Join(dir, "files", o.Broken))
}

// noise is the same each time.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it never fails
	return b
}

// spoil changes a file of a payload, and what is kept of it in compressed form, without
// changing the sizes.
func spoil(path string) error {
	for _, name := range []string{path, path + ".gz"} {
		content, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) && name != path {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(name, bytes.ToUpper(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}
