// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"

	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

const (
	// machines is how many of the hosts come from the MachineSet.
	machines = 2
	// minHosts are the Machines, the Wine host and a host that was a node once.
	minHosts = machines + 2
	// ownAddresses is how many hosts get an address of their own with port 22, as
	// real ones have it; the rest share addresses and have a line port=.
	ownAddresses = 100
	sshPort      = 22
)

// site are the stand-ins.
type site struct {
	fromConfigMap []winhost.Host // the first is the Wine host where there is Wine
	fromMachines  []winhost.Host
}

func (s *site) all() []winhost.Host {
	return append(append([]winhost.Host(nil), s.fromConfigMap...), s.fromMachines...)
}

func startHosts(ctx context.Context, sys *system.System, count int, withWine bool, signer ssh.Signer, p *progress) (*site, error) {
	tierOfFirst := winhost.TierWine
	if !withWine {
		tierOfFirst = winhost.TierInProcess
		p.detail("there is no Wine on this machine: no host runs our real windows-node-agent.exe, all run it in process")
	} else if err := winhost.WineAvailable(); err != nil {
		tierOfFirst = winhost.TierInProcess
		p.detail("no host runs our real windows-node-agent.exe: %v", err)
	}
	hosts := make([]winhost.Host, count)
	var group errgroup.Group
	group.SetLimit(8)
	address := sys.HostIP()
	for i := range hosts {
		o := winhost.Options{Tier: winhost.TierInProcess, Name: fmt.Sprintf("win-%d", i+1), AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}}
		if i == 0 {
			o.Tier = tierOfFirst
		}
		if i < ownAddresses {
			address = address.Next()
			o.Address, o.Port = address.String(), sshPort
		}
		group.Go(func() error {
			var err error
			hosts[i], err = winhost.Start(ctx, o)
			return err
		})
	}
	err := group.Wait()
	started := hosts[:0:0]
	for _, host := range hosts {
		if host != nil {
			started = append(started, host)
		}
	}
	if err != nil {
		return nil, errors.Join(err, (&site{fromConfigMap: started}).close())
	}
	for _, host := range hosts[:1] {
		p.detail("%s at %s: %s", host.Name(), host.Address(), tierText[host.Tier()])
	}
	p.detail("%s to %s: %s", hosts[1].Name(), hosts[count-1].Name(), tierText[winhost.TierInProcess])
	return &site{
		fromConfigMap: append(hosts[:1:1], hosts[1+machines:]...),
		fromMachines:  hosts[1 : 1+machines],
	}, nil
}

var tierText = map[string]string{
	winhost.TierWine:      "Wine, runs the real windows-node-agent.exe behind a real SSH server",
	winhost.TierInProcess: "in process, a real SSH server with the agent's engine on a Windows-like file tree",
}

func (s *site) close() error {
	var errs []error
	for _, host := range s.all() {
		errs = append(errs, host.Close())
	}
	return errors.Join(errs...)
}

// writeLogs plays the kubelet of each host: a line a second into kubelet.log, as
// klog writes it, until ctx is done.
func (s *site) writeLogs(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for n := 1; ; n++ {
		for _, host := range s.all() {
			now := time.Now()
			line := fmt.Sprintf("I%s 4711 kubelet.go:2495] \"Stand-in for the kubelet of this host\" host=%q line=%d\n", now.Format("0102 15:04:05.000000"), host.Name(), n)
			// A host that is being closed has no directory any more.
			_ = appendTo(filepath.Join(host.LogDir(), "kubelet", "kubelet.log"), line)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func appendTo(path, line string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line)
	return errors.Join(err, file.Close())
}
