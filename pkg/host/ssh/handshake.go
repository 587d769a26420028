// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// The algorithms that are offered, best first.
//
// AES-GCM comes first because it is the fastest on processors with AES instructions.
// ChaCha20-Poly1305 and CBC are left out: without strict key exchange, which older servers
// lack, they let an attacker on the path remove messages (CVE-2023-48795, "Terrapin").
// The library always requests strict key exchange.
var (
	ciphers = []string{
		ssh.CipherAES128GCM, ssh.CipherAES256GCM,
		ssh.CipherAES256CTR, ssh.CipherAES192CTR, ssh.CipherAES128CTR,
	}
	keyExchanges = []string{
		ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeCurve25519,
		ssh.KeyExchangeECDHP256, ssh.KeyExchangeECDHP384, ssh.KeyExchangeECDHP521,
		ssh.KeyExchangeDH16SHA512, ssh.KeyExchangeDH14SHA256,
	}
	macs = []string{
		ssh.HMACSHA256ETM, ssh.HMACSHA512ETM, ssh.HMACSHA256, ssh.HMACSHA512,
	}
)

// clientVersion is our identification line. Administrators see it in the log of sshd.
const clientVersion = "SSH-2.0-windows-instance-api"

// established is an SSH connection right after its handshake.
type established struct {
	wire     *wire
	ssh      ssh.Conn
	channels <-chan ssh.NewChannel
	requests <-chan *ssh.Request
	peer     Peer
}

// connect makes an authenticated connection.
func (p *Pool) connect(ctx context.Context, t Target, pr *progress) (*established, error) {
	raw, err := p.dial(ctx, t, pr)
	if err != nil {
		return nil, err
	}
	h := handshake{pool: p, target: t, progress: pr, algorithms: pinnedAlgorithms(t.HostKeys)}
	h.verify = func(k ssh.PublicKey) error { return checkHostKey(k, t.HostKeys) }
	if len(h.algorithms) == 0 {
		h.algorithms = hostKeyPreference
	}
	e, err := h.run(ctx, raw)
	if len(t.HostKeys) > 0 && noCommonHostKey(err) {
		pr.set(LayerHostKey) // they agree on everything else
		return nil, p.explainMissingHostKey(ctx, t, pr, err)
	}
	return e, err
}

// errNoLogin ends a handshake of which only the host key was wanted.
var errNoLogin = errors.New("the host key was verified")

// noCommonHostKey reports whether a host has no key of a type that we accept.
func noCommonHostKey(err error) bool {
	var e *ssh.AlgorithmNegotiationError
	return errors.As(err, &e) && e.What == "host key"
}

// explainMissingHostKey reads the key of a host that has none of a pinned type,
// so that the error can name it.
func (p *Pool) explainMissingHostKey(ctx context.Context, t Target, pr *progress, cause error) error {
	changed := &HostKeyError{Pinned: t.HostKeys}
	e := &Error{Layer: LayerHostKey, Reason: ReasonHostKeyChanged, Address: t.Endpoint(), Err: changed}
	presented, err := p.learnHostKey(ctx, t)
	if err != nil {
		e.Err = fmt.Errorf("%w: %w", changed, errors.Join(cause, err))
		return e
	}
	changed.Presented, pr.hostKey = presented, presented
	return e
}

// handshake is one attempt to get from TCP to an authenticated SSH connection.
type handshake struct {
	pool       *Pool
	target     Target
	progress   *progress
	algorithms []string
	verify     func(ssh.PublicKey) error
}

