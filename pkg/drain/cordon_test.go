// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func newTestNode(unschedulable bool, mark string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode, UID: "uid"}, Spec: corev1.NodeSpec{Unschedulable: unschedulable}}
	if mark != "" {
		node.Annotations = map[string]string{CordonedByAnnotation: mark}
	}
	return node
}

func TestCordonAndRestore(t *testing.T) {
	mark := Mark{ID: "drain-1", Who: "alice"}
	tests := []struct {
		name  string
		node  *corev1.Node
		want  Cordoned
		after bool // unschedulable after the restore
	}{
		{name: "schedulable", node: newTestNode(false, "")},
		{name: "cordoned by us", node: newTestNode(true, "drain-1 alice")},
		{name: "cordoned by kubectl", node: newTestNode(true, ""), want: Cordoned{ByOther: true}, after: true},
		{name: "cordoned by another operation", node: newTestNode(true, "drain-10 bob"), want: Cordoned{ByOther: true, Owner: "drain-10 bob"}, after: true},
		{name: "uncordoned by hand, the mark of another is left", node: newTestNode(false, "drain-0 bob")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset(tt.node)
			for range 2 { // repeating it is harmless
				got, err := Cordon(t.Context(), client, testNode, "uid", mark)
				if err != nil || got != tt.want {
					t.Fatalf("got %+v, %v, want %+v", got, err, tt.want)
				}
			}
			node := getNode(t, client)
			if !node.Spec.Unschedulable || !tt.want.ByOther && node.Annotations[CordonedByAnnotation] != "drain-1 alice" {
				t.Errorf("after the cordon it is %+v with %v", node.Spec, node.Annotations)
			}
			for range 2 {
				schedulable, err := Restore(t.Context(), client, testNode, "uid", mark)
				if err != nil || schedulable == tt.after {
					t.Errorf("got %v, %v", schedulable, err)
				}
			}
			node = getNode(t, client)
			if _, marked := node.Annotations[CordonedByAnnotation]; node.Spec.Unschedulable != tt.after || marked != (tt.want.Owner != "") {
				t.Errorf("after the restore it is %+v with %v", node.Spec, node.Annotations)
			}
		})
	}
}

// Marks of one purpose stand for each other, those of another one do not.
func TestMarksOfAPurpose(t *testing.T) {
	mark := Mark{ID: "op-2", Purpose: "Reconfigure", Who: "(asked for by alice)"}
	const ours = "op-2 Reconfigure (asked for by alice)"
	tests := []struct {
		name         string
		mark         string
		want         Cordoned
		wantMark     string
		wantRestored bool
	}{
		{"an earlier one", "op-1 Reconfigure (asked for by bob)", Cordoned{TakenOver: true}, ours, true},
		{"this one", ours, Cordoned{}, ours, true},
		{"without a purpose", "op-1 (asked for by bob)", Cordoned{ByOther: true, Owner: "op-1 (asked for by bob)"}, "op-1 (asked for by bob)", false},
		{"another one", "op-1 Remove (asked for by bob)", Cordoned{ByOther: true, Owner: "op-1 Remove (asked for by bob)"}, "op-1 Remove (asked for by bob)", false},
		{"by people", "", Cordoned{ByOther: true}, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset(newTestNode(true, tt.mark))
			got, err := Cordon(t.Context(), client, testNode, "uid", mark)
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
			if got := getNode(t, client).Annotations[CordonedByAnnotation]; got != tt.wantMark {
				t.Errorf("the mark is %q, want %q", got, tt.wantMark)
			}
			schedulable, err := Restore(t.Context(), client, testNode, "uid", mark)
			if err != nil || schedulable != tt.wantRestored {
				t.Errorf("schedulable: got %v, %v, want %v", schedulable, err, tt.wantRestored)
			}
		})
	}
}

func TestUncordon(t *testing.T) {
	tests := []struct {
		name string
		node *corev1.Node
		want bool
	}{
		{"cordoned by anybody", newTestNode(true, "drain-1 alice"), true},
		{"schedulable, with an old mark", newTestNode(false, "drain-1 alice"), false},
		{"schedulable", newTestNode(false, ""), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset(tt.node)
			got, err := Uncordon(t.Context(), client, testNode, "uid")
			node := getNode(t, client)
			if err != nil || got != tt.want || node.Spec.Unschedulable || node.Annotations[CordonedByAnnotation] != "" {
				t.Errorf("got %v, %v, and the Node is %+v with %v", got, err, node.Spec, node.Annotations)
			}
		})
	}
}

func TestCordonKeepsToItsNode(t *testing.T) {
	client := fake.NewClientset(newTestNode(false, ""))
	if _, err := Cordon(t.Context(), client, testNode, "another", Mark{ID: "x"}); !errors.Is(err, ErrNodeReplaced) {
		t.Errorf("got %v", err)
	}
	if _, err := Cordon(t.Context(), client, "none", "", Mark{ID: "x"}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

// Somebody cordons the Node between our look and our patch: that cordon is not ours.
func TestCordonLosesARace(t *testing.T) {
	client := fake.NewClientset(newTestNode(false, ""))
	raced := false
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, kruntime.Object, error) {
		if raced {
			return false, nil, nil
		}
		raced = true
		if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), newTestNode(true, ""), ""); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, testNode, errors.New("changed"))
	})
	got, err := Cordon(t.Context(), client, testNode, "uid", Mark{ID: "x"})
	if err != nil || !got.ByOther || !raced {
		t.Errorf("got %+v, %v", got, err)
	}
}

func getNode(t *testing.T, client *fake.Clientset) *corev1.Node {
	t.Helper()
	node, err := client.CoreV1().Nodes().Get(t.Context(), testNode, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}
