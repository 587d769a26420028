// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/origin"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// rotation is whether a host has the key that its Secret has now.
type rotation struct {
	// accepted is the fingerprint of the key that the host took when the probe began. Empty: it took a password.
	accepted string
	// certified: it took a certificate of that key, and may not take the key by itself.
	certified bool
	// key is what it is to accept. The zero Key: a password.
	key host.Key
	// current are all keys that its Secret has.
	current []host.Key
	// former are the keys that it may have accepted before.
	former []host.Key
	// done: it accepts the key.
	done bool
	// left: the host is left to WMCO, with the keys that it has.
	left bool
	// removed: the former keys are gone from the files from which sshd takes keys by default.
	removed bool
	// wait says what it waits for, and err why it failed. paced: it waits for other hosts.
	wait  string
	paced bool
	err   error
}

// rotateKey gives the host the key that its Secret has now, if it has another one. That is a step of a probe and no operation: it
// disturbs nothing, and hosts that are only watched, or whose kubelet is dead, need it as well. Its failure does not end the
// probe.
func (a *attempt) rotateKey(ctx context.Context) error {
	known, peer := a.instance.Status.Credentials, a.seen.peer
	accepted := peer.Accepted
	if known != nil && *known == (v1alpha1.CredentialsStatus{KeyFingerprint: accepted}) && accepted == peer.Wanted && lost(a.instance, peer.Loses) {
		return nil // as it was; nothing needs to be read for that
	}
	r, err := a.Hosts.Rotation(ctx, a.instance, peer)
	if err != nil {
		return nil //nolint:nilerr // the login, which needs the same, has just worked; the next probe finds out
	}
	seen := &rotation{accepted: accepted, certified: peer.Certified, key: r.Key, current: r.Current, former: r.Former}
	switch {
	case r.Key.IsZero(): // there is a password, and nothing to rotate to
		seen.done = true
	case accepted == r.Key.Fingerprint() && len(r.Former) == 0 && !(takenBack(known, accepted) && held(a.instance)):
		seen.done = true
	case !held(a.instance) || a.instance.Status.System == nil:
		return nil // the agent may not be put there yet, or whose the host is was not found out yet
	case a.keysOfWMCO:
		seen.left, seen.done = true, accepted == r.Key.Fingerprint()
		seen.wait = "its keys are left to the Windows Machine Config Operator (WMCO), which manages it or may be about to. WMCO recreates the Machines of its hosts for another Secret cloud-private-key; on other hosts, add the key by hand"
	case !r.Kept && len(r.Former) > 0:
		seen.wait = "windows-controller has not kept a copy of the key so far, without which it could be lost; see the events of the Secret, whether Secret " + host.KeptSecret + " beside it has room, and whether its annotation " + v1alpha1.CompromisedKeysAnnotation + " names the key"
	default:
		a.rotate(ctx, r, seen)
	}
	if !diagnose.IsInconclusive(seen.err) {
		a.seen.rotation = seen
	}
	return nil
}

// lost says whether a host was dealt with that is to accept none of some keys, which its Secret still has. It may accept them besides the one that
// it was logged in to with, and the condition is what remembers that these were removed.
func lost(instance *v1alpha1.WindowsInstance, fingerprints []string) bool {
	c := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionCredentialsCurrent)
	return !slices.ContainsFunc(fingerprints, func(fingerprint string) bool {
		return c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, fingerprint)
	})
}

// takenBack says whether a host accepts another key than the one that it was last known to have, as after it was added by
// hand: the host has recorded that it was replaced, and would replace it once more.
func takenBack(known *v1alpha1.CredentialsStatus, accepted string) bool {
	return known != nil && known.KeyFingerprint != "" && known.KeyFingerprint != accepted
}

// rotate is rotateKey for a host that has another key, or may have.
func (a *attempt) rotate(ctx context.Context, r host.Rotation, seen *rotation) {
	end, wait, err := a.Rotations.Begin(ctx, a.instance, r.Key.Fingerprint())
	if err != nil || wait != "" {
		seen.err, seen.wait, seen.paced = err, wait, err == nil
		return
	}
	defer end()
	seen.removed, seen.err = a.Hosts.RotateKey(ctx, a.instance, r, seen.accepted)
	seen.done = seen.err == nil
}

// credentials records which key the host accepts, and how far it has come to the one of its Secret.
func (e *evaluation) credentials() {
	const condition = v1alpha1.ConditionCredentialsCurrent
	if e.observation == nil || e.observation.rotation == nil || e.duplicate != "" {
		return
	}
	r := e.observation.rotation
	before := e.instance.Status.Credentials
	if r.done {
		e.status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: r.key.Fingerprint()}
		if c := e.get(condition); before != nil && *before != *e.status.Credentials || c != nil || len(r.former) > 0 {
			e.set(condition, metav1.ConditionTrue, v1alpha1.ReasonKeyRotated, rotated(r, before, c))
		}
		return
	}
	e.status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: r.accepted, RotatingTo: r.key.Fingerprint()}
	if before != nil && r.accepted == r.key.Fingerprint() {
		e.status.Credentials.KeyFingerprint = before.KeyFingerprint // it has both
	}
	if c := e.get(condition); r.paced && before != nil && before.RotatingTo == r.key.Fingerprint() && c != nil && (c.Reason == v1alpha1.ReasonKeyRotationFailed || c.Reason == v1alpha1.ReasonKeyRotationInterrupted) {
		return // while it waits to be tried again, what the key met there is still so, and whether others get it is judged by that
	}
	if r.err == nil {
		e.setf(condition, metav1.ConditionFalse, v1alpha1.ReasonKeyRotationPending, "The host is to accept key %s. It waits: %s.", r.key.Fingerprint(), r.wait)
		return
	}
	if interrupted(r.err) {
		e.setf(condition, metav1.ConditionFalse, v1alpha1.ReasonKeyRotationInterrupted,
			"The host did not answer to the end while it was given key %s: %s. That says nothing about the key, so other hosts get it. This one is tried again, and logged in to as before. See what keeps it from answering: kubectl windows check %s -n %s",
			r.key.Fingerprint(), diagnosis(r.err, e.instance), e.instance.Name, e.instance.Namespace)
		return
	}
	e.set(condition, metav1.ConditionFalse, v1alpha1.ReasonKeyRotationFailed, describeRotationFailure(r, e.instance, e.pool))
}

