// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

type manifestCase struct {
	Input struct {
		APIServerInternalURL    string                `json:"apiServerInternalURL"`
		Debug                   bool                  `json:"debug"`
		HybridOverlayVXLANPort  string                `json:"hybridOverlayVXLANPort"`
		KubeletArgsFromIgnition map[string]string     `json:"kubeletArgsFromIgnition"`
		Platform                configv1.PlatformType `json:"platform"`
	} `json:"input"`
}

// manifest is the output of a services-manifest case.
type manifest struct {
	Services      []document.PublishedService `json:"services"`
	ConfigMapData map[string]string           `json:"configMapData"`
	Immutable     bool                        `json:"immutable"`
}

// servicesManifest runs a file that is one case.
func servicesManifest(file []byte) ([]result, error) {
	var c manifestCase
	if err := json.Unmarshal(file, &c); err != nil {
		return nil, fmt.Errorf("the file is no case: %w", err)
	}
	id := strings.ToLower(string(c.Input.Platform))
	if c.Input.Debug {
		id += "-debug"
	}
	r := outcome(manifestOf(c))
	r.ID = id
	return []result{r}, nil
}

func manifestOf(c manifestCase) (*manifest, error) {
	options := document.ServiceOptions{
		Platform: c.Input.Platform, APIServerURL: c.Input.APIServerInternalURL, Debug: c.Input.Debug,
		KubeletArguments: c.Input.KubeletArgsFromIgnition, CredentialProvider: c.Input.Platform == configv1.AWSPlatformType,
	}
	if c.Input.HybridOverlayVXLANPort != "" {
		port, err := strconv.ParseUint(c.Input.HybridOverlayVXLANPort, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("VXLAN port: %w", err)
		}
		options.VXLANPort = uint16(port)
	}
	published, err := document.Publish(options, document.Proxy{})
	if err != nil {
		return nil, err
	}
	configMap, err := published.ConfigMap("", "")
	if err != nil {
		return nil, err
	}
	return &manifest{Services: published.Services, ConfigMapData: configMap.Data, Immutable: *configMap.Immutable}, nil
}
