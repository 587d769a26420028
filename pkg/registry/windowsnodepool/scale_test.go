// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	scaleapi "k8s.io/client-go/scale/scheme"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
)

var machineSetResource = schema.GroupResource{Group: "machine.openshift.io", Resource: "machinesets"}

// machineSets has the MachineSet winworker in namespace default.
type machineSets struct {
	scale scaleapi.Scale
	// conflicts is how often somebody else changes it just before it is updated.
	conflicts int
	// refuse is what reads (get) and writes (update) end with.
	refuseGet, refuseUpdate error

	sent []metav1.PatchOptions
	gets int
}

func (m *machineSets) Get(_ context.Context, namespace, name string) (*scaleapi.Scale, error) {
	m.gets++
	if namespace != "default" || name != "winworker" {
		return nil, fmt.Errorf("asked for %s/%s", namespace, name)
	}
	return m.scale.DeepCopy(), m.refuseGet
}

func (m *machineSets) Update(_ context.Context, namespace, name string, scale *scaleapi.Scale, options metav1.PatchOptions) (*scaleapi.Scale, error) {
	m.sent = append(m.sent, options)
	version, _ := strconv.Atoi(m.scale.ResourceVersion)
	if m.conflicts > 0 {
		m.conflicts--
		version++
		m.scale.ResourceVersion = strconv.Itoa(version)
	}
	switch {
	case namespace != "default" || name != "winworker":
		return nil, fmt.Errorf("asked for %s/%s", namespace, name)
	case m.refuseUpdate != nil:
		return nil, m.refuseUpdate
	case scale.ResourceVersion != m.scale.ResourceVersion:
		return nil, apierrors.NewConflict(machineSetResource, name, errors.New("changed"))
	}
	m.scale.Spec.Replicas = scale.Spec.Replicas
	m.scale.ResourceVersion = strconv.Itoa(version + 1)
	return m.scale.DeepCopy(), nil
}

// pools is a store with one pool.
type pools struct{ pool *windows.WindowsNodePool }

func (p pools) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if p.pool == nil || name != p.pool.Name {
		return nil, apierrors.NewNotFound(windows.Resource("windowsnodepools"), name)
	}
	return p.pool, nil
}

func newScale() (*ScaleREST, *machineSets) {
	m := &machineSets{scale: scaleapi.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "winworker", Namespace: "default", UID: "m", ResourceVersion: "70", Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "scale"},
			{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate},
			{Manager: "hpa", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "scale"},
		}},
		Spec:   scaleapi.ScaleSpec{Replicas: 2},
		Status: scaleapi.ScaleStatus{Replicas: 1},
	}}
	pool := validPool()
	pool.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
	return &ScaleREST{pools: pools{pool}, source: m}, m
}

// setReplicas is a request that changes what was read.
func setReplicas(n int32, edit ...func(*scaleapi.Scale)) rest.UpdatedObjectInfo {
	return rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		scale := old.DeepCopyObject().(*scaleapi.Scale) //nolint:forcetypeassert // nothing else is updated
		scale.Spec.Replicas = n
		for _, e := range edit {
			e(scale)
		}
		return scale, nil
	})
}

