// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package object

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

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
