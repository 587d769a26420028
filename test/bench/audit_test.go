// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// auditPolicy has kube-apiserver log who asked for what, once for each request.
const auditPolicy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\nomitStages: [RequestReceived, ResponseStarted]\n"

// call is a request to kube-apiserver, as its audit log has it.
type call struct {
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	URI       string `json:"requestURI"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Name        string `json:"name"`
	} `json:"objectRef"`
}

// callsDuring returns the requests by clients whose user agent begins so, while do runs.
func callsDuring(log, userAgent string, do func() error) ([]call, error) {
	file, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	if end > 0 { // the line before, which may not be whole yet, is none of the calls
		if _, err := file.Seek(-1, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	if err := do(); err != nil {
		return nil, err
	}
	if end > 0 {
		if _, err := lines.ReadBytes('\n'); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
	}
	var calls []call
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return calls, nil // a line that is being written is of a call that came later
		}
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		var c call
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if strings.HasPrefix(c.UserAgent, userAgent) {
			calls = append(calls, c)
		}
	}
}
