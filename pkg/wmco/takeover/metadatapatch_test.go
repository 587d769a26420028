// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package takeover_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
)

func TestMetadataPatch(t *testing.T) {
	type m = map[string]string
	tests := []struct {
		name                string
		operation           takeover.PatchOperation
		labels, annotations m
		wantErr             bool
		want                string
	}{
		{name: "nothing", operation: takeover.PatchAdd, wantErr: true},
		{name: "empty maps", operation: takeover.PatchAdd, labels: m{}, annotations: m{}, wantErr: true},
		{name: "unknown operation", operation: "move", labels: m{"a": "b"}, wantErr: true},
		{name: "label", operation: takeover.PatchAdd, labels: m{"a": "b"}, want: `[{"op":"add","path":"/metadata/labels/a","value":"b"}]`},
		{name: "empty value", operation: takeover.PatchAdd, annotations: m{"reboot": ""}, want: `[{"op":"add","path":"/metadata/annotations/reboot","value":""}]`},
		{name: "sorted, labels first", operation: takeover.PatchAdd, labels: m{"b": "2", "a": "1"}, annotations: m{"c": "3"},
			want: `[{"op":"add","path":"/metadata/labels/a","value":"1"},{"op":"add","path":"/metadata/labels/b","value":"2"},{"op":"add","path":"/metadata/annotations/c","value":"3"}]`},
		{name: "slash", operation: takeover.PatchAdd, labels: m{"example.com/a": "b"}, want: `[{"op":"add","path":"/metadata/labels/example.com~1a","value":"b"}]`},
		{name: "tilde", operation: takeover.PatchAdd, annotations: m{"a~b/c~1": "d"}, want: `[{"op":"add","path":"/metadata/annotations/a~0b~1c~01","value":"d"}]`},
		{name: "remove", operation: takeover.PatchRemove, annotations: m{"a": "ignored"}, want: `[{"op":"remove","path":"/metadata/annotations/a"}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := takeover.MetadataPatch(tt.operation, tt.labels, tt.annotations)
			if string(got) != tt.want || (err != nil) != tt.wantErr {
				t.Errorf("got %s, %v, want %s, error %v", got, err, tt.want, tt.wantErr)
			}
		})
	}
}

func FuzzMetadataPatch(f *testing.F) {
	f.Add("example.com/a~b", "value")
	f.Fuzz(func(t *testing.T, key, value string) {
		patch, err := takeover.MetadataPatch(takeover.PatchAdd, nil, map[string]string{key: value})
		if err != nil {
			t.Fatal(err)
		}
		var operations []struct{ Path string }
		if err := json.Unmarshal(patch, &operations); err != nil || len(operations) != 1 {
			t.Fatalf("got %s, %v", patch, err)
		}
		element, found := strings.CutPrefix(operations[0].Path, "/metadata/annotations/")
		if !found || strings.Contains(element, "/") {
			t.Errorf("%q is no path to one annotation", operations[0].Path)
		}
	})
}
