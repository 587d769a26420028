// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// frontProxyTimeout is how long kube-apiserver lets a request last that it does not take
// for a long-running one (--request-timeout).
const frontProxyTimeout = 60 * time.Second

// TestLogFollowPastFrontProxyTimeout follows a kubelet that does not run yet for longer
// than kube-apiserver lets an ordinary request last: without end under the name log, and
// under the name logs in two requests that its cursor joins.
func TestLogFollowPastFrontProxyTimeout(t *testing.T) {
	t.Parallel()
	ns, host := newLogHost(t, winhost.Options{})
	live := followWithKubectl(t, subresource(ns, "w", "log", "query=kubelet&follow=true"))
	first := followWithKubectl(t, subresource(ns, "w", "logs", "query=kubelet&follow=true"))
	eventually(t, "both wait on the host", func() error {
		if n := runsOfAgent(host, "logs"); n != 2 {
			return fmt.Errorf("%d do", n)
		}
		return nil
	})
	if n := len(live.lines()) + len(first.lines()); n > 0 {
		t.Fatalf("%d lines came although no kubelet ever ran:\n%s", n, live.out.String())
	}

	n, rotations := 0, 0
	write := func() {
		writeLog(t, host, "kubelet/kubelet.log", numbered(n))
		n++
	}
	rotate := func() {
		rename(t, host, "kubelet/kubelet.log", fmt.Sprintf("kubelet/kubelet-20260102-0304%02d.log", rotations))
		rotations++
	}
	write()
	live.waitFor(t, numbered(0))
	first.waitFor(t, numbered(0))

	var second *follower
	firstEnds := first.done
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	// On a busy machine the end of the first one comes late.
	for began := time.Now(); time.Since(began) < frontProxyTimeout+6*time.Second || second == nil && time.Since(began) < patience; {
		select {
		case <-tick.C:
			write()
			if n == 20 {
				rotate()
			}
		case <-firstEnds:
			// Between two requests things happen, too.
			write()
			rotate()
			write()
			first.waitForEnd(t)
			second = followWithKubectl(t, subresource(ns, "w", "logs", "query=kubelet&follow=true&cursor="+first.cursor(t)))
			firstEnds = nil // once is enough
		}
	}
	if second == nil {
		t.Fatal("the follow of logs did not end by itself")
	}
	last := numbered(n - 1)
	live.waitFor(t, last)
	second.waitFor(t, last)
	if live.ended() || second.ended() {
		t.Errorf("the streams ended: log %v, logs %v", live.err, second.err)
	}
	mustBeComplete(t, "log", live.lines(), n)
	mustBeComplete(t, "logs and logs with the cursor", append(first.lines(), second.lines()...), n)
	if end := first.out.String(); !strings.HasPrefix(end[strings.LastIndexByte(strings.TrimSuffix(end, "\n"), '\n')+1:], "# cursor: ") {
		t.Errorf("the last line of logs is not the cursor:\n%s", end)
	}
}

// runsOfAgent counts how often a sub-command of the agent was run on a host.
func runsOfAgent(host winhost.Host, command string) int {
	n := 0
	for _, line := range host.Commands() {
		if strings.Contains(line, "windows-node-agent-") && strings.HasSuffix(line, " "+command) {
			n++
		}
	}
	return n
}

// rename renames a log file of the host.
func rename(t *testing.T, host winhost.Host, from, to string) {
	t.Helper()
	if err := os.Rename(filepath.Join(host.LogDir(), from), filepath.Join(host.LogDir(), to)); err != nil {
		t.Fatal(err)
	}
}

// copyLog copies a log file of the host.
func copyLog(t *testing.T, host winhost.Host, from, to string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(host.LogDir(), from))
	if err != nil {
		t.Fatal(err)
	}
	writeLog(t, host, to, string(content))
}

// truncate empties a log file of the host.
func truncate(t *testing.T, host winhost.Host, name string) {
	t.Helper()
	if err := os.Truncate(filepath.Join(host.LogDir(), name), 0); err != nil {
		t.Fatal(err)
	}
}

