// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// TestUnadoptable: a host that says that it cannot be adopted is not asked again.
func TestUnadoptable(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"it can":     {nil, false},
		"it refuses": {&agentclient.Error{Step: agentclient.StepRefused, Err: errors.New("there is no service kubelet")}, true},
		"it fails":   {&agentclient.Error{Step: agentclient.StepRun, Err: errors.New("it was ended")}, false},
	} {
		if err := unadoptable("win-1", tt.err); apierrors.IsConflict(err) != tt.want || tt.want && !strings.Contains(err.Error(), "cannot be taken over: there is no service kubelet") || !tt.want && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOfAdoption: the first line of the plan of an adoption has what there is to know of the update that the others are about.
func TestOfAdoption(t *testing.T) {
	for name, tt := range map[string]struct {
		warnings []string
		want     string
	}{
		"nothing": {nil, "and the removal of what WMCO left, wait for the next update."},
		"two":     {[]string{"the first update takes csi-proxy.exe", "b"}, "wait for the next update. Warnings: the first update takes csi-proxy.exe; b."},
	} {
		got := ofAdoption(tt.warnings)
		if got.Kind != "Service" || got.Name != wmco.WICDService || got.Action != "Delete" || got.Impact != v1alpha1.ImpactNone || !strings.HasSuffix(got.Message, tt.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
