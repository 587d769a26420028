// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package opensshd starts a private OpenSSH server for tests: the sshd of the distribution, in the
// foreground, on a random port of 127.0.0.1, with a configuration, host keys and
// authorized keys of its own, as the user who runs the test. It shows how a real sshd
// behaves where a stand-in would only show what its author believed. The system's own SSH service is
// neither used nor touched.
//
// It imports nothing of ours, so that the tests of every package can use it.
package opensshd

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// Path of the server program. sshd insists on being called by an absolute path.
const Path = "/usr/sbin/sshd"

// ErrMissing means that there is no sshd on this machine.
var ErrMissing = errors.New(Path + " is missing: run hack/install-deps.sh")

// Key types for Options.HostKeyTypes.
const (
	Ed25519 = ssh.KeyAlgoED25519
	ECDSA   = ssh.KeyAlgoECDSA256
	RSA     = ssh.KeyAlgoRSA
)

// Options of a server. The zero value is a server with an Ed25519 host key that lets the user of
// the test in with Server.Signer.
type Options struct {
	// HostKeyTypes are the types of the host keys to make. Default Ed25519.
	HostKeyTypes []string
	// AuthorizedKeys may log in besides Server.Signer.
	AuthorizedKeys []ssh.PublicKey
	// UserAuthority signs certificates of users that may log in. Nil: there is none.
	UserAuthority ssh.PublicKey
	// NoSFTP leaves the SFTP subsystem out.
	NoSFTP bool
	// Config are lines of sshd_config(5). They come before the server's own, so they win.
	Config []string
}

// Server is a running sshd.
type Server struct {
	// Host is the IP address and Port the TCP port on which it listens.
	Host string
	Port int
	// User is the login name: sshd without privileges can only serve its own user.
	User string
	// Signer is a private key that is authorized.
	Signer ssh.Signer
	// HostKeys are the public halves of its host keys, in the order of Options.HostKeyTypes.
	HostKeys []ssh.PublicKey

	cmd    *exec.Cmd
	log    *logBuffer
	exited chan struct{}
	once   sync.Once
}

// Start runs a server until the end of the test. It fails the test if there is no sshd.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Launch(t.Context(), t.TempDir(), o)
	if err != nil {
		t.Fatalf("starting sshd: %v", err)
	}
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("log of sshd:\n%s", s.Log())
		}
	})
	return s
}

