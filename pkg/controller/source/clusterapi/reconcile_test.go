// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package clusterapi

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/capi"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// fixture has both reconcilers over a fake API.
type fixture struct {
	*testing.T
	client.WithWatch
	machines *Reconciler
	pools    *PoolReconciler
	events   *record.FakeRecorder
	platform configv1.PlatformType
	writes   []string // what was written since they were last taken
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{machinev1beta1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	capi.AddToScheme(scheme, "v1beta2")
	f := &fixture{T: t, events: record.NewFakeRecorder(100), platform: configv1.NonePlatformType}
	applied := func(verb string, obj runtime.ApplyConfiguration) {
		f.writes = append(f.writes, verb+" "+*obj.(interface{ GetName() *string }).GetName())
	}
	f.WithWatch = fake.NewClientBuilder().
		WithScheme(scheme).
		WithTypeConverters(applyconfiguration.NewTypeConverter(scheme), managedfields.NewDeducedTypeConverter()).
		WithStatusSubresource(&v1alpha1.WindowsNodePool{}, &v1alpha1.WindowsInstance{}).
		WithReturnManagedFields().
		WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				applied("apply", obj)
				return c.Apply(ctx, obj, opts...)
			},
			SubResourceApply: func(ctx context.Context, c client.Client, sub string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
				applied("apply "+sub, obj)
				return c.SubResource(sub).Apply(ctx, obj, opts...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
				f.writes = append(f.writes, "update "+sub+" "+obj.GetName())
				return c.SubResource(sub).Update(ctx, obj, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				f.writes = append(f.writes, "delete "+obj.GetName())
				if pool, ok := obj.(*v1alpha1.WindowsNodePool); ok { // as our API server does
					var instances v1alpha1.WindowsInstanceList
					if err := c.List(ctx, &instances); err != nil {
						return err
					}
					if slices.ContainsFunc(instances.Items, func(i v1alpha1.WindowsInstance) bool { return object.PoolName(&i) == pool.Name }) {
						return apierrors.NewConflict(windows.Resource("windowsnodepools"), pool.Name, nil)
					}
				}
				return c.Delete(ctx, obj, opts...)
			},
		}).
		Build()
	f.machines = &Reconciler{
		client: f, reader: f, cluster: theCluster,
		applier:   &apply.Applier{Client: f, Live: f, FieldManager: instanceManager},
		recorder:  f.events,
		conflicts: message.NewReporter(f.events, scheme),
		names:     message.NewReporter(f.events, scheme),
		platform:  func(context.Context) (configv1.PlatformType, error) { return f.platform, nil },
	}
	f.pools = &PoolReconciler{
		client: f, reader: f, cluster: theCluster,
		applier:   &apply.Applier{Client: f, Live: f, FieldManager: poolManager},
		conflicts: message.NewReporter(f.events, scheme),
		now:       func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) },
	}
	return f
}

// settle makes passes over the object of that name until one writes nothing, and returns what all of them wrote.
func (f *fixture) settle(name string) []string { return f.settleIn(namespace, name) }

func (f *fixture) settleIn(namespace, name string) []string {
	f.Helper()
	ctx := log.IntoContext(f.Context(), logr.Discard())
	req := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	var all []string
	for range 5 {
		for _, r := range []reconcile.Reconciler{f.pools, f.machines} {
			if _, err := r.Reconcile(ctx, req); err != nil {
				f.Fatal(err)
			}
		}
		if len(f.writes) == 0 {
			return all
		}
		all = append(all, f.writes...)
		f.writes = nil
	}
	f.Fatalf("an unchanged world causes writes: %v", all)
	return nil
}

// instance returns an instance, nil when there is none.
func (f *fixture) instance(name string) *v1alpha1.WindowsInstance {
	f.Helper()
	instance, err := object.Get(f.Context(), f, client.ObjectKey{Namespace: namespace, Name: name}, &v1alpha1.WindowsInstance{})
	if err != nil {
		f.Fatal(err)
	}
	return instance
}

func (f *fixture) pool(name string) *v1alpha1.WindowsNodePool {
	f.Helper()
	pool, err := object.Get(f.Context(), f, client.ObjectKey{Namespace: namespace, Name: name}, &v1alpha1.WindowsNodePool{})
	if err != nil {
		f.Fatal(err)
	}
	return pool
}

