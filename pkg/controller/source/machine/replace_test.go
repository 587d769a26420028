// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// says writes a condition of an instance, as the instance controller does, and more.
func (f *fixture) says(name, condition string, status metav1.ConditionStatus, reason string, more ...func(*v1alpha1.WindowsInstance)) {
	f.Helper()
	instance := f.instance(name)
	meta.SetStatusCondition(&instance.Status.Conditions, metav1.Condition{Type: condition, Status: status, Reason: reason})
	for _, change := range more {
		change(instance)
	}
	if err := f.Status().Update(f.Context(), instance); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) refuses(name string, more ...func(*v1alpha1.WindowsInstance)) {
	f.Helper()
	f.says(name, v1alpha1.ConditionAuthenticated, metav1.ConditionFalse, v1alpha1.ReasonCredentialsRefused, more...)
}

// isThere says whether there is a Machine.
func (f *fixture) isThere(name string) bool {
	f.Helper()
	err := f.Get(f.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &machinev1beta1.Machine{})
	if client.IgnoreNotFound(err) != nil {
		f.Fatal(err)
	}
	return err == nil
}

// told are the events since they were last taken.
func (f *fixture) told() string {
	var all []string
	for len(f.events.Events) > 0 {
		all = append(all, <-f.events.Events)
	}
	return strings.Join(all, "\n")
}

// refusingSet is a MachineSet on AWS with Machines, whose hosts refuse the key.
func refusingSet(t *testing.T, machines ...string) *fixture {
	t.Helper()
	objects := []client.Object{infrastructure(configv1.AWSPlatformType), machineSet("winworker", true)}
	for _, name := range machines {
		objects = append(objects, windowsMachine(name, "winworker"))
	}
	f := newFixture(t, objects...)
	f.settle("winworker")
	for _, name := range machines {
		f.settle(name)
		f.refuses(name)
		f.settle(name)
	}
	return f
}

// TestMachineIsReplacedOnce: a Machine whose host has refused the key for five minutes since it came is deleted; when the
// next one refuses it, too, that stays, and the pool says so until somebody allows one more, or a host accepts the key.
func TestMachineIsReplacedOnce(t *testing.T) {
	f := refusingSet(t, "winworker-a")
	f.now = f.now.Add(refusedFor - time.Second)
	if f.settle("winworker-a"); !f.isThere("winworker-a") {
		t.Fatal("it is deleted too early")
	}
	f.now = f.now.Add(time.Second)
	if f.settle("winworker-a"); f.isThere("winworker-a") {
		t.Fatalf("it is not deleted: %s", f.told())
	}
	if got := f.told(); !strings.Contains(got, "Normal MachineDeleted The host has refused the key for five minutes since it came.") {
		t.Errorf("events %s", got)
	}
	if got := f.pool("winworker").Annotations[v1alpha1.ReplacedMachineAnnotation]; got != "winworker-a uid-of-winworker-a 2026-03-01T12:05:00Z" {
		t.Errorf("the pool has recorded %q", got)
	}

	// That of its successor refuses it, too.
	if err := f.Create(t.Context(), windowsMachine("winworker-b", "winworker")); err != nil {
		t.Fatal(err)
	}
	f.settle("winworker-b")
	f.cameNow("winworker-b")
	f.refuses("winworker-b")
	f.settle("winworker-b")
	f.settle("winworker")
	checkSynced(t, f.pool("winworker"), v1alpha1.ReasonSynced, 2) // its user data may still run
	f.now = f.now.Add(refusedFor)
	f.settle("winworker-b")
	f.settle("winworker")
	want := "The host of Machine winworker-b refuses the key, as that of Machine winworker-a did, which was replaced, so no more Machines are replaced. "
	if got := f.told(); !f.isThere("winworker-b") || strings.Count(got, "Warning MachineDeletionRestricted The Machine is not replaced: "+want) != 1 {
		t.Errorf("it is there: %t, events %s", f.isThere("winworker-b"), got)
	}
	checkSynced(t, f.pool("winworker"), v1alpha1.ReasonReplacementsStopped, 2)
	if got := meta.FindStatusCondition(f.pool("winworker").Status.Conditions, v1alpha1.ConditionSourceSynced); got.Status != metav1.ConditionFalse ||
		!strings.HasPrefix(got.Message, want) || !strings.Contains(got.Message, "kubectl annotate wnp winworker -n openshift-machine-api windows.openshift.io/replaced-machine-") {
		t.Errorf("the pool says %+v", got)
	}
	if f.settle("winworker-b"); f.told() != "" {
		t.Error("it is told again")
	}

	// The command is run.
	pool := f.pool("winworker")
	delete(pool.Annotations, v1alpha1.ReplacedMachineAnnotation)
	if err := f.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	f.settle("winworker")
	checkSynced(t, f.pool("winworker"), v1alpha1.ReasonSynced, 2)
	if f.settle("winworker-b"); f.isThere("winworker-b") {
		t.Errorf("it is not deleted: %s", f.told())
	}
}

