// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/validation"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// operationAnnotation is the key of the audit annotation with the ID of the operation
// that a request has recorded.
const operationAnnotation = "windows.openshift.io/operation"

// statusStore is the part of the storage of the status that actions need.
type statusStore interface {
	instanceGetter
	Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, force bool, options *metav1.UpdateOptions) (runtime.Object, bool, error)
}

// Planner finds out what a reconfigure would change on a host.
type Planner interface {
	// Plan changes nothing on the host. No change is an answer, not an error. Errors are
	// [apierrors.StatusError]s.
	Plan(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error)
}

// actionRequest is what the actions have in common.
type actionRequest struct {
	// object is the body of the request, which becomes its answer.
	object metav1.Object
	// preconditions of the action; nil is none.
	preconditions *metav1.Preconditions
	// change is what the action does to the instance. It may be called more than once.
	change func(instance *windows.WindowsInstance, user string, now time.Time) error
	// answer is where the operation of the changed instance goes.
	answer **windows.Operation
	// finish completes the answer to a dry run; nil when there is nothing to add.
	finish func(ctx context.Context, instance *windows.WindowsInstance) error
	errs   field.ErrorList
}

// ActionREST serves one action: it records what somebody wants to be done, and
// returns. The controller does it, and keeps doing it when any of our processes is
// restarted: a request would end with its connection.
type ActionREST struct {
	scheme *runtime.Scheme
	status statusStore
	now    func() time.Time
	// empty is a body of the action's kind.
	empty func() runtime.Object
	// read takes a body apart. It reports false for one of another kind.
	read func(obj runtime.Object) (*actionRequest, bool)
}

var _ rest.NamedCreater = &ActionREST{}

// newActions returns the actions by the names of their subresources.
func newActions(scheme *runtime.Scheme, status statusStore, planner Planner) map[string]*ActionREST {
	actions := map[string]*ActionREST{
		SubresourceDrain:       {empty: func() runtime.Object { return &windows.WindowsInstanceDrain{} }, read: readDrain},
		SubresourceUncordon:    {empty: func() runtime.Object { return &windows.WindowsInstanceUncordon{} }, read: readUncordon},
		SubresourceReboot:      {empty: func() runtime.Object { return &windows.WindowsInstanceReboot{} }, read: readReboot},
		SubresourceReconfigure: {empty: func() runtime.Object { return &windows.WindowsInstanceReconfigure{} }, read: readReconfigure(planner)},
		SubresourceCancel:      {empty: func() runtime.Object { return &windows.WindowsInstanceCancel{} }, read: readCancel},
	}
	for _, action := range actions {
		action.scheme, action.status, action.now = scheme, status, time.Now
	}
	return actions
}

// New implements [rest.Storage].
func (r *ActionREST) New() runtime.Object { return r.empty() }

// Destroy implements [rest.Storage]. The store is shared with [REST], which destroys it.
func (*ActionREST) Destroy() {}

// Create implements [rest.NamedCreater].
func (r *ActionREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	request, ok := r.read(obj)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a %T", obj, r.empty()))
	}
	if err := r.validate(ctx, name, obj, request); err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	user, err := userName(ctx)
	if err != nil {
		return nil, err
	}
	now := r.now().Truncate(time.Second)
	var changed *windows.WindowsInstance
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		instance, err := base.As[*windows.WindowsInstance](old)
		if err != nil {
			return nil, err
		}
		if err := checkPreconditions(instance, request.preconditions); err != nil {
			return nil, err
		}
		changed = instance.DeepCopy()
		return changed, request.change(changed, user, now)
	})
	if _, _, err := r.status.Update(asStatusRequest(ctx), name, info, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{DryRun: options.DryRun}); err != nil {
		return nil, err
	}
	*request.answer = changed.Status.Operation.DeepCopy()
	request.object.SetName(name)
	request.object.SetNamespace(changed.Namespace)
	dryRun := len(options.DryRun) > 0
	if !dryRun {
		audit.AddAuditAnnotation(ctx, operationAnnotation, changed.Status.Operation.ID)
	}
	if dryRun && request.finish != nil {
		if err := request.finish(ctx, changed); err != nil {
			return nil, err
		}
	}
	return obj, nil
}

// validate checks a body by the rules declared on its type, and by its own.
func (r *ActionREST) validate(ctx context.Context, name string, obj runtime.Object, request *actionRequest) error {
	errs := slices.Concat(request.errs, validateBodyOf(ctx, name, request.object))
	versioned, err := r.scheme.ConvertToVersion(obj, v1alpha1.SchemeGroupVersion)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("converting the body: %w", err))
	}
	errs = append(r.scheme.Validate(ctx, nil, versioned), errs...)
	if len(errs) > 0 {
		return apierrors.NewInvalid(versioned.GetObjectKind().GroupVersionKind().GroupKind(), name, errs)
	}
	return nil
}

