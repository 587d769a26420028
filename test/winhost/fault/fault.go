// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package fault describes what can be wrong with a stand-in for a Windows host, from a
// closed port to a full disk. It is plain data: it travels as JSON to the SSH server that
// runs inside a Wine host, and it must not import anything that does not build for Windows.
package fault

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Stage names the point of an SSH connection's life at which a fault strikes.
type Stage string

const (
	// StageAccept is right after the TCP connection is accepted, before any byte is sent.
	StageAccept Stage = "accept"
	// StageBanner is after the server's identification line.
	StageBanner Stage = "banner"
	// StageKex is after the server's first key exchange packet: both sides are in the
	// middle of the handshake.
	StageKex Stage = "kex"
	// StageAuth is when the client asks to authenticate.
	StageAuth Stage = "auth"
	// StageSession is when an authenticated client opens a session channel.
	StageSession Stage = "session"
	// StageExec is when a session asks for a command to be run.
	StageExec Stage = "exec"
)

// Stages lists every stage in the order in which a connection passes them.
func Stages() []Stage {
	return []Stage{StageAccept, StageBanner, StageKex, StageAuth, StageSession, StageExec}
}

// Fault is what is wrong with a host. The zero value is a healthy host. A fault takes
// effect for connections, sessions and commands that start after it was set; Freeze also
// stops what is already open.
type Fault struct {
	// RefuseTCP closes the port: connecting fails with "connection refused".
	RefuseTCP bool `json:"refuseTCP,omitempty"`
	// HangAtAccept is short for HangAt: StageAccept: TCP connects, then silence.
	HangAtAccept bool `json:"hangAtAccept,omitempty"`
	// SlowBanner delays the server's identification line by this long.
	SlowBanner time.Duration `json:"slowBanner,omitempty"`
	// GarbageBanner answers as a web server would, then closes the connection.
	GarbageBanner bool `json:"garbageBanner,omitempty"`
	// ResetAt resets the TCP connection (RST, not FIN) at a stage. Empty: never.
	ResetAt Stage `json:"resetAt,omitempty"`
	// HangAt goes silent for good at a stage, with the TCP connection open. Empty: never.
	HangAt Stage `json:"hangAt,omitempty"`
	// Freeze pulls the network cable: no connection, old or new, moves a byte until the
	// fault is taken away, and nobody is told.
	Freeze bool `json:"freeze,omitempty"`
	// Latency is added to every packet in each direction, so a round trip takes twice as
	// long more. It does not limit throughput.
	Latency time.Duration `json:"latency,omitempty"`
	// CutAfterBytes resets a connection after it moved this many bytes, counting both
	// directions. Zero: never.
	CutAfterBytes int64 `json:"cutAfterBytes,omitempty"`

	// DenyAuth refuses every credential.
	DenyAuth bool `json:"denyAuth,omitempty"`
	// RefuseSessions refuses every session channel, as "MaxSessions 0" does in sshd.
	RefuseSessions bool `json:"refuseSessions,omitempty"`
	// MaxSessions is how many sessions one connection may hold. Zero: 10, as in OpenSSH.
	MaxSessions int `json:"maxSessions,omitempty"`

	// DiskFull fails every SFTP write with SSH_FX_FAILURE, which is all that SFTP version 3
	// can say about a disk without space. On an in-process host it also fails what the agent
	// writes.
	DiskFull bool `json:"diskFull,omitempty"`
	// SFTPReadOnly refuses everything over SFTP that would change the host.
	SFTPReadOnly bool `json:"sftpReadOnly,omitempty"`

	// HangStop is a service that, once it is asked to stop, is about to until its process
	// is terminated. Empty: none. Only on hosts whose services are made up.
	HangStop string `json:"hangStop,omitempty"`
	// FailStart is a service that cannot be started. Empty: none. As HangStop.
	FailStart string `json:"failStart,omitempty"`
	// FileInUse matches the paths of files that somebody has open, so that the agent can
	// neither replace nor remove them. Empty: none. As HangStop.
	FileInUse string `json:"fileInUse,omitempty"`

	// ExecHang accepts a command and then never runs it, answers it or ends it.
	ExecHang bool `json:"execHang,omitempty"`
	// ExecExit ends a command at once with this exit code, without running it. Zero: off.
	ExecExit int `json:"execExit,omitempty"`
	// ExecMatch limits ExecHang, ExecExit and the exec stage to command lines that match
	// this regular expression. Empty: every command.
	ExecMatch string `json:"execMatch,omitempty"`
}

// Validate reports every field that has no meaning.
func (f Fault) Validate() error {
	var errs []error
	for _, s := range []struct {
		field string
		stage Stage
	}{{"ResetAt", f.ResetAt}, {"HangAt", f.HangAt}} {
		if s.stage != "" && !slices.Contains(Stages(), s.stage) {
			errs = append(errs, fmt.Errorf("%s: unknown stage %q", s.field, s.stage))
		}
	}
	for _, d := range []struct {
		field string
		value int64
	}{
		{"SlowBanner", int64(f.SlowBanner)},
		{"Latency", int64(f.Latency)},
		{"CutAfterBytes", f.CutAfterBytes},
		{"MaxSessions", int64(f.MaxSessions)},
		{"ExecExit", int64(f.ExecExit)},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s: must not be negative", d.field))
		}
	}
	for _, pattern := range []struct{ field, value string }{{"ExecMatch", f.ExecMatch}, {"FileInUse", f.FileInUse}} {
		if _, err := regexp.Compile(pattern.value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", pattern.field, err))
		}
	}
	return errors.Join(errs...)
}

// Normalize returns f with its short forms written out.
func (f Fault) Normalize() Fault {
	if f.HangAtAccept {
		f.HangAt, f.HangAtAccept = StageAccept, false
	}
	return f
}

// MatchesExec reports whether the exec faults of f apply to a command line.
func (f Fault) MatchesExec(line string) bool {
	if f.ExecMatch == "" {
		return true
	}
	re, err := regexp.Compile(f.ExecMatch)
	return err == nil && re.MatchString(line)
}

// Holds reports whether somebody has a file of the host open.
func (f Fault) Holds(path string) bool {
	if f.FileInUse == "" {
		return false
	}
	re, err := regexp.Compile(f.FileInUse)
	return err == nil && re.MatchString(path)
}

// OnServices reports whether f needs a host whose services are made up.
func (f Fault) OnServices() bool { return f.HangStop+f.FailStart+f.FileInUse != "" }

// SessionLimit is how many sessions one connection may hold under f.
func (f Fault) SessionLimit() int {
	switch {
	case f.RefuseSessions:
		return 0
	case f.MaxSessions > 0:
		return f.MaxSessions
	default:
		// https://man.openbsd.org/sshd_config#MaxSessions
		return 10
	}
}
