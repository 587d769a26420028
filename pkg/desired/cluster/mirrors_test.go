// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// TestMirrorsElsewhere: the mirrors in which hosts do not look for what other nodes find there are named, with where hosts look and the
// sets that they are of, in one warning.
func TestMirrorsElsewhere(t *testing.T) {
	const because = ", because containerd appends their whole path to a mirror: copy the images there, and name that as their mirror: oc edit "
	tests := []struct {
		name    string
		source  string
		mirrors []configv1.ImageMirror
		want    string // of images, by hosts; empty: no warning
	}{
		{name: "the same path", source: "quay.example.com/team", mirrors: []configv1.ImageMirror{"registry.example.com/team", "registry.example.com/first/team"}},
		{name: "a registry", source: "quay.example.com", mirrors: []configv1.ImageMirror{"registry.example.com/first"}},
		{
			name: "another path", source: "quay.example.com/team", mirrors: []configv1.ImageMirror{"registry.example.com/team", "registry.example.com/first"},
			want: "of quay.example.com/team in registry.example.com/first/team (not in registry.example.com/first)",
		},
		{
			name: "several of them", source: "a.io/x", mirrors: []configv1.ImageMirror{"b.io", "c.io", "d.io", "e.io"},
			want: "of a.io/x in b.io/x (not in b.io), of a.io/x in c.io/x (not in c.io), of a.io/x in d.io/x (not in d.io), of a.io/x in e.io/x (not in e.io)",
		},
		{name: "images of OpenShift itself", source: "quay.io/openshift-release-dev/ocp-v4.0-art-dev", mirrors: []configv1.ImageMirror{"registry.example.com/ocp4/openshift4"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			digests := &configv1.ImageDigestMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
			digests.Spec.ImageDigestMirrors = []configv1.ImageDigestMirrors{{Source: tt.source, Mirrors: tt.mirrors, MirrorSourcePolicy: configv1.NeverContactSource}}
			tags := &configv1.ImageTagMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "two"}}
			tags.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: tt.source, Mirrors: tt.mirrors, MirrorSourcePolicy: configv1.NeverContactSource}}
			got := build(t, read(t, settings(), append(openShiftCluster(), digests, tags)), cluster.Host{Instance: instance()}).Warnings
			got = slices.DeleteFunc(got, func(w string) bool { return !strings.Contains(w, "look for images") })
			want := []string{}
			if tt.want != "" {
				want = []string{"Windows hosts look for images " + tt.want + because + "imagedigestmirrorset/one imagetagmirrorset/two"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestImageContentSourcePolicies: hosts have the mirrors of the older kind as those of an ImageDigestMirrorSet without a policy, as
// workers do, beside those of sets.
func TestImageContentSourcePolicies(t *testing.T) {
	set := &configv1.ImageDigestMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "z"}}
	set.Spec.ImageDigestMirrors = []configv1.ImageDigestMirrors{{Source: "old.example.com/team", Mirrors: []configv1.ImageMirror{"mirror.example.com/team", "registry.example.com/first"}}}
	policy := &operatorv1alpha1.ImageContentSourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: "z"}}
	policy.Spec.RepositoryDigestMirrors = []operatorv1alpha1.RepositoryDigestMirrors{{Source: "old.example.com/team", Mirrors: []string{"mirror.example.com/team", "registry.example.com/first"}}}
	of := func(object client.Object) *document.Result {
		return build(t, read(t, settings(), append(openShiftCluster(), object)), cluster.Host{Instance: instance()})
	}
	want, got := of(set), of(policy)
	if want.Revision != got.Revision {
		t.Errorf("mirrors (-of a set +of a policy):\n%s", cmp.Diff(want.Bundle.Document.Files, got.Bundle.Document.Files))
	}
	if none := build(t, read(t, settings(), openShiftCluster()), cluster.Host{Instance: instance()}); none.Revision == got.Revision {
		t.Error("hosts have no mirrors of the policy")
	}
	if !slices.ContainsFunc(got.Warnings, func(w string) bool { return strings.HasSuffix(w, ": oc edit imagecontentsourcepolicy/z") }) {
		t.Errorf("warnings: %q", got.Warnings)
	}
}

// TestManyMirrorsElsewhere: that not all sets are named is said.
func TestManyMirrorsElsewhere(t *testing.T) {
	objects := openShiftCluster()
	for n := range 12 {
		tags := &configv1.ImageTagMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("set-%02d", n)}}
		tags.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: fmt.Sprintf("a.io/%d", n), Mirrors: []configv1.ImageMirror{"b.io/other"}}}
		objects = append(objects, tags)
	}
	warnings := build(t, read(t, settings(), objects), cluster.Host{Instance: instance()}).Warnings
	if !slices.ContainsFunc(warnings, func(w string) bool {
		return strings.HasSuffix(w, " imagetagmirrorset/set-09 (10 of 12 sets)") && strings.Contains(w, "and 2 more")
	}) {
		t.Errorf("warnings: %q", warnings)
	}
}