// asStatusRequest makes a request for the status of what is an action: the rules for
// a changed object depend on the subresource that it is changed through.
func asStatusRequest(ctx context.Context) context.Context {
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	if !ok {
		return ctx
	}
	status := *info
	status.Subresource = "status"
	return genericapirequest.WithRequestInfo(ctx, &status)
}

// userName is who asks. An action without anybody to name in the record is refused.
func userName(ctx context.Context) (string, error) {
	user, ok := genericapirequest.UserFrom(ctx)
	if !ok || user.GetName() == "" {
		return "", apierrors.NewUnauthorized("the request has no user")
	}
	return user.GetName(), nil
}

// newOperation returns the change that records an operation.
func newOperation(t v1alpha1.OperationType, fill func(*windows.Operation)) func(*windows.WindowsInstance, string, time.Time) error {
	random := rand.String(v1alpha1.OperationIDLength)
	return func(instance *windows.WindowsInstance, user string, now time.Time) error {
		o := &windows.Operation{}
		if err := v1alpha1.Convert_v1alpha1_Operation_To_windows_Operation(v1alpha1.NewOperation(t, random, v1alpha1.OriginUser, user, now), o, nil); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("converting the operation: %w", err))
		}
		if fill != nil {
			fill(o)
		}
		return record(instance, o)
	}
}

// specPath is where the options of every action are.
var specPath = field.NewPath("spec")

func readDrain(obj runtime.Object) (*actionRequest, bool) {
	body, ok := obj.(*windows.WindowsInstanceDrain)
	if !ok {
		return nil, false
	}
	return &actionRequest{
		object: body, preconditions: body.Spec.Preconditions, answer: &body.Status.Operation,
		errs: validation.ValidateDrainOptions(&body.Spec.DrainOptions, specPath),
		change: newOperation(v1alpha1.OperationDrain, func(o *windows.Operation) {
			o.Drain = body.Spec.DrainOptions.DeepCopy()
		}),
	}, true
}

func readUncordon(obj runtime.Object) (*actionRequest, bool) {
	body, ok := obj.(*windows.WindowsInstanceUncordon)
	if !ok {
		return nil, false
	}
	return &actionRequest{
		object: body, preconditions: body.Spec.Preconditions, answer: &body.Status.Operation,
		change: newOperation(v1alpha1.OperationUncordon, nil),
	}, true
}

func readReboot(obj runtime.Object) (*actionRequest, bool) {
	body, ok := obj.(*windows.WindowsInstanceReboot)
	if !ok {
		return nil, false
	}
	return &actionRequest{
		object: body, preconditions: body.Spec.Preconditions, answer: &body.Status.Operation,
		errs: validation.ValidateRebootSpec(&body.Spec, specPath),
		change: newOperation(v1alpha1.OperationReboot, func(o *windows.Operation) {
			o.Reboot = body.Spec.RebootOptions.DeepCopy()
			o.Drain = body.Spec.Drain.DeepCopy()
		}),
	}, true
}

func readReconfigure(planner Planner) func(runtime.Object) (*actionRequest, bool) {
	return func(obj runtime.Object) (*actionRequest, bool) {
		body, ok := obj.(*windows.WindowsInstanceReconfigure)
		if !ok {
			return nil, false
		}
		return &actionRequest{
			object: body, preconditions: body.Spec.Preconditions, answer: &body.Status.Operation,
			change: newOperation(v1alpha1.OperationReconfigure, nil),
			finish: func(ctx context.Context, instance *windows.WindowsInstance) error {
				plan, err := plan(ctx, planner, instance)
				body.Status.Plan = plan
				return err
			},
		}, true
	}
}

func readCancel(obj runtime.Object) (*actionRequest, bool) {
	body, ok := obj.(*windows.WindowsInstanceCancel)
	if !ok {
		return nil, false
	}
	return &actionRequest{
		object: body, answer: &body.Status.Operation,
		change: func(instance *windows.WindowsInstance, user string, now time.Time) error {
			return requestCancel(instance, body.Spec.OperationID, user, now)
		},
	}, true
}

// plan asks the host what would change.
func plan(ctx context.Context, planner Planner, instance *windows.WindowsInstance) ([]windows.PlannedChange, error) {
	served, err := served(instance)
	if err != nil {
		return nil, err
	}
	changes, err := planner.Plan(ctx, served)
	if err != nil {
		return nil, err
	}
	out := make([]windows.PlannedChange, len(changes))
	for i := range changes {
		if err := v1alpha1.Convert_v1alpha1_PlannedChange_To_windows_PlannedChange(&changes[i], &out[i], nil); err != nil {
			return nil, apierrors.NewInternalError(fmt.Errorf("converting the plan: %w", err))
		}
	}
	return out, nil
}
