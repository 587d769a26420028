// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/generated/openapi"
)

const modelPrefix = "com.github.openshift.windows-instance-api.pkg.apis.windows.v1alpha1."

// ownModels are the definitions of our types.
func ownModels(t *testing.T) map[string]common.OpenAPIDefinition {
	t.Helper()
	models := map[string]common.OpenAPIDefinition{}
	for name, definition := range openapi.GetOpenAPIDefinitions(spec.MustCreateRef) {
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
		{"Operation", "type", []any{"Adopt", "Drain", "Reboot", "Reconfigure", "Release", "Remove", "RestartServices", "Uncordon"}},
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
		{"RebootOptions", "installUpdates", []any{"All", "None", "Security"}},
		{"PoolWindowsUpdates", "install", []any{"All", "None", "Security"}},
		{"PoolRestarts", "policy", []any{"Never", "WhenPending"}},
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

// bounds are the ones of a schema, by the names that OpenAPI has for them.
func bounds(schema *spec.Schema) map[string]int64 {
	out := map[string]int64{}
	for name, bound := range map[string]*int64{
		"minLength": schema.MinLength, "maxLength": schema.MaxLength, "minItems": schema.MinItems, "maxItems": schema.MaxItems,
		"minProperties": schema.MinProperties, "maxProperties": schema.MaxProperties,
	} {
		if bound != nil {
			out[name] = *bound
		}
	}
	for name, bound := range map[string]*float64{"minimum": schema.Minimum, "maximum": schema.Maximum} {
		if bound != nil {
			out[name] = int64(*bound)
		}
	}
	return out
}

// declaration is a line of the types: that of a type, of a bound, or of a field.
var declaration = regexp.MustCompile(`^type (\w+) |^\t// \+k8s:(eachVal=\+k8s:)?(m(?:ax|in)\w+)=(\d+)$|^\t.* .json:"(\w+)`)

// TestDeclaredBoundsArePublished compares the markers of the types with what clients are told.
func TestDeclaredBoundsArePublished(t *testing.T) {
	files, err := filepath.Glob("types_*.go")
	if err != nil {
		t.Fatal(err)
	}
	models, found := ownModels(t), 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var (
			model   string
			pending [][]string // bounds of the field that follows
		)
		for line := range strings.Lines(string(source)) {
			m := declaration.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			switch {
			case m == nil:
			case m[1] != "":
				model = m[1]
			case m[3] != "":
				pending = append(pending, m)
			default:
				for _, declared := range pending {
					schema := models[model].Schema.Properties[m[5]]
					if declared[2] != "" && schema.Items != nil {
						continue // openapi-gen has no marker for the elements of a list
					}
					if declared[2] != "" && len(schema.AllOf) == 1 {
						schema = *schema.AllOf[0].AdditionalProperties.Schema
					}
					name := strings.Replace(declared[3], "Bytes", "Length", 1)
					if bound, published := bounds(&schema)[name]; !published || fmt.Sprint(bound) != declared[4] {
						t.Errorf("%s.%s: %s is %d (published: %t), declared is %s", model, m[5], name, bound, published, declared[4])
					}
					found++
				}
				pending = nil
			}
		}
	}
	if found == 0 {
		t.Error("no field of the types has a bound")
	}
}

// TestPublishedBounds has objects that are at a bound, which are accepted, and objects beyond
// it, which are refused.
func TestPublishedBounds(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	models := ownModels(t)
	for kind := range scheme.KnownTypes(v1alpha1.SchemeGroupVersion) {
		if models[kind].Schema.Properties["spec"].AllOf == nil { // a list, or no document
			continue
		}
		// refused says whether a value is refused for its size. Objects lack what they must have.
		refused := func(path string, object map[string]any) bool {
			t.Helper()
			raw, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			obj, err := scheme.New(v1alpha1.SchemeGroupVersion.WithKind(kind))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, obj); err != nil {
				t.Fatalf("%s %s: %v", kind, path, err)
			}
			return slices.ContainsFunc(scheme.Validate(t.Context(), nil, obj), func(err *field.Error) bool {
				return err.Field == path && slices.Contains([]field.ErrorType{field.ErrorTypeInvalid, field.ErrorTypeTooLong, field.ErrorTypeTooMany}, err.Type)
			})
		}
		eachBound(models, models[kind].Schema, "", func(v any) map[string]any { return v.(map[string]any) },
			func(path, name string, bound int64, object func(size int64) map[string]any) {
				beyond := bound + 1
				if strings.HasPrefix(name, "min") {
					beyond = bound - 1
				}
				if refused(path, object(bound)) {
					t.Errorf("%s: %s is refused at its %s, %d", kind, path, name, bound)
				}
				if !refused(path, object(beyond)) {
					t.Errorf("%s: %s is accepted beyond its %s, %d", kind, path, name, bound)
				}
			})
	}
}

// eachBound calls do for each bound of what is in a schema, with a function that makes the object
// which has a value of a size there, and nothing else.
func eachBound(models map[string]common.OpenAPIDefinition, schema spec.Schema, path string, wrap func(any) map[string]any,
	do func(path, name string, bound int64, object func(size int64) map[string]any)) {
	for name, bound := range bounds(&schema) {
		do(path, name, bound, func(size int64) map[string]any { return wrap(sized(name, size)) })
	}
	if model, ok := strings.CutPrefix(schema.Ref.String(), modelPrefix); ok {
		eachBound(models, models[model].Schema, path, wrap, do)
	}
	for name, property := range schema.Properties {
		eachBound(models, property, strings.TrimPrefix(path+"."+name, "."), func(v any) map[string]any { return wrap(map[string]any{name: v}) }, do)
	}
	// What is in the history was accepted before, perhaps by an earlier release.
	if schema.Items != nil && path != "status.history" {
		eachBound(models, *schema.Items.Schema, path+"[0]", func(v any) map[string]any { return wrap([]any{v}) }, do)
	}
	if schema.AdditionalProperties != nil {
		eachBound(models, *schema.AdditionalProperties.Schema, path+"[k]", func(v any) map[string]any { return wrap(map[string]any{"k": v}) }, do)
	}
	for _, part := range schema.AllOf {
		eachBound(models, part, path, wrap, do)
	}
}

// sized is a value of a size.
func sized(bound string, size int64) any {
	switch {
	case strings.HasSuffix(bound, "Length"):
		return strings.Repeat("a", int(size))
	case strings.HasSuffix(bound, "Items"):
		return make([]any, size)
	case strings.HasSuffix(bound, "Properties"):
		values := map[string]string{}
		for i := range size {
			values[fmt.Sprint("k", i)] = ""
		}
		return values
	}
	return size
}
