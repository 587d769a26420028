// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

const (
	// shells are open besides the followers, and in each a key is hit so often.
	shells  = 100
	keyRate = 500 * time.Millisecond
	// directShells are open on the same hosts without our API, for comparison.
	directShells = 10
	// keyTimeout is how long an echo is waited for.
	keyTimeout = 30 * time.Second
)

// BenchmarkStreams has 500 followers of logs, with 10 lines a second each, and 100 shells
// with a terminal open on 50 hosts at the same time, through kube-apiserver. Reported
// are the delay of the echo of a key, also in shells that are reached by SSH alone in the
// same run, the processor time of windows-apiserver as a share of one core, and its
// resident memory for each stream.
func BenchmarkStreams(b *testing.B) {
	s, signer, _ := startSystem(b, system.Options{APIServerArgs: []string{"--max-log-streams-per-user=1000", "--max-sessions-per-user=200", "--max-log-streams-per-user-and-host=0", "--max-sessions-per-user-and-host=0"}})
	ns := namespace(b, s, "bench")
	hosts := make([]winhost.Host, hostsFollowed)
	for i := range hosts {
		hosts[i] = startHost(b, signer, winhost.Options{})
		appendLine(b, hosts[i], "first\n")
		createInstance(b, s, ns, fmt.Sprintf("w%d", i), hosts[i])
	}
	waitFor(b, s, ns, v1alpha1.ConditionAuthenticated, len(hosts))
	client := httpClient(b, s.AdminConfig())
	pool := newPool(b)

	before := residentMiB(b, s.Server.PID())
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		var opened, open sync.WaitGroup
		opened.Add(followers)
		for i := range followers {
			open.Go(func() {
				follow(ctx, b, client, s.AdminConfig().Host+logPath(ns, fmt.Sprintf("w%d", i%len(hosts)), "query=kubelet&follow=true&tailLines=0"), opened.Done)
			})
		}
		opened.Wait()
		following := residentMiB(b, s.Server.PID())

		ours, direct := make([]*typist, shells), make([]*typist, directShells)
		for i := range ours {
			ours[i] = newTypist(ctx, b, &open, func(ctx context.Context, keys io.Reader, screen io.Writer) error {
				e, err := executor(s.AdminConfig(), ns, fmt.Sprintf("w%d", i%len(hosts)), true, true)
				if err != nil {
					return err
				}
				return e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: keys, Stdout: screen, Tty: true})
			})
		}
		for i := range direct {
			direct[i] = newTypist(ctx, b, &open, func(ctx context.Context, keys io.Reader, screen io.Writer) error {
				return directShell(ctx, pool, hosts[i], signer, keys, screen)
			})
		}
		all := slices.Concat(ours, direct)
		for _, t := range all {
			t.await(b)
		}
		// What the opening left behind in memory is the price of a stream, too.
		memory := residentMiB(b, s.Server.PID())

		var typing sync.WaitGroup
		cpu, began := cpuSeconds(b, s.Server.PID()), time.Now()
		for i, t := range all {
			typing.Go(func() { t.typeFor(b, followSeconds*time.Second, time.Duration(i)*keyRate/(shells+directShells)) })
		}
		ticker := time.NewTicker(tick)
		for time.Since(began) < followSeconds*time.Second {
			<-ticker.C
			for _, host := range hosts {
				appendLine(b, host, fmt.Sprintf("t=%d\n", time.Now().UnixNano()))
			}
		}
		ticker.Stop()
		b.ReportMetric((cpuSeconds(b, s.Server.PID())-cpu)/time.Since(began).Seconds(), "cores")
		typing.Wait()
		for _, t := range all {
			t.leave(b)
		}
		cancel()
		open.Wait()

		b.ReportMetric((following-before)*1024/followers, "KiB/follower")
		b.ReportMetric((memory-following)*1024/shells, "KiB/shell")
		b.ReportMetric((memory-before)*1024/(followers+shells), "KiB/stream")
		for name, typists := range map[string][]*typist{"api": ours, "ssh": direct} {
			var delays []time.Duration
			for _, t := range typists {
				delays = append(delays, t.delays...)
			}
			if len(delays) == 0 {
				b.Fatalf("%s: no key was echoed", name)
			}
			b.ReportMetric(milliseconds(quantile(delays, 0.5)), "ms-p50-"+name)
			b.ReportMetric(milliseconds(quantile(delays, 0.99)), "ms-p99-"+name)
		}
	}
}

