// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
)

// keeper keeps the revisions of pool p in namespace ns, whose UID is uid.
type keeper struct {
	*Reconciler

	t         *testing.T
	c         client.Client
	pool      *v1alpha1.WindowsNodePool
	instances []*v1alpha1.WindowsInstance
	events    *record.FakeRecorder
	// refused is what the API server says to whoever creates something. Nil: it does it.
	refused error
}

func newKeeper(t *testing.T) *keeper {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	k := &keeper{t: t, events: record.NewFakeRecorder(10), pool: &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}}}
	k.c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(k.pool.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if k.refused != nil {
				return k.refused
			}
			return c.Create(ctx, o, opts...)
		},
	}).WithIndex(&appsv1.ControllerRevision{}, metav1.ObjectNameField, byName).Build()
	k.Reconciler = &Reconciler{
		client: k.c, applier: &apply.Applier{Client: k.c, Live: k.c, FieldManager: fieldManager}, deleted: map[types.NamespacedName]map[string]*appsv1.ControllerRevision{},
		reporter: message.NewReporter(k.events, scheme),
	}
	return k
}

// keep gives the pool a template, and returns what is kept of it.
func (k *keeper) keep(rack string) *appsv1.ControllerRevision {
	k.t.Helper()
	k.pool.Spec.Template.NodeLabels = map[string]string{"rack": rack}
	name, err := k.keepRevision(k.t.Context(), k.pool, k.instances)
	if err != nil {
		k.t.Fatal(err)
	}
	k.pool.Status.UpdateRevision = name
	return k.read(name)
}

// read returns the ControllerRevision of a name. Nil: there is none.
func (k *keeper) read(name string) *appsv1.ControllerRevision {
	k.t.Helper()
	found := &appsv1.ControllerRevision{}
	if err := k.c.Get(k.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, found); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		k.t.Fatal(err)
	}
	return found
}

// delete deletes one, if it is still there, which the controller sees.
func (k *keeper) delete(deleted *appsv1.ControllerRevision) {
	k.t.Helper()
	if err := client.IgnoreNotFound(k.c.Delete(k.t.Context(), deleted)); err != nil {
		k.t.Fatal(err)
	}
	k.rememberDeleted(k.t.Context(), deleted)
}

// restore has those that were deleted made again, as far as they are needed.
func (k *keeper) restore() {
	k.t.Helper()
	if again := k.restoreRevisions(k.t.Context(), k.pool, k.instances); again != 0 || len(k.deleted) != 0 {
		k.t.Errorf("it remembers %v, and tries again after %s", k.deleted, again)
	}
}

// byName is what the API server finds objects by, and the fake client only with an index.
func byName(o client.Object) []string { return []string{o.GetName()} }
