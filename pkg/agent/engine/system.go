// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// System is a host as the engine sees it. Each method reads one thing or changes one
// thing. When a method returns, its change is on the disk, as far as the operating system can
// promise that. A change that was made already is no error.
//
// Paths are those of Windows, whatever the system is. What does not exist is an error
// that wraps [io/fs.ErrNotExist] where the method does not say otherwise.
type System interface {
	FileSystem
	LogFiles
	ServiceManager
	Processes
	MachineSettings

	// Boot is the identity of the current boot.
	Boot(ctx context.Context) (string, error)
	// MachineID tells the machine from others, also from those that were made from its disk. Empty: it cannot be
	// read.
	MachineID() string
	// Lock makes this process the only one that changes the host, until release is called
	// or the process ends. While another one is, the error is a [*LockedError].
	Lock(owner Owner) (release func() error, err error)
	// Value returns the value of a variable whose source is the host, except the address of an
	// endpoint. [ErrNotYet] is wrapped when there is none yet.
	Value(ctx context.Context, v config.Variable) (string, error)
	// Probe returns why a service is not healthy, or nil.
	Probe(ctx context.Context, h config.Health) error
}

// FileKind is what exists at a path.
type FileKind int

// Kinds of what exists at a path.
const (
	FileMissing FileKind = iota
	FileRegular
	FileDirectory
	// FileOther is a link or a device. The engine does not touch it.
	FileOther
)

// FileInfo describes what is at a path.
type FileInfo struct {
	Kind   FileKind
	Access config.Access
	// Size in bytes and Modified tell versions of a file apart.
	Size     int64
	Modified time.Time
}

// FileSystem are the files of a host.
type FileSystem interface {
	// Stat describes what is at path, without following links. A missing path is no error.
	Stat(path string) (FileInfo, error)
	Open(path string) (io.ReadCloser, error)
	// Names lists a directory, sorted.
	Names(directory string) ([]string, error)
	// WriteFile creates a file with the content, or replaces it as a whole: readers, and the
	// next boot, find the old or the new content. [ErrInUse] is wrapped when the file cannot be
	// replaced because a program runs from it or has it open.
	WriteFile(path string, content []byte, access config.Access) error
	// CopyFile is WriteFile with the content of another file, which may be large.
	CopyFile(from, to string, access config.Access) error
	// Rename moves a file to another path and atomically replaces what is there.
	// [ErrInUse] as in WriteFile.
	Rename(from, to string) error
	// SetAccess has what is in a directory follow, but for what has less access already.
	SetAccess(path string, access config.Access) error
	// MakeDirectory creates one directory in an existing one. One that exists gets the access.
	MakeDirectory(path string, access config.Access) error
	// Remove removes a file or an empty directory. A missing path is no error; a directory that
	// is not empty is an error that wraps [ErrNotEmpty]. [ErrInUse] as in WriteFile.
	Remove(path string) error
	// UnmountLayer unmounts a layer of containers that they have left mounted. One that is not mounted is no error.
	UnmountLayer(path string) error
	// RemoveLayer removes a directory that is a layer of containers, which no program may use any
	// more. After an error some of it may be left. Windows ends the process that asks for it while a layer is mounted that is based on
	// this one: see https://github.com/microsoft/hcsshim/issues/961.
	RemoveLayer(path string) error
	// RemoveAtBoot has a file, or a directory that is empty by then, removed when the host boots.
	RemoveAtBoot(path string) error
	// RemovedAtBoot returns the paths that are removed when the host boots.
	RemovedAtBoot() ([]string, error)
	// Volume returns the name of the volume of a path, which need not exist, and how many bytes
	// this process can write to it.
	Volume(path string) (name string, freeBytes int64, err error)
}

// ServiceState is the state of a service.
type ServiceState string

// States of services.
const (
	ServiceStopped      ServiceState = "Stopped"
	ServiceStartPending ServiceState = "StartPending"
	ServiceStopPending  ServiceState = "StopPending"
	ServiceRunning      ServiceState = "Running"
)

// Service is a service as it is on a host.
type Service struct {
	Settings config.ServiceSettings
	// Recovery is nil when no actions are set.
	Recovery *config.Recovery
	// RecoveryUnknown: the system does not keep recovery actions.
	RecoveryUnknown bool
	State           ServiceState
	// PID is the process that the service control manager knows. Zero: it does not run.
	PID int
	// ExitCode is that of the program. Zero while it runs.
	ExitCode uint32
}

