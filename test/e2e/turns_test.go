// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"slices"
	"sync"
	"testing"
)

// testsAtOnce is how many tests run at the same time. They wait for hosts and for controllers
// much of the time, so the number of CPUs, which is the default of go test, would leave those idle. Each system of its own takes a GiB of
// memory, and a tenth of a CPU even if nothing happens in it.
const testsAtOnce = 7

// longest are the tests that take several minutes, the longest first. They get their turns before others: one that began among the last
// would run alone at the end.
var longest = []string{
	"TestConfigure", "TestDocuments", "TestWine", "TestOpenShiftPlatforms", "TestOpenShift", "TestFleet", "TestConfigureMany", "TestRollout", "TestChaos", "TestAdopt",
}

// parallel has a test run at the same time as others, when it is its turn. It keeps that until it and all of its subtests have ended: what go
// test itself does gives the turn of a test away while its subtests wait for theirs, and so starts further systems meanwhile.
func parallel(t *testing.T) {
	t.Helper()
	t.Parallel()
	queue.take(t)
}

// instancesMapTests is held by the test that has the ConfigMap of hosts: there is one in the cluster that most tests share.
var instancesMapTests sync.Mutex

// parallelWithInstancesMap is parallel for a test that makes the ConfigMap of hosts.
func parallelWithInstancesMap(t *testing.T) {
	t.Helper()
	t.Parallel()
	instancesMapTests.Lock() // before the turn, which others can use meanwhile
	t.Cleanup(instancesMapTests.Unlock)
	queue.take(t)
}

var queue = turns{free: testsAtOnce}

// turns are given to tests.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []waiting
}

// waiting is a test that waits for its turn, which begins when turn is closed.
type waiting struct {
	rank int
	turn chan struct{}
}

// take returns when it is the turn of a test. It ends with the test.
func (q *turns) take(t *testing.T) {
	t.Helper()
	w := waiting{rank: slices.Index(longest, t.Name()), turn: make(chan struct{})}
	if w.rank < 0 {
		w.rank = len(longest)
	}
	q.mu.Lock()
	q.waiting = append(q.waiting, w)
	q.next()
	q.mu.Unlock()
	<-w.turn
	t.Cleanup(q.end)
}

// end gives a turn back.
func (q *turns) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free++
	q.next()
}

// next gives free turns away: to the longest tests, and otherwise to those that have waited longest. The lock is held.
func (q *turns) next() {
	for q.free > 0 && len(q.waiting) > 0 {
		first := slices.MinFunc(q.waiting, func(a, b waiting) int { return a.rank - b.rank })
		q.waiting = slices.DeleteFunc(q.waiting, func(w waiting) bool { return w.turn == first.turn })
		q.free--
		close(first.turn)
	}
}
