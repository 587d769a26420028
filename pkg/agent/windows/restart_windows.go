// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/facts"
)

// Boot tells boots apart by the time at which the kernel began, to 100 nanoseconds, as
// SystemTimeOfDayInformation of NtQuerySystemInformation has it. When the clock is set, the
// kernel moves BootTime along and keeps in BootTimeBias how far it has, so that their
// difference stays what the clock said at the start. It is what event tracing stamps the
// boot with, too.
//
// Not the value BootId that the prefetcher counts up in the registry: it goes back with
// the registry when that is restored, and nothing documents that it changes before
// an SSH server can be up.
func (h *Host) Boot(context.Context) (api.BootFacts, error) {
	// SYSTEM_TIMEOFDAY_INFORMATION, all of which Windows Server 2019 and newer fill in.
	var info struct {
		bootTime, currentTime, timeZoneBias windows.Filetime
		timeZoneID, _                       uint32
		bootTimeBias, sleepTimeBias         uint64
	}
	if err := windows.NtQuerySystemInformation(windows.SystemTimeOfDayInformation, unsafe.Pointer(&info), uint32(unsafe.Sizeof(info)), nil); err != nil {
		return api.BootFacts{}, fmt.Errorf("reading the boot time: %w", err)
	}
	up := windows.DurationSinceBoot()
	ticks := uint64(info.bootTime.HighDateTime)<<32 | uint64(info.bootTime.LowDateTime)
	return api.BootFacts{
		Time:          facts.BootTime(h.Now(), up),
		UptimeSeconds: int64(up.Seconds()),
		ID:            bootID(ticks - info.bootTimeBias),
	}, nil
}

// bootID writes a time of Windows, in units of 100 nanoseconds, in a way that people can read.
func bootID(ticks uint64) string {
	ft := windows.Filetime{LowDateTime: uint32(ticks), HighDateTime: uint32(ticks >> 32)}
	return time.Unix(0, ft.Nanoseconds()).UTC().Format("2006-01-02T15:04:05.0000000Z")
}

// maxShutdownMessage is how many characters InitiateSystemShutdownEx takes: MAX_REASON_COMMENT_LEN
// of winreg.h, which counts the terminating one.
const maxShutdownMessage = 512 - 1

// Restart has Windows stop its services and restart. The event log records the account and the
// reason, as event 1074 of source User32.
func (h *Host) Restart(_ context.Context, r api.RestartRequest) error {
	if err := enablePrivilege("SeShutdownPrivilege"); err != nil {
		return err
	}
	message, err := windows.UTF16FromString(strings.ReplaceAll(r.Reason, "\x00", ""))
	if err != nil {
		return err
	}
	if len(message) > maxShutdownMessage+1 {
		message = append(message[:maxShutdownMessage], 0)
	}
	const reason = windows.SHTDN_REASON_MAJOR_OPERATINGSYSTEM | windows.SHTDN_REASON_MINOR_RECONFIG | windows.SHTDN_REASON_FLAG_PLANNED
	initiate := func(force bool) error {
		return initiateShutdown(time.Sleep, func() error {
			return windows.InitiateSystemShutdownEx(nil, &message[0], uint32(api.RestartNotice.Seconds()), force, true, reason)
		})
	}
	return restartWithSessions(r.Force, initiate, sessions)
}

// enablePrivilege enables a privilege that the token of this process holds, disabled, as
// those of administrators do. Without it, calls fail with ERROR_PRIVILEGE_NOT_HELD.
func enablePrivilege(name string) error {
	n, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	var token windows.Token
	if err := windows.OpenProcessToken(windows.CurrentProcess(), windows.TOKEN_ADJUST_PRIVILEGES|windows.TOKEN_QUERY, &token); err != nil {
		return fmt.Errorf("opening the token of the process: %w", err)
	}
	defer token.Close() //nolint:errcheck // nothing was written
	privileges := windows.Tokenprivileges{PrivilegeCount: 1}
	if err := windows.LookupPrivilegeValue(nil, n, &privileges.Privileges[0].Luid); err != nil {
		return fmt.Errorf("looking up %s: %w", name, err)
	}
	privileges.Privileges[0].Attributes = windows.SE_PRIVILEGE_ENABLED
	if err := windows.AdjustTokenPrivileges(token, false, &privileges, 0, nil, nil); err != nil {
		return fmt.Errorf("enabling %s: %w", name, err)
	}
	return nil
}
