// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package etcd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// writerEnv makes the test binary the process that TestKill kills; it holds the
// data directory.
const writerEnv = "STORAGE_TEST_WRITER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		if err := write(dir, os.Getpid()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// write puts keys without end and prints each once it is acknowledged.
func write(dir string, run int) error {
	// When the test dies, its end of the pipe closes, and nothing is left behind.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	ctx := context.Background()
	etcd, err := StartEmbedded(ctx, dir)
	if err != nil {
		return err
	}
	client, err := newClient(etcd)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		key := fmt.Sprintf("run-%d-%d", run, i)
		if _, err := client.Put(ctx, key, strings.Repeat(key, 50)); err != nil {
			return err
		}
		fmt.Println(key)
	}
}

func newClient(etcd *Embedded) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints(), DialTimeout: 10 * time.Second, DialOptions: []grpc.DialOption{grpc.WithBlock()}}) //nolint:staticcheck // DialTimeout needs it
}

func start(t *testing.T, dir string) *Embedded {
	t.Helper()
	etcd, err := StartEmbedded(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return etcd
}

func client(t *testing.T, etcd *Embedded) *clientv3.Client {
	t.Helper()
	c, err := newClient(etcd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestMemory: what was written is not kept in memory as well, neither by the process that wrote it nor by the next one, which reads the log.
func TestMemory(t *testing.T) {
	const size, writes, most = 100 << 10, 1500, 100 << 20 // all of it is half more
	dir, value := t.TempDir(), strings.Repeat("x", size)
	before := heap()
	for _, writes := range []int{writes, 0} {
		func() {
			etcd := start(t, dir)
			defer etcd.Close()
			c, err := newClient(etcd)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			for range writes {
				if _, err := c.Put(t.Context(), "key", value); err != nil {
					t.Fatal(err)
				}
			}
			if got := heap() - before; got > most {
				t.Errorf("after %d writes of %d KiB %d MiB are in memory", writes, size>>10, got>>20)
			}
		}()
	}
}

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestKill proves that every acknowledged write outlives a process that is killed.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	var acknowledged []string
	for range 4 {
		acknowledged = append(acknowledged, writeAndKill(t, dir, 1+rand.IntN(120))...)
	}
	etcd := start(t, dir)
	defer etcd.Close()
	c := client(t, etcd)
	got, err := c.Get(t.Context(), "run-", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]string{}
	for _, kv := range got.Kvs {
		stored[string(kv.Key)] = string(kv.Value)
	}
	for _, key := range acknowledged {
		if stored[key] != strings.Repeat(key, 50) {
			t.Errorf("%s was acknowledged and is gone or changed", key)
		}
	}
	t.Logf("%d writes acknowledged, %d stored", len(acknowledged), len(stored))
}

// writeAndKill runs a writer, kills it when it has acknowledged so many keys, and
// returns all that it acknowledged.
func writeAndKill(t *testing.T, dir string, after int) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), writerEnv+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var keys []string
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // a line without an end was cut by the kill
		}
		if keys = append(keys, strings.TrimSpace(line)); len(keys) == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the writer ended with %v after %d keys", err, len(keys))
	}
	return keys
}

func TestOneProcessOnly(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	_, err := StartEmbedded(t.Context(), dir)
	if err == nil || !strings.Contains(err.Error(), dir+" is in use by another windows-apiserver") || !strings.Contains(err.Error(), "--etcd-servers") {
		t.Errorf("a second one: %v", err)
	}
	if _, err := client(t, first).Put(t.Context(), "a", "b"); err != nil {
		t.Errorf("the first one was harmed: %v", err)
	}
	first.Close()
	second := start(t, dir)
	defer second.Close()
	got, err := client(t, second).Get(t.Context(), "a")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "b" {
		t.Errorf("after a restart: %v, %v", got, err)
	}
}

// The name is short, so that the path of the directory is.
func TestSockets(t *testing.T) {
	temporary, dir := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	// As the volume of a pod with fsGroup has it.
	if err := os.Mkdir(filepath.Join(dir, "sockets"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "sockets"), 0o770); err != nil {
		t.Fatal(err)
	}
	start(t, dir)
	info, err := os.Stat(filepath.Join(dir, "sockets"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the sockets are open to others: %v, %v", info.Mode(), err)
	}
	if made, _ := filepath.Glob(filepath.Join(temporary, "*")); len(made) > 0 {
		t.Errorf("a killed process would leave behind: %v", made)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	// Too long for the path of a socket.
	etcd := start(t, filepath.Join(t.TempDir(), strings.Repeat("made/", 20), "when", "missing"))
	sockets, err := filepath.Glob(filepath.Join(temporary, "*"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("got %v, %v", sockets, err)
	}
	info, err := os.Stat(sockets[0])
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the sockets are open to others: %v, %v", info.Mode(), err)
	}
	failed := etcd.Err()
	etcd.Close()
	if left, _ := filepath.Glob(filepath.Join(temporary, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	select {
	case err, open := <-failed:
		if open {
			t.Errorf("after Close: %v", err)
		}
	default:
	}
}

func TestBadDirectories(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		dir  string
		want string
	}{
		{"is a file", file, "creating the data directory"},
		{"below a file", filepath.Join(file, "x"), "creating the data directory"},
		// Nobody can write there, not even root.
		{"cannot be written to", "/proc/self", "opening the lock of the data directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			etcd, err := StartEmbedded(t.Context(), test.dir)
			if err == nil {
				etcd.Close()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestStartGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	etcd, err := StartEmbedded(ctx, dir)
	if err == nil {
		// It was ready at once.
		etcd.Close()
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	start(t, dir).Close() // the directory was let go of
}
