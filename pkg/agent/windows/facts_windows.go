// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/facts"
)

var (
	kernel32                 = windows.NewLazySystemDLL("kernel32.dll")
	procGlobalMemoryStatusEx = kernel32.NewProc("GlobalMemoryStatusEx")
)

// Facts collects everything by Win32 calls and from the registry.
func (h *Host) Facts(ctx context.Context) *api.Facts {
	f := &api.Facts{Time: facts.Time(h.Now())}
	f.Collect("system", func() error { return systemFacts(&f.System) })
	f.Collect("name", func() error { return nameFacts(&f.Name) })
	f.Collect("cpus", func() error {
		// All processor groups; the runtime sees only the one it is in.
		const allProcessorGroups = 0xffff
		f.CPUs = int(windows.GetActiveProcessorCount(allProcessorGroups))
		if f.CPUs == 0 {
			f.CPUs = runtime.NumCPU()
		}
		return nil
	})
	f.Collect("memory", func() error { return memoryFacts(&f.Memory) })
	agent.Collect(f, "disks", &f.Disks, disks)
	agent.Collect(f, "boot", &f.Boot, func() (api.BootFacts, error) { return h.Boot(ctx) })
	f.Collect("user", func() error { return userFacts(&f.User) })
	f.Collect("pendingReboot", func() error { return pendingReboot(&f.PendingReboot) })
	agent.Collect(f, "sessions", &f.Sessions, sessions)
	collectServices(f)
	agent.Collect(f, "network", &f.Network.Interfaces, interfaces)
	agent.Collect(f, "network/listening", &f.Network.Listening, listeners)
	f.Collect("network/deviceLessNICDisabled", func() error {
		v, err := readValue(api.DeviceLessNICKey, api.DeviceLessNICValue, registry.Key.GetIntegerValue)
		if err == nil {
			on := v != 0
			f.Network.DeviceLessNICDisabled = &on
		}
		return notMissing(err)
	})
	agent.Collect(f, "environment", &f.Environment, proxyVariables)
	f.Collect("openSSH", func() error {
		var err1, err2 error
		f.OpenSSH.DefaultShell, err1 = readString(`SOFTWARE\OpenSSH`, "DefaultShell")
		f.OpenSSH.DefaultShellCommandOption, err2 = readString(`SOFTWARE\OpenSSH`, "DefaultShellCommandOption")
		return errors.Join(notMissing(err1), notMissing(err2))
	})
	agent.Collect(f, "openSSH/server", &f.OpenSSH.Server, func() (*api.SSHServer, error) { return sshServer(f.Service("sshd")) })
	return f
}

const currentVersion = `SOFTWARE\Microsoft\Windows NT\CurrentVersion`

func systemFacts(s *api.SystemFacts) error {
	s.OS, s.Architecture = runtime.GOOS, nativeArchitecture()
	v := windows.RtlGetVersion()
	s.Build = int(v.BuildNumber)
	var errs []error
	text := func(name string) string {
		t, err := readString(currentVersion, name)
		errs = append(errs, notMissing(err))
		return t
	}
	s.Product, s.Edition, s.InstallationType = text("ProductName"), text("EditionID"), text("InstallationType")
	if s.Release = text("DisplayVersion"); s.Release == "" {
		s.Release = text("ReleaseId")
	}
	ubr, err := readValue(currentVersion, "UBR", registry.Key.GetIntegerValue)
	errs = append(errs, notMissing(err))
	s.Revision = int(ubr)
	s.Version = fmt.Sprintf("%d.%d.%d.%d", v.MajorVersion, v.MinorVersion, s.Build, s.Revision)
	// VER_NT_WORKSTATION of winnt.h.
	const workstation = 1
	s.Server = v.ProductType != workstation || strings.HasPrefix(s.InstallationType, "Server")
	return errors.Join(errs...)
}

// nativeArchitecture is that of the system, not of an emulated agent.
func nativeArchitecture() string {
	var process, native uint16
	if err := windows.IsWow64Process2(windows.CurrentProcess(), &process, &native); err == nil {
		// IMAGE_FILE_MACHINE_AMD64 and _ARM64 of winnt.h.
		switch native {
		case 0x8664:
			return "amd64"
		case 0xaa64:
			return "arm64"
		}
	}
	return runtime.GOARCH
}

func nameFacts(n *api.NameFacts) error {
	var errs []error
	name := func(kind uint32) string {
		s, err := computerName(kind)
		errs = append(errs, err)
		return s
	}
	n.Hostname = name(windows.ComputerNamePhysicalDnsHostname)
	n.FQDN = name(windows.ComputerNamePhysicalDnsFullyQualified)
	n.NetBIOS = name(windows.ComputerNamePhysicalNetBIOS)
	pending, err := pendingName()
	n.Pending = pending
	return errors.Join(append(errs, err)...)
}

func computerName(kind uint32) (string, error) {
	var buf [512]uint16 // a name of DNS has at most 255 characters
	n := uint32(len(buf))
	if err := windows.GetComputerNameEx(kind, &buf[0], &n); err != nil {
		return "", fmt.Errorf("reading the computer name: %w", err)
	}
	return windows.UTF16ToString(buf[:]), nil
}

