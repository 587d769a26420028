// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/logs"
	"github.com/openshift/windows-instance-api/test/winhost/internal/faultnet"
	"github.com/openshift/windows-instance-api/test/winhost/internal/sshserver"
	"github.com/openshift/windows-instance-api/test/winhost/internal/winfs"
)

// InProcessOptions are what only TierInProcess can do.
type InProcessOptions struct {
	// Facts changes what the host says about itself. It is called for every answer, with
	// the facts of a healthy Windows Server 2022. Nil: nothing is changed.
	Facts func(*api.Facts)
	// Details changes what is only found out when somebody inspects the host: without it
	// there are no certificates and no networks for pods. Nil: nothing is changed.
	Details func(*api.Facts)
	// EventLog is the host's event log. Nil: reading it fails.
	EventLog logs.EventLog
	// Clock is the host's clock, for clock skew and time zones. Nil: this machine's, UTC.
	Clock func() time.Time
	// Command runs command lines that are neither the agent's nor one of the few that
	// every host knows (see builtins). It reports false for a command that does not
	// exist. Nil: none exists.
	Command func(ctx context.Context, c CommandLine) (exitCode uint32, exists bool)
	// PowerShell makes Windows PowerShell the default shell instead of cmd.exe, as far as that can
	// be told from how it answers package shell's probe, reads the command lines of that package, and refuses a
	// command that does not exist.
	PowerShell bool
	// Services are what the programs of services do, by the name of the service. A service
	// that is not among them runs and does nothing.
	Services map[string]ServiceFunc
	// KeysFile is the path on the host of the file that sshd takes public keys from. Default: that of
	// administrators on Windows.
	KeysFile string
	// Rejects are public keys that sshd does not take whatever file has them, as one whose PubkeyAcceptedAlgorithms lack their
	// type. Nil: none is.
	Rejects func(ssh.PublicKey) bool
	// RunAgent makes the service of the agent keep the host as it was configured, instead
	// of doing nothing.
	RunAgent bool
}

// CommandLine is one command with its standard streams: Line as the client sent it, the
// User who logged in, Stdin, Stdout and Stderr, and the Terminal if there is one.
type CommandLine = sshserver.Command

// inProcessHost is a host of TierInProcess.
//
// Real on it: nothing but the SSH and SFTP protocols and the agent's portable code. Its
// files have Windows paths and are found without regard to case, a running program cannot
// be replaced, and commands that do not exist are refused in cmd.exe's words. Services can be
// given programs, which are functions of this process: they start with the host and end with
// its power. Everything else about Windows, its shells and terminals included, is made up.
type inProcessHost struct {
	*base
	opts   InProcessOptions
	driveC string
	cloud  Metadata

	mu       sync.Mutex // guards what follows
	on       bool
	boots    []boot                     // newest first
	routes   map[netip.Prefix]api.Route // made since the start
	commands []string
	running  map[string]int // local paths of programs, how often each runs
	// processes are the services that were started in this boot, by name in lower case.
	processes    map[string]*process
	removeAtBoot []string        // paths on the host
	lastPID      int             // of a process
	bootContext  context.Context // ends with the boot
	endBoot      context.CancelFunc

	programs sync.WaitGroup // of the boot: what may change the host. Added to with mu while on.

	sessions atomic.Int64 // commands and shells that run
}

// boot is one start of a host.
type boot struct {
	time time.Time
	id   string
}

func startInProcess(o Options) (Host, error) {
	b, err := newBase(o, cmp.Or(o.User, administrator))
	if err != nil {
		return nil, err
	}
	if o.InProcess.Clock == nil {
		o.InProcess.Clock = func() time.Time { return time.Now().UTC() }
	}
	h := &inProcessHost{base: b, opts: o.InProcess, cloud: o.Metadata, driveC: filepath.Join(b.dir, "drive_c"), running: map[string]int{}}
	h.bootContext, h.endBoot = context.WithCancel(context.Background())
	if err := h.create(o); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *inProcessHost) create(o Options) error {
	for _, d := range windowsDirectories {
		if err := os.MkdirAll(filepath.Join(h.driveC, d), 0o755); err != nil {
			return err
		}
	}
	if err := h.SetAuthorizedKeys(o.AuthorizedKeys...); err != nil {
		return err
	}
	if err := h.nameHost(o.Name); err != nil {
		return err
	}
	if o.HostKey != nil {
		h.setHostKey(o.HostKey)
	} else if err := h.RotateHostKey(); err != nil {
		return err
	}
	server := h.server(o.Password)
	front, err := faultnet.New(nil, o.Address, o.Port, server.Conn)
	if err != nil {
		return err
	}
	h.front = front
	return h.PowerOn()
}

func (h *inProcessHost) server(password string) *sshserver.Server {
	files := &winfs.FS{
		Home:   "/C:/Users/" + h.user,
		Local:  winfs.Below(h.driveC),
		Drives: func() []string { return []string{"C:"} },
		Busy:   h.busy,
		Fault:  h.currentFault,
	}
	s := &sshserver.Server{
		Fault:      h.currentFault,
		HostKey:    h.signer,
		Authorized: h.authorized,
		Exec:       h.exec,
		SFTP:       files.Serve,
		Dial: func(ctx context.Context, host string, port int) (net.Conn, error) {
			return sshserver.DialLoopback(ctx, h.Address(), host, port)
		},
		OnCommand: h.record,
		OnRun:     func(change int) { h.sessions.Add(int64(change)) },
		Logf:      h.logf,
	}
	if password != "" {
		s.Password = func(user, given string) bool { return strings.EqualFold(user, h.user) && given == password }
	}
	return s
}

