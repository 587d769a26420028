// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package kubelet

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// newJoined is a kubelet whose Node is registered, and known as the function says.
func newJoined(t *testing.T, known func(*corev1.Node)) (j *joined, requests func() []string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "uid"}}
	client := fake.NewClientset(node)
	client.ClearActions()
	node = node.DeepCopy()
	known(node)
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := nodes.Add(node); err != nil {
		t.Fatal(err)
	}
	j = &joined{
		JoinOptions: JoinOptions{Logf: t.Logf}, commandLine: &commandLine{program: `C:\k\kubelet.exe`}, drive: drive(t.TempDir()),
		node: "win-1", client: client, nodes: listers.NewNodeLister(nodes),
	}
	return j, func() (out []string) {
		for _, a := range client.Actions() {
			out = append(out, a.GetVerb()+" "+a.GetResource().Resource)
		}
		client.ClearActions()
		return out
	}
}

// says has a Node say whether it is ready.
func says(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	}
}

// TestReport: a status that has not changed is written every five minutes, and when somebody else has changed it.
func TestReport(t *testing.T) {
	for _, tt := range []struct {
		name  string
		known func(*corev1.Node)
		later time.Duration
		want  int
	}{
		{"it was just written", says(corev1.ConditionUnknown), time.Second, 0},
		{"nothing has changed", says(corev1.ConditionTrue), time.Minute, 0},
		{"it is taken for dead", says(corev1.ConditionUnknown), 11 * time.Second, 1},
		{"it is old", says(corev1.ConditionTrue), 6 * time.Minute, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j, requests := newJoined(t, tt.known)
			if done := j.report(t.Context()); !done || !slices.Equal(requests(), []string{"patch nodes"}) {
				t.Fatal("its first status was not written")
			}
			j.reported, j.compared = j.reported.Add(-tt.later), j.compared.Add(-tt.later)
			for range 2 {
				if !j.report(t.Context()) {
					t.Error("it could not be written")
				}
			}
			if got := requests(); len(got) != tt.want {
				t.Errorf("requests: %q", got)
			}
		})
	}
}

// TestRenew: a Lease is read only when it is not as the kubelet has left it.
func TestRenew(t *testing.T) {
	j, requests := newJoined(t, says(corev1.ConditionTrue))
	renew := func(want ...string) {
		t.Helper()
		if err := j.renew(t.Context()); err != nil {
			t.Error(err)
		}
		if got := requests(); !slices.Equal(got, want) {
			t.Errorf("requests %q, want %q", got, want)
		}
	}
	renew("get nodes", "get leases", "create leases")
	renew("update leases")
	leases := j.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.Delete(t.Context(), j.node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	requests()
	renew("update leases", "get nodes", "get leases", "create leases")
	if err := j.client.CoreV1().Nodes().Delete(t.Context(), j.node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := leases.Delete(t.Context(), j.node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	requests()
	renew("update leases", "get nodes")
}
