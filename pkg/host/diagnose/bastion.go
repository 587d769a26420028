// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package diagnose

import (
	"errors"
	"fmt"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// credentialsMissing is for credentials that do not exist, cannot be used or could not be read.
func credentialsMissing(e *host.CredentialsError) Diagnosis {
	if e.Unread {
		return unknown(v1alpha1.ConditionAuthenticated, v1alpha1.ReasonNotTried,
			"The host was not logged in to: %s. It is tried again when the API server answers.", cause(e))
	}
	if e.Bastion != "" {
		of := *e
		of.Bastion = ""
		return failed(v1alpha1.ConditionAuthenticated, v1alpha1.ReasonCredentialsMissing,
			"There are no usable credentials for bastion %s: %s. The host was not contacted.", e.Bastion, cause(&of))
	}
	return failed(v1alpha1.ConditionAuthenticated, v1alpha1.ReasonCredentialsMissing,
		"There are no usable credentials: %s.", cause(e))
}

// fieldOfBastion is where the bastion of an instance is set.
func fieldOfBastion(instance *v1alpha1.WindowsInstance) string {
	if ref := instance.Spec.PoolRef; instance.Spec.Bastion == nil && ref != nil {
		return "spec.template.bastion of pool " + ref.Name
	}
	return "spec.bastion"
}

// diagnoseBastion is for what fails on the way to the bastion of a host, or there. It says nothing about the host.
func diagnoseBastion(e *ssh.Error, instance *v1alpha1.WindowsInstance) Diagnosis {
	const reachable, unreachable, refused = v1alpha1.ConditionReachable, v1alpha1.ReasonBastionUnreachable, v1alpha1.ReasonBastionRefused
	at, field := e.Address, fieldOfBastion(instance)
	why := e.Err
	if inner := e.OnBastion(); inner != nil {
		why = inner.Err
		if inner.Layer == ssh.LayerDNS && inner.Reason == ssh.ReasonTimedOut {
			return failed(reachable, unreachable, "DNS does not answer for bastion %s: check the DNS server that is responsible for the name.", at)
		}
	}
	switch e.Reason {
	case ssh.ReasonNameNotResolved:
		return failed(reachable, unreachable, "DNS knows no address for bastion %s: correct the address in %s, or add the name to the DNS that the cluster uses.", at, field)
	case ssh.ReasonAddressRefused:
		return failed(reachable, unreachable, "Connections to bastion %s are not allowed: %s. Use another one, or have the administrator of the cluster change the flags --allowed-host-cidrs and --refused-host-cidrs of the controller and the API server.", at, cause(why))
	case ssh.ReasonConnectionRefused:
		return failed(reachable, unreachable, "Nothing listens on bastion %s: start its SSH server, open the port in its firewall, or correct address and port in %s.", at, field)
	case ssh.ReasonConnectionTimedOut:
		return failed(reachable, unreachable, "Bastion %s does not answer: check that it is running, and that no firewall or security group drops the port on the way from the cluster.", at)
	case ssh.ReasonHostUnreachable:
		return failed(reachable, unreachable, "There is no route to bastion %s: check the address in %s, that the bastion is running, and the network between the cluster and the bastion.", at, field)
	case ssh.ReasonTimedOut:
		return failed(reachable, unreachable, "Bastion %s did not answer in time: it may be overloaded; it is tried again.", at)
	case ssh.ReasonConnectionLost:
		return failed(reachable, unreachable, "The connection to bastion %s broke: it may be restarting; it is tried again.", at)
	case ssh.ReasonHostKeyChanged:
		return bastionKeyChanged(e, instance)
	case ssh.ReasonCredentialsRefused:
		d := remarked(failed(reachable, refused, "Bastion %s does not accept the credentials for its user: authorize the public key of the Secret there, or correct username and credentialsSecretRef in %s.", at, field), e)
		d.Message += " " + bastionRetry(instance, field)
		return d
	case ssh.ReasonForwardRefused:
		return failed(reachable, refused, "Bastion %s lets its user in and does not connect to %s: %s. Allow it: see AllowTcpForwarding and PermitOpen in the sshd_config of the bastion, and restrict, no-port-forwarding and permitopen before the key in the authorized_keys of the user.", at, host.Endpoint(instance), cause(why))
	case ssh.ReasonSessionRefused:
		return failed(reachable, refused, "Bastion %s lets its user in and has no room for another connection: %s. See its limits on processes and connections.", at, cause(why))
	}
	return failed(reachable, unreachable, "Bastion %s answers, and SSH does not come as far as the login: %s. See the log of its SSH server.", at, cause(why))
}

// bastionRetry says when a bastion that refuses the login is logged in to again. It names no time, which would be another one each time.
func bastionRetry(instance *v1alpha1.WindowsInstance, field string) string {
	return fmt.Sprintf("So that it locks nobody out, one host tries it for all behind it: after at most %d minutes, and at once when the Secret or %s changes. To try it now: kubectl windows check %s -n %s",
		int(host.MaxBastionPause.Minutes()), field, instance.Name, instance.Namespace)
}

// bastionKeyChanged says everything that an administrator needs to decide about the new key of a bastion.
func bastionKeyChanged(e *ssh.Error, instance *v1alpha1.WindowsInstance) Diagnosis {
	presented, pinned := "no host key of a pinned type", []string{}
	accept := fmt.Sprintf("Find out which keys it has, and correct hostKeys in %s.", fieldOfBastion(instance))
	if keys, ok := errors.AsType[*ssh.HostKeyError](e); ok {
		for _, key := range keys.Pinned {
			pinned = append(pinned, host.KeyOf(key).Describe())
		}
		if key := host.KeyOf(keys.Presented); !key.IsZero() {
			presented = "host key " + key.Describe()
			accept = "First verify the new fingerprint on the bastion (ssh-keygen -l -f /etc/ssh/" + hostKeyFile(key.Type()) + "). Only if it is the same, accept it: " + acceptBastion(instance, key)
		}
	}
	return failed(v1alpha1.ConditionReachable, v1alpha1.ReasonBastionHostKeyChanged,
		"Bastion %s presents %s; pinned is %s (hostKeys in %s). Either it was reinstalled or another machine answers in its place; nothing was sent to it. %s",
		e.Address, presented, strings.Join(pinned, ", "), fieldOfBastion(instance), accept)
}

// acceptBastion is the command that trusts key, and no other, from now on. The other fields of a bastion stay in a merge.
func acceptBastion(instance *v1alpha1.WindowsInstance, key host.Key) string {
	if ref := instance.Spec.PoolRef; instance.Spec.Bastion == nil && ref != nil {
		return fmt.Sprintf(`kubectl patch windowsnodepools.%s %s -n %s --type=merge -p '{"spec":{"template":{"bastion":{"hostKeys":["%s"]}}}}'`,
			v1alpha1.GroupName, ref.Name, instance.Namespace, key)
	}
	return fmt.Sprintf(`kubectl patch windowsinstances.%s %s -n %s --type=merge -p '{"spec":{"bastion":{"hostKeys":["%s"]}}}'`,
		v1alpha1.GroupName, instance.Name, instance.Namespace, key)
}

// diagnoseFrom is for a bastion that was let in and did not get a connection to the host.
func diagnoseFrom(e *ssh.Error, instance *v1alpha1.WindowsInstance) Diagnosis {
	const reachable = v1alpha1.ConditionReachable
	to := host.Endpoint(instance)
	switch e.Reason {
	case ssh.ReasonConnectionRefused:
		return failed(reachable, v1alpha1.ReasonConnectionRefused,
			"Nothing listens on %s, as bastion %s says: install and start the OpenSSH server (service sshd) of the host, and open TCP port %d in its firewall for the bastion.", to, e.From, instance.Spec.Port)
	case ssh.ReasonConnectionTimedOut:
		return failed(reachable, v1alpha1.ReasonConnectionTimedOut,
			"%s does not answer bastion %s: check that the host is running, and that no firewall or security group drops TCP port %d on the way from the bastion.", to, e.From, instance.Spec.Port)
	}
	return failed(reachable, v1alpha1.ReasonHostUnreachable,
		"Bastion %s cannot connect to %s: %s. Check spec.address, which is that of the host as the bastion sees it, that the host is running, and the network between the two.", e.From, to, cause(e.Err))
}
