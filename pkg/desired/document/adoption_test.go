// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document_test

import (
	"slices"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// TestFormerTrees: what agents make one record of is what adoptions record as one: nothing of ours is in it.
func TestFormerTrees(t *testing.T) {
	if got := api.FormerTrees(); !slices.Equal(got, wmco.DaemonDirectories()) {
		t.Errorf("agents compact %q", got)
	}
}