func TestLogFollowThroughRotation(t *testing.T) {
	t.Parallel()
	ns, host := newLogHost(t, winhost.Options{})
	const rotations, between = 4, 25
	for _, tc := range []struct {
		name string
		// service is a service of its own for each case; rotate rotates its log for the n-th time.
		service string
		rotate  func(t *testing.T, log string, n int)
		// wait is set when what nobody has read yet is lost by the rotation itself.
		wait bool
	}{
		{"renamed with the time, as kube-log-runner does", "kubelet", func(t *testing.T, log string, n int) {
			rename(t, host, log, strings.TrimSuffix(log, ".log")+fmt.Sprintf("-20260102-0304%02d.log", n))
		}, false},
		{"renamed with numbers, as logrotate does", "containerd", func(t *testing.T, log string, n int) {
			for ; n > 0; n-- {
				rename(t, host, fmt.Sprintf("%s.%d", log, n), fmt.Sprintf("%s.%d", log, n+1))
			}
			rename(t, host, log, log+".1")
		}, false},
		{"copied and truncated", "csi-proxy", func(t *testing.T, log string, n int) {
			for ; n > 0; n-- {
				rename(t, host, fmt.Sprintf("%s.%d", log, n), fmt.Sprintf("%s.%d", log, n+1))
			}
			copyLog(t, host, log, log+".1")
			truncate(t, host, log)
		}, false},
		{"truncated", "kube-proxy", func(t *testing.T, log string, _ int) { truncate(t, host, log) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := tc.service + "/" + tc.service + ".log"
			f := follow(t, sys, subresource(ns, "w", "log", "follow=true&query="+tc.service))
			n := 0
			for i := range rotations {
				for range between {
					writeLog(t, host, log, numbered(n))
					n++
				}
				if i == 0 || tc.wait {
					f.waitFor(t, numbered(n-1))
				}
				tc.rotate(t, log, i)
			}
			for range between {
				writeLog(t, host, log, numbered(n))
				n++
			}
			f.waitFor(t, numbered(n-1))
			mustBeComplete(t, tc.service, f.lines(), n)
		})
	}
}

// TestLogFollowStopsOnTheHost checks that nothing is left on the host of a client that
// went away.
func TestLogFollowStopsOnTheHost(t *testing.T) {
	t.Parallel()
	hosttest.Require(t, winhost.TierOpenSSH)
	ns, host := newLogHost(t, winhost.Options{Tier: winhost.TierOpenSSH})
	f := follow(t, sys, subresource(ns, "w", "log", "query=kubelet&follow=true"))
	kubectlFollower := followWithKubectl(t, subresource(ns, "w", "log", "query=kubelet&follow=true"))
	running := func(want int) func() error {
		return func() error {
			if got := host.Running(); got != want {
				return fmt.Errorf("the agent runs %d times", got)
			}
			return nil
		}
	}
	eventually(t, "two agents run on the host", running(2))
	f.stop()
	eventually(t, "one agent runs on the host", running(1))
	kubectlFollower.stop()
	eventually(t, "no agent runs on the host", running(0))
}

// TestLogTiers reads logs of a host of each tier: real processes over Debian's sshd, and
// the Windows build of the agent.
func TestLogTiers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		tier string
		// How an event channel is refused: OpenSSH hosts have no event log, and that of Wine is empty shells.
		code   int
		reason metav1.StatusReason
	}{
		{winhost.TierOpenSSH, http.StatusNotImplemented, "NotImplemented"},
		{winhost.TierWine, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable},
	} {
		t.Run(tc.tier, func(t *testing.T) {
			hosttest.Require(t, tc.tier)
			ns, host := newLogHost(t, winhost.Options{Tier: tc.tier})
			read := func(query string) answer {
				return ask(t, sys, http.MethodGet, subresource(ns, "w", "log", query))
			}

			f := follow(t, sys, subresource(ns, "w", "log", "query=kubelet&follow=true"))
			n := 0
			write := func() {
				for range 10 {
					writeLog(t, host, "kubelet/kubelet.log", numbered(n))
					n++
				}
				f.waitFor(t, numbered(n-1))
			}
			write()
			rename(t, host, "kubelet/kubelet.log", "kubelet/kubelet-20260102-030405.log")
			write()
			mustBeComplete(t, tc.tier, f.lines(), n)

			mustSay(t, read("query=eventlog/System&follow=true").refused(t, tc.code, tc.reason).Message, "event log")
			read("query="+url.QueryEscape(`C:\Windows\win.ini`)).refused(t, http.StatusForbidden, metav1.StatusReasonForbidden)
			read("query="+url.QueryEscape(`kubelet\..\..\secret`)).refused(t, http.StatusForbidden, metav1.StatusReasonForbidden)
			read("query=nosuch").refused(t, http.StatusNotFound, metav1.StatusReasonNotFound)
			if got := read("query=kubelet&tailLines=2&pattern=" + url.QueryEscape("[24]$")).ok(t); got != "line 12\nline 14\n" {
				t.Errorf("the last two lines that match are %q", got)
			}
			writeLog(t, host, "setup/utf16.log", utf16LE("grüße\r\nzwei\r\n"))
			if got := read("query=setup/utf16.log").ok(t); got != "grüße\nzwei\n" {
				t.Errorf("UTF-16 arrives as %q", got)
			}
			if got := read("").ok(t); !strings.Contains(got, "kubelet/kubelet-20260102-030405.log") {
				t.Errorf("the index is\n%s", got)
			}
		})
	}
}
