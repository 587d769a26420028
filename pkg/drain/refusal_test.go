// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var podsResource = schema.GroupResource{Resource: "pods"}

// overBudget is the answer of kube-apiserver when a budget is used up.
func overBudget(budget string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget " + budget + " needs 2 healthy pods and has 2 currently",
	}}
	return err
}

// inDyingNamespace is the answer of kube-apiserver to whatever is created in a namespace that goes.
func inDyingNamespace() error {
	err := apierrors.NewForbidden(podsResource, "p", errors.New("unable to create new content in namespace shop because it is being terminated"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	return err
}

// otherwise is the answer with another code and reason.
func otherwise(err error, code int32, reason metav1.StatusReason) error {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		status.ErrStatus.Code, status.ErrStatus.Reason = code, reason
	}
	return err
}

// unnamed is the refusal of a server that words it in another way.
func unnamed() error {
	err := apierrors.NewTooManyRequests("no", 0)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "no"}}
	return err
}

// withoutRight is the answer of an API server to whoever lacks a right, and of kube-apiserver to everybody while it starts.
func withoutRight(name string) error {
	return apierrors.NewForbidden(podsResource, name, errors.New(`User "system:serviceaccount:windows:windows-controller" cannot create resource "pods/eviction" in API group "" in the namespace "shop"`))
}

// deniedByWebhook is the answer of kube-apiserver if an admission webhook denies the eviction with this code and reason.
func deniedByWebhook(code int32, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: `admission webhook "drain-cleaner.strimzi.io" denied the request: The pod will be rolled by the operator`,
	}}
}

func TestJudge(t *testing.T) {
	tests := []struct {
		name        string
		err         error
		terminating bool
		want        stage
		wantBudget  string
		wantMessage string
	}{
		{name: "let go", want: stageLeaving},
		{name: "gone", err: apierrors.NewNotFound(podsResource, "p"), want: stageLeaving},
		{name: "another pod of its name", err: apierrors.NewConflict(podsResource, "p", errors.New("UID")), want: stageWaiting, wantMessage: `Operation cannot be fulfilled on pods "p": UID`},
		{name: "budget", err: overBudget("web"), want: stageWaiting, wantBudget: "web", wantMessage: "The disruption budget web needs 2 healthy pods and has 2 currently"},
		{name: "busy server", err: apierrors.NewTooManyRequests("too many", 1), want: stageWaiting, wantMessage: "too many"},
		{name: "dying namespace", err: inDyingNamespace(), want: stageWaiting, wantMessage: "its namespace is being deleted, but the pod is not yet"},
		{name: "dying with its namespace", err: inDyingNamespace(), terminating: true, want: stageLeaving},
		{name: "not permitted", err: apierrors.NewForbidden(podsResource, "p", errors.New("no")), want: stageRefused, wantMessage: `pods "p" is forbidden: no`},
		{name: "no right", err: withoutRight("p"), want: stageRefused, wantMessage: withoutRight("p").Error()},
		{name: "no right to have it go sooner", err: withoutRight("p"), terminating: true, want: stageLeaving},
		{name: "a webhook forbids it", err: deniedByWebhook(403, metav1.StatusReasonForbidden), want: stageWaiting, wantMessage: `admission webhook "drain-cleaner.strimzi.io" denied the request: The pod will be rolled by the operator`},
		{name: "a webhook denies it without a code", err: deniedByWebhook(400, ""), want: stageWaiting, wantMessage: `admission webhook "drain-cleaner.strimzi.io" denied the request: The pod will be rolled by the operator`},
		{name: "a policy denies it", err: apierrors.NewForbidden(podsResource, "p", errors.New("ValidatingAdmissionPolicy 'a' with binding 'b' denied request: never")), want: stageRefused, wantMessage: `pods "p" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'b' denied request: never`},
		{name: "a policy denies that it goes sooner", err: apierrors.NewForbidden(podsResource, "p", errors.New("ValidatingAdmissionPolicy 'a' with binding 'b' denied request: never")), terminating: true, want: stageLeaving},
		{name: "invalid", err: apierrors.NewInvalid(schema.GroupKind{Kind: "Eviction"}, "p", nil), want: stageRefused, wantMessage: `Eviction "p" is invalid`},
		{name: "not understood", err: apierrors.NewBadRequest("what?"), want: stageRefused, wantMessage: "what?"},
		{name: "no evictions there", err: apierrors.NewMethodNotSupported(podsResource, "create"), want: stageRefused, wantMessage: "create is not supported on resources of kind \"pods\""},
		{name: "the namespace is the cause of something else", err: otherwise(inDyingNamespace(), 409, metav1.StatusReasonConflict), want: stageWaiting, wantMessage: inDyingNamespace().Error()},
		{name: "busy for another cause", err: otherwise(inDyingNamespace(), 429, metav1.StatusReasonTooManyRequests), want: stageWaiting, wantMessage: inDyingNamespace().Error()},
		{name: "budget without a name", err: unnamed(), want: stageWaiting, wantMessage: "no"},
		{name: "without details", err: &apierrors.StatusError{ErrStatus: metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: "later"}}, want: stageWaiting, wantMessage: "later"},
		{name: "server in trouble", err: apierrors.NewInternalError(errors.New("etcd")), want: stageWaiting, wantMessage: "Internal error occurred: etcd"},
		{name: "a connection of ours broke", err: errors.New("read tcp 10.128.0.5:45321->172.30.0.1:443: reset"), want: stageWaiting, wantMessage: "read tcp 172.30.0.1:443: reset"},
		{name: "no server", err: errors.New("connection refused"), want: stageWaiting, wantMessage: "connection refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, message := judge(tt.err, tt.terminating)
			if budget := budgetNamed(tt.err); got != tt.want || message != tt.wantMessage || budget != tt.wantBudget {
				t.Errorf("got %v, %q, budget %q", got, message, budget)
			}
		})
	}
}

func TestBudgetOf(t *testing.T) {
	budget := func(name string, selector map[string]string) policyv1.PodDisruptionBudget {
		return policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: selector}}}
	}
	web, db, all := budget("web", map[string]string{"app": "web"}), budget("db", map[string]string{"app": "db"}), budget("all", nil)
	unreadable := budget("unreadable", nil)
	unreadable.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
	tests := []struct {
		name    string
		budgets []policyv1.PodDisruptionBudget
		want    string
	}{
		{"none", nil, ""},
		{"one of two", []policyv1.PodDisruptionBudget{db, web}, "web"},
		{"no selector selects nothing", []policyv1.PodDisruptionBudget{{ObjectMeta: metav1.ObjectMeta{Name: "none"}}, web}, "web"},
		{"a selector that cannot be read", []policyv1.PodDisruptionBudget{unreadable, web}, "web"},
		{"it cannot be told", []policyv1.PodDisruptionBudget{web, all}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := budgetOf(tt.budgets, labels.Set{"app": "web"}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
