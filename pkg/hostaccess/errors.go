// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hostaccess

import (
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/hostagent"
)

// CredentialsError means that the credentials for a host are missing or cannot be
// used. Nothing was sent to the host.
type CredentialsError struct {
	// Secret is the namespace and name of the Secret.
	Secret string
	// Err says what is wrong with it. It never holds anything of its content.
	Err error
}

// Error implements error.
func (e *CredentialsError) Error() string { return fmt.Sprintf("Secret %s: %v", e.Secret, e.Err) }

// Unwrap returns what is wrong.
func (e *CredentialsError) Unwrap() error { return e.Err }

// Steps of an [AgentError].
const (
	// StepUpload is putting the agent on the host.
	StepUpload = "Upload"
	// StepVerify is comparing its digest on the host.
	StepVerify = "Verify"
	// StepRun is running it.
	StepRun = "Run"
)

// AgentError means that the agent could not be put on a host or failed there.
type AgentError struct {
	// Step is one of the Step constants.
	Step string
	// Err is the failure.
	Err error
}

// Error implements error.
func (e *AgentError) Error() string {
	return fmt.Sprintf("agent: %s: %v", map[string]string{
		StepUpload: "putting it on the host",
		StepVerify: "verifying it on the host",
		StepRun:    "running it on the host",
	}[e.Step], e.Err)
}

// Unwrap returns the failure.
func (e *AgentError) Unwrap() error { return e.Err }

// LogRefusedError means that the host answered and refuses to show a log.
type LogRefusedError struct {
	// Refusal says why.
	Refusal hostagent.LogError
}

// Error implements error.
func (e *LogRefusedError) Error() string { return e.Refusal.Error() }
