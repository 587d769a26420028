// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// classify puts the error of a step into the words of the API. The message is the
// same as long as the cause is the same, so that a host that keeps failing in the
// same way causes no writes.
func classify(at diagnose.Stage, err error, instance *v1alpha1.WindowsInstance) diagnose.Diagnosis {
	if _, ok := errors.AsType[*unusableKeyError](err); ok {
		return diagnose.Diagnosis{
			Condition: v1alpha1.ConditionHostKeyTrusted, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNotTried,
			Message: fmt.Sprintf("The host was not contacted: %s.", strings.TrimRight(words.Steady(err.Error()), ".")),
		}
	}
	if unlike, ok := errors.AsType[*unlikeWMCOError](err); ok {
		return diagnose.HostKeyUnlikeWMCO(unlike.presented, unlike.known(), instance)
	}
	return diagnose.Diagnose(at, err, instance)
}

// isTimeout says whether a reason stands for a host that did not answer in time.
func isTimeout(reason string) bool {
	switch reason {
	case v1alpha1.ReasonConnectionTimedOut, v1alpha1.ReasonHandshakeTimedOut, v1alpha1.ReasonAuthenticationTimedOut:
		return true
	}
	return false
}

// hung says whether the error of a step means that the host did not answer in
// time, so that probing it again may take as long again.
func hung(at diagnose.Stage, err error, instance *v1alpha1.WindowsInstance) bool {
	return diagnose.IsTimeout(err) || isTimeout(classify(at, err, instance).Reason)
}

// maxCause bounds how much of what others say gets into a message.
const maxCause = 1024

// maxInputs bounds how much of what is wrong with the inputs of a configuration gets there. Each of these has a command, and the last one may be what matters.
const maxInputs = 8 * maxCause

func orUnknown(s string) string { return cmp.Or(s, "unknown") }
