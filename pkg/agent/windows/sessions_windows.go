// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

var (
	wtsapi32                        = windows.NewLazySystemDLL("wtsapi32.dll")
	procWTSQuerySessionInformationW = wtsapi32.NewProc("WTSQuerySessionInformationW")
)

// Kinds of information of wtsapi32.h.
const (
	wtsUserName   = 5
	wtsDomainName = 7
)

// sessions returns those in which somebody is logged on, other than the one of this process: that
// is the one of services.
func sessions() ([]api.Session, error) {
	var own uint32
	if err := windows.ProcessIdToSessionId(windows.GetCurrentProcessId(), &own); err != nil {
		return nil, fmt.Errorf("finding out the session of this process: %w", err)
	}
	var first *windows.WTS_SESSION_INFO
	var count uint32
	if err := windows.WTSEnumerateSessions(0, 0, 1, &first, &count); err != nil {
		return nil, fmt.Errorf("listing the sessions: %w", err)
	}
	defer windows.WTSFreeMemory(uintptr(unsafe.Pointer(first)))
	var list []api.Session
	for _, s := range unsafe.Slice(first, count) {
		user, err := sessionText(s.SessionID, wtsUserName)
		if err != nil || user == "" || s.SessionID == own { // one that has ended meanwhile, or nobody's
			continue
		}
		if domain, err := sessionText(s.SessionID, wtsDomainName); err == nil && domain != "" {
			user = domain + `\` + user
		}
		list = append(list, api.Session{ID: int(s.SessionID), User: user, Disconnected: s.State == windows.WTSDisconnected})
	}
	return list, nil
}

func sessionText(session uint32, kind uintptr) (string, error) {
	var text *uint16
	var size uint32
	if r, _, err := procWTSQuerySessionInformationW.Call(0, uintptr(session), kind, uintptr(unsafe.Pointer(&text)), uintptr(unsafe.Pointer(&size))); r == 0 {
		return "", fmt.Errorf("reading about session %d: %w", session, err)
	}
	defer windows.WTSFreeMemory(uintptr(unsafe.Pointer(text)))
	return windows.UTF16PtrToString(text), nil
}
