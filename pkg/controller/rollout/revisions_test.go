// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
)

// TestRevisionsOfLongNames: the API server takes what is kept of a pool, and it is found again, however long the name of the pool is.
func TestRevisionsOfLongNames(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if errs := apivalidation.ValidateObjectMetaAccessor(o, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata")); len(errs) > 0 {
				return errs.ToAggregate()
			}
			return c.Create(ctx, o, opts...)
		},
	}).Build()
	r := &Reconciler{client: c, applier: &apply.Applier{Client: c, Live: c, FieldManager: fieldManager}}
	long := strings.Repeat("a", 200)
	for n, name := range []string{"p", long[:63], long[:64], long[:63] + "b", long + "a", long[:199] + ".a", long[:198] + "-.a", long + long[:53]} {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(strconv.Itoa(n))}}
		kept, err := r.keepRevision(t.Context(), pool, nil)
		if err != nil {
			t.Errorf("%d characters: %v", len(name), err)
			continue
		}
		var list appsv1.ControllerRevisionList
		if err := c.List(t.Context(), &list, client.InNamespace("ns"), client.MatchingLabels(pool.RevisionLabels())); err != nil || len(list.Items) != 1 {
			t.Errorf("%d characters: %d have its labels %v: %v", len(name), len(list.Items), pool.RevisionLabels(), err)
		}
		if found, err := r.revisionsOf(t.Context(), pool); err != nil || len(found) != 1 || found[0].Name != kept {
			t.Errorf("%d characters: got %+v, %v", len(name), found, err)
		}
		if revision.Had(&v1alpha1.WindowsInstance{Status: v1alpha1.WindowsInstanceStatus{PoolRevision: kept}}, pool) != kept {
			t.Errorf("%d characters: %s is not one of its revisions", len(name), kept)
		}
	}
}

