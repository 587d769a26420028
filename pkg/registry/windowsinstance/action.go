// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
)

// operationAnnotation is the key of the audit annotation with the ID of the operation
// that a request has recorded.
const operationAnnotation = "windows.openshift.io/operation"

// Planner plans what a reconfigure would change on a host.
type Planner interface {
	// Plan changes nothing on the host. No change is an answer, not an error. Errors are
	// [apierrors.StatusError]s.
	Plan(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error)
}

// Adopter knows whether a host of the Windows Machine Config Operator may be taken over, and what that changes.
type Adopter interface {
	// Adoptable returns a Conflict while that operator runs, and where hosts cannot be configured. It does not contact
	// the host. Errors are [apierrors.StatusError]s.
	Adoptable(ctx context.Context, instance *v1alpha1.WindowsInstance) error
	// PlanAdoption is as [Planner.Plan]: first what is removed at once, then what the next update will change.
	PlanAdoption(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error)
}

// Releaser knows whether a host may be given back to the Windows Machine Config Operator, and what that changes.
type Releaser interface {
	// Releasable returns a Conflict where that operator cannot be: on clusters other than OpenShift. It does not contact the
	// host. Errors are [apierrors.StatusError]s.
	Releasable(ctx context.Context, instance *v1alpha1.WindowsInstance) error
	// PlanRelease is as [Planner.Plan], and does not contact the host either.
	PlanRelease(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error)
}

// actionRequest is what the actions have in common.
type actionRequest struct {
	// body is the body of the request, which becomes its answer.
	body metav1.Object
	// preconditions of the action; nil is none.
	preconditions *metav1.Preconditions
	// change is what the action does to the instance. It may be called more than once.
	change func(instance *windows.WindowsInstance, user string, now time.Time) error
	// answer is where the operation of the changed instance is returned.
	answer **v1alpha1.Operation
	// plan is where the answer to a dry run has what would change; nil when it has no plan.
	plan *[]v1alpha1.PlannedChange
	// adopts: the host is to be taken over from another operator. releases: it is to be given back to it.
	adopts, releases bool
	errs             field.ErrorList
}

// ActionREST serves one action: it records what a user requests, and returns. The
// controller does it, and continues when any of our processes is restarted: a request
// would end with its connection.
type ActionREST struct {
	scheme  *runtime.Scheme
	status  rest.Patcher
	planner Planner
	adopter Adopter
	// releaser is asked before a host is given back.
	releaser Releaser
	streams  *limits.Streams
	now      func() time.Time
	// body is an empty body of the action's kind.
	body runtime.Object
}

var _ rest.NamedCreater = &ActionREST{}

// New implements [rest.Storage].
func (r *ActionREST) New() runtime.Object { return r.body.DeepCopyObject() }

// Destroy implements [rest.Storage]. The store is shared with [REST], which destroys it.
func (*ActionREST) Destroy() {}

// Create implements [rest.NamedCreater]. The answer is of the served version.
func (r *ActionREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	// Each action is a right of its own.
	if got, want := reflect.TypeOf(obj), reflect.TypeOf(r.body); got != want {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %s, want a %s", got.Elem().Name(), want.Elem().Name()))
	}
	body, err := r.scheme.ConvertToVersion(obj, v1alpha1.SchemeGroupVersion)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("converting the body: %w", err))
	}
	request, err := readAction(body)
	if err != nil {
		return nil, err
	}
	dryRun := len(options.DryRun) > 0
	if dryRun && request.plan != nil || request.adopts || request.releases {
		admitted, err := admit(ctx, r.streams, limits.Query, name, 1)
		if err != nil {
			return nil, err
		}
		defer admitted.Release()
	}
	// The rules declared on the type come first.
	errs := append(r.scheme.Validate(ctx, nil, body), request.errs...)
	if errs = append(errs, validateBodyOf(ctx, name, request.body)...); len(errs) > 0 {
		return nil, apierrors.NewInvalid(body.GetObjectKind().GroupVersionKind().GroupKind(), name, errs)
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
	switch {
	case request.adopts:
		err = r.ensureFit(ctx, name, notForeign, r.adopter.Adoptable)
	case request.releases:
		err = r.ensureFit(ctx, name, notToRelease, r.releaser.Releasable)
	}
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
	instance, err := served(changed)
	if err != nil {
		return nil, err
	}
	*request.answer = instance.Status.Operation
	request.body.SetName(name)
	request.body.SetNamespace(instance.Namespace)
	switch {
	case !dryRun:
		audit.AddAuditAnnotation(ctx, operationAnnotation, instance.Status.Operation.ID)
	case request.plan != nil:
		if instance, err = known(instance); err != nil {
			return nil, err
		}
		plan := r.planner.Plan
		switch {
		case request.adopts:
			plan = r.adopter.PlanAdoption
		case request.releases:
			plan = r.releaser.PlanRelease
		}
		*request.plan, err = plan(ctx, instance)
	}
	return body, err
}

