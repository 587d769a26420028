// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package kubelet

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// endOf is when a pod that is being deleted has ended.
func endOf(pod *corev1.Pod) time.Time {
	var sleep int64
	for i := range pod.Spec.Containers {
		if l := pod.Spec.Containers[i].Lifecycle; l != nil && l.PreStop != nil && l.PreStop.Sleep != nil {
			sleep = max(sleep, l.PreStop.Sleep.Seconds)
		}
	}
	grace := *pod.DeletionGracePeriodSeconds
	// The time of the deletion is that of its request and the grace period.
	return pod.DeletionTimestamp.Add(time.Duration(min(sleep, grace)-grace) * time.Second)
}

// readyAt is when a pod that has been started is ready.
func readyAt(pod *corev1.Pod) time.Time {
	var delay int32
	for i := range pod.Spec.Containers {
		if p := pod.Spec.Containers[i].ReadinessProbe; p != nil {
			delay = max(delay, p.InitialDelaySeconds)
		}
	}
	var started time.Time
	if pod.Status.StartTime != nil {
		started = pod.Status.StartTime.Time
	}
	return started.Add(time.Duration(delay) * time.Second)
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// running is the status of a pod that has just been started.
func running(pod *corev1.Pod, now time.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.Phase = corev1.PodRunning
	status.StartTime = &metav1.Time{Time: now}
	status.ContainerStatuses = nil
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *status.StartTime}},
		})
	}
	return status
}

// ready is the status of a pod all of whose containers are ready.
func ready(pod *corev1.Pod) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	for i := range status.ContainerStatuses {
		status.ContainerStatuses[i].Ready = true
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	}
	return status
}
