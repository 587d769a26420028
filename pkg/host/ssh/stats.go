// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import "maps"

// Stats is a snapshot of the pool for metrics. The first group are gauges, the
// second are counters since New.
type Stats struct {
	// Connections are open and authenticated.
	Connections int
	// Idle connections have neither a session nor a forward.
	Idle int
	// Sessions are open, or being opened, or closed by us and not yet by the server.
	Sessions int
	// Forwards are open or being opened.
	Forwards int
	// Dialing is how many connections are being made.
	Dialing int
	// Waiting is how many callers wait for a session.
	Waiting int

	// Dials were started.
	Dials uint64
	// DialFailures counts dials that failed, by reason.
	DialFailures map[Reason]uint64
	// Opened counts sessions and forwards.
	Opened uint64
	// Lost counts connections that ended without our doing.
	Lost uint64
	// IdleClosed counts connections closed because they were idle, or made room for others.
	IdleClosed uint64
	// LimitsLearned counts the times a server turned out to allow fewer sessions than configured.
	LimitsLearned uint64
}

// Stats returns a snapshot.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.DialFailures = maps.Clone(s.DialFailures)
	for _, h := range p.hosts {
		s.Waiting += len(h.waiters)
		for _, c := range h.conns {
			s.Connections++
			s.Sessions += c.used[kindSession]
			s.Forwards += c.used[kindForward]
			if c.idle() {
				s.Idle++
			}
		}
	}
	return s
}
