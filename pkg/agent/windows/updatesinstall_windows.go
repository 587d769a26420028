// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

var (
	clsidUpdateCollection = windows.GUID{Data1: 0x13639463, Data2: 0x00db, Data3: 0x4646, Data4: [8]byte{0x80, 0x3d, 0x52, 0x80, 0x26, 0x14, 0x0d, 0x88}}
	iidUpdateCollection   = windows.GUID{Data1: 0x07f7438c, Data2: 0x7709, Data3: 0x4ca5, Data4: [8]byte{0xb5, 0x18, 0x91, 0x27, 0x92, 0x88, 0x13, 0x4e}}
	iidUpdateInstaller2   = windows.GUID{Data1: 0x3442d4fe, Data2: 0x224d, Data3: 0x4cee, Data4: [8]byte{0x98, 0xcf, 0x30, 0xe0, 0xc4, 0xd2, 0x29, 0xe6}}
)

// updateDownloader is IUpdateDownloader as far as Download.
type updateDownloader struct {
	iDispatch
	GetClientApplicationID, PutClientApplicationID uintptr
	GetIsForced, PutIsForced                       uintptr
	GetPriority, PutPriority                       uintptr
	GetUpdates, PutUpdates                         uintptr
	BeginDownload, Download                        uintptr
}

// downloadResult is IDownloadResult, and how IUpdateDownloadResult begins.
type downloadResult struct {
	iDispatch
	GetHResult, GetResultCode uintptr
}

// updateInstaller is IUpdateInstaller2.
type updateInstaller struct {
	iDispatch
	GetClientApplicationID, PutClientApplicationID         uintptr
	GetIsForced, PutIsForced                               uintptr
	GetParentHwnd, PutParentHwnd                           uintptr
	PutParentWindow, GetParentWindow                       uintptr
	GetUpdates, PutUpdates                                 uintptr
	BeginInstall, BeginUninstall, EndInstall, EndUninstall uintptr
	Install, RunWizard, GetIsBusy, Uninstall               uintptr
	GetAllowSourcePrompts, PutAllowSourcePrompts           uintptr
	GetRebootRequiredBeforeInstallation                    uintptr
	GetForceQuiet, PutForceQuiet                           uintptr
}

// installationResult is IInstallationResult, and without its last method IUpdateInstallationResult.
type installationResult struct {
	iDispatch
	GetHResult, GetRebootRequired, GetResultCode, GetUpdateResult uintptr
}

// installationBehavior is IInstallationBehavior as far as get_Impact.
type installationBehavior struct {
	iDispatch
	GetCanRequestUserInput, GetImpact uintptr
}

// impactExclusive is iiRequiresExclusiveHandling of InstallationImpact (wuapi.h).
const impactExclusive = 2

// Download implements [updates.Source]. It accepts the license of the update, without which Windows downloads nothing.
func (updateAgent) Download(_ context.Context, id updates.Identity) error {
	var refused error
	return withUpdates([]updates.Identity{id}, func(_ int, err error) { refused = err }, func(session *comObject[updateSession], list *comObject[collection], found []int) error {
		if len(found) == 0 {
			return cmp.Or(refused, updates.ErrNotOffered)
		}
		downloader, err := getObject[updateDownloader](session, session.methods.CreateUpdateDownloader)
		if err != nil {
			return fmt.Errorf("%w: creating a download: %w", updates.ErrNotBegun, err)
		}
		defer downloader.release()
		if err := comCall(unsafe.Pointer(downloader), downloader.methods.PutUpdates, uintptr(unsafe.Pointer(list))); err != nil {
			return fmt.Errorf("%w: naming the update: %w", updates.ErrNotBegun, updateError(err))
		}
		result, err := getObject[downloadResult](downloader, downloader.methods.Download)
		if err != nil {
			return callError(updateError(err), hresultError.downloadNotBegun)
		}
		defer result.release()
		return outcome(result, result.methods.GetResultCode, result.methods.GetHResult)
	})
}

// Install implements [updates.Source].
func (updateAgent) Install(ctx context.Context, ids []updates.Identity) ([]updates.Result, error) {
	results := make([]updates.Result, len(ids))
	for i := range results {
		results[i].Err = updates.ErrNotOffered
	}
	err := withUpdates(ids, func(at int, err error) { results[at].Err = err }, func(session *comObject[updateSession], list *comObject[collection], found []int) error {
		if len(found) == 0 {
			return nil
		}
		installer, err := newInstaller(session, list)
		if err != nil {
			return fmt.Errorf("%w: %w", updates.ErrNotBegun, err)
		}
		defer installer.release()
		var result *comObject[installationResult]
		install := func() (err error) {
			result, err = getObject[installationResult](installer, installer.methods.Install)
			return callError(updateError(err), hresultError.notBegun)
		}
		busy, restartFirst := isSet(installer, installer.methods.GetIsBusy), isSet(installer, installer.methods.GetRebootRequiredBeforeInstallation)
		if err := whenAllowed(ctx, busy, restartFirst, install); err != nil {
			return err
		}
		defer result.release()
		for n, at := range found {
			results[at] = resultOf(result, n)
		}
		return nil
	})
	return results, err
}

