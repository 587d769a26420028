// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/ration"
)

// host is a configured host of the pool that existed before the test, by its number.
func host(n int, changes ...change) *v1alpha1.WindowsInstance {
	return member(fmt.Sprintf("h%02d", n), fmt.Sprintf("10.0.0.%d", n), append([]change{held, inspected, has(revision1), func(i *v1alpha1.WindowsInstance) {
		i.CreationTimestamp = *ago(2 * time.Hour)
		i.Status.MachineID, i.Status.HostKeys[0].Key = fmt.Sprint("firmware-", n), fmt.Sprint("key-", n)
	}}, changes...)...)
}

func handMadePool() *v1alpha1.WindowsNodePool {
	return &v1alpha1.WindowsNodePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool"},
		Spec:       v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}},
	}
}

func sourced(i *v1alpha1.WindowsInstance) {
	i.Annotations = map[string]string{v1alpha1.SourceAnnotation: "ConfigMap ns/pool, entry 10.0.0.1"}
}

func withoutPool(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef = nil }

func TestTurn(t *testing.T) {
	fleet := func(n int, changes ...change) []*v1alpha1.WindowsInstance {
		var out []*v1alpha1.WindowsInstance
		for i := range n {
			out = append(out, host(i, changes...))
		}
		return out
	}
	many := func(n int, changes ...change) []*v1alpha1.WindowsInstance {
		var out []*v1alpha1.WindowsInstance
		for i := range n {
			out = append(out, host(100+i, changes...))
		}
		return out
	}
	unheld := func(i *v1alpha1.WindowsInstance) { i.Finalizers = nil }
	made := func(since time.Duration) change {
		return func(i *v1alpha1.WindowsInstance) { i.CreationTimestamp = *ago(since) }
	}
	goes := func(changes ...change) []change { return append(changes, deleted(time.Minute)) }
	removing := ops(op(remove, running, 0))
	dead := ops(op(remove, failed, time.Minute, at(v1alpha1.StepConnect, v1alpha1.StepFailed)))
	connecting := op(remove, running, 0, at(v1alpha1.StepConnect, v1alpha1.StepRunning))
	again := ops(connecting, op(remove, failed, time.Minute, func(o *v1alpha1.Operation) { o.HostUntouched = true }))
	refused := ops(op(remove, failed, time.Minute, at(v1alpha1.StepConnect, v1alpha1.StepSucceeded)))
	blocked := ops(op(remove, failed, time.Minute, at(v1alpha1.StepDrain, v1alpha1.StepFailed)))
	ofConfigMap := v1alpha1.PoolSource{ConfigMap: &v1alpha1.SourceReference{Name: "pool"}}
	for _, test := range []struct {
		name   string
		hosts  []*v1alpha1.WindowsInstance
		source *v1alpha1.PoolSource
		no     bool // there is no pool
		recent []v1alpha1.PoolRemoval
		limit  string // default: 10%
		want   string // which may begin, which wait for others, which for a confirmation
	}{
		{name: "one of one", hosts: fleet(1, goes()...), want: "h00 / / "},
		{name: "one of five", hosts: append(fleet(4), host(4, goes()...)), want: "h04 / / "},
		{name: "all of them", hosts: fleet(3, goes()...), want: "/ / h00 h01 h02"},
		{name: "all of them, beside instances whose host was never there", hosts: append(fleet(3, goes()...), many(30, fresh, unheld)...), want: "/ / h00 h01 h02"},
		{name: "all of them, beside hosts that have just come", hosts: append(fleet(3, goes()...), many(30, made(time.Minute))...), want: "/ / h00 h01 h02"},
		{name: "all of them, beside hosts that came while they waited", hosts: append(fleet(3, deleted(3*time.Hour)), many(30, made(2*time.Hour))...), want: "/ / h00 h01 h02"},
		{name: "some of many that were there when they were deleted", hosts: append(fleet(3, deleted(3*time.Hour)), many(30, made(5*time.Hour))...), want: "h00 h01 h02 / / "},
		{name: "some of many", hosts: append(fleet(3, goes()...), many(30)...), want: "h00 h01 h02 / / "},
		{name: "all that a source has", hosts: fleet(3, goes(sourced)...), want: "h00 h01 h02 / / "},
		{name: "what a source removes is its decision, and counts there", hosts: append(fleet(3, goes(sourced, removing)...), host(3, goes()...)), want: "h00 h01 h02 h03 / / "},
		{name: "three at a time", hosts: fleet(5, goes()...), limit: "100%", want: "h00 h01 h02 / h03 h04 / "},
		{name: "the oldest first", hosts: append(fleet(3, goes()...), host(4, deleted(time.Hour)), host(3, deleted(time.Hour))), limit: "100%", want: "h00 h03 h04 / h01 h02 / "},
		{name: "three are being removed", hosts: append(fleet(3, goes(removing)...), host(3, goes()...)), limit: "100%", want: "/ h03 / "},
		{name: "dead hosts hold up no others", hosts: append(fleet(3, goes(dead)...), host(3, goes()...)), limit: "100%", want: "h03 / / "},
		{name: "nor do hosts whose removal is refused, and tried again later", hosts: append(fleet(3, goes(refused)...), host(3, goes()...)), limit: "100%", want: "h03 / / "},
		{name: "nor those that are blocked", hosts: append(fleet(3, goes(blocked)...), host(3, goes()...)), limit: "100%", want: "h03 / / "},
		{name: "also while they are tried again", hosts: append(fleet(3, goes(again)...), host(3, goes()...)), limit: "100%", want: "h03 / / "},
		{name: "without a pool, and a dead host is tried again", hosts: append(fleet(1, goes(withoutPool, again)...), host(1, goes(withoutPool)...)), no: true, want: "h01 / / "},
		{name: "without a pool, and one is tried for the first time", hosts: append(fleet(1, goes(withoutPool, ops(connecting))...), host(1, goes(withoutPool)...)), no: true, want: "/ h01 / "},
		{name: "hosts of which nothing is removed", hosts: append(fleet(9, goes(func(i *v1alpha1.WindowsInstance) {
			i.Status.CurrentRevision = ""
			configured(metav1.ConditionUnknown, v1alpha1.ReasonNotManaged)(i)
		})...), host(9, goes()...)), want: "h09 / / "},
		{name: "hosts that are given up", hosts: append(fleet(9, goes(removal(v1alpha1.RemovalAbandon, 0))...), host(9, goes()...)), want: "h09 / / "},
		{name: "hosts that are paused", hosts: append(fleet(9, goes(func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true })...), host(9, goes()...)), want: "h09 / / "},
		{name: "duplicates", hosts: append(fleet(9, goes(condition(v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonDuplicateHost))...), host(9, goes()...)), want: "h09 / / "},
		{name: "objects without status and key", hosts: append(fleet(9, goes(restored)...), host(9, goes()...)), want: "h09 / / "},
		{name: "not held", hosts: append(fleet(9, goes(func(i *v1alpha1.WindowsInstance) { i.Finalizers = nil })...), host(9, goes()...)), want: "h09 / / "},
		{name: "another one within the hour", hosts: append(fleet(4), host(4, goes()...)), recent: []v1alpha1.PoolRemoval{{Name: "gone", Time: *ago(time.Minute)}}, want: "/ / h04"},
		{name: "recorded, and not begun", hosts: append(fleet(3), host(3, goes()...), host(4, goes()...)), recent: []v1alpha1.PoolRemoval{{Name: "h04", Time: *ago(time.Second)}}, want: "h04 / / h03"},
		{name: "confirmed", hosts: fleet(5, goes()...), recent: []v1alpha1.PoolRemoval{{Name: "h04", Time: *ago(time.Second), Confirmed: true}}, want: "h04 / / h00 h01 h02 h03"},
		{name: "confirmed, all at once", hosts: append(fleet(3, goes(removing)...), host(3, goes()...)), recent: []v1alpha1.PoolRemoval{{Name: "h03", Time: *ago(time.Second), Confirmed: true}}, want: "h03 / / "},
		{name: "without a pool", hosts: fleet(3, goes(withoutPool)...), no: true, want: "h00 / h01 h02 / "},
		{name: "without a pool, and one is being removed", hosts: append(fleet(1, goes(withoutPool, removing)...), host(1, goes(withoutPool)...)), no: true, want: "/ h01 / "},
		{name: "without a pool, and one is blocked", hosts: append(fleet(1, goes(withoutPool, blocked)...), host(1, goes(withoutPool)...)), no: true, want: "h01 / / "},
		{name: "in the pool of a ConfigMap that does not have them", hosts: fleet(2, goes()...), source: &ofConfigMap, want: "h00 / h01 / "},
	} {
		t.Run(test.name, func(t *testing.T) {
			pool := handMadePool()
			pool.Status.RecentRemovals = test.recent
			if test.source != nil {
				pool.Spec.Source = *test.source
			}
			if test.no {
				pool = nil
			}
			limit := ration.Limit{Most: intstr.FromString("10%"), Window: time.Hour}
			if test.limit != "" {
				limit.Most = intstr.FromString(test.limit)
			}
			var members []v1alpha1.WindowsInstance
			for _, i := range test.hosts {
				members = append(members, *i)
			}
			var begins, later, asks []string
			for i := range members {
				s := snapshot{instance: &members[i], now: testNow}
				switch turn := turnOf(limit, &members[i], pool, members, testNow); {
				case members[i].DeletionTimestamp.IsZero(), !fromSource(&members[i]) && (members[i].Status.Operation != nil || !slices.ContainsFunc(removalsOf(members, testNow).Remove, is(&members[i])) || s.untouched()):
					// It is not asked about.
				case turn.asks:
					asks = append(asks, members[i].Name)
				case turn.why != "":
					later = append(later, members[i].Name)
				default:
					begins = append(begins, members[i].Name)
				}
			}
			slices.Sort(begins)
			got := strings.Join(begins, " ") + " / " + strings.Join(later, " ") + " / " + strings.Join(asks, " ")
			tidy := func(s string) string { return strings.Join(strings.Fields(s), " ") }
			if tidy(got) != tidy(test.want) {
				t.Errorf("got %q, want %q", tidy(got), tidy(test.want))
			}
		})
	}
}

