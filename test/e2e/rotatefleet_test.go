// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

const (
	// The last refusingHosts refuse the new key. rotatedMachines are those of Machines, two of these among them, and are behind a bastion; the
	// others are those of entries. More than a tenth of the hosts of a namespace must not refuse it, because then no more get it.
	refusingHosts, rotatedMachines = 3, 20
	// theirKeys is where sshd of Windows takes the keys of administrators from, and otherKeys where one of the hosts does.
	theirKeys, otherKeys = `C:\ProgramData\ssh\administrators_authorized_keys`, `C:\ProgramData\keys`
)

var (
	// rotatedHosts is how many hosts TestRotateFleet has.
	rotatedHosts = rotatedFleetSize()
	// The host of late comes when half of the others have the new key.
	late = rotatedHosts - refusingHosts - 1
	// The sshd of one takes keys from another file, that of the next one rejects the new key, and the disk of the last one is full.
	elsewhere, rejecting, full = rotatedHosts - 3, rotatedHosts - 2, rotatedHosts - 1
)

// rotatedFleetSize says how many hosts the variable says, 32 at least.
func rotatedFleetSize() int {
	n, _ := strconv.Atoi(os.Getenv(hostsVariable)) // TestFleet says what is wrong with it
	return max(32, n)
}

// ofMachine says whether a host is that of a Machine.
func ofMachine(i int) bool { return i > late+2-rotatedMachines && i != elsewhere }

// slowly is how hosts answer, so that each step takes a moment.
var slowly = winhost.Fault{Latency: 50 * time.Millisecond}

// rotatedFleet is a fleet that gets another key.
type rotatedFleet struct {
	*openShiftSite
	machines *ocpMachines
	hosts    []*siteHost
	// numbers are those of the hosts, by the names of their instances.
	numbers map[string]int
	was, is ssh.Signer
	// asked is how many requests about its keys each host had had when the programs were started.
	asked []int
	// comes has the host of late come.
	comes func(*testing.T)
}

// TestRotateFleet gives the nodes of a cluster of OpenShift another key, those of a MachineSet behind a bastion and those of the
// ConfigMap, and kills both programs at each step of that. Three hosts refuse the key, each in its own way. At every moment each host
// accepts a key of which there is a copy, and new Machines get the one that the Secret has. Nothing else happens to hosts and Machines.
func TestRotateFleet(t *testing.T) {
	if os.Getenv(hostsVariable) == "" {
		t.Skipf("it takes as much of the machine as ten other tests: %s=50 runs it, and make test-all", hostsVariable)
	}
	t.Parallel()
	f, pem := newRotatedFleet(t)
	f.watchHosts(t)
	f.watchCopies(t)
	mayChange := f.watchUserData(t)
	var subjects []subject
	for i, h := range f.hosts[:rotatedHosts-refusingHosts] {
		if i != late {
			subjects = append(subjects, h.subject())
		}
	}
	mustStay, machines := undisturbed(t, subjects...), f.machines.uids(t)
	for i, h := range f.hosts {
		setFault(t, h.host, winhost.Fault{Latency: slowly.Latency, DiskFull: i == full})
	}

	mayChange()
	g := replaceKey(t, f.System, pem)
	added := func(k hostKeys) bool { return k.both() && k.asked == 1 }
	for _, step := range []keyStep{
		{name: "new Machines get the new key", at: f.inUserData},
		{name: "there is a copy of the new key", at: f.copied},
		{name: "a host has both keys", at: f.found(added), is: f.still(hostKeys.both)},
		{name: "a host has proven that it accepts the new key", at: f.proven(added), is: f.still(hostKeys.both)},
		{name: "a host has lost the former key", at: f.unrecorded, is: func(t *testing.T, i int) bool { return !f.recorded(t).Has(i) }},
		{name: "a host is recorded to have the new key", at: f.atLeast(1)},
		{name: "half of the hosts are", at: f.atLeast(rotatedHosts / 2)},
	} {
		f.killAt(t, step)
	}
	f.comes(t)
	f.killAt(t, keyStep{name: "all are but those that refuse it", at: f.atLeast(rotatedHosts - refusingHosts)})
	f.waitRotated(t)
	mustStay.mustHold(t)
	f.hosts[late].waitReady(t)
	if now := f.machines.uids(t); now != machines {
		t.Errorf("for another key the Machines are %s, and were %s", now, machines)
	}
	f.replaceMachine(t)
	f.readOn(t, g)
}

