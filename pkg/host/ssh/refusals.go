// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

const (
	// maxLogins bounds what is remembered, each of a few hundred bytes, and of two kilobytes at the most. There are as many as there are Secrets for
	// bastions.
	maxLogins = 1024
	// maxCause bounds what is remembered of why a login was refused. The bastion says that, and may be anybody's.
	maxCause = 1024
	// insistPause is how old a refusal has to be before somebody who insists tries again: who does so for each of many hosts tries once.
	insistPause = 10 * time.Second
)

// Refusals remembers which bastions refuse a login, once for all hosts behind them. If each host tried by itself, there would be as many
// failed logins as there are hosts, and whoever watches them would lock out the account, or the address that they come from, for
// everybody there. Pools share it, so that what one of them finds out counts for all of a process.
//
// What is remembered is about all that a login depends on: the address, the user, the credential and the pinned keys of a bastion. So
// a change of any of them is tried at once, and nobody keeps others, who have other credentials, from the same bastion. Other failures are
// not remembered: they are no failed logins.
//
// It is safe for concurrent use.
type Refusals struct {
	pause func(refusals int) time.Duration
	now   func() time.Time

	// mu is never held over I/O.
	mu     sync.Mutex
	logins map[[sha256.Size]byte]*login // by what the bastion's digest says
}

// NewRefusals returns an empty memory. pause is how long a login is not tried again after so many refusals in a row, now the clock.
func NewRefusals(pause func(refusals int) time.Duration, now func() time.Time) *Refusals {
	return &Refusals{pause: pause, now: now, logins: map[[sha256.Size]byte]*login{}}
}

// login is what is known about logging in to a bastion. All of it is guarded by Refusals.mu.
type login struct {
	id [sha256.Size]byte
	// refusals is how often in a row it was refused, whatever else went wrong in between.
	refusals int
	// refused is the last refusal, which was at refusedAt. Nil: there is none since it last worked.
	refused   *Error
	refusedAt time.Time
	// open: it works, so that nobody waits for another one who tries.
	open bool
	// alone is the attempt of the one who tries for all others. Nil: nobody does.
	alone *attempt
	// users are those who try or wait, and usedAt is when the latest of them came.
	users  int
	usedAt time.Time
}

// remembers says whether who comes now gets the last refusal in place of an attempt.
func (l *login) remembers(now time.Time, insists bool) bool {
	switch {
	case l.refused == nil:
		return false
	case insists:
		return now.Before(l.refusedAt.Add(insistPause))
	}
	return now.Before(l.refused.RetryAt)
}

// attempt is one login to a bastion.
type attempt struct {
	of *login
	// refusals are those of the login when it began: others may have been refused since.
	refusals int
	// over is closed at the end of an attempt that others wait for. Nil: nobody waits.
	over chan struct{}
	// failure is how it failed for all who waited, valid when it is over. Nil: it did not, or was given up.
	failure *Error
}

// begin begins a login to the bastion of a target, which must be ended. If the bastion has refused the login it fails with that at once, until it
// is time to try again; who insists tries now. As long as it is not known that the login works, one tries at a time, and all who come meanwhile
// wait for the result, whatever that is. Errors are those of the bastion, and the end of ctx.
func (r *Refusals) begin(ctx context.Context, t Target, insists bool) (*attempt, error) {
	id := t.Bastion.digest()
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.enterLocked(id)
	for {
		if l.remembers(r.now(), insists) {
			err := l.refused.behind(t)
			r.leaveLocked(l)
			return nil, err
		}
		other := l.alone
		if other == nil {
			a := &attempt{of: l, refusals: l.refusals}
			if !l.open {
				a.over, l.alone = make(chan struct{}), a
			}
			return a, nil
		}
		r.mu.Unlock()
		select {
		case <-other.over:
		case <-ctx.Done():
		}
		r.mu.Lock()
		var err error
		if ctx.Err() != nil {
			err = t.gaveUp(ctx, LayerBastion)
		} else if other.failure != nil {
			err = other.failure.behind(t)
		}
		if err != nil {
			r.leaveLocked(l)
			return nil, err
		}
	}
}

// stands says whether an attempt that has waited for something else still is to be made. If not it has ended.
func (r *Refusals) stands(a *attempt) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.over != nil || a.of.open {
		return true
	}
	r.leaveLocked(a.of)
	return false
}

// end ends an attempt with its error, and returns that, with the time of the next attempt if the login was refused.
func (r *Refusals) end(ctx context.Context, a *attempt, err error) error {
	failure, failed := AsError(err)
	if failed && failure.Reason == ReasonCredentialsRefused {
		failure = failure.short() // for who tried as well: conditions say the same of all hosts, whoever tried
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l, now := a.of, r.now()
	latest := l.refusals == a.refusals // of several that began at the same time the first refusal counts
	switch {
	case !failed:
		if latest {
			l.refusals, l.refused, l.open = 0, nil, true
		}
	case failure.Reason == ReasonCredentialsRefused:
		if latest {
			l.refusals++
			l.refusedAt, l.open = now, false
			l.refused = failure.until(now.Add(r.pause(l.refusals)))
			l.refused.Remark = "" // who is told has one of its own, and this one is as long as the Secret has it
		}
		if l.refused != nil {
			failure = failure.until(l.refused.RetryAt)
		}
		err, a.failure = failure, failure
	case ctx.Err() != nil: // who gave it up has found out nothing
	default:
		a.failure = failure
	}
	if a.over != nil {
		l.alone = nil
		close(a.over)
	}
	r.leaveLocked(l)
	return err
}

// enterLocked finds what is known about a login, for one who leaves it later.
func (r *Refusals) enterLocked(id [sha256.Size]byte) *login {
	l := r.logins[id]
	if l == nil {
		if len(r.logins) >= maxLogins {
			r.evictLocked()
		}
		l = &login{id: id}
		r.logins[id] = l
	}
	l.users++
	l.usedAt = r.now()
	return l
}

// leaveLocked forgets a login about which nothing is known.
func (r *Refusals) leaveLocked(l *login) {
	if l.users--; l.users == 0 && l.refusals == 0 && !l.open {
		delete(r.logins, l.id)
	}
}

// evictLocked forgets a login that nobody uses: of those that work, about which nothing is lost, else of all the one that was used least recently.
// The hosts behind a bastion use it all the time, so that it is not lost to somebody who names many bastions.
func (r *Refusals) evictLocked() {
	var last *login
	for _, l := range r.logins {
		if l.users > 0 {
			continue
		}
		if last == nil || l.open && !last.open || l.open == last.open && l.usedAt.Before(last.usedAt) {
			last = l
		}
	}
	if last != nil {
		delete(r.logins, last.id)
	}
}

// behind is a failure of the bastion of a target as another one has met it. What is said of a credential is that of the target: the other one
// may have read it elsewhere.
func (e *Error) behind(t Target) *Error {
	own := *e
	own.Address = t.Bastion.Endpoint()
	if own.Reason == ReasonCredentialsRefused {
		own.Remark = t.Bastion.Credential.remarkIfRefused()
	}
	return &own
}

// short is a refusal of which only a bounded text is left, besides what this package says of it.
func (e *Error) short() *Error {
	own := *e
	if inner := e.OnBastion(); inner != nil {
		there := inner.short()
		there.Remark = "" // the outer one has it
		own.Err = there
	} else if e.Err != nil {
		own.Err = errors.New(shortened(e.Err.Error(), maxCause))
	}
	return &own
}

// until is a refusal with the time of the next attempt.
func (e *Error) until(at time.Time) *Error {
	own := *e
	own.RetryAt = at
	return &own
}
