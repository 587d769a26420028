// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/backoff"
)

const (
	// attentionInterval is how often a host is probed that answers and about which
	// somebody has to do something. Somebody who does wants to see it soon.
	attentionInterval = time.Minute
	// jitterShare is by how much of itself a period is lengthened or shortened, so that hosts
	// that were probed together do not stay together.
	jitterShare = 0.2
	// maxRecheckRate is how many hosts with which all is well are probed in a second at most. To probe one takes the controller 5 ms of a processor, and what
	// goes wrong is seen elsewhere first: by its Node, or by whoever asks for something.
	maxRecheckRate = 10
	// maxRecheck is how long such a host is not probed at the most, however many there are: instances of one namespace must not have the hosts of all
	// others probed hardly ever.
	maxRecheck = 30 * time.Minute
)

// failureBackoff is how long after a failure a host is tried again.
var failureBackoff = wait.Backoff{Duration: 5 * time.Second, Factor: 1.7, Cap: time.Minute}

// outcome is how the last probe of a host ended.
type outcome int

const (
	// The zero outcome is that of a host that was never probed, or is to be probed again.
	_ outcome = iota
	// outcomeRestored: another process probed the host, and its findings are still in the status.
	outcomeRestored
	// outcomeRecorded: the host key was read and is to be recorded before the host is logged in to.
	outcomeRecorded
	// outcomeHealthy: the host was logged in to and nothing speaks against it.
	outcomeHealthy
	// outcomeAttention: the host answers, and somebody has to do something about it.
	outcomeAttention
	// outcomeFailed: a step failed.
	outcomeFailed
)

// history is what is remembered of the earlier probes of a host.
type history struct {
	outcome outcome
	// at is when the last probe ended, for outcomeRestored when this process began to probe.
	at time.Time
	// failures is how many probes in a row failed.
	failures int
	// hung: the last probe failed because the host did not answer in time.
	hung bool
	// spread is for outcomeRestored the time over which such hosts are spread. 0: that of hosts with which all is well.
	spread time.Duration
	// jitter is a random number from 0 up to 1, drawn for each probe.
	jitter float64
}

// isWell says whether a host is probed as one with which all is well.
func (h history) isWell() bool {
	return h.outcome == outcomeHealthy || h.outcome == outcomeRestored && h.spread == 0
}

// recheckOf is how often each of so many hosts is probed with which all is well: as often as is wanted, and in large fleets not more often than
// [maxRecheckRate] allows, but never less often than [maxRecheck] says.
func recheckOf(wanted time.Duration, hosts int) time.Duration {
	return max(wanted, min(time.Duration(hosts)*time.Second/maxRecheckRate, maxRecheck))
}

// next says when to probe a host again. A time that has passed means now.
func next(h history, recheck time.Duration, now time.Time) time.Time {
	switch h.outcome {
	case outcomeRestored:
		return h.at.Add(time.Duration(h.jitter * float64(cmp.Or(h.spread, recheck))))
	case outcomeHealthy:
		return h.at.Add(jittered(recheck, h.jitter))
	case outcomeAttention:
		return h.at.Add(jittered(min(attentionInterval, recheck), h.jitter))
	case outcomeFailed:
		return h.at.Add(jittered(backoff.After(failureBackoff, h.failures), h.jitter))
	}
	return now
}

func jittered(d time.Duration, jitter float64) time.Duration {
	return time.Duration(float64(d) * (1 - jitterShare + 2*jitterShare*jitter))
}

// after is the history once another probe has ended.
func (h history) after(o outcome, hung bool, at time.Time, jitter float64) history {
	failures := 0
	if o == outcomeFailed {
		failures = h.failures + 1
	}
	return history{outcome: o, at: at, failures: failures, hung: hung && o == outcomeFailed, jitter: jitter}
}

// restore is the history of a host that this process has not probed yet. Hosts
// that a former process knew are spread over time, so that a restart is no
// stampede; a host that was never probed comes at once, and so does one that was
// about to be logged in to, or inspected, for the first time.
func restore(instance *v1alpha1.WindowsInstance, recheck time.Duration, now time.Time, jitter float64) history {
	resolved := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionResolved)
	if resolved == nil || resolved.Status == metav1.ConditionUnknown || instance.Status.ObservedGeneration != instance.Generation {
		return history{}
	}
	login := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionAuthenticated)
	if meta.IsStatusConditionTrue(instance.Status.Conditions, v1alpha1.ConditionHostKeyTrusted) && login != nil && login.Reason == v1alpha1.ReasonNotTried {
		return history{}
	}
	inspected := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionPreflightPassed)
	if login != nil && login.Status == metav1.ConditionTrue && inspected != nil && inspected.Reason == v1alpha1.ReasonNotTried {
		return history{}
	}
	h := history{outcome: outcomeRestored, at: now, spread: min(failureBackoff.Cap, recheck), jitter: jitter}
	if meta.IsStatusConditionTrue(instance.Status.Conditions, v1alpha1.ConditionPreflightPassed) {
		h.spread = 0
	}
	for _, c := range instance.Status.Conditions {
		h.hung = h.hung || c.Status != metav1.ConditionTrue && isTimeout(c.Reason)
	}
	return h
}
