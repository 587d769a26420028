// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"fmt"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// failedMachine is one that the Machine API has given up.
func failedMachine(name, set, why string) *machinev1beta1.Machine {
	machine := windowsMachine(name, set)
	machine.Status.Phase, machine.Status.ErrorMessage = ptrTo("Failed"), &why
	return machine
}

// TestFailedMachines: they are named, with the cause and the command, in the pool and once in an event; nothing is done
// with them, or with their instances.
func TestFailedMachines(t *testing.T) {
	joined := windowsMachine("winworker-c", "winworker")
	f := newFixture(t, infrastructure("AWS"), machineSet("winworker", true), joined,
		failedMachine("winworker-b", "winworker", "no capacity\n in the zone."), failedMachine("other-a", "other", "no"), failedMachine("alone", "", "no"))
	f.settle("winworker")
	f.settle("winworker-c")
	said := func() string {
		return meta.FindStatusCondition(f.pool("winworker").Status.Conditions, v1alpha1.ConditionSourceSynced).Message
	}
	want := "Machine winworker-b has failed: no capacity in the zone. To have it replaced: kubectl delete machines.machine.openshift.io winworker-b -n openshift-machine-api"
	if got := said(); got != "The MachineSet asks for 2 Machines.\n"+want {
		t.Errorf("the pool says %s", got)
	}
	if event := <-f.events.Events; event != "Warning MachineFailed "+want {
		t.Errorf("got event %s", event)
	}
	// One that was a node keeps its instance.
	change(f, "winworker-c", &machinev1beta1.Machine{}, func(m *machinev1beta1.Machine) { m.Status.Phase = ptrTo("Failed") })
	f.settle("winworker")
	f.settle("winworker-c")
	if f.instance("winworker-c") == nil || !strings.Contains(said(), "winworker-c has failed: no reason is known.") {
		t.Errorf("its instance is %v, and the pool says %s", f.instance("winworker-c"), said())
	}
	<-f.events.Events
	if writes := f.settle("winworker"); len(writes)+len(f.events.Events) > 0 {
		t.Errorf("again: %q and %d events", writes, len(f.events.Events))
	}
	for i := range 12 {
		if err := f.Create(t.Context(), failedMachine(fmt.Sprintf("winworker-x%02d", i), "winworker", "no")); err != nil {
			t.Fatal(err)
		}
	}
	f.settle("winworker")
	if lines := strings.Split(said(), "\n"); len(lines) != 12 || lines[11] != "4 more Machines have failed." {
		t.Errorf("of many it says %q", lines)
	}
	if n := len(f.events.Events); n != 8 {
		t.Errorf("%d events are about those that it names and that are new", n)
	}
}

func TestFailureChanged(t *testing.T) {
	works, failed, again := windowsMachine("a", "a"), failedMachine("a", "a", "no"), failedMachine("a", "a", "never")
	going := failedMachine("a", "a", "no")
	going.DeletionTimestamp = ptrTo(metav1.Now())
	for _, tt := range []struct {
		before, after client.Object
		want          bool
	}{
		{works, works, false},
		{works, failed, true},
		{failed, failed, false},
		{failed, again, true},
		{failed, works, true},
		{failed, going, true},
		{works, machineSet("a", true), false},
	} {
		if got := failureChanged.Update(event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}); got != tt.want {
			t.Errorf("%v to %v: got %t", tt.before, tt.after, got)
		}
	}
	if failureChanged.Create(event.CreateEvent{Object: works}) || !failureChanged.Create(event.CreateEvent{Object: failed}) ||
		failureChanged.Delete(event.DeleteEvent{Object: works}) || !failureChanged.Delete(event.DeleteEvent{Object: failed}) {
		t.Error("Machines that come or go do not count by whether they have failed")
	}
	if got := toSet(t.Context(), failed); len(got) != 1 || got[0].Namespace != namespace || got[0].Name != "a" {
		t.Errorf("its pool is %v", got)
	}
	if got := append(toSet(t.Context(), windowsMachine("b", "")), toSet(t.Context(), machineSet("a", true))...); len(got) > 0 {
		t.Errorf("without a MachineSet: %v", got)
	}
}
