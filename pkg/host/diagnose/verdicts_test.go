// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

func TestErrorsOfHosts(t *testing.T) {
	failed := func(layer ssh.Layer, reason ssh.Reason) error {
		return fmt.Errorf("x: %w", &ssh.Error{Layer: layer, Reason: reason})
	}
	tests := []struct {
		name          string
		err           error
		wantTransient bool
		wantUnsent    bool
	}{
		{"no address", failed(ssh.LayerDNS, ssh.ReasonNameNotResolved), true, true},
		{"address not allowed", failed(ssh.LayerConnect, ssh.ReasonAddressRefused), false, true},
		{"not known whether it is allowed", failed(ssh.LayerConnect, ssh.ReasonAddressUndecided), true, true},
		{"down", failed(ssh.LayerConnect, ssh.ReasonConnectionRefused), true, true},
		{"starting", failed(ssh.LayerHandshake, ssh.ReasonConnectionReset), true, true},
		{"another host key", failed(ssh.LayerHostKey, ssh.ReasonHostKeyChanged), false, true},
		{"credentials", failed(ssh.LayerAuth, ssh.ReasonCredentialsRefused), false, true},
		{"credentials for the bastion", failed(ssh.LayerBastion, ssh.ReasonCredentialsRefused), false, true},
		{"credentials for the bastion, which is tried again", fmt.Errorf("x: %w", refusedUntil(time.Unix(1000, 0))), true, true},
		{"silent while logging in", failed(ssh.LayerAuth, ssh.ReasonTimedOut), true, true},
		{"broken while it ran", failed(ssh.LayerSession, ssh.ReasonConnectionLost), true, false},
		{"no Secret", &host.CredentialsError{Secret: "a/b", Err: errors.New("not there")}, false, true},
		{"a Secret that could not be read", fmt.Errorf("x: %w", &host.CredentialsError{Secret: "a/b", Unread: true, Err: errors.New("connection refused")}), true, true},
		{"another machine", &agentclient.AnotherHostError{Want: "a", Found: "b"}, false, true},
		{"the agent cannot be put there", &agentclient.Error{Step: agentclient.StepUpload, Err: errors.New("disk full")}, false, true},
		{"the agent cannot be verified", &agentclient.Error{Step: agentclient.StepVerify, Err: context.DeadlineExceeded}, true, true},
		{"the agent says no", &agentclient.Error{Step: agentclient.StepRefused, Err: errors.New("access is denied")}, false, true},
		{"the agent was ended", &agentclient.Error{Step: agentclient.StepRun, Err: &ssh.ExitError{Code: 1}}, false, false},
		{"the agent could not be removed", &agentclient.Error{Step: agentclient.StepRemove, Err: errors.New("it runs")}, false, false},
		{"the agent is silent", &agentclient.Error{Step: agentclient.StepRun, Err: context.DeadlineExceeded}, true, false},
		{"silence", context.DeadlineExceeded, true, false},
		{"anything else", errors.New("x"), false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if transient, unsent := IsTransient(tt.err), IsUnsent(tt.err); transient != tt.wantTransient || unsent != tt.wantUnsent {
				t.Errorf("transient %v, unsent %v, want %v, %v", transient, unsent, tt.wantTransient, tt.wantUnsent)
			}
		})
	}
}

// TestIsInconclusive: a Secret that is not there says something about the host, and one that could not be read does not.
func TestIsInconclusive(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"a limit of ours", &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonLimitReached}, true},
		{"down", &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionRefused}, false},
		{"no Secret", &host.CredentialsError{Secret: "a/b", Err: errors.New("not there")}, false},
		{"a Secret that could not be read", fmt.Errorf("x: %w", &host.CredentialsError{Secret: "a/b", Unread: true, Err: errors.New("connection refused")}), true},
		{"nobody wants it any more", fmt.Errorf("x: %w", context.Canceled), true},
	} {
		if got := IsInconclusive(tt.err); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

func TestReachOf(t *testing.T) {
	for layer, want := range map[ssh.Layer]Reach{
		ssh.LayerDNS:       {Tried: true},
		ssh.LayerConnect:   {Tried: true},
		ssh.LayerHandshake: {Tried: true},
		ssh.LayerHostKey:   {Tried: true, Contacted: true},
		ssh.LayerAuth:      {Tried: true, Contacted: true, Verified: true},
		ssh.LayerSession:   {Tried: true, Contacted: true, Verified: true},
		ssh.LayerShell:     {Tried: true, Contacted: true, Verified: true},
	} {
		if got := ReachOf(fmt.Errorf("x: %w", &ssh.Error{Layer: layer})); got != want {
			t.Errorf("%s: got %+v, want %+v", layer, got, want)
		}
	}
	if got := ReachOf(&host.CredentialsError{Err: errors.New("not there")}); got != (Reach{}) {
		t.Errorf("without credentials: %+v", got)
	}
}
