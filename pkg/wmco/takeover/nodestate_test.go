// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package takeover_test

import (
	"testing"

	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
)

func TestStateOfNode(t *testing.T) {
	tests := []struct {
		name        string
		annotations map[string]string
		want        takeover.NodeState
	}{
		{name: "no annotations", want: takeover.NodeUnconfigured},
		{name: "another annotation", annotations: map[string]string{"wrong": "11.0.0"}, want: takeover.NodeUnconfigured},
		{name: "cleared", annotations: map[string]string{wmco.VersionAnnotation: ""}, want: takeover.NodeUnconfigured},
		{name: "another version", annotations: map[string]string{wmco.VersionAnnotation: "10.19.0"}, want: takeover.NodeOutdated},
		{name: "the version", annotations: map[string]string{wmco.VersionAnnotation: "11.0.0"}, want: takeover.NodeUpToDate},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := takeover.StateOfNode(tt.annotations, "11.0.0"); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
