// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
)

// Checker tries the way to hosts.
type Checker interface {
	// Check changes nothing on the host. That the host cannot be reached is an answer, not
	// an error. It answers before the deadline of requests that are not streams.
	Check(ctx context.Context, instance *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstanceCheckStatus
}

// CheckREST serves the subresource check: it tries the way to a host layer by layer, to
// find out why an instance is not ready.
type CheckREST struct {
	instances rest.Getter
	checker   Checker
	streams   *limits.Streams
}

var (
	_ rest.NamedCreater   = &CheckREST{}
	_ rest.TableConvertor = &CheckREST{}
)

// New implements [rest.Storage].
func (*CheckREST) New() runtime.Object { return &windows.WindowsInstanceCheck{} }

// Destroy implements [rest.Storage]. The store is shared with [REST], which destroys it.
func (*CheckREST) Destroy() {}

// Create implements [rest.NamedCreater]. A dry run is no different, as nothing is
// changed anyway. A status in the body is ignored.
func (r *CheckREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	admitted, err := admit(ctx, r.streams, limits.Query, name, 1)
	if err != nil {
		return nil, err
	}
	defer admitted.Release()
	body, ok := obj.(*windows.WindowsInstanceCheck)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a WindowsInstanceCheck", obj))
	}
	if errs := validateBodyOf(ctx, name, body); len(errs) > 0 {
		return nil, apierrors.NewInvalid(windows.Kind("WindowsInstanceCheck"), name, errs)
	}
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	instance, err := getServed(ctx, r.instances, name)
	if err != nil {
		return nil, err
	}
	if err := represented(instance); err != nil {
		return nil, err
	}
	status := r.checker.Check(ctx, instance)
	out := &windows.WindowsInstanceCheck{ObjectMeta: body.ObjectMeta}
	out.Name, out.Namespace = instance.Name, instance.Namespace
	if err := v1alpha1.Convert_v1alpha1_WindowsInstanceCheckStatus_To_windows_WindowsInstanceCheckStatus(status, &out.Status, nil); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("converting the check: %w", err))
	}
	return out, nil
}

var checkColumns = []metav1.TableColumnDefinition{
	{Name: "Layer", Type: "string", Description: "Layer of the way to the host."},
	{Name: "Result", Type: "string", Description: "Passed, Failed or Skipped."},
	{Name: "Duration", Type: "string", Description: "How long it took."},
	{Name: "Reason", Type: "string", Description: "Why it failed."},
	{Name: "Message", Type: "string", Description: "Result, or what to do."},
}

// ConvertToTable implements [rest.TableConvertor]: the layers, and after them what preflight found.
func (*CheckREST) ConvertToTable(_ context.Context, obj runtime.Object, options runtime.Object) (*metav1.Table, error) {
	check, err := base.As[*windows.WindowsInstanceCheck](obj)
	if err != nil {
		return nil, err
	}
	return tableOf(obj, options, checkColumns, checkRows(&check.Status)), nil
}

// checkRows does not shorten messages: they say what to do.
func checkRows(status *windows.WindowsInstanceCheckStatus) [][]any {
	var rows [][]any
	for _, l := range status.Layers {
		took := none
		if l.Result != windows.CheckSkipped {
			took = l.Duration.Duration.String()
		}
		rows = append(rows, []any{l.Name, string(l.Result), took, orNone(l.Reason), orNone(l.Message)})
	}
	for _, f := range status.Findings {
		rows = append(rows, []any{"Finding", string(f.Severity), none, f.Code, f.Message})
	}
	return rows
}
