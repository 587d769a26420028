// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/wmcostandin"
)

// newMachineHost starts a host that is the virtual machine of a Machine.
func (o *openShiftSite) newMachineHost(t *testing.T, name string) *siteHost {
	t.Helper()
	address := o.HostIP().Next().Next().String()
	h := o.newHost(t, wmco.MachineAPINamespace, name, winhost.Options{Address: address, Port: 22}) // where WMCO connects to
	o.provision(t, h.namespace, h.name, address)
	return h
}

// installWMCO installs WMCO, which starts it if it has replicas.
func (o *openShiftSite) installWMCO(t *testing.T, replicas int32) {
	t.Helper()
	labels := map[string]string{"name": wmco.Deployment}
	if _, err := o.Kube.AppsV1().Deployments(wmco.Namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: wmco.Deployment},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "registry.example.com/wmco"}}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// endWMCO ends WMCO, which stays installed.
func (o *openShiftSite) endWMCO(t *testing.T) {
	t.Helper()
	if _, err := o.Kube.AppsV1().Deployments(wmco.Namespace).Patch(t.Context(), wmco.Deployment, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// prepareWMCO has WMCO come back as those do it who go back to it: without the user data of Machines, which our controller makes no more.
func (o *openShiftSite) prepareWMCO(t *testing.T, g *guided, commands []string) {
	t.Helper()
	secrets := o.Kube.CoreV1().Secrets(wmco.MachineAPINamespace)
	if _, err := secrets.Get(t.Context(), wmco.UserDataSecret, metav1.GetOptions{}); err != nil {
		t.Fatalf("without user data of ours that proves nothing: %v", err)
	}
	g.run(t, commands, "oc delete secret ")
	o.waitEvent(t, wmco.MachineAPINamespace, wmco.UserDataSecret, "UserDataNotKept", "which would delete all Machines for it when it is started again")
	if _, err := secrets.Get(t.Context(), wmco.UserDataSecret, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the user data is there: %v", err)
	}
	o.installWMCO(t, 0)
	g.run(t, commands, "oc scale deployment windows-machine-config-operator -n openshift-windows-machine-config-operator --replicas=1")
}

// takenOnUnanswered has somebody release a host after WMCO was started. The controller is killed when the host was asked and has not answered,
// and WMCO comes to the host then, and to that of a Machine, which was released before. Each has one owner in the end.
func (o *openShiftSite) takenOnUnanswered(t *testing.T, g *guided, commands []string, entry, machine *siteHost) {
	t.Helper()
	hosts := map[string]*siteHost{entry.host.Address(): entry, machine.host.Address(): machine}
	if out, err := g.try(t, only(t, commands, "kubectl windows release win-7 ")); err != nil || !strings.Contains(out, api.ServiceName) {
		t.Errorf("what a release changes: %v, %s", err, out)
	}
	setFault(t, entry.host, winhost.Fault{ExecHang: true, ExecMatch: " " + api.CommandRelease + "$"})
	ended := g.start(t, only(t, commands, "kubectl windows release --pool "))
	var released string
	entry.wait(t, "its release is requested", func(i *v1alpha1.WindowsInstance) error {
		if op := i.Status.Operation; op == nil || op.Type != v1alpha1.OperationRelease {
			return errors.New(describeOperation(i))
		}
		released = i.Status.Operation.ID
		return nil
	})
	eventually(t, "the host is asked to be released", func() error {
		if !slices.ContainsFunc(entry.host.Commands(), func(c string) bool { return strings.HasSuffix(c, " "+api.CommandRelease) }) {
			return errors.New(describeOperation(entry.get(t)))
		}
		return nil
	})
	o.Controller.Kill9()
	setFault(t, entry.host, winhost.Fault{})
	if op := entry.get(t).Status.Operation; op.ID != released || !op.ReleaseBegun || !op.Active() {
		t.Errorf("it is not known that a release may have begun: %s", describeOperation(entry.get(t)))
	}

	version := machine.node(t, machine.name).Annotations[wmco.VersionAnnotation]
	nodes, systems := map[string]string{}, map[string]wmcostandin.Host{}
	for address, h := range hosts {
		nodes[h.name] = string(h.node(t, h.name).UID)
		host, _ := winhost.SystemOf(h.host)
		fixture := o.wmcoHost(t, h)
		systems[address] = wmcostandin.Host{System: host, Name: h.name, Put: func() error { return fixture.Put(host) }}
	}
	approve(t, o, "system:node:"+machine.name) // what WMCO leaves to the approver of Machines
	operator := wmcostandin.Start(wmcostandin.Options{
		Client: o.client, Kube: o.Kube, Namespace: wmco.Namespace, Version: "11.0.0",
		Host: func(address string) (wmcostandin.Host, error) {
			host, is := systems[address]
			if !is {
				return host, errors.New("there is no host at " + address)
			}
			return host, nil
		},
	})
	t.Cleanup(operator.Stop)
	if err := o.Controller.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	// It removes the services of our version when no Node has that any more, and we do not publish them again.
	want := []string{"Upgrade " + machine.host.Address(), "Upgrade " + entry.host.Address(), string(wmcostandin.RemoveServices) + " " + version}
	mustHaveDone := func() error {
		deeds, problems := operator.Deeds(), operator.Problems()
		if n := len(deeds); len(problems) > 0 || n > len(want) || !slices.Equal(deeds, want[:n]) {
			t.Fatalf("WMCO did %q: %q", deeds, problems)
		}
		if len(deeds) < len(want) {
			return fmt.Errorf("it did %q", deeds)
		}
		return nil
	}
	eventually(t, "WMCO has upgraded the hosts", mustHaveDone)
	if op := entry.waitOperation(t, released); op.Phase != v1alpha1.OperationSucceeded || !op.HostReleased || op.ReleaseBegun {
		t.Errorf("the release is %s: %s", op.Phase, op.Message)
	}
	if out, err := ended(); err != nil {
		t.Errorf("who has requested it sees %v\n%s", err, out)
	}
	g.run(t, commands, "kubectl windows get ")
	for _, h := range hosts {
		h.waitConfigured(t, v1alpha1.ReasonManagedByWMCO)
		h.mustBeOfWMCO(t, nodes[h.name])
	}
	if op := entry.get(t).Status.Operation; op.ID != released {
		t.Errorf("an operation came after the release: %s", describeOperation(entry.get(t)))
	}
	o.waitRunning(t, machine.namespace, machine.name)
	o.endWMCO(t)
	for _, h := range hosts {
		h.waitConfigured(t, v1alpha1.ReasonForeignNode)
		for _, path := range theirFiles {
			h.write(t, path, theirContent) // WMCO has removed the directories as a whole
		}
	}
	if err := mustHaveDone(); err != nil {
		t.Error(err)
	}
}

// mustBeOfWMCO fails the test unless WMCO alone has the host, whose Node is the one that it was.
func (h *siteHost) mustBeOfWMCO(t *testing.T, node string) {
	t.Helper()
	now := h.node(t, h.name)
	_, ours := now.Labels[v1alpha1.NamespaceLabel]
	_, upgrading := now.Labels[wmco.UpgradingLabel]
	versions := [2]string{now.Annotations[wmco.VersionAnnotation], now.Annotations[wmco.DesiredVersionAnnotation]}
	if string(now.UID) != node || ours || upgrading || now.Spec.Unschedulable || versions != [2]string{"11.0.0", "11.0.0"} {
		t.Errorf("Node %s (%s before) has labels %v and annotations %v\n%s", now.UID, node, now.Labels, now.Annotations, describeOperation(h.get(t)))
	}
	for name, there := range map[string]bool{api.ServiceName: false, wmco.WICDService: true} {
		if s, err := h.theirs(t).Service(name); err != nil || (s != nil) != there {
			t.Errorf("service %s: %+v, %v", name, s, err)
		}
	}
}