// change changes an object.
func change[T client.Object](f *fixture, name string, obj T, edit func(T)) {
	f.Helper()
	if err := f.Get(f.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj); err != nil {
		f.Fatal(err)
	}
	edit(obj)
	if err := f.Update(f.Context(), obj); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) drop(obj client.Object) {
	f.Helper()
	if err := f.Delete(f.Context(), obj); err != nil {
		f.Fatal(err)
	}
	f.writes = nil
}

// said returns the events so far.
func (f *fixture) said() string {
	var all []string
	for {
		select {
		case e := <-f.events.Events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}

func owned(kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: kind, Name: name, UID: types.UID("uid-of-" + name), Controller: new(true)}}
}

func windowsSpec(replicas int32) capi.SetSpec {
	return capi.SetSpec{ClusterName: theCluster.Name, Replicas: &replicas, Template: capi.MachineTemplate{Metadata: capi.TemplateMetadata{Labels: map[string]string{wmco.MachineOSLabel: wmco.MachineOSWindows}}}}
}

func newDeployment(name string, replicas int32) *capi.MachineDeployment {
	return &capi.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name)}, Spec: windowsSpec(replicas)}
}

func inNamespace(d *capi.MachineDeployment, namespace string) *capi.MachineDeployment {
	d.Namespace = namespace
	return d
}

func newSet(name string, owners []metav1.OwnerReference) *capi.MachineSet {
	return &capi.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name), OwnerReferences: owners}, Spec: windowsSpec(1)}
}

func ofSet(name string) machineEdit {
	return func(m *capi.Machine) { m.OwnerReferences = owned(capi.KindMachineSet, name) }
}

