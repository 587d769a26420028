// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/hostaccess"
	"github.com/openshift/windows-instance-api/pkg/sshpool"
)

// failure is an error in the words of the API: which condition it concerns, and
// what somebody can do about it.
type failure struct {
	condition string
	status    metav1.ConditionStatus
	reason    string
	message   string
}

// inconclusive says whether an error is about us and tells nothing about the host.
func inconclusive(err error) bool {
	if e, ok := sshpool.AsError(err); ok {
		switch e.Reason {
		case sshpool.ReasonLimitReached, sshpool.ReasonSessionLimitReached, sshpool.ReasonPoolClosed,
			sshpool.ReasonCanceled, sshpool.ReasonSessionClosed:
			return true
		}
		return false
	}
	return errors.Is(err, context.Canceled)
}

// classify puts the error of a step into the words of the API. The message is the
// same as long as the cause is the same, so that a host that keeps failing in the
// same way causes no writes.
func classify(at step, err error, instance *windowsv1alpha1.WindowsInstance) failure {
	sshErr, isSSH := sshpool.AsError(err)
	var agent *hostaccess.AgentError
	if errors.As(err, &agent) && !(isSSH && beforeSession(sshErr.Layer)) {
		return classifyAgent(agent, instance)
	}
	var credentials *hostaccess.CredentialsError
	if errors.As(err, &credentials) {
		return failed(windowsv1alpha1.ConditionAuthenticated, windowsv1alpha1.ReasonCredentialsMissing,
			"There are no usable credentials: %s.", cause(credentials))
	}
	if isSSH {
		return classifySSH(at, sshErr, instance)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return classifySilence(at, instance)
	}
	var unusable *unusableKeyError
	if errors.As(err, &unusable) {
		return unknown(windowsv1alpha1.ConditionHostKeyTrusted, windowsv1alpha1.ReasonNotTried, "The host was not contacted: %s.", cause(err))
	}
	// An error of no known kind is blamed on the step that met it.
	switch at {
	case stepResolve, stepAdmit:
		return failed(windowsv1alpha1.ConditionResolved, windowsv1alpha1.ReasonNameNotResolved, "%s cannot be resolved: %s.", instance.Spec.Address, cause(err))
	case stepHostKey:
		return failed(windowsv1alpha1.ConditionReachable, windowsv1alpha1.ReasonHandshakeFailed, "The host key of %s cannot be read: %s.", endpoint(instance), cause(err))
	case stepFacts:
		return unknown(windowsv1alpha1.ConditionPreflightPassed, windowsv1alpha1.ReasonAgentFailed, "The host cannot be looked at: %s.", cause(err))
	}
	return failed(windowsv1alpha1.ConditionAuthenticated, windowsv1alpha1.ReasonCredentialsMissing, "Logging in cannot be tried: %s.", cause(err))
}

