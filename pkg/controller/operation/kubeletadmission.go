// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/drain"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// admitter asks the cluster what kubelets do to the pods of their Nodes when they are restarted.
type admitter struct {
	kube kubernetes.Interface
	// labels is [Options.Labels].
	labels func(ctx context.Context, instance *v1alpha1.WindowsInstance, node *corev1.Node) (map[string]string, error)
}

// admission is what a kubelet that is restarted does to the pods of its Node, all of which it admits again.
type admission struct {
	// rejects are pods, as namespace/name, that select what the Node no longer has, or is about to lose. A drain has them made again elsewhere.
	rejects []string
	// stay is how many pods a drain leaves.
	stay int
	// most is how many the kubelet admits.
	most podLimit
}

// restartsKubelet says whether the kubelet of the host is restarted as planned.
func restartsKubelet(plan *api.Plan) bool { return slices.Contains(plan.Restarts, wmco.KubeletService) }

// admission asks which pods the kubelet of a Node, nil for none, rejects once it is restarted with what a document says. When the labels
// of the Node are changed, before that or after it, nobody knows: a pod must select it by those that it has, and by those that it is to have.
func (t admitter) admission(ctx context.Context, instance *v1alpha1.WindowsInstance, node *corev1.Node, document *config.Document) (admission, error) {
	a := admission{}
	if node == nil {
		return a, nil
	}
	labels, err := t.labels(ctx, instance, node)
	if err != nil {
		return a, fmt.Errorf("finding out which labels Node %s is to have: %w", node.Name, err)
	}
	becomes := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: labels}}
	a.most = limitOf(document, node)
	if err := drain.EachPod(ctx, t.kube, node.Name, "", func(pod *corev1.Pod) {
		switch owner := metav1.GetControllerOf(pod); {
		case pod.Spec.NodeName != node.Name || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		case owner != nil && owner.Kind == "DaemonSet", pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
			a.stay++ // those that select other labels are removed by the controller of their DaemonSet
		case !selects(pod, node) || !selects(pod, becomes):
			a.rejects = append(a.rejects, pod.Namespace+"/"+pod.Name)
		}
	}); err != nil {
		return a, err
	}
	slices.Sort(a.rejects)
	return a, nil
}

// cost is what a change costs that restarts the kubelet: a drain, which asks PodDisruptionBudgets, rather than pods that are rejected.
func (a admission) cost(impact v1alpha1.ChangeImpact) v1alpha1.ChangeImpact {
	if impact == v1alpha1.ImpactRestart && len(a.rejects) > 0 {
		return v1alpha1.ImpactDrain
	}
	return impact
}

// describe says what is to be known of it before. Empty: nothing is.
func (a admission) describe() string {
	text := ""
	if len(a.rejects) > 0 {
		text = fmt.Sprintf(" The Node is drained, because the kubelet would reject pods that select what the Node no longer has, or is about to lose: %s.", words.Enumerate(a.rejects, maxNamed))
	}
	if a.most.pods > 0 && int64(a.stay) > a.most.pods {
		text += fmt.Sprintf(" The kubelet admits %d pods (%s), and %d of DaemonSets and of the host itself stay when the Node is drained: it rejects some of them. %s", a.most.pods, a.most.setting, a.stay, a.most.remedy)
	}
	return text
}

// podLimit is how many pods a kubelet admits. The zero value: it is not known.
type podLimit struct {
	pods int64
	// setting is which of its settings says so, and remedy how it is raised, both for people.
	setting, remedy string
}

// limitOf is how many pods a document has the kubelet of a Node admit: maxPods, or fewer if it is to have podsPerCore for each processor that it sees.
// It tells how many those are in the capacity of the Node; without that only maxPods is known.
func limitOf(d *config.Document, node *corev1.Node) podLimit {
	for _, f := range d.Files {
		if f.Path != wmco.KubeletConfigPath || f.Source.Text == nil {
			continue
		}
		var c struct {
			MaxPods     int64 `json:"maxPods"`
			PodsPerCore int64 `json:"podsPerCore"`
		}
		if json.Unmarshal([]byte(*f.Source.Text), &c) != nil || c.MaxPods <= 0 {
			return podLimit{}
		}
		processors := node.Status.Capacity.Cpu().Value()
		if fewer := c.PodsPerCore * processors; fewer > 0 && fewer < c.MaxPods {
			return podLimit{fewer, "podsPerCore, of " + words.Count(int(processors), "processor"), "Set spec.template.kubelet.maxPods of the pool, with which podsPerCore does not count."}
		}
		return podLimit{c.MaxPods, "maxPods", "Raise spec.template.kubelet.maxPods of the pool."}
	}
	return podLimit{}
}

// selects says whether a pod selects a Node, by its labels and its name, as kubelets check it. What cannot be read selects none.
func selects(pod *corev1.Pod, node *corev1.Node) bool {
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && matches
}
