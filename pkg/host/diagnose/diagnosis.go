// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package diagnose says what is wrong with a host: an error on the way to it becomes a condition
// or the Status of a request, and a check tries that way layer by layer. Nobody else decides
// what an error of a connection means. It must not import the registry or a controller, which
// both build on it.
package diagnose

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// Stage is what was being tried when an error occurred.
type Stage string

// Stages, in the order in which a host becomes a node, and ceases to be one.
const (
	// StageResolve is finding the addresses of the host.
	StageResolve Stage = "Resolve"
	// StageHostKey is reading its host key.
	StageHostKey Stage = "HostKey"
	// StageLogin is logging in and opening a session.
	StageLogin Stage = "Login"
	// StageFacts is having the agent report on the host.
	StageFacts Stage = "Facts"
	// StagePlan is having the agent compare the host with its desired configuration.
	StagePlan Stage = "Plan"
	// StageTransfer is sending it the files that it needs.
	StageTransfer Stage = "Transfer"
	// StageApply is having the agent change the host.
	StageApply Stage = "Apply"
	// StageCleanup is taking everything off the host that was put on it.
	StageCleanup Stage = "Cleanup"
)

// Diagnosis is an error in the words of the API: which condition it concerns, and
// what can be done about it.
type Diagnosis struct {
	// Condition is the type of the condition, Status and Reason what it becomes.
	Condition string
	Status    metav1.ConditionStatus
	Reason    string
	// Message says what is wrong and what to do.
	Message string
}

// Diagnose puts an error of package host into the words of the API. The message is the
// same as long as the cause is the same, so that a host that keeps failing in the
// same way causes no writes.
func Diagnose(at Stage, err error, instance *v1alpha1.WindowsInstance) Diagnosis {
	sshErr, isSSH := ssh.AsError(err)
	var agent *agentclient.Error
	if errors.As(err, &agent) && !(isSSH && beforeSession(sshErr.Layer)) {
		return diagnoseAgent(at, agent, instance)
	}
	if another, ok := errors.AsType[*agentclient.AnotherHostError](err); ok {
		return anotherMachine(another, instance)
	}
	if credentials, ok := errors.AsType[*host.CredentialsError](err); ok {
		return credentialsMissing(credentials)
	}
	if d, ok := diagnoseDelivery(err, instance); ok {
		return d
	}
	if isSSH {
		return diagnoseSSH(at, sshErr, instance)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return diagnoseSilence(at, instance)
	}
	// An error of no known kind is blamed on the stage that met it.
	switch at {
	case StageResolve:
		return failed(v1alpha1.ConditionResolved, v1alpha1.ReasonNameNotResolved, "%s cannot be resolved: %s.", instance.Spec.Address, cause(err))
	case StageHostKey:
		return failed(v1alpha1.ConditionReachable, v1alpha1.ReasonHandshakeFailed, "The host key of %s cannot be read: %s.", host.Endpoint(instance), cause(err))
	case StageLogin:
		return failed(v1alpha1.ConditionAuthenticated, v1alpha1.ReasonCredentialsMissing, "Logging in cannot be tried: %s.", cause(err))
	}
	return afterLogin(at, "%s: %s.", stageFailures[at], cause(err))
}

