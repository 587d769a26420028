// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package base

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func as(name string) context.Context {
	return genericapirequest.WithUser(context.Background(), &user.DefaultInfo{Name: name})
}

// Without an authorizer nothing is allowed.
func TestRequireFailsClosed(t *testing.T) {
	err := Require(as("jane"), nil, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "jane"}}, func(string) error { return nil })
	if !apierrors.IsInternalError(err) {
		t.Errorf("got %v", err)
	}
}

// All checks are made in their order, then the next one; the first that refuses ends it.
func TestGuards(t *testing.T) {
	refused := errors.New("refused")
	tests := []struct {
		name    string
		obj     runtime.Object
		first   error
		second  error
		without bool // without a next one
		want    []string
		code    func(error) bool
	}{
		{"all pass", &corev1.Pod{}, nil, nil, false, []string{"first", "second", "next"}, func(err error) bool { return err == nil }},
		{"there is none after them", &corev1.Pod{}, nil, nil, true, []string{"first", "second"}, func(err error) bool { return err == nil }},
		{"the first refuses", &corev1.Pod{}, refused, nil, false, []string{"first"}, func(err error) bool { return errors.Is(err, refused) }},
		{"the second refuses", &corev1.Pod{}, nil, refused, false, []string{"first", "second"}, func(err error) bool { return errors.Is(err, refused) }},
		{"something else", &corev1.Node{}, nil, nil, false, nil, apierrors.IsInternalError},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var asked []string
			note := func(name string, err error) error { asked = append(asked, name); return err }
			next := func(context.Context, runtime.Object) error { return note("next", nil) }
			if tt.without {
				next = nil
			}
			err := Guard(next,
				func(context.Context, *corev1.Pod) error { return note("first", tt.first) },
				func(context.Context, *corev1.Pod) error { return note("second", tt.second) })(t.Context(), tt.obj)
			if diff := cmp.Diff(tt.want, asked); diff != "" || !tt.code(err) {
				t.Errorf("new: got %v, asked (-want +got)\n%s", err, diff)
			}

			asked = nil
			old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "old"}}
			update := func(_ context.Context, _, got runtime.Object) error {
				if got != runtime.Object(old) {
					t.Errorf("the object before is %v", got)
				}
				return note("next", nil)
			}
			if tt.without {
				update = nil
			}
			check := func(name string, err error) func(context.Context, *corev1.Pod, *corev1.Pod) error {
				return func(_ context.Context, _, got *corev1.Pod) error {
					if got != old {
						t.Errorf("the object before is %v", got)
					}
					return note(name, err)
				}
			}
			err = GuardUpdate(update, check("first", tt.first), check("second", tt.second))(t.Context(), tt.obj, old)
			if diff := cmp.Diff(tt.want, asked); diff != "" || !tt.code(err) {
				t.Errorf("changed: got %v, asked (-want +got)\n%s", err, diff)
			}
		})
	}
	if err := GuardUpdate[*corev1.Pod](nil)(t.Context(), &corev1.Pod{}, &corev1.Node{}); !apierrors.IsInternalError(err) {
		t.Errorf("something else before: got %v", err)
	}
}

func TestDeleters(t *testing.T) {
	const ours = "system:serviceaccount:operator:windows-controller"
	since, cause := time.Now(), errors.New("no server")
	tests := []struct {
		name                string
		ctx                 context.Context //nolint:containedctx // a row of a table
		controller, cluster bool
		namespace           bool // is asked about
	}{
		{"our controller", as(ours), true, false, true},
		{"the garbage collector", as("system:serviceaccount:kube-system:generic-garbage-collector"), false, true, false},
		{"the namespace controller", as("system:serviceaccount:kube-system:namespace-controller"), false, true, true},
		{"all of kube-controller-manager", as("system:kube-controller-manager"), false, true, true},
		{"a person", as("jane"), false, false, false},
		{"nobody", context.Background(), false, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			var err error
			d := Deleters{Controllers: []string{ours}, NamespaceDeleted: func(_ context.Context, namespace string) (time.Time, error) {
				if asked++; namespace != "ns" {
					t.Errorf("asked for %q", namespace)
				}
				return since, err
			}}
			if d.Controller(tt.ctx) != tt.controller || d.Cluster(tt.ctx) != tt.cluster {
				t.Errorf("controller %v, cluster %v", d.Controller(tt.ctx), d.Cluster(tt.ctx))
			}
			if got, err := d.EndOfNamespace(tt.ctx, "ns"); err != nil || got.Equal(since) != tt.namespace || (asked > 0) != tt.namespace {
				t.Errorf("since %s, %v, asked %d times", got, err, asked)
			}
			err = cause
			if got, err := d.EndOfNamespace(tt.ctx, "ns"); (err != nil) != tt.namespace || !got.IsZero() || err != nil && !apierrors.IsInternalError(err) {
				t.Errorf("unknown: since %s, %v", got, err)
			}
			d.NamespaceDeleted = nil
			if got, err := d.EndOfNamespace(tt.ctx, "ns"); err != nil || !got.IsZero() {
				t.Errorf("nobody knows: since %s, %v", got, err)
			}
		})
	}
}

