// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"context"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	typed "github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned/typed/windows/v1alpha1"
)

// scriptedPlanner plans one change for every host but the one that nobody can reach.
type scriptedPlanner struct{}

func (scriptedPlanner) Plan(_ context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error) {
	if instance.Name == "action-dead" {
		return nil, apierrors.NewServiceUnavailable("Connect: connection refused")
	}
	return []v1alpha1.PlannedChange{{Kind: "File", Name: "agent.exe", Action: "Create", Impact: v1alpha1.ImpactNone}}, nil
}

// testActions checks what is recorded of an action, and what is refused.
func testActions(t *testing.T, s *testServer) {
	client := s.client(t, jane).WindowsInstances("default")
	created := mustKnow(t, client, newInstance("action", "10.0.9.1"))
	path := groupPath + "/namespaces/default/windowsinstances/action/"

	t.Run("dry run", func(t *testing.T) {
		answer, err := client.Drain(t.Context(), "action", &v1alpha1.WindowsInstanceDrain{}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || answer.Status.Operation == nil || answer.Status.Operation.Type != v1alpha1.OperationDrain {
			t.Errorf("got %+v, %v", answer, err)
		}
		if instance := get(t, client, "action"); instance.Status.Operation != nil {
			t.Errorf("a dry run was recorded: %+v", instance.Status.Operation)
		}
		plan, err := client.Reconfigure(t.Context(), "action", &v1alpha1.WindowsInstanceReconfigure{}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || len(plan.Status.Plan) != 1 || plan.Status.Plan[0].Name != "agent.exe" {
			t.Errorf("got the plan %+v, %v", plan, err)
		}
		mustKnow(t, client, newInstance("action-dead", "10.0.9.2"))
		if _, err := client.Reconfigure(t.Context(), "action-dead", &v1alpha1.WindowsInstanceReconfigure{}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("a plan for a dead host: got %v, want 503", err)
		}
	})

	t.Run("refused", func(t *testing.T) {
		other := types.UID("other")
		for _, test := range []struct {
			name, subresource, body string
			code                    int
			want                    string
		}{
			{"no body", "drain", ``, http.StatusBadRequest, ""},
			{"another kind", "drain", `{"apiVersion":"windows.openshift.io/v1alpha1","kind":"WindowsInstanceReboot"}`, http.StatusBadRequest, ""},
			{"another name", "drain", `{"kind":"WindowsInstanceDrain","apiVersion":"windows.openshift.io/v1alpha1","metadata":{"name":"else"}}`, http.StatusUnprocessableEntity, "metadata.name"},
			{"negative grace", "drain", `{"kind":"WindowsInstanceDrain","apiVersion":"windows.openshift.io/v1alpha1","spec":{"gracePeriodSeconds":-1}}`, http.StatusUnprocessableEntity, "spec.gracePeriodSeconds"},
			{"bad selector", "drain", `{"kind":"WindowsInstanceDrain","apiVersion":"windows.openshift.io/v1alpha1","spec":{"podSelector":"a in b"}}`, http.StatusUnprocessableEntity, "spec.podSelector"},
			{"precondition", "drain", `{"kind":"WindowsInstanceDrain","apiVersion":"windows.openshift.io/v1alpha1","spec":{"preconditions":{"uid":"` + string(other) + `"}}}`, http.StatusConflict, "asks for UID other"},
			{"unknown mode", "reboot", `{"kind":"WindowsInstanceReboot","apiVersion":"windows.openshift.io/v1alpha1","spec":{"mode":"Hard"}}`, http.StatusUnprocessableEntity, "spec.mode"},
			{"no time to come back", "reboot", `{"kind":"WindowsInstanceReboot","apiVersion":"windows.openshift.io/v1alpha1","spec":{"timeoutSeconds":0}}`, http.StatusUnprocessableEntity, "spec.timeoutSeconds"},
			{"force and drain", "reboot", `{"kind":"WindowsInstanceReboot","apiVersion":"windows.openshift.io/v1alpha1","spec":{"mode":"Force","drain":{}}}`, http.StatusUnprocessableEntity, "spec.drain"},
			{"bad selector of a reboot", "reboot", `{"kind":"WindowsInstanceReboot","apiVersion":"windows.openshift.io/v1alpha1","spec":{"drain":{"podSelector":"a in b"}}}`, http.StatusUnprocessableEntity, "spec.drain.podSelector"},
			{"cancel nothing", "cancel", `{"kind":"WindowsInstanceCancel","apiVersion":"windows.openshift.io/v1alpha1","spec":{}}`, http.StatusUnprocessableEntity, "spec.operationID"},
			{"cancel what never was", "cancel", `{"kind":"WindowsInstanceCancel","apiVersion":"windows.openshift.io/v1alpha1","spec":{"operationID":"x"}}`, http.StatusConflict, "never had any"},
		} {
			t.Run(test.name, func(t *testing.T) {
				answer := s.do(t, http.MethodPost, path+test.subresource, test.body)
				if answer.code != test.code || !strings.Contains(answer.body, test.want) {
					t.Errorf("got %d %s, want %d with %q", answer.code, answer.body, test.code, test.want)
				}
			})
		}
		if answer := s.do(t, http.MethodPost, groupPath+"/namespaces/default/windowsinstances/nobody/drain", `{"kind":"WindowsInstanceDrain","apiVersion":"windows.openshift.io/v1alpha1"}`); answer.code != http.StatusNotFound {
			t.Errorf("an unknown instance: got %d", answer.code)
		}
		if instance := get(t, client, "action"); instance.Status.Operation != nil {
			t.Errorf("a refused action was recorded: %+v", instance.Status.Operation)
		}
	})

	// The plugin puts these answers into words, see describeUnknown there.
	t.Run("unknown fields", func(t *testing.T) {
		pools := s.client(t, controller).WindowsNodePools("default")
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "strict"}, Spec: v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{ConfigMap: &v1alpha1.SourceReference{Name: "strict"}}}}
		if _, err := pools.Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		post := func(kind string) (method, body, contentType string) {
			return http.MethodPost, `{"apiVersion":"windows.openshift.io/v1alpha1","kind":"WindowsInstance` + kind + `","spec":{"later":1}}`, "application/json"
		}
		patch := func(string) (method, body, contentType string) {
			return http.MethodPatch, `{"spec":{"later":1}}`, "application/merge-patch+json"
		}
		for _, test := range []struct {
			path, kind string
			request    func(kind string) (method, body, contentType string)
			code       int
		}{
			{"windowsinstances/action/drain", "Drain", post, http.StatusBadRequest},
			{"windowsinstances/action/uncordon", "Uncordon", post, http.StatusBadRequest},
			{"windowsinstances/action/reboot", "Reboot", post, http.StatusBadRequest},
			{"windowsinstances/action/reconfigure", "Reconfigure", post, http.StatusBadRequest},
			{"windowsinstances/action/adopt", "Adopt", post, http.StatusBadRequest},
			{"windowsinstances/action/release", "Release", post, http.StatusBadRequest},
			{"windowsinstances/action/cancel", "Cancel", post, http.StatusBadRequest},
			{"windowsinstances/action/check", "Check", post, http.StatusBadRequest},
			{"windowsinstances/action", "", patch, http.StatusUnprocessableEntity},
			{"windowsnodepools/strict", "", patch, http.StatusUnprocessableEntity},
		} {
			method, body, contentType := test.request(test.kind)
			answer := s.do(t, method, groupPath+"/namespaces/default/"+test.path+"?fieldValidation=Strict", body, "Content-Type", contentType)
			want := `strict decoding error: unknown field "spec.later"`
			if test.kind == "Check" { // it has no spec
				want = `strict decoding error: unknown field "spec"`
			}
			if answer.code != test.code || !strings.HasSuffix(answer.status(t).Message, want) {
				t.Errorf("%s: got %d %s, want %d with %s", test.path, answer.code, answer.body, test.code, want)
			}
		}
		if instance := get(t, client, "action"); instance.Status.Operation != nil || instance.Generation != created.Generation {
			t.Errorf("it was changed: %+v", instance)
		}
	})

	t.Run("recorded", func(t *testing.T) {
		answer, err := client.Reboot(t.Context(), "action", &v1alpha1.WindowsInstanceReboot{
			Spec: v1alpha1.WindowsInstanceRebootSpec{Preconditions: &metav1.Preconditions{UID: &created.UID}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		o := get(t, client, "action").Status.Operation
		switch {
		case o == nil || o.ID != answer.Status.Operation.ID:
			t.Fatalf("the answer names %+v, recorded is %+v", answer.Status.Operation, o)
		case o.Phase != v1alpha1.OperationPending || o.RequestedBy != jane || o.Origin != v1alpha1.OriginUser || o.RequestedAt.IsZero():
			t.Errorf("recorded is %+v", o)
		case o.Reboot == nil || o.Reboot.Mode != v1alpha1.RebootGraceful || *o.Reboot.TimeoutSeconds != 1200:
			t.Errorf("the defaults of a reboot are not recorded: %+v", o.Reboot)
		case o.Drain == nil || *o.Drain.TimeoutSeconds != 600 || !*o.Drain.IgnoreDaemonSets:
			t.Errorf("the defaults of its drain are not recorded: %+v", o.Drain)
		}
		_, err = s.client(t, admin).WindowsInstances("default").Uncordon(t.Context(), "action", &v1alpha1.WindowsInstanceUncordon{}, metav1.CreateOptions{})
		if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), o.ID) || !strings.Contains(err.Error(), jane) {
			t.Errorf("a second operation: got %v, want a conflict that names %s and %s", err, o.ID, jane)
		}
		if _, err := s.client(t, admin).WindowsInstances("default").Cancel(t.Context(), "action", &v1alpha1.WindowsInstanceCancel{
			Spec: v1alpha1.WindowsInstanceCancelSpec{OperationID: o.ID},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if o := get(t, client, "action").Status.Operation; o.CancelRequestedBy != admin || o.CancelRequestedAt == nil {
			t.Errorf("the end was not asked for: %+v", o)
		}
	})

	t.Run("replaced", func(t *testing.T) {
		instance := get(t, client, "action")
		first := instance.Status.Operation.ID
		instance.Status.Operation.Phase = v1alpha1.OperationCanceled
		if _, err := s.client(t, controller).WindowsInstances("default").UpdateStatus(t.Context(), instance, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		answer, err := client.Uncordon(t.Context(), "action", &v1alpha1.WindowsInstanceUncordon{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		after := get(t, client, "action").Status
		if after.Operation.ID != answer.Status.Operation.ID || len(after.History) != 1 || after.History[0].ID != first {
			t.Errorf("got operation %+v and history %+v", after.Operation, after.History)
		}
	})
}

func get(t *testing.T, client typed.WindowsInstanceInterface, name string) *v1alpha1.WindowsInstance {
	t.Helper()
	instance, err := client.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return instance
}
