// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/remotecommand"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/plugin/portforward"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

const (
	// perHost are as many sessions as the pool opens on one host.
	perHost = 32
	// unreadSize is the log that nobody reads: more than all buffers on the way hold.
	unreadSize = 32 << 20
	// opening are as many as are opened at a time: more connections at once than sshd takes.
	opening = 32
	// settling is how long it is waited for what still comes when all is open.
	settling = 30 * time.Second
)

// BenchmarkUnread has hosts flood clients that read nothing: of logs, of commands and of forwarded
// ports, through kube-apiserver. Reported are the highest resident memory of windows-apiserver with the limit of the manifests, and
// how many of the streams could not be opened, and were ended. BENCH_LOGS, BENCH_SHELLS and BENCH_FORWARDS are how
// many there are, BENCH_GOMEMLIMIT is another limit.
func BenchmarkUnread(b *testing.B) {
	logs, shells, forwards := environmentNumber("BENCH_LOGS", 2000), environmentNumber("BENCH_SHELLS", 500), environmentNumber("BENCH_FORWARDS", 1000)
	var environment []string
	if limit := os.Getenv("BENCH_GOMEMLIMIT"); limit != "" {
		environment = append(environment, "GOMEMLIMIT="+limit)
	}
	port := startBulkServer(b)
	s, signer, key := startSystem(b, system.Options{WithoutController: true, ServerEnv: environment, APIServerArgs: []string{
		fmt.Sprintf("--port-forward-ports=%d", port),
		"--max-log-streams-per-user=0", "--max-log-streams-per-user-and-host=0", "--max-log-streams-per-namespace=0",
		"--max-sessions=0", "--max-sessions-per-user=0", "--max-sessions-per-user-and-host=0", "--max-sessions-per-namespace=0", "--max-sessions-per-host=0",
	}})
	ns := namespace(b, s, "bench")
	logged := make([]sshHost, (logs+perHost-1)/perHost)
	for i := range logged {
		host := startHost(b, signer, winhost.Options{})
		appendLine(b, host, strings.Repeat(strings.Repeat("x", 127)+"\n", unreadSize/128))
		logged[i] = sshHost{address: host.Address(), port: host.Port(), user: host.User(), hostKey: host.HostKey()}
		logged[i].createInstance(b, s, ns, fmt.Sprintf("log%d", i))
	}
	bare := startSSHD(b, signer, key)
	for i := range max((shells+perHost-1)/perHost, 1) {
		bare.createInstance(b, s, ns, fmt.Sprintf("shell%d", i))
	}
	for i := range max((forwards+perHost-1)/perHost, 1) {
		bare.createInstance(b, s, ns, fmt.Sprintf("port%d", i))
	}
	client, config := httpClient(b, s.AdminConfig()), s.AdminConfig()
	before := highestResidentMiB(b, s.Server.PID())

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var opened, streams sync.WaitGroup
	var refused atomic.Int64
	places := make(chan struct{}, opening)
	keep := func(stream func(opened func()) error) {
		opened.Add(1)
		places <- struct{}{}
		var is atomic.Bool
		once := sync.OnceFunc(func() {
			is.Store(true)
			<-places
			opened.Done()
		})
		streams.Go(func() {
			err := stream(once)
			if !is.Load() && ctx.Err() == nil {
				refused.Add(1)
				_, _ = fmt.Fprintf(b.Output(), "not opened: %v\n", err)
			}
			once()
		})
	}
	for b.Loop() {
		for i := range logs {
			keep(func(opened func()) error {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+logPath(ns, fmt.Sprintf("log%d", i/perHost), "query=kubelet"), nil)
				if err != nil {
					return err
				}
				response, err := client.Do(request)
				if err != nil {
					return err
				}
				defer response.Body.Close()
				if response.StatusCode != http.StatusOK {
					return fmt.Errorf("a log: %s", response.Status)
				}
				opened()
				<-ctx.Done()
				return nil
			})
		}
		for i := range shells {
			keep(func(opened func()) error {
				e, err := executor(config, ns, fmt.Sprintf("shell%d", i/perHost), false, false, "cat", "/dev/zero")
				if err != nil {
					return err
				}
				over, cancel := context.WithCancel(ctx)
				defer cancel()
				return e.StreamWithContext(ctx, remotecommand.StreamOptions{Stderr: io.Discard, Stdout: writerFunc(func(p []byte) (int, error) {
					opened()
					<-over.Done()
					return len(p), nil
				})})
			})
		}
		for i := range forwards {
			keep(func(opened func()) error {
				conn, err := portforward.Dial(ctx, config, fmt.Sprintf("%s%s?ports=%d", s.URL(), subresourcePath(ns, fmt.Sprintf("port%d", i/perHost), "portforward"), port))
				if err != nil {
					return err
				}
				defer conn.Close()
				if err := binary.Write(conn, binary.BigEndian, order{Take: unreadSize}); err != nil {
					return err
				}
				opened()
				<-ctx.Done()
				return nil
			})
		}
		opened.Wait()
		select {
		case <-time.After(settling):
		case <-ctx.Done():
		}
	}
	b.ReportMetric(before, "MiB-before")
	b.ReportMetric(highestResidentMiB(b, s.Server.PID()), "MiB-highest")
	b.ReportMetric(float64(refused.Load()), "refused")
	b.ReportMetric(float64(endedForMemory(b, s)), "ended")
	cancel()
	streams.Wait()
}

// highestResidentMiB is the highest resident memory that a process has had.
func highestResidentMiB(b *testing.B, pid int) float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			var kib float64
			if _, err := fmt.Sscan(text, &kib); err != nil {
				b.Fatal(err)
			}
			return kib / 1024
		}
	}
	b.Fatal("no VmHWM")
	return 0
}

// watchedHosts is how many hosts BenchmarkWatched has.
var watchedHosts = environmentNumber("BENCH_WATCHED", 500)

// BenchmarkWatched reports the highest resident memory of windows-controller that brings 500 hosts through preflight at once.
func BenchmarkWatched(b *testing.B) {
	s, signer, _ := startSystem(b, system.Options{})
	hosts := make([]winhost.Host, watchedHosts)
	for i := range hosts {
		hosts[i] = startHost(b, signer, winhost.Options{Name: fmt.Sprintf("w-%d", i)})
	}
	ns := namespace(b, s, "bench")
	before := highestResidentMiB(b, s.Controller.PID())
	for b.Loop() {
		for i, host := range hosts {
			createInstance(b, s, ns, fmt.Sprintf("w%03d", i), host)
		}
		waitFor(b, s, ns, v1alpha1.ConditionPreflightPassed, len(hosts))
	}
	b.ReportMetric(before, "MiB-before")
	b.ReportMetric(highestResidentMiB(b, s.Controller.PID()), "MiB-highest")
}

// endedStreams is what windows-apiserver logs when it ends some.
var endedStreams = regexp.MustCompile(`"Ending streams .* streams=(\d+)`)

// endedForMemory is how many streams the server has ended because memory was short. Their clients, which
// read nothing, do not learn of it.
func endedForMemory(b *testing.B, s *system.System) int {
	b.Helper()
	log, err := os.ReadFile(filepath.Join(s.Dir(), "log", "windows-apiserver.log"))
	if err != nil {
		b.Fatal(err)
	}
	ended := 0
	for _, match := range endedStreams.FindAllSubmatch(log, -1) {
		n, err := strconv.Atoi(string(match[1]))
		if err != nil {
			b.Fatal(err)
		}
		ended += n
	}
	return ended
}
