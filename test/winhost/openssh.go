// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/test/programs"
	"github.com/openshift/windows-instance-api/test/winhost/fault"
	"github.com/openshift/windows-instance-api/test/winhost/internal/faultnet"
)

// Where Debian's openssh-server and openssh-sftp-server packages put what is needed.
const (
	sshdProgram = "/usr/sbin/sshd"
	sftpProgram = "/usr/lib/openssh/sftp-server"
)

// Limits of the patience with an sshd, which starts in milliseconds on a machine that is idle.
const (
	opensshBootTimeout     = 4 * time.Minute
	opensshShutdownTimeout = 10 * time.Second
)

//go:embed openssh_boot.sh
var opensshBoot string

//go:embed openssh_shell.sh
var opensshShell []byte

// opensshHost is a host of TierOpenSSH.
//
// Real on it: everything about SSH and SFTP (sshd's own limits, algorithms, rekeying), and
// that the agent runs as a process. It looks like Windows to its clients as far as they see
// paths: its root has a directory called C:, where the account has its home, and its login
// shell runs package agenthost's program for a command line that begins with a file in the
// directory of the agent. All else is Linux: names differ by case, the shell is sh, and
// the agent's facts are those of a Linux. Everything that is written to is the host's own,
// so that nothing it does is seen on this machine.
//
// Package opensshd is for tests of an SSH client alone: it starts a bare sshd, with any
// configuration, as any user. This is a whole host, with power, boots and faults.
//
// Faults from StageAuth on cannot be expressed, as they would be sshd's own doing; the
// other faults can. ExecExit goes to 255.
type opensshHost struct {
	*base
	drive string         // drive C on this machine
	sshd  *faultnet.Hold // where sshd listens, behind the front; nil after Close

	mu      sync.Mutex // guards what follows
	machine *machine   // nil: off
	last    *machine   // the newest, on or off
}