// TestRevisions: each template that a pool gets is kept once, the newest one with the highest number, and ten at most.
func TestRevisions(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}}
	// One of a pool that had the name before.
	former := newRevision(&v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "former"}}, "p-former", []byte("{}"), 70)
	c := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&appsv1.ControllerRevision{}, metav1.ObjectNameField, byName).WithObjects(pool, former).Build()
	r := &Reconciler{client: c, applier: &apply.Applier{Client: c, Live: c, FieldManager: fieldManager}}
	var instances []*v1alpha1.WindowsInstance
	keep := func(rack string) string {
		t.Helper()
		pool.Spec.Template.NodeLabels = map[string]string{"rack": rack}
		name, err := r.keepRevision(t.Context(), pool, instances)
		if err != nil {
			t.Fatal(err)
		}
		pool.Status.UpdateRevision = name
		return name
	}
	list := func() []appsv1.ControllerRevision {
		t.Helper()
		revisions, err := r.revisionsOf(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		for i := range revisions {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(&revisions[i]), &revisions[i]); err != nil {
				t.Fatal(err)
			}
		}
		return revisions
	}
	first := keep("1")
	if again := keep("1"); again != first || len(list()) != 1 {
		t.Errorf("%s, then %s: %v", first, again, list())
	}
	second := keep("2")
	if got := list(); second == first || len(got) != 2 || got[0].Name != first || got[0].Revision != 1 || got[1].Name != second || got[1].Revision != 2 {
		t.Errorf("got %+v", got)
	}
	var kept struct {
		Spec struct{ Template v1alpha1.PoolTemplate }
	}
	if err := json.Unmarshal(list()[1].Data.Raw, &kept); err != nil || kept.Spec.Template.NodeLabels["rack"] != "2" {
		t.Errorf("it has %s: %v", list()[1].Data.Raw, err)
	}
	if keep("1"); list()[1].Name != first || list()[1].Revision != 3 {
		t.Errorf("somebody went back: %+v", list())
	}
	for n := range 15 {
		keep(strconv.Itoa(n + 10))
	}
	if got := list(); len(got) != maxRevisions || got[len(got)-1].Name != pool.Status.UpdateRevision {
		t.Errorf("%d are kept", len(got))
	}
	// It gets another key to log in with, which is not part of it: nobody goes back to one that was replaced.
	pool.Spec.Template.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "key"}
	if name := keep("24"); name != list()[maxRevisions-1].Name || strings.Contains(string(list()[maxRevisions-1].Data.Raw), "credentials") {
		t.Errorf("it is %s: %s", name, list()[maxRevisions-1].Data.Raw)
	}
	// The status was lost, say in a backup.
	pool.Status.UpdateRevision = ""
	if name := keep("24"); name != list()[maxRevisions-1].Name || len(list()) != maxRevisions {
		t.Errorf("it is %s of %d", name, len(list()))
	}
	// Somebody has deleted it.
	if err := c.Delete(t.Context(), &list()[maxRevisions-1]); err != nil {
		t.Fatal(err)
	}
	if name, got := keep("24"), list(); len(got) != maxRevisions || got[maxRevisions-1].Name != name {
		t.Errorf("%s was not made again: %d are kept", name, len(got))
	}
	// Somebody has changed it, with which nobody can go back to it.
	changed := list()[maxRevisions-1]
	owners := changed.OwnerReferences
	changed.OwnerReferences = nil
	if err := c.Update(t.Context(), &changed); err != nil {
		t.Fatal(err)
	}
	if name, err := r.keepRevision(t.Context(), pool, instances); describeUnkept(pool, err) == "" {
		t.Errorf("it is %q, and %v is said", name, err)
	}
	changed.OwnerReferences = owners
	if err := c.Update(t.Context(), &changed); err != nil {
		t.Fatal(err)
	}
	// Somebody has removed its label while the controller did not run.
	changed.Labels, pool.Status.UpdateRevision = nil, ""
	if err := c.Update(t.Context(), &changed); err != nil {
		t.Fatal(err)
	}
	if name := keep("24"); name != changed.Name || list()[maxRevisions-1].Name != name {
		t.Errorf("%s has no label, and the newest is %s", changed.Name, list()[maxRevisions-1].Name)
	}
	// Hosts can go back to what they have, however long ago that was.
	has, hadBefore := list()[1].Name, list()[0].Name
	instances = []*v1alpha1.WindowsInstance{{Status: v1alpha1.WindowsInstanceStatus{PoolRevision: has, PreviousPoolRevision: hadBefore}}}
	for n := range 15 {
		keep(strconv.Itoa(n + 50))
	}
	if got := list(); got[0].Name != hadBefore || got[1].Name != has {
		t.Errorf("%s and %s are not among the %d that are kept", has, hadBefore, len(got))
	}
	// So can a pool to those that all of them worked with.
	worked := list()[2].Name
	pool.Status.WorkedRevisions = []string{worked}
	for n := range 15 {
		keep(strconv.Itoa(n + 70))
	}
	if got := list(); got[2].Name != worked {
		t.Errorf("%s is not among the %d that are kept", worked, len(got))
	}
	// The programs are part of it, as far as they are known.
	programs, known := document.Payload{}, false
	r.payload = func() (document.Payload, bool) { return programs, known }
	before := pool.Status.UpdateRevision
	if name := keep("84"); name != before {
		t.Errorf("it is %s while it is not known what hosts get, want %s", name, before)
	}
	known, programs.Files = true, []document.PayloadFile{{Name: "kubelet.exe", Path: `C:\k\kubelet.exe`, Version: "v1.36.1", SHA256: "12"}}
	after := keep("84")
	newest := list()[len(list())-1]
	if kept, ok := revision.Kept(pool, &newest); after == before || newest.Name != after || !ok || kept.Programs[0].Version != "v1.36.1" || kept.Template.NodeLabels["rack"] != "84" {
		t.Errorf("%s is %s: %s", after, newest.Name, newest.Data.Raw)
	}
}

// TestForeignRevisions: what somebody makes in the name of a pool does not take its numbers.
func TestForeignRevisions(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}}
	named := newRevision(pool, "p-forged", []byte(`{"spec":{"template":{}}}`), math.MaxInt64)
	numbered := []byte(`{"spec":{"template":{"nodeLabels":{"rack":"9"}}}}`)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(named, newRevision(pool, revision.Name(pool, numbered), numbered, math.MaxInt64)).Build()
	r := &Reconciler{client: c, applier: &apply.Applier{Client: c, Live: c, FieldManager: fieldManager}}
	name, err := r.keepRevision(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	if own, err := r.revisionsOf(t.Context(), pool); err != nil || len(own) != 2 || own[1].Name != name || own[1].Revision != 1 {
		t.Errorf("got %+v, %v", own, err)
	}

}

