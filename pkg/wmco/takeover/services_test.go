// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package takeover_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
)

func TestServicesToRemove(t *testing.T) {
	got := takeover.ServicesToRemove([]string{"a", "b"}, []string{"b", "c"})
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}
