// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package watch

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func TestPoolChanged(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*v1alpha1.WindowsNodePool)
		want bool
	}{
		"nothing":                {edit: func(*v1alpha1.WindowsNodePool) {}},
		"how far it is":          {edit: func(p *v1alpha1.WindowsNodePool) { p.Status.Replicas = 3 }},
		"its spec":               {edit: func(p *v1alpha1.WindowsNodePool) { p.Generation = 2 }, want: true},
		"it was rolled back":     {edit: func(p *v1alpha1.WindowsNodePool) { p.Status.RolledBack = &v1alpha1.PoolRollback{To: "p-1"} }, want: true},
		"it was made once again": {edit: func(p *v1alpha1.WindowsNodePool) { p.UID = "b" }, want: true},
	} {
		before := &v1alpha1.WindowsNodePool{}
		before.UID, before.Generation = "a", 1
		after := before.DeepCopy()
		tt.edit(after)
		if got := PoolChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