func (h *handshake) run(ctx context.Context, raw net.Conn) (*established, error) {
	w := h.pool.wireOn(raw)
	auth := &authenticator{user: h.target.User, credential: h.target.Credential, wire: w}
	h.progress.set(LayerHandshake)
	w.extend(h.pool.opts.HandshakeTimeout)
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // unblocks the handshake below
	verified := false                                          // once; the callback is called for each exchange of keys, one after the other
	config := &ssh.ClientConfig{
		Config:            ssh.Config{Ciphers: ciphers, KeyExchanges: keyExchanges, MACs: macs},
		User:              h.target.User,
		ClientVersion:     clientVersion,
		HostKeyAlgorithms: h.algorithms,
		AuthCallback:      auth.next,
		HostKeyCallback: func(_ string, _ net.Addr, k ssh.PublicKey) error {
			if verified {
				return h.verify(k) // neither a layer nor a time limit begins again
			}
			verified = true
			h.progress.set(LayerHostKey)
			h.progress.hostKey = k
			if err := h.verify(k); err != nil {
				return err
			}
			if h.progress.withoutLogin {
				return errNoLogin
			}
			h.progress.set(LayerAuth)
			w.extend(h.pool.opts.HandshakeTimeout)
			return nil
		},
	}
	c, channels, requests, err := ssh.NewClientConn(w, h.target.Endpoint(), config)
	canceled := !stop()
	if err != nil {
		if canceled {
			return nil, gaveUp(ctx, h.progress.get(), h.target.Endpoint())
		}
		return nil, h.explain(err, w, len(auth.attempted) > 0)
	}
	// If this fails the connection is broken, which its first user will notice.
	_ = raw.SetDeadline(time.Time{})
	h.progress.set(LayerSession)
	_, certified := auth.accepted.(*ssh.Certificate)
	peer := Peer{Address: h.progress.peer.Addr().Unmap(), HostKey: h.progress.hostKey, Accepted: plainKey(auth.accepted), Certified: certified}
	return &established{wire: w, ssh: c, channels: channels, requests: requests, peer: peer}, nil
}

// extend sets a new deadline. An error means a closed connection, which the next read reports.
func (w *wire) extend(d time.Duration) { _ = w.SetDeadline(time.Now().Add(d)) }

// explain says at which layer a handshake failed, and why. What is decisive is how far it came and what
// the network said; the texts of the SSH library are only passed on.
func (h *handshake) explain(err error, w *wire, attempted bool) error {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // "ssh: handshake failed" says nothing that the layer does not
	}
	e := &Error{Layer: h.progress.get(), Address: h.target.Endpoint(), Err: err}
	var hostKey *HostKeyError
	var refused *credentialsRefusedError
	network := w.err()
	if lost, ok := errors.AsType[*bastionLostError](network); ok {
		return &Error{Layer: LayerBastion, Reason: ReasonConnectionLost, Address: lost.endpoint, Err: lost}
	}
	switch {
	case errors.As(err, &hostKey):
		e.Reason = hostKeyReason(hostKey)
	case errors.As(err, &refused):
		e.Reason = ReasonCredentialsRefused
	case !w.identified.Load():
		e.Reason, e.Err = explainGreeting(w.said(), network, err)
	case errors.Is(network, os.ErrDeadlineExceeded):
		e.Reason = timeoutReason(e.Layer)
	case network != nil:
		e.Reason = ReasonConnectionReset
	case e.Layer == LayerAuth && attempted:
		// A message that ends the connection, most often "Too many authentication failures".
		e.Reason = ReasonCredentialsRefused
	default:
		e.Reason = ReasonHandshakeFailed
	}
	if e.Reason == ReasonCredentialsRefused {
		e.Remark = h.target.Credential.remarkIfRefused()
	}
	return e
}

// Penalized is what OpenSSH says to an address that has a penalty, for example for logins that failed (PerSourcePenalties, since 9.8).
const Penalized = "Not allowed at this time"

// sshdRefusals are what OpenSSH sends in place of its identification when it does not want
// the connection: too many unauthenticated ones (MaxStartups), or a penalty.
var sshdRefusals = []string{"Exceeded MaxStartups", Penalized}

// GreetingError is what OpenSSH said in place of its identification.
type GreetingError struct {
	// Said is the text, which is one of a few.
	Said string
	err  error
}

// Error implements error.
func (e *GreetingError) Error() string { return fmt.Sprintf("sshd said %q: %v", e.Said, e.err) }

// Unwrap returns how the connection ended.
func (e *GreetingError) Unwrap() error { return e.err }

// explainGreeting says what it means that a server did not identify itself as SSH.
func explainGreeting(greeting []byte, network, err error) (Reason, error) {
	said := strings.TrimSpace(string(greeting))
	if network != nil {
		err = network
	}
	for _, r := range sshdRefusals {
		if strings.HasPrefix(said, r) {
			return ReasonConnectionReset, &GreetingError{Said: r, err: err}
		}
	}
	switch {
	case said != "" && !strings.HasPrefix(identificationPrefix, said) && !strings.HasPrefix(said, identificationPrefix):
		// What it said stays here: who names the address of an instance need not be allowed to
		// read what answers there.
		return ReasonNotSSH, err
	case errors.Is(network, os.ErrDeadlineExceeded):
		return ReasonHandshakeTimedOut, err
	case network != nil:
		return ReasonConnectionReset, err
	default:
		return ReasonHandshakeFailed, err
	}
}