// TestOneMachineAtATime: of several one is deleted, and the next one when a host that came since has accepted the key.
func TestOneMachineAtATime(t *testing.T) {
	f := refusingSet(t, "winworker-a", "winworker-b")
	f.now = f.now.Add(refusedFor)
	f.settle("winworker-a")
	f.settle("winworker-b")
	told := f.told()
	if f.isThere("winworker-a") || !f.isThere("winworker-b") {
		t.Fatalf("there are %t and %t: %s", f.isThere("winworker-a"), f.isThere("winworker-b"), told)
	}
	// That it waits is nothing that anybody has to do something about, before it lasts.
	if !strings.Contains(told, "The Machine is not replaced yet: Machine winworker-a was replaced at 2026-03-01T12:05:00Z, and no host that came since has accepted the key yet.") || strings.Contains(told, "kubectl") {
		t.Errorf("events %s", told)
	}
	f.settle("winworker")
	checkSynced(t, f.pool("winworker"), v1alpha1.ReasonSynced, 2)
	f.now = f.now.Add(exclusiveFor)
	f.settle("winworker")
	checkSynced(t, f.pool("winworker"), v1alpha1.ReasonReplacementsStopped, 2)
	f.settle("winworker-b")
	if told := f.told(); !f.isThere("winworker-b") || !strings.Contains(told, "so no more Machines are replaced. See what user data does on the host: its image may not run it. Then: kubectl annotate wnp winworker") {
		t.Errorf("events %s", told)
	}
	if err := f.Create(t.Context(), windowsMachine("winworker-c", "winworker")); err != nil {
		t.Fatal(err)
	}
	f.settle("winworker-c")
	f.cameNow("winworker-c")
	f.says("winworker-c", v1alpha1.ConditionAuthenticated, metav1.ConditionTrue, "Authenticated")
	f.settle("winworker")
	checkSynced(t, f.pool("winworker"), v1alpha1.ReasonSynced, 2)
	if f.settle("winworker-b"); f.isThere("winworker-b") {
		t.Errorf("the second one is not deleted: %s", f.told())
	}
}

// cameNow has an instance be one that was made now.
func (f *fixture) cameNow(name string) {
	f.Helper()
	came := f.instance(name)
	if err := f.Delete(f.Context(), f.instance(name)); err != nil {
		f.Fatal(err)
	}
	came.CreationTimestamp, came.ResourceVersion = metav1.NewTime(f.now), ""
	if err := f.Create(f.Context(), came); err != nil {
		f.Fatal(err)
	}
}