func classifySSH(at step, e *sshpool.Error, instance *windowsv1alpha1.WindowsInstance) failure {
	const (
		resolved      = windowsv1alpha1.ConditionResolved
		reachable     = windowsv1alpha1.ConditionReachable
		authenticated = windowsv1alpha1.ConditionAuthenticated
	)
	to := endpoint(instance)
	if e.Reason == sshpool.ReasonTimedOut {
		return classifyTimeout(at, e, instance)
	}
	switch e.Reason {
	case sshpool.ReasonNameNotResolved:
		return failed(resolved, windowsv1alpha1.ReasonNameNotResolved,
			"DNS knows no address for %s: correct spec.address, or add the name to the DNS that the controller uses.", instance.Spec.Address)
	case sshpool.ReasonAddressRefused:
		return failed(resolved, windowsv1alpha1.ReasonAddressRefused,
			"Connections to %s are not allowed: %s. Use another address, or have the administrator of the cluster open its range with the flag --allowed-host-cidrs of the controller and the API server.", instance.Spec.Address, cause(e.Err))
	case sshpool.ReasonConnectionRefused:
		return failed(reachable, windowsv1alpha1.ReasonConnectionRefused,
			"Nothing listens on %s: install and start the OpenSSH server (service sshd), and open TCP port %d in the firewall.", to, instance.Spec.Port)
	case sshpool.ReasonConnectionTimedOut:
		return failed(reachable, windowsv1alpha1.ReasonConnectionTimedOut,
			"%s does not answer: check that the host is running, and that no firewall or security group drops TCP port %d on the way from the controller.", to, instance.Spec.Port)
	case sshpool.ReasonHostUnreachable:
		return failed(reachable, windowsv1alpha1.ReasonHostUnreachable,
			"There is no route to %s: check spec.address, that the host is running, and the network between the cluster and the host.", to)
	case sshpool.ReasonConnectionReset:
		if e.Layer == sshpool.LayerAuth {
			// The host has proven its key: it can be reached, and breaks off at the login.
			return connectionLost(to)
		}
		return failed(reachable, windowsv1alpha1.ReasonConnectionReset,
			"%s closes the connection before SSH has begun: see the log of sshd (Get-WinEvent OpenSSH/Operational); MaxStartups, a firewall or a service that is starting or failing does this.", to)
	case sshpool.ReasonHandshakeTimedOut:
		return handshakeTimedOut(to)
	case sshpool.ReasonNotSSH:
		return failed(reachable, windowsv1alpha1.ReasonNotSSH,
			"Something other than an SSH server answers on %s: correct spec.port, or stop what holds the port.", to)
	case sshpool.ReasonHandshakeFailed:
		return failed(reachable, windowsv1alpha1.ReasonHandshakeFailed,
			"%s and the controller cannot agree on how to talk SSH: %s. Update OpenSSH on the host, or take restrictions on algorithms out of its sshd_config.", to, cause(e.Err))
	case sshpool.ReasonHostKeyUnknown:
		// The key is recorded by the next probe.
		return unknown(windowsv1alpha1.ConditionHostKeyTrusted, windowsv1alpha1.ReasonNotTried, "The host key of %s has not been recorded yet.", to)
	case sshpool.ReasonHostKeyChanged:
		return classifyHostKey(e, instance)
	case sshpool.ReasonCredentialsRefused:
		return failed(authenticated, windowsv1alpha1.ReasonCredentialsRefused,
			"%s does not accept the credentials for user %s: for an administrator the public key belongs into C:\\ProgramData\\ssh\\administrators_authorized_keys, which only SYSTEM and Administrators may be able to write; check spec.username and the Secret as well.", to, instance.Spec.Username)
	case sshpool.ReasonSessionRefused:
		return failed(authenticated, windowsv1alpha1.ReasonSessionRefused,
			"%s accepts the credentials of user %s and then refuses a session: %s. Check MaxSessions, ForceCommand and the DefaultShell of OpenSSH.", to, instance.Spec.Username, cause(e.Err))
	case sshpool.ReasonConnectionLost:
		return connectionLost(to)
	}
	// The set of reasons may grow; the layer still says which condition is concerned.
	switch e.Layer {
	case sshpool.LayerDNS:
		return failed(resolved, windowsv1alpha1.ReasonNameNotResolved, "%s cannot be resolved: %s.", instance.Spec.Address, cause(e))
	case sshpool.LayerConnect:
		return failed(reachable, windowsv1alpha1.ReasonHostUnreachable, "%s cannot be connected to: %s.", to, cause(e))
	case sshpool.LayerHandshake:
		return failed(reachable, windowsv1alpha1.ReasonHandshakeFailed, "The SSH handshake with %s fails: %s.", to, cause(e))
	case sshpool.LayerHostKey:
		return classifyHostKey(e, instance)
	case sshpool.LayerAuth:
		return failed(authenticated, windowsv1alpha1.ReasonCredentialsRefused, "Logging in to %s fails: %s.", to, cause(e))
	}
	if at == stepFacts {
		return unknown(windowsv1alpha1.ConditionPreflightPassed, windowsv1alpha1.ReasonAgentFailed, "The host cannot be looked at: %s.", cause(e))
	}
	return failed(authenticated, windowsv1alpha1.ReasonSessionRefused, "No session can be opened on %s: %s.", to, cause(e))
}

