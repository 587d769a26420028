// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package object

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/notfound"
	"github.com/openshift/windows-instance-api/pkg/passing"
)

// Get reads into obj and returns it, or nil when there is no such object.
func Get[T client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, obj T, options ...client.GetOption) (T, error) {
	var none T
	if err := reader.Get(ctx, key, obj, options...); err != nil {
		if Gone(err) {
			return none, nil
		}
		return none, fmt.Errorf("read %T %s: %w", obj, key, err)
	}
	return obj, nil
}

// Gone is [notfound.Object] for controllers: our API is away while its server starts.
func Gone(err error) bool { return notfound.Object(err) }

// Passes is [passing.Error] for controllers.
func Passes(err error) bool { return passing.Error(err) }

// PoolOf reads the pool of an instance, nil if it names none, or one that does not exist:
// instances may be created before their pool, and be deleted after it. The pool is only to be read: that of a cache is shared.
func PoolOf(ctx context.Context, reader client.Reader, instance *v1alpha1.WindowsInstance) (*v1alpha1.WindowsNodePool, error) {
	ref := instance.Spec.PoolRef
	if ref == nil {
		return nil, nil //nolint:nilnil // no pool is an ordinary answer
	}
	return Get(ctx, reader, client.ObjectKey{Namespace: instance.Namespace, Name: ref.Name}, &v1alpha1.WindowsNodePool{}, client.UnsafeDisableDeepCopy)
}

// PoolName is the name of the pool of an instance, empty if it is in none.
func PoolName(instance *v1alpha1.WindowsInstance) string {
	if instance.Spec.PoolRef == nil {
		return ""
	}
	return instance.Spec.PoolRef.Name
}

// PoolIndex is the index of the cache that holds the pools of instances. The controllers of hosts and pools share it, and the
// controller of instances adds it; see [InPool] for what selects by it.
const PoolIndex = "pool"

// IndexPool is what [PoolIndex] holds of an instance, also of one without a pool.
func IndexPool(o client.Object) []string {
	return []string{"pool/" + PoolName(o.(*v1alpha1.WindowsInstance))} //nolint:forcetypeassert // the indexer gives what is registered
}

// InPool selects the instances of a pool of a namespace. The empty name selects those without one.
func InPool(name string) client.MatchingFields {
	return client.MatchingFields{PoolIndex: "pool/" + name}
}

// PausedBy names the field that has the host of an instance left alone, empty if none does.
// pool is its pool, nil if there is none.
func PausedBy(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) string {
	switch {
	case instance.Spec.Paused:
		return "spec.paused"
	case pool != nil && pool.Spec.Paused:
		return "spec.paused of pool " + pool.Name
	}
	return ""
}

// NodeReady returns the condition Ready of a Node, nil if it has none.
func NodeReady(node *corev1.Node) *corev1.NodeCondition {
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 {
		return nil
	}
	return &node.Status.Conditions[i]
}

// KubeletReports says whether a kubelet speaks for a Node, nil for none, as far as the cluster knows:
// that makes the condition Ready Unknown when none does. A Node that is not ready has a kubelet.
func KubeletReports(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	ready := NodeReady(node)
	return ready != nil && ready.Status != corev1.ConditionUnknown
}

// Delete deletes exactly obj, not another object that took its name since. That it
// is gone already is no error.
func Delete(ctx context.Context, c client.Client, obj client.Object) error {
	uid := obj.GetUID()
	err := c.Delete(ctx, obj, client.Preconditions{UID: &uid})
	if err != nil && !Gone(err) {
		return fmt.Errorf("delete %T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
	}
	return nil
}