func diagnoseSSH(at Stage, e *ssh.Error, instance *v1alpha1.WindowsInstance) Diagnosis {
	const (
		resolved      = v1alpha1.ConditionResolved
		reachable     = v1alpha1.ConditionReachable
		authenticated = v1alpha1.ConditionAuthenticated
	)
	to := host.Endpoint(instance)
	switch {
	case e.Layer == ssh.LayerBastion:
		return diagnoseBastion(e, instance)
	case e.Reason == ssh.ReasonTimedOut:
		return diagnoseTimeout(at, e, instance)
	case e.From != "":
		return diagnoseFrom(e, instance)
	}
	switch e.Reason {
	case ssh.ReasonNameNotResolved:
		return failed(resolved, v1alpha1.ReasonNameNotResolved,
			"DNS knows no address for %s: correct spec.address, or add the name to the DNS that the cluster uses.", instance.Spec.Address)
	case ssh.ReasonAddressRefused:
		return failed(resolved, v1alpha1.ReasonAddressRefused,
			"Connections to %s are not allowed: %s. Use another address, or have the administrator of the cluster change the flags --allowed-host-cidrs and --refused-host-cidrs of the controller and the API server.", instance.Spec.Address, cause(e.Err))
	case ssh.ReasonConnectionRefused:
		return failed(reachable, v1alpha1.ReasonConnectionRefused,
			"Nothing listens on %s: install and start the OpenSSH server (service sshd), and open TCP port %d in the firewall.", to, instance.Spec.Port)
	case ssh.ReasonConnectionTimedOut:
		return failed(reachable, v1alpha1.ReasonConnectionTimedOut,
			"%s does not answer: check that the host is running, and that no firewall or security group drops TCP port %d on the way from the cluster.", to, instance.Spec.Port)
	case ssh.ReasonHostUnreachable:
		return failed(reachable, v1alpha1.ReasonHostUnreachable,
			"There is no route to %s: check spec.address, that the host is running, and the network between the cluster and the host.", to)
	case ssh.ReasonConnectionReset:
		if e.Layer == ssh.LayerAuth {
			// The host has proven its key: it can be reached, and breaks off at the login.
			return connectionLost(to)
		}
		if greeting, ok := errors.AsType[*ssh.GreetingError](e.Err); ok && greeting.Said == ssh.Penalized {
			return failed(reachable, v1alpha1.ReasonConnectionReset,
				"%s lets nobody in from our address for a while, because logins from there have failed (PerSourcePenalties of sshd): correct the credentials of the hosts that refuse them, or have its sshd exempt the addresses of the nodes on which our programs run (PerSourcePenaltyExemptList in sshd_config).", to)
		}
		return failed(reachable, v1alpha1.ReasonConnectionReset,
			"%s closes the connection before SSH has begun: see the log of sshd (Get-WinEvent OpenSSH/Operational); MaxStartups, a firewall or a service that is starting or failing does this.", to)
	case ssh.ReasonHandshakeTimedOut:
		return handshakeTimedOut(to)
	case ssh.ReasonNotSSH:
		return failed(reachable, v1alpha1.ReasonNotSSH,
			"Something other than an SSH server answers on %s: correct spec.port, or stop what holds the port.", to)
	case ssh.ReasonHandshakeFailed:
		return failed(reachable, v1alpha1.ReasonHandshakeFailed,
			"%s and our SSH client have no SSH algorithms in common: %s. Update OpenSSH on the host, or remove restrictions on algorithms from its sshd_config.", to, cause(e.Err))
	case ssh.ReasonHostKeyUnknown:
		// The key is recorded by the next probe.
		return unknown(v1alpha1.ConditionHostKeyTrusted, v1alpha1.ReasonNotTried, "The host key of %s has not been recorded yet.", to)
	case ssh.ReasonHostKeyChanged:
		return diagnoseHostKey(e, instance)
	case ssh.ReasonCredentialsRefused:
		return remarked(failed(authenticated, v1alpha1.ReasonCredentialsRefused,
			"%s does not accept the credentials for user %s: for an administrator the public key belongs in C:\\ProgramData\\ssh\\administrators_authorized_keys, which only SYSTEM and Administrators may be able to write; check spec.username and the Secret as well.", to, instance.Spec.Username), e)
	case ssh.ReasonSessionRefused:
		return failed(authenticated, v1alpha1.ReasonSessionRefused,
			"%s accepts the credentials of user %s and then refuses a session: %s. Check MaxSessions, ForceCommand and the DefaultShell of OpenSSH.", to, instance.Spec.Username, cause(e.Err))
	case ssh.ReasonConnectionLost:
		return connectionLost(to)
	}
	// The set of reasons may grow; the layer still says which condition is concerned.
	switch e.Layer {
	case ssh.LayerDNS:
		return failed(resolved, v1alpha1.ReasonNameNotResolved, "%s cannot be resolved: %s.", instance.Spec.Address, cause(e))
	case ssh.LayerConnect:
		return failed(reachable, v1alpha1.ReasonHostUnreachable, "%s cannot be connected to: %s.", to, cause(e))
	case ssh.LayerHandshake:
		return failed(reachable, v1alpha1.ReasonHandshakeFailed, "The SSH handshake with %s fails: %s.", to, cause(e))
	case ssh.LayerHostKey:
		return diagnoseHostKey(e, instance)
	case ssh.LayerAuth:
		return failed(authenticated, v1alpha1.ReasonCredentialsRefused, "Logging in to %s fails: %s.", to, cause(e))
	}
	if isAfterLogin(at) {
		return afterLogin(at, "%s: %s.", stageFailures[at], cause(e))
	}
	return failed(authenticated, v1alpha1.ReasonSessionRefused, "No session can be opened on %s: %s.", to, cause(e))
}

