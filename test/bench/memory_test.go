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
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/remotecommand"

	"github.com/openshift/windows-instance-api/pkg/plugin/portforward"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

const (
	// perHost are as many sessions as the pool opens on one host.
	perHost = 32
	// unreadSize is the log that nobody reads: more than all buffers on the way hold.
	unreadSize = 32 << 20
	// settling is how long it is waited for what still comes when all is open.
	settling = 30 * time.Second
)

// BenchmarkUnread has hosts flood clients that read nothing: of logs, of commands and of forwarded
// ports, through kube-apiserver. Reported is the highest resident memory of windows-apiserver, once with the limit
// of the manifests and once without one. BENCH_LOGS, BENCH_SHELLS and BENCH_FORWARDS are how many there are.
func BenchmarkUnread(b *testing.B) {
	logs, shells, forwards := environmentNumber("BENCH_LOGS", 400), environmentNumber("BENCH_SHELLS", 100), environmentNumber("BENCH_FORWARDS", 200)
	for _, environment := range [][]string{{"GOMEMLIMIT=768MiB"}, {"GOMEMLIMIT=off"}} {
		b.Run(environment[0], func(b *testing.B) {
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
			keep := func(stream func(opened func()) error) {
				opened.Add(1)
				once := sync.OnceFunc(opened.Done)
				streams.Go(func() {
					defer once()
					if err := stream(once); err != nil && ctx.Err() == nil {
						_, _ = fmt.Fprintf(b.Output(), "ended: %v\n", err)
					}
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
						opened()
						if response.StatusCode != http.StatusOK {
							return fmt.Errorf("a log: %s", response.Status)
						}
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
						return e.StreamWithContext(ctx, remotecommand.StreamOptions{Stderr: io.Discard, Stdout: writerFunc(func(p []byte) (int, error) {
							opened()
							<-ctx.Done()
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
			cancel()
			streams.Wait()
		})
	}
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
