// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// conn is an authenticated connection.
type conn struct {
	pool    *Pool
	host    *host
	address string
	wire    *wire
	ssh     ssh.Conn
	peer    Peer

	// stop makes run close the connection; done is closed when it has begun to, and
	// ended when the SSH library has seen the end.
	stop, done, ended chan struct{}
	// wg counts the goroutines of the connection and its channels. run waits for
	// them. It grows only while dead is false.
	wg sync.WaitGroup

	// The rest is guarded by Pool.mu.

	// cause is why the connection is over, for those who still used it; nil while it is not.
	cause *Error
	dead  bool
	// retired connections get no new channels and are closed when the last is gone.
	retired bool
	// used counts channels per kind, from being reserved until the server confirmed the
	// close: as long as the server counts them. lingering are those of them that we closed.
	used, lingering [numKinds]int
	// opening are the reserved sessions whose fate is not known yet, refused those that the server did not
	// open, which are sent whether another connection, or a later time, may do. While there are
	// any of the latter no further session is tried.
	opening int
	refused []chan bool
	// opened counts sessions that the server opened so far.
	opened   int
	limit    int
	lastUsed time.Time
}

// adoptLocked makes a new connection part of the pool, or takes it down in order if it is not wanted.
func (p *Pool) adoptLocked(h *host, e *established, wanted bool) {
	c := &conn{
		pool:     p,
		host:     h,
		address:  h.target.Endpoint(),
		wire:     e.wire,
		ssh:      e.ssh,
		peer:     e.peer,
		stop:     make(chan struct{}),
		done:     make(chan struct{}),
		ended:    make(chan struct{}),
		limit:    h.sessionLimit,
		lastUsed: time.Now(),
	}
	h.conns = append(h.conns, c)
	if !wanted || p.closed {
		c.closeLocked(c.lost(errIdle))
	}
	c.wg.Go(func() { ssh.DiscardRequests(e.requests) })
	c.wg.Go(func() { rejectChannels(e.channels) })
	c.wg.Go(c.watch)
	p.wg.Go(c.run)
}

// rejectChannels refuses what a server has no business to open on a client.
func rejectChannels(channels <-chan ssh.NewChannel) {
	for ch := range channels {
		// An error means that the connection is over, which run will see.
		_ = ch.Reject(ssh.Prohibited, "no channels from the server")
	}
}

// run owns the connection: it ends it, once, and waits for everything that used it.
func (c *conn) run() {
	var lost error // set before ended is closed
	c.wg.Go(func() {
		lost = c.ssh.Wait()
		close(c.ended)
	})
	p := c.pool
	select {
	case <-c.stop:
	case <-c.ended:
		p.mu.Lock()
		c.breakLocked(lost)
		p.mu.Unlock()
	}
	p.mu.Lock()
	c.dead = true
	p.scheduleLocked(c.host)
	p.mu.Unlock()

	_ = c.wire.Close() // nothing is left to be sent
	close(c.done)
	c.wg.Wait()

	p.mu.Lock()
	defer p.mu.Unlock()
	p.closedLocked(c.namespace())
	p.giveRoomBackLocked(c.namespace())
	c.host.retired = remove(c.host.retired, c)
	p.afterCloseLocked(c.host)
}

func remove(conns []*conn, c *conn) []*conn {
	return slices.DeleteFunc(conns, func(o *conn) bool { return o == c })
}

// lost is the error for those who used the connection when it ended, if that is not what they wanted.
func (c *conn) lost(why error) *Error {
	return &Error{Layer: LayerSession, Reason: ReasonConnectionLost, Address: c.address, Err: why}
}

// breakLocked ends a connection that failed. What the network said about it is better than what was noticed of it.
func (c *conn) breakLocked(noticed error) {
	if c.cause != nil {
		return
	}
	c.pool.stats.Lost++
	c.closeLocked(c.lost(cmp.Or(c.wire.err(), noticed)))
}

// closeLocked ends the connection for a reason that its users get as their error. The first reason counts.
func (c *conn) closeLocked(cause *Error) {
	if c.cause != nil {
		return
	}
	c.cause = cause
	c.pool.closingLocked(c.namespace())
	c.retireLocked()
	close(c.stop)
}

// maxOpened is how many sessions a connection has at most in its time. OpenSSH for Windows keeps a handle of the process of each until the
// connection ends (Win32-OpenSSH issue 2138), and one on which a host is asked every minute is never idle for long.
const maxOpened = 1000

// retireLocked takes the connection out of use.
func (c *conn) retireLocked() {
	if c.retired {
		return
	}
	c.retired = true
	c.host.conns = remove(c.host.conns, c)
	c.host.retired = append(c.host.retired, c)
}

// loss is the error for whoever used the connection when it ended.
func (c *conn) loss() *Error {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if c.cause != nil {
		return c.cause
	}
	return c.lost(c.wire.err())
}

// over reports whether the connection is known to have ended.
func (c *conn) over() bool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.cause != nil || c.wire.err() != nil
}

