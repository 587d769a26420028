// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// The authorizer is in the way of every request.
func TestAuthorizerIsUsed(t *testing.T) {
	o := NewOptions()
	o.ControllerUsers = []string{controller}
	o.Recommended.SecureServing, o.Recommended.Authentication, o.Recommended.CoreAPI, o.Recommended.Admission = nil, nil, nil, nil
	o.Recommended.Features.EnablePriorityAndFairness = false
	o.Recommended.Authorization.RemoteKubeConfigFileOptional = true
	config, err := o.Config([]string{"unix:///nobody"})
	if err != nil {
		t.Fatal(err)
	}
	a, ok := config.Generic.Authorization.Authorizer.(allObjectsAuthorizer)
	if !ok || !slices.Equal(a.users, o.ControllerUsers) || a.Authorizer == nil {
		t.Errorf("requests are authorized by %#v", config.Generic.Authorization.Authorizer)
	}
}

// Who has a right to all objects is asked about it once and not for each of them; who has it to some still has it to these only.
func TestAllObjectsAuthorizer(t *testing.T) {
	for _, tt := range []struct {
		name  string
		user  string
		group string
		// resource is windowsinstances where it is empty.
		resource string
		verb     string
		rights   []string // user verb namespace/name
		err      error
		allowed  bool
		asked    []string
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
			name: "no answer about all", user: controller, group: v1alpha1.GroupName, verb: "update", rights: []string{controller + " update ns/a"}, err: errors.New("away"),
			asked: []string{controller + " update /"},
		},
		{name: "another user", user: jane, group: v1alpha1.GroupName, verb: "update", rights: []string{jane + " update ns/a"}, allowed: true, asked: []string{jane + " update ns/a"}},
		{
			name: "a right that is given by name", user: controller, group: v1alpha1.GroupName, resource: "windowscredentials", verb: "use", rights: []string{controller + " use ns/a"}, allowed: true,
			asked: []string{controller + " use ns/a"},
		},
		{name: "another API", user: controller, verb: "update", asked: []string{controller + " update ns/a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked []string
			resource := cmp.Or(tt.resource, "windowsinstances")
			a := allObjectsAuthorizer{users: []string{controller}, Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetResource() != resource || a.GetSubresource() != "status" || !a.IsResourceRequest() || a.GetAPIGroup() != tt.group {
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
				Resource: resource, Subresource: "status", Name: "a", ResourceRequest: true,
			})
			if !errors.Is(err, tt.err) || (decision == authorizer.DecisionAllow) != tt.allowed {
				t.Errorf("got %v, %v; want allowed: %t", decision, err, tt.allowed)
			}
			if !slices.Equal(asked, tt.asked) {
				t.Errorf("asked %q, want %q", asked, tt.asked)
			}
		})
	}
}
