// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// testNow is when tests happen.
var testNow = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// goodFacts are those of a host that nothing speaks against.
func goodFacts() *api.Facts {
	return &api.Facts{
		Agent:  api.Version{Protocol: 1, Version: "v0.1.0", OS: "windows", Arch: "amd64"},
		Time:   api.TimeFacts{Now: testNow, Zone: "UTC"},
		System: api.SystemFacts{OS: "windows", Architecture: "amd64", Product: "Windows Server 2022 Datacenter", Version: "10.0.20348.2700", Build: 20348, Revision: 2700, Server: true},
		Name:   api.NameFacts{Hostname: "win-1", FQDN: "win-1", NetBIOS: "WIN-1"},
		CPUs:   4,
		Memory: api.MemoryFacts{TotalBytes: 8 * gib, AvailableBytes: 4 * gib},
		Disks:  []api.Disk{{Path: `C:\`, System: true, FileSystem: "NTFS", TotalBytes: 120 * gib, FreeBytes: 80 * gib}},
		Boot:   api.BootFacts{Time: testNow.Add(-24 * time.Hour), UptimeSeconds: 86400},
		User:   api.UserFacts{Name: `WIN-1\Administrator`, Administrator: true, Elevated: true},
	}
}

func ptrTo[T any](v T) *T { return &v }

// codes writes findings as code or code! where it is an obstacle.
func codes(findings []Finding) []string {
	out := []string{}
	for _, f := range findings {
		code := f.Code
		if f.Severity == Error {
			code += "!"
		}
		out = append(out, code)
	}
	return out
}

func TestEvaluate(t *testing.T) {
	managedKubelet := api.Service{Name: "kubelet", State: "Running", PID: 7, Description: "OpenShift managed kubelet"}
	staticAddress := api.Interface{Name: "Ethernet0", Up: true, DHCP: ptrTo(false), Addresses: []string{"10.1.42.1/24"}, Gateways: []string{"10.1.42.254"}}
	build := func(n int) func(*api.Facts) { return func(f *api.Facts) { f.System.Build = n } }

	for _, test := range []struct {
		name   string
		change func(*api.Facts)
		want   []string
	}{
		{"nothing", func(*api.Facts) {}, []string{}},
		{"Windows Server 2019", build(17763), []string{}},
		{"Windows Server 2025", build(26100), []string{}},
		{"a build between", build(25398), []string{"UnsupportedBuild!"}},
		{"a build before all", build(14393), []string{"UnsupportedBuild!"}},
		{"a build of the future", build(29000), []string{"UnknownBuild"}},
		{"a client with the build of a server", func(f *api.Facts) { f.System.Build, f.System.Server = 26100, false }, []string{"NotWindowsServer!"}},
		{"not Windows", func(f *api.Facts) { f.System = api.SystemFacts{OS: "linux", Architecture: "amd64"} }, []string{"UnsupportedOS!"}},
		{"another processor", func(f *api.Facts) { f.System.Architecture = "arm64" }, []string{"UnsupportedArchitecture!"}},
		{"no administrator", func(f *api.Facts) { f.User.Administrator, f.User.Elevated = false, false }, []string{"NotAdministrator!"}},
		{"a filtered administrator", func(f *api.Facts) { f.User.Elevated = false }, []string{"NotElevated!"}},
		{"host name with an underscore", func(f *api.Facts) { f.Name.Hostname = "win_1" }, []string{"InvalidHostname!"}},
		{"no host name", func(f *api.Facts) { f.Name.Hostname = "" }, []string{"InvalidHostname!"}},
		{"host name in upper case", func(f *api.Facts) { f.Name.Hostname = "WIN-1" }, []string{"HostnameNotLowerCase"}},
		{"host name of 15 characters", func(f *api.Facts) { f.Name.Hostname = "windows-worker1" }, []string{}},
		{"host name of 16 characters", func(f *api.Facts) { f.Name.Hostname = "windows-worker12" }, []string{"HostnameTooLong"}},
		{"another name after the restart", func(f *api.Facts) { f.Name.Pending = "WIN-2" }, []string{"HostnamePending"}},
		{"the same name after the restart", func(f *api.Facts) { f.Name.Pending = "WIN-1" }, []string{}},
		{"2 GiB of memory less what the firmware takes", func(f *api.Facts) { f.Memory.TotalBytes = 2*gib - 1<<20 }, []string{"LittleMemory"}},
		{"3 GiB of memory", func(f *api.Facts) { f.Memory.TotalBytes = 3 * gib }, []string{}},
		{"1 GiB of memory", func(f *api.Facts) { f.Memory.TotalBytes = gib }, []string{"MemoryTooSmall!"}},
		{"little disk", func(f *api.Facts) { f.Disks[0].FreeBytes = 15*gib - 1 }, []string{"DiskTooSmall!"}},
		{"little disk on a node, by its own images", func(f *api.Facts) {
			f.Disks[0].FreeBytes = gib
			f.Services = []api.Service{managedKubelet}
		}, []string{}},
		{"little of another disk", func(f *api.Facts) { f.Disks = append(f.Disks, api.Disk{Path: `D:\`}) }, []string{}},
		{"a restart is due", func(f *api.Facts) { f.PendingReboot.Pending = true }, []string{"RebootPending"}},
		{"docker", func(f *api.Facts) {
			f.Services = []api.Service{{Name: "docker", Description: "Docker Engine"}}
		}, []string{"ForeignContainerRuntime!"}},
		{"a foreign containerd", func(f *api.Facts) { f.Services = []api.Service{{Name: "containerd"}} }, []string{"ForeignContainerRuntime!"}},
		{"our containerd", func(f *api.Facts) {
			f.Services = []api.Service{{Name: "containerd", Description: "OpenShift managed containerd"}}
		}, []string{}},
		{"a containerd that cannot be looked at", func(f *api.Facts) {
			f.Services = []api.Service{{Name: "containerd"}}
			f.Errors = []api.FactError{{Area: "services/containerd", Message: "access denied"}}
		}, []string{"NotChecked"}},
		{"sshd as it is installed", func(f *api.Facts) { f.Services = []api.Service{{Name: "sshd", State: "Running", StartType: "Manual"}} }, []string{"SSHDoesNotStart!"}},
		{"sshd that is disabled, on a node", func(f *api.Facts) {
			f.Services = []api.Service{managedKubelet, {Name: "sshd", State: "Running", StartType: "Disabled"}}
		}, []string{"SSHDoesNotStart"}},
		{"sshd that starts later", func(f *api.Facts) {
			f.Services = []api.Service{{Name: "sshd", State: "Running", StartType: "AutomaticDelayed"}}
		}, []string{}},
		{"another SSH server", func(f *api.Facts) { f.Services = []api.Service{{Name: "sshd", State: "Stopped", StartType: "Manual"}} }, []string{}},
		{"sshd that cannot be looked at", func(f *api.Facts) { f.Services = []api.Service{{Name: "sshd", State: "Running"}} }, []string{}},
		{"the ports are taken", func(f *api.Facts) {
			f.Network.Listening = []api.Listener{{Port: 10250, PID: 9}, {Port: 9182, PID: 9}}
		}, []string{"PortInUse!", "PortInUse"}},
		{"the kubelet has its port, behind a wrapper", func(f *api.Facts) {
			f.Network.Listening = []api.Listener{{Port: 10250, PID: 9}}
			f.Services = []api.Service{managedKubelet}
		}, []string{}},
		{"a kubelet that is stopped has no port", func(f *api.Facts) {
			stopped := managedKubelet
			stopped.State = "Stopped"
			f.Network.Listening = []api.Listener{{Port: 10250, PID: 9}}
			f.Services = []api.Service{stopped}
		}, []string{"PortInUse!"}},
		{"static address before 2022", func(f *api.Facts) {
			f.System.Build = 17763
			f.Network.Interfaces = []api.Interface{staticAddress}
		}, []string{"StaticAddressAtRisk!"}},
		{"static address before 2022, prepared", func(f *api.Facts) {
			f.System.Build = 17763
			f.Network.Interfaces = []api.Interface{staticAddress}
			f.Network.DeviceLessNICDisabled = ptrTo(true)
		}, []string{}},
		{"static address since 2022", func(f *api.Facts) { f.Network.Interfaces = []api.Interface{staticAddress} }, []string{}},
		{"a virtual adapter has a static address", func(f *api.Facts) {
			f.System.Build = 17763
			f.Network.Interfaces = []api.Interface{{Name: "vEthernet (nat)", Up: true, DHCP: ptrTo(false), Addresses: []string{"172.19.0.1/20"}}}
		}, []string{}},
		{"what cannot be read is no finding of its own", func(f *api.Facts) {
			f.User, f.Name, f.Disks, f.Memory, f.System.Build = api.UserFacts{}, api.NameFacts{}, nil, api.MemoryFacts{}, 0
			f.Errors = []api.FactError{{Area: "user"}, {Area: "name"}, {Area: "disks"}, {Area: "memory"}, {Area: "system"}}
		}, []string{"NotChecked"}},
		{"all at once", func(f *api.Facts) {
			f.System.Build = 14393
			f.User.Administrator = false
			f.Memory.TotalBytes = gib
			f.Disks[0].FreeBytes = gib
			f.PendingReboot.Pending = true
			f.Time.Now = testNow.Add(-time.Hour)
		}, []string{"UnsupportedBuild!", "NotAdministrator!", "MemoryTooSmall!", "DiskTooSmall!", "RebootPending", "ClockSkew!"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := goodFacts()
			test.change(facts)
			got := Evaluate(facts, testNow, testNow)
			if diff := cmp.Diff(test.want, codes(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for _, f := range got {
				if f.Message == "" || strings.Contains(f.Message, "%!") || strings.HasSuffix(f.Message, ".") {
					t.Errorf("bad message %q", f.Message)
				}
			}
		})
	}
}

// TestStaticAddressCommand: what the finding says to run sets what the agent reads. With another key the
// host would be refused for ever.
func TestStaticAddressCommand(t *testing.T) {
	facts := goodFacts()
	facts.System.Build = build2019
	facts.Network.Interfaces = []api.Interface{{Name: "Ethernet0", Up: true, DHCP: ptrTo(false), Addresses: []string{"10.0.0.9/24"}, Gateways: []string{"10.0.0.1"}}}
	got := Evaluate(facts, testNow, testNow)
	const want = `adapter "Ethernet0" has a static address, which this Windows version loses when the node's network is created; run in PowerShell: New-ItemProperty HKLM:\SYSTEM\CurrentControlSet\Services\hns\State -Name DeviceLessNicDisabled -PropertyType DWORD -Value 1 -Force; then restart the host. Or use DHCP`
	if len(got) != 1 || got[0].Message != want {
		t.Errorf("got  %+v\nwant %s", got, want)
	}
}

func TestClock(t *testing.T) {
	for _, test := range []struct {
		name   string
		theirs time.Duration // relative to the moment of asking
		took   time.Duration
		want   string
	}{
		{"exact", 0, 0, ""},
		{"a minute ahead", time.Minute, 0, ""},
		{"more than a minute ahead", 61 * time.Second, 0, "note: the clock of the host is more than a minute ahead"},
		{"more than a minute behind", -61 * time.Second, 0, "note: the clock of the host is more than a minute behind"},
		{"more than five minutes behind", -301 * time.Second, 0, "obstacle: the clock of the host is more than 5 minutes behind"},
		{"more than an hour ahead", 61 * time.Minute, 0, "obstacle: the clock of the host is more than an hour ahead"},
		{"more than a day behind", -25 * time.Hour, 0, "obstacle: the clock of the host is more than a day behind"},
		{"the answer took two minutes", 2 * time.Minute, 2 * time.Minute, ""},
		{"ahead even of an answer that took two minutes", 190 * time.Second, 2 * time.Minute, "note: the clock of the host is more than a minute ahead"},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := goodFacts()
			facts.Time.Now = testNow.Add(test.theirs)
			got := ""
			for _, f := range Evaluate(facts, testNow, testNow.Add(test.took)) {
				kind := map[Severity]string{Error: "obstacle: ", Warning: "note: "}[f.Severity]
				text, _, _ := strings.Cut(f.Message, ";")
				got += kind + text
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
