// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
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
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// ocpMachines is a MachineSet of Windows, whose virtual machines a test makes in the place of the cloud.
type ocpMachines struct {
	*openShiftSite
	platform ocpPlatform
	// made is how many there were so far.
	made int
}

// machineSetName is as long as it may be, on platforms on which hosts get the names of their Machines.
const machineSetName = "winworker"

// openShiftMachines scales a MachineSet from nothing, has all hosts get another key, has a Machine be replaced, and scales
// it to nothing. entry is a host that has the key as well.
func openShiftMachines(t *testing.T, o *openShiftSite, p ocpPlatform, entry *siteHost) {
	t.Helper()
	m := &ocpMachines{openShiftSite: o, platform: p}
	labels := map[string]string{"machine.openshift.io/cluster-api-machineset": machineSetName}
	set := &machinev1beta1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: wmco.MachineAPINamespace, Name: machineSetName},
		Spec:       machinev1beta1.MachineSetSpec{Replicas: ptr.To[int32](0), Selector: metav1.LabelSelector{MatchLabels: labels}},
	}
	set.Spec.Template.Labels = map[string]string{"machine.openshift.io/os-id": "Windows", "machine.openshift.io/cluster-api-machineset": machineSetName}
	o.create(t, set)
	m.waitPool(t, 0)

	m.scale(t, 1)
	first := m.bring(t)
	m.waitPool(t, 1)
	entry.waitReady(t)

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

	if err := o.client.Delete(t.Context(), &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: first.namespace, Name: first.name}}); err != nil {
		t.Fatal(err)
	}
	m.waitUserData(t, current)
	second := m.bring(t)
	m.mustLeave(t, first, 1)

	m.scale(t, 0)
	m.mustLeave(t, second, 2)
	m.waitPool(t, 0)
}

// scale scales the pool of the MachineSet, as people do.
func (m *ocpMachines) scale(t *testing.T, replicas int) {
	t.Helper()
	if _, err := m.Kubectl(t.Context(), "scale", "windowsnodepools/"+machineSetName, "-n", wmco.MachineAPINamespace, fmt.Sprintf("--replicas=%d", replicas)); err != nil {
		t.Fatal(err)
	}
}

// waitPool waits until the pool of the MachineSet has as many hosts as that asks for.
func (m *ocpMachines) waitPool(t *testing.T, replicas int32) {
	t.Helper()
	eventually(t, "the pool has its hosts", func() error {
		pool, err := m.Windows.WindowsV1alpha1().WindowsNodePools(wmco.MachineAPINamespace).Get(t.Context(), machineSetName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := pool.Status; s.DesiredReplicas != replicas || s.Replicas != replicas || s.UnavailableReplicas != 0 || s.Phase != v1alpha1.PoolReady {
			return fmt.Errorf("its status is %+v", s)
		}
		return nil
	})
}

// bring brings the host of the Machine that the MachineSet has made, and waits until it is a node.
func (m *ocpMachines) bring(t *testing.T) *siteHost {
	t.Helper()
	m.made++
	machine := &machinev1beta1.Machine{}
	eventually(t, "there is another Machine", func() error {
		var list machinev1beta1.MachineList
		if err := m.client.List(t.Context(), &list, client.InNamespace(wmco.MachineAPINamespace)); err != nil {
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
	address, node := m.HostIP().Next(), m.platform.node(machine.Name, m.made)
	for range m.made {
		address = address.Next()
	}
	h := m.newHost(t, machine.Namespace, m.computer(machine.Name), winhost.Options{
		Address: address.String(), Port: 22, User: m.platform.user, Metadata: winhost.Metadata{Cloud: m.platform.cloud, Hostname: node},
	})
	h.name = machine.Name
	m.giveAddress(t, machine, address)
	h.mustBeNode(t, m.openShiftSite, node)
	service, err := h.theirs(t).Service(wmco.KubeletService)
	if err != nil || service == nil {
		t.Fatalf("the service of the kubelet: %+v, %v", service, err)
	}
	for _, argument := range m.platform.kubelet {
		mustSay(t, service.Settings.CommandLine, strings.ReplaceAll(argument, "%s", node))
	}
	return h
}

// computer is the name of the computer of a Machine, as it comes.
func (m *ocpMachines) computer(machine string) string {
	if m.platform.PlatformType == configv1.AzurePlatformType {
		return machine
	}
	return fmt.Sprintf("win-7gq2p%d", m.made)
}

// giveAddress says in the place of the cloud where the virtual machine of a Machine runs.
func (m *ocpMachines) giveAddress(t *testing.T, machine *machinev1beta1.Machine, address netip.Addr) {
	t.Helper()
	before := client.MergeFrom(machine.DeepCopy())
	machine.Status.Addresses = []corev1.NodeAddress{internalIP(address.String())}
	if m.platform.renamed {
		machine.Status.Addresses = append(machine.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: machine.Name})
	}
	if err := m.client.Status().Patch(t.Context(), machine, before); err != nil {
		t.Fatal(err)
	}
}

// uids names the Machines that are there to stay.
func (m *ocpMachines) uids(t *testing.T) string {
	t.Helper()
	var list machinev1beta1.MachineList
	if err := m.client.List(t.Context(), &list, client.InNamespace(wmco.MachineAPINamespace)); err != nil {
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
	if difference := h.state(t).difference(h.before, "ProgramData/ssh/administrators_authorized_keys"); difference != "" {
		t.Errorf("%s is not as it came:\n%s", h.name, difference)
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
	secrets := s.Kube.CoreV1().Secrets(system.Namespace)
	secret, err := secrets.Get(t.Context(), wmco.PrivateKeySecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Data["private-key.pem"] = pem
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.signer = signer
	return signer
}
