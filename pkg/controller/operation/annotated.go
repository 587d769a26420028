// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// fulfillRestart removes the annotation of the Node that asks for the restart which the host has made, whoever wanted that. It
// returns what is to be said about it, empty if there was none.
func (e *execution) fulfillRestart(ctx context.Context) (string, error) {
	return e.fulfill(ctx, wmco.RebootRequiredAnnotation, object.AsksForRestart)
}

// cameBackRestarted says whether the host has made the last restart since that failed because it took too long.
func (e *execution) cameBackRestarted() bool {
	return e.madeLate(func(op *v1alpha1.Operation) bool { return op.Type == v1alpha1.OperationReboot }) != nil
}

// fulfilledLate says that the host has made the restart that an annotation asks for, which failed because it took too long, and removes the annotation:
// nobody has, if the Node was cordoned before the restart, or uncordoned by somebody since. Empty: the host is to be restarted.
func (e *execution) fulfilledLate(ctx context.Context) (string, error) {
	if e.operation().Cause != v1alpha1.CauseRestartAnnotated {
		return "", nil
	}
	late := e.madeLate(func(op *v1alpha1.Operation) bool { return op.Cause == v1alpha1.CauseRestartAnnotated })
	if late == nil {
		return "", nil
	}
	asked, err := e.fulfillRestart(ctx)
	return fmt.Sprintf("The host has restarted since operation %s asked it to, and is left as it was.%s", late.ID, asked), err
}

// madeLate returns the last of some operations that asked the host for a restart, if that failed because it took too long, and the host has made it
// since. Nil: there is none, or what annotations asked for was fulfilled since, by a restart that was seen or because this one was found: whoever asks
// now asks for another one.
func (e *execution) madeLate(counts func(*v1alpha1.Operation) bool) *v1alpha1.Operation {
	status := &e.instance.Status
	for _, op := range status.Operations() {
		if op.Phase == v1alpha1.OperationSucceeded && (op.Cause == v1alpha1.CauseRestartAnnotated || op.Cause == v1alpha1.CauseCameBack) {
			return nil
		}
		if op.Active() || op.BootID == "" || op.StartedAt == nil {
			continue
		}
		if seen := status.RestartedAt; op.Phase == v1alpha1.OperationSucceeded || seen != nil && !seen.Before(op.StartedAt) {
			return nil
		}
		if counts(op) {
			if !status.LastRestart().After(op.StartedAt.Time) {
				return nil
			}
			return op
		}
	}
	return nil
}

// fulfillConfiguration has the Node ask for no configuration any more, after the host got one: package node then writes the version
// again. node is as the host was configured for; one that does not ask by then, and is asked for something since, gets that next.
func (e *execution) fulfillConfiguration(ctx context.Context, node *corev1.Node) (string, error) {
	if node == nil || !object.AsksForConfiguration(node) {
		return "", nil
	}
	return e.fulfill(ctx, v1alpha1.WrittenVersionAnnotation, object.AsksForConfiguration)
}

// fulfill removes an annotation of the Node if that asks for what was done. That it cannot be removed is no failure of what was
// done: it is said, and is done again later.
func (e *execution) fulfill(ctx context.Context, annotation string, asks func(*corev1.Node) bool) (string, error) {
	known := e.operation().Node
	if known == nil || e.operation().Type == v1alpha1.OperationRemove {
		return "", nil
	}
	removed := false
	err := e.onNode(ctx, known.Name, func() error {
		node, err := e.Kube.CoreV1().Nodes().Get(ctx, known.Name, metav1.GetOptions{})
		if err != nil || node.UID != known.UID || !asks(node) {
			return err //nolint:wrapcheck // it is wrapped by the caller
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID, "annotations": map[string]any{annotation: nil}}})
		if err != nil {
			return fmt.Errorf("encoding the patch: %w", err)
		}
		_, err = e.Kube.CoreV1().Nodes().Patch(ctx, known.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		removed = err == nil
		return err //nolint:wrapcheck // it is wrapped by the caller
	})
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return fmt.Sprintf(" Annotation %s of Node %s cannot be removed: %v.", annotation, known.Name, err), nil
	case removed:
		return fmt.Sprintf(" Annotation %s of Node %s, which asked for it, is removed.", annotation, known.Name), nil
	}
	return "", nil
}
