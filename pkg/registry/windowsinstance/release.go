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

// releases takes our finalizer off instances that go with their namespace. Nobody has asked
// for their hosts to be cleaned: these run on as the nodes that they are, and the deletion of
// a namespace ends whether or not a controller runs.
type releases struct {
	store    *genericregistry.Store
	deleters base.Deleters
	now      func() time.Time
}

// releasing is a store for that: an object that an earlier release accepted, and this one
// would not, must go as well.
func releasing(store *genericregistry.Store, strategy instanceStrategy) *genericregistry.Store {
	unchecked := *store
	unchecked.UpdateStrategy = releaseStrategy{strategy}
	return &unchecked
}

type releaseStrategy struct{ instanceStrategy }

func (releaseStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}

// beforeDelete releases the instances that a request of the namespace controller is about to
// delete, and those whose deletion had begun before.
func (r releases) beforeDelete(ctx context.Context, list *metainternalversion.ListOptions, options *metav1.DeleteOptions) error {
	namespace := genericapirequest.NamespaceValue(ctx)
	since, err := r.deleters.EndOfNamespace(ctx, namespace)
	if err != nil || since.IsZero() || options != nil && len(options.DryRun) > 0 {
		return err
	}
	found, err := listOf(ctx, r.store, list)
	if err != nil {
		return err
	}
	for i := range found {
		instance := &found[i]
		if !slices.Contains(instance.Finalizers, v1alpha1.HostFinalizer) || r.awaited(instance, since) {
			continue
		}
		if err := r.release(ctx, instance.Name); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		klog.InfoS("Released the host of an instance whose namespace is being deleted: nothing is removed from it",
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
func (r releases) awaited(instance *windows.WindowsInstance, since time.Time) bool {
	return unfinished(instance) != "" && r.now().Before(since.Add(operationGrace))
}

func (r releases) release(ctx context.Context, name string) error {
	without := func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		current, err := base.As[*windows.WindowsInstance](old)
		if err != nil {
			return nil, err
		}
		released := current.DeepCopy()
		released.Finalizers = slices.DeleteFunc(released.Finalizers, func(f string) bool { return f == v1alpha1.HostFinalizer })
		return released, nil
	}
	_, _, err := r.store.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, without),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}
