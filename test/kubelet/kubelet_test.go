// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package kubelet

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// eventually polls a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestKubelet(t *testing.T) {
	deleted, seconds := metav1.Now(), int64(17)
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "new"}, Spec: corev1.PodSpec{NodeName: "n"}},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "leaving", DeletionTimestamp: &deleted, DeletionGracePeriodSeconds: &seconds},
			Spec:       corev1.PodSpec{NodeName: "n"},
		},
	)
	k, err := Start(Options{Client: client, Node: "n", ReportInterval: time.Millisecond, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	pods := client.CoreV1().Pods("a")
	eventually(t, "the Node is ready", func() bool {
		node, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		return err == nil && len(node.Status.Conditions) == 1 && node.Status.Conditions[0].Type == corev1.NodeReady
	})
	eventually(t, "a pod that is bound runs and is ready", func() bool {
		pod, err := pods.Get(t.Context(), "new", metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	})
	eventually(t, "a pod that is being deleted ends", func() bool {
		_, err := pods.Get(t.Context(), "leaving", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if got, ok := k.GracePeriod("leaving"); !ok || got != seconds {
		t.Errorf("the pod had %d s, %v, want %d", got, ok, seconds)
	}
	if _, ok := k.GracePeriod("new"); ok {
		t.Error("a pod that runs is said to have ended")
	}
}
