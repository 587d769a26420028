// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// event is what kube-apiserver writes about a request to get Nodes.
func event(account, agent, decision, at string) string {
	return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"get","user":{"username":"system:serviceaccount:` + Namespace + `:` + account + `"},
		"userAgent":"` + agent + `","objectRef":{"resource":"nodes","name":"linux","apiVersion":"v1"},
		"requestReceivedTimestamp":"2026-01-02T03:04:0` + at + `.000000Z","annotations":{"authorization.k8s.io/decision":"` + decision + `"}}`
}

// review is what it writes about a question of windows-apiserver: whether the controller may use the key.
func review(allowed string) string {
	return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"create","user":{"username":"system:serviceaccount:` + Namespace + `:windows-apiserver"},
		"userAgent":"windows-apiserver/v1","objectRef":{"resource":"subjectaccessreviews","apiGroup":"authorization.k8s.io"},"requestReceivedTimestamp":"2026-01-02T03:04:05.000000Z",
		"responseObject":{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"user":"system:serviceaccount:` + Namespace + `:windows-controller",
		"resourceAttributes":{"verb":"use","group":"windows.openshift.io","resource":"windowscredentials","name":"cluster"}},"status":{"allowed":` + allowed + `}}}`
}

func TestReadAuditLog(t *testing.T) {
	const controller = "windows-controller"
	nodes := Right{Account: controller, Verb: "get", Resource: "nodes", Name: "linux"}
	key := Right{Account: controller, Verb: "use", Group: "windows.openshift.io", Resource: "windowscredentials", Name: "cluster"}
	for _, test := range []struct {
		name   string
		events []string

		used, refused []Right
		lasts         int // seconds from the first refusal to the last
	}{
		{"allowed", []string{event(controller, "windows-controller/v1", "allow", "5")}, []Right{nodes}, nil, 0},
		{"refused", []string{event(controller, "windows-controller/v1 leader-election", "forbid", "5")}, nil, []Right{nodes}, 0},
		{"refused again", []string{event(controller, "windows-controller/v1", "forbid", "5"), event(controller, "windows-controller/v1", "forbid", "9")}, nil, []Right{nodes}, 4},
		{"a test acts as the controller", []string{event(controller, "e2e.test/v1", "forbid", "5"), event(controller, "e2e.test/v1", "allow", "5")}, nil, nil, 0},
		{"somebody else", []string{event("default", "windows-controller/v1", "forbid", "5")}, nil, nil, 0},
		{"windows-apiserver asks", []string{review("true")}, []Right{key}, nil, 0},
		{"windows-apiserver asks and must refuse", []string{review("false")}, nil, []Right{key}, 0},
		{"torn by a kill", []string{event(controller, "windows-controller/v1", "forbid", "5")[:100], event(controller, "windows-controller/v1", "allow", "5")}, []Right{nodes}, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log strings.Builder
			for _, e := range test.events {
				log.WriteString(strings.Join(strings.Fields(e), " ") + "\n")
			}
			log.WriteString(`{"kind":"Event"`) // is being written
			file := filepath.Join(t.TempDir(), "audit.log")
			if err := os.WriteFile(file, []byte(log.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			allowed, forbidden := map[Right]bool{}, map[Right]Refusal{}
			if err := readAuditLog(file, allowed, forbidden); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.used, sorted(allowed)); diff != "" {
				t.Errorf("used (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(test.refused, sorted(forbidden)); diff != "" {
				t.Errorf("refused (-want +got)\n%s", diff)
			}
			for _, refusal := range forbidden {
				if got := refusal.Last.Sub(refusal.First).Seconds(); got != float64(test.lasts) {
					t.Errorf("refused for %v s", got)
				}
			}
		})
	}
}
