// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
)

// An entry gets a name in place of an address, or another name: its host stays until that name
// was looked up, so that the new instance is there when the former one goes.
func TestKeyBecomesAName(t *testing.T) {
	for _, former := range []string{"10.1.42.1", "b.example.com"} {
		t.Run(former, func(t *testing.T) {
			f := newFixture(t, emptyPool(), configMapOf(map[string]string{former: "username=a", "10.1.42.2": "username=a"}))
			f.settle()
			before := f.instances()
			f.dns["a.example.com"] = Resolution{Pending: true}
			f.setData(map[string]string{"a.example.com": "username=a", "10.1.42.2": "username=a"})
			f.settle()
			f.wantUIDs(before, former, "10.1.42.2")
			message := f.wantSynced(v1alpha1.ReasonSynced, 3)
			for _, want := range []string{"The removal of 1 host waits", "\nentry a.example.com: its name is being looked up", f.toConfirm()} {
				if !strings.Contains(message, want) {
					t.Errorf("message %q, want %q", message, want)
				}
			}
			if got := f.takeEvents(); len(got) > 0 {
				t.Errorf("events of what takes a moment: %q", got)
			}

			// A name with a typing error, or one that DNS will have later.
			f.dns["a.example.com"] = Resolution{Err: errors.New("no such host")}
			for range 2 {
				f.settle()
				f.wantUIDs(before, former, "10.1.42.2")
				message := f.wantSynced(v1alpha1.ReasonConfirmationNeeded, 3)
				for _, want := range []string{"\nentry a.example.com: its name leads to no address: no such host; correct the entry, or DNS\n", f.toConfirm()} {
					if !strings.Contains(message, want) {
						t.Errorf("message %q, want %q", message, want)
					}
				}
				f.now = f.now.Add(24 * time.Hour)
			}
			if got := f.takeEvents(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning ConfirmationNeeded ") {
				t.Errorf("events %q, want one that asks", got)
			}

			f.dns["a.example.com"] = table(map[string][]string{"x": {"10.1.42.1"}})("x")
			f.hold()
			f.settle()
			f.wantInstances(slices.Sorted(slices.Values([]string{"10.1.42.2", "a.example.com", former}))...)
			if leaving := f.leaving(); len(leaving) != 1 || leaving[0].Name != former {
				t.Errorf("leaving are %v", leaving)
			}
			if message := f.wantSynced(v1alpha1.ReasonSynced, 2); message != "The ConfigMap asks for 2 hosts." {
				t.Errorf("message %q", message)
			}
		})
	}
}

