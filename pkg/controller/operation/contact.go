// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// isTransient says whether an error may be gone in a moment: the host was not reached, or the
// connection broke. What the host, or our own configuration, says clearly is not transient.
func isTransient(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	e, ok := ssh.AsError(err)
	if !ok {
		return false
	}
	switch e.Layer {
	case ssh.LayerDNS, ssh.LayerConnect, ssh.LayerHandshake, ssh.LayerSession:
		return e.Reason != ssh.ReasonAddressRefused
	}
	return e.Reason == ssh.ReasonConnectionLost || e.Reason == ssh.ReasonConnectionReset || e.Reason == ssh.ReasonTimedOut
}

// unsentFor says whether an error of a request to a host means that the request has
// surely not been carried out: the host was not even logged in to, or it said no.
func unsentFor(err error) bool {
	var agent *agentclient.Error
	var credentials *host.CredentialsError
	if e, ok := ssh.AsError(err); ok {
		switch e.Layer {
		case ssh.LayerDNS, ssh.LayerConnect, ssh.LayerHandshake, ssh.LayerHostKey, ssh.LayerAuth:
			return true
		}
		return false
	}
	return errors.As(err, &credentials) || errors.As(err, &agent) && !errors.Is(err, context.DeadlineExceeded)
}

// stages of the steps whose errors are not about looking at the host.
var stages = map[string]diagnose.Stage{
	windowsv1alpha1.StepPlan: diagnose.StagePlan, windowsv1alpha1.StepTransfer: diagnose.StageTransfer, windowsv1alpha1.StepApply: diagnose.StageApply,
	windowsv1alpha1.StepFinish: diagnose.StageApply, windowsv1alpha1.StepNetwork: diagnose.StageApply, windowsv1alpha1.StepCleanup: diagnose.StageCleanup,
}

// diagnose puts an error of [Hosts] into the words of the conditions, with the layer
// that failed.
func (e *execution) diagnose(err error) string {
	stage, ok := stages[e.current]
	if !ok {
		stage = diagnose.StageFacts
	}
	d := diagnose.Diagnose(stage, err, e.instance)
	if d.Condition == windowsv1alpha1.ConditionConfigured || d.Condition == windowsv1alpha1.ConditionRemoved {
		return d.Message // the reason says what failed, and that is known here
	}
	return d.Reason + ": " + d.Message
}