// diagnoseTimeout is for a deadline that passed; the layer says waiting for what.
func diagnoseTimeout(at Stage, e *ssh.Error, instance *v1alpha1.WindowsInstance) Diagnosis {
	switch e.Layer {
	case ssh.LayerDNS:
		return diagnoseSilence(StageResolve, instance)
	case ssh.LayerConnect:
		return diagnoseSSH(at, &ssh.Error{Layer: e.Layer, Reason: ssh.ReasonConnectionTimedOut, Address: e.Address, From: e.From, Err: e.Err}, instance)
	case ssh.LayerHandshake, ssh.LayerHostKey:
		return handshakeTimedOut(host.Endpoint(instance))
	}
	if isAfterLogin(at) && e.Layer != ssh.LayerAuth {
		return diagnoseSilence(at, instance)
	}
	return diagnoseSilence(StageLogin, instance)
}

// diagnoseSilence is for a stage that did not end in time.
func diagnoseSilence(at Stage, instance *v1alpha1.WindowsInstance) Diagnosis {
	to := host.Endpoint(instance)
	switch at {
	case StageResolve:
		return failed(v1alpha1.ConditionResolved, v1alpha1.ReasonNameNotResolved,
			"DNS does not answer for %s: check the DNS server that is responsible for the name.", instance.Spec.Address)
	case StageHostKey:
		return handshakeTimedOut(to)
	}
	if isAfterLogin(at) {
		return afterLogin(at, "The program windows-node-agent did not answer in time on %s: the host may be overloaded; it is tried again.", to)
	}
	return failed(v1alpha1.ConditionAuthenticated, v1alpha1.ReasonAuthenticationTimedOut,
		"%s did not answer while user %s was logging in: the host may be overloaded or starting, or cannot reach its domain controller.", to, instance.Spec.Username)
}

func handshakeTimedOut(to string) Diagnosis {
	return failed(v1alpha1.ConditionReachable, v1alpha1.ReasonHandshakeTimedOut,
		"%s accepts connections and then does not complete the SSH handshake: restart the service sshd; if that does not help, the host is overloaded or hangs.", to)
}

func connectionLost(to string) Diagnosis {
	return failed(v1alpha1.ConditionAuthenticated, v1alpha1.ReasonConnectionLost,
		"The connection to %s broke after the host key was verified: the host may be restarting; it is tried again.", to)
}

func diagnoseHostKey(e *ssh.Error, instance *v1alpha1.WindowsInstance) Diagnosis {
	var keys *ssh.HostKeyError
	if !errors.As(e, &keys) {
		return failed(v1alpha1.ConditionHostKeyTrusted, v1alpha1.ReasonHostKeyChanged,
			"%s does not present the trusted host key: %s.", host.Endpoint(instance), cause(e))
	}
	pinned := make([]host.Key, len(keys.Pinned))
	for i, key := range keys.Pinned {
		pinned[i] = host.KeyOf(key)
	}
	return HostKeyChanged(host.KeyOf(keys.Presented), pinned, instance)
}