// TestSuccession: when the pool looks at the successor again, without being asked.
func TestSuccession(t *testing.T) {
	t.Run("the Machine that was recorded is there, and its host accepts the key", func(t *testing.T) {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Annotations: map[string]string{
			v1alpha1.ReplacedMachineAnnotation: replaced{name: "a", uid: "uid-of-a", at: now.Add(-time.Hour)}.String(),
		}}}
		member := func(name string, accepts metav1.ConditionStatus, reason string) v1alpha1.WindowsInstance {
			m := v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{
				Name: name, CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Hour)), OwnerReferences: []metav1.OwnerReference{{Kind: kindMachine, UID: types.UID("uid-of-" + name)}},
			}}
			m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAuthenticated, Status: accepts, Reason: reason}}
			return m
		}
		refuses := member("b", metav1.ConditionFalse, v1alpha1.ReasonCredentialsRefused)
		if got := successionOf(pool, []v1alpha1.WindowsInstance{member("a", metav1.ConditionTrue, v1alpha1.ReasonLoggedIn), refuses}, now); got != (succession{}) {
			t.Errorf("got %+v", got)
		}
		if got := successionOf(pool, []v1alpha1.WindowsInstance{member("c", metav1.ConditionTrue, v1alpha1.ReasonLoggedIn), refuses}, now); !got.stopped {
			t.Errorf("where it is another one that was there before: %+v", got)
		}
	})
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		replaced, came time.Duration // ago
		record         string
		stopped        bool
		until          time.Duration
	}{
		"it waits for its turn":              {replaced: time.Minute, came: time.Hour, until: exclusiveFor - time.Minute},
		"none has come for long":             {replaced: exclusiveFor, came: time.Hour, stopped: true},
		"its user data may still run":        {replaced: 10 * time.Minute, came: time.Minute, until: refusedFor - time.Minute},
		"that which came refuses it":         {replaced: 10 * time.Minute, came: refusedFor, stopped: true},
		"that which came late may run it":    {replaced: exclusiveFor + time.Minute, came: time.Minute, until: refusedFor - time.Minute},
		"a clock that ran ahead recorded it": {replaced: -24 * time.Hour, came: time.Hour, stopped: true},
		"a clock ran ahead a little":         {replaced: -time.Minute, came: time.Hour, until: exclusiveFor + time.Minute},
		"nobody can read what was replaced":  {record: "what?", came: time.Hour, stopped: true},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Annotations: map[string]string{
				v1alpha1.ReplacedMachineAnnotation: cmp.Or(tt.record, replaced{name: "a", uid: "uid-of-a", at: now.Add(-tt.replaced)}.String()),
			}}}
			m := v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: "b", CreationTimestamp: metav1.NewTime(now.Add(-tt.came))}}
			m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAuthenticated, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCredentialsRefused}}
			got := successionOf(pool, []v1alpha1.WindowsInstance{m}, now)
			if got.stopped != tt.stopped || got.stopped != strings.Contains(got.why, "kubectl annotate wnp p -n ns ") || got.stopped != got.until.IsZero() {
				t.Errorf("got %+v", got)
			}
			if !tt.stopped && got.until.Sub(now) != tt.until {
				t.Errorf("until %s, want %s", got.until.Sub(now), tt.until)
			}
		})
	}
}

