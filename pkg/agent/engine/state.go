// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// ReadState reads the state of a host; that of one without any is the zero value. It may
// be called while the host is being changed. now is the clock of the host. With an error, what
// could be read is set.
func ReadState(ctx context.Context, s System, now time.Time) (state api.ConfigurationFacts, err error) {
	st, err := openStore(s)
	if err != nil {
		return state, err
	}
	state.AppliedRevision, state.ApplyingRevision = st.Applied, st.Applying
	drift, err := readDrift(s)
	if drift != nil && drift.Revision == st.Applied {
		state.Drift = drift
	}
	if st.Applied == "" {
		return state, err
	}
	bundle, bundleErr := readApplied(s)
	if bundleErr != nil || bundle == nil {
		state.NodeName = strings.ToLower(st.NodeName)
		return state, errors.Join(err, bundleErr)
	}
	state.NodeName = appliedNodeName(&bundle.Document, st.Values)
	var waitingErr error
	state.Waiting, waitingErr = (&observer{system: s}).awaitedServices(ctx, &bundle.Document)
	var certificateErr error
	state.KubeletCertificate, certificateErr = appliedCertificate(s, bundle, now)
	return state, errors.Join(err, waitingErr, certificateErr)
}

// appliedNodeName returns the name of the node that a document tells the kubelet, given the values of variables that
// were kept of it: whoever asks how the host is must not wait for a metadata service. Empty: it tells none, or that
// is not known.
func appliedNodeName(d *config.Document, values map[string]string) string {
	c := d.ClientCertificate
	if c == nil || c.NodeName == "" || missingValue(values, c.NodeName) != "" {
		return ""
	}
	name, err := config.Expand(c.NodeName, values)
	if err != nil {
		return "" // a value that is missing is
	}
	return strings.ToLower(strings.TrimSpace(name))
}

// appliedCertificate compares the client certificate of the kubelet with the document that was
// applied last. Nil: that says nothing of it.
func appliedCertificate(s System, bundle *config.Bundle, now time.Time) (*api.KubeletCertificate, error) {
	hostname, _, err := s.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read the host name: %w", err)
	}
	found, err := credentials(s, &bundle.Document, hostname, nil, now)
	if err != nil || found == nil {
		return nil, err
	}
	return &found.KubeletCertificate, nil
}

// readApplied returns the document that was applied last, nil if there is none. What a later release has added to it is left out.
func readApplied(s System) (*config.Bundle, error) { return decodeApplied(s, config.DecodeRecord) }

// readDesired is readApplied for whoever makes the host as the document says, and must not leave anything out.
func readDesired(s System) (*config.Bundle, error) {
	bundle, err := decodeApplied(s, config.Decode)
	if err == nil {
		return bundle, nil
	}
	if _, tolerated := readApplied(s); tolerated != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: a later release has configured the host. Nothing is repaired until that release is installed again, or the host is configured by this one: kubectl windows reconfigure", err)
}

func decodeApplied(s System, decode func(io.Reader) (*config.Bundle, error)) (*config.Bundle, error) {
	content, err := readFile(s, appliedPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // none is an ordinary answer
	}
	if err != nil {
		return nil, fmt.Errorf("read the applied document: %w", err)
	}
	bundle, err := decode(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("the applied document: %w", err)
	}
	return bundle, nil
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
