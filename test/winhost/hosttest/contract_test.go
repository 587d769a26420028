// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hosttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/test/programs"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// contract is what every host must do, one method for each behavior.
type contract struct {
	host   winhost.Host
	signer ssh.Signer // may log in
}

// TestContract runs every behavior against every tier. Each method leaves the host as it
// was, healthy and switched on.
func TestContract(t *testing.T) {
	for _, tier := range winhost.Tiers() {
		t.Run(tier, func(t *testing.T) {
			Require(t, tier)
			signer := NewKey(t)
			h := Start(t, winhost.Options{Tier: tier, Name: "contract", AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
			c := contract{h, signer}
			t.Run("identity", c.identity)
			t.Run("authorized keys", c.authorizedKeys)
			if tier != winhost.TierWine { // its server has its keys elsewhere
				t.Run("file of authorized keys", c.authorizedKeysFile)
			}
			t.Run("connections", c.connections)
			t.Run("commands", c.commands)
			t.Run("unknown program", c.unknownProgram)
			t.Run("standard input", c.stdin)
			t.Run("closing a session", c.closeSession)
			t.Run("port forwarding", c.forward)
			t.Run("files", c.files)
			t.Run("log directory", c.logDir)
			t.Run("agent", c.agent)
			t.Run("host key", c.hostKey)
			t.Run("faults", c.faults)
			t.Run("invalid fault", c.invalidFault)
			t.Run("slow banner", c.slowBanner)
			t.Run("latency", c.latency)
			t.Run("cut", c.cutAfterBytes)
			t.Run("freeze", c.freeze)
			t.Run("session limit", c.maxSessions)
			t.Run("disk full", c.diskFull)
			t.Run("read only", c.readOnly)
			t.Run("power", c.power)
			t.Run("inspect", c.inspect)
			t.Run("restart", c.restart)
		})
	}
}

func (c contract) identity(t *testing.T) {
	if c.host.Name() != "contract" || c.host.User() != "Administrator" {
		t.Errorf("name %q, user %q", c.host.Name(), c.host.User())
	}
	if ip := net.ParseIP(c.host.Address()); ip == nil || !ip.IsLoopback() || c.host.Port() == 0 {
		t.Errorf("address %s, port %d", c.host.Address(), c.host.Port())
	}
	if got := strings.TrimSpace(string(output(t, c.host, c.signer, "hostname", nil))); !strings.EqualFold(got, "contract") {
		t.Errorf("the host calls itself %q", got)
	}
	if v := string(dial(t, c.host, c.signer).ServerVersion()); c.host.Tier() != winhost.TierOpenSSH && v != "SSH-2.0-OpenSSH_for_Windows_9.5" {
		t.Errorf("server version %q", v)
	}
}

func (c contract) authorizedKeys(t *testing.T) {
	denied, ok := outcome{atAuth, "denied"}, outcome{atEnd, "ok"}
	second := NewKey(t)
	expect := func(when string, key ssh.Signer, want outcome) {
		t.Helper()
		if got := try(t, c.host, key, "hostname", ""); got != want {
			t.Errorf("%s: got %+v, want %+v", when, got, want)
		}
	}
	expect("an unknown key", second, denied)
	if err := c.host.AuthorizeKey(second.PublicKey()); err != nil {
		t.Fatal(err)
	}
	expect("the new key", second, ok)
	expect("the old key besides", c.signer, ok)
	if err := c.host.SetAuthorizedKeys(second.PublicKey()); err != nil {
		t.Fatal(err)
	}
	expect("the old key after rotation", c.signer, denied)
	if err := c.host.SetAuthorizedKeys(c.signer.PublicKey()); err != nil {
		t.Fatal(err)
	}
	expect("the old key again", c.signer, ok)
}

// The file on the host decides: who may write to it decides who may log in.
func (c contract) authorizedKeysFile(t *testing.T) {
	file, err := c.host.LocalPath(`C:\ProgramData\ssh\administrators_authorized_keys`)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	second := NewKey(t)
	text := "# ours\r\n" + string(before) + "restrict,pty " + string(ssh.MarshalAuthorizedKey(second.PublicKey()))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, key := range []ssh.Signer{c.signer, second} {
		if got, want := try(t, c.host, key, "hostname", ""), (outcome{atEnd, "ok"}); got != want {
			t.Errorf("a key of the file: got %+v, want %+v", got, want)
		}
	}
	if err := c.host.SetAuthorizedKeys(c.signer.PublicKey()); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("got %q, %v, want %q", after, err, before)
	}
}

func (c contract) connections(t *testing.T) {
	count := func(n int) func() bool { return func() bool { return c.host.Connections() == n } }
	Eventually(t, "nobody is connected", count(0))
	a, b := dial(t, c.host, c.signer), dial(t, c.host, c.signer)
	Eventually(t, "two are connected", count(2))
	_ = a.Close()
	Eventually(t, "one is connected", count(1))
	_ = b.Close()
	Eventually(t, "nobody is connected", count(0))
}

func (c contract) commands(t *testing.T) {
	before := len(c.host.Commands())
	output(t, c.host, c.signer, "hostname", nil)
	setFault(t, c.host, winhost.Fault{ExecExit: 3}, nil)
	try(t, c.host, c.signer, `echo "a b"`, "")
	setFault(t, c.host, winhost.Fault{DenyAuth: true}, nil)
	try(t, c.host, c.signer, "echo never", "")
	heal(t, c.host)
	sftpClient(t, c.host, c.signer)
	want := []string{"hostname", `echo "a b"`}
	if got := c.host.Commands()[before:]; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func (c contract) unknownProgram(t *testing.T) {
	line, code, text := `C:\Windows\windows-node-agent\windows-node-agent-0123456789abcdef.exe version`, 1,
		`'C:\Windows\windows-node-agent\windows-node-agent-0123456789abcdef.exe' is not recognized as an internal or external command`
	s, err := dial(t, c.host, c.signer).NewSession()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	s.Stderr = &stderr
	var exit *ssh.ExitError
	if err := s.Run(line); !errors.As(err, &exit) || exit.ExitStatus() != code || !strings.Contains(stderr.String(), text) {
		t.Errorf("got %v and %q, want exit code %d and %q", err, stderr.String(), code, text)
	}
}

func (c contract) stdin(t *testing.T) {
	line := "more"
	if c.host.Tier() == winhost.TierOpenSSH {
		line = "cat"
	}
	if got := output(t, c.host, c.signer, line, strings.NewReader("one\ntwo\n")); strings.ReplaceAll(string(got), "\r", "") != "one\ntwo\n" {
		t.Errorf("got %q", got)
	}
}

// closeSession: what a session started ends when it is told to and the session is closed, and its place is free again soon after.
func (c contract) closeSession(t *testing.T) {
	cl := dial(t, c.host, c.signer)
	line := "more"
	if c.host.Tier() == winhost.TierOpenSSH {
		line = "cat"
	}
	for range 15 { // more than fit at a time
		var s *ssh.Session
		Eventually(t, "there is room for another session", func() (opened bool) {
			var err error
			s, err = cl.NewSession()
			return err == nil
		})
		if _, err := s.StdinPipe(); err != nil { // stays open: the program waits for it
			t.Fatal(err)
		}
		if err := s.Start(line); err != nil {
			t.Fatal(err)
		}
		if err := s.Signal(ssh.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		Eventually(t, "the session is gone", func() bool { // s.Wait ends with the channel
			_ = s.Wait()
			return true
		})
	}
}

func (c contract) forward(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	cl := dial(t, c.host, c.signer)
	conn, err := cl.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "ping"); err != nil {
		t.Fatal(err)
	}
	_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	if got, err := io.ReadAll(conn); err != nil || string(got) != "ping" {
		t.Errorf("got %q, %v", got, err)
	}
	_ = l.Close()
	var rejected *ssh.OpenChannelError
	if _, err := cl.Dial("tcp", l.Addr().String()); !errors.As(err, &rejected) {
		t.Errorf("a closed port: got %v, want a rejection", err)
	}
}

func sftpClient(t *testing.T, h winhost.Host, signer ssh.Signer) *sftp.Client {
	t.Helper()
	files, err := sftp.NewClient(dial(t, h, signer))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	return files
}

// uploadDir is where the product puts the agent.
func uploadDir(t *testing.T, files *sftp.Client) string {
	t.Helper()
	const dir = "/C:/Windows/windows-node-agent"
	if _, err := files.Stat(dir); err == nil {
		return dir
	}
	if err := files.Mkdir(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func upload(t *testing.T, files *sftp.Client, name string, content []byte) {
	t.Helper()
	f, err := files.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadFrom(bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func download(t *testing.T, files *sftp.Client, name string) []byte {
	t.Helper()
	f, err := files.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (c contract) files(t *testing.T) {
	files := sftpClient(t, c.host, c.signer)
	const home = "/C:/Users/Administrator"
	if got, err := files.RealPath("."); err != nil || got != home {
		t.Errorf("RealPath(.) = %q, %v, want %q", got, err, home)
	}
	dir := uploadDir(t, files)
	content := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // 1 MiB
	name, tmp := dir+"/payload", dir+"/payload.part"
	upload(t, files, name, []byte("old"))
	upload(t, files, tmp, content)
	if err := files.Rename(tmp, name); err == nil {
		t.Error("a plain rename replaced an existing file")
	}
	if err := files.PosixRename(tmp, name); err != nil {
		t.Errorf("posix-rename: %v", err)
	}
	if st, err := files.Stat(name); err != nil || st.Size() != int64(len(content)) || st.IsDir() {
		t.Errorf("Stat: %+v, %v", st, err)
	}
	if _, err := files.Stat(tmp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat of what was renamed: %v", err)
	}
	if got := download(t, files, name); !bytes.Equal(got, content) {
		t.Errorf("read %d bytes that differ from the %d written", len(got), len(content))
	}
	entries, err := files.ReadDir(dir)
	if err != nil || !slices.ContainsFunc(entries, func(e os.FileInfo) bool { return e.Name() == "payload" }) {
		t.Errorf("ReadDir: %v, %v", entries, err)
	}
	if c.host.Tier() != winhost.TierOpenSSH {
		for _, same := range []string{strings.ToUpper(name), strings.ReplaceAll(name[1:], "/", `\`), name[1:]} {
			if _, err := files.Stat(same); err != nil {
				t.Errorf("Stat(%s): %v", same, err)
			}
		}
	}
	// Resuming: writing on at an offset.
	f, err := files.OpenFile(name, os.O_WRONLY)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("tail"), int64(len(content))); err != nil {
		t.Error(err)
	}
	_ = f.Close()
	if st, err := files.Stat(name); err != nil || st.Size() != int64(len(content))+4 {
		t.Errorf("after writing on: %+v, %v", st, err)
	}
	if err := files.Remove(name); err != nil {
		t.Error(err)
	}
}

func (c contract) logDir(t *testing.T) {
	if err := os.WriteFile(filepath.Join(c.host.LogDir(), "kubelet.log"), []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := download(t, sftpClient(t, c.host, c.signer), "/C:/var/log/kubelet.log"); string(got) != "hello\n" {
		t.Errorf("the host reads %q", got)
	}
	local, err := c.host.LocalPath(`C:/var/log/kubelet.log`)
	if want := filepath.Join(c.host.LogDir(), "kubelet.log"); err != nil || local != want {
		t.Errorf("LocalPath = %q, %v, want %q", local, err, want)
	}
}

// installAgent uploads the agent's real build as the product does and returns the start of
// its command line and its digest.
func installAgent(t *testing.T, h winhost.Host, signer ssh.Signer) (program, digest string) {
	t.Helper()
	b, err := programs.Build(t.Context(), "cmd/agent", "windows", runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	digest = hex.EncodeToString(sum[:])
	files := sftpClient(t, h, signer)
	name := path.Join(uploadDir(t, files), "windows-node-agent-"+digest[:16]+".exe")
	if _, err := files.Stat(name); err != nil {
		upload(t, files, name+".part", b)
		if err := files.PosixRename(name+".part", name); err != nil {
			t.Fatal(err)
		}
	}
	return strings.ReplaceAll(name[1:], "/", `\`), digest
}

func (c contract) agent(t *testing.T) {
	program, digest := installAgent(t, c.host, c.signer)
	var v api.Version
	if err := json.Unmarshal(output(t, c.host, c.signer, program+" version", nil), &v); err != nil {
		t.Fatal(err)
	}
	if v.SHA256 != digest || v.Protocol != api.ProtocolVersion {
		t.Errorf("got %+v, want protocol %d and digest %s", v, api.ProtocolVersion, digest)
	}
	facts := factsOf(t, c.host, c.signer)
	if !strings.EqualFold(facts.Name.Hostname, c.host.Name()) {
		t.Errorf("facts name the host %q", facts.Name.Hostname)
	}
	if c.host.Tier() != winhost.TierOpenSSH && facts.System.Build != 20348 {
		t.Errorf("facts say build %d", facts.System.Build)
	}
	var exit *ssh.ExitError
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := (&client{host: c.host, signer: c.signer}).run(ctx, program+" nonsense", nil, io.Discard)
	if !errors.As(err, &exit) || exit.ExitStatus() != api.ExitUsage {
		t.Errorf("an unknown sub-command: got %v, want exit code %d", err, api.ExitUsage)
	}
}

func factsOf(t *testing.T, h winhost.Host, signer ssh.Signer) api.Facts {
	t.Helper()
	program, _ := installAgent(t, h, signer)
	var facts api.Facts
	if err := json.Unmarshal(output(t, h, signer, program+" facts", nil), &facts); err != nil {
		t.Fatal(err)
	}
	return facts
}

func (c contract) hostKey(t *testing.T) {
	before := c.host.HostKey()
	open := dial(t, c.host, c.signer)
	dial(t, c.host, c.signer) // checks the key as every connection here does
	if err := c.host.RotateHostKey(); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(before.Marshal(), c.host.HostKey().Marshal()) {
		t.Fatal("the host key is the same")
	}
	dial(t, c.host, c.signer)
	if _, _, err := open.SendRequest("keepalive@openssh.com", true, nil); err != nil {
		t.Errorf("a connection did not survive the rotation: %v", err)
	}
}

func (c contract) power(t *testing.T) {
	before, key := factsOf(t, c.host, c.signer).Boot, c.host.HostKey()
	cl := dial(t, c.host, c.signer)
	if err := c.host.PowerOff(); err != nil {
		t.Fatal(err)
	}
	_ = cl.Wait() // the connection ended
	if got := try(t, c.host, c.signer, "hostname", ""); got != (outcome{atConnect, "refused"}) {
		t.Errorf("a host without power: got %+v", got)
	}
	if n := c.host.Connections(); n != 0 {
		t.Errorf("a host without power has %d connections", n)
	}
	if err := c.host.PowerOff(); err != nil {
		t.Errorf("switching off twice: %v", err)
	}
	if err := c.host.PowerOn(); err != nil {
		t.Fatal(err)
	}
	after := factsOf(t, c.host, c.signer).Boot // the agent is still there, too
	if !after.Time.After(before.Time) {
		t.Errorf("booted at %v, before that at %v", after.Time, before.Time)
	}
	if !bytes.Equal(key.Marshal(), c.host.HostKey().Marshal()) {
		t.Error("the host key changed with the power")
	}
	if err := c.host.PowerOn(); err != nil {
		t.Errorf("switching on twice: %v", err)
	}
	if err := c.host.Reboot(); err != nil {
		t.Fatal(err)
	}
	if again := factsOf(t, c.host, c.signer).Boot; !again.Time.After(after.Time) {
		t.Errorf("rebooted at %v, before that at %v", again.Time, after.Time)
	}
}

// TestUnavailable: a tier that is not to be had says what is missing.
func TestUnavailable(t *testing.T) {
	if err := winhost.Available("mainframe"); err == nil {
		t.Error("no error")
	}
	if _, err := winhost.Start(t.Context(), winhost.Options{Tier: "mainframe"}); err == nil || !strings.Contains(err.Error(), "mainframe") {
		t.Errorf("got %v", err)
	}
	if _, err := winhost.Start(t.Context(), winhost.Options{Name: "no such name"}); err == nil {
		t.Error("no error")
	}
}
