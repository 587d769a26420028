// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/blockedby"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// describe says what is waited for, and what can be done, to those who may read what is in a namespace.
func (r reason) describe(in poolKey) string {
	pool := in.String()
	switch r.kind {
	case waitsForPlan:
		switch r.text {
		case "":
			return "The host is asked what its update costs."
		case desiredChanges:
			return "What the update costs is not known: " + r.text
		}
		return fmt.Sprintf("What the update costs is not known: %s Find out why: kubectl windows check NAME -n %s", r.text, in.namespace)
	case waitsForRequest:
		return fmt.Sprintf("%s is updated when somebody asks for it (spec.updateStrategy.type): kubectl windows reconfigure NAME -n %s", message.Capital(pool), in.namespace)
	case waitsForWindow:
		if r.at.IsZero() {
			return "The window of " + pool + " does not open: " + r.text
		}
		return fmt.Sprintf("The window of %s opens at %s.", pool, r.at.UTC().Format(time.RFC3339))
	case waitsForCanary:
		if r.most == 0 {
			return fmt.Sprintf("spec.updateStrategy.rollingUpdate.canary of %s is 0, so that no host is updated. To update them, raise or remove it, for example: kubectl patch wnp %s -n %s --type=merge -p '{\"spec\":{\"updateStrategy\":{\"rollingUpdate\":{\"canary\":null}}}}'",
				pool, in.name, in.namespace)
		}
		return fmt.Sprintf("%s of %s %s updated first. To update the others, raise or remove spec.updateStrategy.rollingUpdate.canary, for example: kubectl patch wnp %s -n %s --type=merge -p '{\"spec\":{\"updateStrategy\":{\"rollingUpdate\":{\"canary\":null}}}}'",
			words.Count(r.most, "host"), pool, words.Form(r.most, "was", "were"), in.name, in.namespace)
	case waitsForBroken:
		return r.describeBroken(in, pool)
	case waitsForFailed:
		return fmt.Sprintf("The update failed on more than %d hosts of %s: %s. Find out why: kubectl windows describe %s -n %s", r.most, pool, r.names(in), r.hosts[0].key.Name, in.namespace)
	case waitsForFailedUpdates:
		return fmt.Sprintf("Updates of Windows could not be installed on more than %d hosts of %s (spec.updateStrategy.rollingUpdate.maxFailures): %s. They are tried again there first. Find out why: kubectl windows describe %s -n %s",
			r.most, pool, r.names(in), r.hosts[0].key.Name, in.namespace)
	case waitsForDownload:
		return r.slot("updates of Windows are downloaded on, or wait for a slot on, "+r.names(in), "at most %d at a time", r.text)
	case waitsForPool:
		return r.slot(r.outOfService(in), "at most %d may be at a time", "spec.updateStrategy.rollingUpdate.maxUnavailable") + r.advice(in)
	case waitsForCluster:
		return r.slot(r.beingChanged(in), "at most %d of all pools may be at a time", "--max-disruptive-operations")
	case waitsForFirst:
		return fmt.Sprintf("Waits for a slot: one host of %s is updated first: %s. The others follow when it works.", pool, r.names(in))
	case waitsForHealth:
		return fmt.Sprintf("It is not repaired, because so many Nodes are not ready that the cause is probably not this host: %s; at most %d may be. Find out what they have in common: kubectl get nodes -l kubernetes.io/os=windows. Or raise spec.remediation.maxUnhealthy.", r.text, r.most)
	case waitsForExhausted:
		return fmt.Sprintf("Its Node is not ready, and spec.remediation of %s has tried everything. Find out why: kubectl windows describe NAME -n %s%s", pool, in.namespace, r.text)
	case waitsForForgotten:
		return fmt.Sprintf("Its Node is not ready. The history of its operations no longer says what spec.remediation of %s has tried, and nothing is tried twice. Find out why: kubectl windows describe NAME -n %s%s", pool, in.namespace, r.text)
	case waitsForUncordon:
		return fmt.Sprintf("Its Node is not ready, and is not repaired (spec.remediation of %s), because somebody has cordoned it and may be at work on the host. When that is done: kubectl windows uncordon NAME -n %s", pool, in.namespace)
	case waitsForTime:
		text := fmt.Sprintf("%s at %s.", r.text, r.at.UTC().Format(time.RFC3339))
		if r.failed != "" {
			text += fmt.Sprintf(" The last attempt failed: %s. Find out why: kubectl windows describe NAME -n %s", r.failed, in.namespace)
		}
		return text
	case waitsForResume:
		return fmt.Sprintf("The revision of %s was rolled back, because it broke hosts (status.rolledBack). Change spec.template or the payload, or try the same again: kubectl windows rollout resume %s -n %s", pool, in.name, in.namespace)
	case waitsForPrograms:
		return fmt.Sprintf("The revision of %s was undone, and the host keeps the one it worked with last: neither it nor windows-controller has the programs of the earlier one, or they no longer suit the API servers (see condition Degraded of the pool). Give windows-controller the payload that has them, or end it: kubectl windows rollout resume %s -n %s", pool, in.name, in.namespace)
	case waitsForConfirmation:
		return r.describeUnconfirmed(in, pool)
	case waitsForRepair:
		return "An update or a restart broke it, and its Node is not ready or cordoned since. Find out why: kubectl windows describe NAME -n " + in.namespace
	case waitsForUnpause:
		return "spec.paused of the instance is true. To have it updated and restarted as its pool says: kubectl patch wi NAME -n " + in.namespace + ` --type=merge -p '{"spec":{"paused":false}}'`
	case waitsForLogin:
		return "It cannot be logged in to, so that it is neither updated nor restarted. Find out why: kubectl windows check NAME -n " + in.namespace
	case waitsForFitness:
		return "It cannot be updated or restarted now, as its conditions say: kubectl windows describe NAME -n " + in.namespace
	case waitsForOperation:
		return fmt.Sprintf("Somebody has asked for a drain or a reboot, whose pods have been leaving for a long time, and it is updated or restarted when that has ended. Find out which: kubectl windows describe NAME -n %[1]s. To end it: kubectl windows cancel NAME -n %[1]s", in.namespace)
	case waitsForInputs:
		return "It stays as it is. " + r.text
	case waitsForDuplicate:
		return "It has no host, so that it is never updated: another instance has the host that it names, or another namespace, as its condition Resolved says. Remove one of the two, or correct its address. Find out which: kubectl windows describe NAME -n " + in.namespace
	case waitsForTakeover:
		return "Others manage the host, or it was released to them, so that it is only watched, and never updated or restarted. To whom it is left, and how to take it over: kubectl windows describe NAME -n " + in.namespace
	case waitsForPayload:
		return "It is only watched, and neither updated nor restarted, because windows-controller has no payload. Give it one (--payload)."
	case waitsForServiceRestarts:
		return r.slot(r.beingChanged(in), "services are restarted on at most %d hosts of all pools at a time", fmt.Sprintf("%d, or --max-disruptive-operations if that is more", maxServiceRestarts))
	case waitsForRenewals:
		return r.slot(r.beingChanged(in), "at most %d of a namespace are configured again at a time because annotations of their Nodes ask for it", "")
	}
	return ""
}

