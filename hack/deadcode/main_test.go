// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// of returns a function of a package, in a file of its name.
func of(pkg, name string) function {
	return function{name: pkg + "." + name, file: pkg + "/" + name + ".go", position: pkg + "/" + name + ".go:1"}
}

func compiled(functions ...function) map[string]bool {
	files := map[string]bool{}
	for _, f := range functions {
		files[f.file] = true
	}
	return files
}

func TestCheck(t *testing.T) {
	server, agent, both := of("pkg/a", "Server"), of("pkg/a", "Agent"), of("pkg/a", "Both")
	client := of("pkg/generated/clientset", "New")
	tests := []struct {
		name    string
		linux   platform
		windows platform
		allowed []string
		want    []string
	}{
		{name: "nothing"},
		{
			name:    "reached on one platform",
			linux:   platform{compiled: compiled(server, agent), dead: []function{agent}},
			windows: platform{compiled: compiled(server, agent), dead: []function{server}},
		},
		{
			name:    "reached on none",
			linux:   platform{compiled: compiled(both), dead: []function{both}},
			windows: platform{compiled: compiled(both), dead: []function{both}},
			want:    []string{"pkg/a/Both.go:1: no program calls pkg/a.Both"},
		},
		{
			name:  "compiled on one platform only",
			linux: platform{compiled: compiled(server), dead: []function{server}},
			want:  []string{"pkg/a/Server.go:1: no program calls pkg/a.Server"},
		},
		{
			name:    "allowed",
			linux:   platform{compiled: compiled(server), dead: []function{server}},
			allowed: []string{"pkg/a.Server"},
		},
		{
			name:    "allowed and reached",
			linux:   platform{compiled: compiled(server)},
			allowed: []string{"pkg/a.Server"},
			want:    []string{"pkg/a.Server is not dead, or is gone: take it off the list of what may be dead"},
		},
		{
			name:    "packages",
			linux:   platform{packages: map[string]bool{"pkg/a": true, "pkg/b": false, "pkg/c": false, "pkg/d": false}},
			windows: platform{packages: map[string]bool{"pkg/a": false, "pkg/b": true, "pkg/c": false, "pkg/d": false}},
			allowed: []string{"pkg/d"},
			want:    []string{"pkg/c: no program has this package"},
		},
		{
			name:  "generated",
			linux: platform{compiled: compiled(client), dead: []function{client}, packages: map[string]bool{"pkg/generated/listers": false}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := check([]platform{tt.linux, tt.windows}, tt.allowed)
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseAllowed(t *testing.T) {
	got, err := parseAllowed("# comment\n\npkg/a.F why\n pkg/b because of it\n")
	if diff := cmp.Diff([]string{"pkg/a.F", "pkg/b"}, got); err != nil || diff != "" {
		t.Errorf("error %v, names (-want +got):\n%s", err, diff)
	}
	for text, want := range map[string]string{"pkg/a.F\n": "line 1: say", "pkg/a why\npkg/a why\n": "line 2: pkg/a is listed twice"} {
		if _, err := parseAllowed(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestParseDead(t *testing.T) {
	got, err := parseDead([]byte(`[{"Name":"a","Path":"`+module+`/pkg/a","Funcs":[
		{"Name":"T.F","Position":{"File":"/src/pkg/a/a.go","Line":7,"Col":6}},
		{"Name":"G","Position":{"File":"pkg/a/b.go","Line":8,"Col":6}},
		{"Name":"DeepCopy","Position":{"File":"pkg/a/zz.go","Line":9,"Col":6},"Generated":true},
		{"Name":"isA","Position":{"File":"pkg/a/a.go","Line":9,"Col":6},"Marker":true}]}]`), "/src")
	want := []function{
		{name: "pkg/a.T.F", file: "pkg/a/a.go", position: "pkg/a/a.go:7"},
		{name: "pkg/a.G", file: "pkg/a/b.go", position: "pkg/a/b.go:8"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(function{})); err != nil || diff != "" {
		t.Errorf("error %v, functions (-want +got):\n%s", err, diff)
	}
	if _, err := parseDead([]byte("no JSON"), "/src"); err == nil {
		t.Error("got no error")
	}
}
