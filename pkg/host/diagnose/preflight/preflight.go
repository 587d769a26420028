// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package preflight judges whether a host is fit to be a node, by the facts that the agent
// has collected on it. It is pure: it does no I/O and reads no clock. It must not import
// what reaches hosts, nor a controller or the registry, which build on it.
package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// Severity says what a finding means for a host.
type Severity string

const (
	// Error means that the host cannot be a node like this.
	Error Severity = "Error"
	// Warning means that it is worth knowing, and no obstacle.
	Warning Severity = "Warning"
)

// Finding is a reason why a host is not fit to be a node.
type Finding struct {
	// Code is a CamelCase word for programs and for searching.
	Code string
	// Severity says whether it prevents that.
	Severity Severity
	// Message says what is wrong and what to do, without a full stop. It stays the same
	// as long as the cause does.
	Message string
}

// What a host needs. The builds are those of Windows Server 2019, 2022 and 2025,
// which Kubernetes and OpenShift support.
const (
	build2019 = 17763
	build2022 = 20348
	build2025 = 26100

	gib = 1 << 30
	// minMemory is 2 GiB less what firmware takes of it: a machine with 2 GiB reports a little less.
	minMemory = 2*gib - 128<<20
	// littleMemory is what is reserved for Windows by default, and a GiB for pods.
	littleMemory = 3*gib - 128<<20
	// minSystemDiskFree is room for the programs of a node and the first base image.
	minSystemDiskFree = 15 * gib
	// maxNetBIOSName is the length to which Windows cuts the NetBIOS name of a computer.
	maxNetBIOSName = 15

	// skewNoted is worth a warning; from skewSerious on tokens and
	// certificates are refused.
	skewNoted   = time.Minute
	skewSerious = 5 * time.Minute

	portKubelet  = 10250
	portExporter = 9182
)

// managedPrefix begins the description of each service that OpenShift has put on a host.
const managedPrefix = "OpenShift managed"

// Evaluate judges whether a host is fit to be a node. It returns all findings,
// not only the first. The facts were requested and received at the given times of our clock.
func Evaluate(facts *api.Facts, asked, received time.Time) []Finding {
	var findings []Finding
	for _, check := range []func(*api.Facts) []Finding{
		checkSystem, checkUser, checkName, checkMemory, checkDisk, checkReboot,
		checkServices, checkSSH, checkPorts, checkStaticAddress, checkErrors,
	} {
		findings = append(findings, check(facts)...)
	}
	return append(findings, checkClock(facts, asked, received)...)
}

// Blocking reports whether one of the findings is an error.
func Blocking(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Error })
}

func problem(code, format string, args ...any) []Finding {
	return []Finding{{Code: code, Severity: Error, Message: fmt.Sprintf(format, args...)}}
}

func note(code, format string, args ...any) []Finding {
	return []Finding{{Code: code, Severity: Warning, Message: fmt.Sprintf(format, args...)}}
}

func checkSystem(facts *api.Facts) []Finding {
	s := facts.System
	if s.OS != "windows" {
		return problem("UnsupportedOS", "the operating system is %s; a host must run Windows Server 2019, 2022 or 2025", orUnknown(s.OS))
	}
	var findings []Finding
	if s.Architecture != "amd64" {
		findings = problem("UnsupportedArchitecture", "the processor architecture is %s; Windows nodes need amd64", orUnknown(s.Architecture))
	}
	switch {
	case s.Build == 0:
		// checkErrors says that it could not be read.
	case !s.Server:
		findings = append(findings, problem("NotWindowsServer", "%s is not a server edition; install Windows Server 2019, 2022 or 2025", orUnknown(s.Product))...)
	case s.Build > build2025:
		findings = append(findings, note("UnknownBuild", "Windows build %d is newer than the builds this version was made for (%d, %d, %d)", s.Build, build2019, build2022, build2025)...)
	case s.Build != build2019 && s.Build != build2022 && s.Build != build2025:
		findings = append(findings, problem("UnsupportedBuild", "Windows build %d is not supported; install Windows Server 2019 (%d), 2022 (%d) or 2025 (%d)", s.Build, build2019, build2022, build2025)...)
	}
	return findings
}

