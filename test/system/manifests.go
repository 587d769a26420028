// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// command are the arguments of the only container of a program, and what of its environment has a value there. As
// a kubelet does, it waits until the Secrets are there that the container mounts, and it writes their files. The
// arguments name these.
func (s *System) command(ctx context.Context, program string) (args, env []string, err error) {
	i := slices.IndexFunc(s.manifests, func(w workload) bool { return w.Metadata.Name == program && len(w.Spec.Template.Spec.Containers) == 1 })
	if i < 0 {
		return nil, nil, fmt.Errorf("the manifests start no %s", program)
	}
	pod := s.manifests[i].Spec.Template.Spec
	container := pod.Containers[0]
	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			env = append(env, variable.Name+"="+variable.Value)
		}
	}
	args = slices.Clone(container.Args)
	for _, volume := range pod.Volumes {
		if volume.Secret == nil {
			continue
		}
		dir := filepath.Join(s.Dir(), "volumes", program, volume.Name)
		if err := s.writeSecret(ctx, volume.Secret.SecretName, dir); err != nil {
			return nil, nil, err
		}
		for _, mount := range container.VolumeMounts {
			for n := range args {
				if mount.Name == volume.Name {
					args[n] = strings.Replace(args[n], "="+mount.MountPath, "="+dir, 1)
				}
			}
		}
	}
	return args, env, nil
}

// writeSecret writes the files of a Secret of our namespace to a directory as soon as there is one.
func (s *System) writeSecret(ctx context.Context, name, dir string) error {
	var secret *corev1.Secret
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var err error
		secret, err = s.Kube.CoreV1().Secrets(Namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("waiting for Secret %s: %w", name, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for key, content := range secret.Data {
		if err := os.WriteFile(filepath.Join(dir, key), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
