// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/drain"
)

// TestMarkedFor: the mark counts while the Node is cordoned, and for its purpose alone.
func TestMarkedFor(t *testing.T) {
	for _, tt := range []struct {
		mark     string
		cordoned bool
		want     string
	}{
		{"op-1 Reboot (asked for by alice)", true, "op-1"},
		{"op-1 Reboot", true, "op-1"},
		{"op-1 Reboot (asked for by alice)", false, ""},
		{"op-1 Reconfigure (asked for by alice)", true, ""},
		{"op-1 (asked for by Reboot)", true, ""},
		{"", true, ""},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.CordonedByAnnotation: tt.mark}}, Spec: corev1.NodeSpec{Unschedulable: tt.cordoned}}
		if got := drain.MarkedFor(node, "Reboot"); got != tt.want {
			t.Errorf("%q, cordoned %t: got %q, want %q", tt.mark, tt.cordoned, got, tt.want)
		}
	}
}

// TestAwaited: a mark says until when its cordon lasts, if it does, and nobody else's mark is changed by that.
func TestAwaited(t *testing.T) {
	after := time.Date(2026, 3, 14, 15, 9, 26, 0, time.FixedZone("", 3600))
	const awaited = "op-1 Reboot (asked for by alice), until the Node is ready after 2026-03-14T14:09:26Z"
	mark := drain.Mark{ID: "op-1", Purpose: "Reboot", Who: drain.AskedForBy("alice")}
	for _, tt := range []struct {
		name     string
		mark     string
		cordoned bool
		want     string
	}{
		{"its own", "op-1 Reboot (asked for by alice)", true, awaited},
		{"its own, of another time", strings.Replace(awaited, "14:", "11:", 1), true, awaited},
		{"that of another one", "op-0 Reboot (asked for by alice)", true, ""},
		{"a drain", "op-2 (asked for by bob) instead of op-1 Reboot (asked for by alice)", true, ""},
		{"somebody has uncordoned it", "op-1 Reboot (asked for by alice)", false, ""},
		{"of nobody", "", true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Annotations: map[string]string{v1alpha1.CordonedByAnnotation: tt.mark}}, Spec: corev1.NodeSpec{Unschedulable: tt.cordoned}}
			client := fake.NewClientset(node)
			for range 2 {
				noted, err := drain.Await(t.Context(), client, "n", "u", mark, after)
				if err != nil || noted != (tt.want != "") {
					t.Errorf("noted %t, %v", noted, err)
				}
			}
			got, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
			if want := cmp.Or(tt.want, tt.mark); err != nil || got.Annotations[v1alpha1.CordonedByAnnotation] != want || got.Spec.Unschedulable != tt.cordoned {
				t.Errorf("got %v, %v, want the mark %q", got, err, want)
			}
			since, ok := drain.AwaitedFor(got, "Reboot")
			if ok != (tt.want != "") || ok && !since.Equal(after) {
				t.Errorf("awaited after %s, %t", since, ok)
			}
			if _, ok := drain.AwaitedFor(got, "Reconfigure"); ok {
				t.Error("it is awaited for another purpose")
			}
			if drain.IsMarked(got, "Reboot", "windows-controller") {
				t.Error("it is taken for one of the controller")
			}
		})
	}
}

// TestAwaitedByNobody: what cannot be read is no time.
func TestAwaitedByNobody(t *testing.T) {
	for _, mark := range []string{"op-1 Reboot (asked for by alice), until the Node is ready after tomorrow", "op-1 Reboot, until"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.CordonedByAnnotation: mark}}, Spec: corev1.NodeSpec{Unschedulable: true}}
		if after, ok := drain.AwaitedFor(node, "Reboot"); ok {
			t.Errorf("%s: after %s", mark, after)
		}
	}
}

// TestAwaitedOfAnother: who takes over a cordon that is over once the Node is ready leaves it so.
func TestAwaitedOfAnother(t *testing.T) {
	const until = ", until the Node is ready after 2026-03-14T14:09:26Z"
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Annotations: map[string]string{v1alpha1.CordonedByAnnotation: "op-1 Reboot (asked for by alice)" + until}},
		Spec:       corev1.NodeSpec{Unschedulable: true},
	}
	client := fake.NewClientset(node)
	mark := drain.Mark{ID: "op-2", Purpose: "Reboot", Who: drain.AskedForBy("windows-controller")}
	if found, err := drain.Cordon(t.Context(), client, "n", "u", mark); err != nil || !found.TakenOver {
		t.Fatalf("got %+v, %v", found, err)
	}
	got, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if want := "op-2 Reboot (asked for by windows-controller)" + until; err != nil || got.Annotations[v1alpha1.CordonedByAnnotation] != want {
		t.Errorf("got %v, %v, want the mark %q", got.Annotations, err, want)
	}
	if _, ok := drain.AwaitedFor(got, "Reboot"); !ok || !drain.IsMarked(got, "Reboot", "windows-controller") {
		t.Error("nobody lifts it")
	}
}

// TestAbandoned: a mark is of no cordon any more once somebody has lifted it.
func TestAbandoned(t *testing.T) {
	for name, tt := range map[string]struct {
		mark           map[string]string
		cordoned, want bool
	}{
		"cordoned":           {mark: map[string]string{v1alpha1.CordonedByAnnotation: "op-1 Reboot"}, cordoned: true},
		"uncordoned":         {mark: map[string]string{v1alpha1.CordonedByAnnotation: "op-1 Reboot"}, want: true},
		"cordoned by others": {cordoned: true},
		"never cordoned":     {},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: tt.mark}, Spec: corev1.NodeSpec{Unschedulable: tt.cordoned}}
		if got := drain.Abandoned(node); got != tt.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