// TestCachedRevisions: whoever may create ControllerRevisions does not fill the memory of the controller. What it reads of its own stays.
func TestCachedRevisions(t *testing.T) {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}}
	pool.Spec.Template.NodeLabels = map[string]string{"rack": "1"}
	own := revision.Of(pool, document.Payload{})
	data, err := own.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const much = 250 << 10
	object := func() *appsv1.ControllerRevision {
		o := newRevision(pool, revision.Name(pool, data), data, 3)
		o.UID, o.ResourceVersion, o.CreationTimestamp = "of-object", "7", metav1.NewTime(rollbackStart)
		o.DeletionTimestamp = new(metav1.NewTime(rollbackStart))
		o.Annotations = map[string]string{v1alpha1.UndoOverAnnotation: rollbackStart.Format(time.RFC3339)}
		return o
	}
	large := func(o *appsv1.ControllerRevision) {
		o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("m", much)}}
		o.Finalizers = []string{strings.Repeat("f", much)}
		o.GenerateName = strings.Repeat("g", much)
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{Name: strings.Repeat("o", much)})
		o.Labels["large"], o.Annotations["large"] = strings.Repeat("l", much), strings.Repeat("a", much)
	}
	expandedName := ""
	junk := func(length int) []byte {
		return []byte(strings.Replace(string(data), "{", `{"junk":"`+strings.Repeat("j", length)+`",`, 1))
	}
	for _, tt := range []struct {
		name string
		edit func(*appsv1.ControllerRevision)
		// want edits what the cache keeps of our own.
		want func(*appsv1.ControllerRevision)
	}{
		{"our own", func(*appsv1.ControllerRevision) {}, func(*appsv1.ControllerRevision) {}},
		{"our own, which somebody has filled", func(o *appsv1.ControllerRevision) { o.Data.Raw = junk(revision.MaxBytes / 2) }, func(*appsv1.ControllerRevision) {}},
		{"longer than ours are", func(o *appsv1.ControllerRevision) { o.Data.Raw = junk(revision.MaxBytes) }, func(o *appsv1.ControllerRevision) { o.Data.Raw = nil }},
		{"much longer than ours once it is encoded", func(o *appsv1.ControllerRevision) {
			*o = *newRevision(pool, o.Name, []byte(`{"spec":{"template":{}},"programs":[`+strings.Repeat("{},", 2000)+`{}]}`), 3)
			expanded, err := revision.Decode(o.Data.Raw)
			if err != nil {
				t.Fatal(err)
			}
			encoded, err := expanded.Encode()
			if err != nil || len(encoded) <= revision.MaxBytes {
				t.Fatalf("%d bytes, %v", len(encoded), err)
			}
			o.Name = revision.Name(pool, encoded)
			o.UID, o.ResourceVersion, o.CreationTimestamp, o.DeletionTimestamp = "of-object", "7", metav1.NewTime(rollbackStart), new(metav1.NewTime(rollbackStart))
			o.Annotations = map[string]string{}
			expandedName = o.Name
		}, func(o *appsv1.ControllerRevision) { o.Name, o.Data.Raw, o.Annotations = expandedName, nil, nil }},
		{"of nobody", func(o *appsv1.ControllerRevision) { o.OwnerReferences = nil }, func(o *appsv1.ControllerRevision) { o.OwnerReferences, o.Data.Raw = nil, nil }},
		{"of another kind", func(o *appsv1.ControllerRevision) { o.OwnerReferences[0].Kind = "DaemonSet" }, func(o *appsv1.ControllerRevision) { o.OwnerReferences, o.Data.Raw = nil, nil }},
		{"of a pool with a name that none has", func(o *appsv1.ControllerRevision) { o.OwnerReferences[0].Name = strings.Repeat("p", much) }, func(o *appsv1.ControllerRevision) { o.OwnerReferences, o.Data.Raw = nil, nil }},
		{"of a pool that has never had it", func(o *appsv1.ControllerRevision) { o.OwnerReferences[0].UID = "former" }, func(o *appsv1.ControllerRevision) { o.OwnerReferences[0].UID, o.Data.Raw = "former", nil }},
		{"with a name for other data", func(o *appsv1.ControllerRevision) { o.Name = "p-1" }, func(o *appsv1.ControllerRevision) { o.Name, o.Data.Raw = "p-1", nil }},
		{"with a note that we do not write", func(o *appsv1.ControllerRevision) {
			o.Annotations[v1alpha1.UndoOverAnnotation] = strings.Repeat("n", much)
		}, func(o *appsv1.ControllerRevision) { o.Annotations = nil }},
	} {
		got, want := object(), object()
		tt.edit(got)
		large(got)
		tt.want(want)
		for kind, by := range CacheByObject() {
			if _, ok := kind.(*appsv1.ControllerRevision); !ok {
				continue
			}
			cached, err := by.Transform(got)
			if diff := cmp.Diff(want, cached); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got)\n%.2000s", tt.name, err, diff)
			}
		}
	}
}