// isSet reads a property of an installer that is a VARIANT_BOOL.
func isSet(installer *comObject[updateInstaller], get uintptr) func() (bool, error) {
	return func() (bool, error) {
		value, err := installer.getInt(get)
		return int16(value) != 0, updateError(err)
	}
}

// newInstaller returns an installer of updates that asks nobody anything.
func newInstaller(session *comObject[updateSession], list *comObject[collection]) (*comObject[updateInstaller], error) {
	plain, err := getObject[iDispatch](session, session.methods.CreateUpdateInstaller)
	if err != nil {
		return nil, fmt.Errorf("creating an installation: %w", err)
	}
	defer plain.release()
	var installer *comObject[updateInstaller]
	if err := comCall(unsafe.Pointer(plain), plain.methods.QueryInterface, uintptr(unsafe.Pointer(&iidUpdateInstaller2)), uintptr(unsafe.Pointer(&installer))); err != nil {
		return nil, fmt.Errorf("creating an installation: %w", err)
	}
	err = errors.Join(
		comCall(unsafe.Pointer(installer), installer.methods.PutAllowSourcePrompts, 0),
		comCall(unsafe.Pointer(installer), installer.methods.PutForceQuiet, variantTrue),
		comCall(unsafe.Pointer(installer), installer.methods.PutUpdates, uintptr(unsafe.Pointer(list))),
	)
	if err != nil {
		installer.release()
		return nil, fmt.Errorf("preparing an installation: %w", updateError(err))
	}
	return installer, nil
}

// resultOf reads what became of an update of an installation.
func resultOf(all *comObject[installationResult], n int) updates.Result {
	var result *comObject[installationResult]
	if err := comCall(unsafe.Pointer(all), all.methods.GetUpdateResult, uintptr(n), uintptr(unsafe.Pointer(&result))); err != nil {
		return updates.Result{Err: fmt.Errorf("reading the result of an update: %w", updateError(err))}
	}
	defer result.release()
	reboot, err := result.getInt(result.methods.GetRebootRequired)
	if err != nil {
		return updates.Result{Err: fmt.Errorf("reading the result of an update: %w", updateError(err))}
	}
	return updates.Result{Err: outcome(result, result.methods.GetResultCode, result.methods.GetHResult), RebootRequired: int16(reboot) != 0}
}

// outcome is the error in a result, nil if it is a success.
func outcome[M any](result *comObject[M], getCode, getHResult uintptr) error {
	code, err := result.getInt(getCode)
	if err != nil {
		return fmt.Errorf("reading the result: %w", updateError(err))
	}
	if code == resultSucceeded || code == resultSucceededWithErrors {
		return nil
	}
	reason, err := result.getInt(getHResult)
	if err != nil {
		return fmt.Errorf("reading the result: %w", updateError(err))
	}
	if err := hresult(uintptr(uint32(reason))); err != nil {
		return updateError(err)
	}
	return fmt.Errorf("it ended with result code %d", code)
}

// withUpdates calls use with the updates of those identities that are offered, whose licenses are accepted, and says which ones these are,
// in their order. What is offered the host knows since its last search, so that the server is not asked once more for each update,
// nor after the drain. It tells refuse of an update whose license cannot be accepted, and leaves it out. [updates.ErrNotBegun] is wrapped when use was not called.
func withUpdates(ids []updates.Identity, refuse func(at int, err error), use func(session *comObject[updateSession], list *comObject[collection], found []int) error) error {
	begun := false
	err := withUpdateSession(func(session *comObject[updateSession]) error {
		list, err := createObject[collection](&clsidUpdateCollection, &iidUpdateCollection)
		if err != nil {
			return fmt.Errorf("creating a list of updates: %w", err)
		}
		defer list.release()
		var found []int
		if err := searchUpdates(session, askHost, func(u *comObject[windowsUpdate]) error {
			id, revision, err := readIdentity(u)
			if err != nil {
				return fmt.Errorf("reading an update: %w", err)
			}
			at := slices.Index(ids, updates.Identity{ID: id, Revision: revision})
			if at < 0 {
				return nil
			}
			if err := acceptLicense(u); err != nil {
				refuse(at, err)
				return nil
			}
			var index int32
			if err := comCall(unsafe.Pointer(list), list.methods.Add, uintptr(unsafe.Pointer(u)), uintptr(unsafe.Pointer(&index))); err != nil {
				return fmt.Errorf("listing an update: %w", updateError(err))
			}
			found = append(found, at)
			return nil
		}); err != nil {
			return err
		}
		begun = true
		return use(session, list, found)
	})
	if err != nil && !begun {
		return fmt.Errorf("%w: %w", updates.ErrNotBegun, err)
	}
	return err
}

// acceptLicense accepts the license of an update, if it has one.
func acceptLicense(u *comObject[windowsUpdate]) error {
	accepted, err := u.getInt(u.methods.GetEulaAccepted)
	if err == nil && int16(accepted) == 0 {
		err = comCall(unsafe.Pointer(u), u.methods.AcceptEula)
	}
	if err != nil {
		return fmt.Errorf("accepting the license of an update: %w", updateError(err))
	}
	return nil
}
