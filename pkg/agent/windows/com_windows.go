// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	procCoCreateInstance = windows.NewLazySystemDLL("ole32.dll").NewProc("CoCreateInstance")
	oleaut32             = windows.NewLazySystemDLL("oleaut32.dll")
	procSysAllocString   = oleaut32.NewProc("SysAllocString")
	procSysFreeString    = oleaut32.NewProc("SysFreeString")
)

// The tables of methods have their fields in the order of netfw.h, and those of updates in that of wuapi.h, so that one can be read
// beside the other; docs/decisions explains why they are written by hand.

// iDispatch begins every table: IUnknown and IDispatch.
type iDispatch struct {
	QueryInterface, AddRef, Release                      uintptr
	GetTypeInfoCount, GetTypeInfo, GetIDsOfNames, Invoke uintptr
}

// netFwPolicy2 is INetFwPolicy2 as far as get_Rules.
type netFwPolicy2 struct {
	iDispatch
	GetCurrentProfileTypes                                                                           uintptr
	GetFirewallEnabled, PutFirewallEnabled                                                           uintptr
	GetExcludedInterfaces, PutExcludedInterfaces                                                     uintptr
	GetBlockAllInboundTraffic, PutBlockAllInboundTraffic                                             uintptr
	GetNotificationsDisabled, PutNotificationsDisabled                                               uintptr
	GetUnicastResponsesToMulticastBroadcastDisabled, PutUnicastResponsesToMulticastBroadcastDisabled uintptr
	GetRules                                                                                         uintptr
}

// netFwRules is INetFwRules without its enumerator.
type netFwRules struct {
	iDispatch
	GetCount, Add, Remove, Item uintptr
}

// netFwRule is INetFwRule.
type netFwRule struct {
	iDispatch
	GetName, PutName                           uintptr
	GetDescription, PutDescription             uintptr
	GetApplicationName, PutApplicationName     uintptr
	GetServiceName, PutServiceName             uintptr
	GetProtocol, PutProtocol                   uintptr
	GetLocalPorts, PutLocalPorts               uintptr
	GetRemotePorts, PutRemotePorts             uintptr
	GetLocalAddresses, PutLocalAddresses       uintptr
	GetRemoteAddresses, PutRemoteAddresses     uintptr
	GetIcmpTypesAndCodes, PutIcmpTypesAndCodes uintptr
	GetDirection, PutDirection                 uintptr
	GetInterfaces, PutInterfaces               uintptr
	GetInterfaceTypes, PutInterfaceTypes       uintptr
	GetEnabled, PutEnabled                     uintptr
	GetGrouping, PutGrouping                   uintptr
	GetProfiles, PutProfiles                   uintptr
	GetEdgeTraversal, PutEdgeTraversal         uintptr
	GetAction, PutAction                       uintptr
}

// comObject is an interface of COM; M is its table of methods.
type comObject[M any] struct{ methods *M }

// comCall calls a method of a COM interface that returns an HRESULT.
//
//go:uintptrescapes
func comCall(object unsafe.Pointer, method uintptr, args ...uintptr) error {
	r, _, _ := syscall.SyscallN(method, append([]uintptr{uintptr(object)}, args...)...)
	return hresult(r)
}

// getObject calls a method whose only argument is where it puts an interface, the one whose table is M.
func getObject[M, O any](from *comObject[O], method uintptr) (*comObject[M], error) {
	var object *comObject[M]
	if err := comCall(unsafe.Pointer(from), method, uintptr(unsafe.Pointer(&object))); err != nil {
		return nil, err
	}
	if object == nil {
		return nil, errors.New("the method returned no object")
	}
	return object, nil
}

// withCOM calls use in a thread in which COM is there.
func withCOM(use func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const alreadyInitialized = windows.Errno(1) // S_FALSE
	if err := windows.CoInitializeEx(0, windows.COINIT_MULTITHREADED); err != nil && !errors.Is(err, alreadyInitialized) {
		return fmt.Errorf("initializing COM: %w", err)
	}
	defer windows.CoUninitialize()
	return use()
}

// hresult returns the error of an HRESULT, nil for success of every kind.
func hresult(r uintptr) error {
	if int32(r) >= 0 {
		return nil
	}
	// One of facility Win32 (7) has a code of Windows in its lower half.
	if code := windows.Errno(r & 0xffff); uint32(r)>>16 == 0x8007 {
		return code
	}
	return hresultError(r)
}

// release releases the interface.
func (o *comObject[M]) release() {
	// Every table begins with the methods of IUnknown.
	common := (*iDispatch)(unsafe.Pointer(o.methods))
	_, _, _ = syscall.SyscallN(common.Release, uintptr(unsafe.Pointer(o))) // it returns a count
}

// withString calls use with a BSTR.
func withString(text string, use func(bstr uintptr) error) error {
	p, err := windows.UTF16PtrFromString(text)
	if err != nil {
		return err
	}
	bstr, _, _ := procSysAllocString.Call(uintptr(unsafe.Pointer(p)))
	if bstr == 0 {
		return windows.ERROR_NOT_ENOUGH_MEMORY
	}
	defer procSysFreeString.Call(bstr) //nolint:errcheck // it returns nothing
	return use(bstr)
}

func (o *comObject[M]) putString(method uintptr, text string) error {
	return withString(text, func(bstr uintptr) error { return comCall(unsafe.Pointer(o), method, bstr) })
}

func (o *comObject[M]) getString(method uintptr) (string, error) {
	var bstr *uint16
	if err := comCall(unsafe.Pointer(o), method, uintptr(unsafe.Pointer(&bstr))); err != nil || bstr == nil {
		return "", err
	}
	defer freeString(bstr)
	return windows.UTF16PtrToString(bstr), nil
}

// freeString frees a BSTR that a method has returned.
func freeString(bstr *uint16) {
	_, _, _ = procSysFreeString.Call(uintptr(unsafe.Pointer(bstr))) // it returns nothing
}

func (o *comObject[M]) getInt(method uintptr) (int32, error) {
	var value int32
	err := comCall(unsafe.Pointer(o), method, uintptr(unsafe.Pointer(&value)))
	return value, err
}

// createObject creates an object of a class; iface must be the interface whose table is M.
func createObject[M any](class, iface *windows.GUID) (*comObject[M], error) {
	var object *comObject[M]
	r, _, _ := procCoCreateInstance.Call(uintptr(unsafe.Pointer(class)), 0, clsctxInProcess, uintptr(unsafe.Pointer(iface)), uintptr(unsafe.Pointer(&object)))
	return object, hresult(r)
}
