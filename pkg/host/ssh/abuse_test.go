// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

// The tests of this file hold the pool against classes of attacks that other programs
// have fallen to.

// wiretap stands between the pool and a server, keeps the beginning of what each says,
// and may put something in.
type wiretap struct {
	listener net.Listener
	// inject is sent to the client right after the server's identification.
	inject []byte

	wg             sync.WaitGroup
	mu             sync.Mutex
	client, server bytes.Buffer
}

func newWiretap(t *testing.T, server string, inject []byte) *wiretap {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wiretap{listener: listener, inject: inject}
	w.wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() { w.pass(conn, server) })
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		w.wg.Wait()
	})
	return w
}

func (w *wiretap) port() int { return w.listener.Addr().(*net.TCPAddr).Port }

func (w *wiretap) pass(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	w.wg.Go(func() {
		defer server.Close()
		_, _ = io.Copy(io.MultiWriter(server, w.keep(&w.client)), client)
	})
	// The identification line comes alone, byte by byte here.
	line := make([]byte, 0, 255)
	for b := make([]byte, 1); len(line) == 0 || line[len(line)-1] != '\n'; line = append(line, b[0]) {
		if _, err := io.ReadFull(server, b); err != nil {
			return
		}
	}
	if _, err := client.Write(append(line, w.inject...)); err != nil {
		return
	}
	_, _ = io.Copy(io.MultiWriter(client, w.keep(&w.server)), server)
}

// keep is a writer to a buffer that holds the first 16 KiB.
func (w *wiretap) keep(to *bytes.Buffer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		to.Write(p[:min(len(p), 16<<10-to.Len())])
		return len(p), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// messageKexInit and messageIgnore are SSH_MSG_KEXINIT and SSH_MSG_IGNORE of RFC 4253.
const messageKexInit, messageIgnore = 20, 2

// nameLists reads the lists of algorithms of the first packet of a side: key exchange,
// host keys, ciphers out and in, MACs out and in, and so on (RFC 4253, section 7.1).
func nameLists(t *testing.T, said []byte) [][]string {
	t.Helper()
	if len(said) < 22 || said[5] != messageKexInit {
		t.Fatalf("the first packet is no KEXINIT: %q", said[:min(len(said), 32)])
	}
	said = said[22:]
	var lists [][]string
	for range 8 {
		n := binary.BigEndian.Uint32(said)
		lists = append(lists, strings.Split(string(said[4:4+n]), ","))
		said = said[4+n:]
	}
	return lists
}

// packet is an unencrypted SSH packet.
func packet(payload ...byte) []byte {
	padding := 8 - (5+len(payload))%8 + 8
	out := binary.BigEndian.AppendUint32(nil, uint32(1+len(payload)+padding))
	out = append(out, byte(padding))
	out = append(out, payload...)
	return append(out, make([]byte, padding)...)
}

// TestTerrapin is CVE-2023-48795: somebody on the path puts a message into the
// handshake, so that one can be taken out after it. Strict key exchange ends such a
// handshake; with servers that do not have it, no algorithm is used that is weak to it.
func TestTerrapin(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{})
	address := net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
	t.Run("strict key exchange", func(t *testing.T) {
		tap := newWiretap(t, address, nil)
		p := newPool(t, hostssh.Options{})
		target := sshdTarget(s)
		target.Address, target.Port = "127.0.0.1", tap.port()
		if err := p.Ping(testContext(t), target); err != nil {
			t.Fatal(err)
		}
		tap.mu.Lock()
		defer tap.mu.Unlock()
		_, said, _ := bytes.Cut(tap.client.Bytes(), []byte("\n"))
		ours, theirs := nameLists(t, said), nameLists(t, tap.server.Bytes())
		if !slices.Contains(ours[0], "kex-strict-c-v00@openssh.com") {
			t.Errorf("we do not ask for strict key exchange: %q", ours[0])
		}
		if !slices.Contains(theirs[0], "kex-strict-s-v00@openssh.com") {
			t.Errorf("sshd does not offer strict key exchange: %q", theirs[0])
		}
		for _, cipher := range append(ours[2], ours[3]...) {
			if strings.Contains(cipher, "chacha20") || strings.Contains(cipher, "cbc") || strings.Contains(cipher, "arcfour") {
				t.Errorf("we offer %s, which is weak without strict key exchange", cipher)
			}
		}
	})
	t.Run("a message is put in", func(t *testing.T) {
		tap := newWiretap(t, address, packet(messageIgnore, 0, 0, 0, 0))
		p := newPool(t, hostssh.Options{})
		target := sshdTarget(s)
		target.Address, target.Port = "127.0.0.1", tap.port()
		wantError(t, p.Ping(testContext(t), target), hostssh.LayerHandshake, hostssh.ReasonHandshakeFailed)
	})
}

// TestAuthenticationOfOneCredentialIsNotThatOfAnother is the class of CVE-2024-45337,
// where a server took a key that had only been shown for the one that was proven. We
// have no SSH server (see test/rules); the state of ours that could be confused is a
// connection that one credential has opened, which no other may use.
func TestAuthenticationOfOneCredentialIsNotThatOfAnother(t *testing.T) {
	s := newServer(t, script{password: "right"})
	p := newPool(t, hostssh.Options{})
	ctx := testContext(t)
	good := s.target()
	good.Credential.ID = "good"
	if err := p.Ping(ctx, good); err != nil {
		t.Fatal(err)
	}
	for name, credential := range map[string]hostssh.Credential{
		"another key":                 {ID: "other", Signers: []ssh.Signer{newSigner(t, ssh.KeyAlgoED25519)}},
		"another password":            {ID: "wrong", Password: "wrong"},
		"the key shown and not owned": {ID: "shown", Signers: []ssh.Signer{shownOnly{s.key}}},
	} {
		bad := good
		bad.Credential = credential
		err := p.Ping(ctx, bad)
		if e, ok := hostssh.AsError(err); !ok || e.Layer != hostssh.LayerAuth {
			t.Errorf("%s: got %v, want a refusal of the credentials", name, err)
		}
	}
	eve := good
	eve.User = "eve"
	if err := p.Ping(ctx, eve); err != nil {
		t.Error(err)
	}
	if got := s.count(&s.accepted); got != 5 {
		t.Errorf("there were %d connections, want one for each user and credential: 5", got)
	}
	if err := p.Ping(ctx, good); err != nil {
		t.Error(err)
	}
	if got := s.count(&s.accepted); got != 5 {
		t.Error("the connection of the good credential was not used again")
	}
}

// shownOnly has the public half of a key only.
type shownOnly struct{ ssh.Signer }

func (shownOnly) Sign(io.Reader, []byte) (*ssh.Signature, error) {
	return nil, errors.New("the private key is somebody else's")
}
