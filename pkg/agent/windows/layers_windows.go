// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Layers of containers, as hcsshim uses them (internal/wclayer): the calls take a DriverInfo with
// the path of the directory that the layers are in, or none, and the path of the layer.
var (
	vmcompute           = windows.NewLazySystemDLL("vmcompute.dll")
	procUnprepareLayer  = vmcompute.NewProc("UnprepareLayer")
	procDeactivateLayer = vmcompute.NewProc("DeactivateLayer")
	procDestroyLayer    = vmcompute.NewProc("DestroyLayer")
)

// driverInfo is DriverInfo of hcsshim.
type driverInfo struct {
	kind int // 1: the filter driver, which all layers of containerd use
	home *uint16
}

// callLayer makes calls about a layer, and returns the error of the last one.
func callLayer(path string, calls ...*windows.LazyProc) error {
	for _, p := range calls {
		if err := p.Find(); err != nil {
			return fmt.Errorf("finding the Host Compute Service: %w", err)
		}
	}
	words, err := utf16Pointers("", path)
	if err != nil {
		return err
	}
	info := &driverInfo{kind: 1, home: words[0]}
	var result uintptr
	for _, p := range calls {
		result, _, _ = p.Call(uintptr(unsafe.Pointer(info)), uintptr(unsafe.Pointer(words[1])))
	}
	return hresult(result)
}

// layerDisk is the disk of a layer that containers write to, in its directory. It is open while the layer is mounted.
const layerDisk = `\sandbox.vhdx`

// UnmountLayer implements [engine.System]. The calls also fail for a layer that is not mounted; its disk tells.
func (s *windowsSystem) UnmountLayer(path string) error {
	_ = callLayer(path, procUnprepareLayer, procDeactivateLayer)
	if err := patiently(time.Sleep, isHeld, func() error { return openToRemove(path + layerDisk) }); isHeld(err) {
		return fmt.Errorf("the layer %s stays mounted: %w", path, err)
	}
	return nil
}

// isHeld reports whether somebody has a file open and does not let it be removed.
func isHeld(err error) bool { return errors.Is(err, windows.ERROR_SHARING_VIOLATION) }

// openToRemove finds out whether a file could be removed, and leaves it there.
func openToRemove(path string) error {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := asBackup(func() (windows.Handle, error) {
		return windows.CreateFile(name, windows.DELETE, share, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	})
	if err != nil {
		return err
	}
	return windows.CloseHandle(h)
}

// RemoveLayer implements [engine.System].
func (s *windowsSystem) RemoveLayer(path string) error {
	if err := callLayer(path, procDestroyLayer); err != nil {
		return fmt.Errorf("removing the layer %s: %w", path, err)
	}
	return nil
}
