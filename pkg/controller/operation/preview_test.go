// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
)

// TestPreviewFails: why a host does not return a plan is said in the same words when it is asked what an update costs and when it gets that.
func TestPreviewFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		f.failWith("Plan", &agentclient.Error{Step: agentclient.StepRun, Err: errors.New("the inventory is damaged")})
		preview := &Preview{Hosts: f.host, Configuration: f.configuration, Kube: f.kube, Labels: f.nodeLabels}
		_, _, err := preview.Impact(t.Context(), f.get())
		if err == nil {
			t.Fatal("it has a preview")
		}
		why, _ := strings.CutPrefix(err.Error(), "the host does not return a plan: ")
		if op := f.finish(); op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.FindStep(v1alpha1.StepPlan).Message, why) {
			t.Errorf("the preview says %q, the operation %q", why, op.Message)
		}
	})
}
