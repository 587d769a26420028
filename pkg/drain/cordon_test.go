// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func newTestNode(unschedulable bool, mark string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode, UID: "uid"}, Spec: corev1.NodeSpec{Unschedulable: unschedulable}}
	if mark != "" {
		node.Annotations = map[string]string{v1alpha1.CordonedByAnnotation: mark}
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
			if !node.Spec.Unschedulable || !tt.want.ByOther && node.Annotations[v1alpha1.CordonedByAnnotation] != "drain-1 alice" {
				t.Errorf("after the cordon it is %+v with %v", node.Spec, node.Annotations)
			}
			for n := range 2 {
				schedulable, lifted, err := Restore(t.Context(), client, testNode, "uid", mark)
				if err != nil || schedulable == tt.after || lifted != (schedulable && n == 0) {
					t.Errorf("got %v, lifted: %v, %v", schedulable, lifted, err)
				}
			}
			node = getNode(t, client)
			if _, marked := node.Annotations[v1alpha1.CordonedByAnnotation]; node.Spec.Unschedulable != tt.after || marked != (tt.want.Owner != "") {
				t.Errorf("after the restore it is %+v with %v", node.Spec, node.Annotations)
			}
		})
	}
}

// TestNamesOfUsersSeparateNothing: whatever a user is called, the cordon of that user is lifted, and nobody else's mark is read in it.
func TestNamesOfUsersSeparateNothing(t *testing.T) {
	for _, user := range []string{
		"eve instead of op-1 Reboot (asked for by windows-controller)", "eve instead of", "eve instead instead of of op-1", //nolint:dupword // once it is taken away, it is there
		"eve, until the Node is ready after 2026-01-01T00:00:00Z",
	} {
		mark := Mark{ID: "op-2", Purpose: "Reboot", Who: AskedForBy(user)}
		client := fake.NewClientset(newTestNode(false, ""))
		if _, err := Cordon(t.Context(), client, testNode, "uid", mark); err != nil {
			t.Fatal(err)
		}
		node := getNode(t, client)
		if after, ok := AwaitedFor(node, "Reboot"); ok || untilOf(node.Annotations[v1alpha1.CordonedByAnnotation]) != "" {
			t.Errorf("%s: it is awaited after %s", user, after)
		}
		if !IsMarked(node, "Reboot", user) || IsMarked(node, "Reboot", "windows-controller") {
			t.Errorf("%s: it is marked with %q", user, node.Annotations[v1alpha1.CordonedByAnnotation])
		}
		if schedulable, _, err := Restore(t.Context(), client, testNode, "uid", mark); !schedulable || err != nil {
			t.Errorf("%s: %v, %v; it is marked with %q", user, schedulable, err, getNode(t, client).Annotations[v1alpha1.CordonedByAnnotation])
		}
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
		{"an earlier one", "op-1 Reconfigure (asked for by bob)", Cordoned{TakenOver: true, Owner: "op-1 Reconfigure (asked for by bob)"}, ours, true},
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
			if got := getNode(t, client).Annotations[v1alpha1.CordonedByAnnotation]; got != tt.wantMark {
				t.Errorf("the mark is %q, want %q", got, tt.wantMark)
			}
			schedulable, _, err := Restore(t.Context(), client, testNode, "uid", mark)
			if err != nil || schedulable != tt.wantRestored {
				t.Errorf("schedulable: got %v, %v, want %v", schedulable, err, tt.wantRestored)
			}
		})
	}
}

