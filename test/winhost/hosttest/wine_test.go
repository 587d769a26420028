// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hosttest

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/test/winhost"
)

func startWine(t *testing.T) (winhost.Host, ssh.Signer) {
	t.Helper()
	signer := NewKey(t)
	return Start(t, winhost.Options{Tier: winhost.TierWine, AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}}), signer
}

func hostname(t *testing.T, h winhost.Host, signer ssh.Signer) string {
	t.Helper()
	return strings.ToLower(strings.TrimSpace(string(output(t, h, signer, "hostname", nil))))
}

// TestWine: what hosts of this tier have in common with Windows besides what all hosts have.
// The tests share a host.
func TestWine(t *testing.T) {
	h, signer := startWine(t)
	t.Run("drive", func(t *testing.T) { ownDrive(t, h, signer) })
	t.Run("power loss", func(t *testing.T) { losePower(t, h, signer) })
	t.Run("rename", func(t *testing.T) { rename(t, h, signer) })
	t.Run("SSH server", func(t *testing.T) { findSSHServer(t, h, signer) })
}

// ownDrive: a host sees drive C: and nothing of the machine below.
func ownDrive(t *testing.T, h winhost.Host, signer ssh.Signer) {
	if got := try(t, h, signer, `dir Z:\`, ""); got.What == "ok" {
		t.Error("there is a drive Z:")
	}
	local, err := h.LocalPath(`C:\`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(local + "/windows/system32/cmd.exe"); err != nil {
		t.Error(err)
	}
}

// losePower: an orderly reboot keeps what was just written to the registry; files survive also
// the loss of power.
func losePower(t *testing.T, h winhost.Host, signer ssh.Signer) {
	output(t, h, signer, `reg add HKLM\Software\Test /v Value /d kept /f`, nil)
	if err := h.Reboot(); err != nil {
		t.Fatal(err)
	}
	if got := string(output(t, h, signer, `reg query HKLM\Software\Test /v Value`, nil)); !strings.Contains(got, "kept") {
		t.Errorf("the registry has %q", got)
	}
	output(t, h, signer, `echo text> C:\ProgramData\file`, nil)
	if err := h.PowerOff(); err != nil {
		t.Fatal(err)
	}
	if err := h.PowerOn(); err != nil {
		t.Fatal(err)
	}
	if got := string(output(t, h, signer, `type C:\ProgramData\file`, nil)); !strings.Contains(got, "text") {
		t.Errorf("the file has %q", got)
	}
}

// rename: a new computer name takes effect with the next boot.
func rename(t *testing.T, h winhost.Host, signer ssh.Signer) {
	before := hostname(t, h, signer)
	output(t, h, signer, `reg add HKLM\System\CurrentControlSet\Control\ComputerName\ComputerName /v ComputerName /d NEW-NAME /f`, nil)
	if got := hostname(t, h, signer); got != before {
		t.Errorf("before the boot: %q, want %q", got, before)
	}
	if err := h.Reboot(); err != nil {
		t.Fatal(err)
	}
	if got := hostname(t, h, signer); got != "new-name" {
		t.Errorf("after the boot: %q", got)
	}
}

// findSSHServer: the agent finds the program of the service sshd, what that says of itself, and who owns its folders. That of these hosts is
// no sshd.exe, so that it is left alone, until it has that name.
func findSSHServer(t *testing.T, h winhost.Host, signer ssh.Signer) {
	if s := factsOf(t, h, signer).OpenSSH.Server; s != nil {
		t.Errorf("another SSH server is taken for that of Microsoft: %+v", s)
	}
	local := func(path string) string {
		t.Helper()
		path, err := h.LocalPath(path)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	program, err := os.ReadFile(local(`C:\winsshd\winsshd.exe`))
	if err != nil {
		t.Fatal(err)
	}
	program = append(program, "\x00Directory already exists but folder permissions are invalid\x00"...)
	if err := os.WriteFile(local(`C:\winsshd\sshd.exe`), program, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(local(`C:\ProgramData\ssh\logs`), 0o700); err != nil {
		t.Fatal(err)
	}
	output(t, h, signer, `reg add HKLM\System\CurrentControlSet\Services\sshd /v ImagePath /d "C:\winsshd\sshd.exe -service" /f`, nil)
	if err := h.Reboot(); err != nil {
		t.Fatal(err)
	}
	facts := factsOf(t, h, signer)
	s := facts.OpenSSH.Server
	if s == nil || !s.EndsOverFolders || s.Folder == nil || s.Folder.Owner == "" || s.Logs == nil || s.Logs.Owner == "" || s.HostKeys != nil {
		t.Errorf("the SSH server is %+v; services are %+v", s, facts.Services)
	}
	// It has no version, which is the only thing that cannot be read.
	if len(facts.Errors) != 1 || facts.Errors[0].Area != "openSSH/server" || !strings.Contains(facts.Errors[0].Message, "version") {
		t.Errorf("unknown is %+v", facts.Errors)
	}
}

func TestWineFleet(t *testing.T) {
	Require(t, winhost.TierWine)
	f, err := winhost.NewFleet(t.Context(), winhost.FleetOptions{Count: 5, Tier: winhost.TierWine, NamePrefix: "wine"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, h := range f.Hosts {
		if got := hostname(t, h, f.Signer); got != h.Name() {
			t.Errorf("%s calls itself %q", h.Name(), got)
		}
	}
}