// all makes passes over these instances until they write nothing.
func (f *fixture) all(names ...string) {
	f.Helper()
	for range 20 {
		before := f.writes
		for _, name := range names {
			if _, err := f.r.Reconcile(f.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: name}}); err != nil {
				f.Fatal(err)
			}
		}
		if f.writes == before {
			return
		}
	}
	f.Fatal("it does not settle")
}

// removals are the instances whose removal was recorded.
func (f *fixture) removals() []string {
	f.Helper()
	var all v1alpha1.WindowsInstanceList
	if err := f.List(f.Context(), &all); err != nil {
		f.Fatal(err)
	}
	var out []string
	for i := range all.Items {
		if all.Items[i].Status.NewestOperation(remove) != nil {
			out = append(out, all.Items[i].Name)
		}
	}
	return out
}

func (f *fixture) wantRemovals(want ...string) {
	f.Helper()
	if diff := cmp.Diff(want, f.removals()); diff != "" {
		f.Errorf("removals (-want +got)\n%s", diff)
	}
}

func (f *fixture) named(name string) *v1alpha1.WindowsInstance {
	f.Helper()
	i := &v1alpha1.WindowsInstance{}
	if err := f.Get(f.Context(), client.ObjectKey{Namespace: "ns", Name: name}, i); err != nil {
		f.Fatal(err)
	}
	return i
}

