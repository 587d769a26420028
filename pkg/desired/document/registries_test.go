// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

func digests(source string, policy configv1.MirrorSourcePolicy, mirrors ...configv1.ImageMirror) configv1.ImageDigestMirrors {
	return configv1.ImageDigestMirrors{Source: source, Mirrors: mirrors, MirrorSourcePolicy: policy}
}

func tags(source string, policy configv1.MirrorSourcePolicy, mirrors ...configv1.ImageMirror) configv1.ImageTagMirrors {
	return configv1.ImageTagMirrors{Source: source, Mirrors: mirrors, MirrorSourcePolicy: policy}
}

const (
	never = configv1.NeverContactSource
	allow = configv1.AllowContactingSource
)

// keys returns the lines of a file that matter: the server and what it may do, and
// the mirrors with what they may do.
func keys(content string) string {
	var lines []string
	for line := range strings.SplitSeq(content, "\n") {
		if line = strings.TrimSpace(line); line != "" && line != "override_path = true" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func TestRegistries(t *testing.T) {
	auth := func(credential string) string {
		return `authorization = "Basic ` + base64.StdEncoding.EncodeToString([]byte(credential)) + `"`
	}
	tests := []struct {
		name        string
		digests     []configv1.ImageDigestMirrors
		tags        []configv1.ImageTagMirrors
		credentials map[string]string
		want        map[string]string
		warnings    int
	}{
		{name: "none", want: map[string]string{}},
		{name: "no mirrors", digests: []configv1.ImageDigestMirrors{digests("a.io/x", allow)}, want: map[string]string{"a.io": ""}},
		{name: "no mirrors and no source", digests: []configv1.ImageDigestMirrors{digests("a.io/x", never)},
			want: map[string]string{"a.io": "server = \"https://a.io/v2\"\ncapabilities = [\"push\"]"}},
		{name: "the order is the user's", digests: []configv1.ImageDigestMirrors{digests("a.io/x", "", "z.io/x", "b.io/x")},
			want: map[string]string{"a.io": "server = \"https://a.io/v2\"\n[host.\"https://z.io/v2\"]\ncapabilities = [\"pull\"]\n[host.\"https://b.io/v2\"]\ncapabilities = [\"pull\"]"}},
		{name: "by digest before by tag, one entry for both", digests: []configv1.ImageDigestMirrors{digests("a.io/x", "", "b.io/x")}, tags: []configv1.ImageTagMirrors{tags("a.io/y", "", "c.io/y", "b.io/y")},
			want: map[string]string{"a.io": "server = \"https://a.io/v2\"\n[host.\"https://b.io/v2\"]\ncapabilities = [\"pull\", \"resolve\"]\n[host.\"https://c.io/v2\"]\ncapabilities = [\"pull\", \"resolve\"]"}},
		{name: "never wins, whatever comes first", digests: []configv1.ImageDigestMirrors{digests("a.io/x", "", "b.io/x"), digests("a.io/y", never, "b.io/y")},
			want: map[string]string{"a.io": "server = \"https://b.io/v2\"\ncapabilities = [\"pull\"]\n[host.\"https://b.io/v2\"]\ncapabilities = [\"pull\"]"}, warnings: 1},
		{name: "never wins the other way round", digests: []configv1.ImageDigestMirrors{digests("a.io/y", never, "b.io/y"), digests("a.io/x", allow, "b.io/x")},
			want: map[string]string{"a.io": "server = \"https://b.io/v2\"\ncapabilities = [\"pull\"]\n[host.\"https://b.io/v2\"]\ncapabilities = [\"pull\"]"}, warnings: 1},
		{name: "never for all warns of nothing", tags: []configv1.ImageTagMirrors{tags("a.io/x", never, "b.io/x"), tags("a.io/y", never, "b.io/y")},
			want: map[string]string{"a.io": "server = \"https://b.io/v2\"\n[host.\"https://b.io/v2\"]\ncapabilities = [\"pull\", \"resolve\"]"}},
		{name: "the fallback has the credentials of its mirror", digests: []configv1.ImageDigestMirrors{digests("a.io/x", never, "b.io/x")}, credentials: map[string]string{"b.io": "u:p"},
			want: map[string]string{"a.io": "server = \"https://b.io/v2\"\ncapabilities = [\"pull\"]\n[header]\n" + auth("u:p") + "\n[host.\"https://b.io/v2\"]\ncapabilities = [\"pull\"]\n[host.\"https://b.io/v2\".header]\n" + auth("u:p")}},
		{name: "credentials of the source", digests: []configv1.ImageDigestMirrors{digests("a.io/x", "", "b.io/x")}, credentials: map[string]string{"a.io": "u:p"},
			want: map[string]string{"a.io": "server = \"https://a.io/v2\"\n[header]\n" + auth("u:p") + "\n[host.\"https://b.io/v2\"]\ncapabilities = [\"pull\"]"}},
		{name: "credentials of a path of the mirror", digests: []configv1.ImageDigestMirrors{digests("a.io/x", "", "b.io/team/x")}, credentials: map[string]string{"b.io": "u:wide", "b.io/team": "u:narrow", "b.io/tea": "u:other"},
			want: map[string]string{"a.io": "server = \"https://a.io/v2\"\n[host.\"https://b.io/v2/team\"]\ncapabilities = [\"pull\"]\n[host.\"https://b.io/v2/team\".header]\n" + auth("u:narrow")}},
		{name: "repositories of one mirror with different credentials", digests: []configv1.ImageDigestMirrors{digests("a.io/x", "", "b.io/x"), digests("a.io/y", "", "b.io/y")}, credentials: map[string]string{"b.io": "u:wide", "b.io/x": "u:x"},
			want: map[string]string{"a.io": "server = \"https://a.io/v2\"\n[host.\"https://b.io/v2\"]\ncapabilities = [\"pull\"]\n[host.\"https://b.io/v2\".header]\n" + auth("u:wide")}},
		{name: "Docker Hub has its registry elsewhere", digests: []configv1.ImageDigestMirrors{digests("docker.io/library", "", "b.io/x")}, credentials: map[string]string{"https://index.docker.io/v1/": "u:p"},
			want: map[string]string{"docker.io": "server = \"https://registry-1.docker.io/v2\"\n[header]\n" + auth("u:p") + "\n[host.\"https://b.io/v2/x\"]\ncapabilities = [\"pull\"]"}},
		{name: "Docker Hub by another name, and as a mirror", digests: []configv1.ImageDigestMirrors{digests("index.docker.io/x", "", "docker.io/x")}, credentials: map[string]string{"docker.io": "u:p", "https://index.docker.io/v1/": "other:one", "registry-1.docker.io": "third:one"},
			want: map[string]string{"docker.io": "server = \"https://registry-1.docker.io/v2\"\n[header]\n" + auth("u:p") + "\n[host.\"https://registry-1.docker.io/v2\"]\ncapabilities = [\"pull\"]\n[host.\"https://registry-1.docker.io/v2\".header]\n" + auth("u:p")}},
		{name: "source with a port", digests: []configv1.ImageDigestMirrors{digests("a.io:5000/x", "", "b.io:443/x")},
			want: map[string]string{"a.io_5000_": "server = \"https://a.io:5000/v2\"\n[host.\"https://b.io:443/v2\"]\ncapabilities = [\"pull\"]"}},
		{name: "wildcard is left out, others stay", digests: []configv1.ImageDigestMirrors{digests("*.a.io", "", "b.io"), digests("c.io", "", "b.io")},
			want: map[string]string{"c.io": "server = \"https://c.io/v2\"\n[host.\"https://b.io/v2\"]\ncapabilities = [\"pull\"]"}, warnings: 1},
		{name: "what could be TOML or a path is left out", digests: []configv1.ImageDigestMirrors{digests("a.io\"]\nx = \"1", "", "b.io"), digests(`..\..\x`, "", "b.io"), digests("c.io", "", "b.io\"\ny", "../b.io")},
			want: map[string]string{"c.io": ""}, warnings: 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := document.RegistriesOf(tt.digests, tt.tags, document.NewPullSecret(tt.credentials))
			got := map[string]string{}
			for _, f := range r.Files {
				got[f.Directory] = keys(f.Content)
				if has := strings.Contains(f.Content, "authorization"); has != f.HasCredentials {
					t.Errorf("%s has credentials: %v, and says %v", f.Directory, has, f.HasCredentials)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if len(r.Warnings) != tt.warnings {
				t.Errorf("warnings %q, want %d", r.Warnings, tt.warnings)
			}
		})
	}
}

func TestParsePullSecret(t *testing.T) {
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	mirror := []configv1.ImageDigestMirrors{digests("a.io/x", "", "b.io/x")}
	tests := []struct {
		name, text string
		wantErr    bool
		want       string // credentials of b.io
	}{
		{name: "none", text: `{"auths":{}}`},
		{name: "base64", text: `{"auths":{"b.io":{"auth":"` + encode("u:p:q") + `"}}}`, want: "u:p:q"},
		{name: "user and password", text: `{"auths":{"b.io":{"username":"u","password":"p"}}}`, want: "u:p"},
		{name: "with a scheme and a version", text: `{"auths":{"https://b.io/v2/":{"auth":"` + encode("u:p") + `"}}}`, want: "u:p"},
		{name: "with a path", text: `{"auths":{"b.io/x":{"auth":"` + encode("u:p") + `"}}}`, want: "u:p"},
		{name: "of somebody else", text: `{"auths":{"b.io.example.com":{"auth":"` + encode("u:p") + `"}}}`},
		{name: "kept elsewhere", text: `{"auths":{"b.io":{}}}`},
		{name: "not base64", text: `{"auths":{"b.io":{"auth":"hunter2"}}}`, wantErr: true},
		{name: "no password", text: `{"auths":{"b.io":{"auth":"` + encode("hunter2") + `"}}}`, wantErr: true},
		{name: "no JSON", text: `hunter2`, wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := document.ParsePullSecret([]byte(tt.text))
			if (err != nil) != tt.wantErr {
				t.Fatalf("got error %v, want one: %v", err, tt.wantErr)
			}
			if err != nil {
				if strings.Contains(err.Error(), "hunter2") {
					t.Errorf("the error has the secret: %v", err)
				}
				return
			}
			got := ""
			if _, header, found := strings.Cut(document.RegistriesOf(mirror, nil, p).Files[0].Content, `"Basic `); found {
				decoded, err := base64.StdEncoding.DecodeString(strings.TrimRight(header, "\"\n"))
				if err != nil {
					t.Fatal(err)
				}
				got = string(decoded)
			}
			if got != tt.want {
				t.Errorf("got the credentials %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzParsePullSecret(f *testing.F) {
	f.Add([]byte(`{"auths":{"b.io":{"auth":"dTpw"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := document.ParsePullSecret(text)
		if err == nil && fmt.Sprintf("%v %+v %#v", p, p, p) != "[pull secret] [pull secret] [pull secret]" {
			t.Errorf("it prints itself")
		}
	})
}

// FuzzRegistries: no source and no mirror gets out of its place in the file or on the disk.
func FuzzRegistries(f *testing.F) {
	f.Add("a.io/x", "b.io/x")
	f.Add("a.io:5000", "[::1]:5000/x")
	f.Add(`..\..`, "b.io\"\n[x]")
	f.Fuzz(func(t *testing.T, source, mirror string) {
		r := document.RegistriesOf([]configv1.ImageDigestMirrors{digests(source, never, configv1.ImageMirror(mirror))}, nil, document.PullSecret{})
		for _, file := range r.Files {
			if strings.ContainsAny(file.Directory, `\/:*?"<>|`+"\n") || strings.Contains(file.Directory, "..") && strings.Trim(file.Directory, ".") == "" {
				t.Errorf("directory %q", file.Directory)
			}
			for line := range strings.SplitSeq(file.Content, "\n") {
				switch line = strings.TrimSpace(line); {
				case line == "", line == "override_path = true", strings.HasPrefix(line, "capabilities = ["):
				case strings.HasPrefix(line, "server = \"https://"), strings.HasPrefix(line, "[host.\"https://"):
					if strings.Count(line, `"`) != 2 || strings.Contains(line, `\`) {
						t.Errorf("line %q", line)
					}
				default:
					t.Errorf("line %q", line)
				}
			}
		}
	})
}
