// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

// sshHost is a bare sshd, and the ways to it that are compared. A bare one, because what
// the host itself takes for a command is in all ways and makes their ratio look better.
type sshHost struct {
	address string
	port    int
	user    string
	hostKey ssh.PublicKey
	signer  ssh.Signer
	key     []byte // the private key of signer
}

// startSSHD starts one that the key logs in to.
func startSSHD(b *testing.B, signer ssh.Signer, key []byte) sshHost {
	b.Helper()
	server := opensshd.Start(b, opensshd.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	return sshHost{address: server.Host, port: server.Port, user: server.User, hostKey: server.HostKey(), signer: signer, key: key}
}

// target is the host for the pool.
func (h sshHost) target() hostssh.Target {
	return hostssh.Target{
		Address: h.address, Port: h.port, User: h.user,
		Credential: hostssh.Credential{Signers: []ssh.Signer{h.signer}}, HostKeys: []ssh.PublicKey{h.hostKey},
	}
}

// createInstance makes an instance whose host is known, so that it can be used
// without a controller.
func (h sshHost) createInstance(b *testing.B, s *system.System, ns, name string) {
	b.Helper()
	err := s.CreateKnown(b.Context(), &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: h.address, Port: int32(h.port), Username: h.user},
	}, h.hostKey)
	if err != nil {
		b.Fatal(err)
	}
}

// far is the host as seen from far away: every byte takes delay in each direction. It is
// a relay that holds bytes back, as the kernel of a test machine may lack netem; what TCP
// makes of the distance, such as slow start, is not in it.
func (h sshHost) far(b *testing.B, delay time.Duration) sshHost {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	to := net.JoinHostPort(h.address, strconv.Itoa(h.port))
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		serveConnections(ctx, listener, func(near net.Conn) {
			away, err := net.Dial("tcp", to)
			if err != nil {
				return // the client sees the end of its connection
			}
			stop := context.AfterFunc(ctx, func() { _ = away.Close() })
			defer stop()
			defer away.Close()
			back := make(chan struct{})
			go func() {
				defer close(back)
				carry(near, away, delay)
			}()
			carry(away, near, delay)
			<-back
		})
	}()
	b.Cleanup(func() {
		cancel()
		_ = listener.Close()
		<-over
	})
	h.address, h.port = "127.0.0.1", listener.Addr().(*net.TCPAddr).Port
	return h
}

// carry copies until from ends, and ends what it sends then.
func carry(to, from net.Conn, delay time.Duration) {
	type parcel struct {
		data []byte
		due  time.Time
	}
	// More than 25 ms of SSH has in commands: the relay must not be a bottleneck.
	parcels := make(chan parcel, 4096)
	go func() {
		defer close(parcels)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			if n > 0 {
				parcels <- parcel{data[:n], time.Now().Add(delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for p := range parcels {
		timer.Reset(time.Until(p.due))
		<-timer.C
		if _, err := to.Write(p.data); err != nil {
			_ = from.Close() // nobody takes it any more
		}
	}
	if half, ok := to.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
}

// serveConnections serves each connection until the listener is closed, and then
// closes those that are left.
func serveConnections(ctx context.Context, listener net.Listener, serve func(net.Conn)) {
	served := make(chan struct{})
	open := 0
	for {
		conn, err := listener.Accept()
		if err != nil {
			break
		}
		open++
		go func() {
			defer func() { served <- struct{}{} }()
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			serve(conn)
		}()
		for done := true; done && open > 0; {
			select {
			case <-served:
				open--
			default:
				done = false
			}
		}
	}
	for ; open > 0; open-- {
		<-served
	}
}

// ssh makes ssh commands on the host: the host key is verified, no configuration of
// this machine is used, and the cipher is the fastest, which is that of the pool.
func (h sshHost) ssh(b *testing.B) func(args ...string) *exec.Cmd {
	b.Helper()
	dir := b.TempDir()
	identity, known := filepath.Join(dir, "key"), filepath.Join(dir, "known_hosts")
	line := fmt.Sprintf("[%s]:%d %s %s\n", h.address, h.port, h.hostKey.Type(), authorizedKey(h.hostKey))
	for path, content := range map[string][]byte{identity: h.key, known: []byte(line)} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return func(args ...string) *exec.Cmd {
		return exec.Command("ssh", append([]string{
			"-F", "none", "-i", identity, "-o", "UserKnownHostsFile=" + known, "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes",
			"-c", "aes128-gcm@openssh.com", "-p", strconv.Itoa(h.port), "-l", h.user,
		}, args...)...)
	}
}

// controlMaster starts a master connection and returns what makes commands over it.
func (h sshHost) controlMaster(b *testing.B) func(command string) *exec.Cmd {
	b.Helper()
	ssh := h.ssh(b)
	socket := filepath.Join(b.TempDir(), "master")
	startCommand(b, ssh("-M", "-N", "-S", socket, h.address), func() error {
		return ssh("-S", socket, "-O", "check", h.address).Run()
	})
	return func(command string) *exec.Cmd { return ssh("-S", socket, h.address, command) }
}

// forward starts ssh -L to a port of the host and returns the local address.
func (h sshHost) forward(b *testing.B, port int) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	local := listener.Addr().String()
	if err := listener.Close(); err != nil {
		b.Fatal(err)
	}
	startCommand(b, h.ssh(b)("-N", "-o", "ExitOnForwardFailure=yes", "-L", fmt.Sprintf("%s:127.0.0.1:%d", local, port), h.address), func() error {
		conn, err := net.Dial("tcp", local)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return local
}

// startCommand starts a command that runs until the end of the benchmark, and waits
// until it is ready.
func startCommand(b *testing.B, cmd *exec.Cmd, ready func() error) {
	b.Helper()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		<-ended
	})
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	for {
		err := ready()
		if err == nil {
			return
		}
		select {
		case wait := <-ended:
			ended <- wait
			b.Fatalf("%s ended: %v", cmd.Path, wait)
		case <-ctx.Done():
			b.Fatalf("%s is not ready: %v", cmd.Path, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// newPool makes a pool with the options that windows-apiserver has.
func newPool(b *testing.B) *hostssh.Pool {
	b.Helper()
	pool := hostssh.New(hostssh.Options{MaxConnsPerHost: 16})
	b.Cleanup(func() {
		if err := pool.Close(); err != nil {
			b.Error(err)
		}
	})
	return pool
}

// onlyReader hides what else a reader can do, so that it is read in chunks.
type onlyReader struct{ io.Reader }
