// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
)

// maxExitCode is the highest exit code that clients understand: client-go parses it
// as an unsigned number of 8 bits and fails with anything else.
const maxExitCode = 255

// drainMessage is what clients get when the server stops.
const drainMessage = "the server is shutting down: try again, another one will answer"

// finalStatus is what the client of an exec session gets at its end.
func finalStatus(r Result, idle time.Duration) metav1.Status {
	switch r.End {
	case EndExited:
		return exitStatus(r.ExitCode)
	case EndDrained:
		return apierrors.NewServiceUnavailable(drainMessage).Status()
	case EndIdle:
		return metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout,
			Message: fmt.Sprintf("the session is over because nothing was sent for %s", idle),
		}
	case EndRecordingFailed:
		return apierrors.NewInternalError(fmt.Errorf("the session was ended because recording it failed: %w", r.Err)).Status()
	case EndCanceled:
		return apierrors.NewServiceUnavailable("the server has ended the request").Status()
	default:
		var status apierrors.APIStatus
		if errors.As(r.Err, &status) {
			return status.Status()
		}
		return apierrors.NewInternalError(r.Err).Status()
	}
}

// exitStatus reports the exit code of a command. Those of Windows have 32 bits: what
// does not fit becomes 255, and the message has the whole number.
func exitStatus(code int) metav1.Status {
	if code == 0 {
		return metav1.Status{Status: metav1.StatusSuccess}
	}
	message := fmt.Sprintf("command terminated with exit code %d", code)
	reported := code
	if code < 0 || code > maxExitCode {
		message = fmt.Sprintf("command terminated with exit code %d (0x%08X), reported as %d", code, uint32(code), maxExitCode)
		reported = maxExitCode
	}
	return metav1.Status{
		Status:  metav1.StatusFailure,
		Reason:  remotecommand.NonZeroExitCodeReason,
		Message: message,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(reported)}}},
	}
}
