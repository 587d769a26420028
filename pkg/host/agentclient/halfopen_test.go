// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// onWatchedConnections makes connections notice within a second, and not within a minute,
// that the other side is gone without a word. Files move slowly enough to be in the middle
// of one.
func (c *configurable) onWatchedConnections(t *testing.T) {
	t.Helper()
	if err := c.Pool.Close(); err != nil {
		t.Error(err)
	}
	c.Pool = ssh.New(ssh.Options{KeepAliveInterval: 200 * time.Millisecond, KeepAliveMisses: 3}) // closed with the site
	files := c.client.options.Payload
	c.client = c.newClient(t)
	c.client.options.Payload = files
	c.client.transfer = transfer.New(transfer.Options{
		Pool: c.Pool, Remote: remote{c.client}, HostBytesPerSecond: megabytes << 20 / 2, ProgressInterval: 10 * time.Millisecond, RetryDelay: 10 * time.Millisecond,
	})
	if _, err := c.client.Facts(t.Context(), c.Instance); err != nil { // which puts the agent there
		t.Fatal(err)
	}
}

// TestDeliverHalfOpen: the host is gone in the middle of a file, and nobody is told. That is
// noticed, and the file goes on where it was over another connection.
func TestDeliverHalfOpen(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	c.onWatchedConnections(t)
	file := c.file(t, random)
	before := c.Pool.Stats()
	frozen, back := int64(-1), false
	err := c.client.Deliver(t.Context(), c.Instance, []api.PayloadFile{file}, func(p transfer.Progress) {
		switch {
		case frozen < 0 && p.Sent > 0 && p.Sent < p.Total:
			frozen = p.Sent
			c.SetFault(t, winhost.Fault{Freeze: true})
		case frozen >= 0 && !back && c.Pool.Stats().Lost > before.Lost:
			back = true
			c.SetFault(t, winhost.Fault{})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if frozen < 0 || !back {
		t.Fatalf("stopped at byte %d, and noticed: %t", frozen, back)
	}
	if after := c.Pool.Stats(); after.Dials == before.Dials {
		t.Error("no other connection was made")
	}
	if config.Digest(c.content(t, file.Path)) != file.Digest {
		t.Error("what arrived is not what was sent")
	}
}

// TestApplyHalfOpen: the host is gone while it is being changed, and nobody is told. That is
// noticed long before a host that only says nothing is given up, and the same is applied again.
func TestApplyHalfOpen(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	c.onWatchedConnections(t)
	frozen := false
	result, err := c.client.Apply(t.Context(), c.Instance, c.waiting(), func(api.Event) {
		if !frozen {
			frozen = true
			c.SetFault(t, winhost.Fault{Freeze: true})
		}
	})
	if reason := hostsite.Reason(err); !frozen || reason != ssh.ReasonConnectionLost {
		t.Errorf("got %+v, %v", result, err)
	}
	c.SetFault(t, winhost.Fault{})
	hosttest.Eventually(t, "the host notices that nobody listens", func() bool { return c.Host.Running() == 0 })
	c.applies(t)
	if len(c.content(t, `C:\k\kubelet.conf`)) == 0 {
		t.Error("the host is not set up")
	}
}
