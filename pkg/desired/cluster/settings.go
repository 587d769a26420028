// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"net/netip"

	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// Settings are what people decide, and what of the cluster they know better than the
// cluster itself.
type Settings struct {
	// Payloads are what is shipped to hosts: a host gets the newest one that the API servers permit. Several are
	// such that [CheckPayloads] permits. Required.
	Payloads []*payload.Manifest
	// AgentPath is where the agent is on hosts. Empty: it does not run as a service.
	AgentPath string
	// Namespace is that of the operator. Required.
	Namespace string
	// APIServerURL is where hosts reach the API server, https://host:port. Empty: what
	// the cluster says.
	APIServerURL string
	// ServiceCIDR is the network of services; two of different families are separated
	// by a comma. Empty: what the cluster says.
	ServiceCIDR string
	// ClusterDNS is the address of the DNS of the cluster. Not valid: that of its
	// Service, or else the tenth of the network of services.
	ClusterDNS netip.Addr
	// ServerVersion asks the API servers for their versions, by which a payload is chosen; see [ServerVersion] and
	// [Settle]. Nil: they are not asked, and the newest payload is it.
	ServerVersion func(ctx context.Context) (Servers, error)
	// Debug makes the services of hosts write more to their logs, as far as a pool does
	// not say otherwise.
	Debug bool
}
