// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import "github.com/openshift/windows-instance-api/pkg/agent/api/config"

// ReachRequest asks whether the host reaches the API server as its kubelet will.
type ReachRequest struct {
	// URL of the API server, with https.
	URL string `json:"url"`
	// CA has the certificates that it is verified with, in PEM.
	CA string `json:"ca"`
	// Proxy is the URL of the proxy through which the kubelet reaches it. It may have a password. Empty: none.
	Proxy config.SecretValue `json:"proxy,omitempty"`
}

// ReachLayer is a layer on the way to the API server.
type ReachLayer string

// Layers, in their order.
const (
	// ReachDNS: the name of the API server, or of the proxy, is resolved.
	ReachDNS ReachLayer = "DNS"
	// ReachConnect: a TCP connection is made to it.
	ReachConnect ReachLayer = "Connect"
	// ReachProxy: the proxy connects to the API server.
	ReachProxy ReachLayer = "Proxy"
	// ReachTLS: the API server has a certificate that the CA verifies.
	ReachTLS ReachLayer = "TLS"
	// ReachHTTP: the API server answers, be it that it does not know who asks.
	ReachHTTP ReachLayer = "HTTP"
)

// ReachAnswer is the answer to a [ReachRequest].
type ReachAnswer struct {
	// Failed is the layer that failed. Empty: the API server answers.
	Failed ReachLayer `json:"failed,omitempty"`
	// Address is where the host tried it: a host, or an IP address, and a port.
	Address string `json:"address,omitempty"`
	// Error says why it failed, for people. It has no password.
	Error string `json:"error,omitempty"`
}
