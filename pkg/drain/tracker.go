// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/forbidden"
)

// stage is how far a pod is on its way out.
type stage int

const (
	// stageWaiting: it is to be asked to leave at tracked.next.
	stageWaiting stage = iota
	// stageAsking: a request is under way.
	stageAsking
	// stageLeaving: the API server has agreed.
	stageLeaving
	// stageRefused: the API server will never agree.
	stageRefused
	// stageAbandoned: it is being deleted for too long and not waited for any more.
	stageAbandoned
	// stageGone: it has left.
	stageGone
)

// tracked is a pod that is to leave.
type tracked struct {
	namespace, name string
	uid             types.UID
	labels          map[string]string

	stage stage
	// since is since when it is to leave, and next when it is asked to again.
	since, next time.Time
	// deleted is when its grace period ends; nil: it is not being deleted.
	deleted *metav1.Time
	// blocked is why it was not let go last time; nil: it was not asked, or let go.
	blocked *v1alpha1.BlockedPod
	// hurried: it was asked last while the cluster could not reach the Node.
	hurried bool
	// refusals are the answers that it got. They are of whoever asks it.
	refusals forbidden.Refusals
}

func (t *tracked) String() string { return t.namespace + "/" + t.name }

// tracker knows how far the pods of a drain are. It does no I/O and is not safe for concurrent use.
type tracker struct {
	options Options
	pods    []*tracked
	// moved is when a pod was last let go, or refused for good. Zero: none was.
	moved   time.Time
	staying []string
	// observed is when the pods were last observed. The kubelet was dead then since deadSince, zero if it was not, and unreachable or not.
	observed, deadSince time.Time
	unreachable         bool
}

// add has pods leave. now is when they may first be asked to.
func (t *tracker) add(pods []corev1.Pod, now time.Time) {
	for i := range pods {
		pod := &pods[i]
		t.pods = append(t.pods, &tracked{
			namespace: pod.Namespace, name: pod.Name, uid: pod.UID, labels: pod.Labels, since: now, next: now, deleted: pod.DeletionTimestamp,
		})
	}
	slices.SortStableFunc(t.pods, func(a, b *tracked) int { return cmp.Compare(a.String(), b.String()) })
}

// observe takes in what is on the Node now. lookup returns nil for a pod that is not.
func (t *tracker) observe(now time.Time, lookup func(namespace, name string) *corev1.Pod) {
	t.observed, t.unreachable = now, t.options.unreachable()
	switch {
	case !t.options.dead():
		t.deadSince = time.Time{}
	case t.deadSince.IsZero():
		t.deadSince = now
	}
	for _, p := range t.pods {
		if p.stage == stageGone || p.stage == stageAbandoned {
			continue
		}
		pod := lookup(p.namespace, p.name)
		if pod == nil || pod.UID != p.uid {
			if p.stage != stageAsking { // its answer comes first
				p.stage, p.blocked = stageGone, nil
			}
			continue
		}
		p.deleted = pod.DeletionTimestamp
		if p.deleted == nil {
			continue
		}
		if p.stage == stageWaiting && t.grace() == nil {
			// Asking again would change nothing: it ends as fast as it may.
			p.stage, p.blocked, p.hurried = stageLeaving, nil, false
		}
		if p.stage == stageLeaving && t.unreachable && t.mayHurry(p) {
			p.stage, p.next = stageWaiting, now
		}
		if until := t.until(p); !until.IsZero() && now.After(until) && p.stage != stageAsking {
			p.stage, p.blocked = stageAbandoned, nil
		}
	}
}

// grace is what pods get to end that are asked to leave now, in seconds. Nil: what each of them asks for.
func (t *tracker) grace() *int64 {
	if t.unreachable {
		return new(graceUnreachable)
	}
	return t.options.GracePeriodSeconds
}

// mayHurry says whether a pod that is being deleted is asked once more when the cluster loses its kubelet, because it got longer to end than it
// would get then.
func (t *tracker) mayHurry(p *tracked) bool {
	return t.options.GracePeriodSeconds == nil && !p.hurried && p.deleted.After(t.observed.Add(time.Duration(graceUnreachable)*time.Second))
}

// until is until when a pod is waited for that is being deleted, as things are now. Zero: until the deadline.
func (t *tracker) until(p *tracked) time.Time {
	switch {
	case t.options.SkipWaitForDelete > 0:
		return p.deleted.Add(t.options.SkipWaitForDelete)
	case t.deadSince.IsZero():
		return time.Time{}
	case t.deadSince.After(p.deleted.Time): // a kubelet that is busy for a moment is no reason to give a pod up
		return t.deadSince.Add(skipWaitForDead)
	}
	return p.deleted.Add(skipWaitForDead)
}

