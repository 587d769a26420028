// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// fewPools are pools with, without and with an unreadable Secret.
type fewPools struct{}

func (fewPools) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	pool := &windows.WindowsNodePool{}
	switch name {
	case "with":
		pool.Spec.Template.CredentialsSecretRef = &windows.SecretReference{Name: "of-pool"}
	case "without":
	case "bastion":
		pool.Spec.Template.CredentialsSecretRef = &windows.SecretReference{Name: "of-pool"}
		pool.Spec.Template.Bastion = aBastion("jump-of-pool")
	case "edge":
		pool.Spec.Template.Bastion = aBastion("jump-of-pool")
	case "broken":
		return nil, errors.New("storage is down")
	default:
		return nil, apierrors.NewNotFound(windows.Resource("windowsnodepools"), name)
	}
	return pool, nil
}

func aBastion(secret string) *windows.Bastion {
	return &windows.Bastion{Address: "10.0.0.9", Port: 22, Username: "jump", HostKeys: []string{"a"}, CredentialsSecretRef: windows.SecretReference{Name: secret}}
}

// TestCredentialGuard changes each field of an instance and looks which right is asked for.
func TestCredentialGuard(t *testing.T) {
	const nothing, clusterWide = "", "use windowscredentials/cluster"
	secret := func(name string) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) {
			i.Spec.CredentialsSecretRef = &windows.SecretReference{Name: name}
		}
	}
	pool := func(name string) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) { i.Spec.PoolRef = &windows.PoolReference{Name: name} }
	}
	address := func(i *windows.WindowsInstance) { i.Spec.Address = "10.9.9.9" }
	bastion := func(secret string, changes ...func(*windows.Bastion)) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) {
			i.Spec.Bastion = aBastion(secret)
			for _, c := range changes {
				c(i.Spec.Bastion)
			}
		}
	}
	elsewhere := func(b *windows.Bastion) { b.Address = "10.0.0.10" }
	otherKeys := func(b *windows.Bastion) { b.HostKeys = []string{"b"} }
	type change = func(*windows.WindowsInstance)
	for _, test := range []struct {
		name          string
		before, after []change
		create        bool
		want          string // the right that is asked for
	}{
		{"create", nil, nil, true, clusterWide},
		{"create with a Secret", nil, []change{secret("own")}, true, "get secrets/own"},
		{"create with a Secret in a pool with one", nil, []change{secret("own"), pool("with")}, true, "get secrets/own"},
		{"create in a pool with a Secret", nil, []change{pool("with")}, true, "get secrets/of-pool"},
		{"create in a pool without", nil, []change{pool("without")}, true, clusterWide},
		{"create in a pool that is not there", nil, []change{pool("gone")}, true, clusterWide},

		{"create with a bastion", nil, []change{bastion("jump")}, true, clusterWide + ", get secrets/jump"},
		{"create with a Secret and a bastion", nil, []change{secret("own"), bastion("jump")}, true, "get secrets/own, get secrets/jump"},
		{"create in a pool with a bastion", nil, []change{pool("bastion")}, true, "get secrets/of-pool, get secrets/jump-of-pool"},
		{"create with a Secret in a pool with a bastion", nil, []change{secret("own"), pool("bastion")}, true, "get secrets/own, get secrets/jump-of-pool"},
		{"create with a bastion in a pool with one", nil, []change{bastion("jump"), pool("bastion")}, true, "get secrets/of-pool, get secrets/jump"},
		{"create with both in a pool with both", nil, []change{secret("own"), bastion("jump"), pool("bastion")}, true, "get secrets/own, get secrets/jump"},

		{"bastion set", nil, []change{bastion("jump")}, false, clusterWide + ", get secrets/jump"},
		{"bastion removed", []change{bastion("jump")}, nil, false, clusterWide},
		{"bastion removed in a pool with one", []change{bastion("jump"), pool("bastion")}, []change{pool("bastion")}, false, "get secrets/of-pool, get secrets/jump-of-pool"},
		{"Secret of the bastion", []change{bastion("jump")}, []change{bastion("other")}, false, clusterWide + ", get secrets/other"},
		{"address of the bastion", []change{bastion("jump")}, []change{bastion("jump", elsewhere)}, false, clusterWide + ", get secrets/jump"},
		{"keys of the bastion", []change{bastion("jump")}, []change{bastion("jump", otherKeys)}, false, clusterWide + ", get secrets/jump"},
		{"the bastion stays", []change{bastion("jump")}, []change{bastion("jump")}, false, nothing},
		{"address behind a bastion", []change{bastion("jump")}, []change{bastion("jump"), address}, false, clusterWide + ", get secrets/jump"},
		{"address behind a bastion of the pool", []change{pool("bastion")}, []change{pool("bastion"), address}, false, "get secrets/of-pool, get secrets/jump-of-pool"},

		{"nothing changes", nil, nil, false, nothing},
		{"address", nil, []change{address}, false, clusterWide},
		{"port", nil, []change{func(i *windows.WindowsInstance) { i.Spec.Port = 2222 }}, false, clusterWide},
		{"user", nil, []change{func(i *windows.WindowsInstance) { i.Spec.Username = "eve" }}, false, clusterWide},
		{"address with a Secret", []change{secret("own")}, []change{secret("own"), address}, false, "get secrets/own"},
		{"address in a pool", []change{pool("with")}, []change{pool("with"), address}, false, "get secrets/of-pool"},
		{"Secret set", nil, []change{secret("own")}, false, "get secrets/own"},
		{"Secret changed", []change{secret("own")}, []change{secret("other")}, false, "get secrets/other"},
		{"Secret removed", []change{secret("own")}, nil, false, clusterWide},
		{"Secret removed in a pool with one", []change{secret("own"), pool("with")}, []change{pool("with")}, false, "get secrets/of-pool"},
		{"pool set", nil, []change{pool("with")}, false, "get secrets/of-pool"},
		{"pool changed", []change{pool("with")}, []change{pool("without")}, false, clusterWide},
		{"pool removed", []change{pool("with")}, nil, false, clusterWide},
		{"paused", nil, []change{func(i *windows.WindowsInstance) { i.Spec.Paused = true }}, false, nothing},
		{"host keys, which have a verb of their own", nil, []change{func(i *windows.WindowsInstance) { i.Spec.HostKeys = []string{"a"} }}, false, nothing},
		{"provider ID", nil, []change{func(i *windows.WindowsInstance) { i.Spec.ProviderID = "x" }}, false, nothing},
		{"labels", nil, []change{func(i *windows.WindowsInstance) { i.Labels = map[string]string{"a": "b"} }}, false, nothing},
		{"status", nil, []change{func(i *windows.WindowsInstance) { i.Status.Phase = "Ready" }}, false, nothing},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, allowed := range []bool{true, false} {
				recorder := recordingAuthorizer{decision: authorizer.DecisionNoOpinion}
				if allowed {
					recorder.decision = authorizer.DecisionAllow
				}
				guard := credentialGuard{authorizer: &recorder, pools: fewPools{}}
				before, after := validInstance(), validInstance()
				for _, c := range test.before {
					c(before)
				}
				for _, c := range test.after {
					c(after)
				}
				called := false
				var err error
				if test.create {
					err = base.Guard(func(context.Context, runtime.Object) error { called = true; return nil }, guard.checkCreate)(as("jane"), after)
				} else {
					err = base.GuardUpdate(func(context.Context, runtime.Object, runtime.Object) error { called = true; return nil }, guard.checkUpdate)(as("jane"), after, before)
				}
				want := allowed || test.want == nothing
				if called != want || (err == nil) != want || !want && !apierrors.IsForbidden(err) {
					t.Errorf("allowed %v: got %v, further checks were made: %v", allowed, err, called)
				}
				var asked []string
				for _, a := range recorder.asked {
					asked = append(asked, a.GetVerb()+" "+a.GetResource()+"/"+a.GetName())
				}
				wanted := test.want
				if !allowed {
					wanted, _, _ = strings.Cut(wanted, ", ") // the first no is enough
				}
				if got := strings.Join(asked, ", "); got != wanted {
					t.Errorf("asked for %q, want %q", got, wanted)
				}
			}
		})
	}
}

