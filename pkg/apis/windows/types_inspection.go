// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceInspection is what a host reports about itself at the moment of the
// request. It is read from the subresource inspect and stored nowhere.
type WindowsInstanceInspection struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Time           metav1.Time
	ClockSkew      metav1.Duration
	TimeZone       string
	Agent          AgentInspection
	Configuration  ConfigurationInspection
	System         SystemInspection
	Boot           BootInspection
	PendingReboot  RebootInspection
	WindowsUpdates *WindowsUpdatesInspection
	CPUs           int32
	Memory         MemoryInspection
	Disks          []DiskInspection
	Services       []ServiceInspection
	Network        NetworkInspection
	Certificates   []CertificateInspection
	RecentErrors   []ErrorInspection
	Unknown        []UnknownInspection
}

// AgentInspection is this project's program on a host.
type AgentInspection struct {
	Version  string
	SHA256   string
	User     string
	Elevated bool
}

// ConfigurationInspection describes what a host was configured with, and what others changed since.
type ConfigurationInspection struct {
	AppliedRevision  string
	ApplyingRevision string
	Drift            *DriftInspection
}

// DriftInspection is what others changed on a host since it was configured.
type DriftInspection struct {
	Time     metav1.Time
	Repaired []string
	Left     []string
	Message  string
}

// SystemInspection is an operating system.
type SystemInspection struct {
	Product          string
	Edition          string
	InstallationType string
	Build            string
	Architecture     string
	Hostname         string
	FQDN             string
	PendingHostname  string
}

// BootInspection describes the current boot of a host.
type BootInspection struct {
	Time   *metav1.Time
	Uptime metav1.Duration
	ID     string
}

// RebootInspection describes whether Windows waits for a restart.
type RebootInspection struct {
	Pending bool
	Reasons []string
}

// WindowsUpdatesInspection describes the updates of Windows that wait to be installed.
type WindowsUpdatesInspection struct {
	SearchedAt *metav1.Time
	Pending    int32
	Security   int32
	Updates    []UpdateInspection
	Message    string
}

// UpdateInspection is an update of Windows that waits to be installed.
type UpdateInspection struct {
	Title      string
	Articles   []string
	Security   bool
	Severity   string
	Downloaded bool
	Failure    string
}

// MemoryInspection is physical memory.
type MemoryInspection struct {
	Total     resource.Quantity
	Available resource.Quantity
}

// DiskInspection is a local volume.
type DiskInspection struct {
	Path       string
	System     bool
	FileSystem string
	Total      resource.Quantity
	Free       resource.Quantity
}

// ServiceInspection is a service of Windows.
type ServiceInspection struct {
	Name      string
	State     string
	StartType string
	PID       int64
	ExitCode  int64
	Path      string
}

// NetworkInspection is the network of a host.
type NetworkInspection struct {
	Interfaces  []InterfaceInspection
	Listeners   []ListenerInspection
	HNSNetworks []HNSNetworkInspection
}

// InterfaceInspection is a network adapter.
type InterfaceInspection struct {
	Name       string
	Up         bool
	MAC        string
	MTU        int32
	Addresses  []string
	Gateways   []string
	DNSServers []string
}

// ListenerInspection is a TCP port that a process listens on.
type ListenerInspection struct {
	Port    int32
	Address string
	PID     int64
}

// HNSNetworkInspection is a network of the Host Networking Service.
type HNSNetworkInspection struct {
	Name    string
	Type    string
	Subnets []string
}

// CertificateInspection is a certificate on a host.
type CertificateInspection struct {
	Path      string
	Subject   string
	Issuer    string
	NotBefore *metav1.Time
	NotAfter  *metav1.Time
}

// ErrorInspection is an error that a host has logged.
type ErrorInspection struct {
	Time    *metav1.Time
	Source  string
	Message string
}

// UnknownInspection is something that could not be found out.
type UnknownInspection struct {
	Area    string
	Message string
}
