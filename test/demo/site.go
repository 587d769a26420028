// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/openshift"
	"github.com/openshift/windows-instance-api/test/standin"
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
	winRMPort    = 5985
	// restartTakes is how long a host is down when it restarts.
	restartTakes = 5 * time.Second
)

// site are the stand-ins.
type site struct {
	fromConfigMap []winhost.Host // the first is the Wine host where there is Wine
	fromMachines  []winhost.Host

	winrm []*http.Server
	// hang has the kubelet of the last host hang.
	hang chan struct{}
}

func (s *site) all() []winhost.Host {
	return append(append([]winhost.Host(nil), s.fromConfigMap...), s.fromMachines...)
}

func startHosts(ctx context.Context, sys *system.System, platform configv1.PlatformType, count int, withWine bool, signer ssh.Signer, p *progress) (*site, error) {
	tierOfFirst := winhost.TierInProcess
	if withWine {
		tierOfFirst = winhost.TierWine
	}
	hosts := make([]winhost.Host, count)
	hang := make(chan struct{})
	var group errgroup.Group
	group.SetLimit(8)
	address := sys.HostIP()
	for i := range hosts {
		o := winhost.Options{Tier: winhost.TierInProcess, Name: fmt.Sprintf("win-%d", i+1), AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}}
		if i == 0 {
			o.Tier = tierOfFirst
		}
		o.Metadata = metadataOf(platform, i)
		// As long as a host that is quick about it.
		o.Restart.Takes = restartTakes
		if o.Tier == winhost.TierInProcess {
			if 0 < i && i <= machines {
				o.User = wmco.MachineUsername(platform)
			}
			o.InProcess = winhost.InProcessOptions{EventLog: newEventLog(time.Now()), Facts: facts(i, count), Services: standin.Services(), RunAgent: true}
			if i == count-1 {
				o.InProcess.Services[wmco.KubeletService] = hanging(o.InProcess.Services[wmco.KubeletService], hang)
			}
		}
		if o.Tier == winhost.TierWine {
			// A real kubelet does not take a loopback address for that of its Node.
			o.Network, o.Port = true, sshPort
		} else if i < ownAddresses {
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
	if sys.Cloud != nil {
		for i, host := range hosts {
			vm := virtualMachine(platform, host, metadataOf(platform, i))
			if host.Tier() == winhost.TierWine {
				vm.Address = "" // so that it has no provider ID: hosts on AWS that have one need routes, which Wine does not make
			} else {
				vm.ProviderID = sys.Cloud.ProviderID(host.Address())
			}
			sys.Cloud.Run(vm)
		}
	}
	for _, host := range hosts[:1] {
		p.detail("%s at %s: %s", host.Name(), host.Address(), tierText[host.Tier()])
	}
	p.detail("%s to %s: %s", hosts[1].Name(), hosts[count-1].Name(), tierText[winhost.TierInProcess])
	s := &site{
		fromConfigMap: append(hosts[:1:1], hosts[1+machines:]...),
		fromMachines:  hosts[1 : 1+machines],
		hang:          hang,
	}
	for _, host := range hosts[:min(count, ownAddresses)] {
		if host.Tier() == winhost.TierWine {
			continue
		}
		if err := s.startWinRM(ctx, host); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// metadataOf is what a cloud says of a host: each calls hosts in its own way.
func metadataOf(platform configv1.PlatformType, i int) winhost.Metadata {
	switch platform {
	case configv1.AWSPlatformType:
		return winhost.Metadata{Cloud: winhost.CloudAWS, Hostname: fmt.Sprintf("ip-10-0-%d-%d.us-east-2.compute.internal", 128+i/200, 10+i%200)}
	case configv1.GCPPlatformType:
		return winhost.Metadata{Cloud: winhost.CloudGCP, Hostname: fmt.Sprintf("win-%d.us-east1-b.c.example.internal", i+1)}
	default:
		return winhost.Metadata{}
	}
}

// virtualMachine is what the cloud knows of a host. On GCP it has not the name of its Machine, which is made later than the host here.
func virtualMachine(platform configv1.PlatformType, host winhost.Host, metadata winhost.Metadata) openshift.VirtualMachine {
	if platform == configv1.GCPPlatformType {
		name, _, _ := strings.Cut(metadata.Hostname, ".")
		return openshift.VirtualMachine{Name: name}
	}
	return openshift.VirtualMachine{Name: host.Name(), PrivateDNSName: metadata.Hostname, Address: host.Address()}
}

// bootsUntilNode is in which boot a host becomes a node: the first one ends when the feature
// Containers is turned on.
const bootsUntilNode = 2

// hanging is a kubelet that does nothing any more once hang is closed, as its service goes on.
func hanging(kubelet winhost.ServiceFunc, hang <-chan struct{}) winhost.ServiceFunc {
	return func(ctx context.Context, s winhost.ServiceStart) error {
		alive, end := context.WithCancel(ctx)
		defer end()
		go func() {
			select {
			case <-hang:
				end()
			case <-alive.Done():
			}
		}()
		err := kubelet(alive, s)
		select {
		case <-hang:
			<-ctx.Done()
			return nil
		default:
			return err
		}
	}
}

// facts makes the hosts differ: in what they have left, and the last Machine waits for
// a restart until it gets one.
func facts(i, count int) func(*api.Facts) {
	var mu sync.Mutex
	boots := map[string]bool{}
	return func(f *api.Facts) {
		f.Memory.AvailableBytes -= f.Memory.TotalBytes * uint64(i) / uint64(2*count)
		f.Disks[0].FreeBytes -= f.Disks[0].TotalBytes * uint64(count-i) / uint64(2*count)
		mu.Lock()
		boots[f.Boot.ID] = true
		n := len(boots)
		mu.Unlock()
		if i == machines && n <= bootsUntilNode {
			f.PendingReboot = api.PendingReboot{Pending: true, Reasons: []string{api.RebootWindowsUpdate}}
		}
	}
}

// startWinRM answers on the port of WinRM, so that there is one to forward to.
func (s *site) startWinRM(ctx context.Context, host winhost.Host) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(host.Address(), strconv.Itoa(winRMPort)))
	if err != nil {
		return err
	}
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, "This is where WinRM of %s would answer.\n", host.Name())
		}),
	}
	s.winrm = append(s.winrm, server)
	// It ends by Close, which is no news.
	go func() { _ = server.Serve(listener) }()
	return nil
}

