// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// TestMachineOutlivesItsHost: the Machine API takes a Node that is gone for one that is drained. So that of a host that cannot be reached in time stays
// until its Machine is gone, whose drain may still wait for pods.
func TestMachineOutlivesItsHost(t *testing.T) {
	t.Parallel()
	s := newSite(t, standin.PayloadOptions{Bytes: 1 << 20})
	ns := s.namespace(t, "machines")
	h := s.newHost(t, ns, "outlived", winhost.Options{Address: s.HostIP().Next().String(), Port: 22})
	kubectl := func(args ...string) {
		t.Helper()
		if _, err := s.Kubectl(t.Context(), append(args, "-n", ns)...); err != nil {
			t.Fatal(err)
		}
	}
	manifest := filepath.Join(t.TempDir(), "machine.yaml")
	writeFile(t, manifest, machineYAML(h.name, windowsLabel, `, finalizers: ["e2e.example.com/drains"]`))
	kubectl("create", "-f", manifest)
	status := map[string]any{"status": map[string]any{"phase": "Provisioned", "addresses": []any{internalIP(h.host.Address())}}}
	kubectl("patch", "machine", h.name, "--subresource=status", "--type=merge", "-p", asJSON(t, status))
	h.waitReady(t)
	node := h.node(t, h.name).UID

	kubectl("patch", "windowsinstance", h.name, "--type=merge", "-p", `{"spec":{"removal":{"afterSeconds":1}}}`)
	if err := h.host.PowerOff(); err != nil {
		t.Fatal(err)
	}
	kubectl("delete", "machine", h.name, "--wait=false")
	h.wait(t, "it is kept for its Machine", func(i *v1alpha1.WindowsInstance) error {
		if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionRemoved); c == nil || !strings.Contains(c.Message, "It is not given up while its Machine is there") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	if got := h.node(t, h.name).UID; got != node {
		t.Errorf("its Node is another one: %s, was %s", got, node)
	}

	kubectl("patch", "machine", h.name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	h.waitGone(t)
	eventually(t, "its Node goes", func() error {
		if out, err := s.Kubectl(t.Context(), "get", "node", h.name, "--ignore-not-found", "-o", "name"); err != nil || out != "" {
			return errors.Join(err, fmt.Errorf("there is %q", out))
		}
		return nil
	})
}
