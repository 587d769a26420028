// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package object_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

func TestRequests(t *testing.T) {
	const written, version, reboot = v1alpha1.WrittenVersionAnnotation, wmco.VersionAnnotation, wmco.RebootRequiredAnnotation
	for name, tt := range map[string]struct {
		annotations             map[string]string
		configuration, restarts bool
	}{
		"nothing":                  {},
		"the version is not ours":  {annotations: map[string]string{version: "11.0.0"}},
		"as written":               {annotations: map[string]string{version: "v1", written: "v1"}},
		"another version":          {annotations: map[string]string{version: "v2", written: "v1"}, configuration: true},
		"cleared":                  {annotations: map[string]string{version: "", written: "v1"}, configuration: true},
		"removed":                  {annotations: map[string]string{written: "v1"}, configuration: true},
		"a restart":                {annotations: map[string]string{reboot: ""}, restarts: true},
		"a restart, with any text": {annotations: map[string]string{reboot: "false"}, restarts: true},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations}}
			if got := object.AsksForConfiguration(node); got != tt.configuration {
				t.Errorf("it asks for a configuration: %t", got)
			}
			if got := object.AsksForRestart(node); got != tt.restarts {
				t.Errorf("it asks for a restart: %t", got)
			}
		})
	}
	if object.AsksForConfiguration(nil) || object.AsksForRestart(nil) {
		t.Error("without a Node")
	}
}
