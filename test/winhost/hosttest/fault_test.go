// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hosttest

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/fault"
)

// faults shows each fault to a plain client, and that the host is healthy after it.
func (c contract) faults(t *testing.T) {
	cannot := func(tiers ...string) []string { return tiers }
	for _, tc := range []struct {
		name   string
		fault  winhost.Fault
		line   string   // default: hostname
		cannot []string // tiers that cannot express the fault
		want   outcome
	}{
		{name: "healthy", want: outcome{atEnd, "ok"}},
		{name: "port closed", fault: winhost.Fault{RefuseTCP: true}, want: outcome{atConnect, "refused"}},
		{name: "silence", fault: winhost.Fault{HangAtAccept: true}, want: outcome{atHandshake, "hang"}},
		{name: "no SSH server", fault: winhost.Fault{GarbageBanner: true}, want: outcome{atHandshake, "closed"}},
		{name: "reset at accept", fault: winhost.Fault{ResetAt: fault.StageAccept}, want: outcome{atHandshake, "reset"}},
		{name: "reset at banner", fault: winhost.Fault{ResetAt: fault.StageBanner}, want: outcome{atHandshake, "reset"}},
		{name: "reset at kex", fault: winhost.Fault{ResetAt: fault.StageKex}, want: outcome{atHandshake, "reset"}},
		{name: "reset at auth", fault: winhost.Fault{ResetAt: fault.StageAuth}, cannot: cannot(winhost.TierOpenSSH), want: outcome{atAuth, "reset"}},
		{name: "reset at session", fault: winhost.Fault{ResetAt: fault.StageSession}, cannot: cannot(winhost.TierOpenSSH), want: outcome{atSession, "reset"}},
		{name: "reset at exec", fault: winhost.Fault{ResetAt: fault.StageExec}, cannot: cannot(winhost.TierOpenSSH), want: outcome{atExec, "reset"}},
		{name: "hang at banner", fault: winhost.Fault{HangAt: fault.StageBanner}, want: outcome{atHandshake, "hang"}},
		{name: "hang at kex", fault: winhost.Fault{HangAt: fault.StageKex}, want: outcome{atHandshake, "hang"}},
		{name: "hang at auth", fault: winhost.Fault{HangAt: fault.StageAuth}, cannot: cannot(winhost.TierOpenSSH), want: outcome{atAuth, "hang"}},
		{name: "hang at session", fault: winhost.Fault{HangAt: fault.StageSession}, cannot: cannot(winhost.TierOpenSSH), want: outcome{atSession, "hang"}},
		{name: "hang at exec", fault: winhost.Fault{HangAt: fault.StageExec}, cannot: cannot(winhost.TierOpenSSH), want: outcome{atExec, "hang"}},
		{name: "cable pulled", fault: winhost.Fault{Freeze: true}, want: outcome{atHandshake, "hang"}},
		{name: "credentials refused", fault: winhost.Fault{DenyAuth: true}, want: outcome{atAuth, "denied"}},
		{name: "sessions refused", fault: winhost.Fault{RefuseSessions: true}, want: outcome{atSession, "rejected"}},
		{name: "command hangs", fault: winhost.Fault{ExecHang: true}, want: outcome{atOutput, "hang"}},
		{name: "command fails", fault: winhost.Fault{ExecExit: 7}, want: outcome{atOutput, "exit 7"}},
		{name: "exit code of Windows", fault: winhost.Fault{ExecExit: 1067}, cannot: cannot(winhost.TierOpenSSH), want: outcome{atOutput, "exit 1067"}},
		{name: "matching command fails", fault: winhost.Fault{ExecExit: 7, ExecMatch: `^host.*e$`}, want: outcome{atOutput, "exit 7"}},
		{name: "other command does not", fault: winhost.Fault{ExecExit: 7, ExecMatch: `^it's "other"$`}, want: outcome{atEnd, "ok"}},
		{name: "command's own exit code", line: "exit 5", want: outcome{atOutput, "exit 5"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !setFault(t, c.host, tc.fault, tc.cannot) {
				return
			}
			hang := step("")
			if tc.want.What == "hang" {
				hang = tc.want.Step
			}
			if tc.line == "" {
				tc.line = "hostname"
			}
			got := try(t, c.host, c.signer, tc.line, hang)
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			heal(t, c.host)
			if got := try(t, c.host, c.signer, "hostname", ""); got != (outcome{atEnd, "ok"}) {
				t.Errorf("after the fault: got %+v", got)
			}
		})
	}
}

// setFault sets a fault, or checks that the tier says it cannot.
func setFault(t *testing.T, h winhost.Host, f winhost.Fault, cannot []string) bool {
	t.Helper()
	err := h.SetFault(f)
	if slices.Contains(cannot, h.Tier()) {
		if !errors.Is(err, winhost.ErrCannotExpress) {
			t.Errorf("got error %v, want ErrCannotExpress", err)
		}
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { heal(t, h) })
	return true
}

