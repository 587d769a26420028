// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// sourceName is the name of the ConfigMap that lists hosts, and of its pool.
const sourceName = "windows-instances"

var (
	sourceSynced   = verdict{v1alpha1.ConditionSourceSynced, metav1.ConditionTrue, v1alpha1.ReasonSynced}
	invalidEntries = verdict{v1alpha1.ConditionSourceSynced, metav1.ConditionFalse, v1alpha1.ReasonInvalidEntries}
	askConfirm     = verdict{v1alpha1.ConditionSourceSynced, metav1.ConditionFalse, v1alpha1.ReasonConfirmationNeeded}
	labelRemoved   = verdict{v1alpha1.ConditionSourceSynced, metav1.ConditionFalse, v1alpha1.ReasonLabelRemoved}
)

// instancesMap is the ConfigMap that lists hosts. There is one in a cluster, so tests
// that use it take turns: they are parts of TestSourceConfigMap, or not parallel.
type instancesMap struct {
	t *testing.T
}

// newInstancesMap makes the ConfigMap. When the test ends, it and everything that was
// made from it is gone.
func newInstancesMap(t *testing.T, data map[string]string) *instancesMap {
	t.Helper()
	m := &instancesMap{t}
	t.Cleanup(m.clean)
	m.create(data)
	return m
}

func (m *instancesMap) create(data map[string]string) {
	m.t.Helper()
	_, err := sys.Kube.CoreV1().ConfigMaps(system.Namespace).Create(m.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: sourceName}, Data: data,
	}, metav1.CreateOptions{})
	if err != nil {
		m.t.Fatalf("creating the ConfigMap: %v", err)
	}
}

