// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"context"
	"errors"
	"testing"

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

// What has lost its namespace is deleted, and nothing else: what is in others stays, also in one that
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
	if err := f.r.endOrphans(t.Context()); err == nil {
		t.Error("it does not say what it could not find out")
	}
	var instances v1alpha1.WindowsInstanceList
	var pools v1alpha1.WindowsNodePoolList
	if err := errors.Join(f.List(t.Context(), &instances), f.List(t.Context(), &pools)); err != nil {
		t.Fatal(err)
	}
	if len(instances.Items) != 2 || instances.Items[0].Name != "stays" || instances.Items[1].Name != "stays" {
		t.Errorf("%v", instances.Items)
	}
	if len(pools.Items) != 1 || pools.Items[0].Namespace != "ns" {
		t.Errorf("%v", pools.Items)
	}
	f.r.live = f
	if err := f.r.endOrphans(t.Context()); err != nil {
		t.Error(err)
	}
}