// TestMachinesThatAreKept: what was ever more than a virtual machine that refuses the key is not deleted.
func TestMachinesThatAreKept(t *testing.T) {
	editPool := func(change func(*v1alpha1.WindowsNodePool)) func(*fixture) {
		return func(f *fixture) {
			pool := f.pool("winworker")
			change(pool)
			if err := f.Update(f.Context(), pool); err != nil {
				f.Fatal(err)
			}
		}
	}
	editInstance := func(change func(*v1alpha1.WindowsInstance)) func(*fixture) {
		return func(f *fixture) { f.refuses("winworker-a", change) }
	}
	editFinalizer := func(f *fixture) {
		f.refuses("winworker-a")
		instance := f.instance("winworker-a")
		instance.Finalizers = []string{v1alpha1.HostFinalizer}
		if err := f.Update(f.Context(), instance); err != nil {
			f.Fatal(err)
		}
	}
	editMachine := func(edit func(*machinev1beta1.Machine)) func(*fixture) {
		return func(f *fixture) { change(f, "winworker-a", &machinev1beta1.Machine{}, edit) }
	}
	// other is another instance, which accepted the key before.
	other := func(reason string) func(*fixture) {
		return func(f *fixture) {
			if err := f.Create(f.Context(), &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "old"}}); err != nil {
				f.Fatal(err)
			}
			f.says("old", v1alpha1.ConditionAuthenticated, metav1.ConditionFalse, reason, func(i *v1alpha1.WindowsInstance) { i.Status.MachineID = "id" })
		}
	}
	for name, tt := range map[string]struct {
		change func(*fixture)
		says   string // part of the event; empty: nothing is told
	}{
		"it is a node":                     {change: editMachine(func(m *machinev1beta1.Machine) { m.Status.NodeRef = &corev1.ObjectReference{Name: "n"} })},
		"its host has a Node":              {change: editInstance(func(i *v1alpha1.WindowsInstance) { i.Status.Node = &v1alpha1.NodeReference{Name: "n"} })},
		"its host was logged in to":        {change: editInstance(func(i *v1alpha1.WindowsInstance) { i.Status.MachineID = "id" })},
		"and our agent never ran there":    {change: editFinalizer},
		"its host was inspected":           {change: editInstance(func(i *v1alpha1.WindowsInstance) { i.Status.System = &v1alpha1.SystemStatus{} })},
		"its host was configured":          {change: editInstance(func(i *v1alpha1.WindowsInstance) { i.Status.CurrentRevision = "r" })},
		"something was done with its host": {change: editInstance(func(i *v1alpha1.WindowsInstance) { i.Status.Operation = &v1alpha1.Operation{ID: "o"} })},
		"it was, before":                   {change: editInstance(func(i *v1alpha1.WindowsInstance) { i.Status.History = []v1alpha1.Operation{{ID: "o"}} })},
		"the key is missing": {change: func(f *fixture) {
			f.says("winworker-a", v1alpha1.ConditionAuthenticated, metav1.ConditionFalse, v1alpha1.ReasonCredentialsMissing)
		}},
		"it is running": {change: editMachine(func(m *machinev1beta1.Machine) { m.Status.Phase = ptrTo("Running") })},
		"it is paused": {change: func(f *fixture) {
			instance := f.instance("winworker-a")
			instance.Spec.Paused = true
			if err := f.Update(f.Context(), instance); err != nil {
				f.Fatal(err)
			}
		}},
		"it has no MachineSet": {change: editMachine(func(m *machinev1beta1.Machine) { m.OwnerReferences = nil })},
		"its MachineSet is no longer Windows": {change: func(f *fixture) {
			change(f, "winworker", &machinev1beta1.MachineSet{}, func(s *machinev1beta1.MachineSet) { s.Spec.Template.Labels = nil })
		}},
		"the pool is paused": {change: editPool(func(p *v1alpha1.WindowsNodePool) { p.Spec.Paused = true })},
		"the pool has a key of its own": {change: editPool(func(p *v1alpha1.WindowsNodePool) {
			p.Spec.Template.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "k"}
		})},
		"the pool says never": {change: editPool(func(p *v1alpha1.WindowsNodePool) { p.Annotations[v1alpha1.ReplaceMachinesAnnotation] = "Never" })},
		"the platform runs no user data": {change: func(f *fixture) {
			f.machines.platform = func(context.Context) (configv1.PlatformType, error) { return configv1.VSpherePlatformType, nil }
		}},
		"another host refuses it, too":  {change: other(v1alpha1.ReasonCredentialsRefused), says: "because that of WindowsInstance openshift-machine-api/old, which has accepted it before, does too"},
		"nobody has the key":            {change: other(v1alpha1.ReasonCredentialsMissing), says: "the key in use is not the one that hosts have"},
		"the user data has another key": {change: func(f *fixture) { f.outdated = "the user data is outdated" }, says: "The Machine is not replaced, although its host refuses the key, because the user data is outdated"},
		"the record cannot be read":     {change: editPool(func(p *v1alpha1.WindowsNodePool) { p.Annotations[v1alpha1.ReplacedMachineAnnotation] = "what?" }), says: "MachineDeletionRestricted The Machine is not replaced: "},
	} {
		t.Run(name, func(t *testing.T) {
			f := refusingSet(t, "winworker-a")
			tt.change(f)
			f.settle("winworker-a")
			f.now = f.now.Add(2 * refusedFor)
			f.settle("winworker-a")
			if got := f.told(); !f.isThere("winworker-a") || (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
				t.Errorf("it is there: %t, events %q, want %q", f.isThere("winworker-a"), got, tt.says)
			}
		})
	}
	t.Run("its host accepts the key for a moment", func(t *testing.T) {
		f := refusingSet(t, "winworker-a")
		f.now = f.now.Add(refusedFor - time.Second)
		f.says("winworker-a", v1alpha1.ConditionAuthenticated, metav1.ConditionFalse, v1alpha1.ReasonAuthenticationTimedOut)
		f.settle("winworker-a")
		f.refuses("winworker-a")
		f.settle("winworker-a")
		f.now = f.now.Add(refusedFor - time.Second)
		if f.settle("winworker-a"); !f.isThere("winworker-a") {
			t.Error("it is deleted")
		}
	})
}