func (f *fixture) pool() *v1alpha1.WindowsNodePool {
	f.Helper()
	pool := &v1alpha1.WindowsNodePool{}
	if err := f.Get(f.Context(), client.ObjectKey{Namespace: "ns", Name: "pool"}, pool); err != nil {
		f.Fatal(err)
	}
	return pool
}

func (f *fixture) deleteAll(names ...string) {
	f.Helper()
	for _, name := range names {
		if err := f.Delete(f.Context(), f.named(name)); err != nil {
			f.Fatal(err)
		}
	}
}

// confirmWith runs the command that an instance asks for.
func (f *fixture) confirmWith(name string) {
	f.Helper()
	c := meta.FindStatusCondition(f.named(name).Status.Conditions, v1alpha1.ConditionRemoved)
	if c == nil || c.Reason != v1alpha1.ReasonConfirmationNeeded {
		f.Fatalf("%s has %+v", name, c)
	}
	value := regexp.MustCompile(`kubectl annotate wnp pool -n ns windows.openshift.io/confirm-removal=(\S+) --overwrite`).FindStringSubmatch(c.Message)
	if !strings.Contains(c.Message, "They are h00, h01") {
		f.Errorf("message %q does not name all that wait, in their order", c.Message)
	}
	if value == nil || !strings.Contains(c.Message, "Without a confirmation, 10% of the hosts") || !strings.Contains(c.Message, `{"metadata":{"finalizers":null}}`) {
		f.Fatalf("message %q", c.Message)
	}
	pool := f.pool()
	pool.Annotations = map[string]string{v1alpha1.ConfirmRemovalAnnotation: value[1]}
	if err := f.Update(f.Context(), pool); err != nil {
		f.Fatal(err)
	}
}

