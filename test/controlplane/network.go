// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
)

// Blocks are taken from 127.96.0.0-127.223.255.0: far from 127.0.0.1, where
// everything else listens, and from 127.0.2.0/24, where test/winhost does.
const (
	firstBlockOctet = 96
	lastBlockOctet  = 223
	blockCount      = (lastBlockOctet - firstBlockOctet + 1) * 256
)

// block is a /24 of loopback addresses that belongs to one control plane of the
// machine at a time.
type block struct {
	base  netip.Addr // 127.x.y.0
	claim net.Listener
}

// claimBlock takes a block that no other process has. The claim is a listening
// socket in the abstract namespace: the kernel gives each name to one process
// only, takes it back when the process ends in whatever way, and keeps the names
// of different network namespaces apart, just as it does the addresses.
func claimBlock() (*block, error) {
	start := rand.IntN(blockCount)
	for i := range blockCount {
		n := (start + i) % blockCount
		base := netip.AddrFrom4([4]byte{127, byte(firstBlockOctet + n/256), byte(n % 256), 0})
		b, err := claim(base)
		if err != nil {
			return nil, fmt.Errorf("claiming loopback addresses: %w", err)
		}
		if b != nil {
			return b, nil
		}
	}
	return nil, fmt.Errorf("claiming loopback addresses: all %d blocks are taken by running control planes", blockCount)
}

// claim takes the block that begins with an address. Nil: another process has it.
func claim(base netip.Addr) (*block, error) {
	listener, err := net.Listen("unix", "@windows-instance-api/controlplane/"+base.String())
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &block{base: base, claim: listener}, nil
}

// release gives the block back.
func (b *block) release() error { return b.claim.Close() }

// serviceRange is the Service CIDR: the lower half of the block.
func (b *block) serviceRange() netip.Prefix { return netip.PrefixFrom(b.base, 25) }

// serviceIP returns the nth address of the Service range.
func (b *block) serviceIP(n int) netip.Addr { return b.address(n) }

// host is the address the control plane's own processes listen on: the first
// one of the upper half.
func (b *block) host() netip.Addr { return b.address(128) }

func (b *block) address(n int) netip.Addr {
	octets := b.base.As4()
	octets[3] = byte(n)
	return netip.AddrFrom4(octets)
}

// freePort returns a TCP port of addr that nobody listens on. Nothing keeps it
// free, so whoever uses it has to expect that it is taken after all.
func freePort(addr netip.Addr) (int, error) {
	l, err := net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		return 0, fmt.Errorf("finding a free port of %v: %w", addr, err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("finding a free port of %v: %w", addr, err)
	}
	return port, nil
}
