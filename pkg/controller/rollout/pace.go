// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"sync"
	"time"
)

const (
	// restsPerPass is for how many times as long as a pass took there is none. Each pass looks at all hosts, and each host that
	// changes asks for one: without a rest, a controller of thousands of hosts would do nothing else while they change.
	restsPerPass = 10
	// maxRest is the longest rest.
	maxRest = 5 * time.Second
)

// pace spaces the passes of a scheduler. It may be used by several goroutines.
type pace struct {
	mu   sync.Mutex
	next time.Time // guarded by mu; when there may be a pass again
}

// took notes the begin and the end of a pass.
func (p *pace) took(began, ended time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = ended.Add(restAfter(ended.Sub(began)))
}

// restAfter is for how long there is none after a pass that took so long.
func restAfter(took time.Duration) time.Duration { return min(restsPerPass*max(0, took), maxRest) }

// rest is how long it is until there may be a pass, zero if it may be now.
func (p *pace) rest(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(max(0, p.next.Sub(now)), maxRest)
}
