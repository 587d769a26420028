// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"maps"
	"slices"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/wmcostandin"
)

// wouldDo is what a WMCO that runs at this moment would do about the host. machine: it is that of a Machine.
func (f *fixture) wouldDo(machine bool) []wmcostandin.Deed {
	f.t.Helper()
	node := f.node()
	node.Labels[corev1.LabelOSStable] = "windows"
	s := &wmcostandin.State{Version: "11.0.0", KeyHash: "01eba3acce87064dc39d873ab90266348ba3ce68b2bcfb915f8ec5f9b4fa17df", Nodes: []corev1.Node{*node}, Entries: map[string]string{}}
	list, err := f.kube.CoreV1().ConfigMaps(wmco.Namespace).Get(f.t.Context(), wmco.InstancesConfigMap, metav1.GetOptions{})
	if err == nil && list.Data["10.0.0.1"] != "" {
		s.Entries["10.0.0.1"] = list.Data["10.0.0.1"]
	}
	// That of WMCO is other than any that we write.
	userData, err := f.kube.CoreV1().Secrets(wmco.MachineAPINamespace).Get(f.t.Context(), wmco.UserDataSecret, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		f.t.Fatal(err)
	}
	s.UserDataDiffers = err == nil && len(userData.Data) > 0
	var deeds []wmcostandin.Deed
	if machine {
		a := s.Machine(&machinev1beta1.Machine{
			ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{wmco.MachineOSLabel: wmco.MachineOSWindows}},
			Status: machinev1beta1.MachineStatus{
				Phase: new(machinev1beta1.PhaseRunning), NodeRef: &corev1.ObjectReference{Name: testNode},
				Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
			},
		})
		if a != nil {
			deeds = append(deeds, a.Deed)
		}
	}
	for _, a := range s.Listed() {
		deeds = append(deeds, a.Deed)
	}
	return deeds
}

// TestReleaseForWMCO: WMCO deletes the Machine of a Node without the hash of its key, and removes a host with its label and no entry. One
// that was released it takes on with a drain, whenever it starts, and nothing else, if Secret windows-user-data is deleted before; one that it has taken on meanwhile it lets be.
func TestReleaseForWMCO(t *testing.T) {
	t.Parallel()
	theirs := func(annotations, labels map[string]string) func(*fixture) {
		return func(f *fixture) {
			node := f.node()
			delete(node.Annotations, wmco.VersionAnnotation)
			maps.Copy(node.Annotations, annotations)
			maps.Copy(node.Labels, labels)
			f.updateNode(node)
		}
	}
	for name, tt := range map[string]struct {
		machine, listed bool
		set             func(*fixture)
		// before is what it would do before the release, and after what it would do then.
		before, after []wmcostandin.Deed
	}{
		"a Machine":              {machine: true, before: []wmcostandin.Deed{wmcostandin.DeleteMachine}, after: []wmcostandin.Deed{wmcostandin.Upgrade}},
		"an entry":               {listed: true, before: []wmcostandin.Deed{wmcostandin.Upgrade}, after: []wmcostandin.Deed{wmcostandin.Upgrade}},
		"a Machine and an entry": {machine: true, listed: true, before: []wmcostandin.Deed{wmcostandin.DeleteMachine, wmcostandin.Upgrade}, after: []wmcostandin.Deed{wmcostandin.Upgrade, wmcostandin.Upgrade}},
		"a Machine that it has configured": {
			machine: true, set: theirs(map[string]string{wmco.VersionAnnotation: "11.0.0", wmco.DesiredVersionAnnotation: "11.0.0"}, nil), before: []wmcostandin.Deed{wmcostandin.DeleteMachine},
		},
		"an entry that it is upgrading": {
			listed: true, set: theirs(map[string]string{wmco.DesiredVersionAnnotation: "11.0.0"}, map[string]string{wmco.UpgradingLabel: "true"}),
			before: []wmcostandin.Deed{wmcostandin.Configure}, after: []wmcostandin.Deed{wmcostandin.Configure},
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			changes := []change{}
			if !tt.machine {
				changes = append(changes, noMachine)
			}
			f := releasing(t, changes...)
			if !tt.listed {
				node := f.node()
				delete(node.Labels, wmco.BYOHLabel)
				f.updateNode(node)
			} else {
				f.lists("10.0.0.1", "username=Administrator")
			}
			if tt.set != nil {
				tt.set(f)
			}
			if got := f.wouldDo(tt.machine); !slices.Equal(got, tt.before) {
				t.Errorf("before the release it would %q, want %q", got, tt.before)
			}
			if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			if got := f.wouldDo(tt.machine); !slices.Equal(got, tt.after) {
				t.Errorf("after it, it would %q, want %q", got, tt.after)
			}
			// Where our user data is left, each Machine is deleted in spite of the release, until that is.
			secrets := f.kube.CoreV1().Secrets(wmco.MachineAPINamespace)
			if _, err := secrets.Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: wmco.UserDataSecret}, Data: map[string][]byte{"userData": []byte("ours")},
			}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := f.wouldDo(tt.machine); slices.Contains(got, wmcostandin.DeleteMachine) != tt.machine {
				t.Errorf("with our user data it would %q", got)
			}
			if err := secrets.Delete(t.Context(), wmco.UserDataSecret, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := f.wouldDo(tt.machine); !slices.Equal(got, tt.after) {
				t.Errorf("without it, it would %q, want %q", got, tt.after)
			}
		})
	}
}
