// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package wineproto is what the tests on Linux and the SSH service inside a Wine host
// agree upon: files in one directory that both see. There is no other channel between
// them.
package wineproto

// Dir is the directory as the Wine host sees it; Rel is the same below the host's drive
// C: as Linux sees it.
const (
	Dir = `C:\winsshd`
	Rel = "winsshd"
)

// ServiceName is the Windows service, named as Win32-OpenSSH's.
const ServiceName = "sshd"

// Files in Dir. The tests write the first four, replacing them by rename; the service
// reads them anew each time they matter. The service writes the others.
const (
	// ConfigFile is a Config as JSON. It is read once, at start.
	ConfigFile = "config.json"
	// FaultFile is a fault.Fault as JSON. No file: a healthy host.
	FaultFile = "fault.json"
	// KeysFile lists the keys that may log in, in the format of authorized_keys.
	KeysFile = "authorized_keys"
	// HostKeyFile is the private host key in OpenSSH's format.
	HostKeyFile = "host_key"
	// AddressFile is the TCP address that the service listens on, written when it does.
	AddressFile = "address"
	// CommandsFile has one JSON string per line: the command lines that were asked for.
	CommandsFile = "commands.ndjson"
	// RunningFile is the number of commands and shells that run.
	RunningFile = "running"
	// LogFile is the service's own log.
	LogFile = "log.txt"
	// ShutdownFile appears when a program of the host asked for a shutdown by
	// InitiateSystemShutdownEx; see shim/bcryptprimitives.c, which spells the name out. Its
	// content is one of the two below.
	ShutdownFile = "shutdown"
)

// What is in ShutdownFile.
const (
	Restart = "restart"
	Off     = "off"
)

// Config is what the service must know to start.
type Config struct {
	// Listen is the IP address to listen on; the port is any free one.
	Listen string `json:"listen"`
	// User is the one account that may log in.
	User string `json:"user"`
	// Password logs User in as well. Empty: password authentication is not offered.
	Password string `json:"password,omitempty"`
}