// spawn starts a goroutine that the connection waits for before it is gone. It reports false, and
// does nothing, if the connection is already over. f must end when the connection does.
func (c *conn) spawn(f func()) bool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if c.dead {
		return false
	}
	c.wg.Go(f)
	return true
}

// idle reports whether nobody uses the connection. Guarded by Pool.mu.
func (c *conn) idle() bool {
	return c.used == c.lingering
}

func (c *conn) roomLocked(k kind) bool {
	if k == kindForward {
		return c.used[k] < c.pool.opts.MaxForwardsPerConn
	}
	return len(c.refused) == 0 && c.used[k] < c.limit
}

func (c *conn) reserveLocked(k kind) {
	c.used[k]++
	if k == kindSession {
		c.opening++
	}
}

// unopened gives back a reservation that was never used.
func (c *conn) unopened(k kind) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.used[k]--
	c.settledLocked(k)
}

// settledLocked follows every reservation once its fate is known.
func (c *conn) settledLocked(k kind) {
	if k == kindSession {
		c.opening--
		c.resolveRefusedLocked()
	}
	c.releasedLocked()
}

// resolveRefusedLocked decides what refused sessions mean. It waits until no other session is being
// opened, because only then it is known how many the server has.
func (c *conn) resolveRefusedLocked() {
	if c.opening > 0 || len(c.refused) == 0 {
		return
	}
	tryAgain := true
	switch {
	case c.used[kindSession] > 0:
		c.limit = min(c.limit, c.used[kindSession])
		c.host.sessionLimit = min(c.host.sessionLimit, c.limit)
		c.pool.stats.LimitsLearned++
	case c.opened > 0:
		// The server still counts sessions that it reported as closed. A new connection starts from zero.
		c.retireLocked()
	default:
		// A new connection would be refused too; it is only retired so that a host whose
		// configuration was repaired is not judged by its old one.
		c.retireLocked()
		tryAgain = false
	}
	for _, r := range c.refused {
		r <- tryAgain
	}
	c.refused = nil
}

// releasedLocked follows every change that frees a channel.
func (c *conn) releasedLocked() {
	c.lastUsed = time.Now()
	if c.idle() {
		if c.retired {
			c.closeLocked(c.lost(errIdle))
		}
		c.pool.makeRoomLocked()
	}
	c.pool.scheduleLocked(c.host)
}

// errTryAgain means that a channel could not be opened for a reason that another connection, or
// waiting, may remove. Nothing was run.
var errTryAgain = errors.New("try another connection")

// channelSpec is a channel to be opened.
type channelSpec struct {
	kind    kind
	name    string
	payload []byte
	// stderrApart leaves standard error to be read by the user of the stream.
	stderrApart bool
	// ends says whether a command that runs is told to end when its session is closed, by the cause of the end of its
	// context, nil if that has not ended. Nil: always.
	ends func(cause error) bool
}

// sessionChannel is a session (RFC 4254, section 6.1).
var sessionChannel = channelSpec{kind: kindSession, name: "session"}

// openStream opens a channel on a connection to t. It is closed at the end of ctx.
func (p *Pool) openStream(ctx context.Context, t Target, spec channelSpec) (*stream, error) {
	for {
		c, err := p.acquire(ctx, t, spec.kind)
		if err != nil {
			return nil, err
		}
		s, err := c.openStream(ctx, spec)
		if errors.Is(err, errTryAgain) {
			continue
		}
		return s, err
	}
}

// openStream opens a channel that was reserved.
func (c *conn) openStream(ctx context.Context, spec channelSpec) (*stream, error) {
	type result struct {
		s   *stream
		err error
	}
	lifetime := ctx
	if spec.kind == kindSession {
		// A server that answers keepalives and no request is as silent as one that
		// never finished its handshake. A forward has to wait for a third party.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.pool.opts.HandshakeTimeout)
		defer cancel()
	}
	results := make(chan result)
	opener := func() {
		s, err := c.openChannel(lifetime, spec)
		select {
		case results <- result{s, err}:
		case <-ctx.Done():
			if s != nil {
				s.close(contextError(ctx, LayerSession, c.address))
			}
		}
	}
	if !c.spawn(opener) {
		c.unopened(spec.kind)
		return nil, errTryAgain
	}
	select {
	case r := <-results:
		return r.s, r.err
	case <-ctx.Done():
		return nil, contextError(ctx, LayerSession, c.address)
	}
}

