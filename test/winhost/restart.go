// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// RestartOptions say what it leads to when a program of a host, such as the agent, asks for
// a restart. The zero value is a host that goes down and boots at once.
type RestartOptions struct {
	// Ignored hosts agree and stay up, as a Windows whose shutdown a program holds up.
	Ignored bool
	// StaysOff hosts go down, and come back only by PowerOn.
	StaysOff bool
	// Takes is for how long a host is down before it boots.
	Takes time.Duration
}

// shutdownNotice is the time between a request for a restart and its beginning. It is less
// than what the agent asks of Windows, so that tests get on, and enough for its answer.
const shutdownNotice = 500 * time.Millisecond

// Restarts implements [Host].
func (b *base) Restarts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.restarts
}

// SetRestart implements [Host].
func (b *base) SetRestart(o RestartOptions) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.restart = o
}

func (b *base) restartOptions() RestartOptions {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.restart
}

// restartFromInside carries out what a program of the host has asked for. down ends the
// boot of that program, and reports false if it is over already; up boots the host, unless
// it must stay off.
func (b *base) restartFromInside(down func() bool, comesBack bool, up func(context.Context) error) {
	if !b.pause(shutdownNotice) {
		return
	}
	o := b.restartOptions()
	if o.Ignored || !b.withPower(func() bool { return b.countRestart(down()) }) {
		return
	}
	if !comesBack || o.StaysOff || !b.pause(o.Takes) {
		return
	}
	b.withPower(func() bool {
		if err := up(context.Background()); err != nil {
			// Whoever waits for the host is told otherwise only that nothing listens there.
			fmt.Fprintf(os.Stderr, "stand-in %s: booting after a restart: %v\n", b.name, err)
		}
		return true
	})
}

func (b *base) countRestart(happened bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if happened {
		b.restarts++
	}
	return happened
}

// withPower runs f while nobody else changes the power of the host, unless that is being
// closed.
func (b *base) withPower(f func() bool) bool {
	b.power.Lock()
	defer b.power.Unlock()
	return !b.isClosing() && f()
}

// pause reports false if the host was closed meanwhile.
func (b *base) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return !b.isClosing()
	case <-b.closing:
		return false
	}
}

func (b *base) isClosing() bool {
	select {
	case <-b.closing:
		return true
	default:
		return false
	}
}

// endTasks keeps restarts from going on.
func (b *base) endTasks() { b.close.Do(func() { close(b.closing) }) }

// removeFile removes a file that need not be there.
func removeFile(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