// All hosts of a pool are deleted with one command: none is removed before somebody confirms that.
func TestAllAreDeleted(t *testing.T) {
	names := []string{"h00", "h01", "h02", "h03", "h04"}
	f := newFixture(t, handMadePool(), host(0), host(1), host(2), host(3), host(4))
	f.deleteAll(names...)
	f.all(names...)
	f.clock.Step(24 * time.Hour)
	f.all(names...)
	f.wantRemovals()
	if got := f.told(); len(got) < len(names) || slices.ContainsFunc(got, func(reason string) bool { return reason != v1alpha1.ReasonConfirmationNeeded }) {
		t.Errorf("events %q", got)
	}

	f.confirmWith("h03")
	f.all(names...)
	f.wantRemovals(names...)
	if pool := f.pool(); len(pool.Annotations) > 0 || len(pool.Status.RecentRemovals) != len(names) || !pool.Status.RecentRemovals[0].Confirmed {
		t.Errorf("the confirmation was not used up: %v, %v", pool.Annotations, pool.Status.RecentRemovals)
	}
}

// A confirmation is for those that it was asked about.
func TestOneMoreIsDeleted(t *testing.T) {
	names := []string{"h00", "h01", "h02"}
	f := newFixture(t, handMadePool(), host(0), host(1), host(2))
	f.deleteAll("h00", "h01")
	f.all(names...)
	f.confirmWith("h00")
	f.deleteAll("h02")
	f.all(names...)
	f.wantRemovals()
	f.confirmWith("h00")
	f.all(names...)
	f.wantRemovals(names...)
}

// TestConfirmedWithoutSpace: a confirmation is for all that waited, also for those that the pool cannot remember yet, and for nobody who is
// deleted later.
func TestConfirmedWithoutSpace(t *testing.T) {
	names := []string{"h00", "h01", "h02", "h03", "h04"}
	pool := handMadePool()
	for n := range ration.MaxRecords - 2 {
		pool.Status.RecentRemovals = append(pool.Status.RecentRemovals, v1alpha1.PoolRemoval{Name: fmt.Sprint("gone-", n), Time: metav1.NewTime(testNow)})
	}
	f := newFixture(t, pool, host(0), host(1), host(2), host(3), host(4), host(5), host(6))
	f.deleteAll(names...)
	f.all(names...)
	f.wantRemovals()
	f.confirmWith("h03")
	f.all("h03") // there is space for the first two
	f.deleteAll("h05")
	all := []string{"h05", "h04", "h03", "h02", "h01", "h00"}
	f.all(all...)
	f.wantRemovals("h00", "h01")
	removed := func(name string) *metav1.Condition {
		return meta.FindStatusCondition(f.named(name).Status.Conditions, v1alpha1.ConditionRemoved)
	}
	if c := removed("h04"); c.Reason != v1alpha1.ReasonRemoving || !strings.HasPrefix(c.Message, "The removal is confirmed. It begins when others have ended") {
		t.Errorf("what was confirmed has %+v", c)
	}
	if c := removed("h05"); c.Reason != v1alpha1.ReasonConfirmationNeeded || strings.Contains(c.Message, "hosts that wait") {
		t.Errorf("what was deleted later has %+v", c)
	}
	f.clock.Step(time.Hour)
	f.all(all...)
	f.wantRemovals(names...)
	if c := removed("h05"); c.Reason != v1alpha1.ReasonConfirmationNeeded || f.pool().Status.ConfirmedRemovals != nil {
		t.Errorf("what was deleted later has %+v, and the pool remembers %+v", c, f.pool().Status.ConfirmedRemovals)
	}
}