// HostKeyChanged says everything that an administrator needs to decide about the
// new key. presented may be none, see [ssh.HostKeyError].
func HostKeyChanged(presented host.Key, pinned []host.Key, instance *v1alpha1.WindowsInstance) Diagnosis {
	trusted := make([]string, len(pinned))
	for i, key := range pinned {
		trusted[i] = key.Describe()
	}
	origin := "recorded in status.hostKeys"
	if len(instance.Spec.HostKeys) > 0 {
		origin = "set in spec.hostKeys"
	}
	var b strings.Builder
	if presented.IsZero() {
		fmt.Fprintf(&b, "%s presents no host key of a trusted type; trusted is %s (%s). ", host.Endpoint(instance), strings.Join(trusted, ", "), origin)
		fmt.Fprintf(&b, "Either the host was reinstalled or another machine answers in its place; nothing was done on it. Find out which, read its keys on the console of the host (type C:\\ProgramData\\ssh\\ssh_host_*_key.pub), and set spec.hostKeys.")
		return failed(v1alpha1.ConditionHostKeyTrusted, v1alpha1.ReasonHostKeyChanged, "%s", b.String())
	}
	return failed(v1alpha1.ConditionHostKeyTrusted, v1alpha1.ReasonHostKeyChanged, "%s presents host key %s; trusted is %s (%s). %s%s",
		host.Endpoint(instance), presented.Describe(), strings.Join(trusted, ", "), origin, verifyFirst(presented), acceptCommand(instance, presented))
}

// HostKeyUnlikeWMCO is for a host whose key nobody trusts yet, and that the Windows Machine Config Operator has met with others. known says,
// for people, with which, and where it has them.
func HostKeyUnlikeWMCO(presented host.Key, known string, instance *v1alpha1.WindowsInstance) Diagnosis {
	return failed(v1alpha1.ConditionHostKeyTrusted, v1alpha1.ReasonHostKeyChanged,
		"%s presents host key %s at the first contact; the Windows Machine Config Operator (WMCO) has met the host at this address with %s. Either the host has the address of a former one, whose record was left: then remove that; or it "+
			"was reinstalled, or another machine answers in its place; nothing was done on it. %skubectl windows trust-host-key %s -n %s, or without the plugin: %s",
		host.Endpoint(instance), presented.Describe(), known, verifyFingerprint(presented), instance.Name, instance.Namespace, acceptCommand(instance, presented))
}

// verifyFirst is what to do before a key is accepted, up to the command for that.
func verifyFirst(presented host.Key) string {
	return "Either the host was reinstalled or another machine answers in its place; nothing was done on it. " + verifyFingerprint(presented)
}

// verifyFingerprint is how to find out whether a key is that of the host, up to the command that accepts it.
func verifyFingerprint(presented host.Key) string {
	return fmt.Sprintf("First verify the new fingerprint on the console of the host (ssh-keygen -l -f C:\\ProgramData\\ssh\\%s). Only if it is the same, accept it: ", hostKeyFile(presented.Type()))
}

// HostKeyUnconfirmed says what to do about an object of which it is not known any more which key
// its host has.
func HostKeyUnconfirmed(presented host.Key, instance *v1alpha1.WindowsInstance) Diagnosis {
	return failed(v1alpha1.ConditionHostKeyTrusted, v1alpha1.ReasonHostKeyUnconfirmed,
		"The object was restored without its status, so that it is not known any more which key its host has; nothing was done on the host. %s presents host key %s. "+
			"First verify the fingerprint on the console of the host (ssh-keygen -l -f C:\\ProgramData\\ssh\\%s). Only if it is the same, confirm it, and the host goes on as it is: %s",
		host.Endpoint(instance), presented.Describe(), hostKeyFile(presented.Type()), acceptCommand(instance, presented))
}

