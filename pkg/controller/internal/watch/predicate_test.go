// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package watch

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestDesiredStateChanged(t *testing.T) {
	now := metav1.NewTime(time.Unix(1, 0))
	tests := []struct {
		name string
		edit func(*corev1.Pod)
		want bool
	}{
		{name: "nothing", edit: func(*corev1.Pod) {}},
		{name: "status", edit: func(p *corev1.Pod) { p.ResourceVersion, p.Status.Phase = "2", corev1.PodRunning }},
		{name: "spec", edit: func(p *corev1.Pod) { p.Generation = 2 }, want: true},
		{name: "labels", edit: func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, want: true},
		{name: "annotations", edit: func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, want: true},
		{name: "owners", edit: func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Name: "a"}} }, want: true},
		{name: "being deleted", edit: func(p *corev1.Pod) { p.DeletionTimestamp = &now }, want: true},
		{name: "another object of that name", edit: func(p *corev1.Pod) { p.UID = "b" }, want: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a", Generation: 1, ResourceVersion: "1"}}
			after := before.DeepCopy()
			tt.edit(after)
			if got := DesiredStateChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	if p := DesiredStateChanged(); !p.Create(event.CreateEvent{}) || !p.Delete(event.DeleteEvent{}) {
		t.Error("objects that come or go do not pass")
	}
}
