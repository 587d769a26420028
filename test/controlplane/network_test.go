// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"net"
	"net/netip"
	"sync"
	"testing"
)

func TestClaimBlock(t *testing.T) {
	const n = 50
	blocks := make([]*block, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			b, err := claimBlock()
			if err != nil {
				t.Error(err)
				return
			}
			blocks[i] = b
		})
	}
	wg.Wait()
	all := netip.MustParsePrefix("127.96.0.0/11")
	seen := map[netip.Addr]bool{}
	for _, b := range blocks {
		if b == nil {
			continue
		}
		if seen[b.base] {
			t.Errorf("%v was given out twice", b.base)
		}
		seen[b.base] = true
		if o := b.base.As4(); o[0] != 127 || o[1] < 96 || o[1] > 223 || o[3] != 0 {
			t.Errorf("%v is not in the range for blocks (%v and the three after it)", b.base, all)
		}
		if !b.serviceRange().Contains(b.serviceIP(127)) || b.serviceRange().Contains(b.host()) {
			t.Errorf("Service range %v of %v: want the addresses up to %v and not %v", b.serviceRange(), b.base, b.serviceIP(127), b.host())
		}
		if err := b.release(); err != nil {
			t.Error(err)
		}
	}
}

func TestFreePort(t *testing.T) {
	addr := netip.MustParseAddr("127.95.0.1")
	port, err := freePort(addr)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(addr, uint16(port)).String())
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	_ = l.Close()
}
