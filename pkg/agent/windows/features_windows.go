// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// The DISM API, which is part of Windows Server since 2012; see learn.microsoft.com, "DISM
// API Reference". The command line tool of that name uses it too.
var (
	dismapi               = windows.NewLazySystemDLL("dismapi.dll")
	procDismInitialize    = dismapi.NewProc("DismInitialize")
	procDismShutdown      = dismapi.NewProc("DismShutdown")
	procDismOpenSession   = dismapi.NewProc("DismOpenSession")
	procDismCloseSession  = dismapi.NewProc("DismCloseSession")
	procDismFeatureInfo   = dismapi.NewProc("DismGetFeatureInfo")
	procDismEnableFeature = dismapi.NewProc("DismEnableFeature")
	procDismDelete        = dismapi.NewProc("DismDelete")
)

// Values of dismapi.h.
const (
	dismOnlineImage    = "DISM_{53BFAE52-B167-4E2F-A258-0A37B57FF845}"
	dismLogErrors      = 0
	dismPackageNone    = 0
	dismInstalled      = 4
	dismInstallPending = 5
)

// dismFeatureInfo begins as DismFeatureInfo does, which is packed.
type dismFeatureInfo struct {
	name  *uint16
	state int32
}

// dismCall calls a function that returns an HRESULT. A required restart is success.
//
//go:uintptrescapes
func dismCall(p *windows.LazyProc, args ...uintptr) error {
	r, _, _ := p.Call(args...)
	if err := hresult(r); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

// withDISM calls use with a session about the running system. DISM keeps its session in
// the thread's process; calls are made one after the other by one thread.
func withDISM(use func(session uintptr) error) (err error) {
	for _, p := range []*windows.LazyProc{procDismInitialize, procDismShutdown, procDismOpenSession, procDismCloseSession, procDismFeatureInfo, procDismEnableFeature, procDismDelete} {
		if err := p.Find(); err != nil {
			return fmt.Errorf("finding DISM: %w", err)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := dismCall(procDismInitialize, dismLogErrors, 0, 0); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dismCall(procDismShutdown)) }()
	image, err := windows.UTF16PtrFromString(dismOnlineImage)
	if err != nil {
		return err
	}
	var session uint32
	if err := dismCall(procDismOpenSession, uintptr(unsafe.Pointer(image)), 0, 0, uintptr(unsafe.Pointer(&session))); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dismCall(procDismCloseSession, uintptr(session))) }()
	return use(uintptr(session))
}

// Feature implements [engine.System].
func (s *windowsSystem) Feature(_ context.Context, name string) (state engine.FeatureState, err error) {
	n, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return "", err
	}
	err = withDISM(func(session uintptr) error {
		var info *dismFeatureInfo
		if err := dismCall(procDismFeatureInfo, session, uintptr(unsafe.Pointer(n)), 0, dismPackageNone, uintptr(unsafe.Pointer(&info))); err != nil {
			return err
		}
		switch info.state {
		case dismInstalled:
			state = engine.FeatureEnabled
		case dismInstallPending:
			state = engine.FeaturePending
		default:
			state = engine.FeatureDisabled
		}
		return dismCall(procDismDelete, uintptr(unsafe.Pointer(info)))
	})
	return state, err
}

// EnableFeature implements [engine.System]. It takes minutes, and cannot be interrupted.
func (s *windowsSystem) EnableFeature(_ context.Context, name string) error {
	n, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	return withDISM(func(session uintptr) error {
		const enableAll = 1 // also the features that it needs
		return dismCall(procDismEnableFeature, session, uintptr(unsafe.Pointer(n)), 0, dismPackageNone, 0, 0, 0, enableAll, 0, 0, 0)
	})
}
