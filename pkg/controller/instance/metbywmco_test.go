// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
)

// failingReader is an API that answers so.
type failingReader struct {
	client.Reader
	err error
}

func (r failingReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return r.err
}

// metByWMCO is the ConfigMap of WMCO.
func metByWMCO(keys map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: wmco.Namespace, Name: wmco.HostKeysConfigMap}, Data: keys}
}

// nodeWithKey is a Node whose host WMCO has met with a key.
func nodeWithKey(name, address, key string) *corev1.Node {
	node := newNode(name, address, corev1.ConditionTrue)
	node.Annotations = map[string]string{takeover.HostKeyAnnotation: key}
	return node
}

func TestFirstContactIsComparedWithWMCO(t *testing.T) {
	const address = "10.1.42.1"
	right, wrong, rsaKey := newKey(t, "host"), newKey(t, "former"), newRSAKey(t)
	inConfigMap := func(key host.Key) client.Object { return metByWMCO(map[string]string{address: key.Base64()}) }
	const entry, ofNode = "entry 10.1.42.1 of ConfigMap openshift-windows-machine-config-operator/windows-ssh-host-keys", "annotation windowsmachineconfig.openshift.io/ssh-host-key of Node theirs"
	ofMachine := nodeWithKey("theirs", address, wrong.Base64())
	ofMachine.Spec.ProviderID = "aws:///another"
	ofOurs := newInstance("ours", "10.1.42.9") // the account of its host has written the address of another one
	ofOurs.Status.MachineID, ofOurs.Status.Addresses = "another", []string{"10.1.42.9"}
	ofOurs.Status.Node = &v1alpha1.NodeReference{Name: "theirs", UID: "uid-of-theirs"}
	linux := nodeWithKey("theirs", address, wrong.Base64())
	linux.Status.NodeInfo.OperatingSystem = "linux"

	for _, test := range []struct {
		name string
		met  []client.Object
		edit func(*v1alpha1.WindowsInstance)
		// others are the keys of other types that the host has besides right.
		others []host.Key
		// refused is where the key is that the host does not have. Empty: the host is trusted, with the key recorded.
		refused  []string
		recorded host.Key
	}{
		{name: "it has met nobody", recorded: right},
		{name: "with this key", met: []client.Object{inConfigMap(right), nodeWithKey("theirs", address, right.Base64())}, recorded: right},
		{name: "another host, with another key", met: []client.Object{metByWMCO(map[string]string{"10.1.42.2": wrong.Base64()}), nodeWithKey("theirs", "10.1.42.2", wrong.Base64())}, recorded: right},
		{name: "with another key, in its ConfigMap", met: []client.Object{inConfigMap(wrong)}, refused: []string{entry}},
		{name: "with another key, on the Node", met: []client.Object{nodeWithKey("theirs", address, wrong.Base64())}, refused: []string{ofNode}},
		{name: "a Node that is right excuses nothing", met: []client.Object{inConfigMap(wrong), nodeWithKey("theirs", address, right.Base64())}, refused: []string{entry}},
		{name: "neither does a ConfigMap", met: []client.Object{inConfigMap(right), nodeWithKey("theirs", address, wrong.Base64())}, refused: []string{ofNode}},
		{name: "both say the same", met: []client.Object{inConfigMap(wrong), nodeWithKey("theirs", address, wrong.Base64())}, refused: []string{entry, ofNode}},
		{name: "the host has that key, too", met: []client.Object{inConfigMap(rsaKey)}, others: []host.Key{rsaKey}, recorded: rsaKey},
		{name: "the host has no key of that type", met: []client.Object{inConfigMap(rsaKey)}, refused: []string{entry}},
		{name: "keys of two types, of which one is wrong", met: []client.Object{inConfigMap(wrong), nodeWithKey("theirs", address, rsaKey.Base64())}, others: []host.Key{rsaKey}, refused: []string{entry}},
		{name: "no key at all", met: []client.Object{metByWMCO(map[string]string{address: "none"}), nodeWithKey("theirs", address, "")}, recorded: right},
		{name: "a Node of another machine of the cloud", met: []client.Object{ofMachine}, edit: func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "aws:///this" }, recorded: right},
		{name: "a Node whose host is known, and elsewhere", met: []client.Object{nodeWithKey("theirs", address, wrong.Base64()), ofOurs}, recorded: right},
		{name: "a Node of Linux", met: []client.Object{linux}, recorded: right},
		{
			name: "behind a bastion", met: []client.Object{inConfigMap(wrong)}, recorded: right,
			edit: func(i *v1alpha1.WindowsInstance) {
				i.Spec.Bastion = &v1alpha1.Bastion{Address: "bastion.example.com", Port: 22, Username: "jump"}
			},
		},
		{name: "at another port", met: []client.Object{inConfigMap(wrong)}, edit: func(i *v1alpha1.WindowsInstance) { i.Spec.Port = 2222 }, recorded: right},
		{name: "pinned by a person", met: []client.Object{inConfigMap(wrong)}, edit: func(i *v1alpha1.WindowsInstance) { i.Spec.HostKeys = []string{right.String()} }, recorded: right},
		{
			name: "recorded before", met: []client.Object{inConfigMap(wrong)}, recorded: right,
			edit: func(i *v1alpha1.WindowsInstance) {
				i.Status.HostKeys = recordKeys(nil, []host.Key{right}, v1alpha1.TrustedOnFirstUse, metav1.NewTime(testNow))
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := newInstance("win-1", address)
			if test.edit != nil {
				test.edit(instance)
			}
			f := newFixture(t, append(test.met, instance)...)
			f.hosts.set(address, func(h *scriptedHost) { h.key, h.others = right, test.others })
			f.settle("win-1")
			status := f.get("win-1").Status
			if len(test.refused) == 0 {
				if len(status.HostKeys) != 1 || status.HostKeys[0].Key != test.recorded.Base64() {
					t.Errorf("recorded are %+v: %v", status.HostKeys, conditionsOf(&status))
				}
				return
			}
			f.expect("win-1", v1alpha1.InstanceFailed, "Reachable=True/SSHAnswers", "HostKeyTrusted=False/HostKeyChanged", "Authenticated=Unknown/NotTried")
			text := messageOf(t, &status, v1alpha1.ConditionHostKeyTrusted)
			for _, where := range []string{entry, ofNode} {
				if strings.Contains(text, where) != slices.Contains(test.refused, where) {
					t.Errorf("got %q", text)
				}
			}
			if journal := f.journal.take(); len(status.HostKeys) > 0 || slices.Contains(journal, "Login win-1") {
				t.Errorf("recorded are %+v; %v", status.HostKeys, journal)
			}
		})
	}
}

