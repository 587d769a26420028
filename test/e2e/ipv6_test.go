// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// loopbackIPv6 is where [siteHost.secondAddress] has a host answer, too, and loopbackIPv6Key the key of an entry with it.
const (
	loopbackIPv6    = "::1"
	loopbackIPv6Key = "--1.ipv6-literal.net"
)

// foundOverIPv6 says that the host was logged in to by IPv6.
func foundOverIPv6(i *v1alpha1.WindowsInstance) error {
	if !meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionAuthenticated) || i.Status.HostIP != loopbackIPv6 ||
		!slices.Equal(i.Status.Addresses, []string{loopbackIPv6}) || len(i.Status.HostKeys) == 0 {
		return errors.New(describeConditions(i))
	}
	return nil
}

// mustWorkOverIPv6 checks the host, and runs a command on it, by IPv6.
func (h *siteHost) mustWorkOverIPv6(t *testing.T) {
	t.Helper()
	stdout, stderr, code := plugin(t, h.System, "check", h.name, "-n", h.namespace)
	mustSay(t, stdout, "[::1]:", "The host is fit to be a node.")
	if code != 0 {
		t.Errorf("check exits with %d\n%s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := plugin(t, h.System, "exec", h.name, "-n", h.namespace, "--", "hostname"); code != 0 || stdout == "" {
		t.Errorf("exec exits with %d\n%s%s", code, stdout, stderr)
	}
}

// mustNeedIPv4: a host of which an address of IPv6 is known alone is found, logged in to and checked, and is told why it becomes no
// Node, before anything is configured on it.
func (h *siteHost) mustNeedIPv4(t *testing.T) {
	t.Helper()
	i := h.wait(t, "it says that it needs an address of IPv4", func(i *v1alpha1.WindowsInstance) error {
		if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionConfigured); c == nil || c.Reason != v1alpha1.ReasonInputsMissing {
			return errors.New(describeConditions(i))
		}
		return foundOverIPv6(i)
	})
	mustSay(t, messageOf(t, i, v1alpha1.ConditionConfigured), "addresses of IPv6 only (::1)", "set spec.address, or the key of the entry")
	if i.Status.Operation != nil || i.Spec.Address != loopbackIPv6 {
		t.Errorf("spec.address is %s, and there is operation %+v", i.Spec.Address, i.Status.Operation)
	}
	h.mustWorkOverIPv6(t)
}

// mustStayNodeOverIPv6: a host that is a Node, with an address of IPv4, stays the same one when it is reached by IPv6.
func (h *siteHost) mustStayNodeOverIPv6(t *testing.T) {
	t.Helper()
	before := h.get(t).Status.Node
	i := h.wait(t, "it is a Node that is reached by IPv6", func(i *v1alpha1.WindowsInstance) error {
		return errors.Join(foundOverIPv6(i), isSetUp(i))
	})
	if i.Status.Node.UID != before.UID {
		t.Errorf("the Node is %+v, and was %+v", i.Status.Node, before)
	}
	for _, address := range h.node(t, h.name).Status.Addresses {
		if address.Address == loopbackIPv6 {
			t.Errorf("the Node has the address %s", address.Address)
		}
	}
	h.mustWorkOverIPv6(t)
}