func checkUser(facts *api.Facts) []Finding {
	u := facts.User
	switch {
	case facts.Unread("user"):
		return nil
	case !u.Administrator:
		return problem("NotAdministrator", "user %s is not an administrator; make the user a member of the local group Administrators, or set another one in spec.username", orUnknown(u.Name))
	case !u.Elevated:
		return problem("NotElevated", "the sessions of user %s are filtered by User Account Control; set LocalAccountTokenFilterPolicy to 1 in HKLM\\SOFTWARE\\Microsoft\\Windows\\CurrentVersion\\Policies\\System, or use the built-in administrator", orUnknown(u.Name))
	}
	return nil
}

func checkName(facts *api.Facts) []Finding {
	name := facts.Name.Hostname
	if name == "" {
		if facts.Unread("name") {
			return nil
		}
		return problem("InvalidHostname", "the host has no name; give it one with Rename-Computer and restart it")
	}
	var findings []Finding
	lower := strings.ToLower(name)
	switch {
	case len(utilvalidation.IsDNS1123Label(lower)) > 0:
		findings = problem("InvalidHostname", "the host name %q cannot be the name of a Node: use only letters, digits and hyphens, at most 63 (Rename-Computer, then restart)", name)
	case lower != name:
		findings = note("HostnameNotLowerCase", "the host name %s has upper-case letters; its Node will be named %s", name, lower)
	}
	if len(name) > maxNetBIOSName {
		findings = append(findings, note("HostnameTooLong", "the host name %s has more than %d characters: Windows cuts its NetBIOS name to %s, which must not be that of another host in the same domain", name, maxNetBIOSName, orUnknown(facts.Name.NetBIOS))...)
	}
	if pending := facts.Name.Pending; pending != "" && !strings.EqualFold(pending, name) {
		findings = append(findings, note("HostnamePending", "the host will be named %s instead of %s when it is restarted", pending, name)...)
	}
	return findings
}

func checkMemory(facts *api.Facts) []Finding {
	switch total := facts.Memory.TotalBytes; {
	case total == 0:
	case total < minMemory:
		return problem("MemoryTooSmall", "the host has %d MiB of memory; it needs at least 2 GiB", total>>20)
	case total < littleMemory:
		return note("LittleMemory", "the host has %d MiB of memory, of which a node keeps 2 GiB for Windows unless its pool says otherwise (spec.template.kubelet.systemReserved), so that little is left for pods", total>>20)
	}
	return nil
}

func checkDisk(facts *api.Facts) []Finding {
	i := slices.IndexFunc(facts.Disks, func(d api.Disk) bool { return d.System })
	if i < 0 || facts.Disks[i].FreeBytes >= minSystemDiskFree {
		return nil
	}
	if isNode(facts) {
		// The node's own images have used it; from here on the kubelet manages the disk.
		return nil
	}
	return problem("DiskTooSmall", "system disk %s has %d GiB free; a node needs at least %d GiB", facts.Disks[i].Path, facts.Disks[i].FreeBytes/gib, minSystemDiskFree/gib)
}

func checkReboot(facts *api.Facts) []Finding {
	if !facts.PendingReboot.Pending {
		return nil
	}
	return note("RebootPending", "Windows waits for a restart (%s)", RebootCause(facts.PendingReboot.Reasons))
}

// RebootCause names why a restart is due, for people.
func RebootCause(reasons []string) string {
	if len(reasons) == 0 {
		return "it does not say why"
	}
	return strings.Join(reasons, ", ")
}

func checkServices(facts *api.Facts) []Finding {
	var findings []Finding
	for _, name := range []string{"containerd", "docker"} {
		if s := facts.Service(name); s != nil && !managed(s) && !facts.Unread("services/"+name) {
			findings = append(findings, problem("ForeignContainerRuntime", "service %s was installed by somebody else and would conflict with the container runtime of the node; remove it, or use another host", name)...)
		}
	}
	return findings
}

