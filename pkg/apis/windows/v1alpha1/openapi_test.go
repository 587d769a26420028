// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/openshift/windows-instance-api/pkg/generated/openapi"
)

const modelPrefix = "com.github.openshift.windows-instance-api.pkg.apis.windows.v1alpha1."

// ownModels are the definitions of our types.
func ownModels(t *testing.T) map[string]common.OpenAPIDefinition {
	t.Helper()
	models := map[string]common.OpenAPIDefinition{}
	for name, definition := range openapi.GetOpenAPIDefinitions(func(string) spec.Ref { return spec.Ref{} }) {
		if short, ok := strings.CutPrefix(name, modelPrefix); ok {
			models[short] = definition
		}
	}
	if len(models) == 0 {
		t.Fatal("there is no definition of ours")
	}
	return models
}

// TestEveryFieldIsExplained keeps `kubectl explain` complete.
func TestEveryFieldIsExplained(t *testing.T) {
	for name, definition := range ownModels(t) {
		if definition.Schema.Description == "" {
			t.Errorf("%s has no description", name)
		}
		for field, schema := range definition.Schema.Properties {
			if schema.Description == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
		}
	}
}

func TestEnums(t *testing.T) {
	models := ownModels(t)
	for _, test := range []struct {
		model, field string
		want         []any
	}{
		{"WindowsInstanceStatus", "phase", []any{"Configuring", "Connected", "Connecting", "Draining", "Failed", "Joining", "Pending", "Ready", "Rebooting", "Removing", "Unreachable"}},
		{"Operation", "type", []any{"Drain", "Reboot", "Reconfigure", "Remove", "Uncordon"}},
		{"Operation", "phase", []any{"Canceled", "Failed", "Pending", "Running", "Succeeded"}},
		{"Operation", "origin", []any{"Controller", "User"}},
		{"OperationStep", "state", []any{"Canceled", "Failed", "Pending", "Running", "Skipped", "Succeeded"}},
		{"RebootOptions", "mode", []any{"Force", "Graceful", "IfPending"}},
		{"Operation", "impact", []any{"Drain", "None", "Reboot", "Restart"}},
		{"RemovalOptions", "policy", []any{"Abandon", "Clean"}},
		{"NodeTaint", "effect", []any{"NoExecute", "NoSchedule", "PreferNoSchedule"}},
		{"ContainerdTemplate", "logLevel", []any{"debug", "error", "info", "trace", "warn"}},
		{"PlannedChange", "impact", []any{"Drain", "None", "Reboot", "Restart"}},
		{"CheckLayer", "result", []any{"Failed", "Passed", "Skipped"}},
		{"CheckFinding", "severity", []any{"Error", "Warning"}},
		{"HostKeyStatus", "trustedBy", []any{"FirstUse", "Spec"}},
		{"WindowsNodePoolStatus", "phase", []any{"Degraded", "Paused", "Pending", "Progressing", "Ready"}},
	} {
		schema := models[test.model].Schema.Properties[test.field]
		if !slices.Equal(schema.Enum, test.want) {
			t.Errorf("%s.%s has the values %v, want %v", test.model, test.field, schema.Enum, test.want)
		}
		for _, value := range test.want {
			if !strings.Contains(schema.Description, value.(string)) {
				t.Errorf("the description of %s.%s does not mention %s", test.model, test.field, value)
			}
		}
	}
}
