// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"errors"
	"slices"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestTell: WMCO's reasons are on the objects that its users know, for what has changed a host or failed to.
func TestTell(t *testing.T) {
	t.Parallel()
	const (
		reconfigure = v1alpha1.OperationReconfigure
		succeeded   = v1alpha1.OperationSucceeded
		failed      = v1alpha1.OperationFailed
		fromEntry   = "ConfigMap windows-hosts/windows-instances, entry 10.1.42.1"
	)
	ofMachine := []metav1.OwnerReference{{APIVersion: machinev1beta1.SchemeGroupVersion.String(), Kind: "Machine", Name: "m", UID: "uid-m", Controller: new(true)}}
	for _, tt := range []struct {
		name   string
		source string
		owners []metav1.OwnerReference
		op     v1alpha1.Operation
		want   []string
	}{
		{"an entry is configured", fromEntry, nil, v1alpha1.Operation{Type: reconfigure, Phase: succeeded, HostChanged: true}, []string{"Normal InstanceSetup ConfigMap windows-hosts/windows-instances", "Normal InstanceSetup Node /win-1"}},
		{"it was as it should be", fromEntry, nil, v1alpha1.Operation{Type: reconfigure, Phase: succeeded}, nil},
		{"an entry is not configured", fromEntry, nil, v1alpha1.Operation{Type: reconfigure, Phase: failed}, []string{"Warning InstanceSetupFailure ConfigMap windows-hosts/windows-instances", "Warning InstanceSetupFailure Node /win-1"}},
		{"somebody canceled it", fromEntry, nil, v1alpha1.Operation{Type: reconfigure, Phase: v1alpha1.OperationCanceled, HostChanged: true}, nil},
		{"an entry is removed", fromEntry, nil, v1alpha1.Operation{Type: v1alpha1.OperationRemove, Phase: succeeded}, []string{"Normal InstanceTeardown ConfigMap windows-hosts/windows-instances"}},
		{"another namespace", "ConfigMap elsewhere/windows-instances, entry 10.1.42.1", nil, v1alpha1.Operation{Type: v1alpha1.OperationRemove, Phase: succeeded}, nil},
		{"by hand", "", nil, v1alpha1.Operation{Type: reconfigure, Phase: succeeded, HostChanged: true}, []string{"Normal InstanceSetup Node /win-1"}},
		{"a Machine is configured", "Machine windows-hosts/m", ofMachine, v1alpha1.Operation{Type: reconfigure, Phase: succeeded, HostChanged: true}, []string{"Normal MachineSetup Machine windows-hosts/m uid-m", "Normal MachineSetup Node /win-1"}},
		{"a Machine is not configured", "Machine windows-hosts/m", ofMachine, v1alpha1.Operation{Type: reconfigure, Phase: failed}, []string{"Warning MachineSetupFailure Machine windows-hosts/m uid-m", "Warning MachineSetupFailure Node /win-1"}},
		{"the host of a Machine is removed", "Machine windows-hosts/m", ofMachine, v1alpha1.Operation{Type: v1alpha1.OperationRemove, Phase: succeeded}, nil},
		{"it is given back to WMCO", "Machine windows-hosts/m", ofMachine, v1alpha1.Operation{Type: v1alpha1.OperationRelease, Phase: succeeded}, []string{"Normal Released WindowsInstance windows-hosts/win-1 uid", "Normal Released Node /win-1"}},
		{"it is not given back", fromEntry, nil, v1alpha1.Operation{Type: v1alpha1.OperationRelease, Phase: failed}, nil},
		{"something else", fromEntry, nil, v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: failed}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := newInstance(tt.op)
			i.Status.Operation = &tt.op
			i.Annotations, i.OwnerReferences = map[string]string{v1alpha1.SourceAnnotation: tt.source}, tt.owners
			i.Status.Operation.Node = &v1alpha1.OperationNode{Name: "win-1"}
			var got []string
			for _, e := range tell(i, i.Status.Operation) {
				text := e.eventType + " " + e.reason + " " + e.object.Kind + " " + e.object.Namespace + "/" + e.object.Name
				if e.object.UID != "" {
					text += " " + string(e.object.UID)
				}
				got = append(got, text)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestOthersAreTold: the end of an operation is told on the other objects, too.
func TestOthersAreTold(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{"Normal InstanceSetup": nil, "Warning InstanceSetupFailure": errors.New("no")} {
		inBubble(t, want, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation()))
			f.configure()
			if err != nil {
				f.failWith("Plan", err)
			}
			f.finish()
			f.waitForEvent(want)
		})
	}
}
