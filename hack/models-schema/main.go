// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// models-schema prints the OpenAPI v2 definitions of the API types as JSON, the
// input from which applyconfiguration-gen learns how fields merge.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/openshift/windows-instance-api/pkg/generated/openapi"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "models-schema:", err)
		os.Exit(1)
	}
}

func run() error {
	refFunc := func(name string) spec.Ref {
		return spec.MustCreateRef("#/definitions/" + name)
	}
	definitions := make(map[string]spec.Schema)
	for name, definition := range openapi.GetOpenAPIDefinitions(refFunc) {
		// A schema for server-side apply may differ from the v2 one (intstr).
		if v2, ok := definition.Schema.Extensions[common.ExtensionV2Schema]; ok {
			if schema, ok := v2.(spec.Schema); ok {
				definitions[name] = schema
				continue
			}
		}
		definitions[name] = definition.Schema
	}
	document, err := json.Marshal(&spec.Swagger{
		SwaggerProps: spec.SwaggerProps{
			Definitions: definitions,
			Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "windows.openshift.io", Version: "unversioned"}},
			Swagger:     "2.0",
		},
	})
	if err != nil {
		return fmt.Errorf("encoding the definitions: %w", err)
	}
	_, err = os.Stdout.Write(document)
	return err
}
