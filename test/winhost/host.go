// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/test/winhost/fault"
)

// Names of the tiers.
const (
	TierInProcess = "inprocess"
	TierOpenSSH   = "openssh"
	TierWine      = "wine"
)

// Tiers lists the tiers, cheapest first.
func Tiers() []string { return []string{TierInProcess, TierOpenSSH, TierWine} }

// Fault is what is wrong with a host; the zero value is a healthy one.
type Fault = fault.Fault

// ErrCannotExpress is wrapped by the error of a method that the host's tier has no means
// to carry out.
var ErrCannotExpress = errors.New("this tier cannot express that")

// Host is one stand-in. Its methods may be called concurrently, but for Close, which ends
// everything and must be the last.
type Host interface {
	// Name is the host's computer name when it was made.
	Name() string
	// Tier is TierInProcess, TierOpenSSH or TierWine.
	Tier() string
	// Address is a loopback IP address, or that in the host's own network; Port is the TCP
	// port of the SSH server and User the account to log in with. They stay the same for the
	// host's whole life.
	Address() string
	Port() int
	User() string

	// HostKey is the public host key that the SSH server presents.
	HostKey() ssh.PublicKey
	// RotateHostKey replaces the host key, as re-imaging the host would. Connections that
	// are open stay open.
	RotateHostKey() error
	// AuthorizeKey lets one more key log in.
	AuthorizeKey(key ssh.PublicKey) error
	// SetAuthorizedKeys replaces all the keys that may log in.
	SetAuthorizedKeys(keys ...ssh.PublicKey) error

	// LogDir is the directory of this machine that the host knows as C:\var\log. Tests
	// write and rotate log files in it.
	LogDir() string
	// LocalPath is where a file of the host is on this machine, given its absolute path on
	// the host, for example C:\ProgramData\x.
	LocalPath(hostPath string) (string, error)

	// SetFault makes the host fail as told from now on; Fault{} makes it healthy again.
	// The error wraps ErrCannotExpress, and nothing changes, if the tier lacks the means.
	SetFault(f Fault) error

	// PowerOff takes the power away: every process and connection of the host ends at
	// once, and its port is closed. It does nothing on a host that is off.
	PowerOff() error
	// PowerOn boots the host and returns when it accepts SSH connections. It does nothing
	// on a host that is on.
	PowerOn() error
	// Reboot shuts the host down in good order and boots it.
	Reboot() error

	// Restarts is how often the host went down because a program of its own asked for a
	// restart, as the agent does. Reboot and power are not counted.
	Restarts() int
	// SetRestart says what such a request leads to from now on. One that was ignored is
	// not made up for: it is like a Windows that never gets to the end of its shutdown.
	SetRestart(o RestartOptions)

	// Commands lists the command lines that clients asked the host to run, oldest first,
	// those included that a fault kept from running where the tier can see them.
	Commands() []string
	// Running is how many of the commands and shells that clients asked for still run; on
	// TierOpenSSH it counts their processes. A host that is off runs none.
	Running() int
	// Connections is how many TCP connections to the SSH port are open now.
	Connections() int
	// Received is how many bytes clients have sent to the SSH port so far, as they are on
	// the wire.
	Received() int64

	// Close switches the host off, ends everything it started, and removes its files.
	Close() error
}

// Options say what a host is like. The zero value is a healthy in-process host that nobody
// can log in to.
type Options struct {
	// Tier is one of the tiers. Empty: TierInProcess.
	Tier string
	// Name is the computer name: at most 15 letters, digits and hyphens. Empty: one that
	// is unique in this process.
	Name string
	// Address is an IPv4 loopback address. Empty: the next of 127.0.2.1, 127.0.2.2, …
	// that this process has not used.
	Address string
	// Network gives the host a network of its own, in which it has one address besides
	// 127.0.0.1, and a default route; Address is not used then. This machine is [Gateway] to
	// it, and [NewRelay] lets it reach servers of this machine. TierWine only: see
	// [NetworkAvailable].
	Network bool
	// Port is the SSH port. Zero: any free one.
	Port int
	// User is the administrator that logs in. Empty: Administrator. TierInProcess only.
	User string
	// Metadata is what the cloud says of the host, if it is in one. A host of TierWine needs a Network for it.
	Metadata Metadata
	// AuthorizedKeys may log in.
	AuthorizedKeys []ssh.PublicKey
	// UserAuthorities sign certificates of users that may log in. TierOpenSSH only.
	UserAuthorities []ssh.PublicKey
	// Password may log in, too. Empty: password authentication is not offered. Not on
	// TierOpenSSH, whose passwords are those of this machine.
	Password string
	// Dir keeps the host's files and must not exist or be empty; it is not removed by
	// Close. Empty: a temporary directory, which is.
	Dir string
	// HostKey is what the host proves with who it is. Nil: a new one. TierInProcess only.
	HostKey ssh.Signer
	// Restart is what a request for a restart leads to.
	Restart RestartOptions
	// Logf takes the host's own log. Nil: nowhere.
	Logf func(format string, args ...any)

	// InProcess is what only TierInProcess can do.
	InProcess InProcessOptions
}

// computerName is what NetBIOS allows and DNS, too.
var computerName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,13}[A-Za-z0-9])?$`)

// Start makes a host and boots it. It returns when the host accepts SSH connections.
// ctx bounds the start only; Close ends the host.
func Start(ctx context.Context, o Options) (Host, error) {
	if o.Tier == "" {
		o.Tier = TierInProcess
	}
	n := hostNumber.Add(1)
	if o.Name == "" {
		o.Name = fmt.Sprintf("win-%d", n)
	}
	if !computerName.MatchString(o.Name) {
		return nil, fmt.Errorf("winhost: %q is no computer name", o.Name)
	}
	if o.Network && o.Tier != TierWine {
		return nil, fmt.Errorf("winhost: starting %s: a network of its own: %w", o.Name, ErrCannotExpress)
	}
	if o.HostKey != nil && o.Tier != TierInProcess {
		return nil, fmt.Errorf("winhost: starting %s: a host key that is given: %w", o.Name, ErrCannotExpress)
	}
	if len(o.UserAuthorities) > 0 && o.Tier != TierOpenSSH {
		return nil, fmt.Errorf("winhost: starting %s: certificates of users: %w", o.Name, ErrCannotExpress)
	}
	if o.User != "" && o.Tier != TierInProcess {
		return nil, fmt.Errorf("winhost: starting %s: another administrator: %w", o.Name, ErrCannotExpress)
	}
	if o.Metadata.Cloud != "" && o.Tier != TierInProcess && !o.Network {
		return nil, fmt.Errorf("winhost: starting %s: metadata without a network of its own: %w", o.Name, ErrCannotExpress)
	}
	if o.Address == "" {
		o.Address = addressOf(n)
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	var (
		h   Host
		err error
	)
	switch o.Tier {
	case TierInProcess:
		h, err = startInProcess(o)
	case TierOpenSSH:
		h, err = startOpenSSH(ctx, o)
	case TierWine:
		h, err = startWine(ctx, o)
	default:
		err = fmt.Errorf("unknown tier %q", o.Tier)
	}
	if err != nil {
		return nil, fmt.Errorf("winhost: starting %s: %w", o.Name, err)
	}
	return h, nil
}

// Available says why hosts of a tier cannot be started on this machine, precisely enough
// to put it right; nil if they can.
func Available(tier string) error {
	switch tier {
	case TierInProcess:
		return nil
	case TierOpenSSH:
		return OpenSSHAvailable()
	case TierWine:
		return WineAvailable()
	default:
		return fmt.Errorf("unknown tier %q", tier)
	}
}