// TestLostKey: only hosts that are logged in to with the cluster-wide key say that it was replaced, and nobody else with a pool
// and a Secret of their own.
func TestLostKey(t *testing.T) {
	own := &v1alpha1.SecretReference{Name: "k"}
	pools := []v1alpha1.WindowsNodePool{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cluster-key"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "own-key"}, Spec: v1alpha1.WindowsNodePoolSpec{Template: v1alpha1.PoolTemplate{CredentialsSecretRef: own}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "gone"}},
	}
	for _, tt := range []struct {
		name, pool, reason, machine string
		secret                      *v1alpha1.SecretReference
		finalizers                  []string
		want                        bool
	}{
		{name: "in no pool", reason: v1alpha1.ReasonCredentialsRefused, machine: "id", want: true},
		{name: "in a pool", pool: "cluster-key", reason: v1alpha1.ReasonCredentialsMissing, machine: "id", want: true},
		{name: "it accepts the key", pool: "cluster-key", reason: v1alpha1.ReasonLoggedIn, machine: "id"},
		{name: "it has never accepted the key", pool: "cluster-key", reason: v1alpha1.ReasonCredentialsRefused},
		{name: "it has accepted the key, and our agent never ran there", pool: "cluster-key", reason: v1alpha1.ReasonCredentialsRefused, finalizers: []string{v1alpha1.HostFinalizer}, want: true},
		{name: "it has a Secret of its own", pool: "cluster-key", reason: v1alpha1.ReasonCredentialsRefused, machine: "id", secret: own},
		{name: "its pool has a Secret of its own", pool: "own-key", reason: v1alpha1.ReasonCredentialsMissing, machine: "id"},
		{name: "its pool is gone", pool: "gone", reason: v1alpha1.ReasonCredentialsMissing, machine: "id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			instance := v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "win-1", Finalizers: tt.finalizers}}
			instance.Spec.CredentialsSecretRef, instance.Status.MachineID = tt.secret, tt.machine
			if tt.pool != "" {
				instance.Spec.PoolRef = &v1alpha1.PoolReference{Name: tt.pool}
			}
			instance.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAuthenticated, Reason: tt.reason}}
			if got := lostKey([]v1alpha1.WindowsInstance{instance}, pools); (got != nil) != tt.want {
				t.Errorf("got %v, want one: %t", got, tt.want)
			}
		})
	}
}

// TestReplacementIsInterrupted: what was recorded and not done is done, also by another controller.
func TestReplacementIsInterrupted(t *testing.T) {
	f := refusingSet(t, "winworker-a")
	key := client.ObjectKey{Namespace: namespace, Name: "winworker-a"}
	f.now = f.now.Add(refusedFor)
	var refused error
	f.machines.replacer.client = interceptor.NewClient(f.WithWatch, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
		var o client.DeleteOptions
		o.ApplyOptions(opts)
		if o.Preconditions == nil || o.Preconditions.UID == nil || o.Preconditions.ResourceVersion == nil {
			t.Error("it deletes whatever has the name by then")
		}
		if refused != nil {
			return refused
		}
		return c.Delete(ctx, obj, opts...)
	}})
	machine := &machinev1beta1.Machine{}
	if err := f.Get(t.Context(), key, machine); err != nil {
		t.Fatal(err)
	}
	replace := func() error {
		_, err := f.machines.replacer.replace(t.Context(), machine, f.instance("winworker-a"), configv1.AWSPlatformType)
		return err
	}
	refused = errors.New("killed")
	if err := replace(); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	refused = apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "winworker-a", errors.New("no role"))
	if err := replace(); err != nil {
		t.Error(err)
	}
	if got := f.told(); !strings.Contains(got, "MachineDeletionFailed") || !strings.Contains(got, "kubectl apply -f artifacts/openshift/machine-replacement.yaml") {
		t.Errorf("events %s", got)
	}
	// The next controller waits again.
	refused = nil
	f.machines.replacer.since = map[types.NamespacedName]refusal{}
	if err := replace(); err != nil || !f.isThere("winworker-a") {
		t.Errorf("%v, it is there: %t", err, f.isThere("winworker-a"))
	}
	f.now = f.now.Add(refusedFor)
	if err := replace(); err != nil || f.isThere("winworker-a") {
		t.Errorf("%v, it is there: %t", err, f.isThere("winworker-a"))
	}
}

func TestRefusalChanged(t *testing.T) {
	accepts, refuses := &v1alpha1.WindowsInstance{}, &v1alpha1.WindowsInstance{}
	refuses.Namespace, refuses.Spec.PoolRef = namespace, &v1alpha1.PoolReference{Name: "p"}
	meta.SetStatusCondition(&refuses.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAuthenticated, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCredentialsRefused})
	p := refusalChanged
	got := []bool{
		p.Update(event.UpdateEvent{ObjectOld: accepts, ObjectNew: refuses}), p.Update(event.UpdateEvent{ObjectOld: refuses, ObjectNew: accepts}),
		p.Create(event.CreateEvent{Object: refuses}), p.Delete(event.DeleteEvent{Object: refuses}),
		!p.Update(event.UpdateEvent{ObjectOld: refuses, ObjectNew: refuses}), !p.Create(event.CreateEvent{Object: accepts}), !p.Delete(event.DeleteEvent{Object: machineSet("a", true)}),
	}
	if slices.Contains(got, false) {
		t.Errorf("got %v", got)
	}
}