// TestCredentialGuardOfBastion: the right to the credentials of the host is none to those of the bastion.
func TestCredentialGuardOfBastion(t *testing.T) {
	guard := credentialGuard{pools: fewPools{}, authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetName() == "own" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})}
	instance := validInstance()
	instance.Spec.CredentialsSecretRef, instance.Spec.Bastion = &windows.SecretReference{Name: "own"}, aBastion("jump")
	const want = `its bastion would be logged in to with Secret "jump": that needs the verb get on secrets "jump" in namespace "default"`
	if err := base.Guard(nil, guard.checkCreate)(as("jane"), instance); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestCredentialGuardOfController: the controller creates instances of a pool with a bastion once it may read the Secret of that,
// and not before.
func TestCredentialGuardOfController(t *testing.T) {
	for _, test := range []struct {
		name    string
		granted []string
		want    bool
	}{
		{"as it is installed", []string{"use windowscredentials/cluster"}, false},
		{"with the Role of the user guide", []string{"use windowscredentials/cluster", "get secrets/jump-of-pool"}, true},
		{"with that of another Secret", []string{"use windowscredentials/cluster", "get secrets/jump"}, false},
	} {
		guard := credentialGuard{pools: fewPools{}, authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetUser().GetName() == controllerUser && a.GetNamespace() == "default" && slices.Contains(test.granted, a.GetVerb()+" "+a.GetResource()+"/"+a.GetName()) {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		})}
		instance := validInstance()
		instance.Spec.PoolRef = &windows.PoolReference{Name: "edge"}
		if err := base.Guard(nil, guard.checkCreate)(as(controllerUser), instance); (err == nil) != test.want || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
}

