// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package base

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

func TestAuthorizeCredentials(t *testing.T) {
	jane := &user.DefaultInfo{Name: "jane"}
	asJane := genericapirequest.WithUser(context.Background(), jane)
	ofSecret := &authorizer.AttributesRecord{User: jane, Verb: "get", Namespace: "ns", APIVersion: "v1", Resource: "secrets", Name: "s", ResourceRequest: true}
	clusterWide := &authorizer.AttributesRecord{User: jane, Verb: "use", Namespace: "ns", APIGroup: "windows.openshift.io", APIVersion: "v1alpha1", Resource: "windowscredentials", Name: "cluster", ResourceRequest: true}
	for _, test := range []struct {
		name     string
		ctx      context.Context //nolint:containedctx // a row of a table
		secret   string
		decision authorizer.Decision
		reason   string
		err      error
		asked    *authorizer.AttributesRecord
		code     int32 // 0: allowed
		want     string
	}{
		{"Secret", asJane, "s", authorizer.DecisionAllow, "", nil, ofSecret, 0, ""},
		{"cluster-wide key", asJane, "", authorizer.DecisionAllow, "", nil, clusterWide, 0, ""},
		{"Secret, no role", asJane, "s", authorizer.DecisionNoOpinion, "", nil, ofSecret, 403, `the verb get on secrets "s" in namespace "ns" (no role grants it)`},
		{"cluster-wide key, no role", asJane, "", authorizer.DecisionNoOpinion, "", nil, clusterWide, 403, `the verb use on windowscredentials.windows.openshift.io "cluster" in namespace "ns"`},
		{"denied", asJane, "", authorizer.DecisionDeny, "policy says no", nil, clusterWide, 403, "(policy says no)"},
		{"nobody", context.Background(), "s", authorizer.DecisionAllow, "", nil, nil, 403, "no user"},
		{"no answer", asJane, "s", authorizer.DecisionAllow, "", errors.New("webhook is gone"), ofSecret, 500, "webhook is gone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var asked *authorizer.AttributesRecord
			a := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				record := a.(authorizer.AttributesRecord)
				asked = &record
				return test.decision, test.reason, test.err
			})
			object := &metav1.ObjectMeta{Namespace: "ns", Name: "w"}
			err := AuthorizeCredentials(test.ctx, a, schema.GroupResource{Group: "windows.openshift.io", Resource: "windowsinstances"}, object, test.secret)
			if diff := cmp.Diff(test.asked, asked, cmp.AllowUnexported(authorizer.AttributesRecord{})); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if test.code == 0 {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code != test.code || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want code %d with %q", err, test.code, test.want)
			}
		})
	}
}
