// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/forbidden"
)

// withoutRight is the answer of an API server to whoever lacks a right, and of kube-apiserver to everybody while it starts.
func withoutRight(verb, resource string) error {
	why := fmt.Errorf(`User "system:serviceaccount:windows:windows-controller" cannot %s resource %q in API group "" at the cluster scope`, verb, resource)
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, testNode, why)
}

// TestRefusedWhileTheAPIServerStarts: kube-apiserver that has just started refuses what it allows as soon as it has read the roles. That
// ends no operation, and a right that is missing does, within half a minute and a little more.
func TestRefusedWhileTheAPIServerStarts(t *testing.T) {
	t.Parallel()
	uncordonOperation := func() v1alpha1.Operation { return v1alpha1.Operation{Type: v1alpha1.OperationUncordon} }
	for _, tt := range []struct {
		name      string
		operation func() v1alpha1.Operation
		after     string // the host was asked for that. Empty: from the beginning
		verb      string
		resource  string
		// fails says so if it is refused for good.
		fails []string
	}{
		{"the Lease of a reboot", func() v1alpha1.Operation { return rebootOperation(v1alpha1.RebootGraceful) }, "Restart", "get", "leases", []string{"Reading the Lease of Node win-1", "stays cordoned until it is ready again"}},
		{"the Node of a configuration", reconfigureOperation, "Apply", "get", "nodes", []string{"The Node cannot be cordoned: "}},
		{"the Lease of a configuration", reconfigureOperation, "Apply", "get", "leases", []string{"Reading the Lease of Node win-1", "stays cordoned until the host is reconfigured with success"}},
		{"a cordon", drainOperation, "", "patch", "nodes", []string{"Cordoning Node win-1", "stays cordoned: drain again, or uncordon it"}},
		{"an uncordon", uncordonOperation, "", "patch", "nodes", []string{"Uncordoning Node win-1"}},
	} {
		for _, lasts := range []time.Duration{5 * time.Second, time.Hour} {
			inBubble(t, fmt.Sprintf("%s, for %s", tt.name, lasts), func(t *testing.T) {
				f := newFixture(t, newInstance(tt.operation()))
				f.configure()
				f.host.impact = config.ImpactRestart
				f.editNode(func(node *corev1.Node) {
					node.Spec.Unschedulable = tt.operation().Type == v1alpha1.OperationUncordon
				})
				var began, told time.Time
				f.onWrite = func(_ bool, i *v1alpha1.WindowsInstance) error {
					if told.IsZero() && !i.Status.Operation.Active() {
						told = time.Now()
					}
					return nil
				}
				f.kube.PrependReactor(tt.verb, tt.resource, func(clienttesting.Action) (bool, kruntime.Object, error) {
					if tt.after != "" && f.host.count(tt.after) == 0 {
						return false, nil, nil
					}
					if began.IsZero() {
						began = time.Now()
					}
					return time.Since(began) < lasts, nil, withoutRight(tt.verb, tt.resource)
				})
				op := f.finish()
				if lasts < forbidden.Patience {
					if op.Phase != v1alpha1.OperationSucceeded || began.IsZero() {
						t.Errorf("it is %s: %s", op.Phase, op.Message)
					}
					return
				}
				for _, want := range append(tt.fails, withoutRight(tt.verb, tt.resource).Error()) {
					if op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, want) {
						t.Errorf("it is %s, and %q is missing: %s", op.Phase, want, op.Message)
					}
				}
				if took := told.Sub(began); took < forbidden.Patience || took > forbidden.Patience+10*time.Second {
					t.Errorf("it was told after %s", took)
				}
			})
		}
	}
}

// TestRetriesOfWhatIsRefused: only a right that is missing may be there soon, and what had another answer meanwhile is waited for again.
func TestRetriesOfWhatIsRefused(t *testing.T) {
	t.Parallel()
	refused := withoutRight("get", "nodes")
	policy := apierrors.NewForbidden(corev1.Resource("nodes"), testNode, errors.New("ValidatingAdmissionPolicy 'a' with binding 'b' denied request: never"))
	for _, tt := range []struct {
		name string
		// answers are what comes of it, the last one again and again, each after the time that it takes.
		answers []error
		takes   []time.Duration
		final   func(error) bool
		want    error
		tries   int
		lasts   time.Duration // at least; and 10 seconds more at most
	}{
		{name: "it is allowed soon", answers: []error{refused, refused, nil}, final: isFinal, tries: 3, lasts: 3 * time.Second},
		{name: "also where an input may be missing", answers: []error{refused, nil}, final: doesNotPass, tries: 2, lasts: time.Second},
		{name: "it is never allowed", answers: []error{refused}, final: isFinal, want: refused, tries: 7, lasts: forbidden.Patience},
		{name: "it was away in between", answers: []error{refused, refused, refused, refused, errors.New("connection refused"), refused}, final: isFinal, want: refused, tries: 9, lasts: 55 * time.Second},
		{name: "a policy", answers: []error{policy}, final: isFinal, want: policy, tries: 1},
		{name: "who asks knows that it is final", answers: []error{finalError{refused}}, final: isFinal, want: refused, tries: 1},
		{name: "it has worked for long in between", answers: []error{refused, refused, nil}, takes: []time.Duration{0, time.Hour}, final: isFinal, tries: 3, lasts: time.Hour},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(drainOperation()))
			began, tries := time.Now(), 0
			err := retryAPI(t.Context(), f.clock, "Asking", tt.final, func() error {
				n := tries
				tries++
				if n < len(tt.takes) {
					<-time.After(tt.takes[n])
				}
				return tt.answers[min(n, len(tt.answers)-1)]
			})
			if took := time.Since(began); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || tries != tt.tries || took < tt.lasts || took > tt.lasts+10*time.Second {
				t.Errorf("got %v after %d tries and %s", err, tries, took)
			}
		})
	}
	inBubble(t, "it was canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := retryAPI(ctx, newFixture(t, newInstance(drainOperation())).clock, "Asking", isFinal, func() error {
			cancel(errCanceled)
			return refused
		})
		if !errors.Is(err, errCanceled) {
			t.Errorf("got %v", err)
		}
	})
}
