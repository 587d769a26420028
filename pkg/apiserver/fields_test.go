// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

const (
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

// change sends what changes an object, and returns the answer decoded.
func (s *testServer) change(t *testing.T, contentType, path, body string) map[string]any {
	t.Helper()
	method := http.MethodPatch
	if contentType == "" {
		method, contentType = http.MethodPost, "application/json"
	}
	var got map[string]any
	s.do(t, method, path, body, "Content-Type", contentType).into(t, &got)
	return got
}

// at is the value of a field, and what JSON has for it: nothing where it is not set.
func at(t *testing.T, object map[string]any, path ...string) string {
	t.Helper()
	var value any = object
	for _, name := range path {
		fields, _ := value.(map[string]any)
		child, ok := fields[name]
		if !ok {
			return ""
		}
		value = child
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// testNoTaints proves that "no taints" and "the default taint" stay apart, whatever a client
// says it with, also in what is stored.
func testNoTaints(t *testing.T, s *testServer) {
	const pools = groupPath + "/namespaces/taints/windowsnodepools"
	body := func(name, template string) string {
		return fmt.Sprintf(`{"apiVersion":"windows.openshift.io/v1alpha1","kind":"WindowsNodePool","metadata":{"name":%q},"spec":{"source":{"instances":{}},"template":{%s}}}`, name, template)
	}
	const (
		two  = `[{"effect":"PreferNoSchedule","key":"os","value":"Windows"},{"effect":"NoSchedule","key":"os","value":"Windows"}]`
		one  = `[{"effect":"NoSchedule","key":"a"}]`
		none = `[]`
	)
	type step struct{ contentType, template, want string }
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"created without", []step{{"", ``, ""}}},
		{"created with null", []step{{"", `"nodeTaints":null`, ""}}},
		{"created with none", []step{{"", `"nodeTaints":[]`, none}}},
		{"created with two of one key", []step{{"", `"nodeTaints":` + two, two}}},
		{"merged", []step{
			{"", ``, ""}, {mergePatch, `"nodeTaints":[]`, none}, {mergePatch, `"nodeTaints":` + two, two},
			{mergePatch, `"nodeTaints":[]`, none}, {mergePatch, `"nodeTaints":null`, ""},
		}},
		{"patched strategically", []step{
			{"", ``, ""}, {strategicPatch, `"nodeTaints":[]`, none}, {strategicPatch, `"nodeTaints":` + one, one},
			{strategicPatch, `"nodeTaints":` + two, two}, {strategicPatch, `"nodeTaints":null`, ""},
		}},
		{"applied", []step{
			{applyPatch, ``, ""}, {applyPatch, `"nodeTaints":[]`, none}, {applyPatch, `"nodeTaints":` + two, two}, {applyPatch, `"nodeTaints":` + one, one},
			{applyPatch, `"nodeTaints":[]`, none}, {applyPatch, `"nodeTaints":[]`, none}, {applyPatch, ``, ""},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name, before, generation := "p-"+fmt.Sprintf("%x", tt.name), "", float64(0)
			for n, step := range tt.steps {
				path := pools
				switch step.contentType {
				case "":
				case applyPatch:
					path += "/" + name + "?fieldManager=test"
				default:
					path += "/" + name
				}
				changed := s.change(t, step.contentType, path, body(name, step.template))
				var stored map[string]any
				s.do(t, http.MethodGet, pools+"/"+name, "").into(t, &stored)
				for what, object := range map[string]map[string]any{"answered": changed, "stored": stored} {
					if got := at(t, object, "spec", "template", "nodeTaints"); got != step.want {
						t.Errorf("step %d: %s %q, want %q", n, what, got, step.want)
					}
				}
				// The controllers see a change by the generation.
				got := stored["metadata"].(map[string]any)["generation"].(float64)
				if (got != generation) != (n == 0 || step.want != before) {
					t.Errorf("step %d: generation %v after %v", n, got, generation)
				}
				before, generation = step.want, got
			}
		})
	}
}

// testOperationIsWhole proves that an operation has one manager and not one for each field of each step, of which each write would
// cost several times as much.
func testOperationIsWhole(t *testing.T, s *testServer) {
	client := s.client(t, controller).WindowsInstances("whole")
	instance := mustKnow(t, client, newInstance("whole", "10.0.7.1"))
	instance.Status.Operation = &v1alpha1.Operation{
		ID: "op-1", Type: v1alpha1.OperationDrain, Phase: v1alpha1.OperationRunning, RequestedAt: metav1.Now(), RequestedBy: jane,
		Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepConnect, State: v1alpha1.StepSucceeded}, {Name: v1alpha1.StepDrain, State: v1alpha1.StepRunning}},
	}
	written, err := client.UpdateStatus(t.Context(), instance, metav1.UpdateOptions{FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range written.ManagedFields {
		if entry.Manager != "test" || entry.Subresource != "status" {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			t.Fatal(err)
		}
		if got := at(t, fields, "f:status", "f:operation"); got != "{}" {
			t.Errorf("it manages %s of the operation, want {}: %s", got, entry.FieldsV1.GetRawBytes())
		}
		return
	}
	t.Errorf("nobody manages the operation: %v", written.ManagedFields)
}

// testDurations proves that what manifests say with the fields of earlier releases is taken
// over by those that replace them, and that the latter win as soon as a manifest has them.
func testDurations(t *testing.T, s *testServer) {
	type step struct{ contentType, fields, want string }
	for _, tt := range []struct {
		name, kind, resource, spec string
		deprecated, field          []string
		steps                      []step
	}{
		{
			"created", "WindowsInstance", "windowsinstances", `"address":"10.0.0.1","removal":{%s}`, []string{"spec", "removal", "after"}, []string{"spec", "removal", "afterSeconds"},
			[]step{{"", `"after":"5m"`, "300"}, {mergePatch, `"after":"1m0.5s"`, "61"}, {mergePatch, `"afterSeconds":7`, "7"}, {mergePatch, `"policy":"Clean"`, "7"}, {mergePatch, `"afterSeconds":null`, ""}},
		},
		{
			"applied", "WindowsInstance", "windowsinstances", `"address":"10.0.0.1","removal":{%s}`, []string{"spec", "removal", "after"}, []string{"spec", "removal", "afterSeconds"},
			[]step{{applyPatch, `"after":"5m"`, "300"}, {applyPatch, `"after":"5m"`, "300"}, {applyPatch, `"after":"10m"`, "600"}, {applyPatch, `"afterSeconds":7`, "7"}, {applyPatch, ``, ""}},
		},
		{
			"of a pool", "WindowsNodePool", "windowsnodepools", `"source":{"instances":{}},"template":{"logRotation":{%s}}`, []string{"spec", "template", "logRotation", "maxAge"}, []string{"spec", "template", "logRotation", "maxAgeSeconds"},
			[]step{{"", `"maxAge":"72h"`, "259200"}, {strategicPatch, `"maxAge":"0s"`, "0"}, {applyPatch, `"maxAge":"1h"`, "3600"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := fmt.Sprintf("d-%x", tt.name)
			collection := groupPath + "/namespaces/durations/" + tt.resource
			for n, step := range tt.steps {
				path := collection
				switch step.contentType {
				case "":
				case applyPatch:
					path += "/" + name + "?fieldManager=test&force=true"
				default:
					path += "/" + name
				}
				s.change(t, step.contentType, path, fmt.Sprintf(`{"apiVersion":"windows.openshift.io/v1alpha1","kind":%q,"metadata":{"name":%q},"spec":{%s}}`, tt.kind, name, fmt.Sprintf(tt.spec, step.fields)))
				var stored map[string]any
				s.do(t, http.MethodGet, collection+"/"+name, "").into(t, &stored)
				want := []string{"", step.want}
				if diff := cmp.Diff(want, []string{at(t, stored, tt.deprecated...), at(t, stored, tt.field...)}); diff != "" {
					t.Errorf("step %d: deprecated field and field (-want +got):\n%s", n, diff)
				}
			}
		})
	}
}
