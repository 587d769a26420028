// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// A machine that has the key of the host, and is not the host, is asked for nothing but who it is.
func TestAnotherMachine(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	facts, err := s.client.Facts(t.Context(), s.Instance)
	if err != nil {
		t.Fatal(err)
	}
	here := facts.Agent.MachineID
	if here == "" {
		t.Fatal("the host does not say which machine it is")
	}
	asked := len(s.Host.Commands())
	instance := s.Instance.DeepCopy()
	instance.Status.MachineID = "elsewhere/" + here
	uses := map[string]func(context.Context) error{
		"facts": func(ctx context.Context) error { _, err := s.client.Facts(ctx, instance); return err },
		"plan": func(ctx context.Context) error {
			_, err := s.client.PlanConfiguration(ctx, instance, &config.Bundle{})
			return err
		},
		"cleanup": func(ctx context.Context) error { _, err := s.client.Cleanup(ctx, instance, nil); return err },
		"restart": func(ctx context.Context) error {
			_, err := s.client.Restart(ctx, instance, api.RestartRequest{BootID: "1", Reason: "2"})
			return err
		},
		"log": func(ctx context.Context) error { _, err := s.client.Logs(ctx, instance, api.LogRequest{}); return err },
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			var another *AnotherHostError
			if err := use(t.Context()); !errors.As(err, &another) || another.Found != here || another.Want != instance.Status.MachineID {
				t.Errorf("got %v", err)
			}
		})
	}
	// Each time but the first, as the right one may answer by then.
	commands := s.Host.Commands()[asked:]
	if want := len(uses) - 1; len(commands) != want {
		t.Errorf("it was asked %d times who it is, want %d", len(commands), want)
	}
	for _, command := range commands {
		if command != s.client.AgentPath()+" "+api.CommandVersion {
			t.Errorf("it was asked %q", command)
		}
	}
	if _, err := os.Stat(s.agentPath(t)); err != nil {
		t.Errorf("what is on the machine was removed: %v", err)
	}
	// An administrator says that it is the one.
	instance.Annotations = map[string]string{v1alpha1.MachineAnnotation: here}
	if _, err := s.client.Facts(t.Context(), instance); err != nil {
		t.Errorf("a machine that was accepted: %v", err)
	}
}
