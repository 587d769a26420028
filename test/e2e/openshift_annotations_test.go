// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"fmt"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// annotate has an administrator change an annotation of the Node: NAME=VALUE, or NAME- to remove it.
func (h *siteHost) annotate(t *testing.T, node, annotation string) {
	t.Helper()
	if out, err := h.Kubectl(t.Context(), "annotate", "node", node, annotation, "--overwrite"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// openShiftVersion has an administrator take the version from the Node, which has WMCO configure it again: the host is compared, nothing
// is done as nothing differs, and the Node has the version again.
func openShiftVersion(t *testing.T, h *siteHost) {
	name := h.waitReady(t).Status.Node.Name
	version, kubelets, restarts := h.node(t, name).Annotations[wmco.VersionAnnotation], h.kubelets.Load(), h.host.Restarts()
	if version == "" {
		t.Fatal("the Node has no version")
	}
	h.annotate(t, name, wmco.VersionAnnotation+"-")
	i := h.wait(t, "the Node has the version again", func(i *v1alpha1.WindowsInstance) error {
		if got := h.node(t, name).Annotations[wmco.VersionAnnotation]; got != version {
			return fmt.Errorf("it is %q", got)
		}
		return isSetUp(i)
	})
	if op := i.Status.Operation; op.Type != v1alpha1.OperationReconfigure || op.Cause != v1alpha1.CauseVersionChanged || op.Impact != v1alpha1.ImpactNone {
		t.Errorf("the operation is %s because of %q, its impact is %q\n%s", op.ID, op.Cause, op.Impact, describeSteps(op))
	}
	if h.kubelets.Load() != kubelets || h.host.Restarts() != restarts {
		t.Errorf("the kubelet was started %d times, the host %d times", h.kubelets.Load()-kubelets, h.host.Restarts()-restarts)
	}
}

// mustRestartForItsNode has a program ask for a restart by an annotation of the Node, as for WMCO: the host is drained and restarted once, and asked
// for no more.
func (h *siteHost) mustRestartForItsNode(t *testing.T) {
	t.Helper()
	name, restarts := h.waitReady(t).Status.Node.Name, h.host.Restarts()
	h.annotate(t, name, wmco.RebootRequiredAnnotation+"=")
	i := h.wait(t, "the host was restarted", func(i *v1alpha1.WindowsInstance) error {
		if op := i.Status.Operation; op == nil || op.Cause != v1alpha1.CauseRestartAnnotated || op.Phase != v1alpha1.OperationSucceeded {
			return fmt.Errorf("its operation is %+v", op)
		}
		return isSetUp(i)
	})
	if drain := i.Status.Operation.FindStep(v1alpha1.StepDrain); drain == nil || drain.State != v1alpha1.StepSucceeded {
		t.Errorf("it was not drained\n%s", describeSteps(i.Status.Operation))
	}
	if _, asks := h.node(t, name).Annotations[wmco.RebootRequiredAnnotation]; asks || h.host.Restarts() != restarts+1 {
		t.Errorf("the host was restarted %d times, and the Node asks for it: %t", h.host.Restarts()-restarts, asks)
	}
}
