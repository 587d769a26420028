// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// secondAddress gives a host another address, and returns it with the port there.
func (h *siteHost) secondAddress(t *testing.T, address string) int32 {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); _ = listener.Close() })
	to := net.JoinHostPort(h.host.Address(), fmt.Sprint(h.host.Port()))
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
				if err != nil {
					return
				}
				defer out.Close()
				defer context.AfterFunc(ctx, func() { _ = in.Close(); _ = out.Close() })()
				go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

// moveTo changes where the host of the instance is contacted.
func (h *siteHost) moveTo(t *testing.T, address string, port int32) {
	t.Helper()
	h.patch(t, fmt.Sprintf(`{"spec":{"address":%q,"port":%d}}`, address, port))
}

// mustBeAsBefore fails if the host or its Node was disturbed since before. Its instance may be
// another object.
func mustBeAsBefore(t *testing.T, s subject, before map[string]string, but ...string) {
	t.Helper()
	now := s.describe(t)
	for _, key := range append(but, "instance") {
		delete(now, key)
		delete(before, key)
	}
	if diff := cmp.Diff(before, now); diff != "" {
		t.Errorf("host %s was disturbed (-before +now):\n%s", s.name, diff)
	}
}

// waitReason waits for the reason of a condition.
func (h *siteHost) waitReason(t *testing.T, condition, reason string) *v1alpha1.WindowsInstance {
	t.Helper()
	return h.wait(t, condition+" has the reason "+reason, func(i *v1alpha1.WindowsInstance) error {
		if c := meta.FindStatusCondition(i.Status.Conditions, condition); c == nil || c.Reason != reason || i.Status.ObservedGeneration != i.Generation {
			return fmt.Errorf("%s\n%s", describeConditions(i), describeOperation(i))
		}
		return nil
	})
}

// configureAddressChanged has spec.address lead to another host, to the same host at another
// address, and to another host again, where the instance is deleted.
func configureAddressChanged(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-moved")
	h := s.readyHost(t, namespace, "cfg-moved", winhost.Options{})
	other := s.newHost(t, namespace, "cfg-moved-other", winhost.Options{})
	subject := h.subject()
	calm := subject.describeWritten(t)
	before := h.get(t)

	h.moveTo(t, other.host.Address(), int32(other.host.Port()))
	i := h.waitReason(t, v1alpha1.ConditionHostKeyTrusted, v1alpha1.ReasonAnotherHost)
	mustSay(t, messageOf(t, i, v1alpha1.ConditionHostKeyTrusted), other.host.Address(), "last at "+h.host.Address(), "put the former one back")
	if i.Status.Node == nil || i.Status.Node.UID != before.Status.Node.UID || !slices.Equal(i.Status.Addresses, before.Status.Addresses) || i.Status.MachineID != before.Status.MachineID {
		t.Errorf("the status tells of another host: %+v", i.Status)
	}

	port := h.secondAddress(t, "127.9.1.1")
	h.moveTo(t, "127.9.1.1", port)
	i = h.wait(t, "the host is found at its new address", func(i *v1alpha1.WindowsInstance) error {
		if !slices.Equal(i.Status.Addresses, []string{"127.9.1.1"}) {
			return errors.New(describeConditions(i))
		}
		return isSetUp(i)
	})
	if i.Status.Node.UID != before.Status.Node.UID {
		t.Errorf("the Node is %v, and was %v", i.Status.Node, before.Status.Node)
	}
	// The kubelet is told which of its addresses to prefer, which takes effect at its next start.
	mustBeAsBefore(t, h.subject(), calm, "operation", "changes")

	h.moveTo(t, other.host.Address(), int32(other.host.Port()))
	h.waitReason(t, v1alpha1.ConditionHostKeyTrusted, v1alpha1.ReasonAnotherHost)
	h.remove(t)
	h.wait(t, "the wrong host is not cleaned", func(i *v1alpha1.WindowsInstance) error {
		if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionRemoved); c == nil || c.Reason != v1alpha1.ReasonRemovalFailed {
			return fmt.Errorf("%s\n%s", describeConditions(i), describeOperation(i))
		}
		return nil
	})
	if n := len(other.host.Commands()); n > 0 {
		t.Errorf("%d commands were run on the other host: %q", n, other.host.Commands())
	}
	if node := h.node(t, before.Status.Node.Name); node.Spec.Unschedulable {
		t.Error("the Node is cordoned although its host cannot be cleaned")
	}
	h.moveTo(t, h.host.Address(), int32(h.host.Port()))
	h.waitGone(t)
	h.mustBeClean(t)
}