func heal(t *testing.T, h winhost.Host) {
	t.Helper()
	if err := h.SetFault(winhost.Fault{}); err != nil {
		t.Error(err)
	}
}

func (c contract) invalidFault(t *testing.T) {
	for _, f := range []winhost.Fault{{ResetAt: "lunch"}, {ExecMatch: "("}, {FileInUse: "("}, {Latency: -1}, {ExecExit: -1}} {
		if err := c.host.SetFault(f); err == nil || errors.Is(err, winhost.ErrCannotExpress) {
			t.Errorf("%+v: got error %v", f, err)
		}
	}
	if got := try(t, c.host, c.signer, "hostname", ""); got != (outcome{atEnd, "ok"}) {
		t.Errorf("got %+v", got)
	}
}

func (c contract) slowBanner(t *testing.T) {
	const delay = 300 * time.Millisecond
	setFault(t, c.host, winhost.Fault{SlowBanner: delay}, nil)
	start := time.Now()
	dial(t, c.host, c.signer)
	if took := time.Since(start); took < delay {
		t.Errorf("connected after %v, want at least %v", took, delay)
	}
}

func (c contract) latency(t *testing.T) {
	const latency = 30 * time.Millisecond
	setFault(t, c.host, winhost.Fault{Latency: latency}, nil)
	cl := dial(t, c.host, c.signer)
	start := time.Now()
	if _, _, err := cl.SendRequest("keepalive@openssh.com", true, nil); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 2*latency {
		t.Errorf("answered after %v, want at least %v", took, 2*latency)
	}
}

func (c contract) cutAfterBytes(t *testing.T) {
	const limit = 300 << 10
	setFault(t, c.host, winhost.Fault{CutAfterBytes: limit}, nil)
	client := &client{host: c.host, signer: c.signer}
	cl, err := client.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	files, err := sftp.NewClient(cl)
	if err != nil {
		t.Fatal(err)
	}
	f, err := files.Create(uploadDir(t, files) + "/cut")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadFrom(bytes.NewReader(make([]byte, 1<<20))); err == nil {
		t.Error("uploading more than the limit succeeded")
	}
	if got := client.outcome(cl.Wait()); got.What != "reset" {
		t.Errorf("the connection ended with %q, want a reset", got.What)
	}
	if n := client.conn.received.Load(); n > limit {
		t.Errorf("received %d bytes, want at most %d", n, limit)
	}
}

func (c contract) freeze(t *testing.T) {
	cl := dial(t, c.host, c.signer)
	setFault(t, c.host, winhost.Fault{Freeze: true}, nil)
	answered := make(chan error, 1)
	go func() {
		_, _, err := cl.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("answered without a cable (%v)", err)
	case <-time.After(200 * time.Millisecond): // nothing comes, however long one waits
	}
	heal(t, c.host)
	if err := <-answered; err != nil {
		t.Errorf("the connection did not survive: %v", err)
	}
}

func (c contract) maxSessions(t *testing.T) {
	setFault(t, c.host, winhost.Fault{MaxSessions: 2}, nil)
	cl := dial(t, c.host, c.signer)
	first, err := cl.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.NewSession(); err != nil {
		t.Fatal(err)
	}
	var rejected *ssh.OpenChannelError
	if _, err := cl.NewSession(); !errors.As(err, &rejected) || rejected.Reason != ssh.ConnectionFailed {
		t.Errorf("the third session: got %v, want a rejection as sshd words it", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "a session is free again", func() bool {
		_, err := cl.NewSession()
		return err == nil
	})
}

func (c contract) diskFull(t *testing.T) {
	setFault(t, c.host, winhost.Fault{DiskFull: true}, nil)
	files := sftpClient(t, c.host, c.signer)
	name := uploadDir(t, files) + "/full"
	f, err := files.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	var status *sftp.StatusError
	if _, err := f.Write([]byte("text")); !errors.As(err, &status) || status.FxCode() != sftp.ErrSSHFxFailure {
		t.Errorf("writing: got %v, want SSH_FX_FAILURE", err)
	}
	_ = f.Close()
	heal(t, c.host)
	upload(t, sftpClient(t, c.host, c.signer), name, []byte("text"))
}

func (c contract) readOnly(t *testing.T) {
	files := sftpClient(t, c.host, c.signer)
	name := uploadDir(t, files) + "/readable"
	upload(t, files, name, []byte("text"))
	setFault(t, c.host, winhost.Fault{SFTPReadOnly: true}, nil)
	files = sftpClient(t, c.host, c.signer)
	if _, err := files.Create(name); err == nil {
		t.Error("a file was opened for writing")
	}
	if err := files.Remove(name); err == nil {
		t.Error("a file was removed")
	}
	if err := files.PosixRename(name, name+".new"); err == nil {
		t.Error("a file was renamed")
	}
	if got := download(t, files, name); string(got) != "text" {
		t.Errorf("read %q", got)
	}
}
