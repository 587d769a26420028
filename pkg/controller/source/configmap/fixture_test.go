// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/ration"
	"github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

var theConfigMap = types.NamespacedName{Namespace: wmco.Namespace, Name: wmco.InstancesConfigMap}

// fixture is a reconciler over a fake API.
type fixture struct {
	*testing.T
	client.WithWatch
	r      *Reconciler
	events *record.FakeRecorder
	writes []string // what was written since they were last taken
	fail   func(write string) error
	dns    map[string]Resolution
	keep   func(name string) bool // the names that are still asked for
	now    time.Time
	uids   int
}

func (f *fixture) Resolve(name string) Resolution {
	if known, ok := f.dns[name]; ok {
		return known
	}
	return Resolution{Err: errors.New("no such host")}
}

// create makes an instance with the host keys that it is given, as the API server does.
func (f *fixture) create(ctx context.Context, c client.Client, instance *v1alpha1.WindowsInstance, opts ...client.CreateOption) error {
	keys, err := v1alpha1.TakeHostKeys(&instance.ObjectMeta)
	if err != nil {
		return err
	}
	if err := c.Create(ctx, instance, opts...); err != nil {
		return err
	}
	instance.Status.HostKeys = keys
	return c.Status().Update(ctx, instance)
}

func (f *fixture) Retain(keep func(string) bool) { f.keep = keep }

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &fixture{T: t, events: record.NewFakeRecorder(1000), dns: map[string]Resolution{}, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	record := func(verb string, obj any) error {
		write := verb
		if named, ok := obj.(interface{ GetName() *string }); ok {
			write += " " + *named.GetName()
		} else if object, ok := obj.(client.Object); ok {
			write += " " + object.GetName()
		}
		if f.fail != nil {
			if err := f.fail(write); err != nil {
				return err
			}
		}
		f.writes = append(f.writes, write)
		return nil
	}
	f.WithWatch = fake.NewClientBuilder().
		WithScheme(scheme).
		WithTypeConverters(applyconfiguration.NewTypeConverter(scheme), managedfields.NewDeducedTypeConverter()).
		WithStatusSubresource(&v1alpha1.WindowsNodePool{}, &v1alpha1.WindowsInstance{}).
		WithReturnManagedFields().
		WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				if err := record("apply", obj); err != nil {
					return err
				}
				if err := c.Apply(ctx, obj, opts...); err != nil {
					return err
				}
				return f.giveUID(ctx, c, obj)
			},
			SubResourceApply: func(ctx context.Context, c client.Client, sub string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
				if err := record("apply "+sub, obj); err != nil {
					return err
				}
				return c.SubResource(sub).Apply(ctx, obj, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if err := record("create", obj); err != nil {
					return err
				}
				if instance, ok := obj.(*v1alpha1.WindowsInstance); ok {
					instance.UID = f.newUID()
					return f.create(ctx, c, instance, opts...)
				}
				return c.Create(ctx, obj, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				if err := record("patch "+sub, obj); err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if err := record("patch", obj); err != nil {
					return err
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				if err := record("delete", obj); err != nil {
					return err
				}
				return c.Delete(ctx, obj, opts...)
			},
		}).
		Build()
	f.r = &Reconciler{
		client:    f,
		applier:   &apply.Applier{Client: f, Live: f, FieldManager: fieldManager},
		recorder:  f.events,
		entries:   message.NewReporter(f.events, scheme),
		foreign:   message.NewReporter(f.events, scheme),
		conflicts: message.NewReporter(f.events, scheme),
		names:     f,
		configMap: theConfigMap,
		limit:     ration.Limit{Most: intstr.FromString(DefaultMaxRemovals), Window: DefaultRemovalWindow},
		now:       func() time.Time { return f.now },
	}
	return f
}

// giveUID does what the API does and its fake does not: each instance has a UID of its own.
func (f *fixture) giveUID(ctx context.Context, c client.Client, obj runtime.ApplyConfiguration) error {
	applied, ok := obj.(*acwindowsv1alpha1.WindowsInstanceApplyConfiguration)
	if !ok {
		return nil
	}
	instance := &v1alpha1.WindowsInstance{}
	if err := c.Get(ctx, types.NamespacedName{Namespace: *applied.Namespace, Name: *applied.Name}, instance); err != nil || instance.UID != "" {
		return err
	}
	instance.UID = f.newUID()
	return c.Update(ctx, instance)
}

func (f *fixture) newUID() types.UID {
	f.uids++
	return types.UID(fmt.Sprintf("uid-%d", f.uids))
}

// quiet is the context of a test with a logger that says nothing.
func quiet(t *testing.T) context.Context { return log.IntoContext(t.Context(), logr.Discard()) }

// pass makes one pass over a pool.
func (f *fixture) pass() { f.Helper(); f.passOver(theConfigMap) }

func (f *fixture) passOver(pool types.NamespacedName) {
	f.Helper()
	if _, err := f.r.Reconcile(quiet(f.T), reconcile.Request{NamespacedName: pool}); err != nil {
		f.Fatal(err)
	}
}

// wantNext makes a pass that changes nothing, and checks when another one follows; 0: when something changes.
func (f *fixture) wantNext(want time.Duration) {
	f.Helper()
	result, err := f.r.Reconcile(quiet(f.T), reconcile.Request{NamespacedName: theConfigMap})
	if writes := f.takeWrites(); err != nil || result.RequeueAfter != want || len(writes) > 0 {
		f.Errorf("got %+v, %v, writes %q, want another pass after %s", result, err, writes, want)
	}
}

// hold has the hosts of all instances need cleaning: they do not go at once.
func (f *fixture) hold() {
	f.Helper()
	for _, instance := range f.instances() {
		instance.Finalizers = []string{v1alpha1.HostFinalizer}
		if err := f.Update(f.Context(), &instance); err != nil {
			f.Fatal(err)
		}
	}
}