// configureRenamed gives a host an instance of another name, and one of another address, and
// deletes the former one.
func configureRenamed(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-renamed")
	h := s.readyHost(t, namespace, "cfg-renamed", winhost.Options{})
	first, before := h.get(t), h.subject()
	facts := before.describeWritten(t)
	port := h.secondAddress(t, "127.9.1.2")
	for _, to := range []struct {
		name, address string
		port          int32
	}{{"cfg-renamed-2", h.host.Address(), int32(h.host.Port())}, {"cfg-renamed-3", "127.9.1.2", port}} {
		former := h.name
		h.name = to.name
		t.Cleanup(func() { h.giveUp(t) })
		h.declare(t, func(spec *v1alpha1.WindowsInstanceSpec) { spec.Address, spec.Port = to.address, to.port })
		if err := h.instances(namespace).Delete(t.Context(), former, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, former+" goes", func() error {
			_, err := h.instances(namespace).Get(t.Context(), former, metav1.GetOptions{})
			return mustBeGone(err)
		})
		i := h.wait(t, "it goes on under its new name", isSetUp)
		if i.Status.Node.UID != first.Status.Node.UID || !slices.Equal(i.Status.HostKeys, first.Status.HostKeys) || i.Status.MachineID != first.Status.MachineID {
			t.Errorf("the status is %+v, and was %+v", i.Status, first.Status)
		}
		mustBeAsBefore(t, h.subject(), facts, "operation", "changes")
	}
	h.remove(t)
	eventually(t, "the instance goes", func() error {
		_, err := h.instances(namespace).Get(t.Context(), h.name, metav1.GetOptions{})
		return mustBeGone(err)
	})
	h.mustBeClean(t)
}

// configureRestored recreates an instance as a backup has it: with its finalizer, and without its
// status.
func configureRestored(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-restored")
	h := s.readyHost(t, namespace, "cfg-restored", winhost.Options{})
	subject := h.subject()
	before := subject.describeWritten(t)
	saved := h.get(t)
	h.patch(t, `{"spec":{"paused":true}}`)
	h.remove(t)
	h.wait(t, "the removal waits for the end of the pause", func(i *v1alpha1.WindowsInstance) error {
		if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionRemoved); c == nil || c.Reason != v1alpha1.ReasonPaused {
			return errors.New(describeConditions(i))
		}
		return nil
	})
	h.patch(t, `{"metadata":{"finalizers":null}}`)
	eventually(t, "the object is lost", func() error {
		_, err := h.instances(namespace).Get(t.Context(), h.name, metav1.GetOptions{})
		return mustBeGone(err)
	})
	commands := len(h.host.Commands())
	saved.ObjectMeta = metav1.ObjectMeta{Name: saved.Name, Finalizers: saved.Finalizers, Annotations: saved.Annotations, Labels: saved.Labels}
	if _, err := h.instances(namespace).Create(t.Context(), saved, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	i := h.waitReason(t, v1alpha1.ConditionHostKeyTrusted, v1alpha1.ReasonHostKeyUnconfirmed)
	mustSay(t, messageOf(t, i, v1alpha1.ConditionHostKeyTrusted), "restored without its status", keyLine(h.host.HostKey()))
	if len(i.Status.HostKeys) > 0 || len(h.host.Commands()) > commands {
		t.Errorf("the key is trusted although nobody has confirmed it: %+v, %q", i.Status.HostKeys, h.host.Commands()[commands:])
	}
	keys, err := json.Marshal([]string{keyLine(h.host.HostKey())})
	if err != nil {
		t.Fatal(err)
	}
	h.patch(t, fmt.Sprintf(`{"spec":{"hostKeys":%s}}`, keys))
	h.waitReady(t)
	mustBeAsBefore(t, subject, before, "operation")
	h.remove(t)
	h.waitGone(t)
	h.mustBeClean(t)
}

// removeForeignNode deletes the instance of a Node that others made, and that could not be taken
// over: the Node and its pods stay as they are, and our agent goes.
func removeForeignNode(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-theirs")
	h := s.newHost(t, namespace, "cfg-theirs", winhost.Options{})
	settings := config.ServiceSettings{CommandLine: `C:\theirs\containerd.exe`, Description: "of somebody else", StartType: config.StartAutomatic}
	if err := h.theirs(t).CreateService(wmco.ContainerdService, settings, nil); err != nil {
		t.Fatal(err)
	}
	h.before = h.state(t)
	nodes := s.Kube.CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nodes.Delete(context.Background(), h.name, metav1.DeleteOptions{}) })
	eventually(t, "the Node has the address of the host", func() error { // others write it, too
		if node, err = nodes.Get(t.Context(), h.name, metav1.GetOptions{}); err != nil {
			return err
		}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: h.host.Address()}}
		node.Status.NodeInfo.OperatingSystem = "windows"
		node, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
		return err
	})
	h.declare(t, nil)
	h.wait(t, "the Node is left to others", func(i *v1alpha1.WindowsInstance) error {
		if i.Status.Node == nil || i.Status.Node.UID != node.UID || i.Status.Version == "" {
			return errors.New(describeConditions(i))
		}
		return nil
	})
	if op := h.waitOperation(t, h.reconfigure(t).ID); op.Phase != v1alpha1.OperationFailed {
		t.Fatalf("the host was taken over: %s", op.Message)
	}
	h.remove(t)
	eventually(t, "the instance goes", func() error {
		i, err := h.instances(namespace).Get(t.Context(), h.name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("%s\n%s", describeConditions(i), describeOperation(i))
		}
		return mustBeGone(err)
	})
	if now := h.node(t, h.name); now.UID != node.UID || now.Spec.Unschedulable {
		t.Errorf("the Node of others was touched: UID %s, before %s, unschedulable %v", now.UID, node.UID, now.Spec.Unschedulable)
	}
	h.mustBeClean(t)
}
