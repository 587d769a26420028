// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Codes that the plugin exits with. exec and shell pass on that of the program on the host.
const (
	// ExitOK: everything was done.
	ExitOK = 0
	// ExitFailure: it was not; the message says why. Also for wrong arguments.
	ExitFailure = 1
	// ExitCheckFailed: a host could be asked, and a layer or a finding is in the way.
	ExitCheckFailed = 2
	// ExitOperationFailed: an operation ended as Failed.
	ExitOperationFailed = 3
	// ExitOperationCanceled: an operation ended as Canceled.
	ExitOperationCanceled = 4
	// ExitWaitTimeout: --wait-timeout, or --timeout of rollout status, is over, or the controller has not answered rollout undo; it continues.
	ExitWaitTimeout = 5
	// ExitConflict: another operation is not finished.
	ExitConflict = 6
	// ExitInterrupted: Ctrl-C, as of other programs that a signal ends.
	ExitInterrupted = 130
	// ExitTerminated: SIGTERM, likewise.
	ExitTerminated = 143
)

// ExitError ends the plugin with a code of its own.
type ExitError struct {
	// Code is what the plugin exits with.
	Code int
	// Err is what is said about it. Nil: nothing, or it was said already.
	Err error
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// exitCode is the code that an error ends the plugin with.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code
	}
	return ExitFailure
}

// explain puts an error into the words of kubectl.
func explain(err error) string {
	if _, ok := err.(apierrors.APIStatus); ok {
		return describeError(err)
	}
	return "error: " + describeError(err)
}

// describeError puts an error into words: of an answer of the server also what kind of
// refusal it is, and the layer at which a host could not be reached.
func describeError(err error) string {
	text := err.Error()
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return text
	}
	s := status.ErrStatus
	if unknown := describeUnknown(s.Message); unknown != "" {
		text = strings.Replace(text, s.Message, unknown, 1)
	}
	if _, ok := err.(apierrors.APIStatus); ok && s.Reason != metav1.StatusReasonUnknown {
		text = fmt.Sprintf("Error from server (%s): %s", s.Reason, text)
	}
	if s.Details == nil {
		return text
	}
	for _, cause := range s.Details.Causes {
		if cause.Type == causeLayer && !strings.Contains(text, cause.Message) {
			text += fmt.Sprintf(" (layer %s)", cause.Message)
		}
	}
	return text
}

// causeLayer is the type of the cause in a Status that names the layer that failed.
const causeLayer metav1.CauseType = "Layer"
