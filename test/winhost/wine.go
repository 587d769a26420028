// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/test/programs"
	"github.com/openshift/windows-instance-api/test/winhost/internal/faultnet"
	"github.com/openshift/windows-instance-api/test/winhost/internal/wineproto"
)

// Limits of the patience with a Wine host. Both are above what a machine needs that has ten times the load it can bear;
// booting takes half a second on an idle one.
const (
	wineBootTimeout     = 4 * time.Minute
	wineShutdownTimeout = 20 * time.Second
)

// wineScript is the life of a Wine host. -p keeps the Wine server, and so the services, when
// no ordinary program is left; it returns when the server is ready, and two that start at a
// time could get into each other's way. The service control manager comes up with the first
// program.
const wineScript = wineServer + ` -p </dev/null || exit
` + wineProgram + ` cmd.exe /c exit </dev/null
read -r _
` + wineServer + ` -k
` + wineServer + ` -w`

// wineHost is a host of TierWine.
//
// Real on it: the service control manager (create, configure, start, stop, delete; also the
// kubelet behind kube-log-runner), the registry and the machine environment, certificate
// stores, files as Windows locks and renames them, job objects, mutexes, adapters and routes,
// named pipes, the clock since boot, a rename that takes effect with the next boot. The real
// kubelet.exe becomes a Ready Node on it, in a network of its own.
//
// Its cmd.exe is Wine's, and sessions have no terminal: one that asks for it gets pipes.
//
// Stand-ins of ours (directory shim) make up for what Wine has not, as far as the agent and
// the kubelet need it; each says what it does:
//   - bcryptprimitives.dll: ProcessPrng, and kinder versions of AF_UNIX listeners,
//     CreateSymbolicLinkW, QueryServiceStatusEx and InitiateSystemShutdownExW;
//   - dismapi.dll: the optional feature Containers, which can be enabled and is pending until
//     the next boot. Nothing comes with it;
//   - firewallapi.dll: INetFwPolicy2, INetFwRules and INetFwRule with their state in the
//     registry. Nothing is filtered;
//   - pdh.dll: every performance counter, with one value.
//
// A test that is green by them proves that the calls are made as documented, and nothing else
// about Windows.
//
// Not there: PowerShell, netsh, the event log's content, ACLs beyond mode bits, junctions and
// symbolic links (so the kubelet cannot rotate a certificate), HNS and HCS (the kubelet says
// so in its log every 10 seconds), dependency order and recovery actions of services, the
// account LocalSystem, antivirus, containers. RegFlushKey does nothing: what was changed in
// the registry within 30 seconds before the power is lost is lost with it. Clients of a named
// pipe that go-winio listens on are never accepted; go-winio's own clients work.
type wineHost struct {
	*base
	prefix, sockets, control string
	network                  *network // nil: that of this process
	metadata                 *metadataServer
	hardware                 string // a UUID

	boots int // so far; guarded by power

	mu       sync.Mutex // guards what follows
	machine  *machine   // nil: off
	last     *machine   // the newest, on or off
	upstream string     // address of the SSH server inside
}

