// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// costlier says whether an impact is greater than another one.
func costlier(a, b config.Impact) bool {
	return slices.Index(config.Impacts(), a) > slices.Index(config.Impacts(), b)
}

// plan is a Plan with what is needed to carry it out.
type plan struct {
	api.Plan
	steps []step     // one for each item
	left  []api.Item // what is kept out
}

// step is an item and the desired state that it leads to. What is not about its kind is
// the zero value.
type step struct {
	api.Item
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
