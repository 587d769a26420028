// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package forbidden

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

var pods = schema.GroupResource{Resource: "pods"}

// unauthorized is the answer of an API server to whoever lacks a right.
func unauthorized(a authorizer.AttributesRecord) error {
	a.User = &user.DefaultInfo{Name: "system:serviceaccount:windows:windows-controller"}
	return responsewriters.ForbiddenStatusError(a, "RBAC: clusterrole not found")
}

func TestMayPass(t *testing.T) {
	forbidden := func(why string) error { return apierrors.NewForbidden(pods, "web", errors.New(why)) }
	eviction := authorizer.AttributesRecord{Verb: "create", Namespace: "shop", Resource: "pods", Subresource: "eviction", Name: "web", ResourceRequest: true}
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"nothing", nil, false},
		{"no right in a namespace", unauthorized(eviction), true},
		{"no right to a kind", unauthorized(authorizer.AttributesRecord{Verb: "list", APIVersion: "v1", Resource: "nodes", ResourceRequest: true}), true},
		{"no right to a path", unauthorized(authorizer.AttributesRecord{Verb: "get", Path: "/version"}), true},
		{"no right, in other words", fmt.Errorf("cordoning: %w", unauthorized(eviction)), true},
		{"admission is not ready", forbidden("not yet ready to handle request"), true},
		{"a policy", forbidden(`ValidatingAdmissionPolicy 'a' with binding 'b' denied request: User "a" cannot do this now`), false},
		{"a policy without its parameters", forbidden("policy 'a' with binding 'b' denied request: not yet synced to use for admission"), false},
		{"a quota", forbidden("exceeded quota: a"), false},
		{"a webhook", &apierrors.StatusError{ErrStatus: metav1.Status{
			Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: `admission webhook "a.b.c" denied the request: User "a" cannot do this`,
		}}, false},
		{"a namespace that goes", forbidden("unable to create new content in namespace shop because it is being terminated"), false},
		{"a refusal without a message", &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}}, false},
		{"the same words of something else", apierrors.NewConflict(corev1.Resource("pods"), "web", errors.New(`forbidden: User "a" cannot do this`)), false},
		{"the server", errors.New("connection refused"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := MayPass(tt.err); got != tt.want {
				t.Errorf("got %v for %v", got, tt.err)
			}
		})
	}
}

// TestRefusals: what is refused for long, and nothing else in between, stays so.
func TestRefusals(t *testing.T) {
	refusal, now := unauthorized(authorizer.AttributesRecord{Verb: "get"}), time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	var r Refusals
	for n, step := range []struct {
		after time.Duration
		err   error
		want  bool
	}{
		{0, refusal, true},
		{Patience - time.Second, refusal, true},
		{time.Second, refusal, false},
		{time.Hour, refusal, false},
		{0, errors.New("away"), false},
		{0, refusal, true},
		{Patience - time.Second, nil, false},
		{time.Hour, refusal, true},
		{Patience, refusal, false},
	} {
		now = now.Add(step.after)
		if got := r.Passes(step.err, now); got != step.want {
			t.Errorf("%d: got %v", n, got)
		}
	}
}
