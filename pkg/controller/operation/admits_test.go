// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// TestAdmissionOf: a kubelet that is restarted rejects pods that select what its Node no longer has, which costs a drain. Pods that a drain
// leaves are counted.
func TestAdmissionOf(t *testing.T) {
	affinity := func(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
		}
	}
	expression := func(key string, o corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: o, Values: values}}}
	}
	rack := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"rack": "8"} }
	daemon := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: new(true)}}
	}
	for _, tt := range []struct {
		name    string
		pod     func(*corev1.Pod)
		rejects bool
		stays   bool
	}{
		{"any Node", func(*corev1.Pod) {}, false, false},
		{"a label that it has", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"rack": "7"} }, false, false},
		{"a label that it no longer has", rack, true, false},
		{"a DaemonSet", func(p *corev1.Pod) { rack(p); daemon(p) }, false, true},
		{"a file of the host", func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}, false, true},
		{"it has ended", func(p *corev1.Pod) { rack(p); p.Status.Phase = corev1.PodFailed }, false, false},
		{"it has succeeded", func(p *corev1.Pod) { rack(p); p.Status.Phase = corev1.PodSucceeded }, false, false},
		{"on another Node", func(p *corev1.Pod) { rack(p); p.Spec.NodeName = "other" }, false, false},
		{"in", affinity(expression("rack", corev1.NodeSelectorOpIn, "7", "8")), false, false},
		{"not in", affinity(expression("rack", corev1.NodeSelectorOpNotIn, "7")), true, false},
		{"exists", affinity(expression("disk", corev1.NodeSelectorOpExists)), true, false},
		{"does not exist", affinity(expression("disk", corev1.NodeSelectorOpDoesNotExist)), false, false},
		{"greater", affinity(expression("rack", corev1.NodeSelectorOpGt, "6")), false, false},
		{"less", affinity(expression("rack", corev1.NodeSelectorOpLt, "6")), true, false},
		{"one of two", affinity(expression("disk", corev1.NodeSelectorOpExists), expression("rack", corev1.NodeSelectorOpExists)), false, false},
		{"an empty term", affinity(corev1.NodeSelectorTerm{}), true, false},
		{"its name", affinity(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"win-1"}}}}), false, false},
		{"what nobody knows", affinity(expression("rack", "Near", "7")), true, false},
		{"affinity to pods", func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}} }, false, false},
		{"preferences", func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}} }, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "a"}, Spec: corev1.PodSpec{NodeName: "win-1"}}
			tt.pod(pod)
			kube := fake.NewClientset(pod)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", Labels: map[string]string{"rack": "7"}}}
			plan := &api.Plan{Restarts: []string{"containerd", wmco.KubeletService}}
			got, err := admissionOf(t.Context(), kube, node, plan, &config.Document{})
			if err != nil || slices.Contains(got.rejects, "apps/a") != tt.rejects || (got.stay == 1) != tt.stays {
				t.Errorf("got %+v: %v", got, err)
			}
			want, says := v1alpha1.ImpactRestart, ""
			if tt.rejects {
				want, says = v1alpha1.ImpactDrain, " The Node is drained, because the kubelet would reject pods that select what the Node no longer has: apps/a."
			}
			if got.cost(v1alpha1.ImpactRestart) != want || got.cost(v1alpha1.ImpactReboot) != v1alpha1.ImpactReboot || got.describe() != says {
				t.Errorf("it costs %s: %s", got.cost(v1alpha1.ImpactRestart), got.describe())
			}
			before := len(kube.Actions())
			for _, none := range []func() (admission, error){
				func() (admission, error) {
					return admissionOf(t.Context(), kube, node, &api.Plan{Restarts: []string{"containerd"}}, &config.Document{})
				},
				func() (admission, error) { return admissionOf(t.Context(), kube, nil, plan, &config.Document{}) },
			} {
				if got, err := none(); err != nil || len(got.rejects) > 0 || len(kube.Actions()) != before {
					t.Errorf("the kubelet is not restarted: %+v, %v", got, err)
				}
			}
		})
	}
}

// TestAdmissionDescribe: what of it is to be known, also when the pods that stay are too many for the kubelet.
func TestAdmissionDescribe(t *testing.T) {
	text := `{"maxPods":2}`
	document := &config.Document{Files: []config.File{{Path: "x"}, {Path: wmco.KubeletConfigPath, Source: config.Source{Text: &text}}}}
	if got := maxPods(document); got != 2 {
		t.Errorf("maxPods is %d", got)
	}
	if got := maxPods(&config.Document{}); got != 0 {
		t.Errorf("maxPods of nothing is %d", got)
	}
	if got := (admission{stay: 3, most: 2}).describe(); !strings.Contains(got, "admits 2 pods (maxPods), and 3 of DaemonSets") {
		t.Errorf("it says %q", got)
	}
	for _, a := range []admission{{stay: 2, most: 2}, {stay: 3}} {
		if got := a.describe(); got != "" {
			t.Errorf("it says %q of %+v", got, a)
		}
	}
}

// TestPodsThatSelectWhatIsGone: a host is drained before its kubelet restarts and rejects them, and it is known before that it will be.
func TestPodsThatSelectWhatIsGone(t *testing.T) {
	t.Parallel()
	inBubble(t, "", func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		f.host.impact, f.host.restarted = config.ImpactRestart, []string{wmco.KubeletService}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "a"}, Spec: corev1.PodSpec{NodeName: testNode, NodeSelector: map[string]string{"rack": "8"}}}
		if _, err := f.kube.CoreV1().Pods("apps").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		preview := &Preview{Hosts: f.host, Configuration: f.configuration, Kube: f.kube}
		of := f.get()
		of.Status.Node = &v1alpha1.NodeReference{Name: testNode}
		if impact, _, err := preview.Impact(t.Context(), of); err != nil || impact != v1alpha1.ImpactDrain {
			t.Errorf("it will cost %s: %v", impact, err)
		}
		op := f.finish()
		plan := op.FindStep(v1alpha1.StepPlan)
		if op.Phase != v1alpha1.OperationSucceeded || op.Impact != v1alpha1.ImpactDrain || f.drain.runs != 1 || !strings.Contains(plan.Message, "pods that select what the Node no longer has: apps/a.") {
			t.Errorf("it is %s, %d drains: %s", op.Phase, f.drain.runs, plan.Message)
		}
	})
}
