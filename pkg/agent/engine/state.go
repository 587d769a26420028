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

// ReadState reads the state of a host; that of one without any is the zero value. It may
// be called while the host is being changed. With an error, what could be read is set.
func ReadState(s System) (state api.ConfigurationFacts, err error) {
	st, err := openStore(s)
	if err != nil {
		return state, err
	}
	state.AppliedRevision, state.ApplyingRevision = st.Applied, st.Applying
	drift, err := readDrift(s)
	if drift != nil && drift.Revision == st.Applied {
		state.Drift = drift
	}
	return state, err
}

// readDrift returns the last drift that was found on a host, or nil.
func readDrift(s FileSystem) (*api.Drift, error) {
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
