// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/version"
)

// versions are those of both sides.
type versions struct {
	// Client is the release of the plugin.
	Client string `json:"client"`
	// API is the version of the API that the plugin speaks.
	API string `json:"api"`
	// Kubernetes is the release of the API server of the cluster.
	Kubernetes string `json:"kubernetes,omitempty"`
}

func newVersion(e *env) *cobra.Command {
	var (
		clientOnly bool
		output     string
	)
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the plugin and of the cluster",
		Example: `  kubectl windows version
  kubectl windows version --client -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versions{Client: version.Version, API: v1alpha1.SchemeGroupVersion.String()}
			if !clientOnly {
				server, err := e.serverVersion(cmd.Context())
				if err != nil {
					return err
				}
				v.Kubernetes = server
			}
			text, err := v.format(output)
			if err != nil {
				return err
			}
			return e.print(text)
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "Only that of the plugin; no request is sent.")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml. Empty: text.")
	completeWords(cmd, "output", "json", "yaml")
	return cmd
}

func (e *env) serverVersion(ctx context.Context) (string, error) {
	c, err := e.client()
	if err != nil {
		return "", err
	}
	info, err := discovery.NewDiscoveryClient(c.core.RESTClient()).ServerVersionWithContext(ctx)
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}

func (v versions) format(output string) (string, error) {
	switch output {
	case "":
		text := fmt.Sprintf("kubectl-windows: %s\nAPI:             %s\n", v.Client, v.API)
		if v.Kubernetes != "" {
			text += fmt.Sprintf("Kubernetes:      %s\n", v.Kubernetes)
		}
		return text, nil
	case "json":
		text, err := json.MarshalIndent(v, "", "  ")
		return string(text) + "\n", err
	case "yaml":
		text, err := yaml.Marshal(v)
		return string(text), err
	}
	return "", fmt.Errorf("--output=%s: must be json or yaml", output)
}