// A name in the ConfigMap of WMCO is that of the host as well as its addresses are.
func TestFirstContactIsComparedByName(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "win-1.example.com"), metByWMCO(map[string]string{"win-1.example.com": newKey(t, "former").Base64()}))
	f.hosts.set("win-1.example.com", func(h *scriptedHost) { h.key, h.addresses = newKey(t, "host"), []string{"10.1.42.1"} })
	f.settle("win-1")
	f.expect("win-1", v1alpha1.InstanceFailed, "HostKeyTrusted=False/HostKeyChanged")
}

// However many Nodes have the address, what to do is said.
func TestUnlikeWMCONamesFew(t *testing.T) {
	e := unlikeWMCOError{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		e.met = append(e.met, metKey{newKey(t, name), "annotation of Node " + name})
	}
	if got := e.known(); !strings.HasSuffix(got, "(annotation of Node c) and 2 more") {
		t.Errorf("got %q", got)
	}
}

// Somebody says that the key is right, or what WMCO has is corrected.
func TestUnlikeWMCOUntilSomebodyDecides(t *testing.T) {
	const address = "10.1.42.1"
	right := newKey(t, "host")
	for _, test := range []struct {
		name   string
		decide func(t *testing.T, f *fixture)
		want   string
	}{
		{"trust-host-key", func(_ *testing.T, f *fixture) {
			f.update("win-1", func(i *v1alpha1.WindowsInstance) { i.Spec.HostKeys = []string{right.String()} })
		}, "HostKeyTrusted=True/Pinned"},
		{"corrected", func(t *testing.T, f *fixture) {
			t.Helper()
			if err := f.client.Delete(t.Context(), metByWMCO(nil)); err != nil {
				t.Fatal(err)
			}
			f.clock.Step(10 * time.Minute)
		}, "HostKeyTrusted=True/FirstUse"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, newInstance("win-1", address), metByWMCO(map[string]string{address: newKey(t, "former").Base64()}))
			f.hosts.set(address, func(h *scriptedHost) { h.key = right })
			f.settle("win-1")
			f.expect("win-1", v1alpha1.InstanceFailed, "HostKeyTrusted=False/HostKeyChanged")
			test.decide(t, f)
			f.settle("win-1")
			f.expect("win-1", v1alpha1.InstanceConnected, test.want)
		})
	}
}

// An API that does not answer is no reason to trust a host. One that says that the ConfigMap may not be read is asked for nothing.
func TestFirstContactWhileKeysOfWMCOAreNotRead(t *testing.T) {
	for _, test := range []struct {
		name  string
		err   error
		phase v1alpha1.WindowsInstancePhase
		want  string
	}{
		{"away", errors.New("read tcp 10.128.0.5:45321->172.30.0.1:443: i/o timeout"), v1alpha1.InstanceConnecting, "HostKeyTrusted=Unknown/NotTried"},
		{"not allowed", apierrors.NewForbidden(corev1.Resource("configmaps"), wmco.HostKeysConfigMap, errors.New("denied")), v1alpha1.InstanceConnected, "HostKeyTrusted=True/FirstUse"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, newInstance("win-1", "10.1.42.1"))
			f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
			f.r.live = failingReader{err: test.err}
			f.settle("win-1")
			f.expect("win-1", test.phase, test.want)
			said := slices.Contains(f.journal.take(), "event win-1 Warning HostKeyNotCompared")
			if allowed := !apierrors.IsForbidden(test.err); said == allowed {
				t.Errorf("it is said that the key was not compared: %t", said)
			}
			status := f.get("win-1").Status
			if text := messageOf(t, &status, v1alpha1.ConditionHostKeyTrusted); strings.Contains(text, "45321") {
				t.Errorf("the message is another one each time: %q", text)
			}
			f.r.live = f.client
			f.clock.Step(10 * time.Minute)
			f.settle("win-1")
			f.expect("win-1", v1alpha1.InstanceConnected, "HostKeyTrusted=True/FirstUse")
		})
	}
}