// classifyTimeout is for a deadline that passed; the layer says waiting for what.
func classifyTimeout(at step, e *sshpool.Error, instance *windowsv1alpha1.WindowsInstance) failure {
	switch e.Layer {
	case sshpool.LayerDNS:
		return classifySilence(stepResolve, instance)
	case sshpool.LayerConnect:
		return classifySSH(at, &sshpool.Error{Layer: e.Layer, Reason: sshpool.ReasonConnectionTimedOut, Address: e.Address, Err: e.Err}, instance)
	case sshpool.LayerHandshake, sshpool.LayerHostKey:
		return handshakeTimedOut(endpoint(instance))
	}
	if at == stepFacts && e.Layer != sshpool.LayerAuth {
		return classifySilence(stepFacts, instance)
	}
	return classifySilence(stepLogin, instance)
}

// classifySilence is for a step that did not end in time.
func classifySilence(at step, instance *windowsv1alpha1.WindowsInstance) failure {
	to := endpoint(instance)
	switch at {
	case stepResolve, stepAdmit:
		return failed(windowsv1alpha1.ConditionResolved, windowsv1alpha1.ReasonNameNotResolved,
			"DNS does not answer for %s: check the DNS server that is responsible for the name.", instance.Spec.Address)
	case stepHostKey:
		return handshakeTimedOut(to)
	case stepFacts:
		return unknown(windowsv1alpha1.ConditionPreflightPassed, windowsv1alpha1.ReasonAgentFailed,
			"The program windows-node-agent did not answer in time on %s: the host may be overloaded; it is tried again.", to)
	}
	return failed(windowsv1alpha1.ConditionAuthenticated, windowsv1alpha1.ReasonAuthenticationTimedOut,
		"%s went silent while user %s was logging in: the host may be overloaded or starting, or cannot reach its domain controller.", to, instance.Spec.Username)
}

func handshakeTimedOut(to string) failure {
	return failed(windowsv1alpha1.ConditionReachable, windowsv1alpha1.ReasonHandshakeTimedOut,
		"%s accepts connections and then does not complete the SSH handshake: restart the service sshd; if that does not help, the host is overloaded or hangs.", to)
}

func connectionLost(to string) failure {
	return failed(windowsv1alpha1.ConditionAuthenticated, windowsv1alpha1.ReasonConnectionLost,
		"The connection to %s broke after the host key was verified: the host may be restarting; it is tried again.", to)
}

func classifyHostKey(e *sshpool.Error, instance *windowsv1alpha1.WindowsInstance) failure {
	var keys *sshpool.HostKeyError
	if !errors.As(e, &keys) {
		return failed(windowsv1alpha1.ConditionHostKeyTrusted, windowsv1alpha1.ReasonHostKeyChanged,
			"%s does not present the trusted host key: %s.", endpoint(instance), cause(e))
	}
	return hostKeyChanged(keys.Presented, keys.Pinned, instance)
}

// hostKeyChanged says everything that somebody needs in order to decide about the
// new key. presented may be nil, see [sshpool.HostKeyError].
func hostKeyChanged(presented ssh.PublicKey, pinned []ssh.PublicKey, instance *windowsv1alpha1.WindowsInstance) failure {
	trusted := make([]string, len(pinned))
	for i, key := range pinned {
		trusted[i] = describeKey(key)
	}
	origin := "recorded in status.hostKeys"
	if len(instance.Spec.HostKeys) > 0 {
		origin = "set in spec.hostKeys"
	}
	var b strings.Builder
	if presented == nil {
		fmt.Fprintf(&b, "%s presents no host key of a trusted type; trusted is %s (%s). ", endpoint(instance), strings.Join(trusted, ", "), origin)
		fmt.Fprintf(&b, "Either the host was set up anew or somebody else answers in its place; nothing was done on it. Find out which, read its keys on the console of the host (type C:\\ProgramData\\ssh\\ssh_host_*_key.pub), and set spec.hostKeys.")
		return failed(windowsv1alpha1.ConditionHostKeyTrusted, windowsv1alpha1.ReasonHostKeyChanged, "%s", b.String())
	}
	fmt.Fprintf(&b, "%s presents host key %s; trusted is %s (%s). ", endpoint(instance), describeKey(presented), strings.Join(trusted, ", "), origin)
	fmt.Fprintf(&b, "Either the host was set up anew or somebody else answers in its place; nothing was done on it. ")
	fmt.Fprintf(&b, "First verify the new fingerprint on the console of the host (ssh-keygen -l -f C:\\ProgramData\\ssh\\%s). Only if it is the same, accept it: %s", hostKeyFile(presented.Type()), acceptCommand(instance, presented))
	return failed(windowsv1alpha1.ConditionHostKeyTrusted, windowsv1alpha1.ReasonHostKeyChanged, "%s", b.String())
}

