// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

func TestAbandonGuard(t *testing.T) {
	held := func(i *windows.WindowsInstance) { i.Finalizers = []string{v1alpha1.HostFinalizer} }
	removal := func(o windows.RemovalOptions) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) { held(i); i.Spec.Removal = &o }
	}
	abandon := removal(windows.RemovalOptions{Policy: windows.RemovalAbandon})
	clean := removal(windows.RemovalOptions{Policy: "Clean"})
	after := func(seconds int64) func(*windows.WindowsInstance) {
		return removal(windows.RemovalOptions{AfterSeconds: &seconds})
	}
	free := func(*windows.WindowsInstance) {}
	for _, test := range []struct {
		name          string
		before, after func(*windows.WindowsInstance)
		want          string // what needs the verb; empty: nothing
	}{
		{"nothing of it changes", held, held, ""},
		{"the policy is the default one", held, clean, ""},
		{"the policy is taken back", abandon, held, ""},
		{"the finalizer is set", free, held, ""},
		{"it was abandoned before", abandon, abandon, ""},
		{"abandon", held, abandon, "changing spec.removal"},
		{"give up after a time", held, after(3600), "changing spec.removal"},
		{"give up sooner", after(3600), after(1), "changing spec.removal"},
		{"the finalizer is removed", held, free, "removing the finalizer windows.openshift.io/host"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, changed := validInstance(), validInstance()
			test.before(before)
			test.after(changed)
			for _, may := range []bool{true, false} {
				decision := authorizer.DecisionAllow
				if !may {
					decision = authorizer.DecisionNoOpinion
				}
				asked := &recordingAuthorizer{decision: decision}
				called := false
				err := base.GuardUpdate(func(context.Context, runtime.Object, runtime.Object) error { called = true; return nil }, abandonGuard{authorizer: asked}.checkUpdate)(as("jane"), changed, before)
				refused := test.want != "" && !may
				if called == refused || (err != nil) != refused {
					t.Errorf("with the verb %v: got %v, further checks were made: %v", may, err, called)
				}
				if refused && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), `"abandon" on windowshosts.windows.openshift.io "win-1"`)) {
					t.Errorf("got %v, want 403 with %q", err, test.want)
				}
				for _, a := range asked.asked {
					if got := a.GetVerb() + " " + a.GetNamespace() + "/" + a.GetResource() + "/" + a.GetName(); got != "abandon default/windowshosts/win-1" {
						t.Errorf("asked for %q", got)
					}
				}
				if (len(asked.asked) > 0) != (test.want != "") {
					t.Errorf("asked %v", asked.asked)
				}
			}
		})
	}
	t.Run("a new instance", func(t *testing.T) {
		for name, change := range map[string]func(*windows.WindowsInstance){"": free, "abandon": abandon, "after": after(3600)} {
			instance := validInstance()
			change(instance)
			err := abandonGuard{authorizer: &recordingAuthorizer{decision: authorizer.DecisionDeny}}.checkCreate(as("jane"), instance)
			if (err != nil) != (name != "") {
				t.Errorf("%q: got %v", name, err)
			}
		}
	})
}
