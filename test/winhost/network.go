// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/openshift/windows-instance-api/test/winhost/internal/faultnet"
)

// Gateway is the address of this machine for hosts with a network of their own. It is the
// same for all of them, so that a server's certificate can name it before there is a host.
const Gateway = "10.213.0.1"

// Hosts have addresses in hostNetwork, at the second or a later place of its third byte, so
// that none is Gateway's neighbor. They cannot reach each other.
var hostNetwork = netip.MustParsePrefix("10.213.0.0/16")

// network is a network namespace with a pair of virtual interfaces to this machine: eth0
// inside, winhost-<number> outside. It lasts as long as somebody has it open, and so no longer
// than this process and the machines in it.
type network struct {
	namespace *os.File
	address   netip.Addr
	link      string
	claim     net.Listener // of the address
}

// NetworkAvailable says why hosts cannot have networks of their own on this machine, nil if
// they can.
func NetworkAvailable() error {
	n, err := newNetwork(context.Background())
	if err != nil {
		return err
	}
	return n.close()
}

func newNetwork(ctx context.Context) (_ *network, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("making a network for a host: %w", err)
		}
	}()
	if os.Geteuid() != 0 {
		return nil, errors.New("only root may make virtual interfaces")
	}
	n, err := claimNetwork()
	if err != nil {
		return nil, err
	}
	if err := n.create(ctx); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// claimNetwork takes an address that no host of another process has. The claim is a listening
// socket in the abstract namespace, which the kernel gives to one process only and takes back
// when that ends in whatever way.
func claimNetwork() (*network, error) {
	const hosts = 254 * 256
	start := rand.IntN(hosts)
	for i := range hosts {
		number := 256 + (start+i)%hosts
		bytes := hostNetwork.Addr().As4()
		bytes[2], bytes[3] = byte(number>>8), byte(number)
		if bytes[3] == 0 || bytes[3] == 255 {
			continue
		}
		address := netip.AddrFrom4(bytes)
		claim, err := net.Listen("unix", "@windows-instance-api/winhost/"+address.String())
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("claiming an address: %w", err)
		}
		return &network{address: address, link: fmt.Sprintf("winhost-%d", number), claim: claim}, nil
	}
	return nil, fmt.Errorf("all addresses of %s are taken by running hosts", hostNetwork)
}

func (n *network) create(ctx context.Context) error {
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with this goroutine
		err := os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_NEWNET))
		if err == nil {
			n.namespace, err = os.Open("/proc/thread-self/ns/net")
		}
		made <- err
	}()
	if err := <-made; err != nil {
		return err
	}
	if err := n.ip(ctx, "link", "add", n.link, "type", "veth", "peer", "name", "eth0", "netns", "/proc/self/fd/3"); err != nil {
		return err
	}
	// Outside, a route to the one address; inside, the gateway is a neighbor.
	for _, args := range [][]string{
		{"address", "add", Gateway + "/32", "dev", n.link},
		{"link", "set", n.link, "up"},
		{"route", "add", n.address.String() + "/32", "dev", n.link, "src", Gateway},
	} {
		if err := n.ip(ctx, args...); err != nil {
			return err
		}
	}
	return n.do(func() error {
		for _, args := range [][]string{
			{"link", "set", "lo", "up"},
			{"address", "add", fmt.Sprintf("%s/%d", n.address, hostNetwork.Bits()), "dev", "eth0"},
			{"link", "set", "eth0", "up"},
			{"route", "add", "default", "via", Gateway},
			// There is nothing behind the gateway. Who asks there, as for a name of the DNS,
			// must be told so at once.
			{"route", "add", "unreachable", "0.0.0.0/1"},
			{"route", "add", "unreachable", "128.0.0.0/1"},
		} {
			if err := n.ip(ctx, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// ip runs ip(8), which finds the namespace as file descriptor 3.
func (n *network) ip(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "ip", args...)
	cmd.ExtraFiles = []*os.File{n.namespace}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// enter takes the calling thread, which must be locked to its goroutine, into the namespace.
func (n *network) enter() error {
	return os.NewSyscallError("setns", unix.Setns(int(n.namespace.Fd()), unix.CLONE_NEWNET))
}

// do calls f in the namespace.
func (n *network) do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock, as above
		err := n.enter()
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// within is how sockets are made in the namespace.
func (n *network) within() faultnet.Within {
	if n == nil {
		return nil
	}
	return n.do
}

// close gives everything back. The interfaces go with the last process and socket in the
// namespace at the latest; by name the link is free at once.
func (n *network) close() error {
	if n == nil {
		return nil
	}
	if n.namespace != nil {
		_ = n.ip(context.Background(), "link", "delete", n.link) // it may not have been made
		_ = n.namespace.Close()
	}
	return n.claim.Close()
}

// Relay lets hosts with a network of their own reach one server of this machine.
type Relay struct {
	listener net.Listener
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
}

// NewRelay relays connections to a free port of [Gateway] to the server at target, host:port.
func NewRelay(target string) (*Relay, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		// There need not be a host, and so the address, yet.
		if err := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_FREEBIND, 1) }); err != nil {
			return err
		}
		return os.NewSyscallError("setsockopt", err)
	}}
	l, err := config.Listen(context.Background(), "tcp4", net.JoinHostPort(Gateway, "0"))
	if err != nil {
		return nil, fmt.Errorf("relaying to %s: %w", target, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Relay{listener: l, cancel: cancel}
	r.tasks.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.tasks.Go(func() { faultnet.Forward(ctx, c, target) })
		}
	})
	return r, nil
}

// Address is where hosts reach the server: Gateway and a port.
func (r *Relay) Address() string { return r.listener.Addr().String() }

// Close ends the relay and its connections.
func (r *Relay) Close() error {
	r.cancel()
	err := r.listener.Close()
	r.tasks.Wait()
	return err
}
