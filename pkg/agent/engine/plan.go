// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// costlier reports whether the impact a is greater than b.
func costlier(a, b config.Impact) bool {
	return slices.Index(config.Impacts(), a) > slices.Index(config.Impacts(), b)
}

// plan is a Plan with what is needed to run it.
type plan struct {
	api.Plan
	steps []step     // one for each item
	left  []api.Item // what is kept out
}

// step is an item and its desired state. Fields of other kinds have the zero value.
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
	// needs is the digest of the file of the payload that the step moves to its path. Empty: the
	// content exists already, or the step needs none.
	needs string
	// done is set when the step was done.
	done bool
	// failed is set when it was tried in vain.
	failed bool
	// generated: a program of the document created it.
	generated bool
	// notNow: something is missing that others have to provide first.
	notNow bool
}