const computerNameKey = `SYSTEM\CurrentControlSet\Control\ComputerName\`

// pendingName is the name after the next restart, empty when it is the current one.
func pendingName() (string, error) {
	active, err := readString(computerNameKey+"ActiveComputerName", "ComputerName")
	if err != nil {
		return "", notMissing(err)
	}
	next, err := readString(computerNameKey+"ComputerName", "ComputerName")
	if err != nil {
		return "", notMissing(err)
	}
	if strings.EqualFold(active, next) {
		return "", nil
	}
	// The NetBIOS name may be cut short; the DNS name is not.
	dns, err := readString(`SYSTEM\CurrentControlSet\Services\Tcpip\Parameters`, "NV Hostname")
	if err == nil && len(dns) >= len(next) && strings.EqualFold(dns[:len(next)], next) {
		next = dns
	}
	return next, notMissing(err)
}

func memoryFacts(m *api.MemoryFacts) error {
	// MEMORYSTATUSEX of sysinfoapi.h.
	status := struct {
		length, load                               uint32
		totalPhys, availPhys, totalPage, availPage uint64
		totalVirtual, availVirtual, availExtended  uint64
	}{}
	status.length = uint32(unsafe.Sizeof(status))
	if r, _, err := procGlobalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&status))); r == 0 {
		return fmt.Errorf("reading the memory: %w", err)
	}
	m.TotalBytes, m.AvailableBytes = status.totalPhys, status.availPhys
	return nil
}

func disks() ([]api.Disk, error) {
	mask, err := windows.GetLogicalDrives()
	if err != nil {
		return nil, fmt.Errorf("listing the drives: %w", err)
	}
	windir, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		return nil, fmt.Errorf("finding the Windows directory: %w", err)
	}
	var list []api.Disk
	var errs []error
	for i := range 26 {
		if mask&(1<<i) == 0 {
			continue
		}
		path := string(rune('A'+i)) + `:\`
		p, err := windows.UTF16PtrFromString(path)
		if err != nil {
			return nil, err
		}
		system := strings.EqualFold(path[:2], windir[:2])
		if windows.GetDriveType(p) != windows.DRIVE_FIXED && !system {
			continue
		}
		d := api.Disk{Path: path, System: system}
		if err := windows.GetDiskFreeSpaceEx(p, &d.FreeBytes, &d.TotalBytes, nil); err != nil {
			errs = append(errs, fmt.Errorf("reading the size of %s: %w", path, err))
			continue
		}
		var fs [windows.MAX_PATH + 1]uint16
		if err := windows.GetVolumeInformation(p, nil, 0, nil, nil, nil, &fs[0], uint32(len(fs))); err == nil {
			d.FileSystem = windows.UTF16ToString(fs[:])
		}
		if system {
			list = slices.Insert(list, 0, d)
		} else {
			list = append(list, d)
		}
	}
	return list, errors.Join(errs...)
}

func userFacts(u *api.UserFacts) error {
	token := windows.GetCurrentProcessToken()
	u.Elevated = token.IsElevated()
	tu, err := token.GetTokenUser()
	if err != nil {
		return fmt.Errorf("reading the account: %w", err)
	}
	u.ID = tu.User.Sid.String()
	if account, domain, _, err := tu.User.Sid.LookupAccount(""); err == nil {
		u.Name = domain + `\` + account
	}
	admins, err := windows.CreateWellKnownSid(windows.WinBuiltinAdministratorsSid)
	if err != nil {
		return fmt.Errorf("creating the SID of the administrators: %w", err)
	}
	// The zero token means that of the caller, as an impersonation token.
	if u.Administrator, err = windows.Token(0).IsMember(admins); err != nil {
		return fmt.Errorf("reading the groups of the account: %w", err)
	}
	return nil
}

// pendingReboot reads where the parts of Windows record that a restart is needed.
func pendingReboot(p *api.PendingReboot) error {
	const (
		servicing     = `SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\`
		windowsUpdate = `SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired`
		netlogon      = `SYSTEM\CurrentControlSet\Services\Netlogon`
	)
	var errs []error
	add := func(reason string, found bool, err error) {
		if err = notMissing(err); err != nil {
			errs = append(errs, err)
		}
		if found && !slices.Contains(p.Reasons, reason) {
			p.Reasons = append(p.Reasons, reason)
		}
	}
	for _, key := range []string{servicing + "RebootPending", servicing + "RebootInProgress", servicing + "PackagesPending"} {
		found, err := keyExists(key)
		add(api.RebootComponentServicing, found, err)
	}
	found, err := keyExists(windowsUpdate)
	add(api.RebootWindowsUpdate, found, err)
	renames, err := pendingRenames()
	add(api.RebootFileRename, replacedAtBoot(renames), err)
	name, err := pendingName()
	add(api.RebootComputerRename, name != "", err)
	for _, value := range []string{"JoinDomain", "AvoidSpnSet"} {
		found, err := valueExists(netlogon, value)
		add(api.RebootDomainJoin, found, err)
	}
	p.Pending = len(p.Reasons) > 0
	return errors.Join(errs...)
}

// pendingRenames returns what the session manager renames and removes at the next boot, as pairs
// of a source and a target.
func pendingRenames() (pairs []string, err error) {
	const sessionManager = `SYSTEM\CurrentControlSet\Control\Session Manager`
	for _, value := range []string{"PendingFileRenameOperations", "PendingFileRenameOperations2"} {
		list, readErr := readValue(sessionManager, value, registry.Key.GetStringsValue)
		err = errors.Join(err, notMissing(readErr))
		pairs = append(pairs, list[:len(list)&^1]...)
	}
	return pairs, err
}

// proxyVariables returns those of the machine, which the agent's own environment need not
// have: an SSH server passes on what was set when it was started.
func proxyVariables() (map[string]string, error) {
	all, err := machineEnvironment()
	if err != nil {
		return nil, err
	}
	var vars map[string]string
	for name, value := range all {
		if !facts.IsProxyVariable(name) {
			continue
		}
		if vars == nil {
			vars = make(map[string]string)
		}
		vars[strings.ToUpper(name)] = facts.WithoutUserinfo(value)
	}
	return vars, nil
}
