// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"fmt"
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

// RemoveLayer implements [engine.System]. A layer that its container left mounted is unmounted.
func (s *windowsSystem) RemoveLayer(path string) error {
	for _, p := range []*windows.LazyProc{procUnprepareLayer, procDeactivateLayer, procDestroyLayer} {
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
	for _, p := range []*windows.LazyProc{procUnprepareLayer, procDeactivateLayer, procDestroyLayer} {
		// The first two fail for a layer that is not mounted.
		result, _, _ = p.Call(uintptr(unsafe.Pointer(info)), uintptr(unsafe.Pointer(words[1])))
	}
	if err := hresult(result); err != nil {
		return fmt.Errorf("removing the layer %s: %w", path, err)
	}
	return nil
}