// OpenSSHAvailable says precisely what this machine lacks for hosts with Debian's sshd,
// nil if nothing.
func OpenSSHAvailable() error {
	var missing []error
	for _, f := range []struct{ path, install string }{
		{sshdProgram, "openssh-server"},
		{sftpProgram, "openssh-sftp-server"},
	} {
		if _, err := os.Stat(f.path); err != nil {
			missing = append(missing, fmt.Errorf("%s is missing: apt-get install --no-install-recommends %s", f.path, f.install))
		}
	}
	if os.Geteuid() != 0 {
		missing = append(missing, errors.New("sshd has to be started as root"))
	} else if err := machineAvailable(); err != nil {
		missing = append(missing, err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("no OpenSSH hosts on this machine: %w", errors.Join(missing...))
	}
	return nil
}

func startOpenSSH(ctx context.Context, o Options) (Host, error) {
	if err := OpenSSHAvailable(); err != nil {
		return nil, err
	}
	if o.Password != "" {
		return nil, fmt.Errorf("password authentication: %w", ErrCannotExpress)
	}
	program, err := agentProgram()
	if err != nil {
		return nil, err
	}
	b, err := newBase(o, administrator)
	if err != nil {
		return nil, err
	}
	// What the agent keeps beside its drive is the host's own there.
	h := &opensshHost{base: b, drive: filepath.Join(b.dir, "var/lib/windows-node-agent/c")}
	if err := h.create(o, program); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	if err := h.powerOn(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// agentProgram is what runs on these hosts as the agent, built once per process.
var agentProgram = sync.OnceValues(func() ([]byte, error) {
	return programs.Build(context.Background(), "test/agenthost/program", runtime.GOOS, runtime.GOARCH)
})

// create makes the host's files; openssh_boot.sh puts them in their places.
func (h *opensshHost) create(o Options, program []byte) (err error) {
	if h.sshd, err = faultnet.HoldPort(o.Address, 0); err != nil {
		return err
	}
	for _, d := range []string{"control", "root", "run/sshd", "run/windows-node-agent", "run/winhost", "sysroot", "tmp", "var/cache", "var/lib", "var/log", "var/spool", "var/tmp"} {
		if err := os.MkdirAll(filepath.Join(h.dir, d), 0o755); err != nil {
			return err
		}
	}
	for _, d := range windowsDirectories {
		if err := os.MkdirAll(filepath.Join(h.drive, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", filepath.Join(h.dir, "var", "run")); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		// Two names for root, so that the account is called as on Windows; and the
		// account without rights that sshd wants.
		"passwd": []byte("Administrator:*:0:0::/root:/run/winhost/shell\nroot:*:0:0::/root:/bin/sh\n" +
			"sshd:*:65533:65534::/run/sshd:/usr/sbin/nologin\nnobody:*:65534:65534::/nonexistent:/usr/sbin/nologin\n"),
		"shadow":         []byte("Administrator:*:::::::\nroot:*:::::::\nsshd:*:::::::\nnobody:*:::::::\n"),
		"user_authority": authorizedKeysFile(o.UserAuthorities),
		"commands":       nil,
		"fault":          nil,
		"shell":          opensshShell,
		"agent":          program,
	} {
		if err := os.WriteFile(h.control(name), content, 0o755); err != nil {
			return err
		}
	}
	if err := replaceFile(h.keysFile(), authorizedKeysFile(o.AuthorizedKeys)); err != nil {
		return err
	}
	if err := h.writeHostKey(); err != nil {
		return err
	}
	upstream := h.sshd.Addr().String()
	h.front, err = faultnet.New(nil, o.Address, o.Port, func(ctx context.Context, client net.Conn) {
		faultnet.Forward(ctx, client, upstream)
	})
	if err != nil {
		return err
	}
	return h.writeConfig(Fault{})
}

// control is a file that the host sees in /run/winhost.
func (h *opensshHost) control(name string) string { return filepath.Join(h.dir, "control", name) }

func (h *opensshHost) writeConfig(f Fault) error {
	return replaceFile(h.control("sshd_config"), fmt.Appendf(nil, `# Written by winhost.
ListenAddress %s
HostKey /run/winhost/host_key
AuthorizedKeysFile %s
TrustedUserCAKeys /run/winhost/user_authority
AllowUsers %s
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
UseDNS no
PrintMotd no
PidFile none
LogLevel VERBOSE
MaxSessions %d
Subsystem sftp %s
`, h.sshd.Addr(), keysFile(f), h.user, f.SessionLimit(), sftpProgram))
}

// keysFile is where sshd finds the keys that may log in, which are none under DenyAuth.
func keysFile(f Fault) string {
	if f.DenyAuth {
		return "none"
	}
	return "/var/lib/windows-node-agent/c" + strings.ReplaceAll(administratorsKeys[len(`C:`):], `\`, "/")
}

// keysFile is the same file on this machine.
func (h *opensshHost) keysFile() string {
	return filepath.Join(h.drive, strings.ReplaceAll(administratorsKeys[len(`C:\`):], `\`, "/"))
}

func (h *opensshHost) writeHostKey() error {
	pem, signer, err := NewKey()
	if err != nil {
		return err
	}
	if err := replaceFile(h.control("host_key"), pem); err != nil {
		return err
	}
	h.setHostKey(signer)
	return nil
}

// LogDir implements [Host].
func (h *opensshHost) LogDir() string { return filepath.Join(h.drive, "var", "log") }

// LocalPath implements [Host].
func (h *opensshHost) LocalPath(hostPath string) (string, error) {
	return driveC(h.drive, hostPath)
}

// PowerOn implements [Host].
func (h *opensshHost) PowerOn() error {
	h.power.Lock()
	defer h.power.Unlock()
	return h.powerOn(context.Background())
}

func (h *opensshHost) powerOn(ctx context.Context) error {
	if h.current() != nil {
		return nil
	}
	if err := os.WriteFile(h.control("boot_id"), append(bootID(), '\n'), 0o644); err != nil {
		return err
	}
	if err := removeFile(h.restartFile()); err != nil {
		return err
	}
	m, err := startMachine(machineSpec{
		hostname: h.name,
		script:   opensshBoot,
		env:      []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"},
		dir:      h.dir,
		console:  filepath.Join(h.dir, "console.log"),
		after:    h.previous(),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, opensshBootTimeout)
	defer cancel()
	if err := m.poll(ctx, "sshd listened", func() bool { return h.listening(m) > 0 }); err != nil {
		m.kill()
		return err
	}
	h.mu.Lock()
	h.machine, h.last = m, m
	h.mu.Unlock()
	h.tasks.Go(func() {
		if _, asked := m.await(h.restartFile()); asked {
			h.restartFromInside(func() bool { return h.shutdown(m) }, true, h.powerOn)
		}
	})
	return h.front.Up()
}

// restartFile is where the agent asks for a restart.
func (h *opensshHost) restartFile() string {
	return filepath.Join(h.dir, "run", "windows-node-agent", "restart")
}

// shutdown ends a boot in good order, and reports false if it has ended already.
func (h *opensshHost) shutdown(m *machine) bool {
	if m == nil || h.current() != m {
		return false
	}
	h.takeMachine().shutdown(opensshShutdownTimeout)
	return true
}

// bootID is what Linux has in /proc/sys/kernel/random/boot_id: a random UUID.
func bootID() []byte {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Appendf(nil, "%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// listening is how often sshd has begun to listen since the machine was switched on.
func (h *opensshHost) listening(m *machine) int {
	b, err := os.ReadFile(m.console.Name())
	if err != nil {
		return 0
	}
	return bytes.Count(b, []byte("Server listening on "))
}

// reload makes sshd read its configuration and host key anew and returns when it has.
// Connections that are open stay open.
func (h *opensshHost) reload() error {
	m := h.current()
	if m == nil {
		return nil // it will read them when it starts
	}
	before := h.listening(m)
	if _, err := m.stdin.Write([]byte("reload\n")); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), opensshBootTimeout)
	defer cancel()
	return m.poll(ctx, "sshd listened again", func() bool { return h.listening(m) > before })
}

func (h *opensshHost) previous() *machine {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

func (h *opensshHost) current() *machine {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machine
}

// takeMachine closes the host's port and hands the machine to be ended over, if it is on.
func (h *opensshHost) takeMachine() *machine {
	if h.front != nil {
		h.front.Down()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.machine
	h.machine = nil
	return m
}

// PowerOff implements [Host].
func (h *opensshHost) PowerOff() error {
	h.power.Lock()
	defer h.power.Unlock()
	if m := h.takeMachine(); m != nil {
		m.kill()
	}
	return nil
}

// Reboot implements [Host].
func (h *opensshHost) Reboot() error {
	h.power.Lock()
	defer h.power.Unlock()
	h.shutdown(h.current())
	return h.powerOn(context.Background())
}

// SetFault implements [Host].
func (h *opensshHost) SetFault(f Fault) error {
	f, err := checkFault(f)
	if err != nil {
		return err
	}
	sshds := []fault.Stage{fault.StageAuth, fault.StageSession, fault.StageExec}
	switch {
	case slices.Contains(sshds, f.ResetAt):
		return fmt.Errorf("winhost: ResetAt %s: %w", f.ResetAt, ErrCannotExpress)
	case slices.Contains(sshds, f.HangAt):
		return fmt.Errorf("winhost: HangAt %s: %w", f.HangAt, ErrCannotExpress)
	case f.OnServices():
		return fmt.Errorf("winhost: no service runs here: %w", ErrCannotExpress)
	case f.ExecExit > 255:
		return fmt.Errorf("winhost: ExecExit %d: %w", f.ExecExit, ErrCannotExpress)
	}
	h.power.Lock()
	defer h.power.Unlock()
	before := h.currentFault()
	h.setFault(f)
	if err := replaceFile(h.control("fault"), shellFault(f)); err != nil {
		return err
	}
	if f.SessionLimit() != before.SessionLimit() || f.DenyAuth != before.DenyAuth {
		if err := h.writeConfig(f); err != nil {
			return err
		}
		if err := h.reload(); err != nil {
			return err
		}
	}
	return h.front.SetFault(f)
}

// shellFault is what openssh_shell.sh reads of a fault: shell variables.
func shellFault(f Fault) []byte {
	var b bytes.Buffer
	flag := func(name string, set bool) {
		if set {
			b.WriteString(name + "=1\n")
		}
	}
	flag("disk_full", f.DiskFull)
	flag("read_only", f.SFTPReadOnly)
	flag("exec_hang", f.ExecHang)
	if f.ExecExit != 0 {
		fmt.Fprintf(&b, "exec_exit=%d\n", f.ExecExit)
	}
	// Within single quotes everything is itself but the single quote.
	fmt.Fprintf(&b, "exec_match='%s'\n", strings.ReplaceAll(f.ExecMatch, "'", `'\''`))
	return b.Bytes()
}

// AuthorizeKey implements [Host].
func (h *opensshHost) AuthorizeKey(key ssh.PublicKey) error {
	h.power.Lock()
	defer h.power.Unlock()
	return addKey(h.keysFile(), key)
}

// SetAuthorizedKeys implements [Host].
func (h *opensshHost) SetAuthorizedKeys(keys ...ssh.PublicKey) error {
	h.power.Lock()
	defer h.power.Unlock()
	return replaceFile(h.keysFile(), authorizedKeysFile(keys))
}

// RotateHostKey implements [Host].
func (h *opensshHost) RotateHostKey() error {
	h.power.Lock()
	defer h.power.Unlock()
	if err := h.writeHostKey(); err != nil {
		return err
	}
	return h.reload()
}

// Commands implements [Host].
func (h *opensshHost) Commands() []string {
	b, err := os.ReadFile(h.control("commands"))
	if err != nil {
		h.logf("%s: reading the commands: %v", h.name, err)
		return nil
	}
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// Running implements [Host].
func (h *opensshHost) Running() int {
	m := h.current()
	if m == nil {
		return 0
	}
	names := m.processes()
	return len(slices.DeleteFunc(names, func(name string) bool {
		return strings.HasPrefix(name, "sshd") || strings.HasPrefix(name, "sftp-server")
	}))
}

// Close implements [Host].
func (h *opensshHost) Close() error {
	h.endTasks()
	defer h.tasks.Wait() // with power unlocked, which they may be waiting for
	h.power.Lock()
	defer h.power.Unlock()
	if m := h.takeMachine(); m != nil {
		m.kill()
	}
	steps := []func() error{h.removeFiles}
	if h.front != nil {
		steps = append(steps, h.front.Close)
	}
	if h.sshd != nil {
		steps = append(steps, h.sshd.Release)
		h.sshd = nil
	}
	return closeAll(steps...)
}
