// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package transfer_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// benchFiles is how many programs are sent, serialSize what io.Copy sends of one of them: a
// round trip for each 32 KiB takes its time, so that its throughput is taken from less.
const (
	benchFiles = 8
	serialSize = 1 << 20
)

// benchFileSize is the size of each program: all together have 512 MiB, as a payload has, or
// as many MiB as the variable BENCH_MIB says.
var benchFileSize = func() int {
	mebibytes := 512
	if value, ok := os.LookupEnv("BENCH_MIB"); ok {
		n, err := strconv.Atoi(value)
		if err != nil || n < benchFiles {
			panic(fmt.Sprintf("BENCH_MIB is %q, and not a number of at least %d", value, benchFiles))
		}
		mebibytes = n
	}
	return mebibytes << 20 / benchFiles
}()

// bench is a host with OpenSSH and a set of programs that are to get there.
type bench struct {
	host              winhost.Host
	target            hostssh.Target
	pool              *hostssh.Pool
	local             string
	key, known        string
	contents, gzipped []transfer.Item
}

// BenchmarkUpload measures ways to put 512 MiB of programs on a host, at several round-trip
// times. ratio-scp and ratio-copy are the throughput of a way relative to that of scp, and
// of one io.Copy over SFTP, in the same run.
//
// The round-trip time is that of the stand-in's relay, which delays what passes without limiting
// how much is on its way: so what differs is what each way does with its time, and not
// what TCP does on a long wire.
func BenchmarkUpload(b *testing.B) {
	s := newBench(b)
	all := int64(benchFiles * benchFileSize)
	for _, rtt := range []time.Duration{0, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond} {
		b.Run("rtt="+rtt.String(), func(b *testing.B) {
			if err := s.host.SetFault(winhost.Fault{Latency: rtt / 2}); err != nil {
				b.Fatal(err)
			}
			// io.Copy moves so little that it must not have to connect, too.
			s.pool.Forget(s.target.Owner)
			if err := s.pool.Ping(b.Context(), s.target); err != nil {
				b.Fatal(err)
			}
			var scp, serial float64
			for _, way := range []struct {
				name string
				size int64
				run  func(dir string) error
			}{
				{"scp", all, s.scp},
				{"io.Copy", serialSize, s.copy},
				{"put-one-connection", all, s.put(hostssh.Options{MaxConnsPerHost: 1}, 0, s.contents)},
				{"put-four-connections", all, s.put(hostssh.Options{MaxSessionsPerConn: 1}, 0, s.contents)},
				{"put", all, s.put(transfer.PoolOptions(hostssh.Options{}), 0, s.contents)},
				{"put-gzip", all, s.put(transfer.PoolOptions(hostssh.Options{}), 0, s.gzipped)},
			} {
				b.Run(way.name, func(b *testing.B) {
					rate := s.measure(b, way.size, way.run)
					switch way.name {
					case "scp":
						scp = rate
					case "io.Copy":
						serial = rate
					}
					if scp > 0 {
						b.ReportMetric(rate/scp, "ratio-scp")
					}
					if serial > 0 {
						b.ReportMetric(rate/serial, "ratio-copy")
					}
				})
			}
		})
	}
}

// BenchmarkCompression measures what it gains to send compressed content over a line of
// 100 Mbit/s. ratio-plain is the throughput, in bytes of the files, relative to that without.
func BenchmarkCompression(b *testing.B) {
	s := newBench(b)
	const bytesPerSecond = 100_000_000 / 8
	var plain float64
	for _, way := range []struct {
		name  string
		items []transfer.Item
	}{{"plain", s.contents}, {"gzip", s.gzipped}} {
		b.Run(way.name, func(b *testing.B) {
			rate := s.measure(b, int64(benchFiles*benchFileSize), s.put(transfer.PoolOptions(hostssh.Options{}), bytesPerSecond, way.items))
			if way.name == "plain" {
				plain = rate
			}
			b.ReportMetric(rate/plain, "ratio-plain")
		})
	}
}

// measure returns bytes per second.
func (s *bench) measure(b *testing.B, size int64, run func(dir string) error) float64 {
	b.Helper()
	b.SetBytes(size)
	for b.Loop() {
		b.StopTimer()
		dir := s.dir(b)
		b.StartTimer()
		if err := run(dir); err != nil {
			b.Fatal(err)
		}
	}
	return float64(size) * float64(b.N) / b.Elapsed().Seconds()
}

