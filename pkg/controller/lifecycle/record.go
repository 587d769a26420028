// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// operationIDLength is how many random characters an ID has besides its type. It is that of
// the API server, which records the operations that people ask for: it has types of its own,
// and the few lines that are the same are cheaper than a package that knows both.
const operationIDLength = 8

// recordOperation makes an operation the one of the instance; the one before, which has ended,
// goes to the history.
func recordOperation(status *windowsv1alpha1.WindowsInstanceStatus, t windowsv1alpha1.OperationType, now time.Time) {
	if last := status.Operation; last != nil {
		history := append([]windowsv1alpha1.Operation{*last}, status.History...)
		status.History = history[:min(len(history), windowsv1alpha1.MaxHistory)]
	}
	status.Operation = &windowsv1alpha1.Operation{
		ID:          strings.ToLower(string(t)) + "-" + rand.String(operationIDLength),
		Type:        t,
		Phase:       windowsv1alpha1.OperationPending,
		RequestedBy: windowsv1alpha1.ControllerRequester,
		RequestedAt: metav1.NewTime(now.Truncate(time.Second)),
	}
	if t == windowsv1alpha1.OperationReconfigure {
		// Known before it begins, so that one that does not get far counts as an attempt at it.
		status.Operation.Revision = status.DesiredRevision
	}
}

// cancelOperation asks for the end of the operation of the instance.
func cancelOperation(status *windowsv1alpha1.WindowsInstanceStatus, now time.Time) {
	at := metav1.NewTime(now.Truncate(time.Second))
	status.Operation.CancelRequestedBy, status.Operation.CancelRequestedAt = windowsv1alpha1.ControllerRequester, &at
}