// interrupted says whether an error of a rotation says nothing about the key: the host does not answer, or the connection broke. One
// that breaks off when it is offered the key may not like that.
func interrupted(err error) bool {
	var notProven *agentclient.NotProvenError
	if errors.As(err, &notProven) && diagnose.ReachOf(err).Verified {
		return diagnose.IsTimeout(err)
	}
	return diagnose.IsTransient(err)
}

// diagnosis is why a host could not be given its key, without the period.
func diagnosis(err error, instance *v1alpha1.WindowsInstance) string {
	return strings.TrimRight(diagnose.Diagnose(diagnose.StageFacts, err, instance).Message, ".")
}

// hadKey begins what is said of a key that nobody can remove any more but a person.
const hadKey = ". It had key "

// rotated says which credentials a host has, and which of those that it had before it may still accept. before and c are what the
// status and the condition have so far. c may be nil.
func rotated(r *rotation, before *v1alpha1.CredentialsStatus, c *metav1.Condition) string {
	if r.key.IsZero() {
		return "The host accepts the password of its Secret, which has no key."
	}
	text := fmt.Sprintf("The host accepts key %s, which its Secret has", r.key.Fingerprint())
	if r.certified && r.accepted == r.key.Fingerprint() {
		text = fmt.Sprintf("The host accepts a certificate of key %s, which its Secret has", r.key.Fingerprint())
	}
	if r.left {
		return text + ". Its other keys are left to the Windows Machine Config Operator, which manages it."
	}
	var former, compromised []string
	for _, key := range r.former {
		former = append(former, key.Fingerprint())
		if slices.Contains(r.current, key) {
			compromised = append(compromised, key.Fingerprint())
		}
	}
	switch {
	case r.removed && len(compromised) > 0: // which the Secret still has, so that this is to be remembered
		return text + ", and its files of authorized keys have none that the Secret had before, nor the compromised ones that it has: " + strings.Join(compromised, ", ") + "."
	case r.removed && r.certified && r.accepted == r.key.Fingerprint():
		return text + ", and none of the keys that the Secret had before is in its files of authorized keys."
	case r.removed:
		return text + ", and the keys that the Secret had before were removed from its files of authorized keys."
	case len(former) > 0:
		return text + ". Its sshd takes keys from elsewhere than by default, see AuthorizedKeysFile in its sshd_config, so the keys that the Secret had before were not removed. Remove them there: " +
			strings.Join(former, ", ") + "."
	case c != nil && c.Status == metav1.ConditionTrue && strings.HasPrefix(c.Message, text+hadKey):
		return c.Message // nothing else remembers that key
	case before != nil && before.KeyFingerprint != "" && !slices.ContainsFunc(r.current, func(k host.Key) bool { return k.Fingerprint() == before.KeyFingerprint }):
		return text + hadKey + before.KeyFingerprint + " before, which is not kept any more, so it was not removed: remove it from the files of authorized keys of the host."
	}
	return text + "."
}

// describeRotationFailure says why a host did not get its key, and what to do. pool is that of the instance, or nil.
func describeRotationFailure(r *rotation, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) string {
	var notProven *agentclient.NotProvenError
	var agent *agentclient.Error
	var what string
	switch {
	case r.certified && errors.As(r.err, &agent) && agent.Step == agentclient.StepRefused:
		return fmt.Sprintf("The host could not be given key %s: it accepts a certificate of the former key, and has no key in the files from which sshd takes keys by default. "+
			"Sign the new key, and write the certificate into the Secret under private-key.pem-cert.pub: %s. "+
			"Until then the host is logged in to with the former certificate, as long as that is valid.", r.key.Fingerprint(), host.SignCommand(instance.Spec.Username))
	case errors.As(r.err, &notProven):
		what = "it was added and the host does not accept it: see the log of sshd on the host (Get-WinEvent OpenSSH/Operational), PubkeyAcceptedAlgorithms in its sshd_config, and who may write to the file. The former key stays"
	case errors.As(r.err, &agent):
		what = strings.TrimRight(words.Steady(agent.Err.Error()), ".")
	default:
		what = diagnosis(r.err, instance)
	}
	text := fmt.Sprintf("The host could not be given key %s: %s. It is tried again, and logged in to as before.", r.key.Fingerprint(), what)
	return text + " To do it by hand, " + host.AddKeyByHand(instance, r.key) + replaceable(instance, pool)
}

// replaceable says for a host of a MachineSet how that makes another one. Nobody does that by itself for a key: the host runs pods, and can be
// logged in to. Empty for other hosts, and for those with another key than the cluster-wide one, which new Machines authorize.
func replaceable(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) string {
	machine := origin.Machine(instance)
	if machine == nil || pool == nil || instance.Spec.CredentialsSecretRef != nil || pool.Spec.Template.CredentialsSecretRef != nil {
		return ""
	}
	return fmt.Sprintf(". Or have its MachineSet make another one, after a drain, unless its template has the former key, as on vSphere: kubectl delete machines.machine.openshift.io %s -n %s", machine.Name, instance.Namespace)
}
