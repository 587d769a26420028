// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

const (
	provenKey = "AAAAC3NzaC1lZDI1NTE5AAAAIE4qJS2mKXYrE7qkYBHcGu2D0pVxLeHg8Gc8dOQ5vGvN"
	formerKey = "AAAAC3NzaC1lZDI1NTE5AAAAIAMUmOkVtIt25oZ6klrRpic7vF7TrHIoBt1ken01GSMe"
	ecdsaKey  = "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBMWoSyXGpK2KUQt0AE7i2YiDBl9H8x109ccvwuc+rrc6vxqrfV7uvQIdC76pnliW15qtfTkju1oBhfYx24SSeuY="
)

// foundAt has the host of an instance be at an address, by the port that WMCO knows.
func foundAt(i *v1alpha1.WindowsInstance) {
	i.Spec.Port, i.Status.HostIP = v1alpha1.DefaultPort, "10.0.0.1"
}

// met has WMCO have met hosts with these keys.
func (f *fixture) met(keys map[string]string) {
	f.t.Helper()
	if _, err := f.kube.CoreV1().ConfigMaps(wmco.Namespace).Create(f.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: wmco.HostKeysConfigMap}, Data: keys,
	}, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) wantMet(want map[string]string) {
	f.t.Helper()
	list, err := f.kube.CoreV1().ConfigMaps(wmco.Namespace).Get(f.t.Context(), wmco.HostKeysConfigMap, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	if diff := cmp.Diff(want, list.Data); diff != "" {
		f.t.Errorf("host keys (-want +got)\n%s", diff)
	}
}

// TestReleaseCorrectsHostKeys: a host is not refused for a host key that it had before. Keys of others stay, and those of another type.
func TestReleaseCorrectsHostKeys(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ recorded, want, says string }{
		"the same":       {provenKey, provenKey, ""},
		"a former one":   {formerKey, provenKey, "has the host key that the host has proved to have: 10.0.0.1."},
		"another type":   {ecdsaKey, ecdsaKey, ""},
		"cannot be read": {"?", provenKey, "10.0.0.1."},
		"cut off":        {"AAAAC3NzaC1lZDI1NTE5", provenKey, "10.0.0.1."},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := releasing(t, foundAt)
			node := f.node() // its kubelet says that it has the address of another host
			node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.9"})
			f.updateNode(node)
			f.met(map[string]string{"10.0.0.1": tt.recorded, "10.0.0.9": formerKey})
			op := f.finish()
			f.checkReleased(op)
			f.wantMet(map[string]string{"10.0.0.1": tt.want, "10.0.0.9": formerKey})
			if says := strings.Contains(op.Message, wmco.HostKeysConfigMap); says != (tt.says != "") || !strings.Contains(op.Message, tt.says) {
				t.Errorf("it says %s", op.Message)
			}
		})
	}
}

// TestReleaseCorrectsHostKeysElsewhere: the addresses by which WMCO goes to a host that was found at another one. What is there has to prove that it is
// the same host.
func TestReleaseCorrectsHostKeysElsewhere(t *testing.T) {
	t.Parallel()
	parsed := func(wire string) host.Key {
		key, err := host.ParseKey(keyType(wire) + " " + wire)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	is := func(wire string) func() (*host.Peer, error) {
		return func() (*host.Peer, error) { return &host.Peer{Key: parsed(wire)}, nil }
	}
	fails := func(err error) func() (*host.Peer, error) { return func() (*host.Peer, error) { return nil, err } }
	const name, other = "win.example.com", "10.0.0.2"
	byEntry := func(f *fixture) {
		f.lists(name, "username=Administrator")
		f.host.names = map[string]string{name: "10.0.0.1", "elsewhere": "10.9.9.8"}
	}
	ofMachine := func(f *fixture) { f.machineAddress = other }
	ofNode := func(f *fixture) {
		node := f.node()
		node.Status.Addresses = slices.Insert(node.Status.Addresses, 0, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00::1"}, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: other})
		f.updateNode(node)
	}
	for _, tt := range []struct {
		name    string
		set     func(*fixture)
		address string
		// there is who is at that address.
		there          func() (*host.Peer, error)
		recorded, want string
		says           []string
	}{
		{"its entry", byEntry, name, is(provenKey), formerKey, provenKey, []string{"proved to have: 10.0.0.1, " + name}},
		{"its Machine", ofMachine, other, is(provenKey), formerKey, provenKey, []string{"proved to have: 10.0.0.1, " + other}},
		{"its Node", ofNode, other, is(provenKey), formerKey, provenKey, []string{"proved to have: 10.0.0.1, " + other}},
		{"another key of the host", ofMachine, other, is(ecdsaKey), formerKey, formerKey, nil},
		{"the key of the host is on record", ofMachine, other, nil, provenKey, provenKey, nil},
		{"one of another type is", ofMachine, other, nil, ecdsaKey, ecdsaKey, nil},
		{"nobody is there", ofMachine, other, nil, formerKey, formerKey, []string{"has not proved its identity: " + other + " (ConnectionRefused). If", "oc edit configmap windows-ssh-host-keys"}},
		{"another host is", ofNode, other, fails(&ssh.Error{Layer: ssh.LayerHostKey, Reason: ssh.ReasonHostKeyChanged}), formerKey, formerKey, []string{other + " (HostKeyChanged)"}},
		{"it refuses the key there", ofMachine, other, fails(nil), formerKey, formerKey, []string{other + " (CredentialsRefused)"}},
		{"an address of nobody", func(*fixture) {}, other, is(provenKey), formerKey, formerKey, nil},
		{"the Machine cannot be read", func(f *fixture) { f.machineUnread = errors.New("no answer") }, other, is(provenKey), formerKey, formerKey, []string{"may have a former host key of the host", "no answer"}},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := releasing(t, foundAt)
			tt.set(f)
			f.host.elsewhere = map[string]func() (*host.Peer, error){tt.address: tt.there}
			f.met(map[string]string{"10.0.0.1": formerKey, tt.address: tt.recorded, "10.0.0.9": formerKey})
			op := f.finish()
			if op.Phase != v1alpha1.OperationSucceeded || f.get().Status.ReleasedBy() == nil {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			f.wantMet(map[string]string{"10.0.0.1": provenKey, tt.address: tt.want, "10.0.0.9": formerKey})
			for _, want := range append(tt.says, "proved to have: 10.0.0.1") {
				if !strings.Contains(op.Message, want) {
					t.Errorf("%q is missing in %s", want, op.Message)
				}
			}
			if unproven := strings.Contains(op.Message, "has not proved"); unproven != (len(tt.says) > 0 && tt.want == tt.recorded && f.machineUnread == nil) {
				t.Errorf("it says %s", op.Message)
			}
			if asked := f.host.count("LoginBare at " + tt.address); asked > 1 || asked == 1 && tt.recorded != formerKey {
				t.Errorf("it was asked %d times", asked)
			}
		})
	}
}

// TestReleaseWithoutRightToHostKeys: what keeps a key from being corrected does not keep the host, and is said.
func TestReleaseWithoutRightToHostKeys(t *testing.T) {
	t.Parallel()
	inBubble(t, "no right", func(t *testing.T) {
		f := releasing(t, foundAt)
		f.met(map[string]string{"10.0.0.1": formerKey})
		f.kube.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, kruntime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), wmco.HostKeysConfigMap, errors.New("denied"))
		})
		op := f.finish()
		f.checkReleased(op)
		if want := "oc edit configmap windows-ssh-host-keys -n openshift-windows-machine-config-operator"; !strings.Contains(op.Message, want) {
			t.Errorf("%q is missing in %q", want, op.Message)
		}
	})
}