// openChannel requests a channel and accounts for the answer of the server. The channel is
// closed at the end of ctx.
func (c *conn) openChannel(ctx context.Context, spec channelSpec) (*stream, error) {
	ch, requests, err := c.requestChannel(spec)
	p := c.pool
	if err == nil {
		s := newStream(ctx, c, spec, ch, requests)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stats.Opened++
		if spec.kind == kindSession {
			if c.opened++; c.opened >= maxOpened {
				c.retireLocked()
			}
		}
		c.settledLocked(spec.kind)
		return s, nil
	}

	var refusal *ssh.OpenChannelError
	isRefusal := errors.As(err, &refusal)
	var judged chan bool
	p.mu.Lock()
	fresh := c.opened == 0
	if !isRefusal {
		c.breakLocked(err) // run would notice only in a moment
	}
	c.used[spec.kind]--
	if isRefusal && spec.kind == kindSession {
		judged = make(chan bool, 1)
		c.refused = append(c.refused, judged)
	}
	c.settledLocked(spec.kind)
	p.mu.Unlock()

	switch {
	case judged != nil:
		if tryAgain := <-judged; tryAgain {
			return nil, errTryAgain
		}
		return nil, &Error{Layer: LayerSession, Reason: ReasonSessionRefused, Address: c.address, Err: refusal}
	case isRefusal:
		return nil, &Error{Layer: LayerSession, Reason: forwardRefusal(refusal.Reason), Address: c.address, Err: refusal}
	case fresh:
		return nil, c.loss()
	default:
		// A connection that had died unnoticed: nothing was run on it, so this is safe to repeat.
		return nil, errTryAgain
	}
}

// answerGrace is how long the answer to a request for a channel may take after the connection
// has ended. All that is left to do then is to wake a goroutine.
const answerGrace = time.Second

// requestChannel is OpenChannel of the SSH library, which never returns if it begins while the library
// takes a broken connection down (golang/go#26643). In this rare case
// its goroutine is left behind, the only one that Pool.Close does not wait for.
func (c *conn) requestChannel(spec channelSpec) (ssh.Channel, <-chan *ssh.Request, error) {
	if err := c.wire.err(); err != nil {
		return nil, nil, err
	}
	return requestChannel(nil, c.ssh, c.ended, spec)
}

// requestChannel opens a channel on a connection whose end closes ended. One that the server opens after done is closed at
// once; the error is errGivenUp then.
func requestChannel(done <-chan struct{}, on ssh.Conn, ended <-chan struct{}, spec channelSpec) (ssh.Channel, <-chan *ssh.Request, error) {
	type answer struct {
		ch       ssh.Channel
		requests <-chan *ssh.Request
		err      error
	}
	answers, late := make(chan answer), make(chan struct{})
	defer close(late)
	go func() {
		ch, requests, err := on.OpenChannel(spec.name, spec.payload)
		select {
		case answers <- answer{ch, requests, err}:
		case <-late:
			if err == nil {
				_ = ch.Close() // it may be closed already
				ssh.DiscardRequests(requests)
			}
		}
	}()
	select {
	case a := <-answers:
		return a.ch, a.requests, a.err
	case <-done:
		return nil, nil, errGivenUp
	case <-ended:
	}
	grace := time.NewTimer(answerGrace)
	defer grace.Stop()
	select {
	case a := <-answers:
		return a.ch, a.requests, a.err
	case <-grace.C:
		return nil, nil, errNoAnswer
	}
}

var errGivenUp = errors.New("nobody waits for the channel any more")

var errNoAnswer = errors.New("the connection ended before the host answered")

// forwardRefusal translates the reasons of RFC 4254, section 5.1, for a forwarded port.
func forwardRefusal(r ssh.RejectionReason) Reason {
	switch r {
	case ssh.ConnectionFailed:
		return ReasonConnectionRefused
	case ssh.ResourceShortage:
		return ReasonSessionLimitReached
	default:
		return ReasonSessionRefused
	}
}

// watch closes the connection when the server is silent for too long, or when nobody
// has used it for a while.
func (c *conn) watch() {
	o := c.pool.opts
	keepAlive := time.NewTicker(o.KeepAliveInterval)
	defer keepAlive.Stop()
	idle := time.NewTimer(o.IdleTimeout)
	defer idle.Stop()
	answers := make(chan struct{}, 1)
	var (
		asked  bool
		missed int
		heard  = c.wire.reads.Load()
	)
	for {
		select {
		case <-c.done:
			return
		case <-answers:
			asked, missed = false, 0
		case <-keepAlive.C:
			switch reads := c.wire.reads.Load(); {
			case reads != heard, c.wire.waits():
				heard, missed = reads, 0
			case !asked:
				asked = true
				c.wg.Go(func() {
					// The answer does not matter, nor does an error: either the
					// connection is over, or the server answered.
					_, _, _ = c.ssh.SendRequest("keepalive@openssh.com", true, nil)
					answers <- struct{}{}
				})
			default:
				missed++
			}
			if missed >= o.KeepAliveMisses {
				c.giveUp(missed)
				return
			}
		case <-idle.C:
			if left := c.closeIfIdle(); left > 0 {
				idle.Reset(left)
			}
		}
	}
}

func (c *conn) giveUp(missed int) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.breakLocked(fmt.Errorf("the host did not answer for %s", time.Duration(missed+1)*c.pool.opts.KeepAliveInterval))
}

// closeIfIdle closes a connection that was idle for IdleTimeout, and otherwise returns when to look again.
func (c *conn) closeIfIdle() time.Duration {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	timeout := c.pool.opts.IdleTimeout
	if !c.idle() {
		return timeout
	}
	if left := timeout - time.Since(c.lastUsed); left > 0 {
		return left
	}
	if c.cause == nil {
		c.pool.stats.IdleClosed++
		c.closeLocked(c.lost(errIdle))
	}
	return 0
}
