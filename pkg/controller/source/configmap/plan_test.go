// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// made is an instance as it is made from an entry.
func made(name string, edits ...func(*v1alpha1.WindowsInstance)) v1alpha1.WindowsInstance {
	i := *handMade(name)
	i.Annotations = map[string]string{v1alpha1.SourceAnnotation: sourceOfEntry(theConfigMap, name)}
	i.Spec.PoolRef = &v1alpha1.PoolReference{Name: theConfigMap.Name}
	for _, edit := range edits {
		edit(&i)
	}
	return i
}

// leaving is what is edited of an instance that is being removed.
func leaving(operations ...*v1alpha1.Operation) func(*v1alpha1.WindowsInstance) {
	return func(i *v1alpha1.WindowsInstance) {
		i.Finalizers, i.DeletionTimestamp = []string{v1alpha1.HostFinalizer}, new(metav1.NewTime(time.Unix(1000, 0)))
		for _, o := range operations {
			i.Status.Operation = o
		}
	}
}

// unreached is the removal of a host that does not answer.
func unreached() *v1alpha1.Operation {
	return &v1alpha1.Operation{
		Type: v1alpha1.OperationRemove, Phase: v1alpha1.OperationFailed, StartedAt: new(metav1.NewTime(time.Unix(1000, 0))),
		Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepConnect, State: v1alpha1.StepFailed}},
	}
}

func applied(manager string, operation metav1.ManagedFieldsOperationType, sub string) func(*v1alpha1.WindowsInstance) {
	return func(i *v1alpha1.WindowsInstance) {
		i.Annotations = nil
		i.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Operation: operation, Subresource: sub}}
	}
}