// slot says that a slot is waited for. bound has one %d, for how many have one at a time.
func (r reason) slot(inTheWay, bound, setBy string) string {
	return blockedby.Slot{Removal: r.removal, InTheWay: inTheWay, Bound: fmt.Sprintf(bound, r.most), SetBy: setBy}.String()
}

// describeUnconfirmed says why hosts are left as they are, and how somebody decides what they get.
func (r reason) describeUnconfirmed(in poolKey, pool string) string {
	if in.name == "" {
		return fmt.Sprintf("It was configured before its instance was made, and is left as it is, although something else is desired. To have it get that: kubectl windows reconfigure NAME -n %s", in.namespace)
	}
	text := fmt.Sprintf("It was configured before its instance or %s was made, and is left as it is, labels and taints of its Node too, although something else is desired. If the pool is not as it was, restore it. ", pool)
	if r.back { // to resume would roll out again what was rolled back
		return text + "To have it get what the pool says now: kubectl windows reconfigure NAME -n " + in.namespace
	}
	return text + fmt.Sprintf("To have all such hosts get what it says now: kubectl windows rollout resume %s -n %s. Only one: kubectl windows reconfigure NAME -n %[2]s", in.name, in.namespace)
}

// describeBroken says which hosts an update broke, and how it goes on.
func (r reason) describeBroken(in poolKey, pool string) string {
	first := r.hosts[0]
	text := first.brokenText()
	if len(r.hosts) > 1 {
		text = fmt.Sprintf("Updates broke %d hosts of %s: %s.", len(r.hosts), pool, r.names(in))
	}
	return fmt.Sprintf("%s No further host of %s is updated or restarted while more than %d are broken (spec.updateStrategy.rollingUpdate.maxFailures). "+
		"What is wrong: kubectl windows describe %s -n %s. Correct the configuration, which reaches broken hosts first, or to update a host anyway: kubectl windows reconfigure NAME -n %s",
		text, pool, r.most, first.key.Name, in.namespace, in.namespace)
}

