// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

// hresultError is an HRESULT that has no code of Windows.
type hresultError uint32

// Error implements [error]. For codes of the servicing stack that people have to do something
// about, it says what; see learn.microsoft.com, "Windows Update error codes by component".
func (e hresultError) Error() string {
	text := fmt.Sprintf("HRESULT %#x", uint32(e))
	switch uint32(e) {
	case 0x800f081f, 0x800f0906, 0x800f0907, 0x800f0950, 0x800f0954:
		text += ": Windows does not have the files of the feature, and cannot get them from Windows Update. " +
			"Let the host reach it, or mount the installation medium of its version and run: " +
			`Install-WindowsFeature NAME -Source D:\sources\sxs`
	case 0x8024402c, 0x8024401c, 0x80244022, 0x80240438, 0x80072ee2, 0x80072ee7, 0x80072efd, 0x80072efe, 0x80072f8f:
		text += ": the host does not reach the server of its updates: let it reach Windows Update, or the WSUS server that its policy names, " +
			"and set the proxy that services need for that (netsh winhttp set proxy)"
	case 0x8024002e, 0x8024500c, 0x80240042:
		text += ": a policy of the host forbids Windows Update: see SOFTWARE\\Policies\\Microsoft\\Windows\\WindowsUpdate in its registry"
	case 0x80070422:
		text += ": the service wuauserv is disabled: sc.exe config wuauserv start= demand"
	case 0x80073712, 0x800f0831, 0x800736b3:
		text += ": Windows has lost files that its updates build upon: DISM.exe /Online /Cleanup-Image /RestoreHealth"
	case 0x800f0922:
		text += ": the system partition is full, or the update cannot start what it needs"
	case 0x80070070:
		text += ": the system drive is full"
	case 0x80240016:
		text += ": another installation runs, or Windows has to be restarted first"
	case 0x80240013:
		text += ": one of the updates has to be installed alone"
	}
	return text
}

// Is has [errors.Is] find [updates.ErrBusy] (WU_E_INSTALL_NOT_ALLOWED, WU_E_OPERATIONINPROGRESS) and [updates.ErrServiceStopped]
// (WU_E_SERVICE_STOP, RPC_S_CALL_FAILED).
func (e hresultError) Is(target error) bool {
	switch e {
	case 0x80240016, 0x80240009:
		return target == updates.ErrBusy
	case 0x8024001e, 0x800706be:
		return target == updates.ErrServiceStopped
	}
	return false
}

// callError is the error of a call that was to download or install updates. Windows may refuse that for what has nothing to do with them, of
// which notBegun knows the codes.
func callError(err error, notBegun func(hresultError) bool) error {
	if code, ok := errors.AsType[hresultError](err); ok && notBegun(code) {
		return fmt.Errorf("%w: %w", updates.ErrNotBegun, err)
	}
	return err
}

// notBegun says whether it is the code of a Windows Update Agent that has certainly done nothing about an update: another operation runs, or its service
// is not there (WU_E_INSTALL_NOT_ALLOWED, WU_E_OPERATIONINPROGRESS, WU_E_NO_SERVICE; RPC_S_SERVER_UNAVAILABLE, RPC_S_CALL_FAILED_DNE).
func (e hresultError) notBegun() bool {
	switch uint32(e) {
	case 0x80240016, 0x80240009, 0x80240001, 0x800706ba, 0x800706bf:
		return true
	}
	return false
}

// downloadNotBegun is notBegun for a download, which may also be repeated when the service stopped in the middle of it.
// An update that ends the service while it is installed has failed: the host would be drained for it again and again.
func (e hresultError) downloadNotBegun() bool {
	return e.notBegun() || e.Is(updates.ErrServiceStopped)
}
