// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceInspection is what a host reports about itself at the moment of the
// request. It is read from the subresource inspect and stored nowhere.
type WindowsInstanceInspection struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata, with the name of the instance.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// When the host was inspected, by the clock of the server.
	Time metav1.Time `json:"time"`
	// Time of the host minus time of the server, accurate to the duration of the request.
	// Certificates and tokens need it to be small.
	ClockSkew metav1.Duration `json:"clockSkew"`
	// Name that the host has for its time zone.
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// This project's program on the host.
	// +optional
	Agent AgentInspection `json:"agent,omitempty"`
	// What the host was configured with.
	// +optional
	Configuration ConfigurationInspection `json:"configuration,omitempty"`
	// The operating system.
	// +optional
	System SystemInspection `json:"system,omitempty"`
	// When the host was started, and how long it has been running.
	// +optional
	Boot BootInspection `json:"boot,omitempty"`
	// Whether Windows waits for a restart, and why.
	// +optional
	PendingReboot RebootInspection `json:"pendingReboot,omitempty"`
	// Updates of Windows that wait to be installed, as the service of the host found at its last search. Empty: it has
	// not searched yet, for example because the host is not configured.
	// +optional
	WindowsUpdates *WindowsUpdatesInspection `json:"windowsUpdates,omitempty"`
	// Number of logical processors.
	// +optional
	CPUs int32 `json:"cpus,omitempty"`
	// Physical memory.
	// +optional
	Memory MemoryInspection `json:"memory,omitempty"`
	// Local volumes, the system drive first.
	// +optional
	// +listType=atomic
	Disks []DiskInspection `json:"disks,omitempty"`
	// The services that a node has, and those that it depends on.
	// +optional
	// +listType=map
	// +listMapKey=name
	Services []ServiceInspection `json:"services,omitempty"`
	// Adapters, listeners and networks.
	// +optional
	Network NetworkInspection `json:"network,omitempty"`
	// Certificates of the kubelet and of the other programs of the node.
	// +optional
	// +listType=atomic
	Certificates []CertificateInspection `json:"certificates,omitempty"`
	// The newest errors of the event log and of the logs of services, newest first.
	// +optional
	// +listType=atomic
	RecentErrors []ErrorInspection `json:"recentErrors,omitempty"`
	// What could not be found out, and why.
	// +optional
	// +listType=atomic
	Unknown []UnknownInspection `json:"unknown,omitempty"`
}

// AgentInspection is this project's program on a host.
type AgentInspection struct {
	// Version for people.
	// +optional
	Version string `json:"version,omitempty"`
	// SHA-256 of its file in hex.
	// +optional
	SHA256 string `json:"sha256,omitempty"`
	// User that it runs as.
	// +optional
	User string `json:"user,omitempty"`
	// Whether that user is an administrator with all of their rights.
	// +optional
	Elevated bool `json:"elevated,omitempty"`
}

// ConfigurationInspection describes what a host was configured with, and what others changed since.
type ConfigurationInspection struct {
	// Revision that the host was last configured with completely. Empty: none.
	// +optional
	AppliedRevision string `json:"appliedRevision,omitempty"`
	// Revision that the host is being configured with, or was incompletely.
	// +optional
	ApplyingRevision string `json:"applyingRevision,omitempty"`
	// What others changed last on the host. Empty: nothing since it was configured.
	// +optional
	Drift *DriftInspection `json:"drift,omitempty"`
}

// DriftInspection is what others changed on a host since it was configured.
type DriftInspection struct {
	// When it was found.
	Time metav1.Time `json:"time"`
	// What was repaired at once.
	// +optional
	// +listType=atomic
	Repaired []string `json:"repaired,omitempty"`
	// What was left, as it costs a drain or a restart of the host, or needs a file that
	// has to be sent, was changed again each time that it was repaired, or could not be repaired: reconfigure the host to
	// repair it.
	// +optional
	// +listType=atomic
	Left []string `json:"left,omitempty"`
	// Why something could not be repaired.
	// +optional
	Message string `json:"message,omitempty"`
}

// SystemInspection is an operating system.
type SystemInspection struct {
	// Product name, for example Windows Server 2022 Datacenter.
	// +optional
	Product string `json:"product,omitempty"`
	// Edition, for example ServerDatacenter.
	// +optional
	Edition string `json:"edition,omitempty"`
	// Server (with desktop), Server Core or Client.
	// +optional
	InstallationType string `json:"installationType,omitempty"`
	// Build with its update revision (UBR), for example 10.0.20348.2700.
	// +optional
	Build string `json:"build,omitempty"`
	// Processor architecture, for example amd64.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// Host name.
	// +optional
	Hostname string `json:"hostname,omitempty"`
	// Fully qualified domain name.
	// +optional
	FQDN string `json:"fqdn,omitempty"`
	// Host name from the next restart on. Empty: it stays.
	// +optional
	PendingHostname string `json:"pendingHostname,omitempty"`
}

// BootInspection describes the current boot of a host.
type BootInspection struct {
	// When the host was started.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// For how long it has been running.
	// +optional
	Uptime metav1.Duration `json:"uptime,omitempty"`
	// Identifies the boot: it differs after each restart.
	// +optional
	ID string `json:"id,omitempty"`
}

// RebootInspection describes whether Windows waits for a restart.
type RebootInspection struct {
	// Whether it does.
	Pending bool `json:"pending"`
	// Why.
	// +optional
	// +listType=atomic
	Reasons []string `json:"reasons,omitempty"`
}

