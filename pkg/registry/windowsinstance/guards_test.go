// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

const controllerUser = "system:serviceaccount:openshift-windows-machine-config-operator:windows-controller"

func as(name string) context.Context {
	return genericapirequest.WithUser(context.Background(), &user.DefaultInfo{Name: name})
}

func TestSourceGuard(t *testing.T) {
	now := metav1.Now()
	for _, test := range []struct {
		name    string
		ctx     context.Context //nolint:containedctx // a row of a table
		source  string
		deleted *metav1.Time
		want    bool // may delete
	}{
		{"a person, made by hand", as("jane"), "", nil, true},
		{"a person, asked for", as("jane"), "ConfigMap windows-instances", nil, false},
		{"an administrator, asked for", as("system:admin"), "ConfigMap windows-instances", nil, false},
		{"nobody, asked for", context.Background(), "ConfigMap windows-instances", nil, false},
		{"a person, being deleted already", as("jane"), "ConfigMap windows-instances", &now, true},
		{"the controller", as(controllerUser), "ConfigMap windows-instances", nil, true},
		{"the garbage collector", as("system:serviceaccount:kube-system:generic-garbage-collector"), "MachineSet winworker", nil, true},
		{"namespace deletion", as("system:serviceaccount:kube-system:namespace-controller"), "MachineSet winworker", nil, true},
		{"kube-controller-manager with one account", as("system:kube-controller-manager"), "MachineSet winworker", nil, true},
		{"an account of the same name elsewhere", as("system:serviceaccount:default:namespace-controller"), "MachineSet winworker", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := validInstance()
			instance.DeletionTimestamp = test.deleted
			if test.source != "" {
				instance.Annotations = map[string]string{v1alpha1.SourceAnnotation: test.source}
			}
			called := false
			next := func(context.Context, runtime.Object) error { called = true; return nil }
			err := base.Guard(next, sourceGuard{base.Deleters{Controllers: []string{controllerUser}}}.checkDelete)(test.ctx, instance)
			if called != test.want || (err == nil) != test.want {
				t.Fatalf("got %v, further checks were made: %v", err, called)
			}
			if err == nil {
				return
			}
			if !apierrors.IsConflict(err) {
				t.Errorf("got %v, want a conflict", err)
			}
			for _, part := range []string{test.source, v1alpha1.SourceAnnotation, `windowsinstances.windows.openshift.io "win-1"`} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the message %q does not mention %q", err, part)
				}
			}
		})
	}
}

// recordingAuthorizer remembers what it was asked.
type recordingAuthorizer struct {
	authorizer.Authorizer // nil: nothing but Authorize is expected to be called

	decision authorizer.Decision
	reason   string
	err      error
	asked    []authorizer.Attributes
}

func (a *recordingAuthorizer) Authorize(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	a.asked = append(a.asked, attributes)
	return a.decision, a.reason, a.err
}

