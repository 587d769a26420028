// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestSecretChanged: a pool that names another Secret has it looked at, as nothing of its instances changes by that; other changes do not.
func TestSecretChanged(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.WindowsNodePool)
		want   bool
	}{
		"another Secret": {func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.CredentialsSecretRef.Name = "edge-key" }, true},
		"none":           {func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.CredentialsSecretRef = nil }, true},
		"a bastion":      {func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.Bastion = &v1alpha1.Bastion{} }, true},
		"paused":         {func(p *v1alpha1.WindowsNodePool) { p.Spec.Paused = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.WindowsNodePool{}
			before.Spec.Template.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "login"}
			after := before.DeepCopy()
			tt.change(after)
			if got := secretChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