// acceptCommand is the command that trusts key, and no other, from now on. Object
// names and keys hold no character that a shell would touch within the quotes.
func acceptCommand(instance *windowsv1alpha1.WindowsInstance, key ssh.PublicKey) string {
	return fmt.Sprintf(`kubectl patch windowsinstances.%s %s -n %s --type=merge -p '{"spec":{"hostKeys":["%s"]}}'`,
		windowsv1alpha1.GroupName, instance.Name, instance.Namespace, keyLine(key))
}

// hostKeyFile is where OpenSSH on Windows keeps the public half of its key of a type.
func hostKeyFile(keyType string) string {
	switch {
	case keyType == ssh.KeyAlgoED25519:
		return "ssh_host_ed25519_key.pub"
	case strings.HasPrefix(keyType, "ecdsa-"):
		return "ssh_host_ecdsa_key.pub"
	}
	return "ssh_host_rsa_key.pub"
}

func classifyAgent(agent *hostaccess.AgentError, instance *windowsv1alpha1.WindowsInstance) failure {
	if agent.Step == hostaccess.StepRun {
		return unknown(windowsv1alpha1.ConditionPreflightPassed, windowsv1alpha1.ReasonAgentFailed,
			"The program windows-node-agent failed on the host: %s.", cause(agent.Err))
	}
	return unknown(windowsv1alpha1.ConditionPreflightPassed, windowsv1alpha1.ReasonAgentNotInstalled,
		"The program windows-node-agent could not be put on the host: %s. User %s needs to be able to write to C:\\Windows\\windows-node-agent, and security software must let the program be there and run.", cause(agent.Err), instance.Spec.Username)
}

// beforeSession says whether a layer comes before a session is open, so that an
// error there is about the connection, whatever it was wanted for.
func beforeSession(layer sshpool.Layer) bool {
	switch layer {
	case sshpool.LayerDNS, sshpool.LayerConnect, sshpool.LayerHandshake, sshpool.LayerHostKey, sshpool.LayerAuth:
		return true
	}
	return false
}

// isTimeout says whether a reason stands for a host that did not answer in time.
func isTimeout(reason string) bool {
	switch reason {
	case windowsv1alpha1.ReasonConnectionTimedOut, windowsv1alpha1.ReasonHandshakeTimedOut, windowsv1alpha1.ReasonAuthenticationTimedOut:
		return true
	}
	return false
}

// hung says whether the error of a step means that the host did not answer in
// time, so that looking at it again may take as long again.
func hung(at step, err error, instance *windowsv1alpha1.WindowsInstance) bool {
	if e, ok := sshpool.AsError(err); ok && e.Reason == sshpool.ReasonTimedOut && e.Layer != sshpool.LayerDNS {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || isTimeout(classify(at, err, instance).reason)
}

func failed(condition, reason, format string, args ...any) failure {
	return failure{condition, metav1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
}

func unknown(condition, reason, format string, args ...any) failure {
	return failure{condition, metav1.ConditionUnknown, reason, fmt.Sprintf(format, args...)}
}

// endpoint is where the host is contacted, for people.
func endpoint(instance *windowsv1alpha1.WindowsInstance) string {
	return net.JoinHostPort(instance.Spec.Address, strconv.Itoa(int(instance.Spec.Port)))
}

// localEnd matches our end of a connection in an error of package net: its port
// differs from one try to the next.
var localEnd = regexp.MustCompile(`\[?[0-9A-Za-z:.%]+\]?:\d+->`)

// maxCause bounds how much of a foreign error gets into a message.
const maxCause = 1024

// cause is the text of an error without what differs from try to try, on one line.
func cause(err error) string {
	if err == nil {
		return "no cause is known"
	}
	text := strings.Join(strings.Fields(localEnd.ReplaceAllString(err.Error(), "")), " ")
	return strings.TrimRight(truncate(text, maxCause), ".")
}

// truncate cuts s to at most limit bytes without cutting a character.
func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
}
