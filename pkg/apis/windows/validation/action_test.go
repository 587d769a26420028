// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package validation

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestValidateUpdates: updates are installed between a drain and a restart, which the other modes do not have.
func TestValidateUpdates(t *testing.T) {
	for mode, refused := range map[v1alpha1.RebootMode]bool{"": false, v1alpha1.RebootGraceful: false, v1alpha1.RebootIfPending: true, v1alpha1.RebootForce: true} {
		for install, refused := range map[v1alpha1.WindowsUpdatesInstall]bool{"": false, v1alpha1.InstallNone: false, v1alpha1.InstallSecurity: refused, v1alpha1.InstallAll: refused} {
			spec := &v1alpha1.WindowsInstanceRebootSpec{RebootOptions: v1alpha1.RebootOptions{Mode: mode, InstallUpdates: install}}
			if errs := ValidateRebootSpec(spec, field.NewPath("spec")); (len(errs) > 0) != refused {
				t.Errorf("mode %q, updates %q: %v", mode, install, errs)
			}
		}
	}
}

func TestValidateRebootSpec(t *testing.T) {
	selector := func(s string) *v1alpha1.DrainOptions { return &v1alpha1.DrainOptions{PodSelector: s} }
	for _, test := range []struct {
		name  string
		mode  v1alpha1.RebootMode
		drain *v1alpha1.DrainOptions
		want  []string
	}{
		{"without a drain", v1alpha1.RebootForce, nil, nil},
		{"graceful", v1alpha1.RebootGraceful, selector("app in (a,b)"), nil},
		{"forced, with a drain that would not be made", v1alpha1.RebootForce, selector(""), []string{"Forbidden spec.drain"}},
		{"a selector that cannot be read", v1alpha1.RebootGraceful, selector("app in"), []string{"Invalid spec.drain.podSelector"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := &v1alpha1.WindowsInstanceRebootSpec{RebootOptions: v1alpha1.RebootOptions{Mode: test.mode}, Drain: test.drain}
			check(t, test.want, ValidateRebootSpec(spec, field.NewPath("spec")))
		})
	}
}

// What a kubelet would refuse to start with is refused here.
func TestValidateThreshold(t *testing.T) {
	for value, want := range map[string]bool{
		"0%": true, "99.9%": true, "100%": false, "-1%": false, "%": false, "many%": false, "0": false, "200Mi": true, "-1Mi": false, "": false, "many": false,
	} {
		if err := validateThreshold(value); (err == nil) != want {
			t.Errorf("%q: got %v", value, err)
		}
	}
}

func TestOwnedByKubelet(t *testing.T) {
	for key, want := range map[string]bool{
		"rack": false, "kubernetes.io": false, "k8s.io": false, "example.com/x": false, "mykubernetes.io/x": false,
		"kubernetes.io/x": true, "k8s.io/x": true, "a.k8s.io/x": true,
		"node-role.kubernetes.io/worker": false, "node-role.kubernetes.io/master": true, "node-role.kubernetes.io/control-plane": true,
		"node.kubernetes.io/x": false, "node.kubernetes.io/exclude-from-external-load-balancers": true,
	} {
		if got := ownedByKubelet(key); got != want {
			t.Errorf("%s: got %v", key, got)
		}
	}
}
