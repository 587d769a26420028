// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
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

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration"
)

const namespace = "openshift-machine-api"

// fixture has both reconcilers over a fake API.
type fixture struct {
	*testing.T
	client.WithWatch
	machines *Reconciler
	sets     *SetReconciler
	events   *record.FakeRecorder
	writes   []string // what was written since they were last taken
	now      time.Time
	outdated string // why new Machines would not get the key
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{machinev1beta1.AddToScheme, configv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &fixture{T: t, events: record.NewFakeRecorder(100), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
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
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				f.writes = append(f.writes, "delete "+obj.GetName())
				return c.Delete(ctx, obj, opts...)
			},
		}).
		Build()
	platform := &platformReader{live: f}
	f.machines = &Reconciler{
		client:    f,
		applier:   &apply.Applier{Client: f, Live: f, FieldManager: instanceManager},
		recorder:  f.events,
		conflicts: message.NewReporter(f.events, scheme),
		names:     message.NewReporter(f.events, scheme),
		platform:  platform.Platform,
		replacer: &replacer{
			client: f, live: f, recorder: f.events, told: message.NewReporter(f.events, scheme), since: map[types.NamespacedName]refusal{},
			outdated: func(context.Context) (string, error) { return f.outdated, nil }, now: func() time.Time { return f.now },
		},
	}
	f.sets = &SetReconciler{
		client:    f,
		applier:   &apply.Applier{Client: f, Live: f, FieldManager: poolManager},
		conflicts: message.NewReporter(f.events, scheme),
		failures:  message.NewReporter(f.events, scheme),
		platform:  platform.Platform,
		now:       func() time.Time { return f.now },
	}
	return f
}

// settle makes passes over the object of that name until one writes nothing, and
// returns what all of them wrote.
func (f *fixture) settle(name string) []string {
	f.Helper()
	ctx := log.IntoContext(f.Context(), logr.Discard())
	req := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	var all []string
	for range 5 {
		if _, err := f.sets.Reconcile(ctx, req); err != nil {
			f.Fatal(err)
		}
		if _, err := f.machines.Reconcile(ctx, req); err != nil {
			f.Fatal(err)
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

// pool returns a pool, nil when there is none.
func (f *fixture) pool(name string) *v1alpha1.WindowsNodePool {
	f.Helper()
	pool, err := object.Get(f.Context(), f, client.ObjectKey{Namespace: namespace, Name: name}, &v1alpha1.WindowsNodePool{})
	if err != nil {
		f.Fatal(err)
	}
	return pool
}

// change updates a Machine or a MachineSet.
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

func ptrTo[T any](v T) *T { return &v }

func machineSet(name string, windows bool) *machinev1beta1.MachineSet {
	set := &machinev1beta1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name)},
		Spec:       machinev1beta1.MachineSetSpec{Replicas: ptrTo(int32(2))},
	}
	if windows {
		set.Spec.Template.Labels = map[string]string{"machine.openshift.io/os-id": "Windows"}
	}
	return set
}

func windowsMachine(name, set string) *machinev1beta1.Machine {
	machine := &machinev1beta1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name),
			Labels: map[string]string{"machine.openshift.io/os-id": "Windows"},
		},
		Spec: machinev1beta1.MachineSpec{ProviderID: ptrTo("vsphere://42")},
		Status: machinev1beta1.MachineStatus{
			Phase:     ptrTo("Provisioned"),
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}},
		},
	}
	if set != "" {
		machine.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: set, UID: types.UID("uid-of-" + set), Controller: ptrTo(true),
		}}
	}
	return machine
}

func infrastructure(platform configv1.PlatformType) *configv1.Infrastructure {
	return &configv1.Infrastructure{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster"},
		Status:     configv1.InfrastructureStatus{PlatformStatus: &configv1.PlatformStatus{Type: platform}},
	}
}

