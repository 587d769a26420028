// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// TestEventsOfOneReason: what happens again is told again, with what is to be said of it now.
func TestEventsOfOneReason(t *testing.T) {
	kube := fake.NewClientset()
	recorder, shutdown := newRecorder(t.Context(), kube, clientgoscheme.Scheme)
	defer shutdown()
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1"}}
	var want []string
	for i := range 30 {
		message := fmt.Sprintf("Reboot %02d.", i)
		recorder.Event(object, corev1.EventTypeNormal, "RebootSucceeded", message)
		want = append(want, message)
	}
	var got []string
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		list, err := kube.CoreV1().Events("ns").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		got = nil
		for _, e := range list.Items {
			got = append(got, e.Message)
			if e.Source.Component != "windows-controller" {
				t.Errorf("it comes from %q", e.Source.Component)
			}
		}
		slices.Sort(got)
		return len(got) == len(want), nil
	})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, events (-want +got):\n%s", err, diff)
	}
}
