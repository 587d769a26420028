// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/openshift/windows-instance-api/pkg/generated/openapi"
)

func property(description, kind string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Description: description, Type: []string{kind}}}
}

func reference(model string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Ref: spec.MustCreateRef(model)}}
}

func TestRenderRoot(t *testing.T) {
	list := property("Parts.", "array")
	part := reference(ownTypes + "v1.Part")
	list.Items, list.MaxItems = &spec.SchemaOrArray{Schema: &part}, new(int64(16))
	size := property("Size.", "integer")
	size.Format, size.Default, size.Minimum, size.Maximum = "int32", 22, new(float64(1)), new(65535.)
	names := property("Names.", "object")
	name := property("", "string")
	names.AdditionalProperties, names.MaxProperties = &spec.SchemaOrBool{Schema: &name}, new(int64(3))
	names.AllOf = []spec.Schema{{}} // where openapi-gen puts the bounds of what is in it
	phase := property("Phase | state.\n\nPossible enum values:\n - `\"A\"` means one.\n - `\"B\"` means two.", "string")
	phase.Default, phase.MaxLength = "", new(int64(9))
	definitions := map[string]common.OpenAPIDefinition{
		ownTypes + "v1.Whole": {Schema: spec.Schema{SchemaProps: spec.SchemaProps{
			Description: "Whole is <all>.",
			Required:    []string{"size"},
			Properties: map[string]spec.Schema{
				"parts": list, "names": names, "size": size, "phase": phase, "kind": property("Kind.", "string"), "metadata": property("Metadata.", "object"),
				"seen": reference("io.k8s.apimachinery.pkg.apis.meta.v1.Time"),
			},
		}}},
		ownTypes + "v1.Part": {Schema: spec.Schema{SchemaProps: spec.SchemaProps{Description: "Part is a piece."}}},
	}
	const want = `
## Whole

Whole is &lt;all&gt;.

Intro.

| Field | Type | Description |
|---|---|---|
| ` + "`kind`" + ` | string | Kind. |
| ` + "`metadata`" + ` | object | Metadata. |
| ` + "`size`" + ` **required** | integer (int32), 1 to 65535 | Size. Default: ` + "`22`" + `. |
| ` + "`names`" + ` | map of string to string, at most 3 | Names. |
| ` + "`parts`" + ` | list of [Part](#part), at most 16 | Parts. |
| ` + "`phase`" + ` | string, at most 9 characters | Phase \| state.<ul><li>` + "`A`" + ` means one.</li><li>` + "`B`" + ` means two.</li></ul> |
| ` + "`seen`" + ` | string (date-time) |  |

### Part

Part is a piece.

It has no fields.
`
	out := &bytes.Buffer{}
	if err := renderRoot(out, definitions, root{model: ownTypes + "v1.Whole", title: "Whole", intro: "Intro."}, map[string]bool{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("reference (-want +got):\n%s", diff)
	}
	if err := renderRoot(out, definitions, root{model: "gone"}, map[string]bool{}); err == nil {
		t.Error("a definition that is not there is no error")
	}
}

// TestRenderIsDeterministic renders from maps twice.
func TestRenderIsDeterministic(t *testing.T) {
	definitions := func() map[string]common.OpenAPIDefinition {
		return openapi.GetOpenAPIDefinitions(spec.MustCreateRef)
	}
	resources, err := served()
	if err != nil {
		t.Fatal(err)
	}
	first, err := render(definitions(), resources)
	if err != nil {
		t.Fatal(err)
	}
	second, err := render(definitions(), resources)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(first), string(second)); diff != "" {
		t.Errorf("the second run differs (-first +second):\n%s", diff)
	}
}

// TestReferenceIsComplete finds resources and subresources that the API server installs and docs/api-reference.md
// does not have.
func TestReferenceIsComplete(t *testing.T) {
	document, err := os.ReadFile("../../docs/api-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	resources, err := served()
	if err != nil {
		t.Fatal(err)
	}
	if len(resources) < 2 {
		t.Fatalf("the API server serves %v", resources)
	}
	for _, r := range resources {
		want := "| `" + r.Name + "` | " + verbs(r) + " | "
		if !strings.Contains(r.Name, "/") {
			want = "Resource `" + r.Name + "`"
		}
		if !bytes.Contains(document, []byte(want)) {
			t.Errorf("%s is missing. Run hack/update-api-docs.sh", r.Name)
		}
		if r.Group == "" && !bytes.Contains(document, []byte("\n## "+r.Kind+"\n")) {
			t.Errorf("%s of %s is missing. Run hack/update-api-docs.sh", r.Kind, r.Name)
		}
	}
}
