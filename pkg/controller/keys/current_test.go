// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestCurrent: which keys hosts are to accept is known from when their Secret was looked at, and whoever wants to know is told of each change.
func TestCurrent(t *testing.T) {
	first, was := keyPair(t)
	second, is := keyPair(t)
	one := instanceWith("win-1", "unknown", "")
	f := newFixture(t, secretWith(clusterKey, first), one)
	expect := func(when string, known, changed bool, want ...string) {
		t.Helper()
		f.reconcile(clusterKey)
		got, ok := f.Current.Of(one, nil)
		if diff := cmp.Diff(want, got); diff != "" || ok != known {
			t.Errorf("%s: known is %t (-want +got)\n%s", when, ok, diff)
		}
		told := false
		select {
		case <-f.Current.Changed():
			told = true
		default:
		}
		if told != changed {
			t.Errorf("%s: told is %t", when, told)
		}
	}
	expect("nobody has logged in", false, false)
	f.set(one, was, "")
	expect("somebody has", true, true, was)
	expect("nothing has changed", true, false, was)
	if got, ok := f.Current.Of(one, &v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{Template: v1alpha1.PoolTemplate{CredentialsSecretRef: &v1alpha1.SecretReference{Name: "own"}}}}); ok {
		t.Errorf("of a Secret that nobody has looked at %q is known", got)
	}

	f.replace(clusterKey, second, nil)
	expect("the Secret has another key", true, true, is)
	f.replace(clusterKey, []byte("nonsense"), nil)
	expect("it is none", true, true)
	f.replace(clusterKey, second, nil)
	expect("it is one again", true, true, is)
	if err := f.client.Delete(t.Context(), secretWith(clusterKey, nil)); err != nil {
		t.Fatal(err)
	}
	expect("the Secret is gone", true, true)
	if err := f.client.Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	expect("no host is left", false, false)
}
