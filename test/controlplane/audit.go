// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
)

// auditArgs writes the policy and returns the arguments that make the API server follow it.
func (cp *ControlPlane) auditArgs() ([]string, error) {
	if cp.options.AuditPolicy == "" {
		return nil, nil
	}
	policy := cp.path("audit", "policy.yaml")
	if err := os.MkdirAll(filepath.Dir(policy), 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of audit logs: %w", err)
	}
	if err := os.WriteFile(policy, []byte(cp.options.AuditPolicy), 0o600); err != nil {
		return nil, fmt.Errorf("writing the audit policy: %w", err)
	}
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + cp.path("audit", "audit.log")}, nil
}

// AuditLogs returns the files that the API server has written events to, an object of
// audit.k8s.io/v1 a line. It begins a new one when the last is full.
func (cp *ControlPlane) AuditLogs() ([]string, error) {
	return filepath.Glob(cp.path("audit", "audit*.log"))
}
