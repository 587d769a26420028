// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import "strings"

// Active says whether the operation waits to be carried out, or is. That of an instance
// which never had any, nil, is not.
func (o *Operation) Active() bool {
	return o != nil && (o.Phase == OperationPending || o.Phase == OperationRunning)
}

// BrokenOff says whether the operation ended before it had done what it was for. None, nil,
// did not.
func (o *Operation) BrokenOff() bool {
	return o != nil && (o.Phase == OperationFailed || o.Phase == OperationCanceled)
}

// String says in one line which pod it is, and what does not allow its eviction.
func (p BlockedPod) String() string {
	text := p.Namespace + "/" + p.Name
	if p.Budget != "" {
		text += " (PodDisruptionBudget " + p.Budget + ")"
	}
	if p.Message != "" {
		text += ": " + strings.Join(strings.Fields(p.Message), " ")
	}
	return text
}

// Operations are all operations of the instance that are known, the newest first. They are
// those of the status, and no copies.
func (s *WindowsInstanceStatus) Operations() []*Operation {
	var out []*Operation
	if s.Operation != nil {
		out = append(out, s.Operation)
	}
	for i := range s.History {
		out = append(out, &s.History[i])
	}
	return out
}

// NewestOperation is the newest operation of a type, nil if none is known.
func (s *WindowsInstanceStatus) NewestOperation(t OperationType) *Operation {
	for _, o := range s.Operations() {
		if o.Type == t {
			return o
		}
	}
	return nil
}

// ControllerRequester is who asks for the operations that the controller records by itself.
// Those of people have the name of a user, and those of programs that of an account.
const ControllerRequester = "windows-controller"

// MaxHistory is how many operations an instance keeps besides the newest; see
// status.history. Of an instance with that many, those before are not known.
const MaxHistory = 10

// shortRevision is how many digits of a revision are shown to people.
const shortRevision = 12

// ShortRevision is what people are shown of a revision: enough to tell it from others.
// What is compared, and what is in a status, is the whole.
func ShortRevision(revision string) string {
	return revision[:min(len(revision), shortRevision)]
}
