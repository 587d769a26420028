// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// ApplyRequest requests that a bundle is applied. It is encoded by [ApplyRequest.Encode] and decoded by
// [DecodeApplyRequest].
type ApplyRequest struct {
	// Allow is the greatest impact that may happen now. Whoever allows Drain or Reboot
	// has drained the Node. Empty: None.
	Allow config.Impact
	// Keep are the digests, as in [config.File], of the programs that the host has to be able to go back to: those of the last
	// configuration that it worked with as a node, which may be another one than was applied last. Those of them that are
	// replaced stay on the host, and no others. Empty: those of the document that was applied last stay.
	Keep   []string
	Bundle config.Bundle
}

// encodedApply is an [ApplyRequest] as it travels.
type encodedApply struct {
	Allow  config.Impact   `json:"allow,omitempty"`
	Keep   []string        `json:"keep,omitempty"`
	Bundle json.RawMessage `json:"bundle"`
}

// DecodeApplyRequest reads one request and validates it.
func DecodeApplyRequest(r io.Reader) (*ApplyRequest, error) {
	var encoded encodedApply
	bundle, err := decodeRequest(r, &encoded, &encoded.Bundle)
	if err != nil {
		return nil, err
	}
	if encoded.Allow != "" && !slices.Contains(config.Impacts(), encoded.Allow) {
		return nil, fmt.Errorf("impact %q is not known", encoded.Allow)
	}
	for _, digest := range encoded.Keep {
		if err := config.CheckDigest(digest); err != nil {
			return nil, fmt.Errorf("a program to keep: %w", err)
		}
	}
	return &ApplyRequest{Allow: encoded.Allow, Keep: encoded.Keep, Bundle: *bundle}, nil
}

// Encode returns the request as it travels.
func (r *ApplyRequest) Encode() ([]byte, error) {
	bundle, err := r.Bundle.Encode()
	if err != nil {
		return nil, err
	}
	return json.Marshal(encodedApply{r.Allow, r.Keep, bundle})
}

// decodeRequest reads one request with a bundle into encoded, of which bundle is a field, and returns its bundle, which is valid.
func decodeRequest(r io.Reader, encoded any, bundle *json.RawMessage) (*config.Bundle, error) {
	text, err := io.ReadAll(io.LimitReader(r, config.MaxBundleBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if err := config.DecodeStrict(text, encoded); err != nil {
		return nil, fmt.Errorf("decode the request: %w", err)
	}
	return config.Decode(bytes.NewReader(*bundle))
}
