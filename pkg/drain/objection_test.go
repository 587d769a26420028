// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type podChange func(*corev1.Pod)

func newPod(name string, changes ...podChange) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: testNode},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	owned("ReplicaSet", "apps/v1")(pod)
	for _, c := range changes {
		c(pod)
	}
	return pod
}

func owned(kind, apiVersion string) podChange {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", Controller: new(true)}}
	}
}

func alone(pod *corev1.Pod) { pod.OwnerReferences = nil }

func withEmptyDir(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

func inPhase(phase corev1.PodPhase) podChange {
	return func(pod *corev1.Pod) { pod.Status.Phase = phase }
}

func TestObjections(t *testing.T) {
	daemon := owned("DaemonSet", "apps/v1")
	tests := []struct {
		name      string
		evictable []corev1.Pod
		daemons   []corev1.Pod
		options   Options
		want      []Objection
	}{
		{name: "an ordinary pod", evictable: []corev1.Pod{*newPod("web")}},
		{
			name:      "a pod breaks two rules and both are named",
			evictable: []corev1.Pod{*newPod("b", alone, withEmptyDir), *newPod("a", withEmptyDir), *newPod("c")},
			want: []Objection{
				{Kind: "pods with emptyDir volumes", Remedy: "deleteEmptyDirData: true evicts them, and what the volumes hold is lost", Pods: []string{"shop/a", "shop/b"}},
				{Kind: "pods that no controller recreates", Remedy: "force: true evicts them anyway", Pods: []string{"shop/b"}},
			},
		},
		{
			name:      "everything allowed",
			evictable: []corev1.Pod{*newPod("b", alone, withEmptyDir), *newPod("d", daemon)},
			options:   Options{Force: true, DeleteEmptyDirData: true},
		},
		{name: "finished pods hold nothing", evictable: []corev1.Pod{*newPod("done", alone, withEmptyDir, inPhase(corev1.PodSucceeded)), *newPod("crashed", alone, inPhase(corev1.PodFailed))}},
		{
			name: "pods of DaemonSets", daemons: []corev1.Pod{*newPod("d", daemon)},
			want: []Objection{{Kind: "pods of DaemonSets", Remedy: "ignoreDaemonSets: true lets them stay", Pods: []string{"shop/d"}}},
		},
		{name: "pods of DaemonSets may stay", daemons: []corev1.Pod{*newPod("d", daemon)}, options: Options{IgnoreDaemonSets: true}},
		{
			name: "the DaemonSet is gone", evictable: []corev1.Pod{*newPod("d", daemon)}, options: Options{IgnoreDaemonSets: true},
			want: []Objection{{Kind: "pods of DaemonSets that are gone", Remedy: "force: true evicts them anyway", Pods: []string{"shop/d"}}},
		},
		{name: "a DaemonSet of another group is just a controller", evictable: []corev1.Pod{*newPod("k", owned("DaemonSet", "apps.kruise.io/v1alpha1"))}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, objections(tt.evictable, tt.daemons, tt.options)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestToleratesCordon(t *testing.T) {
	tests := []struct {
		name       string
		toleration corev1.Toleration
		want       bool
	}{
		{"by key", corev1.Toleration{Key: "node.kubernetes.io/unschedulable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}, true},
		{"by empty value", corev1.Toleration{Key: "node.kubernetes.io/unschedulable"}, true},
		{"everything", corev1.Toleration{Operator: corev1.TolerationOpExists}, true},
		{"another taint", corev1.Toleration{Key: "os", Value: "Windows"}, false},
		{"another effect", corev1.Toleration{Key: "node.kubernetes.io/unschedulable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}, false},
		{"another value", corev1.Toleration{Key: "node.kubernetes.io/unschedulable", Value: "no"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod("p", func(pod *corev1.Pod) { pod.Spec.Tolerations = []corev1.Toleration{tt.toleration} })
			if got := toleratesCordon(pod); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