// set replaces all of the entries.
func (m *instancesMap) set(data map[string]string, binary map[string][]byte) {
	m.t.Helper()
	client := sys.Kube.CoreV1().ConfigMaps(system.Namespace)
	current, err := client.Get(m.t.Context(), sourceName, metav1.GetOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	current.Data, current.BinaryData = data, binary
	if _, err := client.Update(m.t.Context(), current, metav1.UpdateOptions{}); err != nil {
		m.t.Fatalf("changing the ConfigMap: %v", err)
	}
}

func (m *instancesMap) delete() {
	m.t.Helper()
	if err := sys.Kube.CoreV1().ConfigMaps(system.Namespace).Delete(m.t.Context(), sourceName, metav1.DeleteOptions{}); err != nil {
		m.t.Fatalf("deleting the ConfigMap: %v", err)
	}
}

// clean runs after the test, when its context is over.
func (m *instancesMap) clean() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := sys.Kube.CoreV1().ConfigMaps(system.Namespace).Delete(ctx, sourceName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		m.t.Errorf("deleting the ConfigMap: %v", err)
	}
	pools := sys.Windows.WindowsV1alpha1().WindowsNodePools(system.Namespace)
	for {
		pool, err := pools.Get(ctx, sourceName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return // the instances go before it
		}
		if err == nil {
			if value := confirmationOf(pool.Status.Conditions, v1alpha1.ConditionSourceSynced); value != "" {
				confirm := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ConfirmRemovalAnnotation, value)
				_, err = pools.Patch(ctx, sourceName, types.MergePatchType, confirm, metav1.PatchOptions{})
			}
		}
		select {
		case <-ctx.Done():
			m.t.Errorf("the pool of the ConfigMap is still there: %v", err)
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// confirmationOf is the value that the command in a condition sets, empty if it asks nothing.
func confirmationOf(conditions []metav1.Condition, conditionType string) string {
	condition := meta.FindStatusCondition(conditions, conditionType)
	if condition == nil {
		return ""
	}
	_, rest, _ := strings.Cut(condition.Message, v1alpha1.ConfirmRemovalAnnotation+"=")
	value, _, _ := strings.Cut(rest, " ")
	return value
}

// events returns the notes of the events of a reason on the ConfigMap.
func (m *instancesMap) events(reason string) []string {
	m.t.Helper()
	current, err := sys.Kube.CoreV1().ConfigMaps(system.Namespace).Get(m.t.Context(), sourceName, metav1.GetOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	return eventsOn(m.t, system.Namespace, current.UID, reason)
}

func eventsOn(t *testing.T, namespace string, uid types.UID, reason string) []string {
	t.Helper()
	events, err := sys.Kube.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for i := range events.Items {
		if event := &events.Items[i]; event.Regarding.UID == uid && event.Reason == reason {
			notes = append(notes, event.Note)
		}
	}
	return notes
}

// pool waits until the pool of the ConfigMap has a verdict, and returns it.
func (m *instancesMap) pool(want verdict) *v1alpha1.WindowsNodePool {
	m.t.Helper()
	return waitForPool(m.t, system.Namespace, sourceName, func(pool *v1alpha1.WindowsNodePool) error {
		return want.among(pool.Status.Conditions)
	})
}

func waitForPool(t *testing.T, namespace, name string, condition func(*v1alpha1.WindowsNodePool) error) *v1alpha1.WindowsNodePool {
	t.Helper()
	var found *v1alpha1.WindowsNodePool
	eventually(t, "pool "+name, func() error {
		pool, err := sys.Windows.WindowsV1alpha1().WindowsNodePools(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		found = pool
		return condition(pool)
	})
	return found
}

// instances waits until the instances of the ConfigMap have exactly these names, and
// returns them by name.
func (m *instancesMap) instances(names ...string) map[string]*v1alpha1.WindowsInstance {
	m.t.Helper()
	slices.Sort(names)
	var found map[string]*v1alpha1.WindowsInstance
	eventually(m.t, "the instances of the ConfigMap", func() error {
		found = map[string]*v1alpha1.WindowsInstance{}
		all := list(m.t, system.Namespace)
		for i := range all {
			if all[i].Annotations[v1alpha1.SourceAnnotation] != "" {
				found[all[i].Name] = &all[i]
			}
		}
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, names) {
			return fmt.Errorf("they are %q, want %q", got, names)
		}
		return nil
	})
	return found
}

// entryFor is the value of the entry of a host.
func entryFor(host winhost.Host, lines ...string) string {
	return fmt.Sprintf("username=%s\nport=%d\n%s\n", host.User(), host.Port(), strings.Join(lines, "\n"))
}

func sourceOfEntry(key string) string {
	return fmt.Sprintf("ConfigMap %s/%s, entry %s", system.Namespace, sourceName, key)
}

// TestSourceConfigMap tests what becomes of the ConfigMap, one test after the other, beside those that do not use it.
func TestSourceConfigMap(t *testing.T) {
	t.Parallel()
	t.Run("entries", sourceEntries)
	t.Run("bad entries", sourceBadEntries)
	t.Run("one host twice", sourceOneHostTwice)
	t.Run("deleted", sourceDeleted)
}

// sourceEntries follows the entries of the ConfigMap from the first to the last.
func sourceEntries(t *testing.T) {
	a, b, c := startHost(t, winhost.Options{}), startHost(t, winhost.Options{}), startHost(t, winhost.Options{})
	key := keyLine(b.HostKey())
	data := map[string]string{
		a.Address(): entryFor(a),
		b.Address(): entryFor(b, "name=rack1-b", "hostKey="+key),
	}
	m := newInstancesMap(t, data)
	first := m.instances(a.Address(), "rack1-b")
	pool := m.pool(sourceSynced)

	t.Run("instance", func(t *testing.T) {
		for name, want := range map[string]struct {
			entry string
			host  winhost.Host
			keys  []string
		}{a.Address(): {a.Address(), a, nil}, "rack1-b": {b.Address(), b, []string{key}}} {
			instance := first[name]
			spec := v1alpha1.WindowsInstanceSpec{
				Address: want.host.Address(), Port: int32(want.host.Port()), Username: want.host.User(), HostKeys: want.keys,
				PoolRef: &v1alpha1.PoolReference{Name: sourceName},
			}
			if got, want := asJSON(t, instance.Spec), asJSON(t, spec); got != want {
				t.Errorf("%s: the spec is\n%s\nwant\n%s", name, got, want)
			}
			if got := instance.Annotations[v1alpha1.SourceAnnotation]; got != sourceOfEntry(want.entry) {
				t.Errorf("%s: the source is %q, want %q", name, got, sourceOfEntry(want.entry))
			}
			if len(instance.OwnerReferences) > 0 {
				t.Errorf("%s goes with its owner: %+v", name, instance.OwnerReferences)
			}
		}
	})
	t.Run("pool", func(t *testing.T) {
		mustSay(t, kubectl(t, "get", "wnp", sourceName, "-n", system.Namespace).ok(t), "SOURCE", "ConfigMap/"+sourceName, "Progressing")
		if got := pool.Annotations[v1alpha1.SourceAnnotation]; got != "ConfigMap "+system.Namespace+"/"+sourceName {
			t.Errorf("the source of the pool is %q", got)
		}
		waitForPool(t, system.Namespace, sourceName, func(pool *v1alpha1.WindowsNodePool) error {
			if s := pool.Status; s.DesiredReplicas != 2 || s.Replicas != 2 || s.UnavailableReplicas != 2 {
				return fmt.Errorf("its status is %+v", s)
			}
			return nil
		})
		mustSay(t, kubectl(t, "get", "wi", "-n", system.Namespace, "-o", "wide", "--field-selector", "spec.poolRef.name="+sourceName).ok(t), a.Address(), "rack1-b", sourceName)
	})
	t.Run("hosts are logged in to", func(t *testing.T) {
		waitFor(t, system.Namespace, a.Address(), keyFirstUse, preflightPassed)
		waitFor(t, system.Namespace, "rack1-b", keyPinned, preflightPassed)
	})
	t.Run("an entry is added", func(t *testing.T) {
		data[c.Address()] = entryFor(c)
		m.set(data, nil)
		m.instances(a.Address(), "rack1-b", c.Address())
		waitFor(t, system.Namespace, c.Address(), preflightPassed)
	})
	t.Run("an entry is changed", func(t *testing.T) {
		data[c.Address()] = strings.Replace(entryFor(c), c.User(), "core", 1)
		m.set(data, nil)
		waitFor(t, system.Namespace, c.Address(), authenticated(v1alpha1.ReasonCredentialsRefused))
		data[c.Address()] = entryFor(c)
		m.set(data, nil)
		waitFor(t, system.Namespace, c.Address(), preflightPassed)
	})
	t.Run("an entry gets a host key", func(t *testing.T) {
		data[a.Address()] = entryFor(a, "hostKey="+keyLine(a.HostKey()))
		m.set(data, nil)
		waitFor(t, system.Namespace, a.Address(), keyPinned, preflightPassed)
	})
	t.Run("what somebody changes is put right", func(t *testing.T) {
		for _, patch := range []string{
			`{"spec":{"address":"127.0.0.99","username":"nobody"}}`,
			`{"metadata":{"annotations":null}}`,
			fmt.Sprintf(`{"metadata":{"annotations":{%q:"me"}}}`, v1alpha1.SourceAnnotation),
		} {
			patchInstance(t, system.Namespace, c.Address(), patch)
			waitForInstance(t, system.Namespace, c.Address(), "as the entry has it after "+patch, func(instance *v1alpha1.WindowsInstance) error {
				if instance.Spec.Address != c.Address() || instance.Spec.Username != c.User() ||
					instance.Annotations[v1alpha1.SourceAnnotation] != sourceOfEntry(c.Address()) {
					return fmt.Errorf("it is %s", asJSON(t, instance))
				}
				return preflightPassed.among(instance.Status.Conditions)
			})
		}
	})
	t.Run("what the entry leaves open stays with people", func(t *testing.T) {
		patchInstance(t, system.Namespace, c.Address(), `{"metadata":{"labels":{"rack":"r1"}},"spec":{"paused":true}}`)
		data[c.Address()] = entryFor(c, "hostKey="+keyLine(c.HostKey()))
		m.set(data, nil)
		waitForInstance(t, system.Namespace, c.Address(), "with the new key", func(instance *v1alpha1.WindowsInstance) error {
			if len(instance.Spec.HostKeys) != 1 {
				return errors.New("it has none yet")
			}
			if !instance.Spec.Paused || instance.Labels["rack"] != "r1" {
				t.Errorf("what was set by hand is gone: %s", asJSON(t, instance))
			}
			return nil
		})
	})
	t.Run("people cannot delete what an entry asks for", func(t *testing.T) {
		hostAdmin := bind(t, "source-host-admin", "windows-host-admin", system.Namespace)
		for name, kubeconfig := range map[string]string{"administrator": sys.KubeconfigPath(), "host admin": hostAdmin} {
			eventually(t, name+" is refused for the right reason", func() error {
				r := kubectlAs(t, kubeconfig, "", "delete", "wi", "rack1-b", "-n", system.Namespace)
				if r.err == nil {
					t.Fatalf("%s deleted it: %s", name, r.stdout)
				}
				if !strings.Contains(r.stderr, "(Conflict)") || !strings.Contains(r.stderr, sourceOfEntry(b.Address())) {
					return errors.New(r.stderr) // the binding may not be known everywhere yet
				}
				return nil
			})
		}
		kubectl(t, "delete", "wi", "--all", "-n", system.Namespace).fails(t, "Conflict")
	})
	t.Run("an entry is removed", func(t *testing.T) {
		others := undisturbed(t, m.subject(a, a.Address()), m.subject(c, c.Address()))
		delete(data, b.Address())
		m.set(data, nil)
		m.instances(a.Address(), c.Address())
		others.mustHold(t)
		pool := m.pool(sourceSynced)
		if recent := pool.Status.RecentRemovals; len(recent) != 1 || recent[0].Name != "rack1-b" {
			t.Errorf("the pool remembers %+v", recent)
		}
	})
	t.Run("another entry is removed within the hour", func(t *testing.T) {
		others := undisturbed(t, m.subject(a, a.Address()), m.subject(c, c.Address()))
		m.set(map[string]string{a.Address(): entryFor(a, "hostKey="+keyLine(a.HostKey()))}, nil)
		mustSay(t, meta.FindStatusCondition(m.pool(askConfirm).Status.Conditions, v1alpha1.ConditionSourceSynced).Message, "1 host is kept", c.Address())
		m.set(data, nil)
		m.pool(sourceSynced)
		others.mustHold(t)
	})
	t.Run("people cannot delete the pool", func(t *testing.T) {
		others := undisturbed(t, m.subject(a, a.Address()), m.subject(c, c.Address()))
		before := m.pool(sourceSynced)
		connections := a.Connections()
		kubectl(t, "delete", "wnp", sourceName, "-n", system.Namespace).fails(t, "Conflict", "2 instances", "entries from ConfigMap "+sourceName)
		kubectl(t, "delete", "wnp", "--all", "-n", system.Namespace).fails(t, "Conflict")
		controller := "system:serviceaccount:" + system.Namespace + ":windows-controller"
		kubectl(t, "delete", "wnp", sourceName, "-n", system.Namespace, "--as="+controller).fails(t, "Conflict")
		// The garbage collector and the controller have seen a change that came later.
		data[b.Address()] = entryFor(b, "name=rack1-b")
		m.set(data, nil)
		waitFor(t, system.Namespace, "rack1-b", preflightPassed)
		others.mustHold(t)
		if after := m.pool(sourceSynced); after.UID != before.UID {
			t.Error("the pool was made anew")
		}
		if n := a.Connections(); n < connections {
			t.Errorf("there are %d connections to a host, and were %d", n, connections)
		}
	})
}

// subject is a host of the ConfigMap as [undisturbed] takes it.
func (m *instancesMap) subject(host winhost.Host, name string) subject {
	return subject{sys: sys, namespace: system.Namespace, name: name, host: host}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func mustBeOwned(t *testing.T, instance *v1alpha1.WindowsInstance, kind, name string, uid types.UID) {
	t.Helper()
	owner := metav1.GetControllerOf(instance)
	if owner == nil || owner.Kind != kind || owner.Name != name || owner.UID != uid {
		t.Errorf("instance %s is owned by %+v, want %s %s (%s)", instance.Name, owner, kind, name, uid)
	}
}

// sourceBadEntries has an entry for each thing that can be wrong, next
// to good ones.
func sourceBadEntries(t *testing.T) {
	const taken = "taken-by-hand"
	t.Cleanup(func() { // after what was made from the ConfigMap is gone
		err := sys.Windows.WindowsV1alpha1().WindowsInstances(system.Namespace).Delete(context.Background(), taken, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("deleting the instance made by hand: %v", err)
		}
	})
	good, spoiled := startHost(t, winhost.Options{}), startHost(t, winhost.Options{})
	data := map[string]string{good.Address(): entryFor(good), spoiled.Address(): entryFor(spoiled)}
	m := newInstancesMap(t, data)
	before := m.instances(good.Address(), spoiled.Address())
	m.pool(sourceSynced)

	kubectlIn(t, fmt.Sprintf(pausedInstance, taken, "127.0.0.98", "other"), "create", "-n", system.Namespace, "-f", "-").ok(t)
	bad := map[string]struct{ value, want string }{
		spoiled.Address():    {"user=Administrator", "user"},
		"127.0.9.1":          {"", "username"},
		"127.0.9.2":          {"username=", "username"},
		"127.0.9.3":          {"Administrator", `"="`},
		"127.0.9.4":          {"username=a\nport=0", "port"},
		"127.0.9.5":          {"username=a\nport=65536", "port"},
		"127.0.9.6":          {"username=a\nhostKey=ssh-ed25519 bla", "hostKeys"},
		"127.0.9.7":          {"username=a\nname=Not_A_Name", "name"},
		"127.0.9.8":          {"username=a\nusername=b", "more than once"},
		"127.0.9.300":        {"username=a", "address"},
		"not_a_host":         {"username=a", "address"},
		"127.0.9.9":          {"username=a\nname=" + taken, "does not belong to this pool"},
		good.Address() + ".": {entryFor(good), good.Address()},
	}
	for key, entry := range bad {
		data[key] = entry.value
	}
	m.set(data, map[string][]byte{"127.0.9.10": {0xff, 0xfe}})
	bad["127.0.9.10"] = struct{ value, want string }{"", "UTF-8"}

	// The one that follows a bad entry is worked on, too.
	more := startHost(t, winhost.Options{})
	data[more.Address()] = entryFor(more)
	m.set(data, map[string][]byte{"127.0.9.10": {0xff, 0xfe}})

	after := m.instances(good.Address(), spoiled.Address(), more.Address())
	waitFor(t, system.Namespace, good.Address(), preflightPassed)
	waitFor(t, system.Namespace, more.Address(), preflightPassed)
	if after[spoiled.Address()].UID != before[spoiled.Address()].UID {
		t.Error("a typing error removed a host")
	}
	pool := m.pool(invalidEntries)
	message := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionSourceSynced).Message
	if got := len(strings.Split(message, "\n")); got != len(bad) {
		t.Errorf("the condition has %d lines, want one for each of %d bad entries:\n%s", got, len(bad), message)
	}
	var notes []string
	eventually(t, "each bad entry has an event", func() error {
		notes = m.events("InvalidEntry")
		for key := range bad {
			if !slices.ContainsFunc(notes, func(note string) bool { return strings.HasPrefix(note, "entry "+key+": ") }) {
				return fmt.Errorf("entry %s has none in\n%s", key, strings.Join(notes, "\n"))
			}
		}
		return nil
	})
	for key, entry := range bad {
		t.Run(key, func(t *testing.T) {
			for _, text := range append(strings.Split(message, "\n"), notes...) {
				if strings.HasPrefix(text, "entry "+key+": ") {
					mustSay(t, text, entry.want)
				}
			}
		})
	}
	mustSay(t, kubectl(t, "get", "wnp", sourceName, "-n", system.Namespace).ok(t), "Degraded")
	mustSay(t, kubectl(t, "describe", "configmap", sourceName, "-n", system.Namespace).ok(t), "InvalidEntry", "entry not_a_host: ")
	if got := kubectl(t, "get", "wi", taken, "-n", system.Namespace, "-o", "jsonpath={.spec.address}{.metadata.annotations}").ok(t); got != "127.0.0.98" {
		t.Errorf("the instance made by hand was touched: %s", got)
	}

	// Putting the entries right clears everything, and the name that was taken is free
	// once the instance made by hand is gone.
	spare := startHost(t, winhost.Options{})
	m.set(map[string]string{
		good.Address(): entryFor(good), spoiled.Address(): entryFor(spoiled), more.Address(): entryFor(more),
		spare.Address(): entryFor(spare, "name="+taken),
	}, nil)
	kubectl(t, "delete", "wi", taken, "-n", system.Namespace).ok(t)
	m.instances(good.Address(), spoiled.Address(), more.Address(), taken)
	m.pool(sourceSynced)
	waitFor(t, system.Namespace, taken, preflightPassed)
}

// sourceOneHostTwice names one host by its address and by a DNS name.
func sourceOneHostTwice(t *testing.T) {
	host := startHost(t, winhost.Options{Address: "127.0.0.1"})
	m := newInstancesMap(t, map[string]string{host.Address(): entryFor(host), "localhost": entryFor(host)})
	m.instances(host.Address())
	pool := m.pool(invalidEntries)
	mustSay(t, meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionSourceSynced).Message,
		"entry localhost: is the same host as entry 127.0.0.1")
	waitFor(t, system.Namespace, host.Address(), preflightPassed)

	m.set(map[string]string{"localhost": entryFor(host)}, nil)
	m.instances("localhost")
	m.pool(sourceSynced)
	instance := waitFor(t, system.Namespace, "localhost", preflightPassed)
	if !slices.Contains(instance.Status.Addresses, "127.0.0.1") {
		t.Errorf("localhost stands for %q", instance.Status.Addresses)
	}
}

// sourceDeleted deletes the whole ConfigMap, by mistake and on purpose.
func sourceDeleted(t *testing.T) {
	a, b := startHost(t, winhost.Options{}), startHost(t, winhost.Options{})
	data := map[string]string{a.Address(): entryFor(a), b.Address(): entryFor(b)}
	m := newInstancesMap(t, data)
	first := m.instances(a.Address(), b.Address())
	m.pool(sourceSynced)
	for name := range first {
		waitFor(t, system.Namespace, name, preflightPassed)
	}
	calm := undisturbed(t, m.subject(a, a.Address()), m.subject(b, b.Address()))
	same := func() { t.Helper(); calm.mustHold(t) }

	m.delete()
	pool := m.pool(askConfirm)
	message := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionSourceSynced).Message
	mustSay(t, message, "was deleted", "2 hosts are kept", a.Address(), b.Address())
	eventually(t, "an event on the pool asks for confirmation", func() error {
		if got := eventsOn(t, system.Namespace, pool.UID, v1alpha1.ReasonConfirmationNeeded); len(got) != 1 {
			return fmt.Errorf("there are %q", got)
		}
		return nil
	})
	waitForPool(t, system.Namespace, sourceName, func(pool *v1alpha1.WindowsNodePool) error {
		if pool.Status.Phase != v1alpha1.PoolDegraded {
			return fmt.Errorf("its phase is %s", pool.Status.Phase)
		}
		return nil
	})
	same()

	m.create(data)
	m.pool(sourceSynced)
	same()

	// Emptied is as good as deleted.
	m.set(nil, nil)
	mustSay(t, meta.FindStatusCondition(m.pool(askConfirm).Status.Conditions, v1alpha1.ConditionSourceSynced).Message, "no usable entry")
	same()
	m.delete()
	waitForPool(t, system.Namespace, sourceName, func(pool *v1alpha1.WindowsNodePool) error {
		if c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionSourceSynced); !strings.Contains(c.Message, "was deleted") {
			return errors.New(c.Message)
		}
		return nil
	})
	same()

	m.confirm(message)
	m.instances()
	mustHaveNoPool(t, system.Namespace, sourceName)

	// A ConfigMap that comes back begins anew, and one host goes without asking.
	m.create(map[string]string{a.Address(): entryFor(a)})
	if got := m.instances(a.Address()); got[a.Address()].UID == first[a.Address()].UID {
		t.Error("the instance survived its removal")
	}
	m.pool(sourceSynced)
	m.delete()
	m.instances()
}

