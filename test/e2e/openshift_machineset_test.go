// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/openshift"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// ocpMachines is a MachineSet of Windows, whose virtual machines a test makes in the place of the cloud.
type ocpMachines struct {
	*openShiftSite
	platform ocpPlatform
	// set is its name, and that of its pool.
	set string
	// made is how many there were so far.
	made int
}

// machineSetName is as long as it may be, on platforms on which hosts get the names of their Machines. So are refusingSetNames, of each of
// which the first host refuses the key.
const machineSetName = "winworker"

var refusingSetNames = [2]string{"winrefuse", "winreject"}

// ofSet is the label of the Machines of a MachineSet.
const ofSet = "machine.openshift.io/cluster-api-machineset"

// create makes the MachineSet.
func (m *ocpMachines) create(t *testing.T, replicas int32) {
	t.Helper()
	labels := map[string]string{ofSet: m.set}
	set := &machinev1beta1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: wmco.MachineAPINamespace, Name: m.set},
		Spec:       machinev1beta1.MachineSetSpec{Replicas: ptr.To(replicas), Selector: metav1.LabelSelector{MatchLabels: labels}},
	}
	set.Spec.Template.Labels = map[string]string{"machine.openshift.io/os-id": "Windows", ofSet: m.set}
	m.openShiftSite.create(t, set)
}

// waitLinked waits until the Node of a host that is a Machine says of which one.
func (h *siteHost) waitLinked(t *testing.T) {
	t.Helper()
	eventually(t, h.name+": its Machine is linked to its Node", func() error {
		if annotations := h.node(t, h.get(t).Status.Node.Name).Annotations; annotations[openshift.MachineAnnotation] == "" {
			return fmt.Errorf("it has annotations %v", annotations)
		}
		return nil
	})
}

// openShiftMachines scales a MachineSet from nothing, has all hosts get another key, has a Machine be replaced by a person and another
// one by a MachineHealthCheck, has the autoscaler add one and remove one, and scales it to nothing. entry is a host that has the key as well.
func openShiftMachines(t *testing.T, o *openShiftSite, p ocpPlatform, entry *siteHost) {
	t.Helper()
	replaced := refusingMachines(t, o, p)
	m := &ocpMachines{openShiftSite: o, platform: p, set: machineSetName}
	m.create(t, 0)
	m.waitPool(t, 0)

	m.scale(t, 1)
	first := m.bring(t)
	m.waitPool(t, 1)
	entry.mustHaveRoutes(t) // by its Node, to which the cloud has written which virtual machine it is
	entry.waitReady(t)

	first.waitLinked(t)
	mustStay, machines := undisturbed(t, first.subject(), entry.subject()), m.uids(t)
	former := o.signer
	current := o.rotateClusterKey(t)
	for _, h := range []*siteHost{first, entry} {
		h.wait(t, "it has the new key", func(i *v1alpha1.WindowsInstance) error {
			c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionCredentialsCurrent)
			if c == nil || c.Reason != v1alpha1.ReasonKeyRotated || i.Status.Credentials.KeyFingerprint != ssh.FingerprintSHA256(current.PublicKey()) {
				return fmt.Errorf("%+v, %+v", i.Status.Credentials, c)
			}
			return nil
		})
		if was, is := accepts(t, h.host, former), accepts(t, h.host, current); was || !is {
			t.Errorf("%s accepts the former key: %t, the new one: %t", h.name, was, is)
		}
	}
	mustStay.mustHold(t)
	if now := m.uids(t); now != machines {
		t.Errorf("for another key the Machines are %s, and were %s", now, machines)
	}
	if err := first.host.Reboot(); err != nil { // by somebody else, so that the agent alone makes the routes again
		t.Fatal(err)
	}
	first.mustHaveRoutes(t)
	first.waitReady(t)

	if err := o.client.Delete(t.Context(), &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: first.namespace, Name: first.name}}); err != nil {
		t.Fatal(err)
	}
	m.waitUserData(t, current)
	second := m.bring(t)
	m.mustLeave(t, first, 1)

	third := m.dies(t, second, 2)
	m.autoscale(t, 2)
	fourth := m.bring(t)
	m.waitPool(t, 2)
	m.autoscalerRemoves(t, third, 3, 1)
	m.waitPool(t, 1)

	m.scale(t, 0)
	m.mustLeave(t, fourth, 4)
	m.waitPool(t, 0)
	replaced(t)
}