func TestStrategy(t *testing.T) {
	scheme := runtime.NewScheme()
	s := NewStrategy(scheme)
	if s.Scheme != scheme || !s.NamespaceScoped() || s.AllowCreateOnUpdate(t.Context()) || s.AllowUnconditionalUpdate(t.Context()) || s.GenerateName("a-") == "a-" {
		t.Errorf("got %+v", s)
	}
	paths := func(fields map[fieldpath.APIVersion]*fieldpath.Set) string {
		var out []string
		fields["windows.openshift.io/v1alpha1"].Iterate(func(p fieldpath.Path) { out = append(out, p.String()) })
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	if got, want := paths(s.GetResetFields()), ".status"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := paths(StatusResetFields()), ".metadata.annotations .metadata.finalizers .metadata.labels .metadata.ownerReferences .spec"; got != want {
		t.Errorf("of the status: got %s, want %s", got, want)
	}
}

// The generation counts what controllers must act on: the spec, and that the object goes.
func TestNextGeneration(t *testing.T) {
	now := metav1.Now()
	at := func(deleted *metav1.Time) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Generation: 3, DeletionTimestamp: deleted}
	}
	for _, tt := range []struct {
		name         string
		changed, old *metav1.ObjectMeta
		spec, before string
		want         int64
	}{
		{"nothing", at(nil), at(nil), "a", "a", 3},
		{"the spec", at(nil), at(nil), "b", "a", 4},
		{"it goes", at(&now), at(nil), "a", "a", 4},
		{"it goes already", at(&now), at(&now), "a", "a", 3},
		{"the spec, while it goes", at(&now), at(&now), "b", "a", 4},
	} {
		if got := NextGeneration(tt.changed, tt.old, tt.spec, tt.before); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestKeepMetadata(t *testing.T) {
	old := &metav1.ObjectMeta{
		Name: "old", Labels: map[string]string{"l": "old"}, Annotations: map[string]string{"a": "old"}, Finalizers: []string{"old"}, OwnerReferences: []metav1.OwnerReference{{Name: "old"}},
	}
	changed := &metav1.ObjectMeta{
		Name: "new", Labels: map[string]string{"l": "new"}, Annotations: map[string]string{"a": "new"}, Finalizers: []string{"new"}, OwnerReferences: []metav1.OwnerReference{{Name: "new"}},
	}
	KeepMetadata(changed, old)
	want := old.DeepCopy()
	want.Name = "new"
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTable(t *testing.T) {
	columns := []metav1.TableColumnDefinition{{Name: "Name"}}
	cells := func(pod *corev1.Pod, name, _ string) []any { return []any{name, pod.Spec.NodeName} }
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: "7"}, Spec: corev1.PodSpec{NodeName: "win-1"}}
	table, err := Table(&pod, nil, columns, cells)
	if err != nil || table.ResourceVersion != "7" || len(table.ColumnDefinitions) != 1 || len(table.Rows) != 1 || table.Rows[0].Cells[1] != "win-1" {
		t.Errorf("got %+v, %v", table, err)
	}
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "more", RemainingItemCount: new(int64(4))}, Items: []corev1.Pod{pod, pod}}
	for _, none := range []bool{false, true} {
		table, err = Table(list, &metav1.TableOptions{NoHeaders: none}, columns, cells)
		if err != nil || table.ResourceVersion != "9" || table.Continue != "more" || table.RemainingItemCount == nil || *table.RemainingItemCount != 4 || len(table.Rows) != 2 ||
			(len(table.ColumnDefinitions) == 0) != none {
			t.Errorf("without headers %v: got %+v, %v", none, table, err)
		}
	}
	if _, err := Table(&corev1.Node{}, nil, columns, cells); !apierrors.IsInternalError(err) {
		t.Errorf("something else: got %v", err)
	}
}

// The status has a strategy of its own, and that of the object stays.
func TestNewStatusREST(t *testing.T) {
	of := &genericregistry.Store{}
	status := NewStatusREST(of, struct{ StatusStrategy }{})
	if status.store == of || of.UpdateStrategy != nil || of.ResetFieldsStrategy != nil {
		t.Error("the object has the strategy of its status")
	}
	if status.store.UpdateStrategy == nil || status.store.ResetFieldsStrategy == nil {
		t.Error("the status has none")
	}
}
