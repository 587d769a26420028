// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package install

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/fuzzer"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestRoundTrip proves that nothing is lost between the internal and the served
// version, nor in JSON.
func TestRoundTrip(t *testing.T) {
	roundtrip.RoundTripTestForAPIGroup(t, Install, fuzzer.Funcs)
}

// TestRoundTripUnstructured proves the same for clients without our Go types.
func TestRoundTripUnstructured(t *testing.T) {
	scheme := runtime.NewScheme()
	Install(scheme)
	// The types that every group gets from meta/v1 have no internal version of ours.
	foreign := sets.New[schema.GroupVersionKind]()
	for kind, goType := range scheme.KnownTypes(v1alpha1.SchemeGroupVersion) {
		if goType.PkgPath() != "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1" {
			foreign.Insert(v1alpha1.SchemeGroupVersion.WithKind(kind))
		}
	}
	roundtrip.RoundtripToUnstructured(t, scheme, fuzzer.Funcs, foreign, nil)
}

func TestPreferredVersion(t *testing.T) {
	scheme := runtime.NewScheme()
	Install(scheme)
	got := scheme.PrioritizedVersionsForGroup(v1alpha1.GroupName)
	if len(got) != 1 || got[0] != v1alpha1.SchemeGroupVersion {
		t.Errorf("the versions in order of preference are %v", got)
	}
}
