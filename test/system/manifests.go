// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package system

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// workload is a Deployment or StatefulSet of artifacts, reduced to its containers.
type workload struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Template struct {
			Spec corev1.PodSpec `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// manifests are objects of artifacts, as kustomize renders them.
type manifests []workload

func decodeManifests(rendered string) (manifests, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(rendered), 4<<10)
	var objects manifests
	for {
		var object workload
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("decoding the manifests: %w", err)
		}
		objects = append(objects, object)
	}
}

// command are the arguments of the only container of a program, and what of its environment has a value there.
func (m manifests) command(program string) (args, env []string, err error) {
	for _, object := range m {
		if containers := object.Spec.Template.Spec.Containers; object.Metadata.Name == program && len(containers) == 1 {
			for _, variable := range containers[0].Env {
				if variable.ValueFrom == nil {
					env = append(env, variable.Name+"="+variable.Value)
				}
			}
			return slices.Clone(containers[0].Args), env, nil
		}
	}
	return nil, nil, fmt.Errorf("the manifests start no %s", program)
}
