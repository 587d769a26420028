// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// TestAdmission: a kubelet that is restarted rejects pods that select what its Node no longer has, which costs a drain. Pods that a drain
// leaves are counted.
func TestAdmission(t *testing.T) {
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
			ask := admitter{kube, keepLabels}
			got, err := ask.admission(t.Context(), &v1alpha1.WindowsInstance{}, node, &config.Document{})
			if err != nil || slices.Contains(got.rejects, "apps/a") != tt.rejects || (got.stay == 1) != tt.stays {
				t.Errorf("got %+v: %v", got, err)
			}
			want, says := v1alpha1.ImpactRestart, ""
			if tt.rejects {
				want, says = v1alpha1.ImpactDrain, " The Node is drained, because the kubelet would reject pods that select what the Node no longer has, or is about to lose: apps/a."
			}
			if got.cost(v1alpha1.ImpactRestart) != want || got.cost(v1alpha1.ImpactReboot) != v1alpha1.ImpactReboot || got.describe() != says {
				t.Errorf("it costs %s: %s", got.cost(v1alpha1.ImpactRestart), got.describe())
			}
			before := len(kube.Actions())
			if got, err := ask.admission(t.Context(), &v1alpha1.WindowsInstance{}, nil, &config.Document{}); err != nil || len(got.rejects) > 0 || len(kube.Actions()) != before {
				t.Errorf("there is no Node: %+v, %v", got, err)
			}
		})
	}
}

// TestAdmissionUnknown: without the labels that the Node is to have, nothing is decided.
func TestAdmissionUnknown(t *testing.T) {
	want := errors.New("the cache has not started")
	ask := admitter{fake.NewClientset(), func(context.Context, *v1alpha1.WindowsInstance, *corev1.Node) (map[string]string, error) {
		return nil, want
	}}
	if _, err := ask.admission(t.Context(), &v1alpha1.WindowsInstance{}, &corev1.Node{}, &config.Document{}); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}

// TestAdmissionDescribe: what of it is to be known, also when the pods that stay are too many for the kubelet.
func TestAdmissionDescribe(t *testing.T) {
	const raise = " Raise spec.template.kubelet.maxPods of the pool."
	for _, tt := range []struct {
		name, settings string
		processors     string // empty: the Node does not say
		stay           int
		want           string
	}{
		{"as many as fit", `{"maxPods":2}`, "4", 2, ""},
		{"too many", `{"maxPods":2}`, "4", 3, " The kubelet admits 2 pods (maxPods), and 3 of DaemonSets and of the host itself stay when the Node is drained: it rejects some of them." + raise},
		{"as many as fit its processors", `{"maxPods":250,"podsPerCore":10}`, "4", 40, ""},
		{"too many for its processors", `{"maxPods":250,"podsPerCore":10}`, "4", 41, " The kubelet admits 40 pods (podsPerCore, of 4 processors), and 41 of DaemonSets and of the host itself stay when the Node is drained: it rejects some of them. Set spec.template.kubelet.maxPods of the pool, with which podsPerCore does not count."},
		{"many processors", `{"maxPods":20,"podsPerCore":10}`, "64", 21, " The kubelet admits 20 pods (maxPods), and 21 of DaemonSets and of the host itself stay when the Node is drained: it rejects some of them." + raise},
		{"unknown processors", `{"maxPods":20,"podsPerCore":10}`, "", 20, ""},
		{"too many, whatever its processors", `{"maxPods":20,"podsPerCore":10}`, "", 21, " The kubelet admits 20 pods (maxPods), and 21 of DaemonSets and of the host itself stay when the Node is drained: it rejects some of them." + raise},
		{"only for each processor", `{"podsPerCore":10}`, "4", 300, ""},
		{"no settings", ``, "4", 300, ""},
		{"not JSON", `maxPods: 2`, "4", 300, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			document := &config.Document{Files: []config.File{{Path: "x"}}}
			if tt.settings != "" {
				document.Files = append(document.Files, config.File{Path: wmco.KubeletConfigPath, Source: config.Source{Text: &tt.settings}})
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1"}}
			if tt.processors != "" {
				node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(tt.processors)}
			}
			kube := fake.NewClientset()
			for n := range tt.stay {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: fmt.Sprint("a-", n), OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: new(true)}}}, Spec: corev1.PodSpec{NodeName: "win-1"}}
				if err := kube.Tracker().Add(pod); err != nil {
					t.Fatal(err)
				}
			}
			got, err := admitter{kube, keepLabels}.admission(t.Context(), &v1alpha1.WindowsInstance{}, node, document)
			if err != nil || got.describe() != tt.want {
				t.Errorf("it says %q, want %q: %v", got.describe(), tt.want, err)
			}
		})
	}
}

