// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh_test

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

// The benchmarks use a real sshd on the loopback interface. The .../direct ones do the same
// with the SSH library alone, so that the price of the pool can be seen.

func benchPool(b *testing.B) (*hostssh.Pool, hostssh.Target, *ssh.Client) {
	b.Helper()
	s := opensshd.Start(b, opensshd.Options{})
	p := newPool(b, hostssh.Options{})
	must(b, p.Ping(b.Context(), sshdTarget(s)))
	direct, err := ssh.Dial("tcp", s.Addr(), &ssh.ClientConfig{
		Config:          ssh.Config{Ciphers: []string{ssh.CipherAES128GCM}},
		User:            s.User,
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(s.Signer)},
		HostKeyCallback: ssh.FixedHostKey(s.HostKey()),
	})
	must(b, err)
	b.Cleanup(func() { direct.Close() })
	return p, sshdTarget(s), direct
}

// directRun is what Run does, without a pool.
func directRun(b *testing.B, c *ssh.Client, command string, stdin io.Reader, stdout io.Writer) {
	b.Helper()
	session, err := c.NewSession()
	must(b, err)
	defer session.Close()
	session.Stdin, session.Stdout = stdin, stdout
	must(b, session.Run(command))
}

func BenchmarkCommand(b *testing.B) {
	p, target, direct := benchPool(b)
	b.Run("pool", func(b *testing.B) {
		for b.Loop() {
			must(b, p.Run(context.Background(), target, "exit 0", nil, nil))
		}
	})
	b.Run("direct", func(b *testing.B) {
		for b.Loop() {
			directRun(b, direct, "exit 0", nil, nil)
		}
	})
}

const benchSize = 64 << 20

func BenchmarkDownload(b *testing.B) {
	p, target, direct := benchPool(b)
	const command = "head -c 67108864 /dev/zero"
	b.Run("pool", func(b *testing.B) {
		b.SetBytes(benchSize)
		for b.Loop() {
			must(b, p.Run(context.Background(), target, command, nil, io.Discard))
		}
	})
	b.Run("direct", func(b *testing.B) {
		b.SetBytes(benchSize)
		for b.Loop() {
			directRun(b, direct, command, nil, io.Discard)
		}
	})
}

func BenchmarkUpload(b *testing.B) {
	p, target, direct := benchPool(b)
	data := make([]byte, benchSize)
	b.Run("pool", func(b *testing.B) {
		b.SetBytes(benchSize)
		for b.Loop() {
			must(b, p.Run(context.Background(), target, "cat >/dev/null", data, nil))
		}
	})
	b.Run("direct", func(b *testing.B) {
		b.SetBytes(benchSize)
		for b.Loop() {
			directRun(b, direct, "cat >/dev/null", bytes.NewReader(data), nil)
		}
	})
	b.Run("sftp", func(b *testing.B) {
		client, err := p.SFTP(b.Context(), target)
		must(b, err)
		defer client.Close()
		path := filepath.Join(b.TempDir(), "file")
		b.SetBytes(benchSize)
		for b.Loop() {
			f, err := client.Create(path)
			must(b, err)
			_, err = f.ReadFrom(bytes.NewReader(data))
			must(b, err)
			must(b, f.Close())
		}
	})
}
