// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Who has a right to all objects is asked about it once and not for each of them; who has it to some still has it to these only.
func TestWideAuthorizer(t *testing.T) {
	for _, tt := range []struct {
		name    string
		user    string
		group   string
		verb    string
		rights  []string // user verb namespace/name
		err     error
		allowed bool
		asked   []string
	}{
		{
			name: "all", user: controller, group: v1alpha1.GroupName, verb: "update", rights: []string{controller + " update /"}, allowed: true,
			asked: []string{controller + " update /"},
		},
		{
			name: "one", user: controller, group: v1alpha1.GroupName, verb: "update", rights: []string{controller + " update ns/a"}, allowed: true,
			asked: []string{controller + " update /", controller + " update ns/a"},
		},
		{
			name: "another verb to all", user: controller, group: v1alpha1.GroupName, verb: "delete", rights: []string{controller + " update /"},
			asked: []string{controller + " delete /", controller + " delete ns/a"},
		},
		{
			name: "no answer about all", user: controller, group: v1alpha1.GroupName, verb: "update", rights: []string{controller + " update ns/a"}, err: errors.New("away"), allowed: true,
			asked: []string{controller + " update /", controller + " update ns/a"},
		},
		{name: "another user", user: jane, group: v1alpha1.GroupName, verb: "update", rights: []string{jane + " update ns/a"}, allowed: true, asked: []string{jane + " update ns/a"}},
		{name: "another API", user: controller, verb: "update", asked: []string{controller + " update ns/a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked []string
			a := wideAuthorizer{users: []string{controller}, Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetResource() != "windowsinstances" || a.GetSubresource() != "status" || !a.IsResourceRequest() || a.GetAPIGroup() != tt.group {
					t.Errorf("asked about %+v", a)
				}
				question := strings.Join([]string{a.GetUser().GetName(), a.GetVerb(), a.GetNamespace() + "/" + a.GetName()}, " ")
				asked = append(asked, question)
				switch {
				case tt.err != nil && a.GetName() == "":
					return authorizer.DecisionNoOpinion, "", tt.err
				case slices.Contains(tt.rights, question):
					return authorizer.DecisionAllow, "", nil
				}
				return authorizer.DecisionNoOpinion, "", nil
			})}
			decision, _, err := a.Authorize(t.Context(), authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: tt.user}, Verb: tt.verb, Namespace: "ns", APIGroup: tt.group, APIVersion: "v1alpha1",
				Resource: "windowsinstances", Subresource: "status", Name: "a", ResourceRequest: true,
			})
			if err != nil || (decision == authorizer.DecisionAllow) != tt.allowed {
				t.Errorf("got %v, %v; want allowed: %t", decision, err, tt.allowed)
			}
			if !slices.Equal(asked, tt.asked) {
				t.Errorf("asked %q, want %q", asked, tt.asked)
			}
		})
	}
}
