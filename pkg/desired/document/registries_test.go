// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document_test

import (
	"encoding/base64"
	"fmt"
	"slices"
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
		{name: "Docker Hub has its registry elsewhere", digests: []configv1.ImageDigestMirrors{digests("docker.io/library", "", "b.io/x/library")}, credentials: map[string]string{"https://index.docker.io/v1/": "u:p"},
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
			r := document.RegistriesOf(&document.Cluster{ImageDigestMirrors: tt.digests, ImageTagMirrors: tt.tags, PullSecret: document.NewPullSecret(tt.credentials)})
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

// TestMirrorElsewhere: containerd appends the path that images have at their source to the location of a mirror, so only
// a mirror whose path ends with that of the source is asked for what Linux asks it for.
func TestMirrorElsewhere(t *testing.T) {
	for _, tt := range []struct{ source, mirror, host, elsewhere string }{
		{"quay.example.com/team", "registry.example.com/first", "registry.example.com/first", "registry.example.com/first/team"},
		{"quay.example.com/team", "registry.example.com", "registry.example.com", "registry.example.com/team"},
		{"quay.example.com/team/img", "registry.example.com/first/img", "registry.example.com/first", "registry.example.com/first/team/img"},
		{"quay.example.com/team/img", "registry.example.com:5000/team/other", "registry.example.com:5000/team/other", "registry.example.com:5000/team/other/team/img"},
		{"quay.example.com/team", "registry.example.com/first/team", "registry.example.com/first", ""},
		{"quay.example.com/team", "registry.example.com/team", "registry.example.com", ""},
		{"docker://quay.example.com/team", "registry.example.com/first/team", "registry.example.com/first", ""},
		// All of a registry: what is appended is not part of the source.
		{"quay.example.com", "registry.example.com/first", "registry.example.com/first", ""},
		{"quay.example.com", "registry.example.com", "registry.example.com", ""},
		// A path that begins with the name of a registry is a path.
		{"quay.example.com", "registry.example.com/quay.example.com", "registry.example.com/quay.example.com", ""},
		{"quay.example.com/team", "registry.example.com/quay.example.com/team", "registry.example.com/quay.example.com", ""},
		// What is left out is no mirror, and something else says so.
		{"*.example.com", "registry.example.com/first", "registry.example.com/first", ""},
		{"quay.example.com/team", "registry.example.com/fi rst", "registry.example.com/fi rst", ""},
	} {
		m := document.Mirror{Source: tt.source, Location: tt.mirror}
		if host, elsewhere := m.Host(), m.Elsewhere(); host != tt.host || elsewhere != tt.elsewhere {
			t.Errorf("%s of %s: got %q and %q, want %q and %q", tt.mirror, tt.source, host, elsewhere, tt.host, tt.elsewhere)
		}
	}
}

// Lines of files, as keys returns them.
const (
	verified   = "server = \"https://%s/v2\""
	unverified = "server = \"http://%s/v2\"\nskip_verify = true"
	nothing    = "server = \"https://%s/v2\"\ncapabilities = [\"push\"]"
	byDigest   = "\n[host.\"https://%s/v2\"]\ncapabilities = [\"pull\"]"
	byTag      = "\n[host.\"https://%s/v2\"]\ncapabilities = [\"pull\", \"resolve\"]"
	mirrorOnly = "server = \"https://%s/v2\"\ncapabilities = [\"pull\"]" + byDigest
)

// TestRegistrySources: what the Image config says about registries holds on hosts as far as containerd can be told,
// and it is said where it does not.
func TestRegistrySources(t *testing.T) {
	f := fmt.Sprintf
	others := f(nothing, "registry.invalid")
	const pause = "mcr.microsoft.com"
	tests := []struct {
		name    string
		sources configv1.RegistrySources
		digests []configv1.ImageDigestMirrors
		tags    []configv1.ImageTagMirrors
		pause   string
		want    map[string]string // by directory
		says    []string          // parts of the warnings
	}{
		{name: "insecure registries", sources: configv1.RegistrySources{InsecureRegistries: []string{"a.io", "b.io:5000", "docker.io"}},
			want: map[string]string{"a.io": f(unverified, "a.io"), "b.io_5000_": f(unverified, "b.io:5000"), "docker.io": f(unverified, "registry-1.docker.io")}},
		{name: "a port is another registry", sources: configv1.RegistrySources{InsecureRegistries: []string{"a.io"}}, digests: []configv1.ImageDigestMirrors{digests("a.io:5000/x", "", "b.io/x")},
			want: map[string]string{"a.io": f(unverified, "a.io"), "a.io_5000_": f(verified+byDigest, "a.io:5000", "b.io")}},
		{name: "an insecure mirror", sources: configv1.RegistrySources{InsecureRegistries: []string{"b.io"}}, digests: []configv1.ImageDigestMirrors{digests("a.io/x", "", "b.io/x", "c.io/x")},
			want: map[string]string{"a.io": f(verified+"\n[host.\"http://b.io/v2\"]\ncapabilities = [\"pull\"]\nskip_verify = true"+byDigest, "a.io", "c.io"), "b.io": f(unverified, "b.io")}},
		{name: "an insecure mirror alone", sources: configv1.RegistrySources{InsecureRegistries: []string{"b.io"}}, tags: []configv1.ImageTagMirrors{tags("a.io/x", never, "b.io/x")},
			want: map[string]string{"a.io": "server = \"http://b.io/v2\"\nskip_verify = true\n[host.\"http://b.io/v2\"]\ncapabilities = [\"pull\", \"resolve\"]\nskip_verify = true", "b.io": f(unverified, "b.io")}},
		{name: "an insecure repository", sources: configv1.RegistrySources{InsecureRegistries: []string{"a.io/x", "b.io/x"}},
			digests: []configv1.ImageDigestMirrors{digests("a.io/x", "", "b.io/x"), digests("a.io/z", "", "b.io/x/z", "c.io/z")},
			want:    map[string]string{"a.io": f(verified+"\n[host.\"https://b.io/v2\"]\ncapabilities = [\"pull\"]\n[host.\"https://b.io/v2/x\"]\ncapabilities = [\"pull\"]"+byDigest, "a.io", "c.io")},
			says:    []string{"insecureRegistries of the Image config: a.io/x, b.io/x does not hold on Windows hosts"}},
		{name: "mirrors that are one entry are insecure together", sources: configv1.RegistrySources{InsecureRegistries: []string{"b.io/x"}},
			digests: []configv1.ImageDigestMirrors{digests("a.io/x", "", "b.io/x"), digests("a.io/y", "", "b.io/y"), digests("a.io/x/z", "", "b.io/x/z")},
			want:    map[string]string{"a.io": f(verified+byDigest, "a.io", "b.io")}, says: []string{"b.io/x"}},
		{name: "insecure as a whole and in part", sources: configv1.RegistrySources{InsecureRegistries: []string{"a.io", "a.io/x"}}, want: map[string]string{"a.io": f(unverified, "a.io")}},
		{name: "an insecure domain", sources: configv1.RegistrySources{InsecureRegistries: []string{"*.corp.example.com"}, BlockedRegistries: []string{"z.io", "bad.corp.example.com"}},
			digests: []configv1.ImageDigestMirrors{digests("a.corp.example.com:5000/x", "", "b.corp.example.com/x", "corp.example.com/x")},
			want: map[string]string{
				"a.corp.example.com_5000_": "server = \"http://a.corp.example.com:5000/v2\"\nskip_verify = true\n[host.\"http://b.corp.example.com/v2\"]\ncapabilities = [\"pull\"]\nskip_verify = true" + f(byDigest, "corp.example.com"),
				"b.corp.example.com":       f(unverified, "b.corp.example.com"), "bad.corp.example.com": f(nothing, "bad.corp.example.com"), "z.io": f(nothing, "z.io"),
			},
			says: []string{"insecureRegistries of the Image config: *.corp.example.com holds on Windows hosts only for a.corp.example.com:5000, b.corp.example.com, bad.corp.example.com: "}},

		{name: "blocked registries", sources: configv1.RegistrySources{BlockedRegistries: []string{"a.io", "index.docker.io"}}, want: map[string]string{"a.io": f(nothing, "a.io"), "docker.io": f(nothing, "registry-1.docker.io")}},
		{name: "a blocked source has only its mirrors", sources: configv1.RegistrySources{BlockedRegistries: []string{"a.io"}}, digests: []configv1.ImageDigestMirrors{digests("a.io/x", allow, "b.io/x")},
			want: map[string]string{"a.io": f(mirrorOnly, "b.io", "b.io")}},
		{name: "a blocked mirror is one still", sources: configv1.RegistrySources{BlockedRegistries: []string{"b.io"}}, digests: []configv1.ImageDigestMirrors{digests("a.io/x", "", "b.io/x")},
			want: map[string]string{"a.io": f(verified+byDigest, "a.io", "b.io"), "b.io": f(nothing, "b.io")}},
		{name: "a blocked repository", sources: configv1.RegistrySources{BlockedRegistries: []string{"a.io/x"}}, want: map[string]string{},
			says: []string{"blockedRegistries of the Image config: a.io/x is not blocked on Windows hosts"}},
		{name: "a blocked repository with mirrors", sources: configv1.RegistrySources{BlockedRegistries: []string{"a.io/x"}},
			digests: []configv1.ImageDigestMirrors{digests("a.io/x/y", "", "b.io/x/y"), digests("a.io/xy", "", "b.io/xy")},
			want:    map[string]string{"a.io": f(mirrorOnly, "b.io", "b.io")},
			says:    []string{"because of a.io/x, which is mirrored, Windows hosts pull from no repository of that registry but from its mirrors", "registry a.io is never contacted because of a.io/x/y; that holds for a.io/xy too, which allows it"}},
		{name: "a source that may never be contacted, and an older set of it without a policy", digests: []configv1.ImageDigestMirrors{digests("a.io/x", configv1.NeverContactSource, "b.io/x"), digests("a.io/x", "", "b.io/x")},
			want: map[string]string{"a.io": f(mirrorOnly, "b.io", "b.io")}},
		{name: "a blocked domain", sources: configv1.RegistrySources{BlockedRegistries: []string{"*.a.io"}}, want: map[string]string{}, says: []string{"blockedRegistries of the Image config: *.a.io holds on Windows hosts for no registry: "}},
		{name: "a blocked domain with a mirror", sources: configv1.RegistrySources{BlockedRegistries: []string{"*.a.io"}}, tags: []configv1.ImageTagMirrors{tags("x.a.io", "", "b.io")},
			want: map[string]string{"x.a.io": "server = \"https://b.io/v2\"" + f(byTag, "b.io")}, says: []string{"only for x.a.io"}},

		{name: "allowed registries", sources: configv1.RegistrySources{AllowedRegistries: []string{"a.io", "b.io:5000", pause}, InsecureRegistries: []string{"b.io:5000", "c.io"}},
			digests: []configv1.ImageDigestMirrors{digests("a.io/x", "", "m.io/x"), digests("d.io/x", "", "m.io/x")},
			want:    map[string]string{"_default": others, "a.io": f(verified+byDigest, "a.io", "m.io"), "b.io_5000_": f(unverified, "b.io:5000"), pause: ""}},
		{name: "allowed and blocked", sources: configv1.RegistrySources{AllowedRegistries: []string{"a.io", pause}, BlockedRegistries: []string{"a.io"}}, want: map[string]string{"_default": others, "a.io": f(nothing, "a.io"), pause: ""}},
		{name: "an allowed repository", sources: configv1.RegistrySources{AllowedRegistries: []string{"a.io/x", pause + "/oss", pause}}, want: map[string]string{"_default": others, "a.io": "", pause: ""},
			says: []string{"allowedRegistries of the Image config: a.io/x permits its whole registry"}},
		{name: "an allowed domain", sources: configv1.RegistrySources{AllowedRegistries: []string{"*.a.io", "b.io"}}, want: map[string]string{},
			says: []string{"allowedRegistries of the Image config is not enforced on Windows hosts because of *.a.io"}},

		{name: "the pause image is not among the allowed ones", sources: configv1.RegistrySources{AllowedRegistries: []string{"a.io"}}, want: map[string]string{"_default": others, "a.io": "", pause: ""},
			says: []string{"registry mcr.microsoft.com stays permitted on Windows hosts, although"}},
		{name: "the pause image of a pool", sources: configv1.RegistrySources{AllowedRegistries: []string{"a.io"}}, pause: "a.io/pause:1", want: map[string]string{"_default": others, "a.io": ""}},
		{name: "the pause image is blocked", sources: configv1.RegistrySources{BlockedRegistries: []string{pause}}, want: map[string]string{pause: ""}, says: []string{"without the pause image mcr.microsoft.com/oss/kubernetes/pause:3.9 no pod starts"}},
		{name: "the pause image of Docker Hub is blocked", sources: configv1.RegistrySources{BlockedRegistries: []string{"docker.io"}}, pause: "team/pause:1", want: map[string]string{"docker.io": ""}, says: []string{"registry docker.io stays permitted"}},
		{name: "mirrors have the pause image by digest", sources: configv1.RegistrySources{BlockedRegistries: []string{pause}}, digests: []configv1.ImageDigestMirrors{digests(pause+"/oss", "", "b.io/oss")},
			want: map[string]string{pause: f(verified+byDigest, pause, "b.io")}, says: []string{"stays permitted"}},
		{name: "the mirror of the pause image has another path", sources: configv1.RegistrySources{BlockedRegistries: []string{pause}}, tags: []configv1.ImageTagMirrors{tags(pause+"/oss", "", "b.io/windows")},
			want: map[string]string{pause: "server = \"https://" + pause + "/v2\"\n[host.\"https://b.io/v2/windows\"]\ncapabilities = [\"pull\", \"resolve\"]"}, says: []string{"stays permitted"}},
		{name: "one mirror of the pause image has the same path", sources: configv1.RegistrySources{BlockedRegistries: []string{pause}}, tags: []configv1.ImageTagMirrors{tags(pause+"/oss", "", "b.io/windows", "b.io/windows/oss")},
			want: map[string]string{pause: "server = \"https://b.io/v2/windows\"\n[host.\"https://b.io/v2/windows\"]\ncapabilities = [\"pull\", \"resolve\"]"}},
		{name: "its mirror set says that it is not contacted", sources: configv1.RegistrySources{BlockedRegistries: []string{pause}}, digests: []configv1.ImageDigestMirrors{digests(pause+"/oss", never, "b.io/oss")},
			want: map[string]string{pause: f(mirrorOnly, "b.io", "b.io")}},
		{name: "mirrors have the pause image", sources: configv1.RegistrySources{BlockedRegistries: []string{pause}}, tags: []configv1.ImageTagMirrors{tags(pause+"/oss", "", "b.io/oss")},
			want: map[string]string{pause: "server = \"https://b.io/v2\"" + f(byTag, "b.io")}},
		{name: "mirrors have the pause image, which is named by digest", sources: configv1.RegistrySources{BlockedRegistries: []string{pause}}, digests: []configv1.ImageDigestMirrors{digests(pause+"/oss", "", "b.io/oss")}, pause: pause + "/oss/pause@sha256:0",
			want: map[string]string{pause: f(mirrorOnly, "b.io", "b.io")}},

		{name: "one registry has one file, however it is spelled", sources: configv1.RegistrySources{InsecureRegistries: []string{"A.io", "B.io"}, BlockedRegistries: []string{"C.io", "c.io"}},
			digests: []configv1.ImageDigestMirrors{digests("a.io/x", "", "b.io/x")},
			want:    map[string]string{"a.io": f(unverified+"\n[host.\"http://b.io/v2\"]\ncapabilities = [\"pull\"]\nskip_verify = true", "a.io"), "b.io": f(unverified, "b.io"), "c.io": f(nothing, "c.io")}},
		{name: "what is no registry is left out", sources: configv1.RegistrySources{InsecureRegistries: []string{"https://a.io", "b.io"}, BlockedRegistries: []string{"*", "c*.io", "*.io/x"}, AllowedRegistries: []string{"", "d.io"}},
			want: map[string]string{"b.io": f(unverified, "b.io")},
			says: []string{"allowedRegistries of the Image config is not enforced", `allowedRegistries of the Image config: "" is left out`, `blockedRegistries of the Image config: "*" is`, `"*.io/x" is`, `"c*.io" is`, `insecureRegistries of the Image config: "https://a.io" is`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := document.RegistriesOf(&document.Cluster{ImageDigestMirrors: tt.digests, ImageTagMirrors: tt.tags, RegistrySources: tt.sources, PauseImage: tt.pause})
			got := map[string]string{}
			for _, f := range r.Files {
				if strings.HasSuffix(f.Directory, "_443_") {
					continue // TestBlockedWithPort
				}
				got[f.Directory] = keys(f.Content)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if len(r.Warnings) != len(tt.says) {
				t.Fatalf("got the warnings %q, want %q", r.Warnings, tt.says)
			}
			for i, says := range tt.says {
				if !strings.Contains(r.Warnings[i], says) {
					t.Errorf("got the warning %q, want %q", r.Warnings[i], says)
				}
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
			if _, header, found := strings.Cut(document.RegistriesOf(&document.Cluster{ImageDigestMirrors: mirror, PullSecret: p}).Files[0].Content, `"Basic `); found {
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

// FuzzRegistries: no source, no mirror and no entry of the Image config gets out of its place in the file or on the disk.
func FuzzRegistries(f *testing.F) {
	f.Add("a.io/x", "b.io/x", "a.io")
	f.Add("a.io:5000", "[::1]:5000/x", "[::1]:5000")
	f.Add(`..\..`, "b.io\"\n[x]", "*.io")
	f.Add("_default", "_default", "_default")
	f.Fuzz(func(t *testing.T, source, mirror, entry string) {
		for _, sources := range []configv1.RegistrySources{{InsecureRegistries: []string{entry}}, {BlockedRegistries: []string{entry}}, {AllowedRegistries: []string{entry}}} {
			r := document.RegistriesOf(&document.Cluster{
				ImageDigestMirrors: []configv1.ImageDigestMirrors{digests(source, never, configv1.ImageMirror(mirror))}, RegistrySources: sources,
			})
			directories := map[string]bool{}
			for _, file := range r.Files {
				mustBeInPlace(t, file)
				if directories[file.Directory] {
					t.Errorf("two files in directory %q", file.Directory)
				}
				directories[file.Directory] = true
			}
		}
	})
}

func mustBeInPlace(t *testing.T, file document.RegistryFile) {
	t.Helper()
	if strings.ContainsAny(file.Directory, `\/:*?"<>|`+"\n") || strings.Contains(file.Directory, "..") && strings.Trim(file.Directory, ".") == "" {
		t.Errorf("directory %q", file.Directory)
	}
	for line := range strings.SplitSeq(file.Content, "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "", line == "override_path = true", line == "skip_verify = true", strings.HasPrefix(line, "capabilities = ["):
		case strings.HasPrefix(line, "server = \"http"), strings.HasPrefix(line, "[host.\"http"):
			if strings.Count(line, `"`) != 2 || strings.Contains(line, `\`) || !strings.Contains(line, "://") {
				t.Errorf("line %q", line)
			}
		default:
			t.Errorf("line %q", line)
		}
	}
}

// TestBlockedWithPort: containerd looks for a registry whose port is written down in another directory. Nobody gets
// around what is blocked by that.
func TestBlockedWithPort(t *testing.T) {
	for _, tt := range []struct {
		blocked string
		want    []string
	}{
		{"a.io", []string{"a.io", "a.io_443_"}},
		{"a.io:5000", []string{"a.io_5000_"}},
		{"[2001:db8::1]", []string{"[2001db81]", "[2001db81]_443_"}},
	} {
		r := document.RegistriesOf(&document.Cluster{RegistrySources: configv1.RegistrySources{BlockedRegistries: []string{tt.blocked}}})
		var got []string
		for _, f := range r.Files {
			if strings.Contains(f.Content, `capabilities = ["push"]`) {
				got = append(got, f.Directory)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.blocked, diff)
		}
	}
}
