// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package kubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEndOf(t *testing.T) {
	asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		name         string
		sleep, grace int64
		want         time.Duration
	}{
		{name: "nothing holds it", grace: 30, want: 0},
		{name: "ends by itself", sleep: 4, grace: 30, want: 4 * time.Second},
		{name: "is killed", sleep: 60, grace: 30, want: 30 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					DeletionTimestamp:          &metav1.Time{Time: asked.Add(time.Duration(tt.grace) * time.Second)},
					DeletionGracePeriodSeconds: &tt.grace,
				},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: tt.sleep}}},
				}}},
			}
			if got := endOf(pod).Sub(asked); got != tt.want {
				t.Errorf("it ends after %v, want %v", got, tt.want)
			}
		})
	}
}

func TestReady(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "a"}, {Name: "b", ReadinessProbe: &corev1.Probe{InitialDelaySeconds: 20}},
	}}}
	pod.Status = running(pod, now)
	if isReady(pod) || pod.Status.Phase != corev1.PodRunning || len(pod.Status.ContainerStatuses) != 2 {
		t.Errorf("a pod that has just been started is %+v", pod.Status)
	}
	if got := readyAt(pod).Sub(now); got != 20*time.Second {
		t.Errorf("it is ready after %v, want 20s", got)
	}
	if pod.Status = ready(pod); !isReady(pod) || !pod.Status.ContainerStatuses[1].Ready {
		t.Errorf("a pod that is ready is %+v", pod.Status)
	}
}
