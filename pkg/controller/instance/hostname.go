// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// indexHostname is the index of the cache that holds which Node the host of an instance is, or may become by its computer name.
const indexHostname = "instance-controller/hostname"

// besides stands between the message about the computer name and those about other findings.
const besides = " Besides: "

// hostnamesOf is what [indexHostname] holds of an instance.
func hostnamesOf(instance *v1alpha1.WindowsInstance) []string {
	var names []string
	if node := instance.Status.Node; node != nil {
		names = append(names, node.Name)
	}
	short, full := computerNames(instance)
	names = slices.DeleteFunc(append(names, short, full), func(n string) bool { return n == "" })
	slices.Sort(names)
	return slices.Compact(names)
}

// computerNames are the computer name of a host, or the one that its spec wants, without and with its domain, in lower case as the
// kubelet has them. Both are the same where the host is in no domain, and empty before the host has said its own.
func computerNames(instance *v1alpha1.WindowsInstance) (short, full string) {
	system := instance.Status.System
	if system == nil || system.Hostname == "" {
		return "", ""
	}
	short = strings.ToLower(cmp.Or(instance.Spec.NodeName, system.Hostname))
	_, domain, _ := strings.Cut(strings.ToLower(system.FQDN), ".")
	if domain == "" {
		return short, short
	}
	return short, short + "." + domain
}

// nodeNameOf is the name that the Node of a host gets by its computer name. Empty: its platform names it otherwise.
func nodeNameOf(instance *v1alpha1.WindowsInstance, from wmco.HostnameSource) string {
	short, full := computerNames(instance)
	switch from {
	case wmco.HostnameOfWindows:
		return short
	case wmco.HostnameOfFQDN:
		return full
	case wmco.HostnameOfMetadata, wmco.HostnameOfGCP:
	}
	return ""
}

// findHostname says in s which other host has the computer name of the host, so that both would be the same Node. Whether a computer
// name makes the name of a Node, the platform says. While that is not known, what was found before stays.
func (r *Reconciler) findHostname(ctx context.Context, s *snapshot) error {
	if r.Desired == nil || s.paused != "" || s.duplicate != "" || s.node != nil {
		return nil
	}
	instance := s.instance
	if s.observation != nil && s.observation.report != nil {
		instance = seenAs(instance, s.observation).DeepCopy()
		instance.Status.System = mergeSystem(instance.Status.System, s.observation.report.system)
	}
	if instance.Status.System == nil {
		return nil
	}
	from, known := r.Desired.NodeNames()
	if !known {
		if c := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionPreflightPassed); c != nil && c.Reason == v1alpha1.ReasonHostnameTaken {
			s.hostnameTaken, _, _ = strings.Cut(c.Message, besides)
		}
		return nil
	}
	name := nodeNameOf(instance, from)
	if name == "" {
		return nil
	}
	var others v1alpha1.WindowsInstanceList
	if err := r.client.List(ctx, &others, client.MatchingFields{indexHostname: name}); err != nil {
		return fmt.Errorf("looking for other hosts with the name %s: %w", name, err)
	}
	var first *v1alpha1.WindowsInstance
	for i := range others.Items {
		other := &others.Items[i]
		if other.UID != instance.UID && r.takesName(other, instance, name, from) && (first == nil || identity.Precedes(other, first, r.Namespace)) {
			first = other
		}
	}
	if first != nil {
		s.hostnameTaken = describeHostname(instance, first, name, r.Namespace)
	}
	return nil
}

// takesName says whether another host is the Node of a name, or is to become it before the host of instance. One in another namespace
// than that of the operator only takes it by being the Node: anybody can call a host as they like.
func (r *Reconciler) takesName(other, instance *v1alpha1.WindowsInstance, name string, from wmco.HostnameSource) bool {
	switch node := other.Status.Node; {
	case sharesHost(other, instance) || !other.Status.Identified():
		return false
	case node != nil:
		return node.Name == name
	case !other.DeletionTimestamp.IsZero() || other.Namespace != instance.Namespace && other.Namespace != r.Namespace:
		return false
	}
	if nodeNameOf(other, from) != name {
		return false
	}
	if a, b := other.Status.ChangedHost(), instance.Status.ChangedHost(); a != b {
		return a
	}
	return identity.Precedes(other, instance, r.Namespace)
}

// describeHostname says which other host has the computer name, and what to do.
func describeHostname(instance, other *v1alpha1.WindowsInstance, name, home string) string {
	theirs, named := nameOf(other, instance, home)
	whose, gone := theirs, ""
	if named {
		whose, gone = fmt.Sprintf("%s (%s)", theirs, host.Endpoint(other)), " If that host is gone, delete that instance instead."
	}
	made := ""
	if _, guid, _ := strings.Cut(instance.Status.MachineID, "/"); guid != "" && strings.HasSuffix(other.Status.MachineID, "/"+guid) {
		made = ` Both have the same MachineGuid, so one was made from the disk of the other, or both from one image that was not generalized. Prepare the image with sysprep for further hosts: C:\Windows\System32\Sysprep\sysprep.exe /generalize /oobe /shutdown.`
	}
	return fmt.Sprintf("The host would become Node %s by its computer name, and %s has a host of that name. Nothing was changed on this one.%s "+
		`Give it another name, for which the controller restarts it once: kubectl patch wi %s -n %s --type=merge -p '{"spec":{"nodeName":"NEW-NAME"}}', or in PowerShell on it: Rename-Computer -NewName NEW-NAME -Restart.%s`,
		name, whose, made, instance.Name, instance.Namespace, gone)
}
