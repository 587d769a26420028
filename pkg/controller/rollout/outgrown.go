// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"

// outgrown is what the desired configuration of a host turned out to cost when it was planned last, if it was not begun then because less had been
// admitted. Empty: that is not so. It counts more than what the host says when it is asked: a difference between the two that lasts would
// have the update recorded and withdrawn again and again.
func outgrown(status *v1alpha1.WindowsInstanceStatus) v1alpha1.ChangeImpact {
	last := status.NewestOperation(v1alpha1.OperationReconfigure)
	if !last.Withdrawn() || last.Admitted() || last.Revision != status.DesiredRevision || last.MayHaveChangedHost() {
		return ""
	}
	return last.Impact
}