// confirm runs the command that a condition shows.
func (m *instancesMap) confirm(message string) {
	m.t.Helper()
	runAsShown(m.t, sys, commandIn(m.t, message))
}

// commandIn is the command in a message that confirms what the message is about.
func commandIn(t *testing.T, message string) string {
	t.Helper()
	_, command, found := strings.Cut(message, "kubectl annotate ")
	if !found {
		t.Fatalf("there is no command in %q", message)
	}
	command, _, _ = strings.Cut("kubectl annotate "+command, "\n")
	return command
}

// runAsShown runs a command of a message in a shell, as people do.
func runAsShown(t *testing.T, sys *system.System, command string) {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
	shell.Env = []string{"PATH=" + filepath.Dir(sys.KubectlPath()) + ":/usr/bin:/bin", "KUBECONFIG=" + sys.KubeconfigPath(), "HOME=" + t.TempDir()}
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// TestSourceConfigMapShortened overwrites the ConfigMap with one of its hosts, and one that has
// a typing error, as a tool does that lost most of its input. It is not parallel: it ends the controller that others use.
func TestSourceConfigMapShortened(t *testing.T) {
	const n = 5
	data := map[string]string{}
	var hosts []winhost.Host
	var subjects []subject
	m := &instancesMap{t}
	for range n {
		host := startHost(t, winhost.Options{})
		hosts = append(hosts, host)
		data[host.Address()] = entryFor(host)
		subjects = append(subjects, m.subject(host, host.Address()))
	}
	more := startHost(t, winhost.Options{}) // before the ConfigMap: it must be there when its removal is waited for
	m = newInstancesMap(t, data)
	m.pool(sourceSynced)
	for _, host := range hosts {
		waitFor(t, system.Namespace, host.Address(), preflightPassed)
	}
	all := undisturbed(t, subjects...)
	left := map[string]string{hosts[0].Address(): entryFor(hosts[0]), hosts[1].Address(): "user=Administrator"}
	m.set(left, nil)
	message := meta.FindStatusCondition(m.pool(askConfirm).Status.Conditions, v1alpha1.ConditionSourceSynced).Message
	mustSay(t, message, "3 hosts are kept", hosts[2].Address(), "entry "+hosts[1].Address())
	// Also when the controller is another one, which need not wait for the Lease of the former to expire.
	sys.Controller.Kill9()
	if err := sys.Kube.CoordinationV1().Leases(system.Namespace).Delete(t.Context(), "windows-controller", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := sys.Controller.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	left[more.Address()] = entryFor(more)
	m.set(left, nil)
	waitFor(t, system.Namespace, more.Address(), preflightPassed)
	all.mustHold(t)

	kept := undisturbed(t, subjects[:2]...)
	m.confirm("kubectl annotate wnp " + sourceName + " -n " + system.Namespace + " " + v1alpha1.ConfirmRemovalAnnotation + "=true --overwrite")
	waitForPool(t, system.Namespace, sourceName, func(pool *v1alpha1.WindowsNodePool) error {
		if value, there := pool.Annotations[v1alpha1.ConfirmRemovalAnnotation]; there {
			return fmt.Errorf("the confirmation %q is still there", value)
		}
		return nil
	})
	all.mustHold(t)
	m.confirm(meta.FindStatusCondition(m.pool(askConfirm).Status.Conditions, v1alpha1.ConditionSourceSynced).Message)
	m.instances(hosts[0].Address(), hosts[1].Address(), more.Address())
	m.pool(invalidEntries)
	kept.mustHold(t)
}

// machineAddresses counts the addresses that hosts of Machines were given.
var machineAddresses atomic.Int32

// startMachineHost starts a host where Machines are reached: on port 22. Its address is
// one of those that belong to this control plane, so nobody else listens there.
func startMachineHost(t *testing.T) winhost.Host {
	t.Helper()
	address := sys.HostIP()
	for range machineAddresses.Add(1) {
		address = address.Next()
	}
	return startHost(t, winhost.Options{Address: address.String(), Port: 22})
}

// machineYAML is a Machine with some labels; more is what else its metadata has.
func machineYAML(name, labels, more string) string {
	return fmt.Sprintf(`apiVersion: machine.openshift.io/v1beta1
kind: Machine
metadata: {name: %s, labels: {%s}%s}
spec: {providerID: "test:///%s", providerSpec: {}}
`, name, labels, more, name)
}

const windowsLabel = "machine.openshift.io/os-id: Windows"

// setMachineStatus says what the Machine API would say of a Machine.
func setMachineStatus(t *testing.T, namespace, name, phase string, addresses ...corev1.NodeAddress) {
	t.Helper()
	status := map[string]any{"status": map[string]any{"phase": phase, "addresses": addresses}}
	kubectl(t, "patch", "machine", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", asJSON(t, status)).ok(t)
}

func internalIP(address string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address}
}

func machineUID(t *testing.T, namespace, name string) types.UID {
	t.Helper()
	return types.UID(kubectl(t, "get", "machine", name, "-n", namespace, "-o", "jsonpath={.metadata.uid}").ok(t))
}

// mustHaveNone waits until there is no instance of a name.
func mustHaveNone(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, "instance "+name+" goes", func() error {
		_, err := sys.Windows.WindowsV1alpha1().WindowsInstances(namespace).Get(t.Context(), name, metav1.GetOptions{})
		return mustBeGone(err)
	})
}

// mustBeGone turns the error of a Get into nil when there is no such object.
func mustBeGone(err error) error {
	switch {
	case err == nil:
		return errors.New("it is still there")
	case apierrors.IsNotFound(err):
		return nil
	default:
		return err
	}
}

// mustHaveNoPool waits until there is no pool of a name.
func mustHaveNoPool(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, "pool "+name+" goes", func() error {
		_, err := sys.Windows.WindowsV1alpha1().WindowsNodePools(namespace).Get(t.Context(), name, metav1.GetOptions{})
		return mustBeGone(err)
	})
}

