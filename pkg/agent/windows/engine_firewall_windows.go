// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// The firewall is configured through its COM interfaces (netfw.h), as its own tools do: the
// service that filters reads the registry only when it starts.
var (
	clsidNetFwPolicy2 = windows.GUID{Data1: 0xe2b3c97f, Data2: 0x6ae1, Data3: 0x41ac, Data4: [8]byte{0x81, 0x7a, 0xf6, 0xf9, 0x21, 0x66, 0xd7, 0xdd}}
	iidNetFwPolicy2   = windows.GUID{Data1: 0x98325047, Data2: 0xc671, Data3: 0x4174, Data4: [8]byte{0x8d, 0x81, 0xde, 0xfc, 0xd3, 0xf0, 0x31, 0x86}}
	clsidNetFwRule    = windows.GUID{Data1: 0x2c5bc43e, Data2: 0x3369, Data3: 0x4c33, Data4: [8]byte{0xab, 0x0c, 0xbe, 0x94, 0x69, 0x67, 0x7a, 0xf4}}
	iidNetFwRule      = windows.GUID{Data1: 0xaf230d27, Data2: 0xbaba, Data3: 0x4e42, Data4: [8]byte{0xac, 0xed, 0xf5, 0x24, 0xf2, 0x2c, 0xfc, 0xe2}}

	procCoCreateInstance = windows.NewLazySystemDLL("ole32.dll").NewProc("CoCreateInstance")
	oleaut32             = windows.NewLazySystemDLL("oleaut32.dll")
	procSysAllocString   = oleaut32.NewProc("SysAllocString")
	procSysFreeString    = oleaut32.NewProc("SysFreeString")
)

// Places of methods in their interfaces, counted from zero. The first seven of each are
// those of IDispatch.
const (
	methodRelease = 2

	policyGetRules = 18

	rulesAdd    = 8
	rulesRemove = 9
	rulesItem   = 10

	rulePutName        = 8
	ruleGetDescription = 9
	rulePutDescription = 10
	ruleGetProtocol    = 15
	rulePutProtocol    = 16
	ruleGetLocalPorts  = 17
	rulePutLocalPorts  = 18
	ruleGetDirection   = 27
	rulePutDirection   = 28
	ruleGetEnabled     = 33
	rulePutEnabled     = 34
	ruleGetProfiles    = 37
	rulePutProfiles    = 38
	ruleGetAction      = 41
	rulePutAction      = 42
)

// Values of netfw.h and icftypes.h.
const (
	protocolTCP     = 6
	protocolUDP     = 17
	directionIn     = 1
	actionAllow     = 1
	profilesAll     = 0x7fffffff
	clsctxInProcess = 1
	variantTrue     = 0xffff // VARIANT_BOOL
)

// rulePrefix keeps our rules apart from those of others.
const rulePrefix = "windows-node-agent "

// comObject is a pointer to an interface.
type comObject struct{ methods *[64]uintptr }

// call calls a method that returns an HRESULT.
func (o *comObject) call(method int, args ...uintptr) error {
	r, _, _ := syscall.SyscallN(o.methods[method], append([]uintptr{uintptr(unsafe.Pointer(o))}, args...)...)
	if hr := int32(r); hr < 0 {
		// An HRESULT of facility Win32 (7) has a code of Windows in its lower half.
		if code := windows.Errno(r & 0xffff); uint32(hr)>>16 == 0x8007 {
			return code
		}
		return fmt.Errorf("HRESULT %#x", uint32(hr))
	}
	return nil
}

func (o *comObject) release() {
	_, _, _ = syscall.SyscallN(o.methods[methodRelease], uintptr(unsafe.Pointer(o))) // it returns a count
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

func (o *comObject) putString(method int, text string) error {
	return withString(text, func(bstr uintptr) error { return o.call(method, bstr) })
}

func (o *comObject) getString(method int) (string, error) {
	var bstr *uint16
	if err := o.call(method, uintptr(unsafe.Pointer(&bstr))); err != nil || bstr == nil {
		return "", err
	}
	defer procSysFreeString.Call(uintptr(unsafe.Pointer(bstr))) //nolint:errcheck // it returns nothing
	return windows.UTF16PtrToString(bstr), nil
}

func (o *comObject) getInt(method int) (int32, error) {
	var value int32
	err := o.call(method, uintptr(unsafe.Pointer(&value)))
	return value, err
}

func createObject(class, iface *windows.GUID) (*comObject, error) {
	var object *comObject
	r, _, _ := procCoCreateInstance.Call(uintptr(unsafe.Pointer(class)), 0, clsctxInProcess, uintptr(unsafe.Pointer(iface)), uintptr(unsafe.Pointer(&object)))
	if hr := int32(r); hr < 0 {
		return nil, fmt.Errorf("HRESULT %#x", uint32(hr))
	}
	return object, nil
}

// withRules calls use with the rules of the firewall.
func withRules(use func(rules *comObject) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const alreadyInitialized = windows.Errno(1) // S_FALSE
	if err := windows.CoInitializeEx(0, windows.COINIT_MULTITHREADED); err != nil && !errors.Is(err, alreadyInitialized) {
		return fmt.Errorf("initializing COM: %w", err)
	}
	defer windows.CoUninitialize()
	policy, err := createObject(&clsidNetFwPolicy2, &iidNetFwPolicy2)
	if err != nil {
		return fmt.Errorf("finding the firewall: %w", err)
	}
	defer policy.release()
	var rules *comObject
	if err := policy.call(policyGetRules, uintptr(unsafe.Pointer(&rules))); err != nil {
		return fmt.Errorf("finding the rules of the firewall: %w", err)
	}
	defer rules.release()
	return use(rules)
}

// FirewallRule implements [engine.System].
func (s *windowsSystem) FirewallRule(name string) (found *config.FirewallRule, err error) {
	err = withRules(func(rules *comObject) error {
		var rule *comObject
		err := withString(rulePrefix+name, func(bstr uintptr) error { return rules.call(rulesItem, bstr, uintptr(unsafe.Pointer(&rule))) })
		if errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("finding rule %s: %w", name, err)
		}
		defer rule.release()
		found, err = readRule(rule, name)
		return err
	})
	return found, err
}