// readOn runs the other commands that the user guide shows about another key. Those that are in use are not the compromised one.
func (f *rotatedFleet) readOn(t *testing.T, g *guided) {
	t.Helper()
	compromised, _ := newPEM(t)
	g.names = strings.NewReplacer("SHA256:…", ssh.FingerprintSHA256(compromised.PublicKey()))
	g.run(t, section(t, "Replace a key that others may have"), "kubectl annotate secret windows-keys-in-use ")
	commands := section(t, "Replace a key")
	for begin, want := range map[string]string{
		"kubectl get windowsinstances -A ": ssh.FingerprintSHA256(f.is.PublicKey()), "kubectl windows describe ": "could not be given it",
	} {
		if out, err := g.try(t, only(t, commands, begin)); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, without %q:\n%s", begin, err, want, out)
		}
	}
	g.mustHaveRun(t, commands)
}

// keyStep is a moment at which both programs are killed.
type keyStep struct {
	name string
	// at says with which host it has come, if it has.
	at func(*testing.T) (i int, come bool)
	// is says whether it was not over when the programs were killed. Nil: it lasts.
	is func(t *testing.T, i int) bool
}

// killAt kills both programs at a step, and starts them again. Hosts go on meanwhile: of several that come there it takes the first
// one with which it is in time.
func (f *rotatedFleet) killAt(t *testing.T, step keyStep) {
	t.Helper()
	for caught := false; !caught; {
		var i int
		eventually(t, step.name, func() error {
			var come bool
			if i, come = step.at(t); !come {
				return fmt.Errorf("%d hosts are recorded to have the new key", f.recorded(t).Len())
			}
			return nil
		})
		f.Controller.Kill9()
		f.Server.Kill9()
		h := f.hosts[i]
		setFault(t, h.host, slowly)
		if err := f.Server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		caught = step.is == nil || step.is(t, i)
		t.Logf("killed when %s: %s, in time: %t; %d hosts are recorded to have the new key", step.name, h.name, caught, f.recorded(t).Len())
		// Whichever keys it has: people reach it, once kube-apiserver has noticed that windows-apiserver is there again.
		eventually(t, "a command on "+h.name+", when "+step.name, func() error {
			stdout, stderr, code := plugin(t, f.System, "exec", h.name, "-n", h.namespace, "--", "hostname")
			if code != 0 {
				return fmt.Errorf("%d %s %s", code, stdout, stderr)
			}
			return nil
		})
		for i := range f.hosts {
			f.asked[i] = requestsAboutKeys(f.hosts[i].host)
		}
		if err := f.Controller.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// list are the instances of the fleet. kube-apiserver needs a moment to notice that windows-apiserver is there again.
func (f *rotatedFleet) list(t *testing.T) []v1alpha1.WindowsInstance {
	t.Helper()
	var list *v1alpha1.WindowsInstanceList
	eventually(t, "the instances are served", func() (err error) {
		list, err = f.instances(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
		return err
	})
	return list.Items
}

// recorded are the hosts whose status says that they have the new key, and have lost the former one.
func (f *rotatedFleet) recorded(t *testing.T) sets.Set[int] {
	t.Helper()
	out := sets.New[int]()
	for _, i := range f.list(t) {
		c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionCredentialsCurrent)
		if c != nil && c.Reason == v1alpha1.ReasonKeyRotated && i.Status.Credentials.KeyFingerprint == ssh.FingerprintSHA256(f.is.PublicKey()) {
			out.Insert(f.numbers[i.Name])
		}
	}
	return out
}

// atLeast says whether as many hosts are recorded, and names one.
func (f *rotatedFleet) atLeast(n int) func(*testing.T) (int, bool) {
	return func(t *testing.T) (int, bool) {
		recorded := f.recorded(t)
		if recorded.Len() < n {
			return 0, false
		}
		return recorded.UnsortedList()[0], true
	}
}

// copied says whether there is a copy of the new key.
func (f *rotatedFleet) copied(t *testing.T) (int, bool) {
	secret, err := f.Kube.CoreV1().Secrets(system.Namespace).Get(t.Context(), host.KeptSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return 0, hasCopy(secret, f.is)
}

// found finds a host whose keys are at a step.
func (f *rotatedFleet) found(at func(hostKeys) bool) func(*testing.T) (int, bool) {
	return func(t *testing.T) (int, bool) {
		for i := range rotatedHosts - refusingHosts {
			if at(f.keysOf(t, i)) {
				return i, true
			}
		}
		return 0, false
	}
}

// still says whether the keys of a host are as they were.
func (f *rotatedFleet) still(as func(hostKeys) bool) func(*testing.T, int) bool {
	return func(t *testing.T, i int) bool { return as(f.keysOf(t, i)) }
}

// proven has a host at a step hang when the next request about its keys comes, which is that to remove the former one: before that
// it has proven to accept the new one.
func (f *rotatedFleet) proven(before func(hostKeys) bool) func(*testing.T) (int, bool) {
	return func(t *testing.T) (int, bool) {
		i, come := f.found(before)(t)
		if !come {
			return 0, false
		}
		setFault(t, f.hosts[i].host, winhost.Fault{Latency: slowly.Latency, ExecHang: true, ExecMatch: aboutKeys})
		eventually(t, "the former key is to be removed", func() error {
			if f.keysOf(t, i).asked < 2 {
				return errors.New("it is not")
			}
			return nil
		})
		return i, true
	}
}

// unrecorded finds a host that has lost the former key, which its status does not say yet.
func (f *rotatedFleet) unrecorded(t *testing.T) (int, bool) {
	recorded := f.recorded(t)
	for i := range rotatedHosts - refusingHosts {
		if k := f.keysOf(t, i); k.is && !k.was && !recorded.Has(i) {
			return i, true
		}
	}
	return 0, false
}

// hostKeys are the keys that a host accepts.
type hostKeys struct {
	was, is bool
	// asked is how many requests about them there were since the programs were started.
	asked int
}

func (k hostKeys) both() bool { return k.was && k.is }

// keysOf are the keys of a host.
func (f *rotatedFleet) keysOf(t *testing.T, i int) hostKeys {
	t.Helper()
	k := f.acceptedBy(t, i)
	k.asked = requestsAboutKeys(f.hosts[i].host) - f.asked[i]
	return k
}

// acceptedBy reads the file from which the sshd of a host takes keys.
func (f *rotatedFleet) acceptedBy(t *testing.T, i int) hostKeys {
	t.Helper()
	path := theirKeys
	if i == elsewhere {
		path = otherKeys
	}
	local, err := f.hosts[i].host.LocalPath(path)
	if err != nil {
		t.Error(err)
		return hostKeys{}
	}
	text, err := os.ReadFile(local)
	if err != nil {
		t.Error(err)
	}
	has := func(key ssh.Signer) bool { return bytes.Contains(text, bytes.TrimSpace(marshalKey(key.PublicKey()))) }
	return hostKeys{was: has(f.was), is: has(f.is) && i != rejecting}
}

// aboutKeys matches the command line of a request about the keys of a host.
const aboutKeys = " authorize$"

func requestsAboutKeys(h winhost.Host) int {
	n := 0
	for _, line := range h.Commands() {
		if strings.HasSuffix(line, strings.TrimSuffix(aboutKeys, "$")) {
			n++
		}
	}
	return n
}

// watchHosts fails the test if at any moment a host accepts none of the keys of which there is a copy.
func (f *rotatedFleet) watchHosts(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		ended.Wait()
	})
	ended.Go(func() {
		for ctx.Err() == nil {
			for i := range f.hosts {
				if k := f.acceptedBy(t, i); !k.was && !k.is {
					t.Errorf("%s accepts none of the keys", f.hosts[i].name)
					return
				}
			}
			pause(ctx, 25*time.Millisecond)
		}
	})
}

// watchCopies fails the test if the copy of the former key goes, or that of the new one once it is there.
func (f *rotatedFleet) watchCopies(t *testing.T) {
	t.Helper()
	secrets := f.Kube.CoreV1().Secrets(system.Namespace)
	now, err := secrets.Get(t.Context(), host.KeptSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !hasCopy(now, f.was) {
		t.Error("there is no copy of the key that hosts accept")
	}
	hadNew := false
	watchFrom(t, now.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, host.KeptSecret).String()
		return secrets.Watch(ctx, o)
	}, func(event watch.Event) (goesOn bool) {
		secret, ok := event.Object.(*corev1.Secret)
		if !ok || event.Type == watch.Deleted || !hasCopy(secret, f.was) || hadNew && !hasCopy(secret, f.is) {
			t.Errorf("after %s a copy of a key is gone that hosts accept", event.Type)
			return false
		}
		hadNew = hasCopy(secret, f.is)
		return true
	})
}