func TestKeyGuard(t *testing.T) {
	keys := func(lines ...string) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) { i.Spec.HostKeys = lines }
	}
	bastion := func(lines ...string) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) {
			i.Spec.Bastion = aBastion("jump")
			i.Spec.Bastion.HostKeys = lines
		}
	}
	pool := func(name string) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) { i.Spec.PoolRef = &windows.PoolReference{Name: name} }
	}
	both := func(name string, lines ...string) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) {
			pool(name)(i)
			bastion(lines...)(i)
		}
	}
	found := func(name string) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) {
			pool(name)(i)
			i.Status.Bastion = "10.0.0.9:22"
		}
	}
	machine := func(id string) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) {
			keys("a")(i)
			i.Annotations = map[string]string{v1alpha1.MachineAnnotation: id}
		}
	}
	for _, test := range []struct {
		name       string
		ctx        context.Context //nolint:containedctx // a row of a table
		before     func(*windows.WindowsInstance)
		after      func(*windows.WindowsInstance)
		authorizer recordingAuthorizer
		asked      bool
		want       string // part of the error; empty: allowed
		code       int32
	}{
		{"keys stay", as("jane"), keys("a"), func(i *windows.WindowsInstance) { keys("a")(i); i.Spec.Paused = true }, recordingAuthorizer{}, false, "", 0},
		{"nil and empty are the same", as("jane"), keys(), func(i *windows.WindowsInstance) { i.Spec.HostKeys = []string{} }, recordingAuthorizer{}, false, "", 0},
		{"set, allowed", as("jane"), keys(), keys("a"), recordingAuthorizer{decision: authorizer.DecisionAllow}, true, "", 0},
		{"set, no opinion", as("jane"), keys(), keys("a"), recordingAuthorizer{decision: authorizer.DecisionNoOpinion}, true, "no role grants it", 403},
		{"replaced, denied", as("jane"), keys("a"), keys("b"), recordingAuthorizer{decision: authorizer.DecisionDeny, reason: "policy says no"}, true, "policy says no", 403},
		{"removed, denied", as("jane"), keys("a"), keys(), recordingAuthorizer{decision: authorizer.DecisionDeny}, true, `"trust" on windowshostkeys.windows.openshift.io "win-1" in namespace "default"`, 403},
		{"added to, denied", as("jane"), keys("a"), keys("a", "b"), recordingAuthorizer{decision: authorizer.DecisionDeny}, true, `"trust" on windowshostkeys.windows.openshift.io "win-1" in namespace "default"`, 403},
		{"another machine, denied", as("jane"), keys("a"), machine("m"), recordingAuthorizer{decision: authorizer.DecisionDeny}, true, "setting the annotation windows.openshift.io/machine", 403},
		{"another machine, allowed", as("jane"), keys("a"), machine("m"), recordingAuthorizer{decision: authorizer.DecisionAllow}, true, "", 0},
		{"any machine again", as("jane"), machine("m"), keys("a"), recordingAuthorizer{}, false, "", 0},
		{"the machine stays", as("jane"), machine("m"), machine("m"), recordingAuthorizer{}, false, "", 0},
		{"keys of the bastion stay", as("jane"), bastion("a"), func(i *windows.WindowsInstance) { bastion("a")(i); i.Spec.Bastion.Port = 2222 }, recordingAuthorizer{}, false, "", 0},
		{"keys of the bastion, allowed", as("jane"), bastion("a"), bastion("b"), recordingAuthorizer{decision: authorizer.DecisionAllow}, true, "", 0},
		{"keys of the bastion, denied", as("jane"), bastion("a"), bastion("b"), recordingAuthorizer{decision: authorizer.DecisionDeny}, true, "changing spec.bastion.hostKeys", 403},
		{"bastion set, denied", as("jane"), keys(), bastion("a"), recordingAuthorizer{decision: authorizer.DecisionDeny}, true, "changing spec.bastion.hostKeys", 403},
		{"bastion removed, denied", as("jane"), bastion("a"), keys(), recordingAuthorizer{decision: authorizer.DecisionDeny}, true, "changing spec.bastion.hostKeys", 403},
		{"a pool with a bastion, denied", as("jane"), pool("without"), pool("bastion"), recordingAuthorizer{decision: authorizer.DecisionDeny}, true, "changing spec.poolRef, and by that the host keys of its bastion, needs the verb", 403},
		{"a pool with a bastion, allowed", as("jane"), pool("without"), pool("bastion"), recordingAuthorizer{decision: authorizer.DecisionAllow}, true, "", 0},
		{"a first pool with a bastion, denied", as("jane"), keys(), pool("bastion"), recordingAuthorizer{decision: authorizer.DecisionDeny}, true, "changing spec.poolRef", 403},
		{"a pool without a bastion, denied", as("jane"), pool("bastion"), pool("without"), recordingAuthorizer{decision: authorizer.DecisionDeny}, true, "changing spec.poolRef", 403},
		{"no pool any more, denied", as("jane"), pool("bastion"), keys(), recordingAuthorizer{decision: authorizer.DecisionDeny}, true, "changing spec.poolRef", 403},
		{"pools with the same bastion", as("jane"), pool("bastion"), pool("edge"), recordingAuthorizer{}, false, "", 0},
		{"pools without a bastion", as("jane"), pool("with"), pool("without"), recordingAuthorizer{}, false, "", 0},
		{"its own bastion comes before those of pools", as("jane"), both("without", "a"), both("bastion", "a"), recordingAuthorizer{}, false, "", 0},
		{"its own bastion in the place of that of the pool, denied", as("jane"), pool("bastion"), both("bastion", "b"), recordingAuthorizer{decision: authorizer.DecisionDeny}, true, "changing spec.bastion.hostKeys", 403},
		{"the pool stays", as("jane"), pool("broken"), func(i *windows.WindowsInstance) { pool("broken")(i); i.Spec.Paused = true }, recordingAuthorizer{}, false, "", 0},
		{"from a pool that is gone to one with a bastion, denied", as("jane"), pool("gone"), pool("bastion"), recordingAuthorizer{decision: authorizer.DecisionDeny}, true, "changing spec.poolRef", 403},
		{"from a pool that is gone and had none", as("jane"), pool("gone"), pool("without"), recordingAuthorizer{}, false, "", 0},
		{"from a pool that is gone and had one, denied", as("jane"), found("gone"), pool("without"), recordingAuthorizer{decision: authorizer.DecisionDeny}, true, "changing spec.poolRef", 403},
		{"a pool that cannot be read", as("jane"), pool("without"), pool("broken"), recordingAuthorizer{decision: authorizer.DecisionAllow}, false, "storage is down", 500},
		{"a pool that could not be read before", as("jane"), pool("broken"), pool("without"), recordingAuthorizer{decision: authorizer.DecisionAllow}, false, "storage is down", 500},
		{"nobody", context.Background(), keys(), keys("a"), recordingAuthorizer{decision: authorizer.DecisionAllow}, false, "no user", 403},
		{"the authorizer fails", as("jane"), keys(), keys("a"), recordingAuthorizer{decision: authorizer.DecisionAllow, err: errors.New("webhook is gone")}, true, "webhook is gone", 500},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, after := validInstance(), validInstance()
			test.before(before)
			test.after(after)
			called := false
			next := func(context.Context, runtime.Object, runtime.Object) error { called = true; return nil }
			err := base.GuardUpdate(next, keyGuard{authorizer: &test.authorizer, pools: fewPools{}}.checkUpdate)(test.ctx, after, before)
			if called != (test.want == "") {
				t.Errorf("further checks were made: %v", called)
			}
			if test.want == "" && err != nil {
				t.Errorf("got %v", err)
			}
			if test.want != "" {
				var status apierrors.APIStatus
				if !asStatus(err, &status) || status.Status().Code != test.code || !strings.Contains(err.Error(), test.want) ||
					test.code == 403 && !strings.HasPrefix(err.Error(), `windowsinstances.windows.openshift.io "win-1" is forbidden`) {
					t.Errorf("got %v, want code %d with %q", err, test.code, test.want)
				}
			}
			if !test.asked {
				if len(test.authorizer.asked) > 0 {
					t.Errorf("asked %v", test.authorizer.asked)
				}
				return
			}
			want := []authorizer.Attributes{authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: "jane"}, Verb: "trust", Namespace: "default",
				APIGroup: "windows.openshift.io", APIVersion: "v1alpha1", Resource: "windowshostkeys", Name: "win-1", ResourceRequest: true,
			}}
			if diff := cmp.Diff(want, test.authorizer.asked, cmp.AllowUnexported(authorizer.AttributesRecord{})); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGuardsPassOnErrors proves that the checks of admission still count, and that