// The scale of a pool is that of its MachineSet, with the identity of the pool.
func TestScaleGet(t *testing.T) {
	r, m := newScale()
	got, err := r.Get(t.Context(), "p", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := m.scale.DeepCopy()
	want.ObjectMeta = metav1.ObjectMeta{
		Name: "p", Namespace: "default", UID: "u", CreationTimestamp: metav1.NewTime(time.Unix(1000, 0)), ResourceVersion: "70", ManagedFields: m.scale.ManagedFields,
	}
	if diff := cmp.Diff(runtime.Object(want), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	table, err := r.ConvertToTable(t.Context(), got, nil)
	if err != nil || len(table.Rows) != 1 {
		t.Fatalf("got %v, %v", table, err)
	}
	if diff := cmp.Diff([]any{"p", int64(2), int64(1)}, table.Rows[0].Cells[:3]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var header []string
	for _, c := range table.ColumnDefinitions {
		header = append(header, c.Name+" "+c.Type+" "+c.Format)
	}
	if diff := cmp.Diff([]string{"Name string name", "Desired integer ", "Current integer ", "Age string "}, header); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if kind := r.GroupVersionKind(schema.GroupVersion{}); kind.String() != "autoscaling/v1, Kind=Scale" {
		t.Errorf("it is a %s", kind)
	}
}

// What cannot be scaled says how its hosts are added and removed, and what fails says at which object.
func TestScaleOfNoMachineSet(t *testing.T) {
	tooMany := apierrors.NewTooManyRequests("wait", 3)
	for _, tt := range []struct {
		name   string
		pool   string
		source windows.PoolSource
		fail   error
		code   int32
		want   string
	}{
		{"made by hand", "p", windows.PoolSource{Instances: &windows.InstancesSource{}}, nil, http.StatusMethodNotAllowed, `WindowsNodePool "p" cannot be scaled: its hosts are WindowsInstances created by hand`},
		{"made from a ConfigMap", "p", windows.PoolSource{ConfigMap: &windows.SourceReference{Name: "c"}}, nil, http.StatusMethodNotAllowed, `WindowsNodePool "p" cannot be scaled: its hosts are the entries of ConfigMap default/c`},
		{"no such pool", "q", validPool().Spec.Source, nil, http.StatusNotFound, "not found"},
		{"the cluster refuses", "p", validPool().Spec.Source, tooMany, http.StatusTooManyRequests, `scaling WindowsNodePool "p" by MachineSet default/winworker: wait`},
		{"the cluster is away", "p", validPool().Spec.Source, errors.New("no route"), http.StatusInternalServerError, `scaling WindowsNodePool "p" by MachineSet default/winworker: no route`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, m := newScale()
			r.pools.(pools).pool.Spec.Source = tt.source
			m.refuseGet = tt.fail
			check := func(verb string, err error) {
				t.Helper()
				var status apierrors.APIStatus
				if !errors.As(err, &status) || status.Status().Code != tt.code || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: got %v, want %d with %q", verb, err, tt.code, tt.want)
				}
			}
			_, err := r.Get(t.Context(), tt.pool, nil)
			check("get", err)
			_, _, err = r.Update(t.Context(), tt.pool, setReplicas(3), nil, nil, false, &metav1.UpdateOptions{})
			check("update", err)
			if tt.fail != nil { // of the write
				m.refuseGet, m.refuseUpdate = nil, tt.fail
				_, _, err = r.Update(t.Context(), tt.pool, setReplicas(3), nil, nil, false, &metav1.UpdateOptions{})
				check("write", err)
			} else if m.gets > 0 {
				t.Error("a MachineSet was read")
			}
		})
	}
	if tooMany.ErrStatus.Message != "wait" {
		t.Error("the error of the cluster was changed")
	}
}

// The MachineSet is scaled in the name of whoever asked for it, if it is still the one that was read.
func TestScaleUpdate(t *testing.T) {
	uid := func(u types.UID) rest.UpdatedObjectInfo {
		return preconditions{setReplicas(5), &metav1.Preconditions{UID: &u}}
	}
	at := func(version string) rest.UpdatedObjectInfo {
		return setReplicas(5, func(s *scaleapi.Scale) { s.ResourceVersion = version })
	}
	fields := func(entries ...metav1.ManagedFieldsEntry) rest.UpdatedObjectInfo {
		return setReplicas(5, func(s *scaleapi.Scale) { s.ManagedFields = entries })
	}
	entry := func(manager string, second int64) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Time: new(metav1.NewTime(time.Unix(second, 0)))}
	}
	refused := errors.New("refused")
	dry := []string{metav1.DryRunAll}
	for _, tt := range []struct {
		name      string
		info      rest.UpdatedObjectInfo
		options   metav1.UpdateOptions
		validate  rest.ValidateObjectUpdateFunc
		conflicts int
		sent      []metav1.PatchOptions
		want      func(error) bool // nil: it succeeds
	}{
		{name: "set", info: setReplicas(5), options: metav1.UpdateOptions{FieldManager: "m", DryRun: dry}, sent: []metav1.PatchOptions{{FieldManager: "m", DryRun: dry}}},
		{name: "the version that was read", info: at("70"), options: metav1.UpdateOptions{FieldManager: "m"}, sent: []metav1.PatchOptions{{FieldManager: "m"}}},
		{name: "whatever the version is", info: at(""), options: metav1.UpdateOptions{FieldManager: "m"}, sent: []metav1.PatchOptions{{FieldManager: "m"}}},
		{name: "this pool", info: uid("u"), options: metav1.UpdateOptions{FieldManager: "m"}, sent: []metav1.PatchOptions{{FieldManager: "m"}}},
		{name: "any pool", info: preconditions{setReplicas(5), &metav1.Preconditions{}}, options: metav1.UpdateOptions{FieldManager: "m"}, sent: []metav1.PatchOptions{{FieldManager: "m"}}},
		{name: "by a client without a name", info: fields(entry("a", 2), entry("b", 3), entry("c", 1)), sent: []metav1.PatchOptions{{FieldManager: "b"}}},
		{name: "by nobody", info: fields(), sent: []metav1.PatchOptions{{}}},
		{name: "changed meanwhile", info: setReplicas(5), options: metav1.UpdateOptions{FieldManager: "m"}, conflicts: 4, sent: make([]metav1.PatchOptions, 5)},
		{name: "changed all the time", info: setReplicas(5), conflicts: 5, sent: make([]metav1.PatchOptions, 5), want: apierrors.IsConflict},
		{name: "changed since it was read", info: at("70"), conflicts: 1, sent: make([]metav1.PatchOptions, 1), want: apierrors.IsConflict},
		{name: "an older version", info: at("69"), want: apierrors.IsConflict},
		{name: "another pool", info: uid("other"), want: apierrors.IsConflict},
		{name: "less than none", info: setReplicas(-1), want: apierrors.IsInvalid},
		{name: "another kind", info: rest.DefaultUpdatedObjectInfo(&metav1.Status{}), want: func(err error) bool { return err != nil }},
		{name: "admission", info: setReplicas(5), want: func(err error) bool { return errors.Is(err, refused) }, validate: func(_ context.Context, obj, old runtime.Object) error {
			if obj.(*scaleapi.Scale).Spec.Replicas == 5 && old.(*scaleapi.Scale).Spec.Replicas == 2 { //nolint:forcetypeassert // nothing else is scaled
				return refused
			}
			return nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, m := newScale()
			m.conflicts = tt.conflicts
			got, created, err := r.Update(t.Context(), "p", tt.info, nil, tt.validate, false, &tt.options)
			if created || (err == nil) != (tt.want == nil) || err != nil && !tt.want(err) {
				t.Fatalf("got %v", err)
			}
			if len(tt.sent) > 1 || tt.want != nil {
				if len(m.sent) != len(tt.sent) {
					t.Errorf("sent %d times, want %d", len(m.sent), len(tt.sent))
				}
			} else if diff := cmp.Diff(tt.sent, m.sent); diff != "" {
				t.Errorf("sent (-want +got)\n%s", diff)
			}
			if want := map[bool]int32{true: 5, false: 2}[err == nil]; m.scale.Spec.Replicas != want {
				t.Errorf("the MachineSet has %d", m.scale.Spec.Replicas)
			}
			if err == nil {
				if scale := got.(*scaleapi.Scale); scale.Name != "p" || scale.UID != "u" || scale.Spec.Replicas != 5 || scale.ResourceVersion != m.scale.ResourceVersion {
					t.Errorf("the answer is %+v", scale)
				}
			}
		})
	}
	// None at all is a number of hosts as well.
	r, m := newScale()
	if _, _, err := r.Update(t.Context(), "p", setReplicas(0), nil, nil, false, &metav1.UpdateOptions{}); err != nil || m.scale.Spec.Replicas != 0 {
		t.Errorf("scaled to %d, %v", m.scale.Spec.Replicas, err)
	}
}

// preconditions is a request with preconditions.
type preconditions struct {
	rest.UpdatedObjectInfo
	p *metav1.Preconditions
}

func (p preconditions) Preconditions() *metav1.Preconditions { return p.p }

// A server-side apply sees what it applied before as applied, and nothing else: the MachineSet
// keeps it as an update of its scale.
func TestScaleApply(t *testing.T) {
	r, m := newScale()
	for _, apply := range []bool{false, true} {
		var seen []metav1.ManagedFieldsEntry
		info := setReplicas(4, func(s *scaleapi.Scale) { seen = s.ManagedFields })
		if _, _, err := r.Update(t.Context(), "p", info, nil, nil, apply, &metav1.UpdateOptions{FieldManager: "kubectl"}); err != nil {
			t.Fatal(err)
		}
		want := m.scale.DeepCopy().ManagedFields
		if apply {
			want[0].Operation = metav1.ManagedFieldsOperationApply
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("apply %v: (-want +got)\n%s", apply, diff)
		}
	}
}
