// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Layer is the step on the way to a host at which something failed. The layers
// are in the order in which a connection passes them.
type Layer string

const (
	// LayerDNS is the resolution of the target's name.
	LayerDNS Layer = "DNS"
	// LayerBastion is everything on the way to the bastion of the host, and that it connects to hosts at all.
	LayerBastion Layer = "Bastion"
	// LayerConnect is the TCP connection, and the limits that apply before it.
	LayerConnect Layer = "Connect"
	// LayerHandshake is the SSH banner and key exchange.
	LayerHandshake Layer = "Handshake"
	// LayerHostKey is the comparison of the presented host key with the pinned ones.
	LayerHostKey Layer = "HostKey"
	// LayerAuth is user authentication.
	LayerAuth Layer = "Auth"
	// LayerSession is everything on an authenticated connection: opening a channel,
	// and a channel or connection that ends before its time.
	LayerSession Layer = "Session"
	// LayerShell is the start of a command by the host's login shell.
	LayerShell Layer = "Shell"
)

// Reason is a CamelCase word for what went wrong, fit for the reason of a status
// condition. The set may grow.
type Reason string

const (
	// ReasonNameNotResolved means that DNS knows no address for the name.
	ReasonNameNotResolved Reason = "NameNotResolved"
	// ReasonAddressRefused means that Options.AllowAddress refused every resolved address.
	ReasonAddressRefused Reason = "AddressRefused"
	// ReasonAddressUndecided means that Options.AllowAddress could not decide yet, see ErrUndecided.
	ReasonAddressUndecided Reason = "AddressUndecided"
	// ReasonConnectionRefused means that nothing listens on the port: of the host, or,
	// for Dial, of the host's own loopback interface.
	ReasonConnectionRefused Reason = "ConnectionRefused"
	// ReasonConnectionTimedOut means that the TCP connection was not answered in time.
	ReasonConnectionTimedOut Reason = "ConnectionTimedOut"
	// ReasonHostUnreachable means that there is no route to the address.
	ReasonHostUnreachable Reason = "HostUnreachable"
	// ReasonConnectionReset means that the host closed the connection before it was authenticated.
	ReasonConnectionReset Reason = "ConnectionReset"
	// ReasonHandshakeTimedOut means that TCP was accepted, and then the banner or the
	// key exchange did not complete in time.
	ReasonHandshakeTimedOut Reason = "HandshakeTimedOut"
	// ReasonNotSSH means that something else than an SSH server answered on the port.
	ReasonNotSSH Reason = "NotSSH"
	// ReasonHandshakeFailed means that the key exchange failed, for example because
	// there is no common algorithm.
	ReasonHandshakeFailed Reason = "HandshakeFailed"
	// ReasonHostKeyUnknown means that no host key is pinned; the error wraps a
	// *HostKeyError with the key that the host presented.
	ReasonHostKeyUnknown Reason = "HostKeyUnknown"
	// ReasonHostKeyChanged means that the host presented another key than the pinned
	// ones; the error wraps a *HostKeyError.
	ReasonHostKeyChanged Reason = "HostKeyChanged"
	// ReasonCredentialsRefused means that the host accepted none of the offered credentials.
	ReasonCredentialsRefused Reason = "CredentialsRefused"
	// ReasonSessionRefused means that an authenticated host refused a channel, a
	// subsystem or the start of a command although the connection was otherwise unused.
	ReasonSessionRefused Reason = "SessionRefused"
	// ReasonSessionLimitReached means that all sessions to the host stayed in use until
	// the context ended.
	ReasonSessionLimitReached Reason = "SessionLimitReached"
	// ReasonForwardRefused means that the bastion lets the user in, and connects to no host for it.
	ReasonForwardRefused Reason = "ForwardRefused"
	// ReasonConnectionLost means that an authenticated connection, or a session on it,
	// ended before the command reported its exit status.
	ReasonConnectionLost Reason = "ConnectionLost"
	// ReasonTimedOut means that a deadline passed; the layer says waiting for what.
	ReasonTimedOut Reason = "TimedOut"
	// ReasonCanceled means that the caller's context was canceled.
	ReasonCanceled Reason = "Canceled"
	// ReasonSessionClosed means that the caller closed the session before the command ended.
	ReasonSessionClosed Reason = "SessionClosed"
	// ReasonLimitReached means that Options.MaxConns connections, or the share of the namespace in them,
	// stayed in use until the context ended.
	ReasonLimitReached Reason = "LimitReached"
	// ReasonPoolClosed means that the pool was closed.
	ReasonPoolClosed Reason = "PoolClosed"
)

// ErrUndecided is wrapped by the errors of Options.AllowAddress that say nothing about the address.
var ErrUndecided = errors.New("it is not known yet")

// Error is a failure to reach a host or to use the connection to it.
type Error struct {
	// Layer is how far the attempt came.
	Layer Layer
	// Reason is what went wrong there.
	Reason Reason
	// Address is the target as host:port, with brackets around an IPv6 address. At LayerBastion it is that of the bastion.
	Address string
	// From is the bastion that was to connect to the target, in the same form. It is set for LayerConnect only. Empty: none was.
	From string
	// Err is the cause. It may be nil, and never contains a secret. At LayerBastion it is another *Error if it says at
	// which layer of the way to the bastion that was.
	Err error
	// Remark is that of the credential that was refused, with what it says for that. Empty: it has none, or another thing is wrong.
	Remark string
	// RetryAt is when a bastion that refuses the login is logged in to again, see [Refusals]. It is no part of the message, which says the same
	// as long as the cause is the same. Zero: for other failures.
	RetryAt time.Time
}

