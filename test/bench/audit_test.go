// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"bufio"
	"encoding/json"
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
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	var calls []call
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c call
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if strings.HasPrefix(c.UserAgent, userAgent) {
			calls = append(calls, c)
		}
	}
	return calls, lines.Err()
}