// Launch runs a server with its files in dir until Stop. ctx only bounds the start.
func Launch(ctx context.Context, dir string, o Options) (*Server, error) {
	if _, err := os.Stat(Path); err != nil {
		return nil, ErrMissing
	}
	u, err := user.Current()
	if err != nil {
		return nil, err
	}
	if u.Uid == "0" {
		// Where the parts of sshd without privileges are locked in; packages leave its creation to the service.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return nil, err
		}
	}
	s := &Server{Host: "127.0.0.1", User: u.Username}
	config, err := s.writeFiles(dir, o)
	if err != nil {
		return nil, err
	}
	// Somebody else may take the port between our look and sshd's.
	for range 5 {
		if s.Port, err = freePort(s.Host); err != nil {
			return nil, err
		}
		if err = s.start(ctx, config); !errors.Is(err, errEnded) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

var errEnded = errors.New("sshd ended at once")

// writeFiles returns the path of the configuration.
func (s *Server) writeFiles(dir string, o Options) (string, error) {
	lines := append([]string{}, o.Config...)
	types := o.HostKeyTypes
	if len(types) == 0 {
		types = []string{Ed25519}
	}
	for i, keyType := range types {
		file := filepath.Join(dir, fmt.Sprintf("host_key_%d", i))
		public, err := writeHostKey(file, keyType)
		if err != nil {
			return "", err
		}
		s.HostKeys = append(s.HostKeys, public)
		lines = append(lines, "HostKey "+file)
	}

	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	if s.Signer, err = ssh.NewSignerFromKey(private); err != nil {
		return "", err
	}
	authorized := ssh.MarshalAuthorizedKey(s.Signer.PublicKey())
	for _, k := range o.AuthorizedKeys {
		authorized = append(authorized, ssh.MarshalAuthorizedKey(k)...)
	}
	authorizedFile := filepath.Join(dir, "authorized_keys")
	if err := os.WriteFile(authorizedFile, authorized, 0o600); err != nil {
		return "", err
	}

	if o.UserAuthority != nil {
		file := filepath.Join(dir, "user_authority")
		if err := os.WriteFile(file, ssh.MarshalAuthorizedKey(o.UserAuthority), 0o600); err != nil {
			return "", err
		}
		lines = append(lines, "TrustedUserCAKeys "+file)
	}
	lines = append(lines,
		"AuthorizedKeysFile "+authorizedFile,
		"AllowTcpForwarding yes",
		"KbdInteractiveAuthentication no",
		"LogLevel VERBOSE",
		"PasswordAuthentication no",
		"PermitRootLogin yes",
		"PidFile none",
		// The start-up files of the user's shell print, change what tests rely on, and may wait
		// for locks.
		"SetEnv HOME="+dir,
		// The directories of tests belong to whoever runs them, which need not satisfy sshd.
		"StrictModes no",
		"UseDNS no",
		"UsePAM no",
	)
	if !o.NoSFTP {
		lines = append(lines, "Subsystem sftp internal-sftp")
	}
	config := filepath.Join(dir, "sshd_config")
	return config, os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

func writeHostKey(file, keyType string) (ssh.PublicKey, error) {
	var private any
	var err error
	switch keyType {
	case Ed25519:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case ECDSA:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case RSA:
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		return nil, fmt.Errorf("unknown type of key %q", keyType)
	}
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, err
	}
	return signer.PublicKey(), os.WriteFile(file, pem.EncodeToMemory(block), 0o600)
}

func freePort(host string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// startTimeout is far more than sshd needs even on a busy machine.
const startTimeout = 4 * time.Minute

func (s *Server) start(ctx context.Context, config string) error {
	s.log = &logBuffer{listening: make(chan struct{})}
	s.exited = make(chan struct{})
	// Not CommandContext: the server lives until Stop.
	s.cmd = exec.Command(Path, "-D", "-e", "-f", config, "-o", "ListenAddress="+s.Addr())
	s.cmd.Stderr = s.log
	// Commands that outlive their connection may hold on to it.
	s.cmd.WaitDelay = time.Second
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(s.exited)
		_ = s.cmd.Wait() // it ends by a signal
	}()
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case <-s.log.listening:
		return nil
	case <-s.exited:
		return fmt.Errorf("%w: %s", errEnded, s.log.String())
	case <-ctx.Done():
		s.Stop()
		return ctx.Err()
	case <-timer.C:
		s.Stop()
		return fmt.Errorf("sshd does not listen: %s", s.log.String())
	}
}

// Addr is host:port.
func (s *Server) Addr() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// HostKey is the first of HostKeys.
func (s *Server) HostKey() ssh.PublicKey { return s.HostKeys[0] }

// Log is what sshd logged so far.
func (s *Server) Log() string { return s.log.String() }

// Stop ends the server and the connections that it serves. It may be called more than once.
func (s *Server) Stop() {
	s.once.Do(func() {
		children := s.Connections()
		_ = s.cmd.Process.Kill() // it may have ended already
		for _, pid := range children {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-s.exited
	})
}

// Connections are the ids of the processes that serve one connection each.
func (s *Server) Connections() []int {
	pid := s.cmd.Process.Pid
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil // it has ended
	}
	var children []int
	for field := range strings.FieldsSeq(string(list)) {
		if child, err := strconv.Atoi(field); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// Signal sends a signal to the processes of all connections: SIGKILL cuts them, SIGSTOP makes the host hang
// and SIGCONT ends that.
func (s *Server) Signal(sig syscall.Signal) error {
	var errs []error
	for _, pid := range s.Connections() {
		errs = append(errs, syscall.Kill(pid, sig))
	}
	return errors.Join(errs...)
}

// logBuffer collects the log and tells when sshd has begun to listen.
type logBuffer struct {
	mu        sync.Mutex
	data      bytes.Buffer
	listening chan struct{}
	told      bool
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.data.Write(p)
	if !l.told && bytes.Contains(l.data.Bytes(), []byte("Server listening on")) {
		l.told = true
		close(l.listening)
	}
	return len(p), nil
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.String()
}