func TestMachineBecomesInstance(t *testing.T) {
	f := newFixture(t, machineSet("winworker", true), windowsMachine("winworker-1", "winworker"), infrastructure(configv1.VSpherePlatformType))
	f.settle("winworker-1")
	got := f.instance("winworker-1")
	if got == nil {
		t.Fatal("there is no instance")
	}
	wantSpec := v1alpha1.WindowsInstanceSpec{
		Address: "10.0.0.5", Port: 22, Username: "Administrator", ProviderID: "vsphere://42",
		PoolRef: &v1alpha1.PoolReference{Name: "winworker"}, NodeName: "winworker-1",
		Removal: &v1alpha1.RemovalOptions{AfterSeconds: new(int64(300))},
	}
	if diff := cmp.Diff(wantSpec, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	wantOwners := []metav1.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: "winworker-1", UID: "uid-of-winworker-1", Controller: ptrTo(true)}}
	if diff := cmp.Diff(wantOwners, got.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{v1alpha1.SourceAnnotation: "Machine openshift-machine-api/winworker-1"}, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestUsernameAndPoolOfMachines(t *testing.T) {
	tests := []struct {
		name         string
		machine      *machinev1beta1.Machine
		others       []client.Object
		wantUsername string
		wantPool     string
	}{
		{name: "Azure", machine: windowsMachine("m", ""), others: []client.Object{infrastructure(configv1.AzurePlatformType)}, wantUsername: "capi"},
		{name: "AWS", machine: windowsMachine("m", ""), others: []client.Object{infrastructure(configv1.AWSPlatformType)}, wantUsername: "Administrator"},
		{name: "no Infrastructure", machine: windowsMachine("m", ""), wantUsername: "Administrator"},
		{name: "no MachineSet", machine: windowsMachine("m", "gone"), wantUsername: "Administrator"},
		{name: "MachineSet without the label", machine: windowsMachine("m", "s"), others: []client.Object{machineSet("s", false)}, wantUsername: "Administrator"},
		{name: "MachineSet with a pool", machine: windowsMachine("m", "s"), others: []client.Object{machineSet("s", true)}, wantUsername: "Administrator", wantPool: "s"},
		{
			name: "pool with another source in the way", machine: windowsMachine("m", "s"),
			others: []client.Object{machineSet("s", true), &v1alpha1.WindowsNodePool{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"},
				Spec:       v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}},
			}},
			wantUsername: "Administrator",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, append(tt.others, tt.machine)...)
			f.settle("m")
			got := f.instance("m")
			if got == nil {
				t.Fatal("there is no instance")
			}
			var pool *v1alpha1.PoolReference
			if tt.wantPool != "" {
				pool = &v1alpha1.PoolReference{Name: tt.wantPool}
			}
			if diff := cmp.Diff(pool, got.Spec.PoolRef); got.Spec.Username != tt.wantUsername || diff != "" {
				t.Errorf("got user %q, want %q, pool (-want +got):\n%s", got.Spec.Username, tt.wantUsername, diff)
			}
		})
	}
}

func TestPlatformCannotBeRead(t *testing.T) {
	f := newFixture(t, windowsMachine("m", ""))
	broken := errors.New("etcd is slow")
	f.machines.platform = (&platformReader{live: interceptor.NewClient(f.WithWatch, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		},
	})}).Platform
	_, err := f.machines.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: "m"}})
	if !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v: the wrong user must not be guessed", err, broken)
	}
	if f.instance("m") != nil {
		t.Error("an instance was made")
	}
}

