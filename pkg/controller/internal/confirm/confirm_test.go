// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package confirm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// instancesOf makes instances from names, each with a UID after a slash.
func instancesOf(names string) []*v1alpha1.WindowsInstance {
	var out []*v1alpha1.WindowsInstance
	for text := range strings.FieldsSeq(names) {
		name, uid, _ := strings.Cut(text, "/")
		out = append(out, &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}})
	}
	return out
}

var thePool = types.NamespacedName{Namespace: "ns", Name: "pool"}

func poolWith(annotations map[string]string) *v1alpha1.WindowsNodePool {
	return &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: thePool.Namespace, Name: thePool.Name, Annotations: annotations}}
}

func TestCovers(t *testing.T) {
	command := Command(thePool, instancesOf("a/1 b/2 c/3"))
	const before = "kubectl annotate wnp pool -n ns windows.openshift.io/confirm-removal="
	value, ok := strings.CutPrefix(strings.TrimSuffix(command, " --overwrite"), before)
	if !ok || len(value) != 8 {
		t.Fatalf("the command is %q", command)
	}
	for _, tt := range []struct {
		name, value, instances string
		want                   bool
	}{
		{"exactly these", value, "a/1 b/2 c/3", true},
		{"in another order", value, "c/3 a/1 b/2", true},
		{"one more", value, "a/1 b/2 c/3 d/4", false},
		{"one less", value, "a/1 b/2", false},
		{"one that was made again", value, "a/1 b/2 c/4", false},
		{"another name", value, "a/1 b/2 d/3", false},
		{"what any of them would be confirmed with before", "true", "a/1 b/2 c/3", false},
		{"nothing", "", "a/1 b/2 c/3", false},
		{"none wait", value, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := poolWith(map[string]string{v1alpha1.ConfirmRemovalAnnotation: tt.value})
			if got := Covers(pool, instancesOf(tt.instances)); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}

// TestCovered: what a pool remembers of a confirmation is for the instances that waited, and for no others.
func TestCovered(t *testing.T) {
	pool := poolWith(nil)
	pool.Status.ConfirmedRemovals = Remaining(instancesOf("b/2 c/3"))
	for _, tt := range []struct {
		name, instances string
		want            int
	}{
		{"exactly these", "b/2 c/3", 2},
		{"others after them", "b/2 c/3 d/4 e/5", 2},
		{"another one among them", "b/2 bb/4 c/3", 0},
		{"another one before them", "a/1 b/2 c/3", 0},
		{"one is away", "c/3 d/4", 0},
		{"one was made again", "b/2 c/4", 0},
		{"one is left", "b/2", 0},
		{"none is left", "", 0},
	} {
		if got := Covered(pool, instancesOf(tt.instances)); len(got) != tt.want || len(got) > 0 && got[0].Name != "b" {
			t.Errorf("%s: %d are covered", tt.name, len(got))
		}
	}
	if pool.Status.ConfirmedRemovals = Remaining(nil); len(Covered(pool, instancesOf("b/2 c/3"))) > 0 || pool.Status.ConfirmedRemovals != nil {
		t.Error("nothing remains, and some are covered")
	}
}

func TestWithdraw(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(poolWith(map[string]string{v1alpha1.ConfirmRemovalAnnotation: "1", "other": "stays"})).Build()
	get := func() *v1alpha1.WindowsNodePool {
		t.Helper()
		pool := &v1alpha1.WindowsNodePool{}
		if err := c.Get(t.Context(), thePool, pool); err != nil {
			t.Fatal(err)
		}
		return pool
	}
	seen, changed := get(), get()
	changed.Annotations[v1alpha1.ConfirmRemovalAnnotation] = "2"
	if err := c.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if _, err := Withdraw(t.Context(), c, seen); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict: somebody has confirmed something else since", err)
	}
	pool := get()
	for _, want := range []bool{true, false} {
		if got, err := Withdraw(t.Context(), c, pool); err != nil || got != want {
			t.Errorf("got %t, %v, want %t", got, err, want)
		}
		for where, pool := range map[string]*v1alpha1.WindowsNodePool{"at hand": pool, "in the API": get()} {
			if diff := cmp.Diff(map[string]string{"other": "stays"}, pool.Annotations); diff != "" {
				t.Errorf("annotations of the pool %s (-want +got):\n%s", where, diff)
			}
		}
	}
}
