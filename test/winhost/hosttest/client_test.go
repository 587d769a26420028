// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hosttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/test/winhost"
)

// step is how far a client came: the last thing that it asked for.
type step string

const (
	atConnect   step = "connect"
	atHandshake step = "handshake" // banner and key exchange
	atAuth      step = "auth"
	atSession   step = "session"
	atExec      step = "exec"
	atOutput    step = "output" // the command was accepted
	atEnd       step = "end"    // the command ended
)

// outcome is what became of one attempt to run a command.
type outcome struct {
	Step step
	// What is "ok", "exit N", "refused", "reset", "closed", "denied", "rejected", "hang"
	// or the text of an error.
	What string
}

// client is a plain SSH client that remembers how far it came.
type client struct {
	host   winhost.Host
	signer ssh.Signer

	mu   sync.Mutex
	step step
	conn *spiedConn
}

// spiedConn knows what ended it, which x/crypto/ssh does not tell, and how much came.
type spiedConn struct {
	net.Conn
	received atomic.Int64

	mu  sync.Mutex
	err error // the first one
}

func (s *spiedConn) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.received.Add(int64(n))
	s.note(err)
	return n, err
}

func (s *spiedConn) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	s.note(err)
	return n, err
}

func (s *spiedConn) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// end is why the connection ended.
func (s *spiedConn) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (c *client) at(s step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step = s
}

func (c *client) progress() (step, *spiedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.step, c.conn
}

// dial connects and authenticates.
func (c *client) dial(ctx context.Context) (*ssh.Client, error) {
	c.at(atConnect)
	address := net.JoinHostPort(c.host.Address(), strconv.Itoa(c.host.Port()))
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	spied := &spiedConn{Conn: nc}
	c.mu.Lock()
	c.conn, c.step = spied, atHandshake
	c.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	want := c.host.HostKey()
	conn, chans, reqs, err := ssh.NewClientConn(spied, address, &ssh.ClientConfig{
		User: c.host.User(),
		Auth: []ssh.AuthMethod{ssh.PublicKeys(c.signer)},
		HostKeyCallback: func(hostname string, remote net.Addr, key ssh.PublicKey) error {
			c.at(atAuth) // the key exchange is over, unless the key is wrong
			return ssh.FixedHostKey(want)(hostname, remote, key)
		},
	})
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	return ssh.NewClient(conn, chans, reqs), nil
}

// run runs a command on a connection of its own.
func (c *client) run(ctx context.Context, line string, stdin io.Reader, stdout io.Writer) error {
	cl, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	stop := context.AfterFunc(ctx, func() { _ = cl.Close() })
	defer stop()
	c.at(atSession)
	s, err := cl.NewSession()
	if err != nil {
		return err
	}
	s.Stdin, s.Stdout, s.Stderr = stdin, stdout, io.Discard
	c.at(atExec)
	if err := s.Start(line); err != nil {
		return err
	}
	c.at(atOutput)
	if err := s.Wait(); err != nil {
		return err
	}
	c.at(atEnd)
	return nil
}

// try runs a command and says what came of it. A client that gets no further than hang is
// left waiting for a moment to make sure; "" expects no hang.
func try(t *testing.T, h winhost.Host, signer ssh.Signer, line string, hang step) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := &client{host: h, signer: signer}
	ended := make(chan error, 1)
	go func() { ended <- c.run(ctx, line, nil, io.Discard) }()
	var err error
	if hang == "" {
		err = <-ended
		return c.outcome(err)
	}
	Eventually(t, fmt.Sprintf("the client is at %s", hang), func() bool {
		s, _ := c.progress()
		return s == hang || len(ended) > 0
	})
	select {
	case err = <-ended:
		return c.outcome(err)
	case <-time.After(300 * time.Millisecond): // a host that is only slow may pass for one that hangs, never the other way round
	}
	s, _ := c.progress()
	cancel()
	<-ended
	return outcome{s, "hang"}
}

func (c *client) outcome(err error) outcome {
	s, conn := c.progress()
	var end error
	if conn != nil {
		end = conn.end()
	}
	var exit *ssh.ExitError
	var rejected *ssh.OpenChannelError
	switch {
	case err == nil:
		return outcome{s, "ok"}
	case errors.As(err, &exit):
		return outcome{s, "exit " + strconv.Itoa(exit.ExitStatus())}
	case errors.As(err, &rejected):
		return outcome{s, "rejected"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return outcome{s, "refused"}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(end, syscall.ECONNRESET), errors.Is(end, syscall.EPIPE):
		if s == atConnect {
			s = atHandshake // whether connect or the first read is told is a matter of time
		}
		return outcome{s, "reset"}
	case strings.Contains(err.Error(), "unable to authenticate"):
		return outcome{s, "denied"}
	case errors.Is(end, io.EOF):
		return outcome{s, "closed"}
	default:
		return outcome{s, err.Error()}
	}
}

// output runs a command that must succeed and returns what it printed.
func output(t *testing.T, h winhost.Host, signer ssh.Signer, line string, stdin io.Reader) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	if err := (&client{host: h, signer: signer}).run(ctx, line, stdin, &out); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return out.Bytes()
}

// dial connects to a healthy host for the rest of the test.
func dial(t *testing.T, h winhost.Host, signer ssh.Signer) *ssh.Client {
	t.Helper()
	cl, err := (&client{host: h, signer: signer}).dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}
