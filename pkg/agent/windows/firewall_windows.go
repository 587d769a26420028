// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
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
	variantFalse    = 0
)

// rulePrefix keeps our rules apart from those of others.
const rulePrefix = "windows-node-agent "

// withRules calls use with the rules of the firewall.
func withRules(use func(rules *comObject[netFwRules]) error) error {
	return withCOM(func() error {
		policy, err := createObject[netFwPolicy2](&clsidNetFwPolicy2, &iidNetFwPolicy2)
		if err != nil {
			return fmt.Errorf("finding the firewall: %w", err)
		}
		defer policy.release()
		rules, err := getObject[netFwRules](policy, policy.methods.GetRules)
		if err != nil {
			return fmt.Errorf("finding the rules of the firewall: %w", err)
		}
		defer rules.release()
		return use(rules)
	})
}

// FirewallRule implements [engine.System].
func (s *windowsSystem) FirewallRule(name string) (found *config.FirewallRule, err error) {
	err = withRules(func(rules *comObject[netFwRules]) error {
		var rule *comObject[netFwRule]
		err := withString(rulePrefix+name, func(bstr uintptr) error {
			return comCall(unsafe.Pointer(rules), rules.methods.Item, bstr, uintptr(unsafe.Pointer(&rule)))
		})
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

// readRule returns a rule without a port when somebody changed it, so that it differs from
// every desired rule.
func readRule(rule *comObject[netFwRule], name string) (*config.FirewallRule, error) {
	out := &config.FirewallRule{Name: name}
	var err error
	read := func(method uintptr) int32 {
		value, e := rule.getInt(method)
		err = errors.Join(err, e)
		return value
	}
	text := func(method uintptr) string {
		value, e := rule.getString(method)
		err = errors.Join(err, e)
		return value
	}
	switch read(rule.methods.GetProtocol) {
	case protocolTCP:
		out.Protocol = config.ProtocolTCP
	case protocolUDP:
		out.Protocol = config.ProtocolUDP
	}
	out.DisplayName = text(rule.methods.GetDescription)
	intact := read(rule.methods.GetDirection) == directionIn && read(rule.methods.GetAction) == actionAllow && read(rule.methods.GetProfiles) == profilesAll && int16(read(rule.methods.GetEnabled)) != 0
	if port, e := strconv.ParseUint(text(rule.methods.GetLocalPorts), 10, 16); e == nil && intact {
		out.Port = uint16(port)
	}
	if err != nil {
		return nil, fmt.Errorf("reading rule %s: %w", name, err)
	}
	return out, nil
}

// SetFirewallRule implements [engine.System]. A rule of that name is replaced.
func (s *windowsSystem) SetFirewallRule(r config.FirewallRule) error {
	return withRules(func(rules *comObject[netFwRules]) error {
		rule, err := createObject[netFwRule](&clsidNetFwRule, &iidNetFwRule)
		if err != nil {
			return fmt.Errorf("creating a rule: %w", err)
		}
		defer rule.release()
		protocol := uintptr(protocolTCP)
		if r.Protocol == config.ProtocolUDP {
			protocol = protocolUDP
		}
		// The ports can be set once the protocol is.
		err = errors.Join(
			rule.putString(rule.methods.PutName, rulePrefix+r.Name),
			rule.putString(rule.methods.PutDescription, cmp.Or(r.DisplayName, r.Name)),
			comCall(unsafe.Pointer(rule), rule.methods.PutProtocol, protocol),
			rule.putString(rule.methods.PutLocalPorts, strconv.Itoa(int(r.Port))),
			comCall(unsafe.Pointer(rule), rule.methods.PutDirection, directionIn),
			comCall(unsafe.Pointer(rule), rule.methods.PutProfiles, profilesAll),
			comCall(unsafe.Pointer(rule), rule.methods.PutAction, actionAllow),
			comCall(unsafe.Pointer(rule), rule.methods.PutEnabled, variantTrue),
		)
		if err != nil {
			return fmt.Errorf("creating rule %s: %w", r.Name, err)
		}
		if err := removeRules(rules, r.Name); err != nil {
			return err
		}
		if err := comCall(unsafe.Pointer(rules), rules.methods.Add, uintptr(unsafe.Pointer(rule))); err != nil {
			return fmt.Errorf("adding rule %s: %w", r.Name, err)
		}
		return nil
	})
}

// RemoveFirewallRule implements [engine.System].
func (s *windowsSystem) RemoveFirewallRule(name string) error {
	return withRules(func(rules *comObject[netFwRules]) error { return removeRules(rules, name) })
}

// removeRules removes all rules of the name, of which there may be several; each call
// removes one. Removing a missing rule is no error to the firewall, so each is looked up.
func removeRules(rules *comObject[netFwRules], name string) error {
	return withString(rulePrefix+name, func(bstr uintptr) error {
		const enough = 100
		for range enough {
			var rule *comObject[netFwRule]
			err := comCall(unsafe.Pointer(rules), rules.methods.Item, bstr, uintptr(unsafe.Pointer(&rule)))
			if errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
				return nil
			}
			if err == nil {
				rule.release()
				err = comCall(unsafe.Pointer(rules), rules.methods.Remove, bstr)
			}
			if err != nil {
				return fmt.Errorf("removing rule %s: %w", name, err)
			}
		}
		return fmt.Errorf("rule %s appears again each time it is removed", name)
	})
}
