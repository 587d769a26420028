// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
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
	gone := []v1alpha1.OperationStep{{Name: v1alpha1.StepDeleteNode, State: v1alpha1.StepSucceeded}}
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
		{"an entry is removed", fromEntry, nil, v1alpha1.Operation{Type: v1alpha1.OperationRemove, Phase: succeeded, Steps: gone}, []string{"Normal InstanceTeardown ConfigMap windows-hosts/windows-instances"}},
		{"another namespace", "ConfigMap elsewhere/windows-instances, entry 10.1.42.1", nil, v1alpha1.Operation{Type: v1alpha1.OperationRemove, Phase: succeeded, Steps: gone}, nil},
		{"by hand", "", nil, v1alpha1.Operation{Type: reconfigure, Phase: succeeded, HostChanged: true}, []string{"Normal InstanceSetup Node /win-1"}},
		{"a Machine is configured", "Machine windows-hosts/m", ofMachine, v1alpha1.Operation{Type: reconfigure, Phase: succeeded, HostChanged: true}, []string{"Normal MachineSetup Machine windows-hosts/m uid-m", "Normal MachineSetup Node /win-1"}},
		{"a Machine is not configured", "Machine windows-hosts/m", ofMachine, v1alpha1.Operation{Type: reconfigure, Phase: failed}, []string{"Warning MachineSetupFailure Machine windows-hosts/m uid-m", "Warning MachineSetupFailure Node /win-1"}},
		{"the host of a Machine is removed", "Machine windows-hosts/m", ofMachine, v1alpha1.Operation{Type: v1alpha1.OperationRemove, Phase: succeeded}, nil},
		{"it is taken over", fromEntry, nil, v1alpha1.Operation{Type: v1alpha1.OperationAdopt, Phase: succeeded, HostChanged: true}, []string{"Normal InstanceSetup ConfigMap windows-hosts/windows-instances", "Normal InstanceSetup Node /win-1"}},
		{"it was taken over before", fromEntry, nil, v1alpha1.Operation{Type: v1alpha1.OperationAdopt, Phase: succeeded}, nil},
		{"it is not taken over", "Machine windows-hosts/m", ofMachine, v1alpha1.Operation{Type: v1alpha1.OperationAdopt, Phase: failed}, []string{"Warning MachineSetupFailure Machine windows-hosts/m uid-m", "Warning MachineSetupFailure Node /win-1"}},
		{"it is given back to WMCO", "Machine windows-hosts/m", ofMachine, v1alpha1.Operation{Type: v1alpha1.OperationRelease, Phase: succeeded}, nil},
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

// TestOthersAreTold: what happens to a host is told with our reasons and those of WMCO, from its begin to its end, on the Machine that it comes from and on its Node as well.
func TestOthersAreTold(t *testing.T) {
	t.Parallel()
	// everywhere: on all three.
	everywhere := func(reason string) []string {
		return []string{"WindowsInstance " + reason, "Machine " + reason, "Node " + reason}
	}
	for name, tt := range map[string]struct {
		operation v1alpha1.OperationType
		set       func(*fixture)
		want      []string
	}{
		"configured": {
			operation: v1alpha1.OperationReconfigure, set: func(f *fixture) { f.host.impact, f.host.needsReboot = config.ImpactReboot, 1 },
			want: slices.Concat(everywhere("ReconfigureStarted"), everywhere("Cordoned"), everywhere("Drained"), everywhere("HostConfigured"), everywhere("HostRestarting"),
				everywhere("HostRestarted"), everywhere("Uncordoned"), everywhere("ReconfigureSucceeded"), []string{"Machine MachineSetup", "Node MachineSetup"}),
		},
		"not configured": {
			operation: v1alpha1.OperationReconfigure, set: func(f *fixture) { f.failWith("Plan", errors.New("no")) },
			want: slices.Concat(everywhere("ReconfigureStarted"), everywhere("ReconfigureFailed"), []string{"Machine MachineSetupFailure", "Node MachineSetupFailure"}),
		},
		"released": {operation: v1alpha1.OperationRelease, want: slices.Concat(everywhere("ReleaseStarted"), everywhere("Released"), everywhere("ReleaseSucceeded"))},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := releasing(t, func(i *v1alpha1.WindowsInstance) { i.Status.Operation.Type = tt.operation })
			if tt.set != nil {
				tt.set(f)
			}
			f.finish() // and the process has ended
			if diff := cmp.Diff(tt.want, f.told); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestUncordonedIsTold: that a Node is uncordoned is told where a cordon was taken away, and not of one that was never cordoned or that stays so.
func TestUncordonedIsTold(t *testing.T) {
	t.Parallel()
	ours := func(kind string) func(*fixture) { return func(f *fixture) { f.cordonAs("op-0 " + kind) } }
	restarts := func(f *fixture) { f.host.impact = config.ImpactRestart }
	for name, tt := range map[string]struct {
		operation v1alpha1.Operation
		set       func(*fixture)
		want      bool
		cordoned  bool
	}{
		"a change without a drain":                    {reconfigureOperation(), restarts, false, false},
		"one after another that failed":               {reconfigureOperation(), func(f *fixture) { restarts(f); ours("Reconfigure")(f) }, true, false},
		"one on a Node that people cordoned":          {reconfigureOperation(), func(f *fixture) { restarts(f); f.cordonByHand() }, false, true},
		"a change with a drain":                       {reconfigureOperation(), func(f *fixture) { f.host.impact = config.ImpactDrain }, true, false},
		"a restart":                                   {rebootOperation(v1alpha1.RebootGraceful), func(*fixture) {}, true, false},
		"a restart of a Node that people cordoned":    {rebootOperation(v1alpha1.RebootGraceful), (*fixture).cordonByHand, false, true},
		"a Node that people cordoned, by request":     {v1alpha1.Operation{Type: v1alpha1.OperationUncordon}, (*fixture).cordonByHand, true, false},
		"a Node that is schedulable, by request":      {v1alpha1.Operation{Type: v1alpha1.OperationUncordon}, func(*fixture) {}, false, false},
		"a Node that was left by a restart, unasked":  {v1alpha1.Operation{Type: v1alpha1.OperationUncordon, Cause: v1alpha1.CauseCameBack}, ours("Reboot"), true, false},
		"a Node that was uncordoned by hand, unasked": {v1alpha1.Operation{Type: v1alpha1.OperationUncordon, Cause: v1alpha1.CauseCameBack}, func(*fixture) {}, false, false},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(tt.operation))
			f.configure()
			tt.set(f)
			op := f.finish()
			if got := slices.Contains(f.told, "Node Uncordoned"); op.Phase != v1alpha1.OperationSucceeded || got != tt.want || f.node().Spec.Unschedulable != tt.cordoned {
				t.Errorf("it is %s, told: %v, want %v; the Node is %+v: %s", op.Phase, got, tt.want, f.node().Spec, op.Message)
			}
		})
	}
}