// explanations are the middle of Error's message: what happened, for a reader who
// does not know this package.
var explanations = map[Reason]string{
	ReasonNameNotResolved:     "the name has no address",
	ReasonAddressRefused:      "the address is not allowed",
	ReasonAddressUndecided:    "whether the address is allowed is not known yet",
	ReasonConnectionRefused:   "the connection was refused",
	ReasonConnectionTimedOut:  "the host did not answer in time",
	ReasonHostUnreachable:     "the host is unreachable",
	ReasonConnectionReset:     "the host closed the connection",
	ReasonHandshakeTimedOut:   "the host accepted the connection and did not complete the SSH handshake in time",
	ReasonNotSSH:              "the port is not served by SSH",
	ReasonHandshakeFailed:     "the SSH handshake failed",
	ReasonHostKeyUnknown:      "no host key is pinned for this host",
	ReasonHostKeyChanged:      "the host key is not the pinned one",
	ReasonCredentialsRefused:  "the host refused the credentials",
	ReasonSessionRefused:      "the host refused the session",
	ReasonSessionLimitReached: "all sessions of the host are in use",
	ReasonForwardRefused:      "the bastion does not connect to the host",
	ReasonConnectionLost:      "the connection was lost",
	ReasonTimedOut:            "timed out",
	ReasonCanceled:            "canceled by the caller",
	ReasonSessionClosed:       "the session was closed by the caller",
	ReasonLimitReached:        "the limit of open connections, of the namespace or of all, is reached",
	ReasonPoolClosed:          "the connection pool is closed",
}

// Error says which host, which layer, what happened, and why.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("ssh")
	if e.Address != "" {
		b.WriteString(" " + e.Address)
	}
	what := explanations[e.Reason]
	if what == "" {
		what = string(e.Reason)
	}
	fmt.Fprintf(&b, ": %s: ", e.Layer)
	err := e.Err
	if inner := e.OnBastion(); inner != nil {
		fmt.Fprintf(&b, "%s: ", inner.Layer)
		err = inner.Err
	}
	b.WriteString(what)
	if e.From != "" {
		fmt.Fprintf(&b, ", from bastion %s", e.From)
	}
	if err != nil {
		b.WriteString(": " + err.Error())
	}
	if e.Remark != "" {
		b.WriteString(". " + e.Remark)
	}
	return b.String()
}

// OnBastion is the failure on the way to a bastion, with its layer there. Nil: it is not that which failed.
func (e *Error) OnBastion() *Error {
	inner, ok := e.Err.(*Error) //nolint:errorlint // it is no cause somewhere below, but the same failure
	if !ok || e.Layer != LayerBastion {
		return nil
	}
	return inner
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// AsError returns the first *Error in the chain of err.
func AsError(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

// HostKeyError is wrapped inside the *Error of ReasonHostKeyUnknown and
// ReasonHostKeyChanged.
type HostKeyError struct {
	// Presented is the key of the host. It is proven that the host has its private
	// half. It is nil only if the host has no key of a pinned type and closed the second
	// connection that was to learn which key it has.
	Presented ssh.PublicKey
	// Pinned are the keys that would have been accepted. Empty means that none is known.
	Pinned []ssh.PublicKey
}

// Error names both fingerprints in the form that ssh-keygen -l prints.
func (e *HostKeyError) Error() string {
	presented := "a key of none of the pinned types"
	if e.Presented != nil {
		presented = describeKey(e.Presented)
	}
	if len(e.Pinned) == 0 {
		return "the host presents " + presented
	}
	pinned := make([]string, len(e.Pinned))
	for i, k := range e.Pinned {
		pinned[i] = describeKey(k)
	}
	return fmt.Sprintf("the host presents %s, pinned is %s", presented, strings.Join(pinned, ", "))
}

func describeKey(k ssh.PublicKey) string {
	return k.Type() + " " + Fingerprint(k)
}

// ExitError is a command that ran and ended with a status other than zero.
// The status is passed on as it came, without interpretation.
type ExitError struct {
	// Code is the exit status of the command. For a command ended by a signal it is
	// 128 plus the number of the signal, as shells report it.
	Code int
	// Signal is the name of the signal that ended the command, without SIG; empty if none.
	Signal string
	// Stderr is the end of what the command wrote to its standard error.
	Stderr string
}

// Error gives the status and the last line of standard error.
func (e *ExitError) Error() string {
	msg := fmt.Sprintf("command ended with exit code %d", e.Code)
	if e.Signal != "" {
		msg = "command was ended by signal " + e.Signal
	}
	if line := lastLine(e.Stderr); line != "" {
		msg += ": " + line
	}
	return msg
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}

// contextError turns the end of a caller's context into an *Error.
func contextError(ctx context.Context, layer Layer, address string) *Error {
	reason := ReasonCanceled
	switch {
	case errors.Is(context.Cause(ctx), errPoolClosed):
		reason = ReasonPoolClosed
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		reason = ReasonTimedOut
	}
	return &Error{Layer: layer, Reason: reason, Address: address, Err: context.Cause(ctx)}
}
