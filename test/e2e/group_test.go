// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"sync"
	"testing"
)

// groupAtOnce is how many tests of a group run at the same time.
const groupAtOnce = 6

// group runs tests that share a system of a test's own at the same time, within the turn of that test. If they called
// Parallel they would wait for turns of their own behind all tests of the package, each with a system that does nothing.
type group struct {
	t       *testing.T
	tests   sync.WaitGroup
	running chan struct{}
}

func newGroup(t *testing.T) *group {
	t.Helper()
	return &group{t: t, running: make(chan struct{}, groupAtOnce)}
}

// run starts a test, which must not call Parallel.
func (g *group) run(name string, test func(t *testing.T)) {
	g.tests.Go(func() {
		g.running <- struct{}{}
		defer func() { <-g.running }()
		g.t.Run(name, test)
	})
}

// wait returns when all tests have ended.
func (g *group) wait() { g.tests.Wait() }