// An entry gets a key that cannot be used, or whose instance cannot be made: its host stays until the
// entry is corrected, or somebody confirms that it is to go.
func TestKeyBecomesABadOne(t *testing.T) {
	refuses := func(err error) func(*fixture) {
		return func(f *fixture) {
			f.fail = func(write string) error {
				if write == "apply 10.1.42.9" {
					return err
				}
				return nil
			}
		}
	}
	const key = "10.1.42.9"
	for _, tt := range []struct {
		name   string
		key    string // default: 10.1.42.9
		value  string
		set    func(*fixture)
		mend   func(*fixture) // default: the value is corrected
		reason string         // default: ConfirmationNeeded
		want   string
		fails  bool
	}{
		{name: "a typing error", value: "usrname=a", want: `"usrname" is not known`},
		{name: "no address", key: "10.1.42.300", value: "username=a", want: `address "10.1.42.300"`},
		{name: "the name of another entry", value: "username=a\nname=10.1.42.2", want: "would have the same WindowsInstance"},
		{name: "the name of an instance of others", value: "username=a\nname=other", want: "does not belong to this pool"},
		{
			name: "a name that leads to another host", key: "a.example.com", value: "username=a",
			set:  func(f *fixture) { f.dns["a.example.com"] = table(map[string][]string{"x": {"10.1.42.2"}})("x") },
			want: "is the same host as entry 10.1.42.2",
		},
		{
			name: "refused", value: "username=a", want: "is invalid",
			set:  refuses(apierrors.NewInvalid(v1alpha1.Kind("WindowsInstance"), key, nil)),
			mend: func(f *fixture) { f.fail = nil },
		},
		{
			name: "refused by a quota", value: "username=a", want: "its instance could not be created, which is tried again: apply WindowsInstance", fails: true,
			set:  refuses(apierrors.NewForbidden(v1alpha1.Resource("windowsinstances"), key, errors.New("exceeded quota"))),
			mend: func(f *fixture) { f.fail = nil },
		},
		{
			name: "not taken for a moment", value: "username=a", reason: v1alpha1.ReasonSynced, fails: true,
			want: "its instance could not be created, which is tried again: apply WindowsInstance openshift-windows-machine-config-operator/10.1.42.9: the server restarts",
			set:  refuses(apierrors.NewServiceUnavailable("the server restarts")),
			mend: func(f *fixture) { f.fail = nil },
		},
		{
			name: "no address, and refused", key: "a.example.com", value: "username=a", want: "exceeded quota", fails: true,
			set: func(f *fixture) {
				f.fail = func(write string) error {
					if write == "apply a.example.com" {
						return apierrors.NewForbidden(v1alpha1.Resource("windowsinstances"), "a.example.com", errors.New("exceeded quota"))
					}
					return nil
				}
			},
		},
		{
			name: "no address, and not taken for a moment", key: "a.example.com", value: "username=a", want: "its name leads to no address", fails: true,
			set: func(f *fixture) {
				f.fail = func(write string) error {
					if write == "apply a.example.com" {
						return apierrors.NewServiceUnavailable("the server restarts")
					}
					return nil
				}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.key == "" {
				tt.key = key
			}
			if tt.reason == "" {
				tt.reason = v1alpha1.ReasonConfirmationNeeded
			}
			begin := func(t *testing.T, unguarded bool) *fixture {
				t.Helper()
				f := newFixture(t, emptyPool(), handMade("other"), configMapOf(map[string]string{"10.1.42.1": "username=a", "10.1.42.2": "username=a"}))
				f.r.unguarded = unguarded
				f.settle()
				before := f.instances()
				if tt.set != nil {
					tt.set(f)
				}
				f.setData(map[string]string{tt.key: tt.value, "10.1.42.2": "username=a"})
				for range 2 {
					if _, err := f.r.Reconcile(quiet(t), reconcile.Request{NamespacedName: theConfigMap}); (err != nil) != tt.fails {
						t.Errorf("got %v", err)
					}
					f.wantUIDs(before, "10.1.42.1", "10.1.42.2", "other")
					f.now = f.now.Add(24 * time.Hour)
				}
				asked := false
				for _, event := range f.takeEvents() {
					asked = asked || strings.HasPrefix(event, "Warning ConfirmationNeeded ")
				}
				if asked != (tt.reason == v1alpha1.ReasonConfirmationNeeded) {
					t.Errorf("an event asks: %t", asked)
				}
				return f
			}
			for _, unguarded := range []bool{false, true} {
				f := begin(t, unguarded)
				f.toConfirm()
				pool := f.pool()
				if message := f.wantSynced(tt.reason, pool.Status.DesiredReplicas); strings.Count(message, "\nentry "+tt.key+": ") != 1 || !strings.Contains(message, tt.want) || !strings.Contains(message, "which have no host yet and may be the same host under another key") {
					t.Errorf("message %q", message)
				}
				if tt.mend != nil {
					tt.mend(f)
				} else {
					f.setData(map[string]string{key: "username=a", "10.1.42.2": "username=a"})
				}
				f.settle()
				f.wantInstances("10.1.42.2", key, "other")
				f.wantSynced(v1alpha1.ReasonSynced, 2)
			}
			f := begin(t, false)
			f.confirm(f.toConfirm())
			f.now = f.now.Add(time.Second)
			if _, err := f.r.Reconcile(quiet(t), reconcile.Request{NamespacedName: theConfigMap}); (err != nil) != tt.fails {
				t.Errorf("got %v", err)
			}
			if _, there := f.instances()["10.1.42.1"]; there {
				t.Error("the removal was confirmed, and did not begin")
			}
			f.wantNoConfirmation()
		})
	}
}

