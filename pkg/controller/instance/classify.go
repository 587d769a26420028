// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
)

// failure is an error in the words of the API: which condition it concerns, and
// what somebody can do about it.
type failure struct {
	condition string
	status    metav1.ConditionStatus
	reason    string
	message   string
}

// stages say what was being tried in a step.
var stages = map[step]diagnose.Stage{
	stepResolve: diagnose.StageResolve,
	stepAdmit:   diagnose.StageResolve,
	stepHostKey: diagnose.StageHostKey,
	stepLogin:   diagnose.StageLogin,
	stepFacts:   diagnose.StageFacts,
}

// classify puts the error of a step into the words of the API. The message is the
// same as long as the cause is the same, so that a host that keeps failing in the
// same way causes no writes.
func classify(at step, err error, instance *v1alpha1.WindowsInstance) failure {
	if _, ok := errors.AsType[*unusableKeyError](err); ok {
		return failure{v1alpha1.ConditionHostKeyTrusted, metav1.ConditionUnknown, v1alpha1.ReasonNotTried,
			fmt.Sprintf("The host was not contacted: %s.", strings.TrimRight(err.Error(), "."))}
	}
	return failureOf(diagnose.Diagnose(stages[at], err, instance))
}

func hostKeyChanged(presented host.Key, pinned []host.Key, instance *v1alpha1.WindowsInstance) failure {
	return failureOf(diagnose.HostKeyChanged(presented, pinned, instance))
}

func failureOf(d diagnose.Diagnosis) failure {
	return failure{d.Condition, d.Status, d.Reason, d.Message}
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
func hung(at step, err error, instance *v1alpha1.WindowsInstance) bool {
	return diagnose.IsTimeout(err) || isTimeout(classify(at, err, instance).reason)
}

// maxCause bounds how much of what others say gets into a message.
const maxCause = 1024

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
