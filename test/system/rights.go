// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package system

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// accountPrefix is how the names of the users begin that our programs are.
const accountPrefix = "system:serviceaccount:" + Namespace + ":"

// auditPolicy records what our programs ask kube-apiserver for. What windows-apiserver asks it
// about the rights of windows-controller is recorded with the answer: some rights are looked at
// by windows-apiserver only.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  users: [` + accountPrefix + serviceName + `]
  resources: [{group: authorization.k8s.io, resources: [subjectaccessreviews]}]
- level: Metadata
  users: [` + accountPrefix + serviceName + `, ` + accountPrefix + controllerName + `]
- level: None
`

// A Right is what a rule of a role allows, apart: one verb, for one resource.
type Right struct {
	// Account is the name of the ServiceAccount.
	Account string
	// Verb, Group and Resource are as in a rule; subresources follow a slash.
	Verb, Group, Resource string
	// Namespace is where it may be used. Empty: everywhere.
	Namespace string
	// Name is that of the only object it is for. Empty: for any.
	Name string
}

// String is how a person would say it.
func (r Right) String() string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	s := fmt.Sprintf("%s: %s %s", r.Account, r.Verb, resource)
	if r.Name != "" {
		s += " " + r.Name
	}
	if r.Namespace != "" {
		s += " in " + r.Namespace
	}
	return s
}

// allows says whether a request that needs the right other needs this one.
func (r Right) allows(other Right) bool {
	return r.Account == other.Account && r.Verb == other.Verb && r.Group == other.Group && r.Resource == other.Resource &&
		(r.Namespace == "" || r.Namespace == other.Namespace) && (r.Name == "" || r.Name == other.Name)
}

// Rights tells which rights that the manifests give to our programs none has used so far, and
// what they asked for without a right to it. It needs [Options.RecordRights].
func (s *System) Rights(ctx context.Context) (unused, refused []Right, err error) {
	used, refused, err := s.requests()
	if err != nil {
		return nil, nil, fmt.Errorf("reading what our programs asked for: %w", err)
	}
	given, err := s.given(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the rights of our programs: %w", err)
	}
	for _, g := range given {
		if !slices.ContainsFunc(used, g.allows) {
			unused = append(unused, g)
		}
	}
	return unused, refused, nil
}

// requests returns the rights that requests needed: those that were there, and those that were not.
func (s *System) requests() (used, refused []Right, err error) {
	files, err := s.AuditLogs()
	if err != nil {
		return nil, nil, err
	}
	allowed, forbidden := map[Right]bool{}, map[Right]bool{}
	for _, name := range files {
		if err := readAuditLog(name, allowed, forbidden); err != nil {
			return nil, nil, err
		}
	}
	return sorted(allowed), sorted(forbidden), nil
}

func readAuditLog(name string, allowed, forbidden map[Right]bool) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	for decoder := json.NewDecoder(file); ; {
		var e auditv1.Event
		// kube-apiserver may be writing the last one.
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		account, ours := strings.CutPrefix(e.User.Username, accountPrefix)
		if o := e.ObjectRef; ours && o != nil {
			right := Right{Account: account, Verb: e.Verb, Group: o.APIGroup, Resource: withSubresource(o.Resource, o.Subresource), Namespace: o.Namespace, Name: o.Name}
			switch e.Annotations["authorization.k8s.io/decision"] {
			case "allow":
				allowed[right] = true
			case "forbid":
				forbidden[right] = true
			}
		}
		if right, ok := asked(e); ok {
			allowed[right] = true
		}
	}
}

// asked returns the right of our account that a SubjectAccessReview found to be there.
func asked(e auditv1.Event) (Right, bool) {
	if e.ResponseObject == nil || e.ObjectRef == nil || e.ObjectRef.Resource != "subjectaccessreviews" {
		return Right{}, false
	}
	var review authorizationv1.SubjectAccessReview
	if err := json.Unmarshal(e.ResponseObject.Raw, &review); err != nil || !review.Status.Allowed || review.Spec.ResourceAttributes == nil {
		return Right{}, false
	}
	account, ours := strings.CutPrefix(review.Spec.User, accountPrefix)
	a := review.Spec.ResourceAttributes
	return Right{Account: account, Verb: a.Verb, Group: a.Group, Resource: withSubresource(a.Resource, a.Subresource), Namespace: a.Namespace, Name: a.Name}, ours
}

// given returns the rights of our accounts by roles of ours.
func (s *System) given(ctx context.Context) ([]Right, error) {
	rbac := s.Kube.RbacV1()
	clusterBindings, err := rbac.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	bindings, err := rbac.RoleBindings(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, b := range clusterBindings.Items {
		bindings.Items = append(bindings.Items, rbacv1.RoleBinding{Subjects: b.Subjects, RoleRef: b.RoleRef})
	}
	rights := map[Right]bool{}
	for _, b := range bindings.Items {
		// Those of Kubernetes are for every program of a kind.
		if !strings.HasPrefix(b.RoleRef.Name, "windows-") {
			continue
		}
		var rules []rbacv1.PolicyRule
		if b.RoleRef.Kind == "ClusterRole" {
			role, err := rbac.ClusterRoles().Get(ctx, b.RoleRef.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			rules = role.Rules
		} else {
			role, err := rbac.Roles(b.Namespace).Get(ctx, b.RoleRef.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			rules = role.Rules
		}
		for _, subject := range b.Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == Namespace {
				for _, rule := range rules {
					split(rule, Right{Account: subject.Name, Namespace: b.Namespace}, rights)
				}
			}
		}
	}
	return sorted(rights), nil
}

// split adds each right of the rule; whose and where are those of base.
func split(rule rbacv1.PolicyRule, base Right, rights map[Right]bool) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					right := base
					right.Verb, right.Group, right.Resource, right.Name = verb, group, resource, name
					rights[right] = true
				}
			}
		}
	}
}

func withSubresource(resource, subresource string) string {
	if subresource == "" {
		return resource
	}
	return resource + "/" + subresource
}

func sorted(rights map[Right]bool) []Right {
	list := make([]Right, 0, len(rights))
	for r := range rights {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Right) int { return cmp.Compare(a.String(), b.String()) })
	return list
}
