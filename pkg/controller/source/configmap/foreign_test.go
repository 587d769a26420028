// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"errors"
	"net"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// configuredAt is an instance that somebody made by hand, and whose host was configured.
func configuredAt(address string, edit ...func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
	i := handMade("by-hand")
	i.Namespace, i.Spec.Address = "elsewhere", "win.example.com"
	i.Status.HostIP = address
	i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, HostChanged: true}
	for _, e := range edit {
		e(i)
	}
	return i
}

// TestForeignEntry: an entry for the host of another instance is there for WMCO, and gets no instance that would compete for the host.
func TestForeignEntry(t *testing.T) {
	released := func(i *v1alpha1.WindowsInstance) {
		i.Status.History = []v1alpha1.Operation{*i.Status.Operation}
		i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationRelease, Phase: v1alpha1.OperationSucceeded, HostReleased: true}
	}
	for name, tt := range map[string]struct {
		other *v1alpha1.WindowsInstance
		made  bool
	}{
		"configured":            {other: configuredAt("10.1.42.1")},
		"released":              {other: configuredAt("10.1.42.1", released)},
		"in the same namespace": {other: configuredAt("10.1.42.1", func(i *v1alpha1.WindowsInstance) { i.Namespace = theConfigMap.Namespace })},
		"another host":          {other: configuredAt("10.1.42.9"), made: true},
		"another port":          {other: configuredAt("10.1.42.1", func(i *v1alpha1.WindowsInstance) { i.Spec.Port = 2222 }), made: true},
		"only watched":          {other: configuredAt("10.1.42.1", func(i *v1alpha1.WindowsInstance) { i.Status.Operation = nil }), made: true},
		"kept off the host": {other: configuredAt("10.1.42.1", func(i *v1alpha1.WindowsInstance) {
			i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionResolved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDuplicateHost}}
		}), made: true},
		"behind a bastion": {other: configuredAt("10.1.42.1", func(i *v1alpha1.WindowsInstance) { i.Status.Bastion = "10.8.0.1:22" }), made: true},
		"of the pool, to hand over": {other: configuredAt("10.1.42.1", func(i *v1alpha1.WindowsInstance) {
			i.Namespace, i.Spec.PoolRef = theConfigMap.Namespace, &v1alpha1.PoolReference{Name: theConfigMap.Name}
		}), made: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, emptyPool(), configMapOf(map[string]string{"10.1.42.1": "username=Administrator"}), tt.other)
			f.settle()
			_, made := f.instances()["10.1.42.1"]
			if made != tt.made {
				t.Fatalf("an instance was made: %v", made)
			}
			events := strings.Join(f.takeEvents(), "\n")
			if tt.made {
				if f.wantSynced(v1alpha1.ReasonSynced, 1); events != "" {
					t.Errorf("events: %s", events)
				}
				return
			}
			want := "no instance is made for it, because its host is that of WindowsInstance " + tt.other.Namespace + "/by-hand"
			if message := f.wantSynced(v1alpha1.ReasonSynced, 0); !strings.Contains(message, want) || !strings.Contains(events, "Warning ForeignEntry") || !strings.Contains(events, want) {
				t.Errorf("it says %q, and %q", message, events)
			}
			f.wantNext(laterInterval)
			if events := f.takeEvents(); len(events) > 0 {
				t.Errorf("once more: %q", events)
			}
			if err := f.Delete(t.Context(), tt.other); err != nil {
				t.Fatal(err)
			}
			f.settle()
			f.wantSynced(v1alpha1.ReasonSynced, 1)
		})
	}
}

// TestForeignEntryKeepsItsInstance: an instance that was made stays, whoever has its host.
func TestForeignEntryKeepsItsInstance(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(map[string]string{"10.1.42.1": "username=Administrator"}))
	f.settle()
	if err := f.Create(t.Context(), configuredAt("10.1.42.1")); err != nil {
		t.Fatal(err)
	}
	f.settle()
	f.wantSynced(v1alpha1.ReasonSynced, 1)
}

