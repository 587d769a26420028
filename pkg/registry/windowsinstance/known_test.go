// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// Keys of two hosts, without their type.
const (
	keyOfHost  = "AAAAC3NzaC1lZDI1NTE5AAAAIJXl0Yl1n9ZeKS5YSsDF1PAI1oRCiK9qXh1n3yXkQ0k6"
	keyOfOther = "AAAAC3NzaC1lZDI1NTE5AAAAIKoV1cqH2r0sTQm7nLk3vY5hJ8xWfUe6Zb9dGaPtMi4R"
)

// A host is reached for users only through the instance that it was found to belong to.
func TestKnown(t *testing.T) {
	type edit = func(*v1alpha1.WindowsInstance)
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) edit {
		return func(i *v1alpha1.WindowsInstance) {
			meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
		}
	}
	machine := func(i *v1alpha1.WindowsInstance) { i.Status.MachineID = "firmware/windows" }
	authenticated := condition(v1alpha1.ConditionAuthenticated, metav1.ConditionTrue, v1alpha1.ReasonLoggedIn, "")
	configured := func(i *v1alpha1.WindowsInstance) {
		i.Status.History = []v1alpha1.Operation{{Type: v1alpha1.OperationReconfigure, HostChanged: true}}
	}
	looked := func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationFailed}
	}
	duplicate := condition(v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonDuplicateHost, "Another instance represents it.")
	paused := func(i *v1alpha1.WindowsInstance) {
		i.Spec.Paused = true
		condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonPaused, "spec.paused is true, so the controller does nothing on the host.")(i)
	}
	changed := func(i *v1alpha1.WindowsInstance) { i.Generation++ } // not seen by the controller
	deleted := func(i *v1alpha1.WindowsInstance) {
		changed(i)
		i.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	at := func(address string) edit { return func(i *v1alpha1.WindowsInstance) { i.Spec.Address = address } }
	pinned := func(keys ...string) edit {
		return func(i *v1alpha1.WindowsInstance) {
			for _, key := range keys {
				i.Spec.HostKeys = append(i.Spec.HostKeys, "ssh-ed25519 "+key)
			}
		}
	}
	behind := func(address, found string) edit {
		return func(i *v1alpha1.WindowsInstance) {
			i.Spec.Bastion, i.Status.Bastion = &v1alpha1.Bastion{Address: address, Port: 22}, found
		}
	}
	// As after a restore without the status.
	lost := func(i *v1alpha1.WindowsInstance) {
		i.Finalizers, i.Status = []string{v1alpha1.HostFinalizer}, v1alpha1.WindowsInstanceStatus{}
	}
	tests := []struct {
		name string
		edit []edit
		want string   // the message begins so; empty: it is served
		keys []string // that are trusted then
	}{
		{"behind the bastion that it was found through", []edit{machine, behind("10.9.9.9", "10.9.9.9:22")}, "", nil},
		{"behind another bastion", []edit{machine, behind("10.9.9.9", "10.9.9.8:22")}, "the controller has not logged in to this host yet through spec.bastion (10.9.9.9:22)", nil},
		{"behind a bastion from now on", []edit{machine, behind("10.9.9.9", "")}, "the controller has not logged in to this host yet through spec.bastion (10.9.9.9:22)", nil},
		{name: "created just now", want: "the controller has not logged in to this host yet; until it has, nobody else may; to try the way to the host: kubectl windows check w -n team-a"},
		{name: "created paused", edit: []edit{paused, pinned(keyOfOther)}, want: "the controller has not logged in to this host yet: spec.paused is true, so the controller does nothing on the host; until"},
		{name: "refuses the credentials", edit: []edit{
			condition(v1alpha1.ConditionAuthenticated, metav1.ConditionFalse, v1alpha1.ReasonCredentialsRefused, "It refuses them."),
			condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonCredentialsRefused, "It refuses them."),
			condition(v1alpha1.ConditionResolved, metav1.ConditionTrue, v1alpha1.ReasonAddressResolved, "to 10.0.0.1"),
			condition(v1alpha1.ConditionReachable, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "Not tried."),
		}, want: "the controller has not logged in to this host yet: It refuses them; until"},
		{name: "an operation did not get to the host", edit: []edit{looked}, want: "the controller has not logged in to this host yet;"},
		{name: "status lost", edit: []edit{machine, lost}, want: "the controller has not logged in to this host yet;"},
		{name: "status lost, and pinned", edit: []edit{machine, lost, pinned(keyOfHost)}, want: "the controller has not logged in to this host yet;"},

		{name: "only watched", edit: []edit{machine}},
		{name: "says nothing of itself", edit: []edit{authenticated}},
		{name: "configured by an earlier release", edit: []edit{configured}},
		{name: "does not answer now", edit: []edit{machine, condition(v1alpha1.ConditionReachable, metav1.ConditionFalse, v1alpha1.ReasonConnectionRefused, "")}},
		{name: "paused", edit: []edit{machine, paused}},
		{name: "deleted", edit: []edit{machine, deleted}},
		{name: "changed elsewhere", edit: []edit{configured, changed}},

		{name: "of another instance", edit: []edit{duplicate}, want: "Another instance represents it."},
		{name: "of another instance by now", edit: []edit{machine, authenticated, configured, paused, duplicate}, want: "Another instance represents it."},

		{name: "another address", edit: []edit{machine, configured, at("10.0.0.9")}, want: "the controller has not logged in to this host yet at spec.address (10.0.0.9), but at 10.0.0.1, fd00::1;"},
		{name: "another one of its addresses", edit: []edit{machine, at("fd00:0::1")}},
		{name: "another one of the addresses of its name", edit: []edit{machine, at("fd00:0::1"), func(i *v1alpha1.WindowsInstance) { i.Status.HostIP = "10.0.0.1" }}, want: "the controller has not logged in to this host yet at spec.address (fd00:0::1), but at 10.0.0.1;"},
		{name: "the same address", edit: []edit{machine, at("::ffff:10.0.0.1")}},
		{name: "a name", edit: []edit{machine, at("w.example.com")}},
		{name: "where it was found is not recorded", edit: []edit{configured, func(i *v1alpha1.WindowsInstance) { i.Status.Addresses = nil }}},

		{name: "another key", edit: []edit{machine, configured, pinned(keyOfOther)}, want: "the controller has not logged in to this host yet by a key of spec.hostKeys, but by another one;"},
		{name: "another key, with that of the host as its comment", edit: []edit{machine, configured, pinned(keyOfOther + " " + keyOfHost)}, want: "the controller has not logged in to this host yet by a key of spec.hostKeys, but by another one;"},
		{name: "the key of the host, with another one as its comment", edit: []edit{machine, configured, pinned(keyOfHost + " " + keyOfOther)}, keys: []string{"ssh-ed25519 " + keyOfHost}},
		{name: "another key, and our agent cannot run", edit: []edit{machine, pinned(keyOfOther), authenticated, condition(v1alpha1.ConditionPreflightPassed, metav1.ConditionFalse, v1alpha1.ReasonAgentFailed, "The agent cannot be started.")},
			want: "the controller has not logged in to this host yet by a key of spec.hostKeys, but by another one: The agent cannot be started;"},
		{name: "another key since the host was found unfit", edit: []edit{machine, pinned(keyOfOther), condition(v1alpha1.ConditionPreflightPassed, metav1.ConditionFalse, v1alpha1.ReasonFindings, "It has no disk.")},
			want: "the controller has not logged in to this host yet by a key of spec.hostKeys, but by another one;"},
		{name: "its key", edit: []edit{machine, pinned(keyOfHost)}, keys: []string{"ssh-ed25519 " + keyOfHost}},
		{name: "its key, with a line that says where it was read", edit: []edit{machine, func(i *v1alpha1.WindowsInstance) {
			i.Spec.HostKeys = []string{"# " + keyOfOther + " is that of win-2\n\nssh-ed25519 " + keyOfHost + " w"}
		}}, keys: []string{"ssh-ed25519 " + keyOfHost}},
		{name: "another key besides its own", edit: []edit{machine, pinned(keyOfOther, keyOfHost+" w")}, keys: []string{"ssh-ed25519 " + keyOfHost}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			instance := &v1alpha1.WindowsInstance{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "w", Generation: 2},
				Spec:       v1alpha1.WindowsInstanceSpec{Address: "10.0.0.1"},
				Status: v1alpha1.WindowsInstanceStatus{
					ObservedGeneration: 2, Addresses: []string{"10.0.0.1", "fd00::1"}, HostKeys: []v1alpha1.HostKeyStatus{{Type: "ssh-ed25519", Key: keyOfHost}},
				},
			}
			for _, e := range tt.edit {
				e(instance)
			}
			before := instance.DeepCopy()
			got, err := known(instance)
			if tt.want != "" {
				_, message, _ := strings.Cut(errorText(err), `"w": `)
				if !apierrors.IsConflict(err) || !strings.HasPrefix(message, tt.want) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Spec.HostKeys, tt.keys) || got.Name != "w" || got.Spec.Address != instance.Spec.Address {
				t.Errorf("it is reached as %+v", got.Spec)
			}
			if !slices.Equal(instance.Spec.HostKeys, before.Spec.HostKeys) {
				t.Error("the stored instance was changed")
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// No subresource that reaches the host is a way around that; a check is a diagnosis, and is refused
// only where the host is that of another instance.
func TestLiveSubresourcesNeedAKnownHost(t *testing.T) {
	duplicate := func(i *windows.WindowsInstance) {
		loggedIn(i)
		i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionResolved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDuplicateHost, Message: "Another instance represents it."}}
	}
	for name, tt := range map[string]struct {
		edit func(*windows.WindowsInstance)
		say  string
		// checked: a check is served.
		checked bool
	}{
		"unknown":   {func(*windows.WindowsInstance) {}, "the controller has not logged in to this host yet", true},
		"duplicate": {duplicate, "Another instance represents it.", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStorage(t, base.Deleters{}, newInstance(tt.edit))
			s.asked.decision = authorizer.DecisionAllow
			open := func(c rest.Connecter, subresource string) error {
				ctx := genericapirequest.WithRequestInfo(requestAs("jane", subresource), &genericapirequest.RequestInfo{
					IsResourceRequest: true, Verb: "get", APIGroup: v1alpha1.GroupName, Namespace: "default", Resource: "windowsinstances", Subresource: subresource, Name: "win-1",
				})
				options, _, _ := c.NewConnectOptions()
				answer := &answers{}
				handler, err := c.Connect(ctx, "win-1", options, answer)
				if err == nil {
					handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
					err = answer.err
				}
				return err
			}
			get := func(g rest.GetterWithOptions) error {
				_, err := g.Get(requestAs("jane", "log"), "win-1", &windows.WindowsInstanceLogOptions{Query: []string{"kubelet"}})
				return err
			}
			for subresource, do := range map[string]func() error{
				"log":         func() error { return get(s.Log) },
				"logs":        func() error { return get(s.Logs) },
				"exec":        func() error { return open(s.Exec, "exec") },
				"portforward": func() error { return open(s.PortForward, "portforward") },
				"inspect": func() error {
					_, err := s.Inspect.Get(requestAs("jane", "inspect"), "win-1", nil)
					return err
				},
				"reconfigure": func() error {
					_, err := s.Reconfigure.Create(requestAs("jane", "reconfigure"), "win-1", &windows.WindowsInstanceReconfigure{}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
					return err
				},
			} {
				if err := do(); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), tt.say) {
					t.Errorf("%s: got %v", subresource, err)
				}
			}
			_, err := s.Check.Create(requestAs("jane", "check"), "win-1", &windows.WindowsInstanceCheck{}, nil, &metav1.CreateOptions{})
			if checked := err == nil; checked != tt.checked || !checked && (!apierrors.IsConflict(err) || !strings.Contains(err.Error(), tt.say)) {
				t.Errorf("check: got %v", err)
			}
			if len(s.hosts.opened) > 0 || s.hosts.planned != nil {
				t.Errorf("the host was contacted: %v, %v", s.hosts.opened, s.hosts.planned)
			}
		})
	}
}

func (h *hosts) Check(context.Context, *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstanceCheckStatus {
	return &v1alpha1.WindowsInstanceCheckStatus{}
}