// TestReleaseWithoutHost: a host that WMCO has no key of, or one for another address than that where it was found, is not needed any more
// once it was given up.
func TestReleaseWithoutHost(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"10.0.0.9", "10.0.0.2"} {
		inBubble(t, address, func(t *testing.T) {
			f := releasing(t, foundAt)
			f.machineAddress = "10.0.0.2"
			f.met(map[string]string{address: formerKey})
			f.whenItBegins(v1alpha1.StepReleaseNode, func() {
				f.host.mu.Lock()
				defer f.host.mu.Unlock()
				f.host.fail["LoginBare"] = func() error { return errRefusedPort }
			})
			op := f.finish()
			f.checkReleased(op)
			f.wantMet(map[string]string{address: formerKey})
			if says := strings.Contains(op.Message, "has not proved its identity: 10.0.0.2 (ConnectionRefused)"); says != (address == f.machineAddress) {
				t.Errorf("it says %s", op.Message)
			}
		})
	}
}

// TestReleaseCorrectsHostKeysElsewhereOnly: the key is corrected also where WMCO has none for the address at which the host was found.
func TestReleaseCorrectsHostKeysElsewhereOnly(t *testing.T) {
	t.Parallel()
	inBubble(t, "the Machine", func(t *testing.T) {
		f := releasing(t, foundAt)
		f.machineAddress = "10.0.0.2"
		f.host.elsewhere = map[string]func() (*host.Peer, error){"10.0.0.2": func() (*host.Peer, error) { return &host.Peer{Key: f.host.key}, nil }}
		f.met(map[string]string{"10.0.0.2": formerKey})
		op := f.finish()
		f.checkReleased(op)
		f.wantMet(map[string]string{"10.0.0.2": provenKey})
		if !strings.Contains(op.Message, "has the host key that the host has proved to have: 10.0.0.2.") {
			t.Errorf("it says %s", op.Message)
		}
	})
}

// TestRemoveForgetsHostKeys: the next host at the address of one that left is not refused for its key. Those of WMCO's hosts stay.
func TestRemoveForgetsHostKeys(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change change
		theirs bool // it was never configured by us
		keeps  bool
	}{
		"ours":             {},
		"that of others":   {theirs: true, keeps: true},
		"at another port":  {change: func(i *v1alpha1.WindowsInstance) { i.Spec.Port = 2222 }, keeps: true},
		"behind a bastion": {change: func(i *v1alpha1.WindowsInstance) { i.Status.Bastion = "10.9.9.1:22" }, keeps: true},
	} {
		inBubble(t, name, func(t *testing.T) {
			changes := []change{isBeingDeleted, foundAt}
			if !tt.theirs {
				changes = append(changes, func(i *v1alpha1.WindowsInstance) {
					i.Status.History = []v1alpha1.Operation{{ID: "op-0", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, HostChanged: true}}
				})
			}
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			f := newFixture(t, newInstance(removeOperation(), changes...))
			f.configure()
			want := map[string]string{"10.0.0.9": formerKey}
			if tt.theirs {
				f.host.is, f.host.recorded = "", ""
			}
			if tt.keeps {
				want["10.0.0.1"] = provenKey
			}
			f.met(map[string]string{"10.0.0.1": provenKey, "10.0.0.9": formerKey})
			if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			f.wantMet(want)
		})
	}
}