// What is wrong with an entry that has its instance, and an entry that was put back while its host is
// being removed, say nothing of other hosts.
func TestEntriesWhoseHostIsKnownHoldUpNoRemoval(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(fleet(50)))
	f.settle()
	f.hold()
	f.setData(fleet(50, 1))
	f.settle()
	data := fleet(50, 2)
	data["10.1.42.3"] = "usrname=a"
	f.setData(data)
	f.settle()
	if got := len(f.leaving()); got != 2 {
		t.Errorf("%d hosts are being removed, want the one that was put back, and the one without an entry", got)
	}
	// The name of a host that is being removed is given to another one, whose instance cannot be made before.
	data["10.1.42.4"] = "username=a\nname=10.1.42.2"
	f.setData(data)
	before := f.instances()
	f.settle()
	f.wantUIDs(before, "10.1.42.4")
	if message := f.wantSynced(v1alpha1.ReasonInvalidEntries, 49); !strings.Contains(message, "\nentry 10.1.42.4: the former host of its instance is still being removed") {
		t.Errorf("message %q", message)
	}
	f.wantNext(time.Minute)
	// That host does not answer, and never may.
	former := before["10.1.42.2"]
	former.Status.Operation = unreached()
	if err := f.Status().Update(t.Context(), &former); err != nil {
		t.Fatal(err)
	}
	f.settle()
	if message := f.wantSynced(v1alpha1.ReasonConfirmationNeeded, 49); !strings.Contains(message, "\nentry 10.1.42.4: the former host of its instance does not answer") ||
		!strings.Contains(message, `kubectl patch windowsinstance 10.1.42.2 -n openshift-windows-machine-config-operator --type=merge -p '{"spec":{"removal":{"policy":"Abandon"}}}'`) {
		t.Errorf("message %q", message)
	}
}

// What is refused of an instance that is there is said, and holds up no removal.
func TestRefusedChange(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(fleet(3)))
	f.settle()
	data := fleet(2)
	data["10.1.42.1"] = "username=b"
	f.setData(data)
	f.fail = func(write string) error {
		if write == "apply 10.1.42.1" {
			return apierrors.NewForbidden(v1alpha1.Resource("windowsinstances"), "10.1.42.1", errors.New("a webhook says no"))
		}
		return nil
	}
	if _, err := f.r.Reconcile(quiet(t), reconcile.Request{NamespacedName: theConfigMap}); err == nil {
		t.Error("nothing brings another pass")
	}
	f.wantInstances("10.1.42.0", "10.1.42.1")
	if message := f.wantSynced(v1alpha1.ReasonInvalidEntries, 2); !strings.Contains(message, "entry 10.1.42.1: its instance could not be changed, which is tried again: ") || !strings.Contains(message, "a webhook says no") {
		t.Errorf("message %q", message)
	}
}

// Only trouble that goes by itself is no reason to look.
func TestPassing(t *testing.T) {
	resource := v1alpha1.Resource("windowsinstances")
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"it is there already", &apply.ExistsError{Kind: "WindowsInstance", Name: "a"}, true},
		{"a conflict", apierrors.NewConflict(resource, "a", errors.New("changed")), true},
		{"the connection ends", io.ErrUnexpectedEOF, true},
		{"a quota, a webhook, or no right", apierrors.NewForbidden(resource, "a", errors.New("no")), false},
		{"anything else", errors.New("unreadable managed fields"), false},
	} {
		if got := passing(fmt.Errorf("apply: %w", tt.err)); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}