func TestMachineChanges(t *testing.T) {
	tests := []struct {
		name       string
		change     func(*machinev1beta1.Machine)
		wantWrites []string
		want       func(*v1alpha1.WindowsInstance) bool
	}{
		{name: "now running", change: func(m *machinev1beta1.Machine) { m.Status.Phase = ptrTo("Running") }},
		{
			name: "another address", change: func(m *machinev1beta1.Machine) { m.Status.Addresses[0].Address = "10.0.0.6" }, wantWrites: []string{"apply m"},
			want: func(i *v1alpha1.WindowsInstance) bool { return i.Spec.Address == "10.0.0.6" },
		},
		{
			name: "more addresses, in another order", change: func(m *machinev1beta1.Machine) {
				m.Status.Addresses = append([]corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.132.0.2"}}, m.Status.Addresses...)
			},
			want: func(i *v1alpha1.WindowsInstance) bool { return i.Spec.Address == "10.0.0.5" },
		},
		{
			name: "it has a Node now", change: func(m *machinev1beta1.Machine) {
				m.Status.Phase, m.Status.NodeRef = ptrTo("Running"), &corev1.ObjectReference{Name: "win-7gq2p1"}
			},
			want: func(i *v1alpha1.WindowsInstance) bool { return i.Spec.NodeName == "" && i.Spec.Address == "10.0.0.5" },
		},
		{
			name: "failed, with another address", change: func(m *machinev1beta1.Machine) {
				m.Status.Phase, m.Status.Addresses[0].Address = ptrTo("Failed"), "10.0.0.6"
			},
			want: func(i *v1alpha1.WindowsInstance) bool { return i.Spec.Address == "10.0.0.5" },
		},
		{
			name: "address lost", change: func(m *machinev1beta1.Machine) { m.Status.Addresses = nil },
			want: func(i *v1alpha1.WindowsInstance) bool { return i.Spec.Address == "10.0.0.5" },
		},
		{
			name: "no provider ID", change: func(m *machinev1beta1.Machine) { m.Spec.ProviderID = nil }, wantWrites: []string{"apply m"},
			want: func(i *v1alpha1.WindowsInstance) bool { return i.Spec.ProviderID == "" },
		},
		{
			name: "ignored", change: func(m *machinev1beta1.Machine) { m.Labels["windowsmachineconfig.openshift.io/ignore"] = "true" }, wantWrites: []string{"apply m"},
			want: func(i *v1alpha1.WindowsInstance) bool {
				return i.Spec.Paused && i.Spec.Address == "10.0.0.5" && i.Spec.Username == "Administrator" && len(i.OwnerReferences) == 1
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, windowsMachine("m", ""))
			f.settle("m")
			change(f, "m", &machinev1beta1.Machine{}, tt.change)
			if diff := cmp.Diff(tt.wantWrites, f.settle("m")); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if tt.want != nil && !tt.want(f.instance("m")) {
				t.Errorf("instance %+v", f.instance("m"))
			}
		})
	}
}

// One command takes the label off many Machines: no host goes, and each says what to do.
func TestLabelTakenOff(t *testing.T) {
	f := newFixture(t, windowsMachine("m", ""))
	f.settle("m")
	change(f, "m", &v1alpha1.WindowsInstance{}, func(i *v1alpha1.WindowsInstance) { i.Generation = 7 })
	before := f.instance("m")
	condition := func() *metav1.Condition {
		return meta.FindStatusCondition(f.instance("m").Status.Conditions, v1alpha1.ConditionSourceSynced)
	}
	for range 2 {
		change(f, "m", &machinev1beta1.Machine{}, func(m *machinev1beta1.Machine) {
			delete(m.Labels, "machine.openshift.io/os-id")
			m.Status.Addresses[0].Address = "10.0.0.6"
		})
		// The controller that continues knows nothing but what is in the instance.
		for range 2 {
			f.settle("m")
		}
		after := f.instance("m")
		if diff := cmp.Diff(before.Spec, after.Spec); diff != "" || !after.DeletionTimestamp.IsZero() || len(after.OwnerReferences) != 1 {
			t.Errorf("instance %+v, want it as it was", after)
		}
		if c := condition(); c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonLabelRemoved || c.ObservedGeneration != 7 ||
			!strings.Contains(c.Message, "kubectl label machines.machine.openshift.io m -n openshift-machine-api machine.openshift.io/os-id=Windows --overwrite") ||
			!strings.Contains(c.Message, "kubectl annotate wi m -n openshift-machine-api windows.openshift.io/source- && kubectl patch wi m -n openshift-machine-api --type=merge -p '{\"spec\":{\"removal\":{\"afterSeconds\":null}}}' && kubectl delete wi m -n openshift-machine-api") {
			t.Errorf("condition %+v", c)
		}
		if len(f.events.Events) != 1 {
			t.Fatalf("%d events, want 1", len(f.events.Events))
		}
		if event := <-f.events.Events; !strings.HasPrefix(event, "Warning LabelRemoved Machine openshift-machine-api/m has no label") {
			t.Errorf("event %q", event)
		}

		change(f, "m", &machinev1beta1.Machine{}, func(m *machinev1beta1.Machine) {
			m.Labels = windowsMachine("m", "").Labels
			m.Status.Addresses[0].Address = "10.0.0.5"
		})
		f.settle("m")
		if c := condition(); c != nil {
			t.Errorf("with the label back: condition %+v", c)
		}
	}
}