// brokenText says which operation broke a host, and how.
func (h *host) brokenText() string {
	did := "changed"
	if h.broken.Type == v1alpha1.OperationReboot {
		did = "restarted"
	}
	return fmt.Sprintf("Operation %s %s host %s %s.", h.broken.ID, did, h.key.Name, outcomeOf(h.broken))
}

// names are the hosts that are waited for, of those that may be known in a namespace.
func (r reason) names(in poolKey) string {
	names, others := r.known(in)
	text := words.Enumerate(names, maxNamed)
	switch {
	case others == 0:
		return text
	case text == "":
		return fmt.Sprintf("%d in other namespaces", others)
	}
	return fmt.Sprintf("%s, and %d in other namespaces", text, others)
}

// known are the hosts of a namespace, and how many others there are, whose names are nobody's business there.
func (r reason) known(in poolKey) (names []string, others int) {
	for _, h := range r.hosts {
		if h.key.Namespace == in.namespace {
			names = append(names, h.key.Name)
		} else {
			others++
		}
	}
	slices.Sort(names)
	return names, others
}

func (r reason) beingChanged(in poolKey) string {
	names, others := r.known(in)
	done := "changed"
	if slices.ContainsFunc(r.hosts, func(h *host) bool { return h.removes }) {
		done = "changed or removed"
	}
	switch {
	case len(r.hosts) == 1 && others == 1:
		return fmt.Sprintf("another host is being %s, in another namespace", done)
	case len(r.hosts) == 1:
		return fmt.Sprintf("another host is being %s: %s%s", done, names[0], r.drain(in))
	case len(names) == 0:
		return fmt.Sprintf("%d hosts of other namespaces are being %s", others, done)
	}
	return fmt.Sprintf("%d other hosts are being %s: %s%s", len(r.hosts), done, r.names(in), r.drain(in))
}

func (r reason) outOfService(in poolKey) string {
	if len(r.hosts) == 1 {
		return fmt.Sprintf("%s of %s is out of service (%s%s)", r.hosts[0].key.Name, in, r.hosts[0].why(), r.drain(in))
	}
	return fmt.Sprintf("%d hosts of %s are out of service (%s%s)", len(r.hosts), in, r.names(in), r.drain(in))
}

// drain says of the hosts that are waited for, as far as they may be known in a namespace, what keeps pods on the first of them. Empty: nothing does.
func (r reason) drain(in poolKey) string {
	var first *host
	for _, h := range r.hosts {
		if h.drainWaits != "" && h.key.Namespace == in.namespace && (first == nil || h.key.Name < first.key.Name) {
			first = h
		}
	}
	switch {
	case first == nil:
		return ""
	case len(r.hosts) == 1:
		return ", and its drain waits for " + first.drainWaits
	}
	return fmt.Sprintf(", and the drain of %s waits for %s", first.key.Name, first.drainWaits)
}

// advice says what can be done about hosts that are out of service, which nobody does anything to. Empty: something is done to one of them.
func (r reason) advice(in poolKey) string {
	if !r.lasts() {
		return ""
	}
	text := ""
	if at := slices.IndexFunc(r.hosts, func(h *host) bool { return !h.onlyCordoned() }); at >= 0 {
		text = fmt.Sprintf(" Find out why: kubectl windows describe %s -n %s", r.hosts[at].key.Name, in.namespace)
	}
	if at := slices.IndexFunc(r.hosts, (*host).onlyCordoned); at >= 0 {
		if text != "" {
			text += "."
		}
		text += fmt.Sprintf(" To have it take pods again: kubectl windows uncordon %s -n %s", r.hosts[at].key.Name, in.namespace)
	}
	return text
}

// onlyCordoned says whether a host would be in service if its Node were not cordoned.
func (h *host) onlyCordoned() bool {
	return h.node && h.ready && h.cordoned && h.broken == nil && !h.lost
}

// why says why a host is out of service.
func (h *host) why() string {
	switch {
	case h.removes && (h.busy || h.holds == slotDisruption):
		return "it is being removed"
	case h.holds == slotDisruption && h.repairs:
		return "it is being restarted"
	case h.holds == slotDisruption:
		return "it is being changed"
	case h.busy:
		return "it is being drained or restarted"
	case h.broken != nil:
		return "an update or a restart broke it"
	case h.lost:
		return "its Node is gone"
	case h.ready && h.cordoned:
		return "its Node is cordoned"
	case h.leaving:
		return "its Node is not ready, and its instance was deleted and is still there"
	}
	return "its Node is not ready"
}
