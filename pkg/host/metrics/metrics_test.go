// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package metrics

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

func TestCollector(t *testing.T) {
	collector := NewCollector("windows_controller", func() ssh.Stats {
		return ssh.Stats{Connections: 5, Idle: 3, Sessions: 2, Dialing: 1, Waiting: 4, Dials: 9, Lost: 6,
			DialFailures: map[ssh.Reason]uint64{ssh.ReasonConnectionRefused: 7, "New": 1}}
	})
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(collector); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "windows_controller_ssh_")
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	want := map[string]float64{"connections": 5, "idle_connections": 3, "sessions": 2, "dials_in_flight": 1, "waiting": 4,
		"dials_total": 9, "connections_lost_total": 6, "dial_failures_total ConnectionRefused": 7, "dial_failures_total New": 1}
	// The first failure of a kind is an increase.
	for _, reason := range []string{"NameNotResolved", "AddressRefused", "AddressUndecided", "ConnectionTimedOut", "HostUnreachable", "ConnectionReset", "HandshakeTimedOut", "NotSSH",
		"HandshakeFailed", "ForwardRefused", "HostKeyUnknown", "HostKeyChanged", "CredentialsRefused", "TimedOut"} {
		want["dial_failures_total "+reason] = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
