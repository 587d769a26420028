// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package diagnose

import (
	"context"
	"errors"

	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// IsTransient says whether an error may be gone in a moment: the host was not reached, or the
// connection broke, or the credentials could not be read. What the host, or our own configuration, says clearly is not transient.
func IsTransient(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || IsUnread(err) {
		return true
	}
	e, ok := ssh.AsError(err)
	if !ok {
		return false
	}
	switch e.Layer {
	case ssh.LayerBastion:
		if !e.RetryAt.IsZero() {
			return true // the refusal may be long over: all get it from memory until the bastion is tried again
		}
		switch e.Reason {
		case ssh.ReasonAddressRefused, ssh.ReasonHostKeyUnknown, ssh.ReasonHostKeyChanged, ssh.ReasonCredentialsRefused, ssh.ReasonForwardRefused:
			return false
		}
		return true
	case ssh.LayerDNS, ssh.LayerConnect, ssh.LayerHandshake, ssh.LayerSession:
		return e.Reason != ssh.ReasonAddressRefused
	}
	return e.Reason == ssh.ReasonConnectionLost || e.Reason == ssh.ReasonConnectionReset || e.Reason == ssh.ReasonTimedOut
}

// IsUnsent says whether an error of a request to a host means that the request has
// surely not been run: nobody logged in to the host, it is another one, the agent could not be put
// there, or it refused. An agent that ended without an answer may have done anything before; that
// of a host that goes down ends so.
func IsUnsent(err error) bool {
	if e, ok := ssh.AsError(err); ok {
		return beforeSession(e.Layer)
	}
	if agent, ok := errors.AsType[*agentclient.Error](err); ok {
		return agent.Step != agentclient.StepRun && agent.Step != agentclient.StepRemove
	}
	var credentials *host.CredentialsError
	var another *agentclient.AnotherHostError
	return errors.As(err, &credentials) || errors.As(err, &another)
}

// IsUnread says whether an error means that it is not known what to log in with, because the API server does not answer, or with an error that passes.
func IsUnread(err error) bool {
	credentials, ok := errors.AsType[*host.CredentialsError](err)
	return ok && credentials.Unread
}

// IsInconclusive reports whether an error is about this process, or the API server, and says nothing about the host.
func IsInconclusive(err error) bool {
	if IsUnread(err) {
		return true
	}
	if e, ok := ssh.AsError(err); ok {
		switch e.Reason {
		case ssh.ReasonAddressUndecided, ssh.ReasonLimitReached, ssh.ReasonSessionLimitReached, ssh.ReasonPoolClosed,
			ssh.ReasonCanceled, ssh.ReasonSessionClosed:
			return true
		}
		return false
	}
	return errors.Is(err, context.Canceled)
}

// IsTimeout says whether an error is a deadline that passed while a host was waited for. One of
// a name server alone is none.
func IsTimeout(err error) bool {
	if e, ok := ssh.AsError(err); ok {
		if inner := e.OnBastion(); inner != nil && inner.Layer != ssh.LayerDNS && (e.Reason == ssh.ReasonConnectionTimedOut || e.Reason == ssh.ReasonHandshakeTimedOut) {
			return true // the conditions say less of a bastion
		} else if inner != nil {
			e = inner
		}
		if e.Reason == ssh.ReasonTimedOut && e.Layer != ssh.LayerDNS {
			return true
		}
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// Reach is how far a connection came that failed.
type Reach struct {
	// Tried: a connection was to be made. Otherwise something was missing for that, for
	// example the credentials.
	Tried bool
	// Contacted: the server of the host answered. Verified: it proved to have a trusted key.
	Contacted, Verified bool
}

// ReachOf says how far a connection came that failed with an error.
func ReachOf(err error) Reach {
	e, ok := ssh.AsError(err)
	if !ok {
		return Reach{}
	}
	switch e.Layer {
	case ssh.LayerHostKey:
		return Reach{Tried: true, Contacted: true}
	case ssh.LayerAuth, ssh.LayerSession, ssh.LayerShell:
		return Reach{Tried: true, Contacted: true, Verified: true}
	}
	return Reach{Tried: true}
}