// ServiceManager is the service control manager.
type ServiceManager interface {
	// Service returns nil when there is none.
	Service(name string) (*Service, error)
	CreateService(name string, settings config.ServiceSettings, recovery *config.Recovery) error
	ConfigureService(name string, settings config.ServiceSettings, recovery *config.Recovery) error
	// DeleteService deletes a service that is stopped. When it returns, the name is free.
	DeleteService(name string) error
	// StartService requests the start and returns before it is complete. [ErrNoAnswer] is wrapped when Windows gave the
	// program up, because it did not report to the service control manager in time.
	StartService(name string) error
	// StopService requests the stop and returns before it is complete. [ErrNeeded] is wrapped
	// while services that run depend on it; the error names them.
	StopService(name string) error
	// SetRecovery changes what Windows does when the program ends by itself, whether it runs
	// or not. Nil: nothing.
	SetRecovery(name string, recovery *config.Recovery) error
	// SetAutomatic has Windows start a service at each boot, and as recovery says when its program ends by itself, also
	// with an error. It changes nothing else, and may be called while the service runs.
	SetAutomatic(name string, recovery *config.Recovery) error
}

// Process is a process of a host.
type Process struct {
	// PID is the number of the process, and Parent that of the one that started it.
	PID, Parent int
	// Started is when it was started, in a unit of the system. It tells processes apart that had
	// one number after the other.
	Started int64
	// Path of its program.
	Path string
}

// Processes are the programs that run.
type Processes interface {
	// Processes returns all processes that can be inspected.
	Processes() ([]Process, error)
	// KillProcess terminates a process. One that has ended is no error.
	KillProcess(p Process) error
}

// FeatureState is the state of an optional feature.
type FeatureState string

// States of features.
const (
	FeatureDisabled FeatureState = "Disabled"
	FeatureEnabled  FeatureState = "Enabled"
	// FeaturePending features exist after the next boot.
	FeaturePending FeatureState = "EnablePending"
)

// MachineSettings are the other settings of a host.
type MachineSettings interface {
	// Hostname returns the current computer name, and the one from the next boot on. Usually
	// they are equal.
	Hostname() (current, next string, err error)
	SetHostname(name string) error

	Feature(ctx context.Context, name string) (FeatureState, error)
	// EnableFeature does not restart the host.
	EnableFeature(ctx context.Context, name string) error

	// Environment returns the variables of the machine.
	Environment() (map[string]string, error)
	// SetEnvironment sets a variable of the machine; nil removes it.
	SetEnvironment(name string, value *string) error

	// Certificates returns the fingerprints of the certificates in a store: the SHA-256 of their
	// DER in hexadecimal digits.
	Certificates(store string) ([]string, error)
	AddCertificate(store string, der []byte) error
	RemoveCertificate(store, fingerprint string) error

	// FirewallRule returns nil when there is no such rule.
	FirewallRule(name string) (*config.FirewallRule, error)
	SetFirewallRule(rule config.FirewallRule) error
	RemoveFirewallRule(name string) error

	// AntivirusExclusion reports whether the antivirus excludes a program.
	AntivirusExclusion(program string) (bool, error)
	SetAntivirusExclusion(program string, excluded bool) error

	// HNSNetwork reports whether the Host Networking Service has a network.
	HNSNetwork(ctx context.Context, name string) (bool, error)
	// HNSNetworks returns all networks of the Host Networking Service, which it may start.
	HNSNetworks(ctx context.Context) ([]api.HNSNetwork, error)
	RemoveHNSNetwork(ctx context.Context, name string) error
	// RemoveHNSPolicyLists removes the load balancers that refer to endpoints of a network: without the network nobody could remove them.
	RemoveHNSPolicyLists(ctx context.Context, network string) error
	// HNSEndpoint returns the address of an endpoint. [ErrNotYet] is wrapped when there is none.
	HNSEndpoint(ctx context.Context, name string) (address string, err error)
	// MakeHNSEndpoint creates an endpoint and attaches it to the host.
	MakeHNSEndpoint(ctx context.Context, e config.HNSEndpoint) error
	RemoveHNSEndpoint(ctx context.Context, name string) error
}

var (
	// ErrInUse means that a file cannot be replaced or removed while it is in use.
	ErrInUse = errors.New("the file is in use")
	// ErrNotEmpty means that a directory cannot be removed while something is in it.
	ErrNotEmpty = errors.New("the directory is not empty")
	// ErrNeeded means that a service cannot be stopped because others that run depend on it.
	ErrNeeded = errors.New("other services depend on it")
	// ErrNoAnswer means that a service that was started did not report to the service control manager in time.
	ErrNoAnswer = errors.New("its program did not report to Windows in time")
	// ErrNotYet means that a variable has no value yet.
	ErrNotYet = errors.New("there is no value yet")
)

// Owner is the process that changes a host.
type Owner struct {
	PID int `json:"pid"`
	// Command is the sub-command of the agent.
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

// LockedError means that another process changes the host.
type LockedError struct {
	// Owner is the zero value when the other process has not written it yet.
	Owner Owner
}

func (e *LockedError) Error() string {
	if e.Owner == (Owner{}) {
		return "another process changes this host"
	}
	return fmt.Sprintf("%q changes this host, process %d, since %s", e.Owner.Command, e.Owner.PID, e.Owner.Since.UTC().Format(time.RFC3339))
}
