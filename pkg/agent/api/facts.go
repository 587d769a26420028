// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"fmt"
	"time"
)

// Facts is what preflight checks and the inspect subresource need to know about
// a host, as it is now. Sizes are bytes. A field that could not be read is empty
// and its group is listed in Errors; a field that does not apply to the
// operating system is empty without an error.
type Facts struct {
	// Agent is the agent that collected the facts.
	Agent Version `json:"agent"`
	// Time is the clock of the host at the moment of the answer. The caller
	// works out the skew.
	Time TimeFacts `json:"time"`
	// System is the operating system product and its build.
	System SystemFacts `json:"system"`
	// Name is how the host calls itself.
	Name NameFacts `json:"name"`
	// CPUs is the number of logical processors that the system schedules on.
	CPUs int `json:"cpus"`
	// Memory is physical memory.
	Memory MemoryFacts `json:"memory"`
	// Disks are the local fixed volumes, the system drive first.
	Disks []Disk `json:"disks,omitempty"`
	// Boot says since when the host runs.
	Boot BootFacts `json:"boot"`
	// User is the account that the agent runs as, which is the SSH account.
	User UserFacts `json:"user"`
	// PendingReboot says whether the system waits for a restart.
	PendingReboot PendingReboot `json:"pendingReboot"`
	// Updates is what the service on the host knows of the updates of Windows. Nil: it has not said
	// anything, for example because the host is not configured.
	Updates *WindowsUpdates `json:"updates,omitempty"`
	// Sessions are those of people, which the system does not end unless a restart is forced.
	Sessions []Session `json:"sessions,omitempty"`
	// Services are the services of interest that exist, in the order of
	// ServicesOfInterest of package agent.
	Services []Service `json:"services,omitempty"`
	// Network are the adapters and what hangs on them.
	Network NetworkFacts `json:"network"`
	// Environment are the proxy variables of the machine (not of the SSH
	// session), keys in upper case; user names and passwords within the
	// addresses are replaced by "xxxxx".
	Environment map[string]string `json:"environment,omitempty"`
	// OpenSSH is how the SSH server starts commands, and what decides whether it starts itself.
	OpenSSH OpenSSHFacts `json:"openSSH"`
	// Configuration says which document the host was configured with.
	Configuration ConfigurationFacts `json:"configuration,omitzero"`
	// Certificates are those of the kubelet and of the other programs of a node. Only
	// "inspect" collects them.
	Certificates []Certificate `json:"certificates,omitempty"`
	// RecentErrors are the newest errors of the last day in the event log and in the logs
	// of the services of a node, newest first. Only "inspect" collects them.
	RecentErrors []LoggedError `json:"recentErrors,omitempty"`
	// Errors lists what could not be read.
	Errors []FactError `json:"errors,omitempty"`
}

// ConfigurationFacts say which document a host was configured with, and what changed since.
type ConfigurationFacts struct {
	// AppliedRevision is that of the last document that was applied completely. Empty: none was.
	AppliedRevision string `json:"appliedRevision,omitempty"`
	// ApplyingRevision is that of the document that is being applied, or was, and
	// not completely. Empty: none.
	ApplyingRevision string `json:"applyingRevision,omitempty"`
	// Drift is what others changed last since then. Nil: nothing.
	Drift *Drift `json:"drift,omitempty"`
	// Waiting are services of the document that was applied which wait for a network that others make.
	Waiting []Waiting `json:"waiting,omitempty"`
	// NodeName is what the kubelet calls its node where the document that was applied says so, as on
	// platforms whose metadata service has the name. Empty: it calls it as the host is called.
	NodeName string `json:"nodeName,omitempty"`
	// KubeletCertificate is the client certificate of the kubelet, compared with the document
	// that was applied. Nil: the document says nothing of it.
	KubeletCertificate *KubeletCertificate `json:"kubeletCertificate,omitempty"`
}

// TimeFacts is a clock and its time zone.
type TimeFacts struct {
	// Now is when the agent began to collect, and Answered when it had done. What the
	// caller waited beyond that was the way to the host and back.
	Now      time.Time `json:"now"`
	Answered time.Time `json:"answered,omitzero"`
	// Zone is the name that the host has for its zone, such as "UTC" or
	// "W. Europe Standard Time".
	Zone string `json:"zone,omitempty"`
	// OffsetSeconds is the present offset from UTC, positive to the east.
	OffsetSeconds int `json:"offsetSeconds"`
}

// SystemFacts name the operating system.
type SystemFacts struct {
	// OS is "windows", "linux" and so on; Architecture is that of the system
	// in Go's names, also when the agent itself is emulated.
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	// Product is the product name, "Windows Server 2022 Datacenter".
	Product string `json:"product,omitempty"`
	// Edition is the edition's identifier, "ServerDatacenter".
	Edition string `json:"edition,omitempty"`
	// InstallationType is "Server" (with desktop), "Server Core", "Client".
	InstallationType string `json:"installationType,omitempty"`
	// Release is the marketing release, "21H2".
	Release string `json:"release,omitempty"`
	// Version is major.minor.build.revision, "10.0.20348.2700"; elsewhere the
	// kernel release.
	Version string `json:"version,omitempty"`
	// Build and Revision (UBR) are the last two numbers of Version.
	Build    int `json:"build,omitempty"`
	Revision int `json:"revision,omitempty"`
	// Server is true for Windows Server.
	Server bool `json:"server"`
}

