// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/test/winhost/internal/faultnet"
	"github.com/openshift/windows-instance-api/test/winhost/internal/winfs"
)

// hostNumber counts the hosts of this process.
var hostNumber atomic.Uint32

// addressOf is the loopback address of the n-th host, n counting from 1. It keeps clear of
// the addresses that other parts of a test bed take, and goes on in 127.0.3.0/24 and so on.
func addressOf(n uint32) string {
	n--
	return fmt.Sprintf("127.0.%d.%d", 2+n/254%200, 1+n%254)
}

// base is what all tiers have in common.
type base struct {
	name, tier, user string
	dir              string
	keepDir          bool
	front            *faultnet.Front
	logf             func(format string, args ...any)

	// power orders what changes a host as a whole: power, faults, keys. It is held while
	// a host boots.
	power sync.Mutex

	close   sync.Once
	closing chan struct{}  // closed when Close begins
	tasks   sync.WaitGroup // waiting for restarts and carrying them out

	mu       sync.Mutex // guards what follows
	hostKey  ssh.Signer
	fault    Fault
	restart  RestartOptions
	restarts int
}

// administrator is what the first administrator of Windows is called.
const administrator = "Administrator"

func newBase(o Options, user string) (*base, error) {
	b := &base{
		name: o.Name, tier: o.Tier, user: user, dir: o.Dir, keepDir: o.Dir != "", logf: o.Logf,
		closing: make(chan struct{}), restart: o.Restart,
	}
	if b.keepDir {
		return b, os.MkdirAll(b.dir, 0o700)
	}
	dir, err := os.MkdirTemp("", "winhost-"+o.Name+"-")
	b.dir = dir
	return b, err
}

// NewKey makes an Ed25519 key pair, for a client or a host, in the form of an OpenSSH
// private key file and ready to sign.
func NewKey() (privatePEM []byte, signer ssh.Signer, err error) {
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(k, "")
	if err != nil {
		return nil, nil, err
	}
	signer, err = ssh.NewSignerFromKey(k)
	return pem.EncodeToMemory(block), signer, err
}

// Name implements [Host].
func (b *base) Name() string { return b.name }

// Tier implements [Host].
func (b *base) Tier() string { return b.tier }

// User implements [Host].
func (b *base) User() string { return b.user }

// Address implements [Host].
func (b *base) Address() string { return b.front.Addr().IP.String() }

// Port implements [Host].
func (b *base) Port() int { return b.front.Addr().Port }

// Connections implements [Host].
func (b *base) Connections() int { return b.front.Connections() }

// Received implements [Host].
func (b *base) Received() int64 { return b.front.Received() }

// HostKey implements [Host].
func (b *base) HostKey() ssh.PublicKey {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hostKey.PublicKey()
}

func (b *base) setHostKey(k ssh.Signer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hostKey = k
}

func (b *base) currentFault() Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fault
}

func (b *base) setFault(f Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = f
}

// authorizedKeysFile is the content of the file of that name.
func authorizedKeysFile(keys []ssh.PublicKey) []byte {
	var b bytes.Buffer
	for _, k := range keys {
		b.Write(ssh.MarshalAuthorizedKey(k))
	}
	return b.Bytes()
}

// administratorsKeys is the file of the keys of administrators, in which sshd on Windows looks for them.
const administratorsKeys = `C:\ProgramData\ssh\administrators_authorized_keys`

// authorizes says whether a file of authorized keys has a key. As on Windows, one that others may write to
// authorizes nobody.
func authorizes(path string, key ssh.PublicKey) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	for len(content) > 0 {
		found, _, _, rest, err := ssh.ParseAuthorizedKey(content)
		if err != nil {
			return false // nothing is left that is a key
		}
		if bytes.Equal(found.Marshal(), key.Marshal()) {
			return true
		}
		content = rest
	}
	return false
}

// addKey adds a key to a file.
func addKey(path string, key ssh.PublicKey) error {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return replaceFile(path, append(content, authorizedKeysFile([]ssh.PublicKey{key})...))
}

// removeFiles removes what the host kept on disk.
func (b *base) removeFiles() error {
	if b.keepDir {
		return nil
	}
	return os.RemoveAll(b.dir)
}

// checkFault is the common beginning of SetFault.
func checkFault(f Fault) (Fault, error) {
	if err := f.Validate(); err != nil {
		return f, fmt.Errorf("winhost: invalid fault: %w", err)
	}
	return f.Normalize(), nil
}

// closeAll runs every step and joins their errors.
func closeAll(steps ...func() error) error {
	var errs []error
	for _, s := range steps {
		errs = append(errs, s())
	}
	return errors.Join(errs...)
}

// replaceFile writes a file so that no reader ever sees half of it, and makes its directory.
func replaceFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, content, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// windowsDirectories are on drive C of a new host.
var windowsDirectories = []string{"ProgramData", "Users/Administrator", "Windows/System32", "Windows/Temp", "var/log"}

// driveC finds a Windows path of drive C: below a directory of this machine.
func driveC(root, hostPath string) (string, error) {
	fs := winfs.FS{Home: "/C:"}
	return winfs.Below(root)(fs.Clean(hostPath))
}

// greets reports whether an SSH server answers at an address.
func greets(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	defer stop()
	got := make([]byte, len("SSH-"))
	_, err = io.ReadFull(c, got)
	return err == nil && string(got) == "SSH-"
}