// TestLongestRevision: the longest template that the API takes is kept, with programs besides.
func TestLongestRevision(t *testing.T) {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: strings.Repeat("p", 253), UID: types.UID(strings.Repeat("u", 36))}}
	template, value := &pool.Spec.Template, strings.Repeat("v", 63)
	key := func(n int) string { return fmt.Sprintf("%s/%063d", strings.Repeat("k", 253), n) }
	template.NodeLabels = map[string]string{}
	for n := range 64 {
		template.NodeLabels[key(n)] = value
	}
	for n := range 32 {
		template.NodeTaints = append(template.NodeTaints, v1alpha1.NodeTaint{Key: key(n), Value: value, Effect: v1alpha1.NodeTaintPreferNoSchedule})
	}
	threshold := strings.Repeat("9", 64)
	template.Kubelet = &v1alpha1.KubeletTemplate{EvictionHard: map[string]string{"memory.available": threshold, "nodefs.available": threshold, "imagefs.available": threshold}}
	template.Containerd = &v1alpha1.ContainerdTemplate{SandboxImage: strings.Repeat("i", 512), LogLevel: v1alpha1.ContainerdLogDebug}
	var programs document.Payload
	for range 32 {
		programs.Files = append(programs.Files, document.PayloadFile{
			Name: value, Component: value, Version: value, Path: strings.Repeat(`\`, 100), Size: 1 << 30, SHA256: strings.Repeat("1", 64),
		})
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	r := &Reconciler{client: c, applier: &apply.Applier{Client: c, Live: c, FieldManager: fieldManager}, payload: func() (document.Payload, bool) { return programs, true }}
	name, err := r.keepRevision(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	kept := &appsv1.ControllerRevision{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, kept); err != nil {
		t.Fatal(err)
	}
	if _, ok := revision.Kept(pool, trimmed(kept)); !ok {
		t.Errorf("of %d bytes %d are in the cache", len(kept.Data.Raw), len(trimmed(kept).Data.Raw))
	}
}

// TestRevisionsFromBackup: a revision that somebody has restored from a manifest, whose keys are sorted, is one of the pool as before: the
// numbers go on after it, the pool can have its template again, and what was noted in it counts.
func TestRevisionsFromBackup(t *testing.T) {
	k := newKeeper(t)
	programs := document.Payload{Files: []document.PayloadFile{{Name: "kubelet.exe", Path: `C:\k\kubelet.exe`, SHA256: "12"}}}
	k.payload = func() (document.Payload, bool) { return programs, true }
	k.keep("1")
	backup := k.keep("2")
	made := backup.Data.Raw
	var keys map[string]any
	err := json.Unmarshal(made, &keys)
	if err != nil {
		t.Fatal(err)
	}
	if backup.Data.Raw, err = json.Marshal(keys); err != nil || bytes.Equal(backup.Data.Raw, made) {
		t.Fatalf("%s has the same order: %v", backup.Data.Raw, err)
	}
	asked := metav1.NewTime(rollbackStart)
	backup.Annotations = map[string]string{v1alpha1.UndoOverAnnotation: asked.UTC().Format(time.RFC3339)}
	if err := k.c.Update(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	if over, err := k.isOver(t.Context(), k.pool, &v1alpha1.PoolUndo{Revision: backup.Name, RequestedAt: &asked}); err != nil || !over {
		t.Errorf("what was noted in it does not count: %v", err)
	}
	if got := k.keep("3"); got.Revision != 3 {
		t.Errorf("the next one has number %d", got.Revision)
	}
	if got := k.keep("2"); got.Name != backup.Name || got.Revision != 4 {
		t.Errorf("the pool has it again: %+v", got)
	}
	k.delete(backup)
	k.restore()
	if got := k.keep("2"); !bytes.Equal(got.Data.Raw, made) {
		t.Errorf("it is made again as %s", got.Data.Raw)
	}
}

// TestImplausibleNumbers: somebody gives a revision of a pool, or one that they have made in its name, a number that none can follow. The
// pool counts on as before, can have that template again, and such revisions are deleted in time.
func TestImplausibleNumbers(t *testing.T) {
	for _, number := range []int64{maxGap + 100, 1<<40 - 1, math.MaxInt64} {
		k := newKeeper(t)
		// As somebody does who deletes it and makes it with another number.
		renumber := func(kept *appsv1.ControllerRevision) {
			t.Helper()
			kept.Revision = number
			if err := k.c.Update(t.Context(), kept); err != nil {
				t.Fatal(err)
			}
		}
		only := k.keep("1")
		renumber(only)
		k.pool.Status.UpdateRevision = ""
		if got := k.keep("1"); got.Revision != 1 {
			t.Errorf("the only one has number %d, want 1 in place of %d", got.Revision, number)
		}
		forged := revision.Revision{Template: v1alpha1.PoolTemplate{NodeLabels: map[string]string{"rack": "forged"}}}
		data, err := forged.Encode()
		if err != nil {
			t.Fatal(err)
		}
		name := revision.Name(k.pool, data)
		if err := k.c.Create(t.Context(), newRevision(k.pool, name, data, number)); err != nil {
			t.Fatal(err)
		}
		if got := k.keep("2"); got.Revision != 2 {
			t.Errorf("one is forged as number %d, and the next one has %d", number, got.Revision)
		}
		renumber(k.keep("3"))
		if got := k.keep("1"); got.Revision != 3 {
			t.Errorf("the pool has the first one again, as number %d", got.Revision)
		}
		third := k.keep("3")
		if third.Revision != 4 {
			t.Errorf("the pool has one again that was number %d, as %d", number, third.Revision)
		}
		k.keep("4")
		renumber(third)
		k.pool.Status.WorkedRevisions = []string{third.Name}
		k.delete(third)
		if k.restore(); k.read(third.Name).Revision != 6 {
			t.Errorf("it is made again, as number %d", k.read(third.Name).Revision)
		}
		for n := range maxRevisions {
			k.keep(strconv.Itoa(n + 10))
		}
		if got := k.read(name); got != nil {
			t.Errorf("the one that is forged as number %d is still there: %v", number, got)
		}
		if got := k.read(k.pool.Status.UpdateRevision); got.Revision != 6+maxRevisions {
			t.Errorf("the newest has number %d", got.Revision)
		}
	}
}

// TestRevisionsInUse: what a host has, is given or can go back to is neither deleted nor stays deleted. What it was given once is.
func TestRevisionsInUse(t *testing.T) {
	operation := func(phase v1alpha1.OperationPhase) func(*v1alpha1.WindowsInstanceStatus, string) {
		return func(s *v1alpha1.WindowsInstanceStatus, name string) {
			s.Operation = &v1alpha1.Operation{Phase: phase, PoolRevision: name}
		}
	}
	for _, tt := range []struct {
		name string
		set  func(*v1alpha1.WindowsInstanceStatus, string)
		used bool
	}{
		{"it has it", func(s *v1alpha1.WindowsInstanceStatus, name string) { s.PoolRevision = name }, true},
		{"it had it before", func(s *v1alpha1.WindowsInstanceStatus, name string) { s.PreviousPoolRevision = name }, true},
		{"it is to get it", func(s *v1alpha1.WindowsInstanceStatus, name string) { s.DesiredPoolRevision = name }, true},
		{"an operation waits", operation(v1alpha1.OperationPending), true},
		{"an operation runs", operation(v1alpha1.OperationRunning), true},
		{"an operation failed", operation(v1alpha1.OperationFailed), false},
		{"it has nothing to do with it", func(*v1alpha1.WindowsInstanceStatus, string) {}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, host := newKeeper(t), &v1alpha1.WindowsInstance{}
			k.instances = []*v1alpha1.WindowsInstance{host}
			first := k.keep("0")
			tt.set(&host.Status, first.Name)
			exists := func() bool { return k.read(first.Name) != nil }
			for n := range maxRevisions {
				k.keep(strconv.Itoa(n + 1))
			}
			if exists() != tt.used {
				t.Errorf("after %d others it exists: %t", maxRevisions, exists())
			}
			k.delete(first)
			if k.restore(); exists() != tt.used {
				t.Errorf("it was deleted, and exists again: %t", exists())
			}
		})
	}
}
