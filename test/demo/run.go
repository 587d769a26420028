// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/payload/payloadtest"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// steps is how many lines "[n/steps]" there are.
const steps = 7

// progress prints what the demo is doing and how far it is.
type progress struct {
	began time.Time
	n     int
}

func (p *progress) step(format string, args ...any) {
	p.n++
	fmt.Printf("[%d/%d] %4.0fs  %s\n", p.n, steps, time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}

func (p *progress) detail(format string, args ...any) {
	fmt.Printf("             %s\n", fmt.Sprintf(format, args...))
}

func run(ctx context.Context, count int, platform configv1.PlatformType) (err error) {
	p := &progress{began: time.Now()}
	if os.Geteuid() != 0 {
		return errors.New("run it as root or with sudo: it listens on ports 22 and 443 of loopback addresses")
	}

	p.step("looking for the programs it needs (hack/install-deps.sh)")
	withWine, err := installDependencies(ctx)
	if err != nil {
		return err
	}
	if err := cmp.Or(winhost.WineAvailable(), winhost.NetworkAvailable()); withWine && err != nil {
		withWine = false
		p.detail("%v", err)
	}
	if !withWine {
		p.detail("no host runs our real windows-node-agent.exe and the real kubelet.exe: all run stand-ins in process")
	}
	p.step("building etcd and Kubernetes from Go modules: about 7 minutes the first time")
	binDir, err := controlplane.BinDir(ctx, p.detail)
	if err != nil {
		return err
	}
	p.step("making a payload: what hosts are made nodes with (with Wine the real kubelet.exe, 4 minutes the first time)")
	work, err := os.MkdirTemp("", "demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	shipped, err := makePayload(ctx, work, platform, withWine, p)
	if err != nil {
		return err
	}
	p.step("building our programs, starting the control plane, windows-apiserver and windows-controller")
	key, signer, err := winhost.NewKey()
	if err != nil {
		return err
	}
	recordings := filepath.Join(work, "sessions")
	if err := os.Mkdir(recordings, 0o700); err != nil {
		return err
	}
	s, err := system.Start(ctx, system.Options{
		ControlPlane:   controlplane.Options{BinDir: binDir, Fsync: true},
		PrivateKey:     key,
		MachineAPI:     true,
		OpenShift:      platform,
		Payload:        shipped,
		HostNetworks:   withWine,
		APIServerArgs:  []string{"--session-recording-dir=" + recordings},
		ControllerArgs: []string{"--leader-elect=true"}, // as in a cluster
		Logf:           p.detail,
	})
	if err != nil {
		return err
	}
	defer func() {
		fmt.Println("stopping and removing everything")
		err = errors.Join(err, s.Stop())
	}()

	p.step("starting %d stand-ins for Windows hosts", count)
	site, err := startHosts(ctx, s, platform, count, withWine, signer, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.close()) }()
	var background sync.WaitGroup
	going, stopGoing := context.WithCancel(ctx)
	defer func() { stopGoing(); background.Wait() }()
	background.Go(func() { site.writeLogs(going) })

	p.step("creating ConfigMap windows-instances, a MachineSet with Machines, and pods")
	if err := site.declare(ctx, s, platform); err != nil {
		return err
	}
	if err := apply(ctx, s, workloads, shop); err != nil {
		return err
	}
	background.Go(func() { site.schedule(going, s) })
	p.step("waiting until windows-controller has made nodes of the hosts: each is sent what it needs, restarted once, and joins")
	if err := waitForHosts(ctx, s, count, p); err != nil {
		return err
	}
	close(site.hang)
	names, err := nodeNames(ctx, s)
	if err != nil {
		return err
	}
	if err := show(ctx, s, names[endpointOf(site.fromConfigMap[0])]); err != nil {
		return err
	}
	if err := printHowTo(s, site, names, recordings, platform); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		fmt.Println()
		return nil
	case <-s.Failed():
		return s.Err()
	}
}

// makePayload makes what hosts are made nodes with, in a directory that is made below work
// or is kept for the next time.
func makePayload(ctx context.Context, work string, platform configv1.PlatformType, withWine bool, p *progress) (string, error) {
	if withWine {
		return payloadtest.Dir(ctx, payloadtest.Options{Logf: p.detail})
	}
	dir := filepath.Join(work, "payload")
	return dir, standin.WritePayload(ctx, dir, standin.PayloadOptions{Platform: platform})
}

// exitWithoutWine is how hack/install-deps.sh says that only Wine is missing.
const exitWithoutWine = 3

func installDependencies(ctx context.Context) (withWine bool, err error) {
	cmd := exec.CommandContext(ctx, "hack/install-deps.sh")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitWithoutWine {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("hack/install-deps.sh: %w", err)
	}
	return true, nil
}
