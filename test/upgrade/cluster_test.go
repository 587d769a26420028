// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	windowsclient "github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned/typed/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// Hosts of a fixture, and the names of their Nodes and instances.
const (
	// hostReady is configured, in a pool with a template, and has had many operations.
	hostReady = "up-ready"
	// hostEntered is configured, and comes from the ConfigMap.
	hostEntered = "up-entered"
	// hostWatched was never configured: the controller had no payload.
	hostWatched = "up-watched"
	// hostChanging is to be reconfigured; a pod is in the way of the drain.
	hostChanging = "up-changing"
	// hostHalf lost its power when a reconfigure had changed half of it.
	hostHalf = "up-half"
	// hostRebooting is off in the middle of a reboot.
	hostRebooting = "up-rebooting"
	// hostRemoving is configured and was off when its instance was deleted.
	hostRemoving = "up-removing"
)

const (
	poolReady, poolChanging, poolHalf = "racks", "changing", "half"
	// entriesConfigMap is the ConfigMap with hosts.
	entriesConfigMap = "windows-instances"
)

// theirs are files that others have put on a host, two of them where ours get.
var theirs = map[string]string{
	`C:\Temp\theirs.txt`: "theirs", `C:\var\log\theirs\app.log`: "a line\n", `C:\k\theirs.txt`: "theirs", `C:\k\kubelet.conf`: "theirs",
}

// cluster is one that a fixture is made of, or made from a fixture.
type cluster struct {
	*system.System
	fixture *fixture
	hosts   map[string]*host
	args    []string // of the controller
}

// host is a host of a cluster.
type host struct {
	winhost.Host
	dir string
	// applied is the document that the host had at the start.
	applied any
	// kubelets is how often the kubelet was started.
	kubelets atomic.Int32
}

func (h *host) local(t *testing.T, path string) string {
	t.Helper()
	local, err := h.LocalPath(path)
	if err != nil {
		t.Fatal(err)
	}
	return local
}

// startPatience is how long the start of a cluster may take.
const startPatience = 15 * time.Minute

// startCluster starts the control plane of a fixture and windows-apiserver, with objects that
// etcd held before. The arguments are for both programs.
func startCluster(t *testing.T, f *fixture, objects map[string][]byte, args ...string) *cluster {
	t.Helper()
	c := &cluster{fixture: f, hosts: map[string]*host{}, args: args}
	restore := &controlplane.Restore{
		Block: f.Block, Port: f.Port,
		Etcd: func(ctx context.Context, url string) error { return restoreEtcd(ctx, url, objects) },
	}
	var err error
	var key []byte
	for name, content := range map[string]*[]byte{caCertFile: &restore.CACert, caKeyFile: &restore.CAKey, clientKeyFile: &key} {
		if *content, err = f.read(name); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	c.System, err = system.Start(ctx, system.Options{
		ControlPlane: controlplane.Options{
			Restore:               restore,
			ControllerManagerArgs: []string{"--cluster-signing-duration=" + longLife.String()},
		},
		PrivateKey: key, Payload: f.path(payloadDir), ExternalEtcd: true, WithoutController: true, APIServerArgs: args, Logf: t.Logf,
	})
	if err != nil {
		t.Fatalf("starting the system: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_, _ = fmt.Fprintf(t.Output(), "windows-apiserver:\n%s\n", c.Server.LogTail())
			if c.Controller != nil {
				_, _ = fmt.Fprintf(t.Output(), "windows-controller:\n%s\n", c.Controller.LogTail())
			}
		}
		if err := c.Stop(); err != nil {
			t.Errorf("stopping the system: %v", err)
		}
	})
	return c
}

// startController starts windows-controller with more arguments.
func (c *cluster) startController(t *testing.T, args ...string) {
	t.Helper()
	args = append(append([]string{"--dial-timeout=2s", "--recheck-interval=5s", "--max-disruptive-operations=8"}, c.args...), args...)
	if err := c.StartController(t.Context(), args...); err != nil {
		t.Fatalf("starting the controller: %v", err)
	}
}

