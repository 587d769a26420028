// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/facts"
	"github.com/openshift/windows-instance-api/pkg/agent/logs"
	"github.com/openshift/windows-instance-api/pkg/agent/updates"
	"github.com/openshift/windows-instance-api/test/agenthost"
)

// windowsVersion is that of the hosts of every tier as they come: Windows Server 2022 with an update of autumn 2024.
const windowsVersion = "10.0.20348.2700"

// version is that of Windows in the present boot.
func (s *hostSystem) version() string {
	version, err := s.System.Version()
	if err != nil { // the boot is over, and nobody learns it any more
		return windowsVersion
	}
	return cmp.Or(version, windowsVersion)
}

// buildOf are the build and the revision of a version.
func buildOf(version string) (build, revision int) {
	_, _ = fmt.Sscanf(version, "10.0.%d.%d", &build, &revision)
	return build, revision
}

// agentHost is an in-process host as the agent sees it.
type agentHost struct {
	*inProcessHost
	executable string // on this machine
}

var _ agent.Host = (*agentHost)(nil)

// LogRoot implements [logs.Host].
func (a *agentHost) LogRoot() string { return a.LogDir() }

// Now implements [logs.Host].
func (a *agentHost) Now() time.Time { return a.opts.Clock() }

// BootTimes implements [logs.Host].
func (a *agentHost) BootTimes(context.Context) ([]time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	times := make([]time.Time, 0, len(a.boots))
	for _, b := range a.boots {
		times = append(times, b.time)
	}
	return times, nil
}

// EventLog implements [logs.Host].
func (a *agentHost) EventLog() (logs.EventLog, error) {
	if a.opts.EventLog == nil {
		return nil, fmt.Errorf("the event log service is not available: %w", logs.ErrNoEventLog)
	}
	return a.opts.EventLog, nil
}

// Executable implements [agent.Host].
func (a *agentHost) Executable() (string, error) { return a.executable, nil }

// Boot implements [agent.Host].
func (a *agentHost) Boot(context.Context) (api.BootFacts, error) {
	a.mu.Lock()
	last := a.boots[0]
	a.mu.Unlock()
	return a.bootFacts(last), nil
}

func (a *agentHost) bootFacts(b boot) api.BootFacts {
	return api.BootFacts{Time: b.time, UptimeSeconds: int64(a.Now().Sub(b.time) / time.Second), ID: b.id}
}

// Restart implements [agent.Host]. Of several requests the first one ends the boot that
// they are about, and the others come too late.
func (a *agentHost) Restart(context.Context, api.RestartRequest) error {
	h := a.inProcessHost
	h.mu.Lock()
	defer h.mu.Unlock()
	this := h.boots[0].id
	h.tasks.Go(func() {
		down := func() bool {
			h.mu.Lock()
			over := !h.on || h.boots[0].id != this
			h.mu.Unlock()
			if !over {
				h.powerOff()
			}
			return !over
		}
		h.restartFromInside(down, true, func(context.Context) error { return h.powerOn() })
	})
	return nil
}

// EnsureRoute implements [agent.Host].
func (a *agentHost) EnsureRoute(_ context.Context, r api.Route) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was, present := a.routes[r.Destination]
	a.routes[r.Destination] = r
	return !present || was != r, nil
}