func startWine(ctx context.Context, o Options) (Host, error) {
	if err := WineAvailable(); err != nil {
		return nil, err
	}
	template, err := wineTemplate(ctx)
	if err != nil {
		return nil, err
	}
	sshd, err := winsshd()
	if err != nil {
		return nil, err
	}
	var network *network
	if o.Network {
		if network, err = newNetwork(ctx); err != nil {
			return nil, err
		}
		o.Address = network.address.String()
	}
	b, err := newBase(o, administrator)
	if err != nil {
		return nil, errors.Join(err, network.close())
	}
	h := &wineHost{base: b, network: network, hardware: newUUID(), prefix: filepath.Join(b.dir, "prefix"), sockets: filepath.Join(b.dir, "sockets")}
	h.control = filepath.Join(h.prefix, "drive_c", wineproto.Rel)
	if err := h.create(o, template, sshd); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	if o.Metadata.Cloud != "" {
		if h.metadata, err = serveMetadata(ctx, network, o.Metadata); err != nil {
			return nil, errors.Join(err, h.Close())
		}
	}
	if err := h.powerOn(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// winsshd is the SSH server of the hosts, built once per process.
var winsshd = sync.OnceValues(func() ([]byte, error) {
	return programs.Build(context.Background(), "test/winhost/winsshd", "windows", "amd64")
})

// create makes the host's disk.
func (h *wineHost) create(o Options, template string, sshd []byte) (err error) {
	if err := os.CopyFS(h.prefix, os.DirFS(template)); err != nil {
		return err
	}
	if err := os.Mkdir(h.sockets, 0o700); err != nil {
		return err
	}
	config, err := json.Marshal(wineproto.Config{Listen: o.Address, User: h.user, Password: o.Password})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"winsshd.exe":          sshd,
		wineproto.ConfigFile:   config,
		wineproto.KeysFile:     authorizedKeysFile(o.AuthorizedKeys),
		wineproto.CommandsFile: nil,
	} {
		if err := h.write(name, content); err != nil {
			return err
		}
	}
	if err := h.replaceHostKey(); err != nil {
		return err
	}
	h.front, err = faultnet.New(h.network.within(), o.Address, o.Port, h.forward)
	return err
}

// write replaces a file that the SSH server reads.
func (h *wineHost) write(name string, content []byte) error {
	return replaceFile(filepath.Join(h.control, name), content)
}

func (h *wineHost) replaceHostKey() error {
	pem, signer, err := NewKey()
	if err != nil {
		return err
	}
	if err := h.write(wineproto.HostKeyFile, pem); err != nil {
		return err
	}
	h.setHostKey(signer)
	return nil
}

// forward carries one connection between the host's address and the SSH server inside.
func (h *wineHost) forward(ctx context.Context, client net.Conn) {
	h.mu.Lock()
	upstream := h.upstream
	h.mu.Unlock()
	faultnet.Forward(ctx, client, upstream)
}

// LogDir implements [Host].
func (h *wineHost) LogDir() string { return filepath.Join(h.prefix, "drive_c", "var", "log") }

// LocalPath implements [Host].
func (h *wineHost) LocalPath(hostPath string) (string, error) {
	return driveC(filepath.Join(h.prefix, "drive_c"), hostPath)
}

// PowerOn implements [Host].
func (h *wineHost) PowerOn() error {
	h.power.Lock()
	defer h.power.Unlock()
	return h.powerOn(context.Background())
}

func (h *wineHost) powerOn(ctx context.Context) error {
	if h.current() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wineBootTimeout)
	defer cancel()
	hostname, err := h.prepareBoot()
	if err != nil {
		return err
	}
	address := filepath.Join(h.control, wineproto.AddressFile)
	for _, old := range []string{address, filepath.Join(h.control, wineproto.ShutdownFile)} {
		if err := removeFile(old); err != nil {
			return err
		}
	}
	m, err := startMachine(machineSpec{
		hostname:       hostname,
		script:         wineScript,
		env:            wineEnv(h.prefix, h.dir, h.sockets),
		dir:            filepath.Join(h.prefix, "drive_c"),
		console:        filepath.Join(h.dir, "console.log"),
		fixedAddresses: wineAddresses,
		after:          h.previous(),
		network:        h.network,
	})
	if err != nil {
		return err
	}
	err = m.poll(ctx, "its SSH server came up", func() bool {
		b, err := os.ReadFile(address)
		return err == nil && len(b) > 0 && greets(ctx, string(b))
	})
	if err != nil {
		m.kill()
		return err
	}
	upstream, err := os.ReadFile(address)
	if err != nil {
		m.kill()
		return err
	}
	h.mu.Lock()
	h.machine, h.last, h.upstream = m, m, string(upstream)
	h.mu.Unlock()
	h.tasks.Go(func() {
		if what, asked := m.await(filepath.Join(h.control, wineproto.ShutdownFile)); asked {
			h.restartFromInside(func() bool { return h.shutdown(m) }, what == wineproto.Restart, h.powerOn)
		}
	})
	return h.front.Up()
}

// shutdown ends a boot in good order, and reports false if it has ended already.
func (h *wineHost) shutdown(m *machine) bool {
	if m == nil || h.current() != m {
		return false
	}
	h.takeMachine().shutdown(wineShutdownTimeout)
	return true
}

