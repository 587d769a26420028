// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package revision_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
)

var programs = document.Payload{Files: []document.PayloadFile{
	{Name: "kubelet.exe", Component: "kubelet", Version: "v1.36.1", Path: `C:\k\kubelet.exe`, Size: 7, SHA256: strings.Repeat("1", 64)},
}}

func newPool() *v1alpha1.WindowsNodePool {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}}
	pool.Spec.Template.NodeLabels = map[string]string{"rack": "7"}
	pool.Spec.Template.CredentialsSecretRef, pool.Spec.Template.Bastion = &v1alpha1.SecretReference{Name: "key"}, &v1alpha1.Bastion{Address: "10.0.0.9"}
	return pool
}

// TestKept: what is kept is found again, without credentials; what somebody has made or changed is not used.
func TestKept(t *testing.T) {
	pool := newPool()
	r := revision.Of(pool, programs)
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	object := func() *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: revision.Name(pool, data), OwnerReferences: []metav1.OwnerReference{{UID: "uid", Controller: new(true)}}},
			Data:       runtime.RawExtension{Raw: data},
		}
	}
	kept, ok := revision.Kept(pool, object())
	if !ok || strings.Contains(string(data), "key") || strings.Contains(string(data), "bastion") {
		t.Fatalf("%s is not kept", data)
	}
	if diff := cmp.Diff(programs, kept.Payload()); diff != "" || kept.Template.NodeLabels["rack"] != "7" || pool.Spec.Template.CredentialsSecretRef == nil {
		t.Errorf("got %+v (-want +got)\n%s", kept, diff)
	}
	if name, err := revision.NameOf(pool, programs); err != nil || name != object().Name {
		t.Errorf("its name is %s: %v", name, err)
	}
	for what, edit := range map[string]func(*appsv1.ControllerRevision){
		"other programs": func(o *appsv1.ControllerRevision) {
			o.Data.Raw = []byte(strings.ReplaceAll(string(data), "111", "222"))
		},
		"of another pool":   func(o *appsv1.ControllerRevision) { o.OwnerReferences[0].UID = "former" },
		"of nobody":         func(o *appsv1.ControllerRevision) { o.OwnerReferences = nil },
		"what is no object": func(o *appsv1.ControllerRevision) { o.Data.Raw = []byte("[") },
	} {
		forged := object()
		if edit(forged); cmp.Equal(forged, object()) {
			t.Fatal("nothing was changed")
		}
		if _, ok := revision.Kept(pool, forged); ok {
			t.Errorf("%s is used", what)
		}
	}
}

// TestMade: a revision from a backup, whose keys are sorted, is one of the pool, and so is one that another release has encoded. The
// latter is not used, because some of its fields may have another meaning.
func TestMade(t *testing.T) {
	pool := newPool()
	r := revision.Of(pool, programs)
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal(data, &keys); err != nil {
		t.Fatal(err)
	}
	sorted, err := json.Marshal(keys)
	if err != nil || cmp.Equal(sorted, data) {
		t.Fatalf("%s has the same order: %v", sorted, err)
	}
	old := []byte(`{"spec":{"template":{"fieldOfAnotherRelease":1}}}`)
	for _, tt := range []struct {
		name, of   string
		data       []byte
		kept, made bool
	}{
		{"as it was made", "uid", data, true, true},
		{"from a backup", "uid", sorted, true, true},
		{"of another release", "uid", old, false, true},
		{"of another pool", "former", data, false, false},
		{"of another pool and release", "former", old, false, false},
		{"of another content", "uid", []byte("{}"), false, false},
	} {
		object := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: revision.Name(pool, data), OwnerReferences: []metav1.OwnerReference{{UID: types.UID(tt.of), Controller: new(true)}}},
			Data:       runtime.RawExtension{Raw: tt.data},
		}
		if cmp.Equal(tt.data, old) {
			object.Name = revision.Name(pool, old)
		}
		if _, kept := revision.Kept(pool, object); kept != tt.kept || revision.Made(pool, object) != tt.made {
			t.Errorf("%s: kept %t, made %t", tt.name, kept, revision.Made(pool, object))
		}
	}
}