// Routes are the destinations that programs of a host have made routes to since it booted, sorted. The error is [ErrCannotExpress] but on
// TierInProcess.
func Routes(host Host) ([]netip.Prefix, error) {
	h, ok := host.(*inProcessHost)
	if !ok {
		return nil, ErrCannotExpress
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(maps.Keys(h.routes), netip.Prefix.Compare), nil
}

// KeyFiles implements [agent.Host].
func (a *agentHost) KeyFiles() ([]string, error) { return agenthost.KeyFiles(a.user), nil }

// System implements [agent.Host].
func (a *agentHost) System() agent.System { return a.system() }

// Serve implements [agent.Host].
func (a *agentHost) Serve(ctx context.Context, run func(context.Context) error) error {
	return run(ctx)
}

// LowerPriority implements [agent.Host].
func (a *agentHost) LowerPriority() {}

// ReportDrift implements [agent.Host].
func (a *agentHost) ReportDrift(string) error { return nil }

// Updates implements [agent.Host].
func (a *agentHost) Updates() updates.Source { return a.system().Updates() }

// MachineID implements [agent.Host].
func (a *agentHost) MachineID() string { return agenthost.MachineID(a.driveC) }

// Facts implements [agent.Host].
func (a *agentHost) Facts(context.Context) *api.Facts {
	a.mu.Lock()
	last := a.boots[0]
	a.mu.Unlock()
	f := a.healthyFacts(last)
	if a.opts.Facts != nil {
		a.opts.Facts(f)
	}
	return f
}

// Details implements [agent.Host].
func (a *agentHost) Details(_ context.Context, f *api.Facts) {
	if a.opts.Details != nil {
		a.opts.Details(f)
	}
}

// netBIOS is the NetBIOS name of a computer.
func netBIOS(name string) string { return strings.ToUpper(name[:min(len(name), 15)]) }

// healthyFacts describe a host that passes every preflight check.
func (a *agentHost) healthyFacts(last boot) *api.Facts {
	const gib = 1 << 30
	now := a.Now()
	zone, offset := now.Zone()
	no := false
	name, next := a.hostname()
	names := api.NameFacts{Hostname: name, FQDN: name, NetBIOS: netBIOS(name)}
	version := a.system().version()
	build, revision := buildOf(version)
	var pending api.PendingReboot
	if next != name {
		names.Pending = next
		pending = api.PendingReboot{Pending: true, Reasons: []string{api.RebootComputerRename}}
	}
	return &api.Facts{
		Time: api.TimeFacts{Now: now, Zone: zone, OffsetSeconds: offset},
		System: api.SystemFacts{
			OS: "windows", Architecture: "amd64",
			Product: "Windows Server 2022 Datacenter", Edition: "ServerDatacenter", InstallationType: "Server Core", Release: "21H2",
			Version: version, Build: build, Revision: revision, Server: true,
		},
		Name:          names,
		CPUs:          4,
		Memory:        api.MemoryFacts{TotalBytes: 16 * gib, AvailableBytes: 12 * gib},
		Disks:         []api.Disk{{Path: `C:\`, System: true, FileSystem: "NTFS", TotalBytes: 128 * gib, FreeBytes: 96 * gib}},
		Boot:          a.bootFacts(last),
		User:          api.UserFacts{Name: names.NetBIOS + `\` + a.user, ID: "S-1-5-21-1004336348-1177238915-682003330-500", Administrator: true, Elevated: true},
		PendingReboot: pending,
		Services: append(a.serviceFacts(), []api.Service{
			{Name: "sshd", DisplayName: "OpenSSH SSH Server", State: "Running", StartType: "Automatic", PID: 1804, Path: `C:\Windows\System32\OpenSSH\sshd.exe`, Account: "LocalSystem"},
			{Name: "vmcompute", DisplayName: "Hyper-V Host Compute Service", State: "Running", StartType: "Manual", PID: 2012, Path: `C:\Windows\system32\vmcompute.exe`, Account: "LocalSystem"},
			{Name: "hns", DisplayName: "Host Network Service", State: "Running", StartType: "Manual", PID: 2044, Path: `C:\Windows\system32\svchost.exe -k NetSvcs -p`, Account: "LocalSystem"},
			{Name: "W32Time", DisplayName: "Windows Time", State: "Running", StartType: "Automatic", PID: 988, Path: `C:\Windows\system32\svchost.exe -k LocalService`, Account: `NT AUTHORITY\LocalService`},
		}...),
		Network: api.NetworkFacts{
			Interfaces: []api.Interface{{
				Name: "Ethernet", Index: 4, MAC: "00:50:56:9a:10:01", MTU: 1500, Up: true, DHCP: &no,
				Addresses: []string{a.Address() + "/24"}, Gateways: []string{"127.0.2.254"}, DNSServers: []string{"127.0.2.254"},
			}},
			Listening: []api.Listener{{Port: 22, Address: "0.0.0.0", PID: 1804}},
		},
		OpenSSH: api.OpenSSHFacts{Server: healthySSH()},
	}
}

// healthySSH is the SSH server that came with an update of autumn 2024, with the rights with which it makes its files.
func healthySSH() *api.SSHServer {
	const administrators, authenticatedUsers, readAndExecute = "S-1-5-32-544", "S-1-5-11", 0x1200a9
	s := &api.SSHServer{
		Version: "9.5.2.1", EndsOverFolders: true,
		Folder:   &api.FileAccess{Owner: administrators, Allowed: []api.AllowedAccess{{Account: authenticatedUsers, Rights: readAndExecute}}},
		Logs:     &api.FileAccess{Owner: administrators},
		HostKeys: map[string]api.FileAccess{},
	}
	for _, name := range facts.SSHHostKeys() {
		s.HostKeys[name] = api.FileAccess{Owner: "S-1-5-18"}
	}
	return s
}
