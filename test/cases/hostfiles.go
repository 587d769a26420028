// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"encoding/json"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

type kubeletConfigCase struct {
	ServiceCIDR string `json:"serviceCIDR"`
}

func kubeletConfig(c kubeletConfigCase) result {
	dns, err := document.ClusterDNS(c.ServiceCIDR)
	if err != nil {
		return result{Error: err.Error()}
	}
	return result{Output: document.KubeletConfiguration(dns, document.KubeletOptions{})}
}

type kubeconfigCase struct {
	SecretData map[string]string `json:"secretData"`
	Server     string            `json:"server"`
	User       string            `json:"user"`
}

func bootstrapKubeconfig(c kubeconfigCase) result {
	data := map[string][]byte{}
	for key, value := range c.SecretData {
		data[key] = []byte(value)
	}
	credentials, err := document.TokenCredentialsOf(data)
	if err != nil {
		return result{Error: err.Error()}
	}
	kubeconfig, err := credentials.Kubeconfig(c.Server, c.User)
	return outcome(json.RawMessage(kubeconfig), err)
}

type hostsCase struct {
	ImageDigestMirrors []configv1.ImageDigestMirrors `json:"imageDigestMirrors"`
	ImageTagMirrors    []configv1.ImageTagMirrors    `json:"imageTagMirrors"`
	PullSecretAuths    map[string]string             `json:"pullSecretAuths"`
}

// hostsTOML writes the files of the registries. What they cannot say is reported by entry.
func hostsTOML(c hostsCase) result {
	registries := document.RegistriesOf(&document.Cluster{
		ImageDigestMirrors: c.ImageDigestMirrors, ImageTagMirrors: c.ImageTagMirrors, PullSecret: document.NewPullSecret(c.PullSecretAuths),
	})
	files := map[string]string{}
	for _, f := range registries.Files {
		files[f.Directory+`\hosts.toml`] = f.Content
	}
	warnings := map[string]string{}
	for i, text := range registries.Warnings {
		warnings[fmt.Sprint("warning ", i)] = text
	}
	return result{Output: files, Entries: warnings}
}

type mirrorCase struct {
	Source string `json:"source"`
	Mirror string `json:"mirror"`
}

// mirrorParts is the output of a mirror-prefix case.
type mirrorParts struct {
	UniqueMirrorPrefix string `json:"uniqueMirrorPrefix"`
	MirrorHostUsed     string `json:"mirrorHostUsed"`
	MirrorHostname     string `json:"mirrorHostname"`
	MirrorOrgPath      string `json:"mirrorOrgPath"`
}

func mirrorPrefix(c mirrorCase) result {
	m := document.Mirror{Source: c.Source, Location: c.Mirror}
	return result{Output: mirrorParts{
		UniqueMirrorPrefix: m.UniquePrefix(),
		MirrorHostUsed:     m.Host(),
		MirrorHostname:     document.RegistryHost(m.Host()),
		MirrorOrgPath:      document.RegistryPath(m.Host()),
	}}
}
