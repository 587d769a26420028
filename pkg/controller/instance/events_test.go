// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestToldOn: that a host cannot be set up is told on the Machine or the ConfigMap that it comes from by the reason that WMCO has for it, as long
// as it is not configured and nobody else has it. What becomes of its key is told there always, and on its Node.
func TestToldOn(t *testing.T) {
	entry := func(i *v1alpha1.WindowsInstance) {
		i.Annotations = map[string]string{v1alpha1.SourceAnnotation: "ConfigMap " + i.Namespace + "/windows-instances, entry 10.1.42.1"}
	}
	machine := func(i *v1alpha1.WindowsInstance) {
		i.OwnerReferences = []metav1.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: "m", UID: "uid", Controller: new(true)}}
	}
	with := func(condition, reason string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			i.Status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionUnknown, Reason: reason}}
		}
	}
	configured := func(i *v1alpha1.WindowsInstance) {
		i.Status.CurrentRevision, i.Status.Node = "r", &v1alpha1.NodeReference{Name: "win-1"}
	}
	for _, tt := range []struct {
		name      string
		elsewhere audience
		edits     []func(*v1alpha1.WindowsInstance)
		want      []string
	}{
		{"an entry", ofSetup, []func(*v1alpha1.WindowsInstance){entry}, []string{"ConfigMap windows-instances InstanceSetupFailure"}},
		{"a Machine", ofSetup, []func(*v1alpha1.WindowsInstance){machine}, []string{"Machine m MachineSetupFailure"}},
		{"made by hand", ofSetup, nil, nil},
		{"configured", ofSetup, []func(*v1alpha1.WindowsInstance){entry, configured}, nil},
		{"WMCO sets it up", ofSetup, []func(*v1alpha1.WindowsInstance){machine, with(v1alpha1.ConditionConfigured, v1alpha1.ReasonManagedByWMCO)}, nil},
		{"a node of others", ofSetup, []func(*v1alpha1.WindowsInstance){entry, with(v1alpha1.ConditionConfigured, v1alpha1.ReasonForeignNode)}, nil},
		{"the host of another instance", ofSetup, []func(*v1alpha1.WindowsInstance){entry, with(v1alpha1.ConditionResolved, v1alpha1.ReasonDuplicateHost)}, nil},
		{"of the instance alone", nobody, []func(*v1alpha1.WindowsInstance){entry}, nil},
		{"its key", ofHost, []func(*v1alpha1.WindowsInstance){machine, configured}, []string{"Machine m Reason", "Node win-1 Reason"}},
		{"its key before it is a node", ofHost, []func(*v1alpha1.WindowsInstance){entry}, []string{"ConfigMap windows-instances Reason"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := newInstance("win-1", "10.1.42.1")
			for _, edit := range tt.edits {
				edit(i)
			}
			var got []string
			objects, reason := toldOn(i, transition{reason: "Reason", elsewhere: tt.elsewhere})
			for _, object := range objects {
				got = append(got, object.Kind+" "+object.Name+" "+reason)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