// What confirms other hosts than those that wait, or nothing, is taken off, and an event has the
// command for those that wait.
func TestWrongConfirmation(t *testing.T) {
	names := []string{"h00", "h01", "h02"}
	f := newFixture(t, handMadePool(), host(0), host(1), host(2))
	f.deleteAll(names...)
	f.all(names...)
	f.told()
	pool := f.pool()
	pool.Annotations = map[string]string{v1alpha1.ConfirmRemovalAnnotation: "true", "other": "stays"}
	if err := f.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	f.all(names...)
	f.wantRemovals()
	if diff := cmp.Diff(map[string]string{"other": "stays"}, f.pool().Annotations); diff != "" {
		t.Errorf("annotations of the pool (-want +got)\n%s", diff)
	}
	if len(f.events.Events) == 0 {
		t.Fatal("nobody is told")
	}
	told := <-f.events.Events
	command := commandOf(t, meta.FindStatusCondition(f.named("h00").Status.Conditions, v1alpha1.ConditionRemoved).Message)
	if !strings.HasPrefix(told, "Warning ConfirmationNeeded The annotation windows.openshift.io/confirm-removal was removed, because") || !strings.Contains(told, command) {
		t.Errorf("told %q, want %s", told, command)
	}
	if more := f.told(); len(more) > 0 {
		t.Errorf("told as well: %q", more)
	}
	f.confirmWith("h00")
	f.all(names...)
	f.wantRemovals(names...)
}

// commandOf is the command in a message that confirms a removal.
func commandOf(t *testing.T, message string) string {
	t.Helper()
	command := regexp.MustCompile(`kubectl annotate wnp pool -n ns windows.openshift.io/confirm-removal=\S+ --overwrite`).FindString(message)
	if command == "" {
		t.Fatalf("no command in %q", message)
	}
	return command
}

// One host of a pool goes at once, and what the pool remembers of it has the next one wait.
func TestOneIsDeleted(t *testing.T) {
	f := newFixture(t, handMadePool(), host(0), host(1), host(2))
	f.deleteAll("h01")
	f.all("h01")
	f.wantRemovals("h01")
	want := []v1alpha1.PoolRemoval{{Name: "h01", Time: metav1.NewTime(testNow)}}
	if diff := cmp.Diff(want, f.pool().Status.RecentRemovals); diff != "" {
		t.Errorf("the pool remembers (-want +got)\n%s", diff)
	}
	f.deleteAll("h02")
	f.all("h02")
	f.wantRemovals("h01")
	f.clock.Step(time.Hour)
	// The first one is gone meanwhile.
	gone := f.named("h01")
	gone.Finalizers = nil
	if err := f.Update(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	f.all("h02")
	f.wantRemovals("h02")
}

// Two workers decide by the same state of the pool: only one of them removes a host.
func TestTwoAtTheSameTime(t *testing.T) {
	f := newFixture(t, handMadePool(), host(0), host(1), host(2))
	f.deleteAll("h00")
	stale, err := f.r.snapshot(t.Context(), f.named("h00"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.r.act(t.Context(), stale, decide(stale)); err != nil {
		t.Fatal(err)
	}
	stale.instance = f.named("h01")
	if err := f.r.act(t.Context(), stale, action{do: doRecord, operation: remove, turn: stale.turn}); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	f.wantRemovals("h00")
}

// The behavior of the Windows Machine Config Operator.
func TestRemoveWithoutConfirmation(t *testing.T) {
	names := []string{"h00", "h01", "h02", "h03", "h04"}
	f := newFixture(t, handMadePool(), host(0), host(1), host(2), host(3), host(4))
	f.r.RemoveWithoutConfirmation = true
	f.deleteAll(names...)
	f.all(names...)
	f.wantRemovals(names...)
	if got := f.pool().Status.RecentRemovals; len(got) > 0 {
		t.Errorf("the pool remembers %v", got)
	}
}

// Without a pool one host goes after the other.
func TestOneAfterTheOther(t *testing.T) {
	f := newFixture(t, host(0, withoutPool), host(1, withoutPool))
	f.deleteAll("h00", "h01")
	f.all("h01", "h00")
	f.wantRemovals("h00")
	result, err := f.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "h01"}})
	if c := meta.FindStatusCondition(f.named("h01").Status.Conditions, v1alpha1.ConditionRemoved); err != nil || result.RequeueAfter != turnInterval || c.Reason != v1alpha1.ReasonRemoving || !strings.Contains(c.Message, "one after the other") {
		t.Errorf("got %v, %v, %+v", result, err, c)
	}
}