// NameFacts are the names of a host.
type NameFacts struct {
	// Hostname is the DNS host name without the domain.
	Hostname string `json:"hostname,omitempty"`
	// FQDN is host name and domain; equal to Hostname outside any domain.
	FQDN string `json:"fqdn,omitempty"`
	// NetBIOS is the NetBIOS name: at most 15 characters, upper case.
	NetBIOS string `json:"netBIOS,omitempty"`
	// Pending is the name that the host takes with its next restart, empty
	// when it keeps the present one.
	Pending string `json:"pending,omitempty"`
}

// MemoryFacts is physical memory in bytes.
type MemoryFacts struct {
	TotalBytes     uint64 `json:"totalBytes"`
	AvailableBytes uint64 `json:"availableBytes"`
}

// Disk is one volume. FreeBytes is what the agent's account may still write.
type Disk struct {
	Path       string `json:"path"`
	System     bool   `json:"system"`
	FileSystem string `json:"fileSystem,omitempty"`
	TotalBytes uint64 `json:"totalBytes"`
	FreeBytes  uint64 `json:"freeBytes"`
}

// BootFacts say when the host was last started.
type BootFacts struct {
	// Time is exact to about a second: it is the clock less the uptime.
	Time          time.Time `json:"time,omitzero"`
	UptimeSeconds int64     `json:"uptimeSeconds"`
	// ID differs from boot to boot and is stable within one, where the system
	// has such an identifier.
	ID string `json:"id,omitempty"`
}

// UserFacts describe an account.
type UserFacts struct {
	Name string `json:"name,omitempty"`
	// ID is the SID, elsewhere the numeric user ID.
	ID string `json:"id,omitempty"`
	// Administrator: the token carries the Administrators group, enabled.
	// Elevated: the token is not filtered by UAC. Elsewhere both mean root.
	Administrator bool `json:"administrator"`
	Elevated      bool `json:"elevated"`
}

// PendingReboot says whether and why a restart is due.
type PendingReboot struct {
	Pending bool `json:"pending"`
	// Reasons are constants Reboot….
	Reasons []string `json:"reasons,omitempty"`
}

// Reasons for a restart.
const (
	// RebootComponentServicing: an update or an optional feature waits.
	RebootComponentServicing = "ComponentServicing"
	// RebootWindowsUpdate: Windows Update requests it.
	RebootWindowsUpdate = "WindowsUpdate"
	// RebootFileRename: files in use are to be replaced. What is only deleted does not count.
	RebootFileRename = "PendingFileRename"
	// RebootComputerRename: the computer name was changed.
	RebootComputerRename = "ComputerRename"
	// RebootDomainJoin: the computer joined or left a domain.
	RebootDomainJoin = "DomainJoin"
)

// Service is one service of the service control manager.
type Service struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
	Description string `json:"description,omitempty"`
	// State is Running, Stopped, StartPending, StopPending, PausePending,
	// Paused or ContinuePending.
	State string `json:"state"`
	// StartType is Automatic, AutomaticDelayed, Manual, Disabled, Boot or System.
	StartType string `json:"startType,omitempty"`
	PID       uint32 `json:"pid,omitempty"`
	// StartedAt is when its process was started, by the clock of the host. Nil: it does not run, or that is not known.
	StartedAt *time.Time `json:"startedAt,omitempty"`
	// ExitCode is the Win32 exit code of the last run; 1067 is a crash.
	ExitCode uint32 `json:"exitCode,omitempty"`
	// Path is the command line that starts it. It may carry file names but no
	// secrets of ours.
	Path         string   `json:"path,omitempty"`
	Account      string   `json:"account,omitempty"`
	Dependencies []string `json:"dependencies,omitempty"`
}

// Where DeviceLessNICDisabled is in the registry, below HKEY_LOCAL_MACHINE: where the agent reads it is
// where people are told to set it.
const (
	DeviceLessNICKey   = `SYSTEM\CurrentControlSet\Services\hns\State`
	DeviceLessNICValue = "DeviceLessNicDisabled"
)

// NetworkFacts are the adapters, listeners and settings of interest.
type NetworkFacts struct {
	Interfaces []Interface `json:"interfaces,omitempty"`
	// Listening are the TCP listeners on PortsOfInterest of package agent.
	Listening []Listener `json:"listening,omitempty"`
	// DeviceLessNICDisabled is the setting of the Host Networking Service that
	// a host with a static address needs before Windows Server 2022 ([DeviceLessNICValue]
	// of the registry key [DeviceLessNICKey]). Nil when it is not set.
	DeviceLessNICDisabled *bool `json:"deviceLessNICDisabled,omitempty"`
	// HNSNetworks are the networks of the Host Networking Service, to which pods are
	// attached. Only "inspect" collects them.
	HNSNetworks []HNSNetwork `json:"hnsNetworks,omitempty"`
}

