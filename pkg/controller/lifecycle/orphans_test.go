// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// away is an API server that does not answer for one namespace.
type away struct {
	client.Reader

	namespace string
}

func (a away) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if key.Name == a.namespace {
		return errors.New("away")
	}
	return a.Reader.Get(ctx, key, obj, opts...)
}

// What has lost its namespace is deleted an hour later, and nothing else: what is in others stays, also in one that
// nobody can say anything about.
func TestOrphans(t *testing.T) {
	in := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}
	}
	f := newFixture(t,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "unknown"}},
		&v1alpha1.WindowsInstance{ObjectMeta: in("ns", "stays")}, &v1alpha1.WindowsNodePool{ObjectMeta: in("ns", "pool")},
		&v1alpha1.WindowsInstance{ObjectMeta: in("gone", "a")}, &v1alpha1.WindowsInstance{ObjectMeta: in("gone", "b")}, &v1alpha1.WindowsNodePool{ObjectMeta: in("gone", "pool")},
		&v1alpha1.WindowsInstance{ObjectMeta: in("unknown", "stays")},
		&v1alpha1.WindowsNodePool{ObjectMeta: in("without", "pool")},
	)
	f.r.live = away{f, "unknown"}
	f.r.MissingNamespaceTimeout = time.Hour
	count := func() (instances, pools int) {
		t.Helper()
		var i v1alpha1.WindowsInstanceList
		var p v1alpha1.WindowsNodePoolList
		if err := errors.Join(f.List(t.Context(), &i), f.List(t.Context(), &p)); err != nil {
			t.Fatal(err)
		}
		for _, instance := range i.Items {
			if instance.Namespace == "ns" && instance.Name != "stays" {
				t.Errorf("%s/%s is there", instance.Namespace, instance.Name)
			}
		}
		return len(i.Items), len(p.Items)
	}
	for _, tt := range []struct {
		after            time.Duration
		create           string // a namespace that comes back
		instances, pools int
	}{
		{after: 0, instances: 4, pools: 3},
		{after: 59 * time.Minute, instances: 4, pools: 3},
		{after: time.Second, create: "without", instances: 4, pools: 3},
		{after: 59 * time.Second, instances: 2, pools: 2},
	} {
		f.clock.Step(tt.after)
		if tt.create != "" {
			if err := f.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tt.create}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.r.endOrphans(t.Context()); err == nil {
			t.Error("it does not say what it could not find out")
		}
		if instances, pools := count(); instances != tt.instances || pools != tt.pools {
			t.Errorf("%s later there are %d instances and %d pools, want %d and %d", tt.after, instances, pools, tt.instances, tt.pools)
		}
	}
	// One that is missing again later has its hour again.
	if err := f.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "without"}}); err != nil {
		t.Fatal(err)
	}
	f.r.live = f
	if err := f.r.endOrphans(t.Context()); err != nil {
		t.Error(err)
	}
	if _, pools := count(); pools != 2 {
		t.Errorf("there are %d pools", pools)
	}
	f.clock.Step(time.Hour)
	if err := f.r.endOrphans(t.Context()); err != nil {
		t.Error(err)
	}
	if _, pools := count(); pools != 1 {
		t.Errorf("there are %d pools", pools)
	}
	if err := f.r.endOrphans(t.Context()); err != nil || len(f.r.missing) > 0 {
		t.Errorf("it remembers %v, %v", f.r.missing, err)
	}
}
