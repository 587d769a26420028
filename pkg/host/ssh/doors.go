// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"sync"
)

// maxAtDoor is how many logins to one bastion are under way at a time. OpenSSH begins to drop connections when ten are not
// authenticated yet (MaxStartups), and there are two programs, of which one has two pools.
const maxAtDoor = 3

// doors bound the logins to each bastion: with the hosts of a whole pool behind it, they would come all at once. The zero
// value is ready for use.
type doors struct {
	mu sync.Mutex
	// open are the doors that somebody is at.
	open map[string]*door
}

type door struct {
	slots chan struct{}
	users int // who waits or is in, guarded by doors.mu
}

// enter waits until there is room at a door. leave must be called after. The error is that of ctx.
func (d *doors) enter(ctx context.Context, name string) (leave func(), _ error) {
	d.mu.Lock()
	at := d.open[name]
	if at == nil {
		if d.open == nil {
			d.open = map[string]*door{}
		}
		at = &door{slots: make(chan struct{}, maxAtDoor)}
		d.open[name] = at
	}
	at.users++
	d.mu.Unlock()
	gone := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if at.users--; at.users == 0 {
			delete(d.open, name)
		}
	}
	select {
	case at.slots <- struct{}{}:
		return func() { <-at.slots; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
}
