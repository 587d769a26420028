// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// State says which documents a host has seen.
type State struct {
	// AppliedRevision is that of the last document that was carried out completely.
	AppliedRevision string
	// ApplyingRevision is that of a document that is being carried out, or that did not
	// get to its end.
	ApplyingRevision string
	// Drift is what was found last of what others changed since then. Nil: nothing.
	Drift *api.Drift
}

// ReadState reads the state of a host; that of one without any is the zero value. It may
// be called while the host is being changed. With an error, what could be read is set.
func ReadState(s System) (State, error) {
	st, err := openStore(s)
	if err != nil {
		return State{}, err
	}
	state := State{AppliedRevision: st.Applied, ApplyingRevision: st.Applying}
	drift, err := ReadDrift(s)
	if err != nil {
		return state, err
	}
	if drift != nil && drift.Revision == st.Applied {
		state.Drift = drift
	}
	return state, nil
}

// ReadDrift returns the last drift that was found on a host, or nil.
func ReadDrift(s FileSystem) (*api.Drift, error) {
	content, err := readFile(s, driftPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the drift: %w", err)
	}
	var d api.Drift
	if err := json.Unmarshal(content, &d); err != nil {
		return nil, fmt.Errorf("read the drift: %w", err)
	}
	return &d, nil
}
