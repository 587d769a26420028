// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// turns limit how many hosts are disrupted by their configuration at the same time. Who
// asks first gets the first turn that is free.
//
// They are those of one process. What another process had begun is in the records of the
// operations: the caller says which hosts are disrupted according to these, so that a new
// leader does not start with as many as the limit allows on top of them.
type turns struct {
	limit int

	mu      sync.Mutex
	holders map[types.NamespacedName]bool
	queue   []types.NamespacedName
}

func newTurns(limit int) *turns {
	return &turns{limit: limit, holders: map[types.NamespacedName]bool{}}
}

// take takes a turn, or a place in the queue if there is none. Then it returns who has
// the turns, and how many have to get one before.
func (t *turns) take(key types.NamespacedName, disrupted []types.NamespacedName) (holders []types.NamespacedName, before int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holders[key] {
		return nil, 0, true
	}
	busy := maps.Clone(t.holders)
	for _, other := range disrupted {
		if other != key {
			busy[other] = true
		}
	}
	if !slices.Contains(t.queue, key) {
		t.queue = append(t.queue, key)
	}
	before = slices.Index(t.queue, key)
	if before < t.limit-len(busy) {
		t.queue = slices.Delete(t.queue, before, before+1)
		t.holders[key] = true
		return nil, 0, true
	}
	return slices.SortedFunc(maps.Keys(busy), compareKeys), before, false
}

// hold takes a turn that is had already, whatever the limit is.
func (t *turns) hold(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holders[key] = true
}

// release gives back the turn, or the place in the queue, if there is one.
func (t *turns) release(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.holders, key)
	if i := slices.Index(t.queue, key); i >= 0 {
		t.queue = slices.Delete(t.queue, i, i+1)
	}
}

// load says how many turns are taken and how many are waited for.
func (t *turns) load() (held, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.holders), len(t.queue)
}

func compareKeys(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

// disrupts says whether a configuration has, according to its record, taken the Node out
// of service and not put it back.
func disrupts(op *windowsv1alpha1.Operation) bool {
	if !op.Active() || op.Type != windowsv1alpha1.OperationReconfigure {
		return false
	}
	cordon, drain, uncordon := findStep(op, stepCordon), findStep(op, stepDrain), findStep(op, stepUncordon)
	return cordon != nil && drain != nil && uncordon != nil &&
		ended(cordon) && drain.State != windowsv1alpha1.StepSkipped && !ended(uncordon)
}

// takeTurn waits until the Node may be taken out of service. The turn is given back by
// uncordon, or at the end of the execution.
func (e *execution) takeTurn(ctx context.Context) error {
	return e.waitForTurn(ctx, e.turns, e.disrupted)
}

// takeRestart waits until services of the host may be restarted. The turn is given back at
// the end of the execution, when it is known whether the host works with the change.
func (e *execution) takeRestart(ctx context.Context) error {
	op := e.operation()
	if op.RequestedBy != windowsv1alpha1.ControllerRequester || op.Impact != windowsv1alpha1.ImpactRestart || op.Node == nil {
		return nil
	}
	return e.waitForTurn(ctx, e.restarts, nil)
}

// waitForTurn waits until the host has a turn. others says which hosts have one according
// to the records of operations; nil is none.
func (e *execution) waitForTurn(ctx context.Context, t *turns, others func(context.Context) ([]types.NamespacedName, error)) error {
	for {
		why, err := e.tryTurn(ctx, t, others)
		if err != nil || why == "" {
			return err
		}
		e.yield()
		if err := e.say(ctx, "%s", why); err != nil {
			return err
		}
		if err := sleep(ctx, e.clock, pollInterval); err != nil {
			return err
		}
	}
}

// tryTurn takes a turn if there is one, and says otherwise what is waited for.
func (e *execution) tryTurn(ctx context.Context, t *turns, others func(context.Context) ([]types.NamespacedName, error)) (why string, err error) {
	if why, err = e.braked(ctx, e.cached); err != nil || why != "" {
		t.release(e.key) // others of the queue need not wait for the same
		return why, err
	}
	var taken []types.NamespacedName
	if others != nil {
		if taken, err = others(ctx); err != nil {
			return "", err
		}
	}
	holders, before, ok := t.take(e.key, taken)
	if !ok {
		return waitsForTurn(holders, before, e.key.Namespace), nil
	}
	// The host that had the turn before may just have failed, which the cache need not
	// know yet.
	if why, err = e.braked(ctx, e.live); err != nil || why != "" {
		t.release(e.key)
	}
	return why, err
}

// disrupted are the hosts whose Node is out of service because of a configuration.
func (e *execution) disrupted(ctx context.Context) ([]types.NamespacedName, error) {
	list := &windowsv1alpha1.WindowsInstanceList{}
	if err := retryAPI(ctx, e.clock, "Reading the instances", func() error {
		return e.cached.List(ctx, list, client.UnsafeDisableDeepCopy)
	}); err != nil {
		return nil, fmt.Errorf("finding out which hosts are disrupted: %w", err)
	}
	var keys []types.NamespacedName
	for i := range list.Items {
		if other := &list.Items[i]; disrupts(other.Status.Operation) {
			keys = append(keys, client.ObjectKeyFromObject(other))
		}
	}
	return keys, nil
}

// maxNamed is how many of many are named in a message.
const maxNamed = 5

// waitsForTurn says what a host waits for whose Node cannot be taken out of service now.
func waitsForTurn(holders []types.NamespacedName, before int, namespace string) string {
	names := make([]string, len(holders))
	for i, h := range holders {
		if names[i] = h.String(); h.Namespace == namespace {
			names[i] = h.Name
		}
	}
	message := fmt.Sprintf("Waits for its turn: %d other hosts are being changed: %s.", len(names), enumerate(names))
	if len(names) == 1 {
		message = fmt.Sprintf("Waits for its turn: another host is being changed: %s.", names[0])
	}
	if len(names) == 0 {
		message = "Waits for its turn."
	}
	if before > 0 {
		message += fmt.Sprintf(" In the queue before it: %d.", before)
	}
	return message
}

// enumerate joins texts, and counts those that would make it too long.
func enumerate(texts []string) string {
	if len(texts) <= maxNamed {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:maxNamed], ", "), len(texts)-maxNamed)
}