// due returns pods to be asked to leave now, as many as there is room for besides
// those that are being asked, and notes that they are.
func (t *tracker) due(now time.Time, room int) []*tracked {
	for _, p := range t.pods {
		if p.stage == stageAsking {
			room--
		}
	}
	var out []*tracked
	for _, p := range t.pods {
		if len(out) >= room {
			break
		}
		if p.stage == stageWaiting && !p.next.After(now) {
			p.stage, p.hurried = stageAsking, t.unreachable
			out = append(out, p)
		}
	}
	return out
}

// answered takes in what the API server said.
func (t *tracker) answered(a answer, now time.Time) {
	// Only a pod that waits has a next time.
	if a.stage != stageWaiting {
		t.moved = now
	}
	stays := a.pod.since
	if t.moved.After(stays) {
		stays = t.moved
	}
	a.pod.stage, a.pod.blocked, a.pod.next = a.stage, a.blocked, now.Add(retryAfter(now.Sub(stays)))
}

// unanswered notes that nobody waits for the answers to the requests that are under way.
func (t *tracker) unanswered() {
	for _, p := range t.pods {
		if p.stage == stageAsking {
			p.stage = stageWaiting
		}
	}
}

// retryAfter is after what time a pod is asked again when for so long none has been let go.
func retryAfter(stayed time.Duration) time.Duration {
	if stayed < retryOften {
		return RetryInterval
	}
	return slowRetryInterval
}

// next is when something is to be done although nothing happens; the zero value: never.
func (t *tracker) next() time.Time {
	var earliest time.Time
	consider := func(at time.Time) {
		if !at.IsZero() && (earliest.IsZero() || at.Before(earliest)) {
			earliest = at
		}
	}
	consider(t.options.Deadline)
	for _, p := range t.pods {
		switch p.stage {
		case stageWaiting:
			consider(p.next)
		case stageLeaving:
			if p.deleted == nil {
				continue
			}
			until := t.until(p)
			if !until.IsZero() {
				// Kubernetes counts whole seconds, and waits for more than so many.
				consider(until.Add(time.Second))
			}
			if until.IsZero() && t.options.SkipWaitForDelete == 0 && t.options.Dead != nil || t.options.Unreachable != nil && t.mayHurry(p) {
				consider(t.observed.Add(askDead))
			}
		}
	}
	return earliest
}

// settled says whether nothing more will happen to any pod.
func (t *tracker) settled() bool {
	return !slices.ContainsFunc(t.pods, func(p *tracked) bool { return p.stage < stageRefused })
}

// refused returns what was refused permanently, nil if nothing was.
func (t *tracker) refused() error {
	var pods []string
	for _, p := range t.pods {
		if p.stage == stageRefused {
			pods = append(pods, p.String()+" ("+p.blocked.Message+")")
		}
	}
	if pods == nil {
		return nil
	}
	return &RefusedError{Pods: pods}
}

// timeout says which pods are still there.
func (t *tracker) timeout() error {
	var pods []string
	for _, p := range t.pods {
		var why string
		switch {
		case p.stage == stageGone || p.stage == stageAbandoned:
			continue
		case p.blocked != nil:
			pods = append(pods, p.blocked.String())
			continue
		case p.deleted != nil:
			why = "it is being deleted, and its kubelet has not said that it ended; its grace period ends at " + p.deleted.UTC().Format(time.RFC3339)
		default:
			why = "its eviction was not requested yet"
		}
		pods = append(pods, p.String()+" ("+why+")")
	}
	return &TimeoutError{Total: len(t.pods), Pods: pods}
}

// progress says how far it is.
func (t *tracker) progress() Progress {
	out := Progress{Total: len(t.pods), Staying: t.staying}
	for _, p := range t.pods {
		switch p.stage {
		case stageGone:
			out.Gone++
			continue
		case stageAbandoned:
			out.Abandoned++
			continue
		}
		if p.deleted != nil {
			out.Terminating++
		}
		if p.blocked != nil {
			out.Blocked = append(out.Blocked, *p.blocked)
		}
	}
	return out
}

// abandoned says whether a pod is not waited for any more.
func (t *tracker) abandoned(uid types.UID) bool {
	return slices.ContainsFunc(t.pods, func(p *tracked) bool { return p.uid == uid && p.stage == stageAbandoned })
}
