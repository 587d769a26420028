// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"errors"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// TestUpdates: a host without our service refuses, and says what to do.
func TestUpdates(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	_, err := s.client.Updates(t.Context(), s.Instance, api.UpdatesRequest{ID: "op-1", Action: api.ActionDownload, Scope: api.UpdatesAll})
	if refused, ok := errors.AsType[*Error](err); !ok || refused.Step != StepRefused || !strings.Contains(err.Error(), "reconfigure the host") {
		t.Errorf("got %v", err)
	}
}
