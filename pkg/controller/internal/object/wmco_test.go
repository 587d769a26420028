// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package object

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// TestRelease: what says that a Node is ours goes, and WMCO finds a version that is not its own. What WMCO, or
// somebody else, has written as the version stays.
func TestRelease(t *testing.T) {
	const namespace, written, desired = v1alpha1.NamespaceLabel, v1alpha1.WrittenVersionAnnotation, wmco.DesiredVersionAnnotation
	always := map[string]any{v1alpha1.ManagedTaintsAnnotation: nil, written: nil}
	with := func(more map[string]any) map[string]any {
		out := maps.Clone(always)
		maps.Copy(out, more)
		return out
	}
	ours := with(map[string]any{wmco.VersionAnnotation: "v2", desired: "v2"})
	for name, tt := range map[string]struct {
		annotations map[string]string
		listed      bool
		want        map[string]any
	}{
		"as we wrote it":                  {map[string]string{wmco.VersionAnnotation: "v1", written: "v1"}, true, ours},
		"adopted, and not updated":        {map[string]string{wmco.VersionAnnotation: "11.0.0", written: "11.0.0"}, true, ours},
		"somebody asks for configuration": {map[string]string{written: "v1"}, true, ours},
		"never written":                   {nil, true, ours},
		"WMCO has it already":             {map[string]string{wmco.VersionAnnotation: "11.0.0", written: "v1"}, true, always},
		"WMCO is configuring it":          {map[string]string{desired: "11.0.0", written: "v1"}, true, always},
		"it was to be configured by us":   {map[string]string{desired: "v2", written: "v1"}, true, ours},
		"and by an earlier release":       {map[string]string{desired: "v1", written: "v1"}, true, ours},
		"adopted, and nothing written":    {map[string]string{wmco.VersionAnnotation: "11.0.0", desired: "11.0.0", written: "11.0.0"}, true, ours},
		"a Machine":                       {map[string]string{wmco.VersionAnnotation: "v1", written: "v1"}, false, ours},
	} {
		t.Run(name, func(t *testing.T) {
			labels, annotations := Release(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations}}, "v2", tt.listed)
			wantLabels := map[string]any{namespace: nil, wmco.BYOHLabel: nil}
			if tt.listed {
				wantLabels[wmco.BYOHLabel] = "true"
			}
			if diff := cmp.Diff(wantLabels, labels); diff != "" {
				t.Errorf("labels (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, annotations); diff != "" {
				t.Errorf("annotations (-want +got)\n%s", diff)
			}
		})
	}
}

// TestReleaseWhileWMCOUpgrades: what WMCO is about to write is left to it.
func TestReleaseWhileWMCOUpgrades(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{wmco.UpgradingLabel: "true"}, Annotations: map[string]string{wmco.VersionAnnotation: "v1", v1alpha1.WrittenVersionAnnotation: "v1"},
	}}
	_, annotations := Release(node, "v2", true)
	if diff := cmp.Diff(map[string]any{v1alpha1.ManagedTaintsAnnotation: nil, v1alpha1.WrittenVersionAnnotation: nil}, annotations); diff != "" {
		t.Errorf("annotations (-want +got)\n%s", diff)
	}
}

func TestMadeByWMCO(t *testing.T) {
	version := map[string]string{wmco.VersionAnnotation: "11.0.0"}
	for name, tt := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"no Node":          {nil, false},
		"of somebody else": {&corev1.Node{}, false},
		"being configured": {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{wmco.VersionAnnotation: ""}}}, false},
		"of WMCO":          {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: version}}, true},
		"of this operator": {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: version, Labels: map[string]string{v1alpha1.NamespaceLabel: "windows"}}}, false},
	} {
		if got := MadeByWMCO(tt.node); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