// directShell runs a shell on a host by SSH alone.
func directShell(ctx context.Context, pool *hostssh.Pool, host winhost.Host, signer ssh.Signer, keys io.Reader, screen io.Writer) error {
	session, err := pool.StartSession(ctx, hostssh.Target{
		Address: host.Address(), Port: host.Port(), User: host.User(),
		Credential: hostssh.Credential{Signers: []ssh.Signer{signer}}, HostKeys: []ssh.PublicKey{host.HostKey()},
	}, "", &hostssh.PTY{})
	if err != nil {
		return err
	}
	typed := make(chan struct{})
	go func() {
		defer close(typed)
		_, _ = io.Copy(session.Stdin(), keys) // ends with keys, or with the session
	}()
	_, err = io.Copy(screen, session.Stdout())
	<-typed
	return errors.Join(err, session.Close())
}

// typist hits keys in a shell and waits for each to be echoed.
type typist struct {
	keys   *io.PipeWriter
	prompt chan struct{}  // closed when the shell waits for input
	echoes chan time.Time // of keys
	ended  chan struct{}
	delays []time.Duration // valid once typeFor has returned
}

// key is what is typed: no part of what the shell prints by itself.
const key = 'x'

// newTypist opens a shell by run, which ends with ctx and is waited for by open.
func newTypist(ctx context.Context, b *testing.B, open *sync.WaitGroup, run func(ctx context.Context, keys io.Reader, screen io.Writer) error) *typist {
	keyboard, keys := io.Pipe()
	t := &typist{keys: keys, prompt: make(chan struct{}), echoes: make(chan time.Time, 1), ended: make(chan struct{})}
	prompted := sync.OnceFunc(func() { close(t.prompt) })
	stop := context.AfterFunc(ctx, func() { _ = keyboard.Close() })
	open.Go(func() {
		defer stop()
		defer close(t.ended)
		err := run(ctx, keyboard, writerFunc(func(p []byte) (int, error) {
			if bytes.HasSuffix(p, []byte(">")) {
				prompted()
			}
			if bytes.IndexByte(p, key) >= 0 {
				select {
				case t.echoes <- time.Now():
				default: // nobody types any more
				}
			}
			return len(p), nil
		}))
		if err != nil && ctx.Err() == nil {
			b.Errorf("a shell ended: %v", err)
		}
	})
	return t
}

// leave throws away what was typed, ends the shell, and waits until it has ended.
func (t *typist) leave(b *testing.B) {
	b.Helper()
	if _, err := io.WriteString(t.keys, "\x03exit\r"); err != nil {
		b.Fatalf("typing: %v", err)
	}
	_ = t.keys.Close() // always nil
	timer := time.NewTimer(keyTimeout)
	defer timer.Stop()
	select {
	case <-t.ended:
	case <-timer.C:
		b.Fatal("a shell does not end")
	}
}

// writerFunc is a function that is a writer.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// await waits for the prompt.
func (t *typist) await(b *testing.B) {
	b.Helper()
	timer := time.NewTimer(keyTimeout)
	defer timer.Stop()
	select {
	case <-t.prompt:
	case <-t.ended:
		b.Fatal("a shell ended before its prompt")
	case <-timer.C:
		b.Fatal("a shell has no prompt")
	}
}

// typeFor types for a while, beginning after a delay, so that not all do at once.
func (t *typist) typeFor(b *testing.B, d, delay time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	ticks := time.NewTimer(delay)
	defer ticks.Stop()
	for {
		select {
		case <-end.C:
			return
		case <-ticks.C:
			ticks.Reset(keyRate)
		}
		hit := time.Now()
		if _, err := t.keys.Write([]byte{key}); err != nil {
			b.Errorf("typing: %v", err)
			return
		}
		timer := time.NewTimer(keyTimeout)
		select {
		case seen := <-t.echoes:
			timer.Stop()
			t.delays = append(t.delays, seen.Sub(hit))
		case <-timer.C:
			b.Error("a key was not echoed")
			return
		}
	}
}