func (h *inProcessHost) signer() (ssh.Signer, error) {
	h.base.mu.Lock()
	defer h.base.mu.Unlock()
	return h.hostKey, nil
}

// authorized says whether a key may log in: it is in the file for that, which nobody else may write to, and sshd takes keys like it.
func (h *inProcessHost) authorized(user string, key ssh.PublicKey) bool {
	rejects := h.opts.Rejects != nil && h.opts.Rejects(key)
	return strings.EqualFold(user, h.user) && authorizes(h.keysFile(), key) && !rejects
}

// keysFile is where the keys are that may log in.
func (h *inProcessHost) keysFile() string {
	return filepath.Join(h.driveC, strings.ReplaceAll(cmp.Or(h.opts.KeysFile, administratorsKeys)[len(`C:\`):], `\`, "/"))
}

func (h *inProcessHost) record(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commands = append(h.commands, line)
}

// Commands implements [Host].
func (h *inProcessHost) Commands() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.commands)
}

// Running implements [Host].
func (h *inProcessHost) Running() int { return int(h.sessions.Load()) }

func (h *inProcessHost) busy(local string) bool {
	h.mu.Lock()
	running := h.running[local] > 0
	h.mu.Unlock()
	below, err := filepath.Rel(h.driveC, local)
	return running || err == nil && h.hasProgram(`C:\`+strings.ReplaceAll(below, "/", `\`))
}

// lock keeps a program's file as it is while the program runs.
func (h *inProcessHost) lock(local string) (unlock func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running[local]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.running[local]--; h.running[local] == 0 {
			delete(h.running, local)
		}
	}
}

// LogDir implements [Host].
func (h *inProcessHost) LogDir() string { return filepath.Join(h.driveC, "var", "log") }

// LocalPath implements [Host].
func (h *inProcessHost) LocalPath(hostPath string) (string, error) {
	return driveC(h.driveC, hostPath)
}

// SetFault implements [Host].
func (h *inProcessHost) SetFault(f Fault) error {
	f, err := checkFault(f)
	if err != nil {
		return err
	}
	h.power.Lock()
	defer h.power.Unlock()
	h.setFault(f)
	return h.front.SetFault(f)
}

// AuthorizeKey implements [Host].
func (h *inProcessHost) AuthorizeKey(key ssh.PublicKey) error {
	h.power.Lock()
	defer h.power.Unlock()
	return addKey(h.keysFile(), key)
}

// SetAuthorizedKeys implements [Host].
func (h *inProcessHost) SetAuthorizedKeys(keys ...ssh.PublicKey) error {
	h.power.Lock()
	defer h.power.Unlock()
	return replaceFile(h.keysFile(), authorizedKeysFile(keys))
}

// RotateHostKey implements [Host].
func (h *inProcessHost) RotateHostKey() error {
	_, signer, err := NewKey()
	if err != nil {
		return err
	}
	h.setHostKey(signer)
	return nil
}

// PowerOn implements [Host].
func (h *inProcessHost) PowerOn() error {
	h.power.Lock()
	defer h.power.Unlock()
	return h.powerOn()
}

func (h *inProcessHost) powerOn() error {
	h.mu.Lock()
	if h.on {
		h.mu.Unlock()
		return nil
	}
	h.on = true
	h.routes = map[netip.Prefix]api.Route{}
	h.boots = slices.Insert(h.boots, 0, newBoot(h.opts.Clock(), h.boots))
	h.processes = map[string]*process{}
	h.bootContext, h.endBoot = context.WithCancel(context.Background())
	h.mu.Unlock()
	if err := h.startServices(); err != nil {
		return err
	}
	return h.front.Up()
}

// newBoot is a boot at a time, or just after the last one: boots are told apart by their
// times, which tests may let come within one tick of the clock.
func newBoot(now time.Time, before []boot) boot {
	if len(before) > 0 && !now.After(before[0].time) {
		now = before[0].time.Add(time.Millisecond)
	}
	return boot{time: now, id: rand.Text()}
}

// PowerOff implements [Host].
func (h *inProcessHost) PowerOff() error {
	h.power.Lock()
	defer h.power.Unlock()
	h.powerOff()
	return nil
}

func (h *inProcessHost) powerOff() {
	h.mu.Lock()
	h.on = false
	h.mu.Unlock()
	if h.front != nil {
		h.front.Cut()
	}
	h.mu.Lock()
	h.endBoot()
	h.mu.Unlock()
	if h.front != nil {
		h.front.Down()
	}
	h.programs.Wait()
}

// Reboot implements [Host].
func (h *inProcessHost) Reboot() error {
	h.power.Lock()
	defer h.power.Unlock()
	h.powerOff()
	return h.powerOn()
}

// Close implements [Host].
func (h *inProcessHost) Close() error {
	h.endTasks()
	defer h.tasks.Wait() // with power unlocked, which they may be waiting for
	h.power.Lock()
	defer h.power.Unlock()
	h.powerOff()
	if h.front == nil {
		return h.removeFiles()
	}
	return closeAll(h.front.Close, h.removeFiles)
}