// a guard without further checks works.
func TestGuardsPassOnErrors(t *testing.T) {
	refused := errors.New("refused")
	if err := base.Guard(func(context.Context, runtime.Object) error { return refused }, sourceGuard{}.checkDelete)(as("jane"), validInstance()); !errors.Is(err, refused) {
		t.Errorf("delete: got %v", err)
	}
	if err := base.Guard(nil, sourceGuard{}.checkDelete)(as("jane"), validInstance()); err != nil {
		t.Errorf("delete: got %v", err)
	}
	if err := base.GuardUpdate(func(context.Context, runtime.Object, runtime.Object) error { return refused }, keyGuard{}.checkUpdate)(as("jane"), validInstance(), validInstance()); !errors.Is(err, refused) {
		t.Errorf("update: got %v", err)
	}
	if err := base.GuardUpdate(nil, keyGuard{}.checkUpdate)(as("jane"), validInstance(), validInstance()); err != nil {
		t.Errorf("update: got %v", err)
	}
	if err := base.Guard(nil, sourceGuard{}.checkDelete)(as("jane"), &windows.WindowsNodePool{}); err == nil {
		t.Error("delete: a pool was taken for an instance")
	}
	if err := base.GuardUpdate(nil, keyGuard{}.checkUpdate)(as("jane"), &windows.WindowsNodePool{}, validInstance()); err == nil {
		t.Error("update: a pool was taken for an instance")
	}
}
