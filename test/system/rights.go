// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package system

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"
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

// Allows says whether a request that needs the right other needs this one.
func (r Right) Allows(other Right) bool {
	return r.Account == other.Account && r.Verb == other.Verb && r.Group == other.Group && r.Resource == other.Resource &&
		(r.Namespace == "" || r.Namespace == other.Namespace) && (r.Name == "" || r.Name == other.Name)
}

// A Refusal is a right that a program does not have, and when it first and last asked for what needs it.
type Refusal struct {
	Right

	First, Last time.Time
}

// Requests returns the rights that our programs have used so far, and what they were refused.
func (s *System) Requests() (used []Right, refused []Refusal, err error) {
	files, err := s.AuditLogs()
	if err != nil {
		return nil, nil, fmt.Errorf("finding what our programs asked for: %w", err)
	}
	allowed, forbidden := map[Right]bool{}, map[Right]Refusal{}
	for _, name := range files {
		if err := readAuditLog(name, allowed, forbidden); err != nil {
			return nil, nil, fmt.Errorf("reading what our programs asked for: %w", err)
		}
	}
	for _, right := range sorted(forbidden) {
		refused = append(refused, forbidden[right])
	}
	return sorted(allowed), refused, nil
}

func readAuditLog(name string, allowed map[Right]bool, forbidden map[Right]Refusal) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // what follows is being written
		}
		if err != nil {
			return err
		}
		if !json.Valid(line) {
			continue // kube-apiserver was killed while it wrote that
		}
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		right, is, ok := requested(e)
		switch {
		case ok && is:
			allowed[right] = true
		case ok:
			refusal, again := forbidden[right]
			if !again {
				refusal = Refusal{Right: right, First: e.RequestReceivedTimestamp.Time}
			}
			refusal.Last = e.RequestReceivedTimestamp.Time
			forbidden[right] = refusal
		}
	}
}

// requested returns the right of our account that an event is about, and whether it is there.
func requested(e auditv1.Event) (right Right, is, ok bool) {
	if right, is, ok = asked(e); ok {
		return right, is, ok
	}
	account, ours := strings.CutPrefix(e.User.Username, accountPrefix)
	// Tests, too, act as our accounts: to see that they are refused.
	if o := e.ObjectRef; ours && o != nil && strings.HasPrefix(e.UserAgent, account+"/") {
		right = Right{Account: account, Verb: e.Verb, Group: o.APIGroup, Resource: withSubresource(o.Resource, o.Subresource), Namespace: o.Namespace, Name: o.Name}
		decision := e.Annotations["authorization.k8s.io/decision"]
		return right, decision == "allow", decision != ""
	}
	return Right{}, false, false
}

// asked returns the right of our account that a SubjectAccessReview was about, and whether it is there.
func asked(e auditv1.Event) (right Right, is, ok bool) {
	if e.ResponseObject == nil || e.ObjectRef == nil || e.ObjectRef.Resource != "subjectaccessreviews" {
		return Right{}, false, false
	}
	var review authorizationv1.SubjectAccessReview
	if err := json.Unmarshal(e.ResponseObject.Raw, &review); err != nil || review.Spec.ResourceAttributes == nil {
		return Right{}, false, false
	}
	account, ours := strings.CutPrefix(review.Spec.User, accountPrefix)
	a := review.Spec.ResourceAttributes
	return Right{Account: account, Verb: a.Verb, Group: a.Group, Resource: withSubresource(a.Resource, a.Subresource), Namespace: a.Namespace, Name: a.Name}, review.Status.Allowed, ours
}

// Rights returns what the manifests for OpenShift, which are those with the most rights, let our
// programs do.
func (s *System) Rights(ctx context.Context) ([]Right, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return nil, err
	}
	rendered, err := s.Kubectl(ctx, "kustomize", filepath.Join(root, "artifacts", "openshift"))
	if err != nil {
		return nil, err
	}
	rights := map[Right]bool{}
	objects := strings.Split(rendered, "\n---\n")
	for _, text := range objects {
		var b rbacv1.RoleBinding // that of a whole cluster has the same fields
		if err := yaml.Unmarshal([]byte(text), &b); err != nil {
			return nil, fmt.Errorf("decoding the manifests: %w", err)
		}
		if b.Kind != "RoleBinding" && b.Kind != "ClusterRoleBinding" {
			continue
		}
		for _, role := range objects {
			var r rbacv1.Role
			if err := yaml.Unmarshal([]byte(role), &r); err != nil {
				return nil, fmt.Errorf("decoding the manifests: %w", err)
			}
			if r.Kind != b.RoleRef.Kind || r.Name != b.RoleRef.Name || r.Namespace != "" && r.Namespace != b.Namespace {
				continue
			}
			for _, subject := range b.Subjects {
				for _, rule := range r.Rules {
					if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == Namespace {
						split(rule, Right{Account: subject.Name, Namespace: b.Namespace}, rights)
					}
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

func sorted[V any](rights map[Right]V) []Right {
	return slices.SortedFunc(maps.Keys(rights), func(a, b Right) int { return cmp.Compare(a.String(), b.String()) })
}
