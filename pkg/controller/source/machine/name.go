// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// maxSetName is how long the name of a MachineSet may be where hosts get the names of their Machines: the
// Machine API adds a hyphen and five characters to it.
const maxSetName = v1alpha1.MaxComputerName - 6

// computerName returns the name that the host of a Machine gets, and why it gets none although hosts of the
// platform do. Both are empty where hosts keep their names, and for a host that is a Node already, or is about to
// become one: that keeps the name under which it is one. A name that somebody has set stays.
func computerName(machine *machinev1beta1.Machine, current *v1alpha1.WindowsInstance, platform configv1.PlatformType) (name, problem string) {
	if !wmco.RenamesComputer(platform) {
		return "", ""
	}
	if current != nil && current.Spec.NodeName != "" {
		if current.Spec.NodeName == machine.Name {
			return machine.Name, ""
		}
		return "", ""
	}
	if machine.Status.NodeRef != nil || current != nil && (current.Status.Node != nil || current.Status.MayHaveChangedHost() || current.Status.Operation.Active()) {
		return "", ""
	}
	if !v1alpha1.IsComputerName(machine.Name) {
		return "", fmt.Sprintf("Windows cannot have the name of this Machine, so its host keeps the name that it has. "+
			"Computer names have at most %d lower-case letters, digits and hyphens, and are not a number: give the MachineSet a name of at most %d characters, without periods, and scale the one of this Machine down.",
			v1alpha1.MaxComputerName, maxSetName)
	}
	return machine.Name, ""
}
