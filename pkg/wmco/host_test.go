// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco_test

import (
	"encoding/json"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

func TestMetadataPatch(t *testing.T) {
	type m = map[string]string
	tests := []struct {
		name                string
		operation           wmco.PatchOperation
		labels, annotations m
		wantErr             bool
		want                string
	}{
		{name: "nothing", operation: wmco.PatchAdd, wantErr: true},
		{name: "empty maps", operation: wmco.PatchAdd, labels: m{}, annotations: m{}, wantErr: true},
		{name: "unknown operation", operation: "move", labels: m{"a": "b"}, wantErr: true},
		{name: "label", operation: wmco.PatchAdd, labels: m{"a": "b"}, want: `[{"op":"add","path":"/metadata/labels/a","value":"b"}]`},
		{name: "empty value", operation: wmco.PatchAdd, annotations: m{"reboot": ""}, want: `[{"op":"add","path":"/metadata/annotations/reboot","value":""}]`},
		{name: "sorted, labels first", operation: wmco.PatchAdd, labels: m{"b": "2", "a": "1"}, annotations: m{"c": "3"},
			want: `[{"op":"add","path":"/metadata/labels/a","value":"1"},{"op":"add","path":"/metadata/labels/b","value":"2"},{"op":"add","path":"/metadata/annotations/c","value":"3"}]`},
		{name: "slash", operation: wmco.PatchAdd, labels: m{"example.com/a": "b"}, want: `[{"op":"add","path":"/metadata/labels/example.com~1a","value":"b"}]`},
		{name: "tilde", operation: wmco.PatchAdd, annotations: m{"a~b/c~1": "d"}, want: `[{"op":"add","path":"/metadata/annotations/a~0b~1c~01","value":"d"}]`},
		{name: "remove", operation: wmco.PatchRemove, annotations: m{"a": "ignored"}, want: `[{"op":"remove","path":"/metadata/annotations/a"}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := wmco.MetadataPatch(tt.operation, tt.labels, tt.annotations)
			if string(got) != tt.want || (err != nil) != tt.wantErr {
				t.Errorf("got %s, %v, want %s, error %v", got, err, tt.want, tt.wantErr)
			}
		})
	}
}

func TestParseSHA256Sums(t *testing.T) {
	tests := []struct {
		name, text string
		wantErr    bool
		want       map[string]string
	}{
		{name: "empty", want: map[string]string{}},
		{name: "one", text: "abc  /build/kubelet.exe\n", want: map[string]string{"kubelet.exe": "abc"}},
		{name: "without a line end", text: "abc  kubelet.exe", want: map[string]string{"kubelet.exe": "abc"}},
		{name: "empty lines and lines of Windows", text: "\r\nabc  a/kubelet.exe\r\n\r\ndef  b/kube-proxy.exe\r\n", want: map[string]string{"kubelet.exe": "abc", "kube-proxy.exe": "def"}},
		{name: "a name with spaces", text: "abc  my file  2", want: map[string]string{"my file  2": "abc"}},
		{name: "one space", text: "abc kubelet.exe\n", wantErr: true},
		{name: "no file", text: "abc  \n", wantErr: true},
		{name: "no digest", text: "  kubelet.exe\n", wantErr: true},
		{name: "twice", text: "abc  a/kubelet.exe\ndef  b/kubelet.exe\n", wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := wmco.ParseSHA256Sums(tt.text)
			if (err != nil) != tt.wantErr {
				t.Fatalf("got error %v, want one: %v", err, tt.wantErr)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("digests (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzParseSHA256Sums: each name that is read is one element of a path, with a digest.
func FuzzParseSHA256Sums(f *testing.F) {
	f.Add("abc  /build/kubelet.exe\ndef  kube-proxy.exe\r\n")
	f.Add("abc   x")
	f.Fuzz(func(t *testing.T, text string) {
		sums, err := wmco.ParseSHA256Sums(text)
		if err != nil {
			return
		}
		for name, sum := range sums {
			if name == "" || sum == "" || name != path.Base(name) || strings.Contains(sum, "\n") {
				t.Errorf("read %q for %q", sum, name)
			}
		}
	})
}

func FuzzMetadataPatch(f *testing.F) {
	f.Add("example.com/a~b", "value")
	f.Fuzz(func(t *testing.T, key, value string) {
		patch, err := wmco.MetadataPatch(wmco.PatchAdd, nil, map[string]string{key: value})
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

func TestPayloadFiles(t *testing.T) {
	everywhere := wmco.PayloadFiles(configv1.NonePlatformType)
	for platform, want := range map[configv1.PlatformType]string{
		configv1.AWSPlatformType:     `C:\k\ecr-credential-provider.exe`,
		configv1.AzurePlatformType:   `C:\k\azure-cloud-node-manager.exe`,
		configv1.VSpherePlatformType: "",
	} {
		var extra []string
		for _, f := range wmco.PayloadFiles(platform) {
			if !strings.Contains(path.Base(f.Source), ".") {
				t.Errorf("%s: %s is no file", platform, f.Source)
			}
			known := false
			for _, other := range everywhere {
				known = known || f == other
			}
			if !known {
				extra = append(extra, f.Path())
			}
		}
		if got := strings.Join(extra, " "); got != want {
			t.Errorf("%s: got the extra files %q, want %q", platform, got, want)
		}
	}
}

func TestSplitPath(t *testing.T) {
	for _, tt := range []struct{ path, directory, file string }{
		{"", "", ""},
		{"test.yml", "", "test.yml"},
		{`C:\k\test.yml`, `C:\k\`, "test.yml"},
		{`C:\k\`, `C:\k\`, ""},
		{"a/b", "", "a/b"},
	} {
		if directory, file := wmco.SplitPath(tt.path); directory != tt.directory || file != tt.file {
			t.Errorf("SplitPath(%q) = %q, %q, want %q, %q", tt.path, directory, file, tt.directory, tt.file)
		}
	}
}

func TestServicesToRemove(t *testing.T) {
	got := wmco.ServicesToRemove([]string{"a", "b"}, []string{"b", "c"})
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}