// anotherMachine is for a machine that has proven to have the key of the host, and is not the host.
func anotherMachine(e *agentclient.AnotherHostError, instance *v1alpha1.WindowsInstance) Diagnosis {
	return failed(v1alpha1.ConditionHostKeyTrusted, v1alpha1.ReasonAnotherHost,
		"%s is another host: it presents a trusted key and is machine %s, while this instance stands for machine %s%s. Nothing was done on it. %s "+
			"Only if the host was moved to other hardware, accept that (needs the verb %s on %s.%s): kubectl annotate windowsinstances.%s %s -n %s --overwrite %s=%s",
		host.Endpoint(instance), e.Found, e.Want, lastSeen(instance), backOrRemove,
		v1alpha1.VerbTrust, v1alpha1.ResourceHostKeys, v1alpha1.GroupName, v1alpha1.GroupName, instance.Name, instance.Namespace, v1alpha1.MachineAnnotation, e.Found)
}

// AnotherHost is the diagnosis changed, that of a host key, for an instance whose address was
// changed since its host was last logged in to.
func AnotherHost(changed Diagnosis, instance *v1alpha1.WindowsInstance) Diagnosis {
	changed.Reason = v1alpha1.ReasonAnotherHost
	changed.Message = fmt.Sprintf("%s seems to be another host than the one of this instance%s. %s Only if it is the same host, which was reinstalled: %s",
		host.Endpoint(instance), lastSeen(instance), backOrRemove, changed.Message)
	return changed
}

// backOrRemove is what to do about an address that leads to another host.
const backOrRemove = "If the address is wrong, put the former one back. If this host is to take the place of the other one, delete the instance while its address is the former one, and create another instance."

// lastSeen says where the host of an instance was last, and what it called itself.
func lastSeen(instance *v1alpha1.WindowsInstance) string {
	if len(instance.Status.FoundAt()) == 0 {
		return ""
	}
	where := " (last at " + strings.Join(instance.Status.FoundAt(), ", ")
	if system := instance.Status.System; system != nil && system.Hostname != "" {
		where += ", computer name " + system.Hostname
	}
	return where + ")"
}

// acceptCommand is the command that trusts key, and no other, from now on. Object
// names and keys hold no character that a shell would touch within the quotes.
func acceptCommand(instance *v1alpha1.WindowsInstance, key host.Key) string {
	return fmt.Sprintf(`kubectl patch windowsinstances.%s %s -n %s --type=merge -p '{"spec":{"hostKeys":["%s"]}}'`,
		v1alpha1.GroupName, instance.Name, instance.Namespace, key)
}

// hostKeyFile is where OpenSSH on Windows keeps the public half of its key of a type.
func hostKeyFile(keyType string) string {
	switch {
	case keyType == "ssh-ed25519":
		return "ssh_host_ed25519_key.pub"
	case strings.HasPrefix(keyType, "ecdsa-"):
		return "ssh_host_ecdsa_key.pub"
	}
	return "ssh_host_rsa_key.pub"
}

// stageFailures say what cannot be done, for the stages after the login.
var stageFailures = map[Stage]string{
	StageFacts:    "The host cannot be inspected",
	StagePlan:     "The host cannot be compared with its desired configuration",
	StageTransfer: "The files that the host needs cannot be sent",
	StageApply:    "The host cannot be configured",
	StageCleanup:  "The host cannot be cleaned",
}

func isAfterLogin(at Stage) bool { return stageFailures[at] != "" }

// afterLogin is a failure of a stage after the login.
func afterLogin(at Stage, format string, args ...any) Diagnosis {
	switch at {
	case StagePlan, StageTransfer, StageApply:
		return failed(v1alpha1.ConditionConfigured, v1alpha1.ReasonConfigurationFailed, format, args...)
	case StageCleanup:
		return failed(v1alpha1.ConditionRemoved, v1alpha1.ReasonRemovalFailed, format, args...)
	}
	return unknown(v1alpha1.ConditionPreflightPassed, v1alpha1.ReasonAgentFailed, format, args...)
}