// TestPodsThatSelectWhatIsGone: a host is drained before its kubelet restarts and rejects them, whenever the label is taken off, and it is
// known before that it will be.
func TestPodsThatSelectWhatIsGone(t *testing.T) {
	t.Parallel()
	rack, none := map[string]string{"rack": "8"}, map[string]string{}
	for _, tt := range []struct {
		name string
		// has and becomes are the labels of the Node, and those that it is to have, and later those that it has when the plan was made.
		has, becomes, later map[string]string
		restarts            string // default: the kubelet
		previewed, want     v1alpha1.ChangeImpact
	}{
		{name: "never", has: rack, previewed: v1alpha1.ImpactRestart, want: v1alpha1.ImpactRestart},
		{name: "before", has: none, previewed: v1alpha1.ImpactDrain, want: v1alpha1.ImpactDrain},
		{name: "soon", has: rack, becomes: none, previewed: v1alpha1.ImpactDrain, want: v1alpha1.ImpactDrain},
		{name: "it is to be set", has: none, becomes: rack, previewed: v1alpha1.ImpactDrain, want: v1alpha1.ImpactDrain},
		{name: "after the plan", has: rack, later: none, previewed: v1alpha1.ImpactRestart, want: v1alpha1.ImpactDrain},
		{name: "before, and the kubelet goes on", has: none, restarts: "containerd", previewed: v1alpha1.ImpactRestart, want: v1alpha1.ImpactRestart},
		{name: "after the plan, and the kubelet goes on", has: rack, later: none, restarts: "containerd", previewed: v1alpha1.ImpactRestart, want: v1alpha1.ImpactRestart},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation()))
			f.configure()
			f.setLabels(tt.has)
			if tt.becomes != nil {
				f.labels = func() map[string]string { return tt.becomes }
			}
			f.host.impact, f.host.restarted = config.ImpactRestart, []string{cmp.Or(tt.restarts, wmco.KubeletService)}
			f.selects("rack", "8")
			preview := &Preview{Hosts: f.host, Configuration: f.configuration, Kube: f.kube, Labels: f.nodeLabels}
			of := f.get()
			of.Status.Node = &v1alpha1.NodeReference{Name: testNode}
			if impact, _, err := preview.Impact(t.Context(), of); err != nil || impact != tt.previewed {
				t.Errorf("it will cost %s: %v", impact, err)
			}
			f.host.needsFiles = true
			f.host.fail = map[string]func() error{"Deliver": func() error {
				if tt.later != nil {
					f.setLabels(tt.later)
				}
				return nil
			}}
			op := f.finish()
			plan, drains := op.FindStep(v1alpha1.StepPlan), 0
			if tt.want == v1alpha1.ImpactDrain {
				drains = 1
			}
			says := strings.Contains(plan.Message, "pods that select what the Node no longer has, or is about to lose: apps/a.")
			if op.Phase != v1alpha1.OperationSucceeded || op.Impact != tt.want || f.drain.runs != drains || says != (drains > 0) {
				t.Errorf("it is %s, %s, %d drains: %s", op.Phase, op.Impact, f.drain.runs, plan.Message)
			}
			if want := "new " + string(tt.want); !slices.Equal(f.host.applies, []string{want}) {
				t.Errorf("applied was %q, want %s", f.host.applies, want)
			}
		})
	}
}

