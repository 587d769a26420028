// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// logSize is the size of the log that is read as a whole.
const logSize = 512 << 20

// BenchmarkLogThroughput reads a log of 512 MiB from a host with Debian's sshd: once
// through kube-apiserver and windows-apiserver, once with `ssh cat`. ratio-to-ssh is
// our throughput over that of ssh.
func BenchmarkLogThroughput(b *testing.B) {
	s, signer, key := startSystem(b, system.Options{})
	host := startHost(b, signer, winhost.Options{Tier: winhost.TierOpenSSH})
	ns := namespace(b, s, "bench")
	createInstance(b, s, ns, "w", host)
	waitFor(b, s, ns, v1alpha1.ConditionAuthenticated, 1)
	line := []byte("I0102 03:04:05.000006    4711 kubelet.go:2495] \"A line as long as many lines of a kubelet are\" pod=\"default/web-7d4b9c6f5-x2x9z\"\n")
	content := bytes.Repeat(line, logSize/len(line))
	path := filepath.Join(host.LogDir(), "kubelet", "kubelet.log")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		b.Fatal(err)
	}
	ssh := sshCommand(b, host, key)
	client := httpClient(b, s.AdminConfig())

	var ours, peer time.Duration
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		peer += timed(b, func() int64 {
			var n counter
			cmd := ssh("cat /C:/var/log/kubelet/kubelet.log")
			cmd.Stdout = &n
			if err := cmd.Run(); err != nil {
				b.Fatalf("ssh: %v", err)
			}
			return int64(n)
		}, len(content))
		ours += timed(b, func() int64 {
			return get(b, client, s.AdminConfig().Host+logPath(ns, "w", "query=kubelet"), io.Discard)
		}, len(content))
	}
	b.ReportMetric(peer.Seconds()/ours.Seconds(), "ratio-to-ssh")
	b.ReportMetric(float64(b.N)*float64(len(content))/ours.Seconds()/1e6, "MB/s-ours")
	b.ReportMetric(float64(b.N)*float64(len(content))/peer.Seconds()/1e6, "MB/s-ssh")
}

// followers and hostsFollowed are what BenchmarkFollowers opens.
const (
	followers     = 500
	hostsFollowed = 50
	followSeconds = 20
	linesPerTick  = 1
	tick          = 100 * time.Millisecond
)

// BenchmarkFollowers follows 500 logs on 50 hosts at 10 lines a second each, through
// kube-apiserver. Reported are the delay of a line from the write on the host to the
// read in the client, the processor time of windows-apiserver as a share of one core,
// and its resident memory for each follower.
func BenchmarkFollowers(b *testing.B) {
	s, signer, _ := startSystem(b, system.Options{APIServerArgs: []string{"--max-log-streams-per-user=1000", "--max-log-streams-per-user-and-host=0"}})
	ns := namespace(b, s, "bench")
	hosts := make([]winhost.Host, hostsFollowed)
	for i := range hosts {
		hosts[i] = startHost(b, signer, winhost.Options{})
		appendLine(b, hosts[i], "first\n")
		createInstance(b, s, ns, fmt.Sprintf("w%d", i), hosts[i])
	}
	waitFor(b, s, ns, v1alpha1.ConditionAuthenticated, len(hosts))
	client := httpClient(b, s.AdminConfig())

	// Memory is counted from before the first follower: what the server has once had it
	// keeps for a while.
	before := residentMiB(b, s.Server.PID())
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		var (
			opened, done sync.WaitGroup
			mu           sync.Mutex
			delays       []time.Duration
		)
		opened.Add(followers)
		for i := range followers {
			done.Go(func() {
				own := follow(ctx, b, client, s.AdminConfig().Host+logPath(ns, fmt.Sprintf("w%d", i%len(hosts)), "query=kubelet&follow=true&tailLines=0"), opened.Done)
				mu.Lock()
				defer mu.Unlock()
				delays = append(delays, own...)
			})
		}
		opened.Wait()
		cpu := cpuSeconds(b, s.Server.PID())
		began := time.Now()
		ticker := time.NewTicker(tick)
		for time.Since(began) < followSeconds*time.Second {
			<-ticker.C
			for _, host := range hosts {
				appendLine(b, host, strings.Repeat(fmt.Sprintf("t=%d\n", time.Now().UnixNano()), linesPerTick))
			}
		}
		ticker.Stop()
		elapsed := time.Since(began).Seconds()
		cores := (cpuSeconds(b, s.Server.PID()) - cpu) / elapsed
		memory := residentMiB(b, s.Server.PID()) - before
		b.ReportMetric(float64(connections(hosts))/float64(len(hosts)), "connections/host")
		cancel()
		done.Wait()

		slices.Sort(delays)
		if len(delays) == 0 {
			b.Fatal("no line arrived")
		}
		b.ReportMetric(float64(delays[len(delays)/2].Microseconds())/1e3, "ms-p50")
		b.ReportMetric(float64(delays[len(delays)*99/100].Microseconds())/1e3, "ms-p99")
		b.ReportMetric(cores, "cores")
		b.ReportMetric(memory*1024/followers, "KiB/follower")
		b.ReportMetric(float64(len(delays))/elapsed, "lines/s")
	}
}

