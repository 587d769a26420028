// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"fmt"
	"slices"

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

// Item is one difference between a host and what is desired.
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
}

func (i Item) String() string { return fmt.Sprintf("%s %s %s", i.Action, i.Kind, i.Name) }

// PayloadFile is a file of the payload that a host needs and does not have.
type PayloadFile struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Size   int64  `json:"size,omitempty"`
	URL    string `json:"url,omitempty"`
	// Path is where it is to be put, see [PayloadPath].
	Path string `json:"path"`
}

// Plan is the difference between a host and what is desired.
type Plan struct {
	Revision string `json:"revision"`
	// Impact is the greatest one of the items.
	Impact config.Impact `json:"impact"`
	// Items in the order in which they are done. Empty: there is nothing to do.
	Items []Item `json:"items"`
	// Restarts are the services that are stopped for the items, in that order.
	Restarts []string `json:"restarts,omitempty"`
	// Payload has what has to be on the host before the plan is carried out.
	Payload []PayloadFile `json:"payload,omitempty"`
	// Reboot says why the host has to be restarted before anything else is done. The
	// items are what is known to follow.
	Reboot []string `json:"reboot,omitempty"`
}

// Impacts in the order of what they cost.
var impacts = []config.Impact{config.ImpactNone, config.ImpactRestart, config.ImpactDrain, config.ImpactReboot}

// costlier says whether an impact is greater than another one.
func costlier(a, b config.Impact) bool { return slices.Index(impacts, a) > slices.Index(impacts, b) }

// plan is a Plan with what is needed to carry it out.
type plan struct {
	Plan
	steps []step // one for each item
	left  []Item // what is kept out
}

// step is an item and the desired state that it leads to. What is not about its kind is
// the zero value.
type step struct {
	Item
	file        *wantedFile
	directory   config.Access
	service     *config.Service
	environment *string // nil: the variable is removed
	onChange    config.OnChange
	certificate *config.Certificate
	rule        *config.FirewallRule
	endpoint    *config.HNSEndpoint
	// afterService is the service that has to run first. Empty: none.
	afterService string
	// needs is the digest of the file of the payload that the step puts at its place. Empty:
	// it is there already, or the step is about something else.
	needs string
	// done says that the step was carried out.
	done bool
	// generated says that programs made it.
	generated bool
	// notNow says that something is missing that others have to provide first.
	notNow bool
}
