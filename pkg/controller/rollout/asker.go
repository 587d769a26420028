// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/workpool"
	"github.com/openshift/windows-instance-api/pkg/words"
)

const (
	// askTimeout bounds what one host may take to say what its update costs. It has three minutes for its plan (package agentclient), and is
	// logged in to before.
	askTimeout = 4 * time.Minute
	// askAgain is after how long a host is asked again that did not say it.
	askAgain = time.Minute
	// planPatience is for how long it may be so until nobody knows when it ends: not for a host that is away for a moment.
	planPatience = 3 * time.Minute

	laneAsk workpool.Lane = "ask"
)

// ImpactFunc asks the host of an instance what it would cost its workload to get its desired configuration,
// and says which revision that is of. It changes nothing.
type ImpactFunc func(ctx context.Context, instance *v1alpha1.WindowsInstance) (impact v1alpha1.ChangeImpact, revision string, err error)

// asker asks hosts, and keeps what they say.
type asker struct {
	*workpool.Pool
	impact ImpactFunc
	clock  clock.PassiveClock
	// notify is called when a host has answered.
	notify func(ctx context.Context)

	mu      sync.Mutex // guards what follows
	answers map[types.NamespacedName]answer
}

// answer is what a host said its update costs.
type answer struct {
	uid           types.UID
	current, next string // revisions
	impact        v1alpha1.ChangeImpact
	err           string
	at            time.Time
	// failing is since when it did not say it.
	failing time.Time
}

func newAsker(impact ImpactFunc, c clock.PassiveClock) *asker {
	return &asker{
		Pool:   workpool.New(map[workpool.Lane]workpool.Limits{laneAsk: {Workers: maxAsked}}),
		impact: impact, clock: c, notify: func(context.Context) {}, answers: map[types.NamespacedName]answer{},
	}
}

// ask has a host asked, unless it is already.
func (a *asker) ask(instance *v1alpha1.WindowsInstance) {
	key := client.ObjectKeyFromObject(instance)
	a.Submit(workpool.Work{
		Key: key, Lane: laneAsk,
		Run: func(ctx context.Context, _ func() bool) {
			bounded, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			impact, revision, err := a.impact(bounded, instance)
			if ctx.Err() != nil {
				return
			}
			got := answer{uid: instance.UID, current: instance.Status.CurrentRevision, next: revision, impact: impact, at: a.clock.Now()}
			if err != nil {
				got.next, got.err = instance.Status.DesiredRevision, message.Sentence(words.Steady(err.Error()))
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			if before := a.answers[key]; got.err != "" {
				got.failing = got.at
				if before.err != "" && before.uid == got.uid && before.current == got.current && before.next == got.next {
					got.failing = before.failing
				}
			}
			a.answers[key] = got
		},
		Ended: a.notify,
	})
}

// desiredChanges is why it is not known for a moment what an update costs.
const desiredChanges = "What is desired is changing."

// answer returns what the update of a host costs, or why that is not known now and when to ask again. Without either the host is
// to be asked, and again is from when on, zero if it was not asked about that yet.
func (a *asker) answer(i *v1alpha1.WindowsInstance, now time.Time) (impact v1alpha1.ChangeImpact, unknown string, again time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	got, ok := a.answers[client.ObjectKeyFromObject(i)]
	switch {
	case !ok || got.uid != i.UID || got.current != i.Status.CurrentRevision:
		return "", "", time.Time{}
	case got.next != i.Status.DesiredRevision:
		// What is desired is changing, and the status will say so.
		if again = got.at.Add(conflictDelay); again.After(now) {
			return "", desiredChanges, again
		}
		return "", "", time.Time{}
	case got.err == "":
		return got.impact, "", time.Time{}
	}
	if again = got.at.Add(askAgain); again.After(now) {
		return "", got.err, again
	}
	return "", "", again
}

// failing returns why a host did not say what its update costs when it was asked last, also while it is asked again, and since when that is
// so. Empty: it did, or was not asked.
func (a *asker) failing(i *v1alpha1.WindowsInstance) (why string, since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.answers[client.ObjectKeyFromObject(i)]
	if got.uid != i.UID || got.current != i.Status.CurrentRevision || got.next != i.Status.DesiredRevision {
		return "", time.Time{}
	}
	return got.err, got.failing
}

// forgetOthers forgets the answers of all hosts but those that are to be updated.
func (a *asker) forgetOthers(known sets.Set[types.NamespacedName]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.answers {
		if !known.Has(key) {
			delete(a.answers, key)
		}
	}
}