// checkPorts looks for foreign processes on the ports of a node. While the service
// that belongs to a port runs, its listener is taken for the service's: the
// service may be a wrapper, so that its process ID is not that of the listener.
func checkPorts(facts *api.Facts) []Finding {
	var findings []Finding
	for _, p := range []struct {
		port    int
		service string
		finding func(code, format string, args ...any) []Finding
	}{
		{portKubelet, "kubelet", problem},
		{portExporter, "windows_exporter", note},
	} {
		i := slices.IndexFunc(facts.Network.Listening, func(l api.Listener) bool { return l.Port == p.port })
		if i < 0 {
			continue
		}
		if s := facts.Service(p.service); s != nil && managed(s) && s.State != "Stopped" {
			continue
		}
		findings = append(findings, p.finding("PortInUse", "TCP port %d, which %s needs, is held by process %d; stop that program", p.port, p.service, facts.Network.Listening[i].PID)...)
	}
	return findings
}

// checkStaticAddress: before Windows Server 2022 a static address is lost when the
// virtual switch takes the adapter over, unless a setting of the Host Networking Service prevents it.
func checkStaticAddress(facts *api.Facts) []Finding {
	disabled := facts.Network.DeviceLessNICDisabled
	if facts.System.OS != "windows" || facts.System.Build >= build2022 || facts.System.Build == 0 ||
		disabled != nil && *disabled || isNode(facts) {
		return nil
	}
	// An adapter without a gateway does not carry the node's traffic; those of
	// virtual switches are of that kind.
	i := slices.IndexFunc(facts.Network.Interfaces, func(n api.Interface) bool {
		return n.Up && !n.Loopback && n.DHCP != nil && !*n.DHCP && len(n.Gateways) > 0
	})
	if i < 0 {
		return nil
	}
	return problem("StaticAddressAtRisk", "adapter %q has a static address, which this Windows version loses when the node's network is created; run in PowerShell: New-ItemProperty HKLM:\\%s -Name %s -PropertyType DWORD -Value 1 -Force; then restart the host. Or use DHCP", facts.Network.Interfaces[i].Name, api.DeviceLessNICKey, api.DeviceLessNICValue)
}

func checkErrors(facts *api.Facts) []Finding {
	if len(facts.Errors) == 0 {
		return nil
	}
	areas := make([]string, len(facts.Errors))
	for i, e := range facts.Errors {
		areas[i] = e.Area
	}
	slices.Sort(areas)
	return note("NotChecked", "these facts could not be read and were not checked: %s", strings.Join(slices.Compact(areas), ", "))
}

// ClockSkew is the code of the finding that the clock of the host is wrong.
const ClockSkew = "ClockSkew"

// checkClock compares the clock of the host with ours. The host's time was read at
// some moment between asked and received, so only what lies outside is skew. The
// skew is named in steps: an exact one would be different each time.
func checkClock(facts *api.Facts, asked, received time.Time) []Finding {
	theirs := facts.Time.Now
	if theirs.IsZero() {
		return nil
	}
	skew, direction := asked.Sub(theirs), "behind"
	if theirs.After(received) {
		skew, direction = theirs.Sub(received), "ahead"
	}
	const advice = "; check the service W32Time and its time source (w32tm /query /status)"
	switch {
	case skew > 24*time.Hour:
		return problem(ClockSkew, "the clock of the host is more than a day %s"+advice, direction)
	case skew > time.Hour:
		return problem(ClockSkew, "the clock of the host is more than an hour %s"+advice, direction)
	case skew > skewSerious:
		return problem(ClockSkew, "the clock of the host is more than 5 minutes %s"+advice, direction)
	case skew > skewNoted:
		return note(ClockSkew, "the clock of the host is more than a minute %s"+advice, direction)
	}
	return nil
}

// isNode says whether the host has been made a node before.
func isNode(facts *api.Facts) bool {
	s := facts.Service("kubelet")
	return s != nil && managed(s)
}

func managed(s *api.Service) bool { return strings.HasPrefix(s.Description, managedPrefix) }

func orUnknown(s string) string { return cmp.Or(s, "unknown") }
