// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// objections says what speaks against the drain: of the pods that would be evicted,
// among them those of DaemonSets that are gone, and of the pods of DaemonSets that are
// there. The rules are those of kubectl, which stops at the first one that a pod
// breaks: people who then set that option should not have to try again to learn of the
// next one, so here each pod is held against all of them.
func objections(evictable, daemons []corev1.Pod, o Options) []Objection {
	var out []Objection
	add := func(kind, remedy string, pods []corev1.Pod, breaks func(*corev1.Pod) bool) {
		var names []string
		for i := range pods {
			if !finished(&pods[i]) && breaks(&pods[i]) {
				names = append(names, nameOf(&pods[i]))
			}
		}
		if len(names) > 0 {
			slices.Sort(names)
			out = append(out, Objection{Kind: kind, Remedy: remedy, Pods: names})
		}
	}
	if !o.IgnoreDaemonSets {
		add("pods of DaemonSets", o.FieldPath+"ignoreDaemonSets: true lets them stay", daemons, ofDaemonSet)
	}
	if !o.DeleteEmptyDirData {
		add("pods with emptyDir volumes", o.FieldPath+"deleteEmptyDirData: true evicts them, and what the volumes hold is lost", evictable, hasEmptyDir)
	}
	if !o.Force {
		add("pods that no controller recreates", o.FieldPath+"force: true evicts them anyway", evictable, unmanaged)
		add("pods of DaemonSets that are gone", o.FieldPath+"force: true evicts them anyway", evictable, ofDaemonSet)
	}
	return out
}

// finished pods hold nothing that anybody waits for.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func ofDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet" && owner.APIVersion == appsv1.SchemeGroupVersion.String()
}

func hasEmptyDir(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil })
}

func unmanaged(pod *corev1.Pod) bool { return metav1.GetControllerOf(pod) == nil }

// toleratesCordon says whether the scheduler puts a pod on a cordoned Node.
func toleratesCordon(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, isOfCordon)
}

// isOfCordon says whether a toleration is, also, of the taint of cordoned Nodes.
func isOfCordon(t corev1.Toleration) bool {
	taint := &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	// The taint has no value that a number could be compared with, and nothing else is logged.
	return t.ToleratesTaint(klog.Logger{}, taint, false)
}

func nameOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
