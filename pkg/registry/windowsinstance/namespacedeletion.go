// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// operationGrace is how long an operation that runs on a host when its namespace is deleted
// gets to end.
const operationGrace = 5 * time.Minute

// namespaceDeletions takes our finalizer off instances that go with their namespace. Nobody has asked
// for their hosts to be cleaned: these run on as the nodes that they are, and the deletion of
// a namespace ends whether or not a controller runs.
type namespaceDeletions struct {
	store    *genericregistry.Store
	deleters base.Deleters
	now      func() time.Time
}

// uncheckedStore is a store for that: an object that an earlier release accepted, and this one
// would not, must go as well.
func uncheckedStore(store *genericregistry.Store, strategy instanceStrategy) *genericregistry.Store {
	unchecked := *store
	unchecked.UpdateStrategy = uncheckedStrategy{strategy}
	return &unchecked
}

type uncheckedStrategy struct{ instanceStrategy }

func (uncheckedStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}

// beforeDelete removes the finalizer of the instances that a request of the namespace controller is about
// to delete, and of those whose deletion had begun before.
func (d namespaceDeletions) beforeDelete(ctx context.Context, list *metainternalversion.ListOptions, options *metav1.DeleteOptions) error {
	namespace := genericapirequest.NamespaceValue(ctx)
	since, err := d.deleters.EndOfNamespace(ctx, namespace)
	if err != nil || since.IsZero() || options != nil && len(options.DryRun) > 0 {
		return err
	}
	found, err := listOf(ctx, d.store, list)
	if err != nil {
		return err
	}
	for i := range found {
		instance := &found[i]
		if !slices.Contains(instance.Finalizers, v1alpha1.HostFinalizer) || d.awaited(instance, since) {
			continue
		}
		if err := d.removeFinalizer(ctx, instance.Name); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		klog.InfoS("Left the host as it is, because its namespace is being deleted",
			"instance", klog.KObj(instance), "address", instance.Spec.Address, "node", nodeName(instance), "unfinished", unfinished(instance))
	}
	return nil
}

// unfinished names the operation that a host was in the middle of. Empty: none.
func unfinished(instance *windows.WindowsInstance) string {
	op := instance.Status.Operation
	if op == nil || op.StartedAt == nil || op.FinishedAt != nil {
		return ""
	}
	return string(op.Type) + " " + op.ID
}

// awaited says whether an operation that runs on the host is still waited for, so that it does
// not end half way.
func (d namespaceDeletions) awaited(instance *windows.WindowsInstance, since time.Time) bool {
	return unfinished(instance) != "" && d.now().Before(since.Add(operationGrace))
}

func (d namespaceDeletions) removeFinalizer(ctx context.Context, name string) error {
	without := func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		current, err := base.As[*windows.WindowsInstance](old)
		if err != nil {
			return nil, err
		}
		left := current.DeepCopy()
		left.Finalizers = slices.DeleteFunc(left.Finalizers, func(f string) bool { return f == v1alpha1.HostFinalizer })
		return left, nil
	}
	_, _, err := d.store.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, without),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}
