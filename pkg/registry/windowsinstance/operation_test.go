// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func operation(id string, phase windows.OperationPhase) *windows.Operation {
	return &windows.Operation{ID: id, Type: "Drain", Phase: phase, RequestedBy: "alice", RequestedAt: metav1.NewTime(noon)}
}

// recorded is the same operation in the served version, as actions record it.
func recorded(t *testing.T, o *windows.Operation) *v1alpha1.Operation {
	t.Helper()
	out := &v1alpha1.Operation{}
	if err := v1alpha1.Convert_windows_Operation_To_v1alpha1_Operation(o, out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

// checkConflict checks an error: nil when want is empty, else a conflict that says so.
func checkConflict(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v", err)
	case want != "" && (!apierrors.IsConflict(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `windowsinstances.windows.openshift.io "win-1"`)):
		t.Errorf("got %v, want a conflict with %q", err, want)
	}
}

func TestRecordOneOperationAtATime(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*windows.WindowsInstance)
		want   string
	}{
		{"the first", func(*windows.WindowsInstance) {}, ""},
		{"after one that succeeded", func(i *windows.WindowsInstance) { i.Status.Operation = operation("a", "Succeeded") }, ""},
		{"after one that failed", func(i *windows.WindowsInstance) { i.Status.Operation = operation("a", "Failed") }, ""},
		{"after one that was canceled", func(i *windows.WindowsInstance) { i.Status.Operation = operation("a", "Canceled") }, ""},
		{"while one waits", func(i *windows.WindowsInstance) {
			i.Status.Operation = operation("drain-1", "Pending")
		}, "operation drain-1, requested by alice at 2026-01-02T12:00:00Z, is pending"},
		{"while one runs", func(i *windows.WindowsInstance) {
			i.Status.Operation = operation("drain-1", windows.OperationRunning)
		}, "is running: wait until it has ended, or cancel it"},
		{"of an instance that is being removed", func(i *windows.WindowsInstance) {
			i.DeletionTimestamp = new(metav1.NewTime(noon))
		}, "is being removed"},
		{"of a host that nobody was let in to", func(i *windows.WindowsInstance) {
			i.Status = windows.WindowsInstanceStatus{Node: &windows.NodeReference{Name: "win-1"}}
		}, "the controller has not logged in to this host yet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := validInstance()
			instance.Status.MachineID = "m/w"
			test.change(instance)
			before := instance.Status.Operation
			err := record(instance, recorded(t, operation("new", "Pending")))
			checkConflict(t, err, test.want)
			if want := before; err != nil && instance.Status.Operation != want {
				t.Error("a refused operation was recorded")
			}
			if err == nil && instance.Status.Operation.ID != "new" {
				t.Error("the operation was not recorded")
			}
		})
	}
}

func TestHistoryKeepsTheLastTen(t *testing.T) {
	instance := validInstance()
	instance.Status.MachineID = "m/w"
	for n := range 13 {
		if err := record(instance, recorded(t, operation(fmt.Sprint(n), "Succeeded"))); err != nil {
			t.Fatal(err)
		}
	}
	ids := []string{instance.Status.Operation.ID}
	for _, o := range instance.Status.History {
		ids = append(ids, o.ID)
	}
	if got, want := strings.Join(ids, " "), "12 11 10 9 8 7 6 5 4 3 2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRequestCancel(t *testing.T) {
	asked := func(phase windows.OperationPhase) *windows.Operation {
		o := operation("drain-1", phase)
		o.CancelRequestedBy, o.CancelRequestedAt = "bob", new(metav1.NewTime(noon))
		return o
	}
	for _, test := range []struct {
		name   string
		now    *windows.Operation
		id     string
		wantBy string
		want   string
	}{
		{"that runs", operation("drain-1", windows.OperationRunning), "drain-1", "carol", ""},
		{"that waits", operation("drain-1", "Pending"), "drain-1", "carol", ""},
		{"that is to end already", asked(windows.OperationRunning), "drain-1", "bob", ""},
		{"that has ended", operation("drain-1", "Succeeded"), "drain-1", "", "has ended already: succeeded"},
		{"that is another one", operation("drain-2", windows.OperationRunning), "drain-1", "", "the one that does is drain-2, requested by alice"},
		{"that is gone", operation("drain-2", "Failed"), "drain-1", "", "does not run, nor does any other"},
		{"that never was", nil, "drain-1", "", "never had any"},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := validInstance()
			instance.Status.Operation = test.now
			checkConflict(t, requestCancel(instance, test.id, "carol", noon.Add(time.Minute)), test.want)
			if o := instance.Status.Operation; o != nil && o.CancelRequestedBy != test.wantBy {
				t.Errorf("its end was asked for by %q, want %q", o.CancelRequestedBy, test.wantBy)
			}
		})
	}
}

func TestPreconditions(t *testing.T) {
	for _, test := range []struct {
		name string
		p    *metav1.Preconditions
		want string
	}{
		{"none", nil, ""},
		{"empty", &metav1.Preconditions{}, ""},
		{"that hold", &metav1.Preconditions{UID: new(types.UID("u")), ResourceVersion: new("7")}, ""},
		{"another object", &metav1.Preconditions{UID: new(types.UID("other"))}, "asks for UID other"},
		{"another state", &metav1.Preconditions{ResourceVersion: new("6")}, "asks for resourceVersion 6, and the instance has 7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			checkConflict(t, checkPreconditions(validInstance(), test.p), test.want)
		})
	}
}

// TestTimeOfReboots: a host that waits for a restart gets the time that updates of Windows take, unless somebody says how long.
func TestTimeOfReboots(t *testing.T) {
	for _, test := range []struct {
		name  string
		mode  v1alpha1.RebootMode
		waits metav1.ConditionStatus
		given *int64
		want  int64
	}{
		{"a host that waits for nothing", v1alpha1.RebootGraceful, metav1.ConditionFalse, nil, 1200},
		{"nobody knows", v1alpha1.RebootGraceful, metav1.ConditionUnknown, nil, 1200},
		{"a host that waits for a restart", v1alpha1.RebootGraceful, metav1.ConditionTrue, nil, 3600},
		{"the same at once", v1alpha1.RebootForce, metav1.ConditionTrue, nil, 3600},
		{"somebody says how long", v1alpha1.RebootGraceful, metav1.ConditionTrue, new(int64(60)), 60},
	} {
		t.Run(test.name, func(t *testing.T) {
			options := &v1alpha1.RebootOptions{Mode: test.mode, TimeoutSeconds: test.given}
			change := recordOperation(v1alpha1.OperationReboot, nil, options)
			instance := validInstance()
			instance.Status.MachineID = "m/w"
			instance.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRebootRequired, Status: test.waits}}
			if err := change(instance, "alice", noon); err != nil {
				t.Fatal(err)
			}
			if got := instance.Status.Operation.Reboot.TimeoutSeconds; got == nil || *got != test.want {
				t.Errorf("it gets %v seconds, want %d", got, test.want)
			}
			if options.TimeoutSeconds != test.given {
				t.Error("the request was changed, which may be recorded again")
			}
		})
	}
}
