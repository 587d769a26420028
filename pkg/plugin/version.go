// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"cmp"
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
	// Server is the release of windows-apiserver.
	Server string `json:"server,omitempty"`
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
		Short: "Print the releases of the plugin, of windows-apiserver and of the cluster",
		Example: `  kubectl windows version
  kubectl windows version --client -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versions{Client: version.Version, API: v1alpha1.SchemeGroupVersion.String()}
			var unknown error
			if !clientOnly {
				if v.Kubernetes, unknown = e.kubernetesVersion(cmd.Context()); unknown == nil {
					v.Server, unknown = e.serverVersion(cmd.Context())
				}
			}
			text, err := v.format(output)
			if err == nil {
				err = e.print(text)
			}
			return cmp.Or(err, unknown) // what is known is printed in any case
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "Only that of the plugin; no request is sent.")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml. Empty: text.")
	completeWords(cmd, "output", "json", "yaml")
	return cmd
}

func (e *env) kubernetesVersion(ctx context.Context) (string, error) {
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

// serverVersion is the release of windows-apiserver, which its description of the API says.
func (e *env) serverVersion(ctx context.Context) (string, error) {
	c, err := e.client()
	if err != nil {
		return "", err
	}
	group := v1alpha1.SchemeGroupVersion
	answer, err := c.core.RESTClient().Get().AbsPath("openapi", "v3", "apis", group.Group, group.Version).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("the release of windows-apiserver is not known, because kube-apiserver has no description of %s: %w; see kubectl get apiservice %s.%s",
			group, err, group.Version, group.Group)
	}
	var described struct {
		Info struct {
			Version string `json:"version"`
		} `json:"info"`
	}
	if err := json.Unmarshal(answer, &described); err != nil {
		return "", fmt.Errorf("the release of windows-apiserver is not known, because the description of %s cannot be read: %w", group, err)
	}
	if described.Info.Version == group.Version {
		return "not known, of a release before this one", nil // which had the version of the API there
	}
	return described.Info.Version, nil
}

func (v versions) format(output string) (string, error) {
	switch output {
	case "":
		text := fmt.Sprintf("kubectl-windows:   %s\n", v.Client)
		if v.Server != "" {
			text += fmt.Sprintf("windows-apiserver: %s\n", v.Server)
		}
		text += fmt.Sprintf("API:               %s\n", v.API)
		if v.Kubernetes != "" {
			text += fmt.Sprintf("Kubernetes:        %s\n", v.Kubernetes)
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
