// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"context"
	"errors"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

// Update is an update that the server of a stand-in offers, and what becomes of it.
type Update struct {
	updates.Offer

	// FailSearch is why searches fail while it is there, FailDownload why it cannot be downloaded, and FailInstall why it
	// cannot be installed. Empty: they do not, and it can.
	FailSearch, FailDownload, FailInstall string
	// TakenBack: Windows takes it back while it restarts.
	TakenBack bool
	// NeedsNoRestart: it takes effect at once.
	NeedsNoRestart bool
	// StaysOffered: Windows says that it has installed it, and offers it as before.
	StaysOffered bool
	// Version is that of Windows from the boot after it on. Empty: it stays as it is.
	Version string
	// InstalledIn is the boot in which it was installed. Empty: it was not.
	InstalledIn string
}

// OfferUpdates has the server offer these updates from now on.
func (s *System) OfferUpdates(list ...Update) error {
	return s.change(func(state *hostState) error { state.Updates = list; return nil })
}

// Updates is the Windows Update Agent of the host. What it knows is with the other state of the host.
func (s *System) Updates() updates.Source { return updateAgent{s} }

// Version is that of Windows as its updates have made it. Empty: it is as the host came.
func (s *System) Version() (string, error) {
	state, err := s.read()
	if err != nil {
		return "", err
	}
	return state.Version, nil
}

// completeUpdates is what Windows does about updates when it boots.
func (s *hostState) completeUpdates() {
	for i := range s.Updates {
		u := &s.Updates[i]
		switch {
		case u.InstalledIn == "" || u.InstalledIn == s.Boot:
		case u.TakenBack:
			u.InstalledIn = ""
		case u.Version != "":
			s.Version = u.Version
		}
	}
}

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
		if u.InstalledIn == "" || u.StaysOffered {
			offers = append(offers, u.Offer)
		}
	}
	return offers, nil
}

// Download implements [updates.Source].
func (a updateAgent) Download(_ context.Context, id updates.Identity) error {
	return a.change(func(state *hostState) error {
		u := find(state, id)
		switch {
		case u == nil:
			return updates.ErrNotOffered
		case u.FailDownload != "":
			return errors.New(u.FailDownload)
		}
		u.Downloaded = true
		return nil
	})
}

// Install implements [updates.Source].
func (a updateAgent) Install(_ context.Context, ids []updates.Identity) ([]updates.Result, error) {
	results := make([]updates.Result, len(ids))
	err := a.change(func(state *hostState) error {
		for i, id := range ids {
			u := find(state, id)
			switch {
			case u == nil:
				results[i].Err = updates.ErrNotOffered
			case u.Exclusive && len(ids) > 1: // WU_E_EXCLUSIVE_INSTALL_CONFLICT
				return errors.New("HRESULT 0x80240013")
			case !u.Downloaded:
				results[i].Err = errors.New("it was not downloaded")
			case u.FailInstall != "":
				results[i].Err = errors.New(u.FailInstall)
			default:
				u.InstalledIn = state.Boot
				results[i].RebootRequired = !u.NeedsNoRestart
			}
		}
		return nil
	})
	return results, err
}

// RestartPending implements [updates.Source].
func (a updateAgent) RestartPending(context.Context) (bool, error) {
	state, err := a.read()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(state.Updates, func(u Update) bool { return u.InstalledIn != "" && u.InstalledIn == state.Boot && !u.NeedsNoRestart }), nil
}

func find(state *hostState, id updates.Identity) *Update {
	i := slices.IndexFunc(state.Updates, func(u Update) bool {
		return u.ID == id.ID && u.Revision == id.Revision && (u.InstalledIn == "" || u.StaysOffered)
	})
	if i < 0 {
		return nil
	}
	return &state.Updates[i]
}