// leaving returns the instances that are being removed.
func (f *fixture) leaving() []v1alpha1.WindowsInstance {
	f.Helper()
	return slices.DeleteFunc(slices.Collect(maps.Values(f.instances())), func(i v1alpha1.WindowsInstance) bool { return i.DeletionTimestamp.IsZero() })
}

// settle makes passes until one writes nothing, and returns what all of them wrote.
func (f *fixture) settle() []string {
	f.Helper()
	var all []string
	for range 5 {
		f.pass()
		writes := f.takeWrites()
		if len(writes) == 0 {
			return all
		}
		all = append(all, writes...)
	}
	f.Fatalf("an unchanged world causes writes: %v", all)
	return nil
}

func (f *fixture) takeWrites() []string {
	writes := f.writes
	f.writes = nil
	return writes
}

func (f *fixture) takeEvents() []string {
	var all []string
	for len(f.events.Events) > 0 {
		all = append(all, <-f.events.Events)
	}
	return all
}

func (f *fixture) instances() map[string]v1alpha1.WindowsInstance {
	f.Helper()
	var list v1alpha1.WindowsInstanceList
	if err := f.List(f.Context(), &list, client.InNamespace(theConfigMap.Namespace)); err != nil {
		f.Fatal(err)
	}
	byName := map[string]v1alpha1.WindowsInstance{}
	for _, instance := range list.Items {
		byName[instance.Name] = instance
	}
	return byName
}

func (f *fixture) wantInstances(want ...string) {
	f.Helper()
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(f.instances()))); diff != "" {
		f.Errorf("instances (-want +got):\n%s", diff)
	}
}

// pool returns the pool, nil when there is none.
func (f *fixture) pool() *v1alpha1.WindowsNodePool {
	f.Helper()
	pool, err := object.Get(f.Context(), f, theConfigMap, &v1alpha1.WindowsNodePool{})
	if err != nil {
		f.Fatal(err)
	}
	return pool
}

// wantSynced checks the condition SourceSynced and returns its message.
func (f *fixture) wantSynced(reason string, desired int32) string {
	f.Helper()
	pool := f.pool()
	if pool == nil {
		f.Fatal("there is no pool")
	}
	condition := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionSourceSynced)
	if condition == nil {
		f.Fatal("the pool has no condition SourceSynced")
	}
	status := metav1.ConditionFalse
	if reason == v1alpha1.ReasonSynced {
		status = metav1.ConditionTrue
	}
	if condition.Reason != reason || condition.Status != status || condition.ObservedGeneration != pool.Generation {
		f.Errorf("SourceSynced is %s, %s: %s; want reason %s", condition.Status, condition.Reason, condition.Message, reason)
	}
	if pool.Status.DesiredReplicas != desired {
		f.Errorf("desiredReplicas is %d, want %d", pool.Status.DesiredReplicas, desired)
	}
	return condition.Message
}

func (f *fixture) setData(data map[string]string) {
	f.Helper()
	cm, err := object.Get(f.Context(), f, theConfigMap, &corev1.ConfigMap{})
	if err != nil {
		f.Fatal(err)
	}
	cm.Data = data
	if err := f.Update(f.Context(), cm); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) deleteConfigMap() {
	f.Helper()
	if err := f.WithWatch.Delete(f.Context(), configMapOf(nil)); err != nil {
		f.Fatal(err)
	}
	f.takeWrites()
}

// toConfirm is the value that the command in the condition sets.
func (f *fixture) toConfirm() string {
	f.Helper()
	condition := meta.FindStatusCondition(f.pool().Status.Conditions, v1alpha1.ConditionSourceSynced)
	const command = "kubectl annotate wnp windows-instances -n openshift-windows-machine-config-operator windows.openshift.io/confirm-removal="
	_, rest, _ := strings.Cut(condition.Message, command)
	value, _, found := strings.Cut(rest, " --overwrite\n")
	if !found {
		f.Fatalf("there is no command in %q", condition.Message)
	}
	return value
}

func (f *fixture) confirm(value string) {
	f.Helper()
	pool := f.pool()
	metav1.SetMetaDataAnnotation(&pool.ObjectMeta, v1alpha1.ConfirmRemovalAnnotation, value)
	if err := f.Update(f.Context(), pool); err != nil {
		f.Fatal(err)
	}
}

// wantNoConfirmation checks that none is left that would confirm something later.
func (f *fixture) wantNoConfirmation() {
	f.Helper()
	if value, there := f.pool().Annotations[v1alpha1.ConfirmRemovalAnnotation]; there {
		f.Errorf("the confirmation %q is still there", value)
	}
}

func configMapOf(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: theConfigMap.Namespace, Name: theConfigMap.Name, UID: "cm-uid"},
		Data:       data,
	}
}

// emptyPool is the pool as somebody may make it ahead of the ConfigMap.
func emptyPool() *v1alpha1.WindowsNodePool {
	return &v1alpha1.WindowsNodePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: theConfigMap.Namespace, Name: theConfigMap.Name, UID: "pool-uid", Generation: 7},
		Spec:       v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{ConfigMap: &v1alpha1.SourceReference{Name: theConfigMap.Name}}},
	}
}

func handMade(name string) *v1alpha1.WindowsInstance {
	return &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: theConfigMap.Namespace, Name: name, UID: types.UID(name)},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: name, Port: 22, Username: "me"},
	}
}

// twoHosts is the ConfigMap as the documentation of WMCO has it.
func twoHosts() map[string]string {
	return map[string]string{"10.1.42.1": "username=Administrator", "instance.example.com": "username=core\n"}
}