// ensureFit returns a Conflict if a host is not one for the action, for the reason that whyNot returns, or the cluster does not allow it, which
// is asked after that.
func (r *ActionREST) ensureFit(ctx context.Context, name string, whyNot func(*v1alpha1.WindowsInstance) string, allowed func(context.Context, *v1alpha1.WindowsInstance) error) error {
	instance, err := getKnown(ctx, r.status, name)
	if err != nil {
		return err
	}
	if why := whyNot(instance); why != "" {
		return apierrors.NewConflict(windows.Resource("windowsinstances"), name, errors.New(why))
	}
	return allowed(ctx, instance)
}

// asStatusRequest turns the request for an action into one for the status: the rules for
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

// userName is the user of a request. An action without a user to record is refused.
func userName(ctx context.Context) (string, error) {
	user, ok := genericapirequest.UserFrom(ctx)
	if !ok || user.GetName() == "" {
		return "", apierrors.NewUnauthorized("the request has no user")
	}
	return user.GetName(), nil
}

// recordOperation returns the change that records an operation with these options.
func recordOperation(t v1alpha1.OperationType, drain *v1alpha1.DrainOptions, reboot *v1alpha1.RebootOptions) func(*windows.WindowsInstance, string, time.Time) error {
	random := rand.String(v1alpha1.OperationIDLength)
	return func(instance *windows.WindowsInstance, user string, now time.Time) error {
		o := v1alpha1.NewOperation(t, random, v1alpha1.OriginUser, user, now)
		o.Drain, o.Reboot = drain, withTimeout(instance, reboot)
		return record(instance, o)
	}
}

// withTimeout returns the options of a reboot with the time that the host gets. Windows, which waits for a restart mostly because of
// updates, completes them meanwhile.
func withTimeout(instance *windows.WindowsInstance, reboot *v1alpha1.RebootOptions) *v1alpha1.RebootOptions {
	if reboot == nil || reboot.TimeoutSeconds != nil {
		return reboot
	}
	reboot = reboot.DeepCopy()
	reboot.TimeoutSeconds = new(int64(v1alpha1.DefaultRebootTimeoutSeconds))
	if meta.IsStatusConditionTrue(instance.Status.Conditions, v1alpha1.ConditionRebootRequired) {
		reboot.TimeoutSeconds = new(int64(v1alpha1.DefaultUpdateTimeoutSeconds))
	}
	return reboot
}

// specPath is where the options of every action are.
var specPath = field.NewPath("spec")

// readAction returns what the body of an action requests.
func readAction(obj runtime.Object) (*actionRequest, error) {
	switch body := obj.(type) {
	case *v1alpha1.WindowsInstanceDrain:
		return &actionRequest{
			body: body, preconditions: body.Spec.Preconditions, answer: &body.Status.Operation,
			errs:   validation.ValidateDrainOptions(&body.Spec.DrainOptions, specPath),
			change: recordOperation(v1alpha1.OperationDrain, &body.Spec.DrainOptions, nil),
		}, nil
	case *v1alpha1.WindowsInstanceUncordon:
		return &actionRequest{
			body: body, preconditions: body.Spec.Preconditions, answer: &body.Status.Operation,
			change: recordOperation(v1alpha1.OperationUncordon, nil, nil),
		}, nil
	case *v1alpha1.WindowsInstanceReboot:
		return &actionRequest{
			body: body, preconditions: body.Spec.Preconditions, answer: &body.Status.Operation,
			errs:   validation.ValidateRebootSpec(&body.Spec, specPath),
			change: recordOperation(v1alpha1.OperationReboot, body.Spec.Drain, &body.Spec.RebootOptions),
		}, nil
	case *v1alpha1.WindowsInstanceReconfigure:
		return &actionRequest{
			body: body, preconditions: body.Spec.Preconditions, answer: &body.Status.Operation, plan: &body.Status.Plan,
			change: recordOperation(v1alpha1.OperationReconfigure, nil, nil),
		}, nil
	case *v1alpha1.WindowsInstanceAdopt:
		return &actionRequest{
			body: body, preconditions: body.Spec.Preconditions, answer: &body.Status.Operation, plan: &body.Status.Plan, adopts: true,
			change: recordOperation(v1alpha1.OperationAdopt, nil, nil),
		}, nil
	case *v1alpha1.WindowsInstanceRelease:
		return &actionRequest{
			body: body, preconditions: body.Spec.Preconditions, answer: &body.Status.Operation, plan: &body.Status.Plan, releases: true,
			change: recordOperation(v1alpha1.OperationRelease, nil, nil),
		}, nil
	case *v1alpha1.WindowsInstanceCancel:
		return &actionRequest{
			body: body, answer: &body.Status.Operation,
			change: func(instance *windows.WindowsInstance, user string, now time.Time) error {
				return requestCancel(instance, body.Spec.OperationID, user, now)
			},
		}, nil
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want an action", obj))
}