// WindowsUpdatesInspection describes the updates of Windows that wait to be installed.
type WindowsUpdatesInspection struct {
	// When the host last searched for updates, by its clock. Empty: no search has succeeded.
	// +optional
	SearchedAt *metav1.Time `json:"searchedAt,omitempty"`
	// How many updates wait, those for security included.
	Pending int32 `json:"pending"`
	// How many security updates wait.
	Security int32 `json:"security"`
	// The updates, those for security first, at most 64.
	// +optional
	// +listType=atomic
	Updates []UpdateInspection `json:"updates,omitempty"`
	// Why the last search failed. Empty: it did not.
	// +optional
	Message string `json:"message,omitempty"`
}

// UpdateInspection is an update of Windows that waits to be installed.
type UpdateInspection struct {
	// Name of the update.
	Title string `json:"title"`
	// Articles about it, for example KB5044281.
	// +optional
	// +listType=atomic
	Articles []string `json:"articles,omitempty"`
	// Whether it is a security update.
	// +optional
	Security bool `json:"security,omitempty"`
	// How bad the weaknesses are that it fixes, as Microsoft rates them, for example Critical. Empty: not rated.
	// +optional
	Severity string `json:"severity,omitempty"`
	// Whether its files are on the host.
	// +optional
	Downloaded bool `json:"downloaded,omitempty"`
	// Why it could not be installed when that was last tried, with the code of Windows. Empty: it was not tried yet.
	// +optional
	Failure string `json:"failure,omitempty"`
}

// MemoryInspection is physical memory.
type MemoryInspection struct {
	// All of it.
	// +optional
	Total resource.Quantity `json:"total,omitempty"`
	// What programs may still get.
	// +optional
	Available resource.Quantity `json:"available,omitempty"`
}

// DiskInspection is a local volume.
type DiskInspection struct {
	// Where it is, for example C:\.
	Path string `json:"path"`
	// Whether Windows is on it.
	// +optional
	System bool `json:"system,omitempty"`
	// File system, for example NTFS.
	// +optional
	FileSystem string `json:"fileSystem,omitempty"`
	// Its size.
	Total resource.Quantity `json:"total"`
	// What is free on it.
	Free resource.Quantity `json:"free"`
}

// ServiceInspection is a service of Windows.
type ServiceInspection struct {
	// Name of the service.
	Name string `json:"name"`
	// Running, Stopped, StartPending, StopPending, Paused and so on.
	State string `json:"state"`
	// Automatic, AutomaticDelayed, Manual, Disabled, Boot or System.
	// +optional
	StartType string `json:"startType,omitempty"`
	// ID of its process. 0: there is none.
	// +optional
	PID int64 `json:"pid,omitempty"`
	// Exit code of its last run as Windows has it; 1067 is a crash.
	// +optional
	ExitCode int64 `json:"exitCode,omitempty"`
	// Command line that starts it.
	// +optional
	Path string `json:"path,omitempty"`
}

// NetworkInspection is the network of a host.
type NetworkInspection struct {
	// The adapters.
	// +optional
	// +listType=atomic
	Interfaces []InterfaceInspection `json:"interfaces,omitempty"`
	// Who listens on the ports that a node uses.
	// +optional
	// +listType=atomic
	Listeners []ListenerInspection `json:"listeners,omitempty"`
	// Networks of the Host Networking Service, which pods are attached to.
	// +optional
	// +listType=atomic
	HNSNetworks []HNSNetworkInspection `json:"hnsNetworks,omitempty"`
}

// InterfaceInspection is a network adapter.
type InterfaceInspection struct {
	// Name of the adapter.
	Name string `json:"name"`
	// Whether it is connected.
	Up bool `json:"up"`
	// Hardware address.
	// +optional
	MAC string `json:"mac,omitempty"`
	// Largest packet in bytes.
	// +optional
	MTU int32 `json:"mtu,omitempty"`
	// Addresses with the lengths of their prefixes.
	// +optional
	// +listType=atomic
	Addresses []string `json:"addresses,omitempty"`
	// Default gateways.
	// +optional
	// +listType=atomic
	Gateways []string `json:"gateways,omitempty"`
	// Name servers.
	// +optional
	// +listType=atomic
	DNSServers []string `json:"dnsServers,omitempty"`
}

// ListenerInspection is a TCP port that a process listens on.
type ListenerInspection struct {
	// The port.
	Port int32 `json:"port"`
	// Address that it listens on.
	// +optional
	Address string `json:"address,omitempty"`
	// ID of the process.
	// +optional
	PID int64 `json:"pid,omitempty"`
}

// HNSNetworkInspection is a network of the Host Networking Service.
type HNSNetworkInspection struct {
	// Name of the network.
	Name string `json:"name"`
	// Type, for example Overlay or L2Bridge.
	// +optional
	Type string `json:"type,omitempty"`
	// Address ranges.
	// +optional
	// +listType=atomic
	Subnets []string `json:"subnets,omitempty"`
}

// CertificateInspection is a certificate on a host.
type CertificateInspection struct {
	// Where it is.
	Path string `json:"path"`
	// Subject of the certificate.
	// +optional
	Subject string `json:"subject,omitempty"`
	// Who signed it.
	// +optional
	Issuer string `json:"issuer,omitempty"`
	// From when on it is valid.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
	// Until when it is valid.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
}

// ErrorInspection is an error that a host has logged.
type ErrorInspection struct {
	// When.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// Who: a service, or channel and provider of the event log.
	Source string `json:"source"`
	// What.
	Message string `json:"message"`
}

// UnknownInspection is something that could not be found out.
type UnknownInspection struct {
	// What.
	Area string `json:"area"`
	// Why.
	Message string `json:"message"`
}