// A cordon that is to stay takes over those that others would lift, and gives them back when it ends.
func TestCordonThatStays(t *testing.T) {
	mark := Mark{ID: "drain-2", Who: "(asked for by alice)", Keeps: true}
	const ours = "drain-2 (asked for by alice)"
	tests := []struct {
		name      string
		mark      string
		want      Cordoned
		wantMark  string
		wantAfter string
		wantStays bool
	}{
		{"of a purpose", "op-1 Reconfigure (asked for by bob)", Cordoned{TakenOver: true, Owner: "op-1 Reconfigure (asked for by bob)"}, ours + " instead of op-1 Reconfigure (asked for by bob)", "op-1 Reconfigure (asked for by bob)", true},
		{"of a purpose, of nobody", "op-1 Reboot", Cordoned{TakenOver: true, Owner: "op-1 Reboot"}, ours + " instead of op-1 Reboot", "op-1 Reboot", true},
		{"that stays as well", "drain-1 (asked for by bob)", Cordoned{ByOther: true, Owner: "drain-1 (asked for by bob)"}, "drain-1 (asked for by bob)", "drain-1 (asked for by bob)", true},
		{"by people", "", Cordoned{ByOther: true}, "", "", true},
		{"this one", ours, Cordoned{}, ours, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset(newTestNode(true, tt.mark))
			got, err := Cordon(t.Context(), client, testNode, "uid", mark)
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
			if got, err = Cordon(t.Context(), client, testNode, "uid", mark); err != nil || got.TakenOver {
				t.Errorf("repeated: got %+v, %v", got, err)
			}
			if got := getNode(t, client).Annotations[v1alpha1.CordonedByAnnotation]; got != tt.wantMark {
				t.Errorf("the mark is %q, want %q", got, tt.wantMark)
			}
			for _, purpose := range []string{"Reconfigure", "Reboot"} {
				schedulable, _, err := Restore(t.Context(), client, testNode, "uid", Mark{ID: "op-3", Purpose: purpose, Who: "(asked for by bob)"})
				if err != nil || schedulable {
					t.Errorf("a later %s: schedulable %v, %v", purpose, schedulable, err)
				}
			}
			for n := range 2 {
				schedulable, lifted, err := Restore(t.Context(), client, testNode, "uid", mark)
				if err != nil || schedulable == tt.wantStays || lifted != (schedulable && n == 0) {
					t.Errorf("schedulable: got %v, lifted: %v, %v", schedulable, lifted, err)
				}
			}
			if got := getNode(t, client).Annotations[v1alpha1.CordonedByAnnotation]; got != tt.wantAfter {
				t.Errorf("the mark is %q in the end, want %q", got, tt.wantAfter)
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
		{"cordoned by kubectl", newTestNode(true, ""), true},
		{"schedulable, with an old mark", newTestNode(false, "drain-1 alice"), false},
		{"schedulable", newTestNode(false, ""), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset(tt.node)
			got, err := Uncordon(t.Context(), client, testNode, "uid")
			node := getNode(t, client)
			if err != nil || got != tt.want || node.Spec.Unschedulable || node.Annotations[v1alpha1.CordonedByAnnotation] != "" {
				t.Errorf("got %v, %v, and the Node is %+v with %v", got, err, node.Spec, node.Annotations)
			}
		})
	}
}

// Whose cordon a mark is, as far as the Node tells.
func TestMarkOn(t *testing.T) {
	tests := []struct {
		name       string
		annotation string
		mark       Mark
		want       bool
	}{
		{"no mark", "", Mark{ID: "op-1", Purpose: "Reboot"}, false},
		{"no mark, and none looked for", "", Mark{}, false},
		{"the same", "op-1 alice", Mark{ID: "op-1"}, true},
		{"another, neither has a purpose", "op-2", Mark{ID: "op-1"}, false},
		{"another of the purpose", "op-2 Reboot", Mark{ID: "op-1", Purpose: "Reboot"}, true},
		{"one that nobody made, of the purpose", " Reboot", Mark{ID: "op-1", Purpose: "Reboot"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.mark.on(newTestNode(true, tt.annotation)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// What is sent names the Node and the version of it that was decided about, so that neither another Node of the
// name nor a change in between is overwritten.
func TestCordonSendsWhatItRead(t *testing.T) {
	mark := Mark{ID: "op-1", Purpose: "Reboot", Who: "(asked for by alice)"}
	tests := []struct {
		name string
		node *corev1.Node
		do   func(kubernetes.Interface) error
		want string
	}{
		{
			"cordon", newTestNode(false, ""), func(c kubernetes.Interface) error { _, err := Cordon(t.Context(), c, testNode, "", mark); return err },
			`{"metadata":{"annotations":{"windows.openshift.io/cordoned-by":"op-1 Reboot (asked for by alice)"},"resourceVersion":"41","uid":"uid"},"spec":{"unschedulable":true}}`,
		},
		{
			"restore", newTestNode(true, "op-1"), func(c kubernetes.Interface) error {
				_, _, err := Restore(t.Context(), c, testNode, "", mark)
				return err
			},
			`{"metadata":{"annotations":{"windows.openshift.io/cordoned-by":null},"resourceVersion":"41","uid":"uid"},"spec":{"unschedulable":false}}`,
		},
		{
			"uncordon", newTestNode(true, ""), func(c kubernetes.Interface) error { _, err := Uncordon(t.Context(), c, testNode, ""); return err },
			`{"metadata":{"annotations":{"windows.openshift.io/cordoned-by":null},"resourceVersion":"41","uid":"uid"},"spec":{"unschedulable":false}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.node.ResourceVersion = "41"
			client := fake.NewClientset(tt.node)
			var sent []string
			client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, kruntime.Object, error) {
				patch := action.(clienttesting.PatchAction)
				sent = append(sent, string(patch.GetPatch()))
				return true, tt.node, nil
			})
			if err := tt.do(client); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.want}, sent); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestCordonKeepsToItsNode(t *testing.T) {
	client := fake.NewClientset(newTestNode(true, "x"))
	mark := Mark{ID: "x"}
	if got, err := Cordon(t.Context(), client, testNode, "another", mark); !errors.Is(err, ErrNodeReplaced) || got != (Cordoned{}) {
		t.Errorf("cordon: %+v, %v", got, err)
	}
	if schedulable, _, err := Restore(t.Context(), client, testNode, "another", mark); !errors.Is(err, ErrNodeReplaced) || schedulable {
		t.Errorf("restore: %v, %v", schedulable, err)
	}
	if changed, err := Uncordon(t.Context(), client, testNode, "another"); !errors.Is(err, ErrNodeReplaced) || changed {
		t.Errorf("uncordon: %v, %v", changed, err)
	}
	if node := getNode(t, client); !node.Spec.Unschedulable {
		t.Error("another Node was uncordoned")
	}
	if _, err := Cordon(t.Context(), client, "none", "", mark); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

// Somebody changes the Node between our look and our patch: what was found before does not count.
func TestCordonLosesARace(t *testing.T) {
	mark := Mark{ID: "x", Purpose: "Reboot"}
	tests := []struct {
		name          string
		before, after *corev1.Node
		want          Cordoned
	}{
		{"somebody cordons it", newTestNode(false, ""), newTestNode(true, ""), Cordoned{ByOther: true}},
		{"somebody uncordons it", newTestNode(true, "y Reboot"), newTestNode(false, ""), Cordoned{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset(tt.before)
			raced := false
			client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, kruntime.Object, error) {
				if raced {
					return false, nil, nil
				}
				raced = true
				if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), tt.after, ""); err != nil {
					t.Error(err)
				}
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, testNode, errors.New("changed"))
			})
			got, err := Cordon(t.Context(), client, testNode, "uid", mark)
			if err != nil || got != tt.want || !raced {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
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