func TestMachineBecomesInstance(t *testing.T) {
	f := newFixture(t, newCluster(), newDeployment("win", 3), newSet("win-abc", owned(capi.KindMachineDeployment, "win")), newMachine("m", ofSet("win-abc")))
	f.settle("win")
	f.settle("m")
	got := f.instance("m")
	want := v1alpha1.WindowsInstanceSpec{
		Address: "10.0.0.5", Port: 22, Username: "Administrator", Management: v1alpha1.ManagementManaged, ProviderID: "p://m",
		PoolRef: &v1alpha1.PoolReference{Name: "win"}, Removal: &v1alpha1.RemovalOptions{AfterSeconds: new(int64(300))},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("its spec (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{v1alpha1.SourceAnnotation: "Machine.cluster.x-k8s.io clusters/m", v1alpha1.MachineUIDAnnotation: "uid-of-m"}, got.Annotations); diff != "" {
		t.Errorf("its annotations (-want +got):\n%s", diff)
	}
	if len(got.OwnerReferences) > 0 {
		t.Errorf("it goes with %+v, also when the Machine is moved", got.OwnerReferences)
	}
	pool := f.pool("win")
	if diff := cmp.Diff(&v1alpha1.ClusterAPISource{Kind: v1alpha1.ClusterAPIMachineDeployment, Name: "win"}, pool.Spec.Source.ClusterAPI); diff != "" {
		t.Errorf("the source of the pool (-want +got):\n%s", diff)
	}
	if c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionSourceSynced); pool.Status.DesiredReplicas != 3 || c == nil || c.Status != metav1.ConditionTrue || c.Message != "The MachineDeployment asks for 3 Machines." {
		t.Errorf("the pool asks for %d, and says %+v", pool.Status.DesiredReplicas, c)
	}
	if len(pool.OwnerReferences) > 0 {
		t.Errorf("the pool goes with %+v", pool.OwnerReferences)
	}
	if said := f.said(); said != "" {
		t.Errorf("events %s", said)
	}

	// It keeps the address that it has, as long as the Machine has it.
	change(f, "m", &capi.Machine{}, func(m *capi.Machine) {
		m.Status.Addresses = append([]corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.132.0.2"}}, m.Status.Addresses...)
	})
	f.settle("m")
	if got := f.instance("m").Spec.Address; got != "10.0.0.5" {
		t.Errorf("its address is %s", got)
	}
	// It follows its Machine.
	change(f, "m", &capi.Machine{}, func(m *capi.Machine) { m.Status.Addresses = m.Status.Addresses[1:] })
	change(f, "m", &capi.Machine{}, func(m *capi.Machine) { m.Status.Addresses[0].Address = "10.0.0.6" })
	f.settle("m")
	if got := f.instance("m").Spec.Address; got != "10.0.0.6" {
		t.Errorf("its address is %s", got)
	}
}

func TestWhoConfiguresTheHost(t *testing.T) {
	for name, tt := range map[string]struct {
		edit     machineEdit
		platform configv1.PlatformType
		want     v1alpha1.WindowsInstanceSpec
	}{
		"we do":           {func(*capi.Machine) {}, configv1.AWSPlatformType, v1alpha1.WindowsInstanceSpec{Username: "Administrator", Management: v1alpha1.ManagementManaged}},
		"on Azure":        {func(*capi.Machine) {}, configv1.AzurePlatformType, v1alpha1.WindowsInstanceSpec{Username: "capi", Management: v1alpha1.ManagementManaged}},
		"on vSphere":      {func(*capi.Machine) {}, configv1.VSpherePlatformType, v1alpha1.WindowsInstanceSpec{Username: "Administrator", Management: v1alpha1.ManagementManaged, NodeName: "m"}},
		"a provider does": {func(m *capi.Machine) { m.Spec.Bootstrap.ConfigRef = &capi.Reference{Name: "m"} }, configv1.VSpherePlatformType, v1alpha1.WindowsInstanceSpec{Username: "Administrator", Management: v1alpha1.ManagementObserved}},
		"a provider on Azure": {func(m *capi.Machine) {
			m.Spec.Bootstrap.ConfigRef, m.Spec.InfrastructureRef = &capi.Reference{Name: "m"}, &capi.Reference{Kind: "AzureMachine"}
		}, configv1.NonePlatformType, v1alpha1.WindowsInstanceSpec{Username: "capi", Management: v1alpha1.ManagementObserved}},
		"an image of another one": {func(m *capi.Machine) { m.Spec.InfrastructureRef = &capi.Reference{Kind: "AWSMachine"} }, configv1.NonePlatformType, v1alpha1.WindowsInstanceSpec{Username: "Administrator", Management: v1alpha1.ManagementManaged}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newCluster(), newMachine("m", tt.edit))
			f.platform = tt.platform
			f.settle("m")
			got := f.instance("m").Spec
			if diff := cmp.Diff(tt.want, v1alpha1.WindowsInstanceSpec{Username: got.Username, Management: got.Management, NodeName: got.NodeName}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOthersAreLeft: nothing is made of Machines of other Clusters, also in another namespace, nor of those that the Machine API has.
func TestOthersAreLeft(t *testing.T) {
	ofOther := func(m *capi.Machine) { m.Spec.ClusterName = "other" }
	elsewhere := func(m *capi.Machine) { m.Namespace = "elsewhere" }
	ofMachineAPI := func(name, id string) *machinev1beta1.Machine {
		m := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: wmco.MachineAPINamespace, Name: name}}
		m.Spec.ProviderID = &id
		return m
	}
	for name, objects := range map[string][]client.Object{
		"of another Cluster":             {newCluster(), newMachine("m", ofOther)},
		"in another namespace":           {newCluster(), newMachine("m", elsewhere)},
		"without its Cluster":            {newMachine("m")},
		"of the Machine API by name":     {newCluster(), newMachine("m"), ofMachineAPI("m", "")},
		"of the Machine API by provider": {newCluster(), newMachine("m"), ofMachineAPI("another", "p://m")},
		"a source of a paused Cluster":   {newCluster(pausedCluster), newDeployment("m", 1)},
		"a source without its Cluster":   {newDeployment("m", 1)},
		"a source in another namespace":  {newCluster(), inNamespace(newDeployment("m", 1), "elsewhere")},
		"of a paused Cluster":            {newCluster(pausedCluster), newMachine("m")},
		"ignored":                        {newCluster(), newMachine("m", ignored)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, objects...)
			if writes := append(f.settle("m"), f.settleIn("elsewhere", "m")...); len(writes) > 0 {
				t.Errorf("it has written %v", writes)
			}
		})
	}
	t.Run("one of the Machine API that is another host", func(t *testing.T) {
		f := newFixture(t, newCluster(), newMachine("m"), ofMachineAPI("another", "p://another"))
		if f.settle("m"); f.instance("m") == nil {
			t.Error("there is no instance")
		}
	})
	t.Run("a source of another Cluster", func(t *testing.T) {
		d := newDeployment("win", 1)
		d.Spec.ClusterName = "other"
		f := newFixture(t, newCluster(), d)
		if writes := f.settle("win"); len(writes) > 0 {
			t.Errorf("it has written %v", writes)
		}
	})
	t.Run("the flag names another Cluster now", func(t *testing.T) {
		f := newFixture(t, newCluster(), newDeployment("win", 1), newSet("win-abc", owned(capi.KindMachineDeployment, "win")), newMachine("m", ofSet("win-abc")))
		f.settle("win")
		f.settle("m")
		other := newCluster()
		other.Name = "other"
		if err := f.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		f.machines.cluster.Name, f.pools.cluster.Name = "other", "other"
		f.settle("win")
		if writes := f.settle("m"); len(writes) > 0 || f.instance("m") == nil || f.pool("win") == nil {
			t.Errorf("it has written %v", writes)
		}
	})
}