// readRule returns a rule without a port when it is not what it was made as, so that it differs
// from every rule that is wanted.
func readRule(rule *comObject, name string) (*config.FirewallRule, error) {
	out := &config.FirewallRule{Name: name}
	var err error
	read := func(method int) int32 {
		value, e := rule.getInt(method)
		err = errors.Join(err, e)
		return value
	}
	text := func(method int) string {
		value, e := rule.getString(method)
		err = errors.Join(err, e)
		return value
	}
	switch read(ruleGetProtocol) {
	case protocolTCP:
		out.Protocol = config.ProtocolTCP
	case protocolUDP:
		out.Protocol = config.ProtocolUDP
	}
	out.DisplayName = text(ruleGetDescription)
	intact := read(ruleGetDirection) == directionIn && read(ruleGetAction) == actionAllow && read(ruleGetProfiles) == profilesAll && int16(read(ruleGetEnabled)) != 0
	if port, e := strconv.ParseUint(text(ruleGetLocalPorts), 10, 16); e == nil && intact {
		out.Port = uint16(port)
	}
	if err != nil {
		return nil, fmt.Errorf("reading rule %s: %w", name, err)
	}
	return out, nil
}

// SetFirewallRule implements [engine.System]. A rule of that name is replaced.
func (s *windowsSystem) SetFirewallRule(r config.FirewallRule) error {
	return withRules(func(rules *comObject) error {
		rule, err := createObject(&clsidNetFwRule, &iidNetFwRule)
		if err != nil {
			return fmt.Errorf("making a rule: %w", err)
		}
		defer rule.release()
		protocol := uintptr(protocolTCP)
		if r.Protocol == config.ProtocolUDP {
			protocol = protocolUDP
		}
		// The ports can be set once the protocol is.
		err = errors.Join(
			rule.putString(rulePutName, rulePrefix+r.Name),
			rule.putString(rulePutDescription, cmp.Or(r.DisplayName, r.Name)),
			rule.call(rulePutProtocol, protocol),
			rule.putString(rulePutLocalPorts, strconv.Itoa(int(r.Port))),
			rule.call(rulePutDirection, directionIn),
			rule.call(rulePutProfiles, profilesAll),
			rule.call(rulePutAction, actionAllow),
			rule.call(rulePutEnabled, variantTrue),
		)
		if err != nil {
			return fmt.Errorf("making rule %s: %w", r.Name, err)
		}
		if err := removeRules(rules, r.Name); err != nil {
			return err
		}
		if err := rules.call(rulesAdd, uintptr(unsafe.Pointer(rule))); err != nil {
			return fmt.Errorf("adding rule %s: %w", r.Name, err)
		}
		return nil
	})
}

// RemoveFirewallRule implements [engine.System].
func (s *windowsSystem) RemoveFirewallRule(name string) error {
	return withRules(func(rules *comObject) error { return removeRules(rules, name) })
}

// removeRules removes all rules of the name, of which there may be several; each call
// removes one. That there is none is no error to the firewall, so they are looked for.
func removeRules(rules *comObject, name string) error {
	return withString(rulePrefix+name, func(bstr uintptr) error {
		const enough = 100
		for range enough {
			var rule *comObject
			err := rules.call(rulesItem, bstr, uintptr(unsafe.Pointer(&rule)))
			if errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
				return nil
			}
			if err == nil {
				rule.release()
				err = rules.call(rulesRemove, bstr)
			}
			if err != nil {
				return fmt.Errorf("removing rule %s: %w", name, err)
			}
		}
		return fmt.Errorf("rule %s is there again each time it is removed", name)
	})
}