// A Machine that is kept and then goes takes its instance along, and nothing else is written to it.
func TestKeptMachineIsDeleted(t *testing.T) {
	f := newFixture(t, windowsMachine("m", ""))
	f.settle("m")
	change(f, "m", &machinev1beta1.Machine{}, func(m *machinev1beta1.Machine) {
		m.Labels, m.Finalizers = nil, []string{"machine.machine.openshift.io"}
	})
	f.settle("m")
	if err := f.WithWatch.Delete(t.Context(), windowsMachine("m", "")); err != nil {
		t.Fatal(err)
	}
	f.writes = nil
	if diff := cmp.Diff([]string{"delete m"}, f.settle("m")); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// What happens to a MachineSet moves none of the Machines that live on out of their pool, whose
// labels, taints, pause and credentials they would lose, all at once.
func TestMachinesKeepTheirPool(t *testing.T) {
	for name, happens := range map[string]func(*fixture){
		"the label is taken off the template": func(f *fixture) {
			change(f, "winworker", &machinev1beta1.MachineSet{}, func(s *machinev1beta1.MachineSet) { s.Spec.Template.Labels = nil })
		},
		"the set is deleted without its Machines": func(f *fixture) {
			if err := f.WithWatch.Delete(f.Context(), machineSet("winworker", true)); err != nil {
				f.Fatal(err)
			}
			change(f, "m", &machinev1beta1.Machine{}, func(m *machinev1beta1.Machine) { m.OwnerReferences = nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, machineSet("winworker", true), windowsMachine("m", "winworker"))
			f.settle("winworker")
			f.settle("m")
			happens(f)
			f.settle("m")
			if got := f.instance("m").Spec.PoolRef; got == nil || got.Name != "winworker" {
				t.Errorf("got pool %v, want winworker", got)
			}
			// Another set takes the Machine over.
			if err := f.Create(t.Context(), machineSet("other", true)); err != nil {
				t.Fatal(err)
			}
			f.settle("other")
			change(f, "m", &machinev1beta1.Machine{}, func(m *machinev1beta1.Machine) { m.OwnerReferences = windowsMachine("m", "other").OwnerReferences })
			f.settle("m")
			if got := f.instance("m").Spec.PoolRef; got == nil || got.Name != "other" {
				t.Errorf("got pool %v, want other", got)
			}
		})
	}
}

// What its command does to an instance that is kept lasts: the controller makes neither it nor the
// annotation again.
func TestKeptInstanceIsDeletedByHand(t *testing.T) {
	f := newFixture(t, windowsMachine("m", ""))
	f.settle("m")
	change(f, "m", &machinev1beta1.Machine{}, func(m *machinev1beta1.Machine) { m.Labels = nil })
	f.settle("m")
	change(f, "m", &v1alpha1.WindowsInstance{}, func(i *v1alpha1.WindowsInstance) { i.Annotations = nil })
	f.settle("m")
	if got := f.instance("m"); len(got.Annotations) > 0 {
		t.Fatalf("annotations %v", got.Annotations)
	}
	if err := f.WithWatch.Delete(t.Context(), f.instance("m")); err != nil {
		t.Fatal(err)
	}
	f.settle("m")
	if got := f.instance("m"); got != nil {
		t.Errorf("got %+v", got)
	}
}

// The Machine of that name is another one, and none of Windows.
func TestMachineIsReplacedByOneOfLinux(t *testing.T) {
	f := newFixture(t, windowsMachine("m", ""))
	f.settle("m")
	if err := f.WithWatch.Delete(t.Context(), windowsMachine("m", "")); err != nil {
		t.Fatal(err)
	}
	machine := windowsMachine("m", "")
	machine.UID, machine.Labels = "another", nil
	if err := f.Create(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	f.settle("m")
	if got := f.instance("m"); got != nil {
		t.Errorf("got %+v", got)
	}
}

func TestIgnoredMachine(t *testing.T) {
	machine := windowsMachine("m", "")
	machine.Labels["windowsmachineconfig.openshift.io/ignore"] = "true"
	f := newFixture(t, machine)
	if writes := f.settle("m"); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
	unlabel := func(m *machinev1beta1.Machine) { delete(m.Labels, "windowsmachineconfig.openshift.io/ignore") }
	label := func(m *machinev1beta1.Machine) { m.Labels["windowsmachineconfig.openshift.io/ignore"] = "true" }
	for _, edit := range []func(*machinev1beta1.Machine){unlabel, label, unlabel} {
		change(f, "m", &machinev1beta1.Machine{}, edit)
		f.settle("m")
	}
	if got := f.instance("m"); got == nil || got.Spec.Paused {
		t.Errorf("instance %+v, want it to be there and not to be paused any more", got)
	}
}

func TestMachineIsDeleted(t *testing.T) {
	machine := windowsMachine("m", "")
	machine.Finalizers = []string{"machine.machine.openshift.io"}
	f := newFixture(t, machine)
	f.settle("m")
	if err := f.WithWatch.Delete(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	f.settle("m")
	if f.instance("m") != nil {
		t.Error("the instance of a Machine that is being deleted is still there")
	}

	gone := newFixture(t, windowsMachine("m", ""))
	gone.settle("m")
	if err := gone.WithWatch.Delete(t.Context(), windowsMachine("m", "")); err != nil {
		t.Fatal(err)
	}
	gone.settle("m")
	if gone.instance("m") != nil {
		t.Error("the instance of a Machine that is gone is still there")
	}
}

// TestHookBeforeTheDrain: the instance goes when the hook does, without anything else happening to the Machine.
func TestHookBeforeTheDrain(t *testing.T) {
	machine := windowsMachine("m", "")
	machine.Finalizers = []string{"machine.machine.openshift.io"}
	machine.Spec.LifecycleHooks.PreDrain = []machinev1beta1.LifecycleHook{{Name: "rebuild", Owner: "storage"}}
	machine.Status.NodeRef = &corev1.ObjectReference{Name: "m"}
	f := newFixture(t, machine)
	f.settle("m")
	if err := f.WithWatch.Delete(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	f.writes = nil
	if writes := f.settle("m"); len(writes) > 0 || f.instance("m") == nil {
		t.Errorf("with the hook: writes %v", writes)
	}
	change(f, "m", &machinev1beta1.Machine{}, func(m *machinev1beta1.Machine) { m.Spec.LifecycleHooks.PreDrain = nil })
	if diff := cmp.Diff([]string{"delete m"}, f.settle("m")); diff != "" {
		t.Errorf("without it: writes (-want +got):\n%s", diff)
	}
}

// A new Machine of an old name is another host: nothing that is known of the old
// one, its host keys above all, may hold for it.
func TestMachineIsReplaced(t *testing.T) {
	f := newFixture(t, windowsMachine("m", ""))
	f.settle("m")
	old := f.instance("m")
	old.Status.Phase = v1alpha1.InstanceReady
	if err := f.Status().Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := f.WithWatch.Delete(t.Context(), windowsMachine("m", "")); err != nil {
		t.Fatal(err)
	}
	machine := windowsMachine("m", "")
	machine.UID = "another"
	if err := f.Create(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	f.writes = nil
	if diff := cmp.Diff([]string{"delete m", "apply m"}, f.settle("m")); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := f.instance("m"); got.OwnerReferences[0].UID != "another" || got.Status.Phase != "" {
		t.Errorf("got %+v", got)
	}
}

// So is one that asks for no instance yet, or for none.
func TestMachineIsReplacedByOneThatAsksForNone(t *testing.T) {
	for name, edit := range map[string]func(*machinev1beta1.Machine){
		"provisioning":      func(m *machinev1beta1.Machine) { m.Status = machinev1beta1.MachineStatus{} },
		"ignored":           func(m *machinev1beta1.Machine) { m.Labels["windowsmachineconfig.openshift.io/ignore"] = "true" },
		"without the label": func(m *machinev1beta1.Machine) { m.Labels = nil },
		"being deleted, too": func(m *machinev1beta1.Machine) {
			m.Finalizers, m.DeletionTimestamp = []string{"example.com/f"}, ptrTo(metav1.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := newFixture(t, windowsMachine("m", ""))
			before.settle("m")
			machine, instance := windowsMachine("m", ""), before.instance("m")
			machine.UID, instance.ResourceVersion = "another", ""
			edit(machine)
			f := newFixture(t, machine, instance)
			if diff := cmp.Diff([]string{"delete m"}, f.settle("m")); diff != "" || f.instance("m") != nil {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// An instance that was restored without the record of who applied it, and without its owner, is
// that of its Machine by its annotation.
func TestInstanceThatWasRestored(t *testing.T) {
	for name, ignored := range map[string]bool{"runs": false, "ignored": true} {
		t.Run(name, func(t *testing.T) {
			machine := windowsMachine("m", "")
			if ignored {
				machine.Labels["windowsmachineconfig.openshift.io/ignore"] = "true"
			}
			f := newFixture(t, machine, &v1alpha1.WindowsInstance{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m", UID: "restored", Annotations: map[string]string{v1alpha1.SourceAnnotation: "Machine openshift-machine-api/m"}},
				Spec:       v1alpha1.WindowsInstanceSpec{Address: "10.0.0.9", PoolRef: &v1alpha1.PoolReference{Name: "mine"}},
			})
			f.settle("m")
			got := f.instance("m")
			want := v1alpha1.WindowsInstanceSpec{Paused: true, PoolRef: &v1alpha1.PoolReference{Name: "mine"}}
			if !ignored {
				want = v1alpha1.WindowsInstanceSpec{
					Address: "10.0.0.5", Port: 22, Username: "Administrator", ProviderID: "vsphere://42",
					PoolRef: &v1alpha1.PoolReference{Name: "mine"}, Removal: &v1alpha1.RemovalOptions{AfterSeconds: new(int64(300))},
				}
			} else {
				got.Spec.Address = "" // the fake empties required fields that are not applied
			}
			if diff := cmp.Diff(want, got.Spec); diff != "" || got.UID != "restored" {
				t.Errorf("%s, spec (-want +got):\n%s", got.UID, diff)
			}
		})
	}
}

// The time after which a host is given up is a default: what people choose stays, until
// they choose nothing any more.
func TestRemovalIsADefault(t *testing.T) {
	after := func(d time.Duration) *int64 { return new(int64(d / time.Second)) }
	f := newFixture(t, windowsMachine("m", ""))
	f.settle("m")
	for _, step := range []struct {
		name      string
		set, want *v1alpha1.RemovalOptions
	}{
		{"a policy besides", &v1alpha1.RemovalOptions{Policy: v1alpha1.RemovalAbandon, AfterSeconds: after(removeAfter)}, &v1alpha1.RemovalOptions{Policy: v1alpha1.RemovalAbandon, AfterSeconds: after(removeAfter)}},
		{"only a policy", &v1alpha1.RemovalOptions{Policy: v1alpha1.RemovalAbandon}, &v1alpha1.RemovalOptions{Policy: v1alpha1.RemovalAbandon, AfterSeconds: after(removeAfter)}},
		{"another time", &v1alpha1.RemovalOptions{AfterSeconds: after(time.Hour)}, &v1alpha1.RemovalOptions{AfterSeconds: after(time.Hour)}},
		{"nothing", nil, &v1alpha1.RemovalOptions{AfterSeconds: after(removeAfter)}},
	} {
		change(f, "m", &v1alpha1.WindowsInstance{}, func(i *v1alpha1.WindowsInstance) { i.Spec.Removal = step.set })
		f.settle("m")
		if diff := cmp.Diff(step.want, f.instance("m").Spec.Removal); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// The instance of a Machine that was deleted stays until its host is clean or given up;
// one of a new Machine of the same name is made when it is gone.
func TestMachineIsReplacedWhileItsHostIsCleaned(t *testing.T) {
	f := newFixture(t, windowsMachine("m", ""))
	f.settle("m")
	change(f, "m", &v1alpha1.WindowsInstance{}, func(i *v1alpha1.WindowsInstance) {
		i.Finalizers = []string{v1alpha1.HostFinalizer}
	})
	if err := f.WithWatch.Delete(t.Context(), windowsMachine("m", "")); err != nil {
		t.Fatal(err)
	}
	f.settle("m")
	machine := windowsMachine("m", "")
	machine.UID = "another"
	if err := f.Create(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	if writes := f.settle("m"); len(writes) > 0 {
		t.Errorf("writes while the host is cleaned: %v", writes)
	}
	old := f.instance("m")
	if old == nil || old.DeletionTimestamp.IsZero() || old.OwnerReferences[0].UID == "another" {
		t.Fatalf("got %+v", old)
	}

	change(f, "m", &v1alpha1.WindowsInstance{}, func(i *v1alpha1.WindowsInstance) { i.Finalizers = nil })
	if diff := cmp.Diff([]string{"apply m"}, f.settle("m")); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := f.instance("m"); got == nil || got.OwnerReferences[0].UID != "another" {
		t.Errorf("got %+v", got)
	}
}

func TestHandMadeInstanceIsLeftAlone(t *testing.T) {
	t.Run("of nobody", func(t *testing.T) { testHandMade(t, nil) })
	t.Run("of somebody else", func(t *testing.T) {
		testHandMade(t, controlled(metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Host", Name: "m", UID: "another"}))
	})
}

func testHandMade(t *testing.T, owners []metav1.OwnerReference) {
	mine := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m", OwnerReferences: owners},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: "10.0.0.9"},
	}
	f := newFixture(t, windowsMachine("m", ""), mine)
	if writes := f.settle("m"); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
	f.settle("m")
	if len(f.events.Events) != 1 {
		t.Fatalf("%d events, want 1", len(f.events.Events))
	}
	if event := <-f.events.Events; event != "Warning InstanceConflict A WindowsInstance m exists and does not belong to this Machine. Delete it, so that one is made for the Machine." {
		t.Errorf("event %q", event)
	}
	change(f, "m", &machinev1beta1.Machine{}, func(m *machinev1beta1.Machine) { m.Labels = nil })
	f.settle("m")
	if f.instance("m") == nil {
		t.Error("the instance was deleted")
	}
}

func TestEditsArePutRight(t *testing.T) {
	f := newFixture(t, windowsMachine("m", ""))
	f.settle("m")
	before := f.instance("m")
	edited := before.DeepCopy()
	edited.OwnerReferences, edited.Spec.Address = nil, "10.0.0.66"
	edited.Spec.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "mine"} // is for people
	if err := f.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	f.settle("m")
	before.Spec.CredentialsSecretRef = edited.Spec.CredentialsSecretRef
	got := f.instance("m")
	if diff := cmp.Diff(before.Spec, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before.OwnerReferences, got.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

func TestLinuxCausesNoWrites(t *testing.T) {
	linux := windowsMachine("worker-1", "worker")
	linux.Labels = nil
	f := newFixture(t, machineSet("worker", false), linux)
	for _, name := range []string{"worker", "worker-1", "gone"} {
		if writes := f.settle(name); len(writes) > 0 {
			t.Errorf("%s: writes: %v", name, writes)
		}
	}
}