// startHost starts a host, with the files that are in its directory already.
func (c *cluster) startHost(t *testing.T, entry hostEntry, dir string, hostKey, client ssh.Signer) *host {
	t.Helper()
	h := &host{dir: dir}
	services := standin.Services()
	for name, run := range services {
		services[name] = func(ctx context.Context, start winhost.ServiceStart) error {
			h.kubelets.Add(1)
			return run(ctx, start)
		}
	}
	var err error
	h.Host, err = winhost.Start(t.Context(), winhost.Options{
		Name: entry.Name, Address: entry.Address, Port: entry.Port, Dir: h.dir, HostKey: hostKey,
		AuthorizedKeys: []ssh.PublicKey{client.PublicKey()},
		InProcess:      winhost.InProcessOptions{Services: services, RunAgent: true},
	})
	if err != nil {
		t.Fatalf("starting a host: %v", err)
	}
	c.hosts[entry.Name] = h
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("closing the host: %v", err)
		}
	})
	return h
}

func (c *cluster) instances() windowsclient.WindowsInstanceInterface {
	return c.Windows.WindowsV1alpha1().WindowsInstances(system.Namespace)
}

// patience is how long anything may take on a machine that does other things, too.
const patience = 8 * time.Minute

// eventually polls condition until it returns nil.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s: %v", what, err)
		case <-ticker.C:
		}
	}
}

// wait waits until an instance is as it should be.
func (c *cluster) wait(t *testing.T, name, what string, condition func(*v1alpha1.WindowsInstance) error) *v1alpha1.WindowsInstance {
	t.Helper()
	var found *v1alpha1.WindowsInstance
	eventually(t, name+": "+what, func() error {
		var err error
		if found, err = c.instances().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if err := condition(found); err != nil {
			return fmt.Errorf("%w\n%s", err, describe(found))
		}
		return nil
	})
	return found
}

// waitOperation waits until an operation has succeeded, and returns it.
func (c *cluster) waitOperation(t *testing.T, name, id string) *v1alpha1.Operation {
	t.Helper()
	var op *v1alpha1.Operation
	c.wait(t, name, "the operation ends", func(i *v1alpha1.WindowsInstance) error {
		if op = operation(i, id); op == nil || op.FinishedAt == nil {
			return errors.New("it has not")
		}
		return nil
	})
	if op.Phase != v1alpha1.OperationSucceeded {
		t.Fatalf("%s: the %s is %s: %s", name, op.Type, op.Phase, op.Message)
	}
	return op
}

// operation is the operation of an instance with an ID, or nil.
func operation(i *v1alpha1.WindowsInstance, id string) *v1alpha1.Operation {
	if op := i.Status.Operation; op != nil && op.ID == id {
		return op
	}
	for n := range i.Status.History {
		if i.Status.History[n].ID == id {
			return &i.Status.History[n]
		}
	}
	return nil
}

// isConfigured returns nil if a host has its desired configuration, and its Node is ready.
func isConfigured(i *v1alpha1.WindowsInstance) error {
	for _, kind := range []string{v1alpha1.ConditionConfigured, v1alpha1.ConditionUpToDate, v1alpha1.ConditionNodeReady, v1alpha1.ConditionReady} {
		if !meta.IsStatusConditionTrue(i.Status.Conditions, kind) {
			return fmt.Errorf("condition %s is not true", kind)
		}
	}
	switch {
	case i.Status.Operation.Active():
		return errors.New("an operation runs")
	case i.Status.Phase != v1alpha1.InstanceReady || i.Status.ObservedGeneration != i.Generation:
		return fmt.Errorf("it is %s, with generation %d of %d", i.Status.Phase, i.Status.ObservedGeneration, i.Generation)
	case i.Status.CurrentRevision == "" || i.Status.CurrentRevision != i.Status.DesiredRevision:
		return fmt.Errorf("it has revision %q, want %q", i.Status.CurrentRevision, i.Status.DesiredRevision)
	}
	return nil
}

// describe says how an instance is.
func describe(i *v1alpha1.WindowsInstance) string {
	text := fmt.Sprintf("%s is %s", i.Name, i.Status.Phase)
	for _, c := range i.Status.Conditions {
		text += fmt.Sprintf("\n%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	if op := i.Status.Operation; op != nil {
		text += fmt.Sprintf("\n%s is %s: %s", op.Type, op.Phase, op.Message)
		for _, step := range op.Steps {
			text += fmt.Sprintf("\n  %s is %s: %s", step.Name, step.State, step.Message)
		}
	}
	return text
}

// instancesPrefix is before the names of instances in the keys of etcd.
const instancesPrefix = "/windowsinstances/" + system.Namespace + "/"
