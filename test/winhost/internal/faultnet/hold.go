// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package faultnet

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// Hold keeps a TCP port. As long as it is there no other process is given the port by
// chance, and connecting to it is refused while nobody listens.
type Hold struct {
	fd   int
	addr *net.TCPAddr
}

// HoldPort takes a port of an IPv4 address; port 0 is any free one. Whoever listens on it
// must set SO_REUSEADDR, as package net and sshd do.
func HoldPort(host string, port int) (hold *Hold, err error) {
	ip := net.ParseIP(host).To4()
	if ip == nil {
		return nil, fmt.Errorf("%q is not an IPv4 address", host)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			_ = syscall.Close(fd)
		}
	}()
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	// Bound but not listening. With SO_REUSEADDR on both, a listener may be bound besides.
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte(ip), Port: port}); err != nil {
		return nil, fmt.Errorf("bind %s:%d: %w", host, port, err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	bound, ok := sa.(*syscall.SockaddrInet4)
	if !ok {
		return nil, fmt.Errorf("getsockname: unexpected %T", sa)
	}
	return &Hold{fd: fd, addr: &net.TCPAddr{IP: ip, Port: bound.Port}}, nil
}

// Addr is the address that is held.
func (h *Hold) Addr() *net.TCPAddr { return h.addr }

// Release gives the port back. It must be called once.
func (h *Hold) Release() error { return os.NewSyscallError("close", syscall.Close(h.fd)) }