// TestBackTo: which host has which revision while one is rolled back.
func TestBackTo(t *testing.T) {
	const digest = "0123456789abcdef0123456789abcdef"
	newest, before, older := "p-9"+digest[1:], "p-8"+digest[1:], "p-7"+digest[1:]
	pool := newPool()
	pool.Status.RolledBack = &v1alpha1.PoolRollback{Revision: newest, To: before, Instances: []string{"broken"}}
	for _, tt := range []struct{ name, had, want string }{
		{"works", newest, ""},
		{"broken", newest, before},
		{"broken", before, before},
		{"waited", older, older},
		{"new", "", before},
		{"was in another pool", "q-1" + digest[1:], before},
	} {
		i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: tt.name}, Status: v1alpha1.WindowsInstanceStatus{PoolRevision: tt.had}}
		if got := revision.BackTo(i, pool, newest); got != tt.want {
			t.Errorf("%s, which had %q, gets %q, want %q", tt.name, tt.had, got, tt.want)
		}
		if got := revision.BackTo(i, pool, older); got != "" {
			t.Errorf("the pool has another revision, and %s gets %q", tt.name, got)
		}
		if got := revision.BackTo(i, nil, newest); got != "" {
			t.Errorf("a host in no pool gets %q", got)
		}
	}
}

// TestBackToUndone: all hosts go back from a revision that somebody has undone, but those that cannot.
func TestBackToUndone(t *testing.T) {
	const digest = "0123456789abcdef0123456789abcdef"
	newest, before, older := "p-9"+digest[1:], "p-8"+digest[1:], "p-7"+digest[1:]
	pool := newPool()
	pool.Status.RolledBack = &v1alpha1.PoolRollback{Revision: newest, To: before, RequestedBy: "alice", WithoutPrograms: []string{"keeps"}}
	for _, tt := range []struct{ name, had, want string }{
		{"works", newest, before}, {"is back", before, before}, {"waited", older, before}, {"new", "", before}, {"keeps", newest, ""}, {"keeps", older, older}, {"keeps", "", ""},
	} {
		i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: tt.name}, Status: v1alpha1.WindowsInstanceStatus{PoolRevision: tt.had}}
		if got := revision.BackTo(i, pool, newest); got != tt.want {
			t.Errorf("%s, which had %q, gets %q, want %q", tt.name, tt.had, got, tt.want)
		}
		if got := revision.BackTo(i, pool, older); got != "" {
			t.Errorf("the pool has another revision, and %s gets %q", tt.name, got)
		}
		if got := revision.WouldGoBackTo(i, pool, newest); got != before {
			t.Errorf("%s keeps the programs of %q", tt.name, got)
		}
	}
}

// TestWouldGoBackTo: where all hosts work with the newest revision, each keeps the programs of the one that it had before.
func TestWouldGoBackTo(t *testing.T) {
	const digest = "0123456789abcdef0123456789abcdef"
	newest, before, older := "p-9"+digest[1:], "p-8"+digest[1:], "p-7"+digest[1:]
	for _, tt := range []struct{ name, current, had, hadBefore, want string }{
		{"all work with it", newest, newest, before, before},
		{"all work with it, and this one is new", newest, newest, "", ""},
		{"this one was in another pool", newest, newest, "q-1" + digest[1:], ""},
		{"not all have it yet", before, newest, older, before},
		{"this one does not have it yet", older, before, older, before},
	} {
		pool := newPool()
		pool.Status.CurrentRevision = tt.current
		i := &v1alpha1.WindowsInstance{Status: v1alpha1.WindowsInstanceStatus{PoolRevision: tt.had, PreviousPoolRevision: tt.hadBefore}}
		if got := revision.WouldGoBackTo(i, pool, newest); got != tt.want {
			t.Errorf("%s: it keeps the programs of %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestHas: a revision has programs by their digests, whatever they are called.
func TestHas(t *testing.T) {
	r := revision.Revision{Programs: []revision.Program{{Name: "a", SHA256: "1"}, {Name: "b", SHA256: "2"}}}
	if !r.Has(nil) || !r.Has([]revision.Program{{Name: "c", SHA256: "2"}}) || r.Has([]revision.Program{{Name: "a", SHA256: "1"}, {Name: "b", SHA256: "3"}}) {
		t.Error("it has something else")
	}
}