func TestInstanceGoesWithItsMachine(t *testing.T) {
	newHost := func(edit ...machineEdit) *fixture {
		f := newFixture(t, newCluster(), newMachine("m", edit...))
		f.settle("m")
		if f.instance("m") == nil {
			t.Fatal("there is no instance")
		}
		return f
	}
	t.Run("gone", func(t *testing.T) {
		f := newHost()
		f.drop(newMachine("m"))
		if f.settle("m"); f.instance("m") != nil {
			t.Error("it is still there")
		}
	})
	t.Run("going, with a hook and without", func(t *testing.T) {
		f := newHost(hooked, isNode, func(m *capi.Machine) { m.Finalizers = []string{"machine.cluster.x-k8s.io"} })
		f.drop(newMachine("m"))
		if writes := f.settle("m"); len(writes) > 0 || f.instance("m") == nil {
			t.Errorf("while a hook holds it was written %v", writes)
		}
		change(f, "m", &capi.Machine{}, func(m *capi.Machine) { m.Annotations = nil })
		if f.settle("m"); f.instance("m") != nil {
			t.Error("it is still there")
		}
	})
	t.Run("another host of that name", func(t *testing.T) {
		f := newHost()
		f.drop(newMachine("m"))
		if err := f.Create(t.Context(), newMachine("m", func(m *capi.Machine) { m.UID, m.Spec.ProviderID = "another", "p://another" })); err != nil {
			t.Fatal(err)
		}
		if writes := f.settle("m"); !slices.Contains(writes, "delete m") || f.instance("m").Annotations[v1alpha1.MachineUIDAnnotation] != "another" {
			t.Errorf("it was written %v", writes)
		}
	})
	t.Run("the label was taken off", func(t *testing.T) {
		f := newHost()
		change(f, "m", &capi.Machine{}, unlabeled)
		f.settle("m")
		got := f.instance("m")
		c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionSourceSynced)
		if c == nil || c.Reason != v1alpha1.ReasonLabelRemoved || !strings.Contains(c.Message, "kubectl label machines.cluster.x-k8s.io m -n clusters machine.openshift.io/os-id=Windows --overwrite") || got.Spec.Paused {
			t.Errorf("got %+v, it says %+v", got.Spec, c)
		}
		if said := f.said(); !strings.Contains(said, v1alpha1.ReasonLabelRemoved) {
			t.Errorf("events: %s", said)
		}
		change(f, "m", &capi.Machine{}, func(m *capi.Machine) { m.Labels = newMachine("m").Labels })
		if f.settle("m"); meta.FindStatusCondition(f.instance("m").Status.Conditions, v1alpha1.ConditionSourceSynced) != nil {
			t.Error("it still says so")
		}
	})
	t.Run("ignored, and then deleted", func(t *testing.T) {
		f := newHost()
		change(f, "m", &capi.Machine{}, ignored)
		f.settle("m")
		if got := f.instance("m"); !got.Spec.Paused || got.Spec.Address != "10.0.0.5" {
			t.Errorf("got %+v", got.Spec)
		}
		change(f, "m", &v1alpha1.WindowsInstance{}, func(i *v1alpha1.WindowsInstance) { i.Finalizers = []string{v1alpha1.HostFinalizer} })
		f.drop(newMachine("m"))
		f.settle("m")
		if got := f.instance("m"); got == nil || got.DeletionTimestamp.IsZero() || got.Spec.Paused {
			t.Errorf("it is %+v: a host that is paused is not cleaned", got)
		}
	})
}