var tierText = map[string]string{
	winhost.TierWine:      "Wine, runs the real windows-node-agent.exe and the real kubelet.exe behind a real SSH server",
	winhost.TierInProcess: "in process, a real SSH server with the agent's engine on a Windows-like file tree",
}

func (s *site) close() error {
	var errs []error
	for _, server := range s.winrm {
		errs = append(errs, server.Close())
	}
	for _, host := range s.all() {
		errs = append(errs, host.Close())
	}
	return errors.Join(errs...)
}

// writeLogs plays what runs on each host: a line a second into the log of the kubelet,
// as klog writes it, and one now and then into that of containerd, until ctx is done.
func (s *site) writeLogs(ctx context.Context) {
	const containerdEvery = 5
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for n := 1; ; n++ {
		for _, host := range s.all() {
			if host.Tier() == winhost.TierWine {
				continue // what runs there writes its own
			}
			now := time.Now()
			// A host that is being closed has no directory any more.
			_ = appendTo(filepath.Join(host.LogDir(), "kubelet", "kubelet.log"), fmt.Sprintf(
				"I%s 4711 kubelet.go:2495] \"Stand-in for the kubelet of this host\" host=%q line=%d\n", now.Format("0102 15:04:05.000000"), host.Name(), n))
			if n%containerdEvery == 0 {
				_ = appendTo(filepath.Join(host.LogDir(), "containerd", "containerd.log"), fmt.Sprintf(
					"time=%q level=info msg=\"stand-in for containerd\" line=%d\n", now.Format(time.RFC3339Nano), n/containerdEvery))
			}
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