// hasCopy says whether a key can be logged in with that was kept.
func hasCopy(secret *corev1.Secret, key ssh.Signer) bool {
	kept, err := host.ParseKept(secret.Data["cloud-private-key"])
	return err == nil && slices.ContainsFunc(kept.Credentials, func(c host.KeptCredential) bool {
		return c.LogsIn() && c.Fingerprint == ssh.FingerprintSHA256(key.PublicKey())
	})
}

// waitRotated waits until the hosts have the new key but those that refuse it, which are named, and have lost nothing.
func (f *rotatedFleet) waitRotated(t *testing.T) {
	t.Helper()
	said := map[int]string{
		elsewhere: "AuthorizedKeysFile", rejecting: "it was added and the host does not accept it", full: "administrators_authorized_keys",
	}
	eventually(t, "the rotation is over but for the hosts that refuse", func() error {
		failed := map[int]string{}
		for _, i := range f.list(t) {
			if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionCredentialsCurrent); c != nil && c.Reason == v1alpha1.ReasonKeyRotationFailed {
				failed[f.numbers[i.Name]] = c.Message
			}
		}
		if recorded := f.recorded(t); recorded.Len() != rotatedHosts-refusingHosts || len(failed) != len(said) {
			return fmt.Errorf("%d have it, and it failed: %v", recorded.Len(), failed)
		}
		for i, want := range said { // a try may also end otherwise, on a busy machine
			if err := mustHave(failed[i], want, "It is tried again, and logged in to as before"); err != nil {
				return fmt.Errorf("%s: %w", f.hosts[i].name, err)
			}
		}
		if err := f.poolSays(t, system.Namespace, sourceName, elsewhere); err != nil {
			return err
		}
		return f.poolSays(t, wmco.MachineAPINamespace, f.machines.set, rejecting, full)
	})
	var g errgroup.Group
	g.SetLimit(8)
	for i, h := range f.hosts {
		setFault(t, h.host, winhost.Fault{DiskFull: i == full}) // with room on its disk, the next try would give it the key
		refuses := i >= rotatedHosts-refusingHosts
		g.Go(func() error {
			if was, is := accepts(t, h.host, f.was), accepts(t, h.host, f.is); was != refuses || is == refuses {
				t.Errorf("%s accepts the former key: %t, the new one: %t", h.name, was, is)
			}
			return nil
		})
	}
	_ = g.Wait()
	secret, err := f.Kube.CoreV1().Secrets(system.Namespace).Get(t.Context(), host.KeptSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !hasCopy(secret, f.was) || !hasCopy(secret, f.is) {
		t.Error("there is no copy of a key that hosts accept")
	}
}

// poolSays returns nil if a pool names exactly these hosts as those that could not be given the key.
func (f *rotatedFleet) poolSays(t *testing.T, namespace, name string, failed ...int) error {
	t.Helper()
	pool, err := f.Windows.WindowsV1alpha1().WindowsNodePools(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var names []string
	for _, i := range failed {
		names = append(names, f.hosts[i].name)
	}
	slices.Sort(names)
	want := fmt.Sprintf("1 host could not be given the key, see its condition CredentialsCurrent: %s.", names[0])
	if len(names) > 1 {
		want = fmt.Sprintf("%d hosts could not be given the key, see their condition CredentialsCurrent: %s.", len(names), strings.Join(names, ", "))
	}
	if c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionCredentialsCurrent); c == nil || c.Message != want {
		return fmt.Errorf("pool %s says %+v, want %s", name, c, want)
	}
	return nil
}