// TestMovedMachines: clusterctl move pauses a Cluster, deletes its Machines, and at last the Cluster. Their hosts go on.
func TestMovedMachines(t *testing.T) {
	f := newFixture(t, newCluster(), newDeployment("win", 1), newSet("win-abc", owned(capi.KindMachineDeployment, "win")), newMachine("m", ofSet("win-abc")))
	f.settle("win")
	f.settle("m")
	before := f.instance("m")
	mustStay := func(when, why string) {
		t.Helper()
		f.settle("win")
		f.settle("m")
		got := f.instance("m")
		if got == nil || !got.DeletionTimestamp.IsZero() || got.UID != before.UID || !got.Spec.Paused || f.pool("win") == nil {
			t.Fatalf("%s: the instance is %+v, the pool %+v", when, got, f.pool("win"))
		}
		if c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionSourceSynced); c == nil || c.Reason != v1alpha1.ReasonSourcePaused || !strings.Contains(c.Message, why) {
			t.Errorf("%s: it says %+v", when, c)
		}
	}
	change(f, theCluster.Name, &capi.Cluster{}, pausedCluster)
	mustStay("paused", "spec.paused of the Cluster is true")
	for _, o := range []client.Object{newMachine("m"), newSet("win-abc", nil), newDeployment("win", 1)} {
		f.drop(o)
	}
	mustStay("moved", "spec.paused of the Cluster is true")
	f.drop(newCluster())
	mustStay("all are moved", "there is no such Cluster")

	// They come back: the objects are others, the host is not.
	again := func(m *capi.Machine) { m.UID = "another" }
	for _, o := range []client.Object{newCluster(pausedCluster), newDeployment("win", 1), newSet("win-abc", owned(capi.KindMachineDeployment, "win")), newMachine("m", ofSet("win-abc"), again)} {
		if err := f.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	mustStay("they come back", "spec.paused of the Cluster is true")
	change(f, theCluster.Name, &capi.Cluster{}, func(c *capi.Cluster) { c.Spec.Paused = nil })
	f.settle("win")
	f.settle("m")
	got := f.instance("m")
	if got == nil || got.UID != before.UID || got.Spec.Paused || got.Annotations[v1alpha1.MachineUIDAnnotation] != "another" || meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionSourceSynced) != nil {
		t.Errorf("it is %+v", got)
	}
}