func (h *wineHost) previous() *machine {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

func (h *wineHost) current() *machine {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machine
}

// takeMachine closes the host's port and hands the machine to be ended over, if it is on.
func (h *wineHost) takeMachine() *machine {
	if h.front != nil {
		h.front.Down()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.machine
	h.machine, h.upstream = nil, ""
	return m
}

// prepareBoot changes in the registry, while that is a file, what changes with a boot, and
// returns the computer name that the host boots with. Wine always takes the name of the
// machine below; a SetComputerNameEx is only kept in the registry, and takes effect with the
// next boot as on Windows because it is fed back here.
func (h *wineHost) prepareBoot() (hostname string, err error) {
	path := filepath.Join(h.prefix, "system.reg")
	registry, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	hostname = h.name
	if name := pendingComputerName(registry); h.boots > 0 && name != "" {
		hostname = name
	}
	h.boots++
	return hostname, replaceFile(path, withBoot(registry, h.boots, h.hardware))
}

// bootNumber and hardwareID match what Windows numbers its boots with and what it tells
// computers apart by. The kubelet reports both.
var (
	bootNumber = regexp.MustCompile(`(?m)^"BootId"=dword:[0-9a-f]{8}`)
	hardwareID = regexp.MustCompile(`(?m)^"LastConfig"="[^"]*"`)
)

func newUUID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// withBoot returns a registry file of Wine for one boot of one computer.
func withBoot(systemReg []byte, boot int, hardware string) []byte {
	systemReg = bootNumber.ReplaceAll(systemReg, fmt.Appendf(nil, `"BootId"=dword:%08x`, boot))
	return hardwareID.ReplaceAll(systemReg, fmt.Appendf(nil, `"LastConfig"="{%s}"`, hardware))
}

// pendingComputerName finds the computer name in a registry file of Wine, or "".
func pendingComputerName(systemReg []byte) string {
	const key, value = `[System\\CurrentControlSet\\Control\\ComputerName\\ComputerName]`, `"ComputerName"="`
	within := false
	for line := range bytes.Lines(systemReg) {
		text := strings.TrimSpace(string(line))
		if strings.HasPrefix(text, "[") {
			within = strings.HasPrefix(text, key)
		}
		if name, ok := strings.CutPrefix(text, value); ok && within {
			return strings.ToLower(strings.TrimSuffix(name, `"`))
		}
	}
	return ""
}

// PowerOff implements [Host].
func (h *wineHost) PowerOff() error {
	h.power.Lock()
	defer h.power.Unlock()
	if m := h.takeMachine(); m != nil {
		m.kill()
	}
	return nil
}

// Reboot implements [Host].
func (h *wineHost) Reboot() error {
	h.power.Lock()
	defer h.power.Unlock()
	h.shutdown(h.current())
	return h.powerOn(context.Background())
}

// SetFault implements [Host].
func (h *wineHost) SetFault(f Fault) error {
	f, err := checkFault(f)
	if err != nil {
		return err
	}
	if f.OnServices() {
		return fmt.Errorf("winhost: the services of Wine are real: %w", ErrCannotExpress)
	}
	h.power.Lock()
	defer h.power.Unlock()
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := h.write(wineproto.FaultFile, b); err != nil {
		return err
	}
	return h.front.SetFault(f)
}

// AuthorizeKey implements [Host].
func (h *wineHost) AuthorizeKey(key ssh.PublicKey) error {
	h.power.Lock()
	defer h.power.Unlock()
	return addKey(filepath.Join(h.control, wineproto.KeysFile), key)
}

// SetAuthorizedKeys implements [Host].
func (h *wineHost) SetAuthorizedKeys(keys ...ssh.PublicKey) error {
	h.power.Lock()
	defer h.power.Unlock()
	return h.write(wineproto.KeysFile, authorizedKeysFile(keys))
}

// RotateHostKey implements [Host].
func (h *wineHost) RotateHostKey() error {
	h.power.Lock()
	defer h.power.Unlock()
	return h.replaceHostKey()
}

// Commands implements [Host].
func (h *wineHost) Commands() []string {
	b, err := os.ReadFile(filepath.Join(h.control, wineproto.CommandsFile))
	if err != nil {
		h.logf("%s: reading the commands: %v", h.name, err)
		return nil
	}
	var commands []string
	for line := range bytes.Lines(b) {
		var c string
		if err := json.Unmarshal(line, &c); err == nil { // the last one may still be being written
			commands = append(commands, c)
		}
	}
	return commands
}

// Running implements [Host].
func (h *wineHost) Running() int {
	if h.current() == nil {
		return 0
	}
	b, err := os.ReadFile(filepath.Join(h.control, wineproto.RunningFile))
	if err != nil {
		h.logf("%s: reading what runs: %v", h.name, err)
		return 0
	}
	n, err := strconv.Atoi(string(b))
	if err != nil {
		h.logf("%s: reading what runs: %v", h.name, err)
	}
	return n
}

// Close implements [Host].
func (h *wineHost) Close() error {
	h.endTasks()
	defer h.tasks.Wait() // with power unlocked, which they may be waiting for
	h.power.Lock()
	defer h.power.Unlock()
	if m := h.takeMachine(); m != nil {
		m.kill()
	}
	if h.front == nil {
		return closeAll(h.metadata.close, h.network.close, h.removeFiles)
	}
	return closeAll(h.front.Close, h.metadata.close, h.network.close, h.removeFiles)
}