// Whose instance it is decides whether its host is removed when no entry asks for it.
func TestBelongs(t *testing.T) {
	const apply = metav1.ManagedFieldsOperationApply
	other := types.NamespacedName{Namespace: theConfigMap.Namespace, Name: "others"}
	for _, tt := range []struct {
		name string
		edit func(*v1alpha1.WindowsInstance)
		want bool
	}{
		{"as it was made", func(*v1alpha1.WindowsInstance) {}, true},
		{"moved to another pool", func(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef = nil }, true},
		{"made by hand, and in the pool", func(i *v1alpha1.WindowsInstance) { i.Annotations = nil }, false},
		{"of another ConfigMap", func(i *v1alpha1.WindowsInstance) {
			i.Annotations[v1alpha1.SourceAnnotation] = sourceOfEntry(other, "10.1.42.1")
		}, false},
		{"without its annotation, which we applied", applied(fieldManager, apply, ""), true},
		{"without its annotation, which somebody else applied", applied("kubectl", apply, ""), false},
		{"of which we only updated something", applied(fieldManager, metav1.ManagedFieldsOperationUpdate, ""), false},
		{"of which we only applied the status", applied(fieldManager, apply, "status"), false},
		{"without its annotation, and moved to another pool", func(i *v1alpha1.WindowsInstance) {
			applied(fieldManager, apply, "")(i)
			i.Spec.PoolRef.Name = "others"
		}, false},
		{"without its annotation, and in no pool", func(i *v1alpha1.WindowsInstance) {
			applied(fieldManager, apply, "")(i)
			i.Spec.PoolRef = nil
		}, false},
		{"in the pool of that name in another namespace", func(i *v1alpha1.WindowsInstance) {
			applied(fieldManager, apply, "")(i)
			i.Namespace = "other"
		}, false},
	} {
		instance := made("10.1.42.1", tt.edit)
		if got := belongs(&instance, theConfigMap); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
	for _, tt := range []struct {
		name   string
		pool   string
		source v1alpha1.PoolSource
		want   bool
	}{
		{"its pool", theConfigMap.Name, emptyPool().Spec.Source, true},
		{"a pool of another name", "mine", emptyPool().Spec.Source, false},
		{"the pool of another ConfigMap", theConfigMap.Name, v1alpha1.PoolSource{ConfigMap: &v1alpha1.SourceReference{Name: "others"}}, false},
		{"the pool of a MachineSet", theConfigMap.Name, v1alpha1.PoolSource{MachineSet: &v1alpha1.SourceReference{Name: theConfigMap.Name}}, false},
	} {
		pool := emptyPool()
		pool.Name, pool.Spec.Source = tt.pool, tt.source
		if got := asksFor(pool, theConfigMap); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

func TestMakePlan(t *testing.T) {
	// What a plan does, by names and keys.
	type outcome struct {
		Apply, Waiting, Ours, Remove, Leaving, Problems, Unready []string
		Unreached, Kept                                          int
	}
	since := func(at int64) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) { i.CreationTimestamp = metav1.NewTime(time.Unix(at, 0)) }
	}
	pending := func(string) Resolution { return Resolution{Pending: true} }
	one := func(string) Resolution { return table(map[string][]string{"x": {"10.1.42.1"}})("x") }
	for _, tt := range []struct {
		name      string
		data      map[string]string // nil: there is no ConfigMap
		instances []v1alpha1.WindowsInstance
		deleted   string // an instance that the cache does not know to be deleted
		dns       ResolveFunc
		want      outcome
		none      bool // no host is left
	}{
		{name: "nothing", none: true},
		{
			name: "a name that was not looked up yet", data: map[string]string{"a.example.com": "username=a", "b.example.com": "username=a"},
			instances: []v1alpha1.WindowsInstance{made("b.example.com")}, dns: pending,
			// What is there already is kept as its entry says meanwhile.
			want: outcome{Apply: []string{"b.example.com"}, Waiting: []string{"a.example.com"}, Ours: []string{"b.example.com"}, Unready: []string{"a.example.com"}},
		},
		{
			name: "of two entries of one host the older instance counts", data: map[string]string{"a.example.com": "username=a", "b.example.com": "username=a"},
			instances: []v1alpha1.WindowsInstance{made("a.example.com", since(2000)), made("b.example.com", since(1000))}, dns: one,
			want: outcome{Apply: []string{"b.example.com"}, Ours: []string{"a.example.com", "b.example.com"}, Problems: []string{"a.example.com"}, Kept: 1},
		},
		{
			name: "the ConfigMap is gone", instances: []v1alpha1.WindowsInstance{made("10.1.42.2"), made("10.1.42.1")},
			want: outcome{Ours: []string{"10.1.42.1", "10.1.42.2"}, Remove: []string{"10.1.42.1", "10.1.42.2"}}, none: true,
		},
		{
			name: "removals that have begun", data: map[string]string{"10.1.42.1": "username=a", "10.1.42.5": "username=a"},
			instances: []v1alpha1.WindowsInstance{
				made("10.1.42.1", leaving()), made("10.1.42.2", leaving(unreached())), made("10.1.42.3"), made("10.1.42.4"), made("10.1.42.5"),
			},
			deleted: "10.1.42.3",
			want: outcome{
				Apply: []string{"10.1.42.5"}, Waiting: []string{"10.1.42.1"}, Ours: []string{"10.1.42.1", "10.1.42.2", "10.1.42.3", "10.1.42.4", "10.1.42.5"},
				Remove: []string{"10.1.42.4"}, Leaving: []string{"10.1.42.1", "10.1.42.2", "10.1.42.3"}, Unreached: 1,
			},
		},
		{
			name: "typing errors, also in the only entry", data: map[string]string{"10.1.42.1": "usrname=a"},
			instances: []v1alpha1.WindowsInstance{made("10.1.42.1"), made("10.1.42.2")},
			want:      outcome{Ours: []string{"10.1.42.1", "10.1.42.2"}, Remove: []string{"10.1.42.2"}, Problems: []string{"10.1.42.1"}, Kept: 1},
		},
		{
			name: "what others have made", data: map[string]string{"10.1.42.1": "username=a"}, instances: []v1alpha1.WindowsInstance{*handMade("10.1.42.1"), *handMade("10.1.42.2")},
			want: outcome{Problems: []string{"10.1.42.1"}, Unready: []string{"10.1.42.1"}}, none: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var cm *corev1.ConfigMap
			if tt.data != nil {
				cm = configMapOf(tt.data)
			}
			p := makePlan(theConfigMap, cm, tt.instances, func(i *v1alpha1.WindowsInstance) bool {
				return !i.DeletionTimestamp.IsZero() || i.Name == tt.deleted
			}, tt.dns)
			got := outcome{Ours: slices.Sorted(maps.Keys(p.ours)), Remove: namesOf(p.remove), Unreached: p.unreached, Kept: p.kept}
			for _, e := range p.apply {
				got.Apply = append(got.Apply, e.Name)
			}
			for _, e := range p.waiting {
				got.Waiting = append(got.Waiting, e.Name)
			}
			for name, leaves := range p.leaving {
				if leaves {
					got.Leaving = append(got.Leaving, name)
				}
			}
			slices.Sort(got.Leaving)
			for _, entry := range p.unready {
				got.Unready = append(got.Unready, entry.Key)
			}
			for _, problem := range p.problems {
				got.Problems = append(got.Problems, problem.Key)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if p.leavesNone() != tt.none {
				t.Errorf("leaves no host: %v", p.leavesNone())
			}
		})
	}
}
