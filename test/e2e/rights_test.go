// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openshift/windows-instance-api/test/system"
)

// rights are what our programs needed in all systems of the tests.
var rights struct {
	sync.Mutex
	used []system.Right
	// refusals are those that tests want.
	refusals []wantedRefusal
}

// wantedRefusal is one that a test wants. Fields of the right that are empty stand for everything.
type wantedRefusal struct {
	system *system.System
	right  system.Right
	// from and until bound when it is refused; zero: they do not.
	from, until time.Time
}

// wants says whether it is this one.
func (w wantedRefusal) wants(s *system.System, refused system.Refusal) bool {
	return w.system == s && !refused.First.Before(w.from) && (w.until.IsZero() || refused.Last.Before(w.until)) && allows(w.right, refused.Right)
}

func want(w wantedRefusal) {
	rights.Lock()
	defer rights.Unlock()
	rights.refusals = append(rights.refusals, w)
}

// wantSecretsRefused says that nobody lets our programs read the Secrets of a namespace, or not yet, because
// the test is about that. Refusals that no test wants fail the suite.
func wantSecretsRefused(s *system.System, namespace string) {
	want(wantedRefusal{system: s, right: system.Right{Verb: "get", Resource: "secrets", Namespace: namespace}})
}

// wantRefusedIn says that a namespace is about to be deleted, with roles of our programs.
func wantRefusedIn(s *system.System, namespace string) {
	want(wantedRefusal{system: s, right: system.Right{Namespace: namespace}, from: time.Now()})
}

// wantRefusedUntilNow says that kube-apiserver was started again: until it has read the roles, it refuses
// what they allow.
func wantRefusedUntilNow(s *system.System) {
	want(wantedRefusal{system: s, until: time.Now()})
}

// checkRefusals returns an error if our programs asked a system for what the manifests do not let them,
// and no test wanted that: either they should not ask, or artifacts/rbac lacks a rule. It is called when
// the system is about to stop.
func checkRefusals(s *system.System) error {
	used, refused, err := s.Requests()
	if err == nil && len(used) == 0 {
		err = errors.New("our programs asked for nothing: it is not recorded")
	}
	if err != nil {
		return err
	}
	rights.Lock()
	defer rights.Unlock()
	rights.used = append(rights.used, used...)
	var unwanted []string
	for _, refusal := range refused {
		if !slices.ContainsFunc(rights.refusals, func(w wantedRefusal) bool { return w.wants(s, refusal) }) {
			unwanted = append(unwanted, refusal.String())
		}
	}
	if len(unwanted) > 0 {
		return fmt.Errorf("our programs asked for what artifacts/rbac does not let them, and no test wants that (test/e2e/rights_test.go):\n%s", strings.Join(unwanted, "\n"))
	}
	return nil
}

// checkRights is called when all tests are over, with what they said.
func checkRights(ctx context.Context, code int) error {
	given, err := sys.Rights(ctx)
	if err != nil {
		return fmt.Errorf("reading the rights of our programs: %w", err)
	}
	refusals := checkRefusals(sys)
	unused := slices.DeleteFunc(given, func(r system.Right) bool { return slices.ContainsFunc(rights.used, r.Allows) })
	if name := os.Getenv("E2E_RIGHTS"); name != "" {
		if err := os.WriteFile(name, []byte(lines(unused)), 0o600); err != nil {
			return fmt.Errorf("writing the rights of our programs: %w", err)
		}
	}
	// Tests that did not run, or not to their end, have not used what they use.
	whole := os.Getenv("E2E_RIGHTS") != "" && code == 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == ""
	if unused = slices.DeleteFunc(unused, needed); whole && len(unused) > 0 {
		return errors.Join(refusals, fmt.Errorf("no test has had our programs use these rights of artifacts: remove them, or say in test/e2e/rights_test.go who needs them:\n%s", lines(unused)))
	}
	return refusals
}

func lines(rights []system.Right) string {
	var text strings.Builder
	for _, r := range rights {
		fmt.Fprintln(&text, r)
	}
	return text.String()
}

// neededUnused are rights that our programs need, and that the tests do not show. Fields that are empty
// stand for everything.
var neededUnused = []struct {
	why    string
	rights []system.Right
}{
	{
		why: "kube-apiserver asks for these itself while it serves another request, and does not record that",
		rights: []system.Right{
			{Account: "windows-apiserver", Verb: "create", Resource: "apiservices", Name: "v1alpha1.windows.openshift.io"}, // an apply that creates: TestServingCertificate
			{Account: "windows-apiserver", Verb: "create", Resource: "secrets", Name: "windows-apiserver-serving-cert"},    // likewise
			{Account: "windows-controller", Verb: "create", Resource: "secrets", Name: "windows-user-data"},                // likewise: TestOpenShift
			{Account: "windows-controller", Verb: "approve", Resource: "signers"},                                          // an approval: TestCertificatesOfKubelets
		},
	},
	{
		why: "they are read where there is nothing else that says it: kubeadm-config and cluster-info do in these clusters",
		rights: []system.Right{
			{Verb: "get", Resource: "configmaps", Name: "kube-root-ca.crt"},
			{Verb: "get", Resource: "servicecidrs", Name: "kubernetes"},
		},
	},
	{
		why: "the desired configuration of hosts on Azure is read from it",
		rights: []system.Right{
			{Verb: "get", Resource: "secrets", Name: "windows-instance-config-daemon"},
			{Verb: "list", Resource: "secrets", Name: "windows-instance-config-daemon"},
			{Verb: "watch", Resource: "secrets", Name: "windows-instance-config-daemon"},
		},
	},
	{
		why: "they are for what no test waits for",
		rights: []system.Right{
			{Verb: "patch", Resource: "events"},                                           // the same event again
			{Account: "windows-apiserver", Verb: "patch", Resource: "flowschemas/status"}, // a priority level is created or deleted
			{Account: "windows-apiserver", Verb: "update", Resource: "secrets", Namespace: system.Namespace, Name: "windows-apiserver-serving-cert"}, // after two years: TestRenew
			{Account: "windows-controller", Verb: "delete", Resource: "configmaps", Namespace: system.Namespace},                                     // windows-services of another release
			{Account: "windows-controller", Verb: "delete", Group: "machine.openshift.io", Resource: "machines"},                                     // after five minutes: TestMachineIsReplacedOnce
			{Account: "windows-controller", Verb: "list", Resource: "poddisruptionbudgets"},                                                          // a refusal that does not name its budget
		},
	},
}

// needed says whether our programs need a right that no test has had them use.
func needed(r system.Right) bool {
	// Where kube-apiserver streams no lists, a watch begins with one.
	if watch := r; r.Verb == "list" {
		watch.Verb = "watch"
		if slices.ContainsFunc(rights.used, watch.Allows) {
			return true
		}
	}
	for _, group := range neededUnused {
		for _, n := range group.rights {
			if allows(n, r) {
				return true
			}
		}
	}
	return false
}

// allows compares rights. Fields of the first one that are empty stand for everything.
func allows(pattern, r system.Right) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return is(pattern.Account, r.Account) && is(pattern.Verb, r.Verb) && is(pattern.Group, r.Group) && is(pattern.Resource, r.Resource) &&
		is(pattern.Namespace, r.Namespace) && is(pattern.Name, r.Name)
}
