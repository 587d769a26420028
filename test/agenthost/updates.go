// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"context"
	"errors"

	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

// Update is an update that the server of a stand-in offers.
type Update struct {
	updates.Offer

	// FailSearch is why searches fail while it is there. Empty: they do not.
	FailSearch string
}

// OfferUpdates has the server offer these updates from now on.
func (s *System) OfferUpdates(list ...Update) error {
	return s.change(func(state *hostState) error { state.Updates = list; return nil })
}

// Updates is the Windows Update Agent of the host. What it knows is with the other state of the host.
func (s *System) Updates() updates.Source { return updateAgent{s} }

type updateAgent struct{ *System }

// Search implements [updates.Source].
func (a updateAgent) Search(context.Context) ([]updates.Offer, error) {
	state, err := a.read()
	if err != nil {
		return nil, err
	}
	var offers []updates.Offer
	for _, u := range state.Updates {
		if u.FailSearch != "" {
			return nil, errors.New(u.FailSearch)
		}
		offers = append(offers, u.Offer)
	}
	return offers, nil
}
