// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh_test

import (
	"context"
	"fmt"
	"testing"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// targetIn is the host for an owner of a namespace.
func (s *server) targetIn(namespace string, n int) hostssh.Target {
	t := s.target()
	t.Namespace, t.Owner = namespace, fmt.Sprintf("%s/%d", namespace, n)
	return t
}

// TestNamespacesShareConnections: who has many hosts leaves a quarter of the connections to others.
func TestNamespacesShareConnections(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, hostssh.Options{MaxConns: 4})
	var greedy []*hostssh.Process
	for n := range 3 {
		greedy = append(greedy, start(t, t.Context(), p, s.targetIn("greedy", n)))
	}
	waiting := make(chan error, 1)
	go func() { waiting <- p.Ping(testContext(t), s.targetIn("greedy", 3)) }()
	eventually(t, "the greedy one waits", func() bool { return p.Stats().Waiting == 1 })
	if n := p.Stats().Dials; n != 3 {
		t.Errorf("the greedy namespace has %d connections, want 3 of 4", n)
	}
	other := start(t, t.Context(), p, s.targetIn("other", 0))
	for _, proc := range append(greedy, other) {
		alive(t, proc)
	}
	greedy[0].Close()
	if err := <-waiting; err != nil {
		t.Errorf("it was not let in when another connection of its namespace became idle: %v", err)
	}
	alive(t, other)
}

// TestLeastNamespaceIsNext: of those that wait, the one whose namespace has least connections is let in.
func TestLeastNamespaceIsNext(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, hostssh.Options{MaxConns: 3})
	greedy := []*hostssh.Process{start(t, t.Context(), p, s.targetIn("greedy", 0)), start(t, t.Context(), p, s.targetIn("greedy", 1))}
	third := start(t, t.Context(), p, s.targetIn("third", 0))
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- p.Ping(ctx, s.targetIn("greedy", 2)) }()
	eventually(t, "the greedy one waits", func() bool { return p.Stats().Waiting == 1 })
	second := make(chan *hostssh.Process, 1)
	go func() { second <- start(t, t.Context(), p, s.targetIn("other", 0)) }()
	eventually(t, "both wait", func() bool { return p.Stats().Waiting == 2 })

	third.Close()
	alive(t, <-second)
	if p.Stats().Waiting != 1 {
		t.Error("the greedy one was let in, too")
	}
	cancel()
	wantError(t, <-first, hostssh.LayerConnect, hostssh.ReasonLimitReached)
	for _, proc := range greedy {
		alive(t, proc)
	}
}

// TestIdleOfTheGreedyMakeRoom: the namespace that has most gives up what it does not use, also
// if that was used later.
func TestIdleOfTheGreedyMakeRoom(t *testing.T) {
	s, modest := newServer(t, script{}), newServer(t, script{})
	p := newPool(t, hostssh.Options{MaxConns: 4})
	ping := func(target hostssh.Target, idle int) {
		t.Helper()
		if err := p.Ping(testContext(t), target); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is idle", func() bool { return p.Stats().Idle == idle })
	}
	ping(modest.targetIn("modest", 0), 1)
	for n := range 3 {
		ping(s.targetIn("greedy", n), n+2)
	}
	ping(s.targetIn("other", 0), 4)
	ping(modest.targetIn("modest", 0), 4)
	if n := modest.count(&modest.accepted); n != 1 {
		t.Errorf("the modest namespace has had %d connections: that of the first time made room", n)
	}
}

// TestTracesCount: a check takes a connection like everybody, and gives it back.
func TestTracesCount(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, hostssh.Options{MaxConns: 4})
	var traces []*hostssh.Trace
	for n := range 3 {
		trace := p.Trace(testContext(t), s.targetIn("greedy", n), hostssh.TraceOptions{})
		if err := trace.Steps[len(trace.Steps)-1].Err; err != nil {
			t.Fatal(err)
		}
		traces = append(traces, trace)
	}
	ctx, cancel := context.WithCancel(t.Context())
	refused := make(chan error, 2)
	go func() {
		trace := p.Trace(ctx, s.targetIn("greedy", 3), hostssh.TraceOptions{})
		trace.Close()
		refused <- trace.Steps[len(trace.Steps)-1].Err
	}()
	go func() {
		_, err := p.HostKey(ctx, s.targetIn("greedy", 3))
		refused <- err
	}()
	waiting := make(chan error, 1)
	go func() { waiting <- p.Ping(testContext(t), s.targetIn("greedy", 4)) }()
	eventually(t, "it waits", func() bool { return p.Stats().Waiting == 1 })
	if _, err := p.HostKey(testContext(t), s.targetIn("other", 0)); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	cancel()
	for range cap(refused) {
		wantError(t, <-refused, hostssh.LayerConnect, hostssh.ReasonLimitReached)
	}
	for _, trace := range traces {
		trace.Close()
	}
	if err := <-waiting; err != nil {
		t.Errorf("it was not let in when checks had ended: %v", err)
	}
}
