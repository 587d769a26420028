// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"sync"
	"time"
)

// deadline is a moment that can be moved while somebody waits for it, as net.Conn
// demands. The zero value is never reached.
type deadline struct {
	mu      sync.Mutex
	reached chan struct{}
	passed  bool // reached is closed
	timer   *time.Timer
	setting int // tells the timer of an earlier setting that it is out of date
}

// set moves the deadline to t; the zero time means never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.setting++
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.reached == nil || d.passed {
		d.reached, d.passed = make(chan struct{}), false
	}
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.passLocked()
		return
	}
	setting := d.setting
	d.timer = time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.setting == setting {
			d.passLocked()
		}
	})
}

func (d *deadline) passLocked() {
	d.passed = true
	close(d.reached)
}

// wait returns a channel that is closed when the deadline is reached, however often
// it is moved before.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reached == nil {
		d.reached = make(chan struct{})
	}
	return d.reached
}
