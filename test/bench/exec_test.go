// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/openshift/windows-instance-api/test/system"
)

// webSocket is the way through both API servers.
const webSocket = "WebSocket"

// executor is what kubectl exec uses.
func executor(config *rest.Config, namespace, name string, stdin, tty bool, command ...string) (remotecommand.Executor, error) {
	query := url.Values{"command": command, "stdout": {"true"}, "stdin": {strconv.FormatBool(stdin)}, "tty": {strconv.FormatBool(tty)}, "stderr": {strconv.FormatBool(!tty)}}
	u, err := url.Parse(config.Host + subresourcePath(namespace, name, "exec") + "?" + query.Encode())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewWebSocketExecutor(config, http.MethodGet, u.String())
}

func subresourcePath(namespace, name, subresource string) string {
	return fmt.Sprintf("/apis/windows.openshift.io/v1alpha1/namespaces/%s/windowsinstances/%s/%s", namespace, name, subresource)
}

// runExec runs a command to its end through kube-apiserver and windows-apiserver.
func runExec(ctx context.Context, s *system.System, namespace, name string, stdin io.Reader, stdout io.Writer, command ...string) error {
	e, err := executor(s.AdminConfig(), namespace, name, stdin != nil, false, command...)
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	if err := e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: &stderr}); err != nil {
		return fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	return nil
}

const (
	// execRounds is how often BenchmarkExec runs the command in each way.
	execRounds = 60
	// farAway is the one-way delay of its second half: 50 ms of round trip.
	farAway = 25 * time.Millisecond
)

// BenchmarkExec runs a command that does nothing, on a host that is connected to
// already: in a session of the pool, by ssh over a ControlMaster connection, and
// through kube-apiserver and windows-apiserver with the client of kubectl.
// ratio-pool is the median of the pool over that of ssh, the other ratios are those of
// the whole way. ssh is a process that is started each time, as its users start it.
func BenchmarkExec(b *testing.B) {
	s, signer, key := startSystem(b, system.Options{WithoutController: true})
	ns := namespace(b, s, "bench")
	near := startSSHD(b, signer, key)
	for _, place := range []struct {
		name string
		host sshHost
	}{{"0ms", near}, {"50ms", near.far(b, farAway)}} {
		place.host.createInstance(b, s, ns, "w-"+place.name)
		b.Run(place.name, func(b *testing.B) {
			pool := newPool(b)
			ssh := place.host.controlMaster(b)
			ways := map[string]func() error{
				"pool": func() error { return pool.Run(b.Context(), place.host.target(), "true", nil, nil) },
				"ssh":  func() error { return ssh("true").Run() },
			}
			ways[webSocket] = func() error {
				return runExec(b.Context(), s, ns, "w-"+place.name, nil, io.Discard, "true")
			}
			newContest().round(b, ways) // connects, and finds out the shell
			c := newContest()
			for b.Loop() {
				for range execRounds {
					c.round(b, ways)
				}
			}
			for name := range ways {
				b.ReportMetric(milliseconds(c.median(name)), "ms-p50-"+name)
				if name != "ssh" {
					c.report(b, name, name, "ssh")
				}
			}
		})
	}
}

const (
	// execBlock, so many times, is what BenchmarkExecThroughput sends: 1 GiB.
	execBlock   = 64 << 20
	execRepeats = 16
	execSize    = execBlock * execRepeats
	// throughputRounds is how often each way sends it in each direction.
	throughputRounds = 2
)

// BenchmarkExecThroughput sends 1 GiB into a command, and another out of one, through
// kube-apiserver and windows-apiserver, and by ssh. The digest
// is compared each time. The ratios are of throughput: above 1 we are faster. With them
// goes the processor time of both servers for each GiB.
func BenchmarkExecThroughput(b *testing.B) {
	s, signer, key := startSystem(b, system.Options{WithoutController: true})
	ns := namespace(b, s, "bench")
	host := startSSHD(b, signer, key)
	host.createInstance(b, s, ns, "w")
	ssh := host.ssh(b)

	block := make([]byte, execBlock)
	_, _ = rand.Read(block) // never fails
	file := filepath.Join(b.TempDir(), "block")
	if err := os.WriteFile(file, block, 0o600); err != nil {
		b.Fatal(err)
	}
	hash := sha256.New()
	for range execRepeats {
		hash.Write(block)
	}
	digest := hex.EncodeToString(hash.Sum(nil))
	// The digest of what is sent in is made on the host.
	const in = "sha256sum"
	out := []string{"sh", "-c", "cat" + strings.Repeat(" "+file, execRepeats)}
	sendIn := func(send func(stdin io.Reader, stdout io.Writer) error) error {
		blocks := make([]io.Reader, execRepeats)
		for i := range blocks {
			blocks[i] = onlyReader{bytes.NewReader(block)}
		}
		var answer bytes.Buffer
		if err := send(onlyReader{io.MultiReader(blocks...)}, &answer); err != nil {
			return err
		}
		if !strings.HasPrefix(answer.String(), digest) {
			return fmt.Errorf("the host got something else than was sent: %s", answer.String())
		}
		return nil
	}
	takeOut := func(take func(stdout io.Writer) error) error {
		hash := sha256.New()
		if err := take(hash); err != nil {
			return err
		}
		if got := hex.EncodeToString(hash.Sum(nil)); got != digest {
			return fmt.Errorf("got something else than the host sent: %s", got)
		}
		return nil
	}
	waysIn := map[string]func() error{"ssh": func() error {
		return sendIn(func(stdin io.Reader, stdout io.Writer) error {
			cmd := ssh(host.address, in)
			cmd.Stdin, cmd.Stdout = stdin, stdout
			return cmd.Run()
		})
	}}
	waysOut := map[string]func() error{"ssh": func() error {
		return takeOut(func(stdout io.Writer) error {
			cmd := ssh(host.address, strings.Join(out[2:], " "))
			cmd.Stdout = stdout
			return cmd.Run()
		})
	}}
	waysIn[webSocket] = func() error {
		return sendIn(func(stdin io.Reader, stdout io.Writer) error {
			return runExec(b.Context(), s, ns, "w", stdin, stdout, in)
		})
	}
	waysOut[webSocket] = func() error {
		return takeOut(func(stdout io.Writer) error { return runExec(b.Context(), s, ns, "w", nil, stdout, out...) })
	}
	ins, outs := newContest(), newContest()
	servers := map[string]int{"kube-apiserver": s.APIServer.PID(), "windows-apiserver": s.Server.PID()}
	used := map[string]float64{}
	for name, pid := range servers {
		used[name] = cpuSeconds(b, pid)
	}
	b.SetBytes(execSize)
	for b.Loop() {
		for range throughputRounds {
			ins.round(b, waysIn)
			outs.round(b, waysOut)
		}
	}
	reportThroughput(b, ins, "in", execSize)
	reportThroughput(b, outs, "out", execSize)
	// What it costs depends less on what else runs than how long it takes.
	transfers := float64(len(ins.took["ssh"]) + len(outs.took["ssh"]))
	for name, pid := range servers {
		b.ReportMetric((cpuSeconds(b, pid)-used[name])/transfers, "cpu-s/GiB-"+name)
	}
}

// reportThroughput reports the throughput of every way, and its ratio to that of ssh.
func reportThroughput(b *testing.B, c *contest, direction string, size int) {
	for name := range c.took {
		b.ReportMetric(float64(size)/c.median(name).Seconds()/1e6, "MB/s-"+direction+"-"+name)
		if name != "ssh" {
			c.report(b, direction+"-"+name, "ssh", name)
		}
	}
}