// follow reads lines until ctx is done and returns how old each was.
func follow(ctx context.Context, b *testing.B, client *http.Client, url string, opened func()) []time.Duration {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		b.Error(err)
		opened()
		return nil
	}
	response, err := client.Do(request)
	if err != nil {
		b.Error(err)
		opened()
		return nil
	}
	defer response.Body.Close()
	first := sync.OnceFunc(opened)
	defer first()
	if response.StatusCode != http.StatusOK {
		b.Errorf("%s", response.Status)
		return nil
	}
	first() // the host has found the log and sends what is written from now on
	var delays []time.Duration
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		now := time.Now()
		if written, ok := strings.CutPrefix(lines.Text(), "t="); ok {
			nanoseconds, err := strconv.ParseInt(written, 10, 64)
			if err == nil {
				delays = append(delays, now.Sub(time.Unix(0, nanoseconds)))
			}
		}
	}
	return delays
}

// connections is how many SSH connections the hosts have.
func connections(hosts []winhost.Host) int {
	n := 0
	for _, host := range hosts {
		n += host.Connections()
	}
	return n
}

func appendLine(b *testing.B, host winhost.Host, text string) {
	b.Helper()
	path := filepath.Join(host.LogDir(), "kubelet", "kubelet.log")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		b.Fatal(err)
	}
}

func logPath(namespace, name, query string) string {
	return fmt.Sprintf("/apis/windows.openshift.io/v1alpha1/namespaces/%s/windowsinstances/%s/log?%s", namespace, name, query)
}

// sshCommand returns a function that makes ssh commands on the host, with the host
// key verified.
func sshCommand(b *testing.B, host winhost.Host, key []byte) func(command string) *exec.Cmd {
	b.Helper()
	dir := b.TempDir()
	identity, known := filepath.Join(dir, "key"), filepath.Join(dir, "known_hosts")
	if err := os.WriteFile(identity, key, 0o600); err != nil {
		b.Fatal(err)
	}
	publicKey := host.HostKey()
	line := fmt.Sprintf("[%s]:%d %s %s", host.Address(), host.Port(), publicKey.Type(), authorizedKey(publicKey))
	if err := os.WriteFile(known, []byte(line+"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	return func(command string) *exec.Cmd {
		return exec.Command("ssh", "-i", identity, "-o", "UserKnownHostsFile="+known, "-o", "StrictHostKeyChecking=yes",
			"-o", "BatchMode=yes", "-p", strconv.Itoa(host.Port()), host.User()+"@"+host.Address(), command)
	}
}

func httpClient(b *testing.B, config *rest.Config) *http.Client {
	b.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		b.Fatal(err)
	}
	return client
}

func get(b *testing.B, client *http.Client, url string, to io.Writer) int64 {
	b.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		b.Fatalf("%s: %s", response.Status, body)
	}
	n, err := io.Copy(to, response.Body)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// timed measures do, and checks that it brought everything.
func timed(b *testing.B, do func() int64, want int) time.Duration {
	b.Helper()
	began := time.Now()
	if n := do(); n != int64(want) {
		b.Fatalf("got %d of %d bytes", n, want)
	}
	return time.Since(began)
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
