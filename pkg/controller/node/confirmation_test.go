// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// gpu keeps workload away that the pool does not want on its hosts.
var gpu = v1alpha1.NodeTaint{Key: "gpu", Effect: v1alpha1.NodeTaintNoSchedule}

// TestLeft: labels and taints that were written before stay when the instance or the pool is another object that says nothing of them, until
// somebody confirms what the host is to have.
func TestLeft(t *testing.T) {
	changed := func(i *v1alpha1.WindowsInstance) {
		i.Status.History = []v1alpha1.Operation{{ID: "o", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, HostChanged: true}}
	}
	known := func(name, uid string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			changed(i)
			i.Status.Pool = &v1alpha1.KnownPool{Name: name, UID: types.UID("pool-" + uid)}
		}
	}
	for _, tt := range []struct {
		name     string
		instance func(*v1alpha1.WindowsInstance)
		node     func(*corev1.Node)
		left     bool
	}{
		{name: "it waits for a confirmation", instance: func(i *v1alpha1.WindowsInstance) {
			changed(i)
			i.Status.UnconfirmedSince = new(metav1.Now())
		}, left: true},
		{name: "the host has only been logged in to", instance: func(i *v1alpha1.WindowsInstance) {
			i.Status.CurrentRevision, i.Status.DesiredRevision = "", ""
			meta.RemoveStatusCondition(&i.Status.Conditions, v1alpha1.ConditionConfigured)
		}, left: true},
		{name: "the pool is made again", instance: known("pool", "before"), left: true},
		{name: "the pool is the one that was seen", instance: known("pool", "now")},
		{name: "the host was in another pool", instance: known("other", "before")},
		{name: "an earlier release did not note the pool", instance: changed},
		{name: "the host has no history, and was confirmed"},
		{name: "its Node was never written", instance: func(i *v1alpha1.WindowsInstance) { i.Status.UnconfirmedSince = new(metav1.Now()) }, node: func(n *corev1.Node) {
			n.Annotations, n.Labels = nil, map[string]string{"kubernetes.io/os": "windows", "theirs": "1"}
			n.Spec.Taints = []corev1.Taint{defaultTaint}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup(t, host(), registered(), newPool(map[string]string{"rack": "8"}, gpu))
			s.reconcile()
			if s.node().Labels["rack"] != "8" {
				t.Fatal("the Node was not written")
			}
			if tt.node != nil {
				update(s, s.node(), tt.node)
			}
			update(s, newPool(nil), func(p *v1alpha1.WindowsNodePool) {
				p.UID, p.Spec.Template = "pool-now", v1alpha1.PoolTemplate{}
			})
			if tt.instance != nil {
				update(s, host(), tt.instance)
			}
			before := s.node()
			writes, _ := s.reconcile()
			if tt.left != (len(writes) == 0) {
				t.Errorf("it wrote %v:\n%s", writes, cmp.Diff(before.Spec.Taints, s.node().Spec.Taints))
			}
			instance := host()
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(instance), instance); err != nil {
				t.Fatal(err)
			}
			labels, err := Labels(t.Context(), s.identities(), instance, before)
			if err != nil || !equality.Semantic.DeepEqual(labels, s.node().Labels) {
				t.Errorf("foretold are %v, %v", labels, err)
			}
		})
	}
}

// TestSettled: only a Node that would lose nothing of what a template has given it, and get nothing, is settled.
func TestSettled(t *testing.T) {
	for _, tt := range []struct {
		name     string
		pool     func(*v1alpha1.WindowsNodePool)
		node     func(*corev1.Node)
		instance func(*v1alpha1.WindowsInstance)
		without  bool // the pool does not exist
		want     bool
	}{
		{name: "the same", want: true},
		{name: "the template has other settings", pool: func(p *v1alpha1.WindowsNodePool) {
			p.Spec.Template.Kubelet = &v1alpha1.KubeletTemplate{MaxPods: new(int32(9))}
		}, want: true},
		{name: "the template has lost a label", pool: func(p *v1alpha1.WindowsNodePool) { delete(p.Spec.Template.NodeLabels, "rack") }},
		{name: "the template has another value", pool: func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeLabels["rack"] = "9" }},
		{name: "the template has one more", pool: func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeLabels["row"] = "1" }},
		{name: "the template has lost its taints", pool: func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeTaints = nil }},
		{name: "the template has one more taint", pool: func(p *v1alpha1.WindowsNodePool) {
			p.Spec.Template.NodeTaints = append(p.Spec.Template.NodeTaints, v1alpha1.NodeTaint{Key: "more", Effect: v1alpha1.NodeTaintNoSchedule})
		}},
		{name: "others have added a label and a taint", node: func(n *corev1.Node) {
			n.Labels["more"] = "1"
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "more", Effect: corev1.TaintEffectNoSchedule})
		}, want: true},
		{name: "the pool does not exist", without: true},
		{name: "it is in no pool", instance: func(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef = nil }, without: true},
		{name: "it was never written", pool: func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeTaints = nil }, node: func(n *corev1.Node) { n.Annotations = nil }, want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := newPool(map[string]string{"rack": "8"}, gpu)
			s := newSetup(t, host(), registered(), pool)
			s.reconcile()
			instance, node := host(), s.node()
			if tt.pool != nil {
				tt.pool(pool)
			}
			if tt.node != nil {
				tt.node(node)
			}
			if tt.instance != nil {
				tt.instance(instance)
			}
			if tt.without {
				pool = nil
			}
			if got, err := Settled(t.Context(), s.client, instance, pool, node); got != tt.want || err != nil {
				t.Errorf("it is settled: %v, %v", got, err)
			}
		})
	}
}

// TestSettledUnknown: a revision that cannot be read says nothing.
func TestSettledUnknown(t *testing.T) {
	pool := newPool(nil)
	pool.UID, pool.Status.UpdateRevision = "p", "pool-1"
	pool.Status.RolledBack = &v1alpha1.PoolRollback{Revision: "pool-1", To: "pool-0", RequestedBy: "alice"}
	want := errors.New("the API does not answer")
	s := newSetup(t, host(), registered(), newPool(nil))
	s.reconcile()
	if got, err := Settled(t.Context(), unreadable{err: want}, host(), pool, s.node()); got || !errors.Is(err, want) {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestConfirmationWakes: the Node is written as soon as the host waits for no confirmation any more.
func TestConfirmationWakes(t *testing.T) {
	waits := host(func(i *v1alpha1.WindowsInstance) { i.Status.UnconfirmedSince = new(metav1.Now()) })
	seen := host(func(i *v1alpha1.WindowsInstance) { i.Status.Pool = &v1alpha1.KnownPool{Name: "pool", UID: "u"} })
	said := host(func(i *v1alpha1.WindowsInstance) { i.Status.CurrentRevision = "" })
	for name, from := range map[string]*v1alpha1.WindowsInstance{"it waited": waits, "its pool": seen, "what it has": said} {
		if !instanceChanged.Update(event.UpdateEvent{ObjectOld: from, ObjectNew: host()}) {
			t.Errorf("%s: it does not wake the controller", name)
		}
	}
}