// TestCredentialGuardFailsClosed proves that what cannot be found out is not allowed.
func TestCredentialGuardFailsClosed(t *testing.T) {
	allow := &recordingAuthorizer{decision: authorizer.DecisionAllow}
	guard := credentialGuard{authorizer: allow, pools: fewPools{}}
	broken := validInstance()
	broken.Spec.PoolRef = &windows.PoolReference{Name: "broken"}
	for name, err := range map[string]error{
		"the pool cannot be read":           base.Guard(nil, guard.checkCreate)(as("jane"), broken),
		"the pool cannot be read on update": base.GuardUpdate(nil, guard.checkUpdate)(as("jane"), broken, validInstance()),
		"nobody":                            base.Guard(nil, guard.checkCreate)(context.Background(), validInstance()),
		"another kind":                      base.Guard(nil, guard.checkCreate)(as("jane"), &windows.WindowsNodePool{}),
		"another kind on update":            base.GuardUpdate(nil, guard.checkUpdate)(as("jane"), &windows.WindowsNodePool{}, validInstance()),
		"another kind before":               base.GuardUpdate(nil, guard.checkUpdate)(as("jane"), validInstance(), &windows.WindowsNodePool{}),
	} {
		if err == nil {
			t.Errorf("%s: allowed", name)
		}
	}
	refused := errors.New("refused")
	if err := base.Guard(func(context.Context, runtime.Object) error { return refused }, guard.checkCreate)(as("jane"), validInstance()); !errors.Is(err, refused) {
		t.Errorf("admission is not asked: got %v", err)
	}
	if err := base.Guard(nil, guard.checkCreate)(as("jane"), validInstance()); err != nil {
		t.Errorf("got %v", err)
	}
	if err := base.GuardUpdate(nil, guard.checkUpdate)(as("jane"), validInstance(), validInstance()); err != nil {
		t.Errorf("got %v", err)
	}
}
