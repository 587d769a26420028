// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

// newRotatedFleet is a cluster whose hosts are nodes, but for that of late, and there is a copy of the key that all of them accept. It
// returns the key that they are about to get as well.
func newRotatedFleet(t *testing.T) (f *rotatedFleet, pem []byte) {
	t.Helper()
	is, pem := newPEM(t)
	o := newOpenShiftWith(t, system.Options{OpenShift: configv1.AWSPlatformType, ControllerArgs: []string{"--dial-timeout=10s", "--probe-timeout=20s"}}, "")
	aws := ocpPlatforms[slices.IndexFunc(ocpPlatforms, func(p ocpPlatform) bool { return p.PlatformType == configv1.AWSPlatformType })]
	f = &rotatedFleet{
		openShiftSite: o, machines: &ocpMachines{openShiftSite: o, platform: aws, set: machineSetName},
		hosts: make([]*siteHost, rotatedHosts), numbers: map[string]int{}, was: o.signer, is: is, asked: make([]int, rotatedHosts),
	}
	f.startMachines(t)
	f.startEntries(t)
	for i, h := range f.hosts {
		f.numbers[h.name] = i
	}
	for i, h := range f.hosts {
		if i == late {
			continue
		}
		h.waitReady(t)
		if ofMachine(i) {
			h.waitLinked(t)
		}
	}
	eventually(t, "there is a copy of the key", func() error {
		secret, err := f.Kube.CoreV1().Secrets(system.Namespace).Get(t.Context(), host.KeptSecret, metav1.GetOptions{})
		if err == nil && !hasCopy(secret, f.was) {
			err = errors.New("there is none")
		}
		return err
	})
	return f, pem
}

// startMachines makes a MachineSet, whose Machines are behind a bastion, and their hosts, which accept the key that user data has by now.
func (f *rotatedFleet) startMachines(t *testing.T) {
	t.Helper()
	const jump = "jump"
	m := f.machines
	m.create(t, 0)
	m.waitPool(t, 0)
	signer, pem := newPEM(t)
	permitted, address := "PermitOpen", m.HostIP().Next()
	for range rotatedMachines + 1 { // and the one that takes the place of another one
		address = address.Next()
		permitted += fmt.Sprintf(" %s:22", address)
	}
	bastion := opensshd.Start(t, opensshd.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}, Config: []string{"ForceCommand /bin/false", permitted}})
	lendCredentials(t, f.System, wmco.MachineAPINamespace)
	if _, err := f.Kube.CoreV1().Secrets(wmco.MachineAPINamespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: jump}, Data: map[string][]byte{"private-key.pem": pem},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.patchPool(t, wmco.MachineAPINamespace, m.set, fmt.Sprintf(`{"spec":{"template":{"bastion":{"address":%q,"port":%d,"username":%q,"hostKeys":[%q],"credentialsSecretRef":{"name":%q}}}}}`,
		bastion.Host, bastion.Port, bastion.User, keyLine(bastion.HostKey()), jump))
	m.waitUserData(t, f.was)
	m.scale(t, rotatedMachines)
	for i := range f.hosts {
		if !ofMachine(i) || i == late {
			continue
		}
		o := winhost.Options{}
		if i == rejecting {
			o.InProcess.Rejects = func(key ssh.PublicKey) bool { return bytes.Equal(key.Marshal(), f.is.PublicKey().Marshal()) }
		}
		machine, address := m.next(t)
		f.hosts[i] = m.start(t, machine, address, o)
		m.giveAddress(t, machine, address)
	}
	machine, address := m.next(t)
	f.hosts[late] = m.start(t, machine, address, winhost.Options{})
	f.comes = func(t *testing.T) {
		t.Helper()
		m.giveAddress(t, machine, address)
	}
}

// startEntries starts the hosts that the ConfigMap lists.
func (f *rotatedFleet) startEntries(t *testing.T) {
	t.Helper()
	entries := map[string]string{}
	for i := range f.hosts {
		if ofMachine(i) {
			continue
		}
		name := fmt.Sprintf("rotated-%02d", i)
		o := winhost.Options{Metadata: winhost.Metadata{Cloud: f.machines.platform.cloud, Hostname: name + ".example.internal"}}
		if i == elsewhere {
			o.InProcess.KeysFile = otherKeys
		}
		h := f.newHost(t, system.Namespace, name, o)
		f.hosts[i], entries[h.host.Address()] = h, entryFor(h.host, "name="+name)
	}
	f.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system.Namespace, Name: sourceName}, Data: entries})
}

// authorized says which of the keys the hosts of new Machines authorize by their user data.
func (f *rotatedFleet) authorized(userData *corev1.Secret) hostKeys {
	has := func(key ssh.Signer) bool {
		return bytes.Contains(userData.Data[wmco.UserDataKey], []byte(keyLine(key.PublicKey())))
	}
	return hostKeys{was: has(f.was), is: has(f.is)}
}

// inUserData says whether the hosts of new Machines get the new key.
func (f *rotatedFleet) inUserData(t *testing.T) (int, bool) {
	t.Helper()
	secret, err := f.Kube.CoreV1().Secrets(wmco.MachineAPINamespace).Get(t.Context(), wmco.UserDataSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return 0, f.authorized(secret).is
}

// watchUserData fails the test if at any moment new Machines get no key, or another one than the former one until the function that it returns
// was called, and from some moment after that on the new one.
func (f *rotatedFleet) watchUserData(t *testing.T) (mayChange func()) {
	t.Helper()
	secrets := f.Kube.CoreV1().Secrets(wmco.MachineAPINamespace)
	now, err := secrets.Get(t.Context(), wmco.UserDataSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	former, newer := hostKeys{was: true}, hostKeys{is: true}
	if got := f.authorized(now); got != former {
		t.Errorf("the user data of Machines that come before the key is replaced authorizes %+v", got)
	}
	var may atomic.Bool
	want := former
	watchFrom(t, now.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, wmco.UserDataSecret).String()
		return secrets.Watch(ctx, o)
	}, func(event watch.Event) (goesOn bool) {
		secret, ok := event.Object.(*corev1.Secret)
		if !ok || event.Type == watch.Deleted {
			t.Errorf("the user data of Machines is gone: %s", event.Type)
			return false
		}
		got := f.authorized(secret)
		if may.Load() && got == newer {
			want = newer
		}
		if got != want {
			t.Errorf("the user data of Machines authorizes %+v, want %+v; the key was replaced: %t", got, want, may.Load())
			return false
		}
		return true
	})
	return func() { may.Store(true) }
}

// replaceMachine has a person delete the Machine of a host that does not take the new key: nobody does that by themselves as long as the
// host can be logged in to. The host of the Machine that takes its place has the key by its user data.
func (f *rotatedFleet) replaceMachine(t *testing.T) {
	t.Helper()
	m, h := f.machines, f.hosts[rejecting]
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: h.name}}
	if err := client.IgnoreNotFound(m.client.Delete(t.Context(), machine)); err != nil {
		t.Fatal(err)
	}
	f.signer = f.is
	next := m.bring(t)
	eventually(t, h.name+" leaves", func() error {
		return errors.Join(
			mustBeGone(m.client.Get(t.Context(), client.ObjectKey{Namespace: h.namespace, Name: h.name}, &machinev1beta1.Machine{})),
			f.poolSays(t, h.namespace, m.set, full))
	})
	if credentials := next.get(t).Status.Credentials; credentials == nil || credentials.KeyFingerprint != ssh.FingerprintSHA256(f.is.PublicKey()) {
		t.Errorf("%s accepts %+v", next.name, credentials)
	}
}
