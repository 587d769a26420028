// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// taints reads taints as kubectl writes them.
func taints(text string) []corev1.Taint {
	if text == "" {
		return nil
	}
	return lastTaints(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.ManagedTaintsAnnotation: text}}})
}

func TestMergeTaints(t *testing.T) {
	const ours, theirs = "os=Windows:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"
	tests := []struct {
		name                string
		current, last, want string
		merged              string
	}{
		{name: "a Node without taints", want: ours, merged: ours},
		{name: "as desired", current: ours, last: ours, want: ours, merged: ours},
		{name: "those of others stay where they are", current: theirs + "," + ours, last: ours, want: "a:NoExecute", merged: theirs + ",a:NoExecute"},
		{name: "one is taken out of the template", current: "a:NoExecute," + ours, last: "a:NoExecute," + ours, want: ours, merged: ours},
		{name: "what is not ours stays, although the template no longer asks for anything like it", current: "a:NoExecute," + ours, last: ours, want: ours, merged: "a:NoExecute," + ours},
		{name: "another value", current: "a=1:NoExecute," + theirs, last: "a=1:NoExecute", want: "a=2:NoExecute", merged: "a=2:NoExecute," + theirs},
		{name: "another effect", current: "a=1:NoExecute", last: "a=1:NoExecute", want: "a=1:NoSchedule", merged: "a=1:NoSchedule"},
		{name: "somebody changed the value", current: "os=Linux:NoSchedule", last: ours, want: ours, merged: ours},
		{name: "somebody removed it", current: theirs, last: ours, want: ours, merged: theirs + "," + ours},
		{name: "what was ours has another value when it goes", current: "a=2:NoExecute," + ours, last: "a=1:NoExecute," + ours, want: ours, merged: ours},
		{name: "nonsense in the annotation", current: ours, last: ",:,=", want: ours, merged: ours},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := formatTaints(mergeTaints(taints(tt.current), taints(tt.last), taints(tt.want))); got != tt.merged {
				t.Errorf("got %s, want %s", got, tt.merged)
			}
		})
	}
}

func TestTemplateTaints(t *testing.T) {
	tests := []struct {
		name     string
		template *v1alpha1.PoolTemplate
		want     string
	}{
		{name: "no pool", want: "os=Windows:NoSchedule"},
		{name: "a pool that says nothing", template: &v1alpha1.PoolTemplate{}, want: "os=Windows:NoSchedule"},
		{name: "a pool that wants none", template: &v1alpha1.PoolTemplate{NodeTaints: []v1alpha1.NodeTaint{}}, want: ""},
		{
			name: "sorted, and nothing besides", want: "a:NoExecute,b=1:NoSchedule,b=2:NoExecute",
			template: &v1alpha1.PoolTemplate{NodeTaints: []v1alpha1.NodeTaint{
				{Key: "b", Value: "2", Effect: "NoExecute"}, {Key: "a", Effect: "NoExecute"}, {Key: "b", Value: "1", Effect: "NoSchedule"},
			}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := formatTaints(templateTaints(tt.template)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// FuzzLastTaints reads an annotation that whoever may change Nodes writes.
func FuzzLastTaints(f *testing.F) {
	f.Add("os=Windows:NoSchedule,a:NoExecute")
	f.Add(",:,=,a=b=c:d:e")
	f.Fuzz(func(t *testing.T, text string) {
		if got := len(taints(text)); text != "" && got != strings.Count(text, ",")+1 {
			t.Errorf("%d taints are read from %q", got, text)
		}
	})
}
