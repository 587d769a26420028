// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Where virtual machines come up with a name that Windows made up, hosts get the names of their Machines, as long as
// they are no Nodes, and as far as Windows can have them.
func TestComputerNamesOfMachines(t *testing.T) {
	joined := func(m *machinev1beta1.Machine) { m.Status.NodeRef = &corev1.ObjectReference{Name: "win-7gq2p1"} }
	isNode := func(i *v1alpha1.WindowsInstance) { i.Status.Node = &v1alpha1.NodeReference{Name: "win-7gq2p1"} }
	named := func(name string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) { i.Spec.NodeName = name }
	}
	for _, tt := range []struct {
		test, machine string
		platform      configv1.PlatformType
		of            func(*machinev1beta1.Machine)
		before        func(*v1alpha1.WindowsInstance) // nil: there is no instance
		want          string
		event         bool
	}{
		{test: "vSphere", machine: "winwork-x7k2p", platform: configv1.VSpherePlatformType, want: "winwork-x7k2p"},
		{test: "Nutanix", machine: "winworker-x7k2p", platform: configv1.NutanixPlatformType, want: "winworker-x7k2p"},
		{test: "AWS", machine: "winworker-x7k2p", platform: configv1.AWSPlatformType},
		{test: "Azure", machine: "winworker-x7k2p", platform: configv1.AzurePlatformType},
		{test: "too long", machine: "winworkers-x7k2p", platform: configv1.NutanixPlatformType, event: true},
		{test: "with a period", machine: "win.work-x7k2p", platform: configv1.VSpherePlatformType, event: true},
		{test: "a Node by another name", machine: "winworker-x7k2p", platform: configv1.VSpherePlatformType, of: joined},
		{test: "a Node by another name, and the Machine does not say it", machine: "winworker-x7k2p", platform: configv1.VSpherePlatformType, before: isNode},
		{test: "a Node by another name that is too long", machine: "winworkers-x7k2p", platform: configv1.VSpherePlatformType, of: joined},
		{test: "named by a person", machine: "winworker-x7k2p", platform: configv1.VSpherePlatformType, before: named("mine"), want: "mine"},
		{test: "about to become a Node", machine: "winworker-x7k2p", platform: configv1.VSpherePlatformType, before: func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation = &v1alpha1.Operation{Phase: v1alpha1.OperationRunning, JoinsAs: "win-7gq2p1"}
		}},
		{test: "not yet a Node", machine: "winworker-x7k2p", platform: configv1.VSpherePlatformType, before: named(""), want: "winworker-x7k2p"},
	} {
		t.Run(tt.test, func(t *testing.T) {
			machine := windowsMachine(tt.machine, "")
			if tt.of != nil {
				tt.of(machine)
			}
			f := newFixture(t, machine, infrastructure(tt.platform))
			if tt.before != nil { // an instance that was made without a name
				of := f.machines.platform
				f.machines.platform = func(context.Context) (configv1.PlatformType, error) { return configv1.NonePlatformType, nil }
				f.settle(tt.machine)
				f.machines.platform = of
				instance := f.instance(tt.machine)
				tt.before(instance)
				status := instance.Status
				if err := f.Update(t.Context(), instance); err != nil {
					t.Fatal(err)
				}
				instance.Status = status
				if err := f.Status().Update(t.Context(), instance); err != nil {
					t.Fatal(err)
				}
			}
			f.settle(tt.machine)
			if got := f.instance(tt.machine).Spec.NodeName; got != tt.want {
				t.Errorf("the host gets the name %q, want %q", got, tt.want)
			}
			f.settle(tt.machine) // the same once more
			said := 0
			for len(f.events.Events) > 0 {
				if event := <-f.events.Events; strings.Contains(event, reasonNameRefused) {
					said++
				}
			}
			if want := map[bool]int{true: 1}[tt.event]; said != want {
				t.Errorf("it was said %d times, want %d", said, want)
			}
		})
	}
}
