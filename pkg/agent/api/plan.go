// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// Action is what happens to something on a host.
type Action string

// Actions.
const (
	ActionCreate Action = "Create"
	ActionUpdate Action = "Update"
	ActionDelete Action = "Delete"
)

// Kind is what kind of thing an item is about.
type Kind string

// Kinds of items.
const (
	KindHostname    Kind = "Hostname"
	KindFeature     Kind = "Feature"
	KindEnvironment Kind = "Environment"
	KindCertificate Kind = "Certificate"
	KindDirectory   Kind = "Directory"
	KindFile        Kind = "File"
	KindFirewall    Kind = "FirewallRule"
	KindAntivirus   Kind = "AntivirusExclusion"
	KindService     Kind = "Service"
	KindNetwork     Kind = "HNSNetwork"
	KindEndpoint    Kind = "HNSEndpoint"
)

// Item is one difference between a host and its desired configuration.
type Item struct {
	Kind   Kind   `json:"kind"`
	Name   string `json:"name"`
	Action Action `json:"action"`
	// Impact is what it costs now: restarting a service that does not run costs nothing.
	Impact config.Impact `json:"impact"`
	// Services are restarted for it; those that depend on them are in [Plan.Restarts] only.
	Services []string `json:"services,omitempty"`
	// Reason says what differs. It has no contents and no values.
	Reason string `json:"reason"`
	// Left says why an item of [Drift.Left] is not repaired although its impact allows it. Empty: it
	// does not, or there is something that the agent cannot do alone.
	Left LeftReason `json:"left,omitempty"`
}

func (i Item) String() string { return fmt.Sprintf("%s %s %s", i.Action, i.Kind, i.Name) }

// Waiting is a service that waits for a network of the Host Networking Service, which a program makes that is not ours.
type Waiting struct {
	Service string `json:"service"`
	Network string `json:"network"`
}

// String says it in messages, as one of a list.
func (w Waiting) String() string {
	return "service " + w.Service + " (waits for network " + w.Network + ", which another program has to make on the host)"
}

// Plan is the difference between a host and its desired configuration.
type Plan struct {
	Revision string `json:"revision"`
	// Impact is the greatest one of the items.
	Impact config.Impact `json:"impact"`
	// Items in the order in which they are done. Empty: there is nothing to do.
	Items []Item `json:"items"`
	// Restarts are the services that are stopped for the items, in that order.
	Restarts []string `json:"restarts,omitempty"`
	// Payload has what has to be on the host before the plan is applied.
	Payload []PayloadFile `json:"payload,omitempty"`
	// Reboot says why the host has to be restarted before anything else is done. The
	// items are those that are known to follow.
	Reboot []string `json:"reboot,omitempty"`
	// Waiting are the services that the host gets, or starts, once others have made a network. They are no items.
	Waiting []Waiting `json:"waiting,omitempty"`
	// NodeName is what the kubelet will call its node. Empty: the document has no kubelet, or that is not
	// known yet.
	NodeName string `json:"nodeName,omitempty"`
	// KubeletCertificate is the client certificate of the kubelet, compared with the document.
	// Nil: the document says nothing of it.
	KubeletCertificate *KubeletCertificate `json:"kubeletCertificate,omitempty"`
}
