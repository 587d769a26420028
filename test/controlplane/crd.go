// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

const openshiftAPIModule = "github.com/openshift/api"

var customResourceDefinitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// InstallCRDs applies the CustomResourceDefinitions in the YAML files, and in
// those directly in the directories, that paths names, and waits until they are
// served. Other objects in the files are an error.
func (cp *ControlPlane) InstallCRDs(ctx context.Context, paths ...string) error {
	crds, err := readCRDs(paths)
	if err != nil {
		return fmt.Errorf("installing CRDs: %w", err)
	}
	// The warnings are about CRDs of other people.
	config := cp.AdminConfig()
	config.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("installing CRDs: %w", err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(cp.admin)
	if err != nil {
		return fmt.Errorf("installing CRDs: %w", err)
	}
	for _, crd := range crds {
		if _, err := client.Resource(customResourceDefinitions).Apply(ctx, crd.GetName(), crd, applyOptions()); err != nil {
			return fmt.Errorf("installing CRD %s: %w", crd.GetName(), err)
		}
	}
	for _, crd := range crds {
		err := cp.poll(ctx, func(ctx context.Context) error { return crdServed(ctx, client, discoverer, crd.GetName()) })
		if err != nil {
			return fmt.Errorf("waiting for CRD %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

// crdServed returns nil when the CRD is established and in discovery, which
// kubectl reads and which follows a moment later.
func crdServed(ctx context.Context, client dynamic.Interface, discoverer *discovery.DiscoveryClient, name string) error {
	crd, err := client.Resource(customResourceDefinitions).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := conditionTrue(crd, "Established"); err != nil {
		return err
	}
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok {
			continue
		}
		if served, _ := version["served"].(bool); !served {
			continue
		}
		groupVersion := fmt.Sprintf("%s/%s", group, version["name"])
		list, err := discoverer.ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural }) {
			return fmt.Errorf("%s has no %s yet", groupVersion, plural)
		}
	}
	return nil
}

// readCRDs reads CustomResourceDefinitions from files and directories.
func readCRDs(paths []string) ([]*unstructured.Unstructured, error) {
	var crds []*unstructured.Unstructured
	for _, path := range paths {
		files := []string{path}
		if info, err := os.Stat(path); err != nil {
			return nil, err
		} else if info.IsDir() {
			files, err = filepath.Glob(filepath.Join(path, "*.yaml"))
			if err != nil {
				return nil, err
			}
		}
		for _, file := range files {
			objects, err := readYAML(file)
			if err != nil {
				return nil, err
			}
			for _, object := range objects {
				if object.GetKind() != "CustomResourceDefinition" {
					return nil, fmt.Errorf("%s has a %s, which is no CustomResourceDefinition", file, object.GetKind())
				}
			}
			crds = append(crds, objects...)
		}
	}
	if len(crds) == 0 {
		return nil, fmt.Errorf("there are none in %s", strings.Join(paths, ", "))
	}
	return crds, nil
}

// readYAML returns the objects in a file of YAML documents.
func readYAML(file string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if len(object.Object) > 0 { // not just comments
			objects = append(objects, object)
		}
	}
}

// OpenShiftCRDs returns the files of OpenShift's own CustomResourceDefinitions
// for the resources, each as <plural>.<group>, in the variant of a default
// installation. They come from the module github.com/openshift/api at the
// version of go.mod; the working directory must be inside the checkout. No
// resources means what Windows machines and their configuration depend on:
// Machine, MachineSet, Infrastructure, ImageDigestMirrorSet, ImageTagMirrorSet.
func OpenShiftCRDs(ctx context.Context, resources ...string) ([]string, error) {
	if len(resources) == 0 {
		resources = []string{
			"machines.machine.openshift.io",
			"machinesets.machine.openshift.io",
			"infrastructures.config.openshift.io",
			"imagedigestmirrorsets.config.openshift.io",
			"imagetagmirrorsets.config.openshift.io",
		}
	}
	dir, err := openshiftAPIDir(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding OpenShift's CRDs: %w", err)
	}
	files := make([]string, 0, len(resources))
	for _, resource := range resources {
		file, err := openshiftCRD(dir, resource)
		if err != nil {
			return nil, fmt.Errorf("finding OpenShift's CRDs: %w", err)
		}
		files = append(files, file)
	}
	return files, nil
}

// openshiftAPIDir returns the directory of the module's source.
func openshiftAPIDir(ctx context.Context) (string, error) {
	list := func() (string, error) { return goOutput(ctx, "", "list", "-m", "-f", "{{.Dir}}", openshiftAPIModule) }
	dir, err := list()
	if err != nil || dir != "" {
		return dir, err
	}
	// The module is not in the module cache yet.
	if _, err := goOutput(ctx, "", "mod", "download", openshiftAPIModule); err != nil {
		return "", err
	}
	if dir, err = list(); err == nil && dir == "" {
		err = fmt.Errorf("the go command knows no directory of %s", openshiftAPIModule)
	}
	return dir, err
}

// openshiftCRD returns the file of one CRD below the module's directory. The
// module has a file per feature set or cluster profile where those differ, and
// one without a suffix where they do not:
// <first label of the group>/<version>/zz_generated.crd-manifests/<order>_<component>_<order>_<plural>[-<variant>].crd.yaml
func openshiftCRD(dir, resource string) (string, error) {
	plural, group, _ := strings.Cut(resource, ".")
	label, _, _ := strings.Cut(group, ".")
	for _, variant := range []string{"-Default", "", "-SelfManagedHA-Default", "-SelfManagedHA"} {
		pattern := filepath.Join(dir, label, "v*", "zz_generated.crd-manifests", "*_"+plural+variant+".crd.yaml")
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("looking for %s: %w", resource, err)
		}
		switch len(files) {
		case 0:
		case 1:
			return files[0], nil
		default:
			return "", fmt.Errorf("%s is ambiguous: %s", resource, strings.Join(files, ", "))
		}
	}
	return "", fmt.Errorf("%s has no manifest for %s", dir, resource)
}