// TestLabelsThatNeverSettle: an operation does not plan without end.
func TestLabelsThatNeverSettle(t *testing.T) {
	t.Parallel()
	inBubble(t, "", func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		asked := 0
		f.labels = func() map[string]string {
			if asked++; asked%2 == 0 {
				return nil // when the host is about to be changed
			}
			return map[string]string{"rack": "8"}
		}
		f.setLabels(map[string]string{"rack": "8"})
		f.host.impact, f.host.restarted = config.ImpactRestart, []string{wmco.KubeletService}
		f.selects("rack", "8")
		op := f.finish()
		if op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, "The host, or its Node, changed after the plan was made, 4 times in a row") || len(f.host.applies) > 0 {
			t.Errorf("it is %s, applied %q: %s", op.Phase, f.host.applies, op.Message)
		}
	})
}

// TestLabelGoneWhileTheHostIsChanged: what is desired since the host was changed is left to the next operation if pods would be rejected for it.
func TestLabelGoneWhileTheHostIsChanged(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"gone": true, "there": false} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation()))
			c := f.configure()
			f.setLabels(map[string]string{"rack": "8"})
			f.host.impact, f.host.restarted = config.ImpactRestart, []string{wmco.KubeletService}
			f.selects("rack", "8")
			f.host.onApplied = func(is string) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.want = "newer"
				if gone {
					f.setLabels(nil)
				}
			}
			op := f.finish()
			want := []string{"new Restart", "newer Restart"}
			if gone {
				want = want[:1]
			}
			if op.Phase != v1alpha1.OperationSucceeded || f.drain.runs > 0 || !slices.Equal(f.host.applies, want) {
				t.Errorf("it is %s, %d drains, applied %q, want %q: %s", op.Phase, f.drain.runs, f.host.applies, want, op.Message)
			}
			message := op.FindStep(v1alpha1.StepNetwork).Message
			if says := strings.Contains(message, "is left to the next operation") && strings.Contains(message, "apps/a."); says != gone {
				t.Errorf("it says %q", message)
			}
		})
	}
}

// TestNewerWhileTheHostIsChanged: of a configuration that is desired since a change began which costs the workload nothing, nobody knows what
// it costs. It is left to the next operation, which is admitted as its own cost wants it; the routes are looked at all the same.
func TestNewerWhileTheHostIsChanged(t *testing.T) {
	t.Parallel()
	inBubble(t, "newer", func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation(), func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "aws:///eu-1/i-1" }))
		c := f.configure()
		f.host.impact = config.ImpactNone
		f.host.onApplied = func(string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.want, f.host.impact = "newer", config.ImpactRestart
		}
		op := f.finish()
		if want := []string{"new None"}; op.Phase != v1alpha1.OperationSucceeded || !slices.Equal(f.host.applies, want) || op.Revision != "new" {
			t.Errorf("it is %s with revision %s, applied %q, want %q: %s", op.Phase, op.Revision, f.host.applies, want, op.Message)
		}
		message := op.FindStep(v1alpha1.StepNetwork).Message
		if !strings.Contains(message, "is left to the next operation") || len(f.host.routes) == 0 {
			t.Errorf("it says %q, and the routes are %v", message, f.host.routes)
		}
	})
}

// setLabels has the Node have just these labels.
func (f *fixture) setLabels(labels map[string]string) {
	node := f.node()
	node.Labels = labels
	if _, err := f.kube.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{}); err != nil {
		f.t.Error(err)
	}
}

// selects has a pod on the Node that selects a label.
func (f *fixture) selects(key, value string) {
	f.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "a"}, Spec: corev1.PodSpec{NodeName: testNode, NodeSelector: map[string]string{key: value}}}
	if _, err := f.kube.CoreV1().Pods("apps").Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}