// HNSNetwork is a network of the Host Networking Service.
type HNSNetwork struct {
	Name string `json:"name"`
	// Type is Overlay, L2Bridge, NAT and so on.
	Type string `json:"type,omitempty"`
	// Subnets are in CIDR notation.
	Subnets []string `json:"subnets,omitempty"`
}

// Certificate is a certificate in a file. The file may hold the key too, which is never read
// out of it.
type Certificate struct {
	Path      string    `json:"path"`
	Subject   string    `json:"subject,omitempty"`
	Issuer    string    `json:"issuer,omitempty"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
}

// LoggedError is an error that somebody on the host has logged.
type LoggedError struct {
	// Time is when; zero when the log does not say.
	Time time.Time `json:"time,omitzero"`
	// Source is a service, or channel and provider of the event log: "System/disk".
	Source string `json:"source"`
	// Message may be cut short, which an ellipsis at its end shows.
	Message string `json:"message"`
}

// Interface is a network adapter.
type Interface struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
	MAC   string `json:"mac,omitempty"`
	MTU   int    `json:"mtu,omitempty"`
	Up    bool   `json:"up"`
	// Loopback adapters are listed too, as a missing one is a finding.
	Loopback bool `json:"loopback,omitempty"`
	// DHCP says whether the IPv4 address comes from a DHCP server; nil when
	// that is not known.
	DHCP *bool `json:"dhcp,omitempty"`
	// Addresses are in CIDR notation.
	Addresses []string `json:"addresses,omitempty"`
	// Gateways and DNSServers are plain addresses.
	Gateways   []string `json:"gateways,omitempty"`
	DNSServers []string `json:"dnsServers,omitempty"`
}

// Listener is a listening TCP port and its process.
type Listener struct {
	Port    int    `json:"port"`
	Address string `json:"address"`
	PID     uint32 `json:"pid,omitempty"`
}

// OpenSSHFacts are the settings of Win32-OpenSSH that decide how a command is run.
type OpenSSHFacts struct {
	// DefaultShell is empty for the built-in default, cmd.exe.
	DefaultShell              string `json:"defaultShell,omitempty"`
	DefaultShellCommandOption string `json:"defaultShellCommandOption,omitempty"`
	// Server is what its service sshd looks at when it starts. Nil: the host has no such service, or that of another SSH server; agents of
	// earlier releases do not say it either.
	Server *SSHServer `json:"server,omitempty"`
}

// SSHServer is what decides whether sshd of Win32-OpenSSH starts.
type SSHServer struct {
	// Version is that of its file, four numbers, "9.5.2.1".
	Version string `json:"version,omitempty"`
	// EndsOverFolders: it ends when it starts as a service while others than SYSTEM and Administrators own or may write one of the
	// folders, see [EndsOverFolders] of package facts.
	EndsOverFolders bool `json:"endsOverFolders,omitempty"`
	// Folder is the access to %ProgramData%\ssh, Logs that to its folder logs. Nil: there is none, and it makes it itself.
	Folder *FileAccess `json:"folder,omitempty"`
	Logs   *FileAccess `json:"logs,omitempty"`
	// HostKeys are the accesses to the files of host keys that it reads by default and that exist, by their names, "ssh_host_rsa_key".
	// Empty: there are none, or it is told to read others.
	HostKeys map[string]FileAccess `json:"hostKeys,omitempty"`
}

// FileAccess is who owns a file or a folder, and what others than SYSTEM and the group Administrators may do with it. Accounts are SIDs.
type FileAccess struct {
	Owner string `json:"owner"`
	// Unrestricted: it has no access list, so that everybody may do everything.
	Unrestricted bool `json:"unrestricted,omitempty"`
	// Allowed are the entries of its access list that allow something, without those of SYSTEM and Administrators. They count also if
	// they are only for what is made in a folder.
	Allowed []AllowedAccess `json:"allowed,omitempty"`
}

// AllowedAccess is what an account may do with a file or a folder.
type AllowedAccess struct {
	Account string `json:"account"`
	// Rights are an ACCESS_MASK of Windows.
	Rights uint32 `json:"rights"`
}

// FactError is a group of facts that could not be read.
type FactError struct {
	// Area is the JSON name of the group, such as "services" or "services/kubelet".
	Area    string `json:"area"`
	Message string `json:"message"`
}

// AddError notes that an area could not be read.
func (f *Facts) AddError(area string, err error) {
	f.Errors = append(f.Errors, FactError{Area: area, Message: err.Error()})
}

// Collect runs one group of facts and notes its error or its panic. A group
// walks structures of the operating system, and even a mistake in one must
// not hide the other facts of a broken host.
func (f *Facts) Collect(area string, group func() error) {
	defer func() {
		if r := recover(); r != nil {
			f.AddError(area, fmt.Errorf("panic: %v", r))
		}
	}()
	if err := group(); err != nil {
		f.AddError(area, err)
	}
}
