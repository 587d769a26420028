// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package platform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/hostagent"
)

// certificateFiles are where the programs of a node keep their certificates. The kubelet
// and the overlay network keep what they rotated away under names with a time, which
// nobody wants to see.
var certificateFiles = []string{
	`C:\var\lib\kubelet\pki\*-current.pem`,
	`C:\var\lib\kubelet\pki\*.crt`,
	`C:\k\*.crt`,
	`C:\k\tls\certs\*.crt`,
	`C:\k\cni\config\*-current.pem`,
}

var (
	vmcompute   = windows.NewLazySystemDLL("vmcompute.dll")
	procHNSCall = vmcompute.NewProc("HNSCall")
)

// Details implements [hostagent.Host].
func (h *Host) Details(_ context.Context, f *hostagent.Facts) {
	collectCertificates(f, certificateFiles)
	f.Collect("network/hns", func() (err error) {
		// Asking would start the service.
		if !slices.ContainsFunc(f.Services, func(s hostagent.Service) bool { return s.Name == "hns" && s.State == "Running" }) {
			return errors.New("the Host Networking Service (hns) does not run")
		}
		f.Network.HNSNetworks, err = hnsNetworks()
		return err
	})
}

// hnsNetworks asks the Host Networking Service as hcsshim does, by the one function that it
// has had since Windows Server 2016.
func hnsNetworks() ([]hostagent.HNSNetwork, error) {
	if err := procHNSCall.Find(); err != nil {
		return nil, fmt.Errorf("finding the Host Networking Service: %w", err)
	}
	method, path, body := utf16.Encode([]rune("GET\x00")), utf16.Encode([]rune("/networks/\x00")), []uint16{0}
	var answer *uint16
	r, _, _ := procHNSCall.Call(uintptr(unsafe.Pointer(&method[0])), uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(&body[0])), uintptr(unsafe.Pointer(&answer)))
	if answer != nil {
		defer windows.CoTaskMemFree(unsafe.Pointer(answer))
	}
	if hr := int32(r); hr < 0 {
		return nil, fmt.Errorf("asking the Host Networking Service: HRESULT %#x", uint32(hr))
	}
	if answer == nil {
		return nil, errors.New("the Host Networking Service does not answer")
	}
	return parseHNSNetworks([]byte(windows.UTF16PtrToString(answer)))
}
