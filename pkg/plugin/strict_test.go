// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestUnknownFields: a server of an earlier release does not do a part of what is asked for, and the error says what to do.
func TestUnknownFields(t *testing.T) {
	const say = `windows-apiserver does not know "spec.later", so nothing was done: it is of an earlier release than kubectl-windows v0.0.0-unreleased. Leave out the flag`
	presented := newKey(t, 'b')
	for _, args := range []string{
		"drain w1", "uncordon w1", "reboot w1 --install-updates=Security", "reconfigure w1", "adopt w1", "release w1", "cancel w1", "check w1",
		"trust-host-key w1 --yes --fingerprint " + ssh.FingerprintSHA256(presented), "rollout pause p", "rollout restart p", "rollout undo p",
	} {
		t.Run(args, func(t *testing.T) {
			host := changed(instance("w1", ""), newKey(t, 'a'), presented)
			host.Status.Operation = operation("op", drain, running, "")
			a := newAPI(t, host)
			pool := finishedPool()
			pool.Status.UpdateRevision, pool.Status.CurrentRevision, pool.Status.WorkedRevisions = "p-2", "p-1", []string{"p-1"}
			pool.Spec.UpdateStrategy.RollingUpdate.Undo = &v1alpha1.PoolUndo{Revision: "p-2", To: "p-1"} // is taken away first
			a.servePool(pool)
			a.handle(http.MethodGet, "/apis/apps/v1/namespaces/hosts/controllerrevisions", serveRevision)
			for _, subresource := range []string{"drain", "uncordon", "reboot", "reconfigure", "adopt", "release", "cancel", "check"} {
				a.handle(http.MethodPost, subresource, func(w http.ResponseWriter, _ *http.Request) {
					refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "", `X in version "v1alpha1" cannot be handled as a X: strict decoding error: unknown field "spec.later"`)
				})
			}
			patch := func(w http.ResponseWriter, _ *http.Request) {
				if strings.Contains(a.body("PATCH"), `"undo":null`) {
					answer(w, pool)
					return
				}
				refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "", ` "" is invalid: patch: Invalid value: "{\"a\":\"strict decoding error: unknown field \\\"x\\\"\"}": strict decoding error: unknown field "spec.later"`)
			}
			a.handle(http.MethodPatch, "instance", patch)
			a.handle(http.MethodPatch, poolsResource, patch)
			got := a.run(strings.Fields(args)...)
			got.want(t, ExitFailure, "Error from server (", say)
			if strings.Contains(got.stderr, "decoding") {
				t.Errorf("it says\n%s", got.stderr)
			}
			for _, request := range append(a.asked("POST"), a.asked("PATCH")...) {
				if !strings.Contains(request, "fieldValidation=Strict") {
					t.Errorf("not strict: %s", request)
				}
			}
		})
	}
}
