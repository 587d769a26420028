// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// Steps of an [Error].
const (
	// StepUpload is putting the agent on the host.
	StepUpload = "Upload"
	// StepVerify is comparing its digest on the host.
	StepVerify = "Verify"
	// StepRun is running it.
	StepRun = "Run"
	// StepRefused is what it answers when it does not do what was requested. It has done nothing.
	StepRefused = "Refused"
	// StepRemove is taking it off the host.
	StepRemove = "Remove"
)

// Error means that the agent could not be put on a host or failed there.
type Error struct {
	// Step is one of the Step constants.
	Step string
	// Err is the failure.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("agent: %s: %v", map[string]string{
		StepUpload:  "putting it on the host",
		StepVerify:  "verifying it on the host",
		StepRun:     "running it on the host",
		StepRefused: "its answer is no",
		StepRemove:  "removing it from the host",
	}[e.Step], e.Err)
}

// Unwrap returns the failure.
func (e *Error) Unwrap() error { return e.Err }

// PayloadError means that a host needs a file that this process cannot send. Nothing was sent.
type PayloadError struct {
	// Name is that of the file in the payload.
	Name string
	// Err says why.
	Err error
}

// Error implements error.
func (e *PayloadError) Error() string { return fmt.Sprintf("the host needs %s, %v", e.Name, e.Err) }

// Unwrap returns the reason.
func (e *PayloadError) Unwrap() error { return e.Err }

// LogRefusedError means that the host answered and refuses to show a log.
type LogRefusedError struct {
	// Refusal says why.
	Refusal api.LogError
}

// Error implements error.
func (e *LogRefusedError) Error() string { return e.Refusal.Error() }

// AnotherHostError means that the machine that answers is not the one that the instance stands
// for, although it has proven to have a host key that is trusted. Nothing was done on it but that
// our agent is there.
type AnotherHostError struct {
	// Want is the machine of the instance, and Found the one that answers.
	Want, Found string
}

// Error implements error.
func (e *AnotherHostError) Error() string {
	return fmt.Sprintf("machine %s answers in place of machine %s", e.Found, e.Want)
}