// dir makes an empty directory on the host.
func (s *bench) dir(b *testing.B) string {
	b.Helper()
	const dir = "/C:/bench"
	local, err := s.host.LocalPath(dir)
	if err = errors.Join(err, os.RemoveAll(local), os.Mkdir(local, 0o755)); err != nil {
		b.Fatal(err)
	}
	return dir
}

func newBench(b *testing.B) *bench {
	b.Helper()
	pem, signer, err := winhost.NewKey()
	if err != nil {
		b.Fatal(err)
	}
	host := hosttest.Start(b, winhost.Options{Tier: winhost.TierOpenSSH, AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	s := &bench{
		host: host, local: b.TempDir(),
		target: hostssh.Target{
			Address: host.Address(), Port: host.Port(), User: host.User(),
			Credential: hostssh.Credential{Signers: []ssh.Signer{signer}}, HostKeys: []ssh.PublicKey{host.HostKey()},
		},
	}
	s.pool = hostssh.New(hostssh.Options{})
	b.Cleanup(func() { _ = s.pool.Close() }) // it never fails
	dir := b.TempDir()
	s.key, s.known = filepath.Join(dir, "key"), filepath.Join(dir, "known_hosts")
	known := fmt.Appendf(nil, "[%s]:%d %s", host.Address(), host.Port(), ssh.MarshalAuthorizedKey(host.HostKey()))
	if err := errors.Join(os.WriteFile(s.key, pem, 0o600), os.WriteFile(s.known, known, 0o600)); err != nil {
		b.Fatal(err)
	}
	// This program compresses as programs do.
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		b.Fatal(err)
	}
	program = bytes.Repeat(program, 1+benchFileSize/len(program))[:benchFileSize]
	for i := range benchFiles {
		name := "program-" + strconv.Itoa(i)
		content := append(bytes.Clone(program[:benchFileSize-1]), byte(i))
		if err := os.WriteFile(filepath.Join(s.local, name), content, 0o600); err != nil {
			b.Fatal(err)
		}
		item, err := gzipItem(transfer.Item{Name: name, SHA256: digest(content), Size: int64(benchFileSize), Open: opener(content)}, content, gzip.DefaultCompression)
		if err != nil {
			b.Fatal(err)
		}
		s.gzipped = append(s.gzipped, item)
		item.Gzip = nil
		s.contents = append(s.contents, item)
	}
	return s
}

func (s *bench) scp(dir string) error {
	out, err := exec.Command("scp", "-q", "-r", "-P", strconv.Itoa(s.host.Port()), "-i", s.key, "-c", "aes128-gcm@openssh.com",
		"-o", "UserKnownHostsFile="+s.known, "-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes",
		s.local, s.host.User()+"@"+s.host.Address()+":"+dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("scp: %w: %s", err, out)
	}
	return nil
}

// copy has one request under way at a time, as io.Copy has with a writer that can do no better.
func (s *bench) copy(dir string) error {
	client, err := s.pool.SFTP(context.Background(), s.target)
	if err != nil {
		return err
	}
	defer client.Close()
	content, err := s.contents[0].Open()
	if err != nil {
		return err
	}
	file, err := client.Create(dir + "/file")
	if err != nil {
		return err
	}
	_, err = io.Copy(struct{ io.Writer }{file}, io.LimitReader(content, serialSize))
	return errors.Join(err, file.Close())
}

// put has a pool of its own each time, as scp has to connect, too.
func (s *bench) put(o hostssh.Options, bytesPerSecond int64, items []transfer.Item) func(dir string) error {
	return func(dir string) (err error) {
		pool := hostssh.New(o)
		defer func() { err = errors.Join(err, pool.Close()) }()
		placed := make([]transfer.Item, len(items))
		for i, item := range items {
			placed[i] = item
			placed[i].HostPath = strings.TrimPrefix(dir, "/") + "/" + item.Name
		}
		remote := newRemote(s.host.LocalPath)
		return transfer.New(transfer.Options{Pool: pool, Remote: remote, HostBytesPerSecond: bytesPerSecond}).Put(context.Background(), s.target, placed, nil)
	}
}