// refusingMachines makes a Machine of each of two MachineSets, whose hosts refuse the key, as those do whose image has run no user data. The
// function that it returns waits until both are replaced, which is after five minutes, one after the other, and the hosts of the
// other ones are nodes.
func refusingMachines(t *testing.T, o *openShiftSite, p ocpPlatform) func(*testing.T) {
	t.Helper()
	if p.PlatformType == configv1.VSpherePlatformType {
		return func(*testing.T) {} // where another host would have the same key
	}
	if _, err := o.Kubectl(t.Context(), "apply", "-f", filepath.Join("..", "..", "artifacts", "openshift", "machine-replacement.yaml")); err != nil {
		t.Fatal(err)
	}
	theirs, _ := newPEM(t)
	var sets [2]*ocpMachines
	var machines [2]*machinev1beta1.Machine
	for i, name := range refusingSetNames {
		m := &ocpMachines{openShiftSite: o, platform: p, set: name, made: 50 + 10*i}
		m.create(t, 1)
		machine, address := m.next(t)
		host, err := winhost.Start(t.Context(), winhost.Options{Address: address.String(), Port: 22, User: p.user, AuthorizedKeys: []ssh.PublicKey{theirs.PublicKey()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = host.Close() })
		m.giveAddress(t, machine, address)
		sets[i], machines[i] = m, machine
	}
	isGone := func(t *testing.T, i int) error {
		t.Helper()
		return mustBeGone(o.client.Get(t.Context(), client.ObjectKeyFromObject(machines[i]), &machinev1beta1.Machine{}))
	}
	return func(t *testing.T) {
		t.Helper()
		first, second := 0, 1
		eventually(t, "one of the Machines is deleted", func() error {
			err := isGone(t, first)
			if err != nil && isGone(t, second) == nil {
				first, second, err = second, first, nil
			}
			return err
		})
		for _, machine := range machines {
			o.waitEvent(t, machine.Namespace, machine.Name, wmco.MachineSetupFailure, "does not accept the credentials")
		}
		o.waitEvent(t, machines[first].Namespace, machines[first].Name, "MachineDeleted", "The Machine is deleted, so that its MachineSet makes another one.")
		o.waitEvent(t, machines[second].Namespace, machines[second].Name, "MachineDeletionRestricted", "Machine "+machines[first].Name+" of ", "One Machine of the cluster is replaced at a time")
		if isGone(t, second) == nil {
			t.Error("both Machines are deleted before the host of another one has come")
		}
		sets[first].bring(t)
		eventually(t, "the other Machine is deleted", func() error { return isGone(t, second) })
		sets[second].bring(t)
		for _, m := range sets {
			m.waitPool(t, 1)
		}
	}
}

// scale scales the pool of the MachineSet, as people do.
func (m *ocpMachines) scale(t *testing.T, replicas int) {
	t.Helper()
	if _, err := m.Kubectl(t.Context(), "scale", "windowsnodepools/"+m.set, "-n", wmco.MachineAPINamespace, fmt.Sprintf("--replicas=%d", replicas)); err != nil {
		t.Fatal(err)
	}
}

// waitPool waits until the pool of the MachineSet has as many hosts as that asks for.
func (m *ocpMachines) waitPool(t *testing.T, replicas int32) {
	t.Helper()
	eventually(t, "the pool has its hosts", func() error {
		pool, err := m.Windows.WindowsV1alpha1().WindowsNodePools(wmco.MachineAPINamespace).Get(t.Context(), m.set, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := pool.Status; s.DesiredReplicas != replicas || s.Replicas != replicas || s.UnavailableReplicas != 0 || s.Phase != v1alpha1.PoolReady {
			return fmt.Errorf("its status is %+v", s)
		}
		return nil
	})
}

// next waits for another Machine of the MachineSet, and returns it with an address for its host.
func (m *ocpMachines) next(t *testing.T) (*machinev1beta1.Machine, netip.Addr) {
	t.Helper()
	m.made++
	machine := &machinev1beta1.Machine{}
	eventually(t, "there is another Machine", func() error {
		var list machinev1beta1.MachineList
		if err := m.client.List(t.Context(), &list, client.InNamespace(wmco.MachineAPINamespace), client.MatchingLabels{ofSet: m.set}); err != nil {
			return err
		}
		for i := range list.Items {
			if len(list.Items[i].Status.Addresses) == 0 {
				machine = &list.Items[i]
				return nil
			}
		}
		return fmt.Errorf("there are %d, which have hosts", len(list.Items))
	})
	address := m.HostIP().Next()
	for range m.made {
		address = address.Next()
	}
	return machine, address
}

// bring brings the host of the Machine that the MachineSet has made, and waits until it is a node.
func (m *ocpMachines) bring(t *testing.T) *siteHost {
	t.Helper()
	machine, address := m.next(t)
	h := m.start(t, machine, address, winhost.Options{})
	m.giveAddress(t, machine, address)
	node := m.platform.node(machine.Name, m.made)
	h.mustBeNode(t, m.openShiftSite, node)
	if got, want := h.node(t, node).Spec.ProviderID, m.Cloud.ProviderID(address.String()); got != want || want == "" {
		t.Errorf("the provider ID of Node %s is %q, want %q", node, got, want)
	}
	service, err := h.theirs(t).Service(wmco.KubeletService)
	if err != nil || service == nil {
		t.Fatalf("the service of the kubelet: %+v, %v", service, err)
	}
	for _, argument := range m.platform.kubelet {
		mustSay(t, service.Settings.CommandLine, strings.ReplaceAll(argument, "%s", node))
	}
	return h
}

// start starts the host of the Machine that came last, which the Machine does not say yet.
func (m *ocpMachines) start(t *testing.T, machine *machinev1beta1.Machine, address netip.Addr, o winhost.Options) *siteHost {
	t.Helper()
	o.Address, o.Port, o.User = address.String(), 22, m.platform.user
	o.Metadata = winhost.Metadata{Cloud: m.platform.cloud, Hostname: m.platform.node(machine.Name, m.made)}
	h := m.newHost(t, machine.Namespace, m.computer(machine.Name), o)
	h.name = machine.Name
	return h
}

// computer is the name of the computer of a Machine, as it comes.
func (m *ocpMachines) computer(machine string) string {
	if m.platform.PlatformType == configv1.AzurePlatformType {
		return machine
	}
	return fmt.Sprintf("win-7gq2p%d", m.made)
}

// giveAddress is that of the site, with the name that the virtual machine gets from its Machine.
func (m *ocpMachines) giveAddress(t *testing.T, machine *machinev1beta1.Machine, address netip.Addr) {
	t.Helper()
	var more []corev1.NodeAddress
	if m.platform.renamed {
		more = append(more, corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: machine.Name})
	}
	m.openShiftSite.giveAddress(t, machine, address.String(), more...)
}

// uids names the Machines that are there to stay.
func (m *ocpMachines) uids(t *testing.T) string {
	t.Helper()
	var list machinev1beta1.MachineList
	if err := m.client.List(t.Context(), &list, client.InNamespace(wmco.MachineAPINamespace), client.MatchingLabels{ofSet: m.set}); err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range list.Items {
		out = append(out, fmt.Sprintf("%s %s, deleted %t", list.Items[i].Name, list.Items[i].UID, !list.Items[i].DeletionTimestamp.IsZero()))
	}
	return strings.Join(out, "; ")
}

// mustLeave waits until the nth Machine is gone, its Node with it, and its host is as it came, but for its key, which is a person's
// like that which it has taken the place of.
func (m *ocpMachines) mustLeave(t *testing.T, h *siteHost, n int) {
	t.Helper()
	m.mustBeForgotten(t, h, n)
	if difference := h.state(t).difference(h.before, "ProgramData/ssh/administrators_authorized_keys"); difference != "" {
		t.Errorf("%s is not as it came:\n%s", h.name, difference)
	}
}

// mustBeForgotten waits until the nth Machine is gone, with its instance and its Node.
func (m *ocpMachines) mustBeForgotten(t *testing.T, h *siteHost, n int) {
	t.Helper()
	node := m.platform.node(h.name, n)
	eventually(t, h.name+" leaves", func() error {
		i, err := h.instances(h.namespace).Get(t.Context(), h.name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("%s\n%s", describeConditions(i), describeOperation(i))
		}
		return errors.Join(mustBeGone(err), mustBeGone(m.client.Get(t.Context(), client.ObjectKey{Namespace: h.namespace, Name: h.name}, &machinev1beta1.Machine{})))
	})
	if _, err := h.Kube.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("Node %s is still there: %v", node, err)
	}
}

// waitUserData waits until the hosts of Machines that come from now on get a key, where they run user data.
func (m *ocpMachines) waitUserData(t *testing.T, key ssh.Signer) {
	t.Helper()
	if m.platform.PlatformType == configv1.VSpherePlatformType {
		return // the key is in the template
	}
	eventually(t, "the user data has the new key", func() error {
		secret, err := m.Kube.CoreV1().Secrets(wmco.MachineAPINamespace).Get(t.Context(), wmco.UserDataSecret, metav1.GetOptions{})
		if err == nil && !strings.Contains(string(secret.Data[wmco.UserDataKey]), keyLine(key.PublicKey())) {
			err = errors.New("it has not")
		}
		return err
	})
}

// rotateClusterKey replaces the cluster-wide key, which hosts that are started from now on have.
func (s *site) rotateClusterKey(t *testing.T) ssh.Signer {
	t.Helper()
	signer, pem := newPEM(t)
	replaceKey(t, s.System, pem)
	s.signer = signer
	return signer
}