func TestPools(t *testing.T) {
	t.Run("a MachineSet that no MachineDeployment controls", func(t *testing.T) {
		f := newFixture(t, newCluster(), newSet("win", nil), newMachine("m", ofSet("win")))
		f.settle("win")
		f.settle("m")
		if ref := f.pool("win").Spec.Source.ClusterAPI; ref == nil || ref.Kind != v1alpha1.ClusterAPIMachineSet || object.PoolName(f.instance("m")) != "win" {
			t.Errorf("its source is %+v, the pool of its Machine %q", ref, object.PoolName(f.instance("m")))
		}
	})
	t.Run("a MachineSet of a MachineDeployment", func(t *testing.T) {
		f := newFixture(t, newCluster(), newSet("win-abc", owned(capi.KindMachineDeployment, "win")))
		if writes := f.settle("win-abc"); len(writes) > 0 {
			t.Errorf("it has written %v", writes)
		}
	})
	t.Run("of Linux", func(t *testing.T) {
		d := newDeployment("linux", 1)
		d.Spec.Template.Metadata.Labels = nil
		f := newFixture(t, newCluster(), d)
		if writes := f.settle("linux"); len(writes) > 0 {
			t.Errorf("it has written %v", writes)
		}
	})
	t.Run("a pool of that name with another source", func(t *testing.T) {
		taken := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "win"}, Spec: v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}}}
		f := newFixture(t, newCluster(), newDeployment("win", 1), newSet("win-abc", owned(capi.KindMachineDeployment, "win")), newMachine("m", ofSet("win-abc")), taken)
		if writes := f.settle("win"); len(writes) > 0 || !strings.Contains(f.said(), reasonPoolConflict) {
			t.Errorf("it has written %v", writes)
		}
		if f.settle("m"); f.instance("m").Spec.PoolRef != nil {
			t.Error("its hosts are in that pool")
		}
	})
	t.Run("made by a person", func(t *testing.T) {
		byHand := func(name string, ref v1alpha1.ClusterAPISource) *v1alpha1.WindowsNodePool {
			return &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{ClusterAPI: &ref}}}
		}
		linux := newDeployment("linux", 1)
		linux.Spec.Template.Metadata.Labels = nil
		f := newFixture(t, newCluster(), linux, newSet("of", owned(capi.KindMachineDeployment, "win")),
			byHand("none", v1alpha1.ClusterAPISource{Kind: v1alpha1.ClusterAPIMachineDeployment, Name: "none"}),
			byHand("of", v1alpha1.ClusterAPISource{Kind: v1alpha1.ClusterAPIMachineSet, Name: "of"}),
			byHand("linux", v1alpha1.ClusterAPISource{Kind: v1alpha1.ClusterAPIMachineDeployment, Name: "linux"}),
			byHand("other", v1alpha1.ClusterAPISource{Kind: v1alpha1.ClusterAPIMachineDeployment, Name: "linux"}))
		for name, want := range map[string]string{"none": "has no MachineDeployment none", "of": "that no MachineDeployment controls", "linux": "has no label", "other": "belong to a pool linux"} {
			f.settle(name)
			if c := meta.FindStatusCondition(f.pool(name).Status.Conditions, v1alpha1.ConditionSourceSynced); c == nil || c.Reason != v1alpha1.ReasonSourceNotFound || !strings.Contains(c.Message, want) {
				t.Errorf("%s says %+v", name, c)
			}
		}
	})
	t.Run("its source is gone", func(t *testing.T) {
		f := newFixture(t, newCluster(), newDeployment("win", 1), newSet("win-abc", owned(capi.KindMachineDeployment, "win")), newMachine("m", ofSet("win-abc")))
		f.settle("win")
		f.settle("m")
		f.drop(newDeployment("win", 1))
		f.drop(newSet("win-abc", nil))
		if again, err := f.pools.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "win"}}); err != nil || again.RequeueAfter == 0 || f.pool("win") == nil {
			t.Errorf("with a host: %+v, %v", again, err)
		}
		if f.settle("m"); object.PoolName(f.instance("m")) != "win" {
			t.Error("its Machine, which lives on, has lost its pool")
		}
		f.drop(newMachine("m"))
		f.settle("m")
		if f.settle("win"); f.pool("win") != nil {
			t.Error("it is still there")
		}
	})
}

// TestConflicts: what somebody else has made stays, and is told of.
func TestConflicts(t *testing.T) {
	t.Run("an instance of that name", func(t *testing.T) {
		taken := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}, Spec: v1alpha1.WindowsInstanceSpec{Address: "10.0.0.9"}}
		f := newFixture(t, newCluster(), newMachine("m"), taken)
		if writes := f.settle("m"); len(writes) > 0 || !strings.Contains(f.said(), "Warning "+reasonInstanceConflict) {
			t.Errorf("it has written %v", writes)
		}
		change(f, "m", &capi.Machine{}, unlabeled)
		f.drop(newMachine("m"))
		if writes := f.settle("m"); len(writes) > 0 || f.instance("m") == nil {
			t.Errorf("it has written %v", writes)
		}
	})
	t.Run("a name that Windows cannot have", func(t *testing.T) {
		f := newFixture(t, newCluster(), newMachine("a-name-that-is-too-long"))
		f.platform = configv1.NutanixPlatformType
		if f.settle("a-name-that-is-too-long"); f.instance("a-name-that-is-too-long").Spec.NodeName != "" || !strings.Contains(f.said(), "Warning "+reasonNameRefused) {
			t.Errorf("it is %+v", f.instance("a-name-that-is-too-long").Spec)
		}
	})
	t.Run("somebody wants it to be cleaned for longer", func(t *testing.T) {
		f := newFixture(t, newCluster(), newMachine("m"))
		f.settle("m")
		change(f, "m", &v1alpha1.WindowsInstance{}, func(i *v1alpha1.WindowsInstance) { i.Spec.Removal.AfterSeconds = new(int64(900)) })
		if f.settle("m"); *f.instance("m").Spec.Removal.AfterSeconds != 900 {
			t.Error("it is the default again")
		}
	})
}