// TestSourceMachine takes a Machine from its creation to its end.
func TestSourceMachine(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	host, moved := startMachineHost(t), startMachineHost(t)
	create := func(yaml string) {
		t.Helper()
		kubectlIn(t, yaml, "create", "-n", ns, "-f", "-").ok(t)
	}
	create(machineYAML("w", windowsLabel, ""))
	setMachineStatus(t, ns, "w", "Provisioning", internalIP(host.Address()))
	// Those that are left alone are there before the first that is not.
	create(machineYAML("unlabeled", "", ""))
	create(machineYAML("linux", "machine.openshift.io/os-id: Linux", ""))
	create(machineYAML("lower-case", "machine.openshift.io/os-id: windows", ""))
	create(machineYAML("ignored", windowsLabel+`, windowsmachineconfig.openshift.io/ignore: "true"`, ""))
	create(machineYAML("failed", windowsLabel, ""))
	create(machineYAML("no-address", windowsLabel, ""))
	for _, name := range []string{"unlabeled", "linux", "lower-case", "ignored"} {
		setMachineStatus(t, ns, name, "Provisioned", internalIP("127.0.9.20"))
	}
	setMachineStatus(t, ns, "failed", "Failed", internalIP("127.0.9.20"))
	setMachineStatus(t, ns, "no-address", "Provisioned", internalIP("169.254.7.8"), internalIP("fe80::1"))

	setMachineStatus(t, ns, "w", "Provisioned",
		corev1.NodeAddress{Type: corev1.NodeHostName, Address: "w"},
		corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "127.0.9.21"},
		internalIP("fd00::17"), internalIP(host.Address()))
	instance := waitFor(t, ns, "w", preflightPassed)
	want := v1alpha1.WindowsInstanceSpec{Address: host.Address(), Port: 22, Username: "Administrator", ProviderID: "test:///w",
		Removal: &v1alpha1.RemovalOptions{Policy: v1alpha1.RemovalClean, AfterSeconds: new(int64(300))}}
	if got := asJSON(t, instance.Spec); got != asJSON(t, want) {
		t.Errorf("the spec is\n%s\nwant\n%s", got, asJSON(t, want))
	}
	source := "Machine " + ns + "/w"
	if got := instance.Annotations[v1alpha1.SourceAnnotation]; got != source {
		t.Errorf("the source is %q, want %q", got, source)
	}
	mustBeOwned(t, instance, "Machine", "w", machineUID(t, ns, "w"))
	if all := list(t, ns); len(all) != 1 {
		t.Errorf("there are instances of Machines that are to be left alone: %s", asJSON(t, all))
	}

	t.Run("people cannot delete it", func(t *testing.T) {
		kubectl(t, "delete", "wi", "w", "-n", ns).fails(t, "Conflict", source)
	})
	t.Run("what somebody changes is put right", func(t *testing.T) {
		patchInstance(t, ns, "w", `{"spec":{"address":"127.0.0.99"}}`)
		waitForInstance(t, ns, "w", "as the Machine has it", func(instance *v1alpha1.WindowsInstance) error {
			if instance.Spec.Address != host.Address() {
				return fmt.Errorf("the address is %s", instance.Spec.Address)
			}
			return nil
		})
	})
	t.Run("ignored and no longer", func(t *testing.T) {
		kubectl(t, "label", "machine", "w", "-n", ns, "windowsmachineconfig.openshift.io/ignore=true").ok(t)
		paused := waitForInstance(t, ns, "w", "paused", func(instance *v1alpha1.WindowsInstance) error {
			return verdict{v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonPaused}.among(instance.Status.Conditions)
		})
		if !paused.Spec.Paused || paused.UID != instance.UID {
			t.Errorf("the instance is %s", asJSON(t, paused))
		}
		kubectl(t, "label", "machine", "w", "-n", ns, "windowsmachineconfig.openshift.io/ignore-").ok(t)
		waitForInstance(t, ns, "w", "no longer paused", func(instance *v1alpha1.WindowsInstance) error {
			if instance.Spec.Paused {
				return errors.New("it is")
			}
			return preflightPassed.among(instance.Status.Conditions)
		})
	})
	t.Run("another address", func(t *testing.T) {
		setMachineStatus(t, ns, "w", "Running", internalIP(moved.Address()))
		// It is another host with another key, of which nobody has said that it is the same.
		instance := waitFor(t, ns, "w", anotherHost)
		if instance.Spec.Address != moved.Address() {
			t.Errorf("the address is %s, want %s", instance.Spec.Address, moved.Address())
		}
		if got := moved.Commands(); len(got) > 0 {
			t.Errorf("commands were run on the other host: %q", got)
		}
		setMachineStatus(t, ns, "w", "Running", internalIP(host.Address()))
		waitFor(t, ns, "w", preflightPassed)
	})
	t.Run("another Machine of the same name", func(t *testing.T) {
		kubectl(t, "delete", "machine", "w", "-n", ns).ok(t)
		create(machineYAML("w", windowsLabel, ""))
		setMachineStatus(t, ns, "w", "Provisioned", internalIP(moved.Address()))
		uid := machineUID(t, ns, "w")
		waitForInstance(t, ns, "w", "of the new Machine", func(now *v1alpha1.WindowsInstance) error {
			if owner := metav1.GetControllerOf(now); owner == nil || owner.UID != uid || now.UID == instance.UID {
				return fmt.Errorf("it is %s of %+v", now.UID, owner)
			}
			// What was known of the old host does not hold for the new one.
			return errors.Join(keyFirstUse.among(now.Status.Conditions), preflightPassed.among(now.Status.Conditions))
		})
	})
	t.Run("the label is taken off", func(t *testing.T) {
		before := waitFor(t, ns, "w", preflightPassed)
		unlabel := func() (undo, remove string) {
			t.Helper()
			kubectl(t, "label", "machine", "w", "-n", ns, "machine.openshift.io/os-id-").ok(t)
			kept := waitFor(t, ns, "w", labelRemoved)
			if kept.UID != before.UID || !kept.DeletionTimestamp.IsZero() || kept.Spec.Address != before.Spec.Address {
				t.Errorf("it is %+v, want it as it was", kept)
			}
			message := meta.FindStatusCondition(kept.Status.Conditions, v1alpha1.ConditionSourceSynced).Message
			_, commands, _ := strings.Cut(message, "To undo that: ")
			undo, remove, _ = strings.Cut(commands, ". To remove the host: ")
			return undo, remove
		}
		undo, _ := unlabel()
		runAsShown(t, sys, undo)
		waitForInstance(t, ns, "w", "as before", func(now *v1alpha1.WindowsInstance) error {
			if c := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionSourceSynced); c != nil {
				return fmt.Errorf("it says %s", c.Message)
			}
			return nil
		})
		_, remove := unlabel()
		runAsShown(t, sys, remove)
		mustHaveNone(t, ns, "w")
		runAsShown(t, sys, undo)
		waitFor(t, ns, "w", preflightPassed)
	})
	t.Run("a Machine that is being deleted", func(t *testing.T) {
		kubectl(t, "patch", "machine", "w", "-n", ns, "--type=merge", "-p", `{"metadata":{"finalizers":["machine.machine.openshift.io"]}}`).ok(t)
		kubectl(t, "delete", "machine", "w", "-n", ns, "--wait=false").ok(t)
		mustHaveNone(t, ns, "w")
		kubectl(t, "patch", "machine", "w", "-n", ns, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`).ok(t)
	})
	t.Run("a name that is taken", func(t *testing.T) {
		kubectlIn(t, fmt.Sprintf(pausedInstance, "taken", "127.0.0.97", "p"), "create", "-n", ns, "-f", "-").ok(t)
		create(machineYAML("taken", windowsLabel, ""))
		setMachineStatus(t, ns, "taken", "Provisioned", internalIP(host.Address()))
		uid := machineUID(t, ns, "taken")
		eventually(t, "the Machine has an event", func() error {
			if got := eventsOn(t, ns, uid, "InstanceConflict"); len(got) != 1 {
				return fmt.Errorf("there are %q", got)
			}
			return nil
		})
		if got := kubectl(t, "get", "wi", "taken", "-n", ns, "-o", "jsonpath={.spec.address}{.metadata.ownerReferences}").ok(t); got != "127.0.0.97" {
			t.Errorf("the instance made by hand was touched: %s", got)
		}
		kubectl(t, "delete", "wi", "taken", "-n", ns).ok(t)
		waitFor(t, ns, "taken", preflightPassed)
	})
}

// machineSetYAML is a MachineSet whose Machines have some labels.
func machineSetYAML(name, labels string, replicas int) string {
	return fmt.Sprintf(`apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: %s}
spec:
  replicas: %d
  selector: {matchLabels: {set: %s}}
  template: {metadata: {labels: {set: %s, %s}}, spec: {providerSpec: {}}}
`, name, replicas, name, name, labels)
}

// TestSourceMachineSet has MachineSets of Windows and of Linux.
func TestSourceMachineSet(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	host := startMachineHost(t)
	for _, yaml := range []string{machineSetYAML("linux", "machine.openshift.io/os-id: Linux", 1), machineSetYAML("winworker", windowsLabel, 0)} {
		kubectlIn(t, yaml, "create", "-n", ns, "-f", "-").ok(t)
	}
	uid := func(set string) string {
		t.Helper()
		return kubectl(t, "get", "machineset", set, "-n", ns, "-o", "jsonpath={.metadata.uid}").ok(t)
	}
	ownedBy := func(set string) string {
		t.Helper()
		return fmt.Sprintf(`, ownerReferences: [{apiVersion: machine.openshift.io/v1beta1, kind: MachineSet, name: %s, uid: %s, controller: true}]`, set, uid(set))
	}
	scale := func(replicas int) {
		t.Helper()
		kubectl(t, "patch", "machineset", "winworker", "-n", ns, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)).ok(t)
	}
	waitFor0 := func() *v1alpha1.WindowsNodePool {
		t.Helper()
		return waitForPool(t, ns, "winworker", func(pool *v1alpha1.WindowsNodePool) error {
			if s := pool.Status; s.DesiredReplicas != 0 || s.Replicas != 0 || s.UnavailableReplicas != 0 || s.Phase != v1alpha1.PoolReady {
				return fmt.Errorf("its status is %+v", s)
			}
			return sourceSynced.among(pool.Status.Conditions)
		})
	}
	pool := waitFor0()
	scale(2)
	waitForPool(t, ns, "winworker", func(pool *v1alpha1.WindowsNodePool) error {
		if pool.Status.DesiredReplicas != 2 {
			return fmt.Errorf("its status is %+v", pool.Status)
		}
		return sourceSynced.among(pool.Status.Conditions)
	})
	if owner := metav1.GetControllerOf(pool); owner == nil || owner.Kind != "MachineSet" || string(owner.UID) != uid("winworker") {
		t.Errorf("the pool is owned by %+v", owner)
	}
	if got, want := pool.Annotations[v1alpha1.SourceAnnotation], "MachineSet "+ns+"/winworker"; got != want {
		t.Errorf("the source of the pool is %q, want %q", got, want)
	}

	kubectlIn(t, machineYAML("winworker-a", windowsLabel, ownedBy("winworker")), "create", "-n", ns, "-f", "-").ok(t)
	kubectlIn(t, machineYAML("stray", windowsLabel, ownedBy("linux")), "create", "-n", ns, "-f", "-").ok(t)
	setMachineStatus(t, ns, "stray", "Provisioned", internalIP("127.0.9.30"))
	setMachineStatus(t, ns, "winworker-a", "Provisioned", internalIP(host.Address()))
	instance := waitFor(t, ns, "winworker-a", preflightPassed)
	if ref := instance.Spec.PoolRef; ref == nil || ref.Name != "winworker" {
		t.Errorf("the instance is in pool %+v", ref)
	}
	stray := waitForInstance(t, ns, "stray", "is there", func(*v1alpha1.WindowsInstance) error { return nil })
	if stray.Spec.PoolRef != nil {
		t.Errorf("a Machine of a set that is not of Windows is in pool %+v", stray.Spec.PoolRef)
	}
	pools := kubectl(t, "get", "wnp", "-n", ns).ok(t)
	mustSay(t, pools, "winworker", "MachineSet/winworker")
	if strings.Contains(pools, "linux") {
		t.Errorf("there is a pool for the MachineSet that is not of Windows:\n%s", pools)
	}

	scale(5)
	waitForPool(t, ns, "winworker", func(pool *v1alpha1.WindowsNodePool) error {
		if s := pool.Status; s.DesiredReplicas != 5 || s.Replicas != 1 || s.UnavailableReplicas != 5 {
			return fmt.Errorf("its status is %+v", s)
		}
		return nil
	})

	// With none, the pool waits for the next ones.
	scale(0)
	kubectl(t, "delete", "machine", "winworker-a", "-n", ns).ok(t)
	mustHaveNone(t, ns, "winworker-a")
	if last := waitFor0(); last.UID != pool.UID {
		t.Errorf("the pool is another one: %+v", last)
	}
	scale(1)
	kubectlIn(t, machineYAML("winworker-a", windowsLabel, ownedBy("winworker")), "create", "-n", ns, "-f", "-").ok(t)
	setMachineStatus(t, ns, "winworker-a", "Provisioned", internalIP(host.Address()))
	waitFor(t, ns, "winworker-a", preflightPassed)

	// The garbage collector takes the Machines and the pool with the set, and with the
	// Machines their instances.
	kubectl(t, "delete", "machineset", "winworker", "-n", ns).ok(t)
	mustHaveNone(t, ns, "winworker-a")
	mustHaveNoPool(t, ns, "winworker")
}

// TestSourceGuardLetsTheClusterDelete has instances that no person may delete, and
// that no controller of ours takes away: the source that their annotation names is
// only a name. The garbage collector and the deletion of a namespace are not stopped.
func TestSourceGuardLetsTheClusterDelete(t *testing.T) {
	t.Parallel()
	guarded := func(namespace, name, owners string) string {
		return fmt.Sprintf(`apiVersion: windows.openshift.io/v1alpha1
kind: WindowsInstance
metadata: {name: %s, namespace: %s, annotations: {%s: "Rack 7"}%s}
spec: {address: 127.0.0.96, paused: true}
`, name, namespace, v1alpha1.SourceAnnotation, owners)
	}
	t.Run("garbage collection", func(t *testing.T) {
		ns := newNamespace(t)
		owner, err := sys.Kube.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		kubectlIn(t, guarded(ns, "w", fmt.Sprintf(`, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s}]`, owner.UID)), "create", "-f", "-").ok(t)
		kubectl(t, "delete", "wi", "w", "-n", ns).fails(t, "Conflict", "Rack 7", v1alpha1.SourceAnnotation)
		kubectl(t, "delete", "configmap", "owner", "-n", ns).ok(t)
		mustHaveNone(t, ns, "w")
	})
	t.Run("namespace", func(t *testing.T) {
		const ns = "e2e-guard"
		kubectl(t, "create", "namespace", ns).ok(t)
		kubectlIn(t, guarded(ns, "w", ""), "create", "-f", "-").ok(t)
		kubectlIn(t, machineYAML("m", windowsLabel, ""), "create", "-n", ns, "-f", "-").ok(t)
		setMachineStatus(t, ns, "m", "Provisioned", internalIP("127.0.9.40"))
		waitForInstance(t, ns, "m", "is there", func(*v1alpha1.WindowsInstance) error { return nil })
		kubectl(t, "delete", "namespace", ns, "--wait=false").ok(t)
		eventually(t, "the namespace goes", func() error {
			left, err := sys.Kube.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
			if err == nil {
				return fmt.Errorf("it is still there: %s", asJSON(t, left.Status))
			}
			return mustBeGone(err)
		})
	})
	t.Run("the annotation is taken off", func(t *testing.T) {
		ns := newNamespace(t)
		kubectlIn(t, guarded(ns, "w", ""), "create", "-f", "-").ok(t)
		kubectl(t, "delete", "wi", "w", "-n", ns).fails(t, "Conflict")
		kubectl(t, "annotate", "wi", "w", "-n", ns, v1alpha1.SourceAnnotation+"-").ok(t)
		kubectl(t, "delete", "wi", "w", "-n", ns).ok(t)
	})
}