// TestForeignEntryOfAName: as long as DNS does not know the name of an entry, its host may be that of another instance.
func TestForeignEntryOfAName(t *testing.T) {
	const name = "win-1.example.com"
	unknown, known := Resolution{Err: errors.New("the server does not answer")}, table(map[string][]string{"x": {"10.1.42.1"}})("x")
	for what, tt := range map[string]struct {
		others []client.Object
		waits  bool // until DNS knows that
		made   bool
	}{
		"its host":       {others: []client.Object{configuredAt("10.1.42.1")}, waits: true},
		"another host":   {others: []client.Object{configuredAt("10.1.42.9")}, waits: true, made: true},
		"of two hosts":   {others: []client.Object{configuredAt("10.1.42.9", called("z")), configuredAt("10.1.42.1")}, waits: true},
		"another port":   {others: []client.Object{configuredAt("10.1.42.1", func(i *v1alpha1.WindowsInstance) { i.Spec.Port = 2222 })}, made: true},
		"only watched":   {others: []client.Object{configuredAt("10.1.42.1", func(i *v1alpha1.WindowsInstance) { i.Status.Operation = nil })}, made: true},
		"nobody's hosts": {made: true},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t, append(tt.others, emptyPool(), configMapOf(map[string]string{name: "username=Administrator"}))...)
			f.dns[name] = Resolution{Pending: true}
			f.settle()
			f.dns[name] = unknown
			f.settle()
			f.settle()
			if _, made := f.instances()[name]; made == tt.waits {
				t.Fatalf("before DNS knows the name, an instance was made: %v", made)
			}
			message, events := f.wantSynced(v1alpha1.ReasonSynced, 1), f.takeEvents()
			if !tt.waits {
				if message != "The ConfigMap asks for 1 host." || len(events) > 0 {
					t.Errorf("it says %q, and %q", message, events)
				}
				return
			}
			want := "no instance is made for it yet, because its name leads to no address: the server does not answer. " +
				"Its host may be one that has an instance which does not come from this ConfigMap, as WindowsInstance elsewhere/by-hand; correct the entry, or DNS"
			if !strings.Contains(message, want) || len(events) != 1 || !strings.Contains(events[0], "Warning ForeignEntry") {
				t.Errorf("it says %q, and %q", message, events)
			}
			f.wantNext(laterInterval)
			f.dns[name] = known
			f.settle()
			if _, made := f.instances()[name]; made != tt.made {
				t.Errorf("once DNS knows the name, an instance was made: %v", made)
			}
		})
	}
}

// TestForeignEntryOfANameThatWaits: the entry gets its instance, with what is wrong with its name, as soon as the host cannot be that of another one.
func TestForeignEntryOfANameThatWaits(t *testing.T) {
	other := configuredAt("10.1.42.1")
	f := newFixture(t, emptyPool(), other, configMapOf(map[string]string{"win-1.example.com": "username=Administrator"}))
	f.settle()
	f.wantInstances()
	if err := f.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	f.settle()
	f.wantInstances("win-1.example.com")
}

// TestForeignEntryOfANamePutBack: an entry that is put back has its host, whether DNS knows its name at the moment or not.
func TestForeignEntryOfANamePutBack(t *testing.T) {
	const name = "win-1.example.com"
	data := map[string]string{name: "username=Administrator"}
	f := newFixture(t, emptyPool(), configMapOf(data))
	f.settle()
	f.hold()
	f.r.unguarded = true
	f.setData(nil)
	f.settle()
	f.setData(data)
	f.settle()
	gone := f.leaving()
	if len(gone) != 1 {
		t.Fatalf("leaving are %d", len(gone))
	}
	if err := f.Create(t.Context(), configuredAt("10.1.42.1")); err != nil {
		t.Fatal(err)
	}
	gone[0].Finalizers = nil
	if err := f.Update(t.Context(), &gone[0]); err != nil {
		t.Fatal(err)
	}
	f.settle()
	if next, there := f.instances()[name]; !there || next.UID == gone[0].UID {
		t.Error("it has no instance")
	}
}

func called(name string) func(*v1alpha1.WindowsInstance) {
	return func(i *v1alpha1.WindowsInstance) { i.Name = name }
}

// dnsSilence is what package net says when a name server does not answer a query, each of which has a port of its own.
func dnsSilence(port string) Resolution {
	return Resolution{Err: &net.DNSError{Err: "read udp 10.128.0.5:" + port + "->172.30.0.10:53: i/o timeout", Name: "win-1.example.com", Server: "172.30.0.10:53", IsTimeout: true}}
}

// TestForeignEntrySaysItOnce: as long as DNS fails in the same way, there is one event, and the status is written once.
func TestForeignEntrySaysItOnce(t *testing.T) {
	const name = "win-1.example.com"
	f := newFixture(t, configuredAt("10.1.42.9"), emptyPool(), configMapOf(map[string]string{name: "username=Administrator"}))
	f.dns[name] = Resolution{Pending: true}
	f.settle()
	f.dns[name] = dnsSilence("45321")
	f.settle()
	f.settle()
	message := f.wantSynced(v1alpha1.ReasonSynced, 1)
	if events := f.takeEvents(); len(events) != 1 || !strings.Contains(events[0], "read udp 172.30.0.10:53: i/o timeout") || !strings.Contains(message, "read udp 172.30.0.10:53: i/o timeout") {
		t.Errorf("events %q, it says %q", events, message)
	}
	f.dns[name] = dnsSilence("51117")
	if writes, events := f.settle(), f.takeEvents(); len(events) > 0 || len(writes) > 0 {
		t.Errorf("with another port there are the events %q, and the writes %q", events, writes)
	}
}