// diagnoseDelivery is for what only sending files can meet.
func diagnoseDelivery(err error, instance *v1alpha1.WindowsInstance) (Diagnosis, bool) {
	notConfigured := func(format string, args ...any) (Diagnosis, bool) {
		return failed(v1alpha1.ConditionConfigured, v1alpha1.ReasonConfigurationFailed, format, args...), true
	}
	var missing *agentclient.PayloadError
	switch {
	case errors.As(err, &missing):
		return notConfigured("The host cannot be sent what it needs: %s. Hosts are configured with what the flag --payload of the controller names: that was changed, or is damaged; restart the controller with a payload that is whole.", cause(missing))
	case errors.Is(err, transfer.ErrDiskFull):
		return notConfigured("There is no room on the host for the programs of a node: %s. Free space on its drive C, or make it larger.", cause(err))
	case errors.Is(err, transfer.ErrDigest):
		return notConfigured("The host did not receive what was sent: %s. Its disk or its memory cannot be trusted, or a program on it changes files: check both, and what its security software does.", cause(err))
	case errors.Is(err, transfer.ErrInUse):
		return notConfigured("A file on the host cannot be replaced, because a program has it open: %s. Find out which one, for example security software, and have it leave C:\\Windows\\windows-node-agent alone.", cause(err))
	case errors.Is(err, transfer.ErrSourceChanged):
		return notConfigured("The payload changed while it was sent: %s. A payload must not change while it is in use: restart the controller with one that is whole.", cause(err))
	case errors.Is(err, transfer.ErrWrite):
		return notConfigured("The host does not let files be written: %s. User %s needs to be able to write to C:\\Windows\\windows-node-agent, and the disk must have room.", cause(err), instance.Spec.Username)
	}
	return Diagnosis{}, false
}

func diagnoseAgent(at Stage, agent *agentclient.Error, instance *v1alpha1.WindowsInstance) Diagnosis {
	switch agent.Step {
	case agentclient.StepRun, agentclient.StepRefused:
		return afterLogin(at, "The program windows-node-agent failed on the host: %s.", cause(agent.Err))
	case agentclient.StepRemove:
		return failed(v1alpha1.ConditionRemoved, v1alpha1.ReasonRemovalFailed,
			"The host was cleaned, but for the program windows-node-agent: %s. It is tried again; end what uses the file, or remove it by hand.", cause(agent.Err))
	}
	return unknown(v1alpha1.ConditionPreflightPassed, v1alpha1.ReasonAgentNotInstalled,
		"The program windows-node-agent could not be put on the host: %s. User %s needs to be able to write to C:\\Windows\\windows-node-agent, and security software must let the program be there and run.", cause(agent.Err), instance.Spec.Username)
}

// beforeSession says whether a layer comes before a session is open, so that an
// error there is about the connection, whatever it was wanted for.
func beforeSession(layer ssh.Layer) bool {
	switch layer {
	case ssh.LayerDNS, ssh.LayerBastion, ssh.LayerConnect, ssh.LayerHandshake, ssh.LayerHostKey, ssh.LayerAuth:
		return true
	}
	return false
}

func failed(condition, reason, format string, args ...any) Diagnosis {
	return Diagnosis{condition, metav1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
}

func unknown(condition, reason, format string, args ...any) Diagnosis {
	return Diagnosis{condition, metav1.ConditionUnknown, reason, fmt.Sprintf(format, args...)}
}

// maxCause bounds how much of a foreign error gets into a message.
const maxCause = 1024

// cause is the text of an error without what differs from try to try, on one line.
func cause(err error) string {
	if err == nil {
		return "no cause is known"
	}
	text := strings.Join(strings.Fields(words.Steady(err.Error())), " ")
	return strings.TrimRight(answer.Line(text, maxCause), ".")
}

// remarked is a diagnosis of refused credentials with what is known to be wrong with them.
func remarked(d Diagnosis, e *ssh.Error) Diagnosis {
	if e.Remark != "" {
		d.Message += " " + e.Remark
	}
	return d
}
