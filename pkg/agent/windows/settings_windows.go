// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// Settings of the machine in the registry, below HKEY_LOCAL_MACHINE.
const (
	environmentKey      = `SYSTEM\CurrentControlSet\Control\Session Manager\Environment`
	nextComputerNameKey = `SYSTEM\CurrentControlSet\Control\ComputerName\ComputerName`
	// policiesKey has the policies of all products of Microsoft.
	policiesKey = `SOFTWARE\Policies\Microsoft`
	// exclusionsKey is that of the policy "Exclusions" of Microsoft Defender Antivirus
	// (WindowsDefender.admx). It can exist without Defender.
	defenderKey           = policiesKey + `\Windows Defender`
	exclusionsKey         = defenderKey + `\Exclusions`
	excludedProcessesKey  = exclusionsKey + `\Processes`
	excludedProcessesName = "Exclusions_Processes"
)

// Hostname implements [engine.System].
func (s *windowsSystem) Hostname() (current, next string, err error) {
	if current, err = windows.ComputerName(); err != nil {
		return "", "", fmt.Errorf("reading the computer name: %w", err)
	}
	next, err = readString(nextComputerNameKey, "ComputerName")
	return current, next, err
}

var procSetComputerNameEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("SetComputerNameExW")

// SetHostname implements [engine.System].
func (s *windowsSystem) SetHostname(name string) error {
	n, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	if ok, _, err := procSetComputerNameEx.Call(windows.ComputerNamePhysicalDnsHostname, uintptr(unsafe.Pointer(n))); ok == 0 {
		return fmt.Errorf("setting the computer name: %w", err)
	}
	return flushKey(nextComputerNameKey)
}

// Environment implements [engine.System].
func (s *windowsSystem) Environment() (map[string]string, error) { return machineEnvironment() }

func machineEnvironment() (map[string]string, error) {
	variables := map[string]string{}
	err := withKey(environmentKey, func(k registry.Key) error {
		list, err := k.ReadValueNames(0)
		if err != nil {
			return err
		}
		for _, name := range list {
			value, _, err := k.GetStringValue(name)
			if errors.Is(err, registry.ErrUnexpectedType) || errors.Is(err, registry.ErrNotExist) {
				continue // no variable, or none any more
			}
			if err != nil {
				return err
			}
			variables[name] = value
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the environment: %w", err)
	}
	return variables, nil
}

// changeKey opens or creates a key for writing, and writes it to the disk.
func changeKey(path string, change func(registry.Key) error) error {
	k, _, err := registry.CreateKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE|registry.SET_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return fmt.Errorf(`opening HKLM\%s: %w`, path, err)
	}
	err = change(k)
	if err != nil {
		err = fmt.Errorf(`changing HKLM\%s: %w`, path, err)
	}
	if err := errors.Join(err, k.Close()); err != nil {
		return err
	}
	return flushKey(path)
}

// SetEnvironment implements [engine.System]. Running processes are not notified: those that
// matter are services, which get it from the service control manager at the next boot.
func (s *windowsSystem) SetEnvironment(name string, value *string) error {
	return changeKey(environmentKey, func(k registry.Key) error {
		if value == nil {
			return notMissing(k.DeleteValue(name))
		}
		// A value with references to other variables keeps its type, so that it is expanded.
		if _, kind, err := k.GetStringValue(name); err == nil && kind == registry.EXPAND_SZ {
			return k.SetExpandStringValue(name, *value)
		}
		return k.SetStringValue(name, *value)
	})
}

// AntivirusExclusion implements [engine.System].
func (s *windowsSystem) AntivirusExclusion(program string) (bool, error) {
	return valueExists(excludedProcessesKey, program)
}

// SetAntivirusExclusion implements [engine.System]. The list counts while its switch is on;
// it is turned off with the last member, and empty keys are removed.
func (s *windowsSystem) SetAntivirusExclusion(program string, excluded bool) error {
	members := 0
	err := changeKey(excludedProcessesKey, func(k registry.Key) error {
		if excluded {
			members = 1
			return k.SetStringValue(program, "0")
		}
		if err := notMissing(k.DeleteValue(program)); err != nil {
			return err
		}
		list, err := k.ReadValueNames(0)
		members = len(list)
		return err
	})
	if err != nil {
		return err
	}
	err = changeKey(exclusionsKey, func(k registry.Key) error {
		if members == 0 {
			return notMissing(k.DeleteValue(excludedProcessesName))
		}
		return k.SetDWordValue(excludedProcessesName, 1)
	})
	if err != nil || members > 0 {
		return err
	}
	return removeEmptyKeys(policiesKey, excludedProcessesKey, exclusionsKey, defenderKey)
}

// removeEmptyKeys removes keys without values and keys, up to the first one that has some, and
// writes the one above to the disk. An empty key of policies means the same as a missing one,
// so it does not matter who created it.
func removeEmptyKeys(above string, paths ...string) error {
	for _, path := range paths {
		empty := false
		err := withKey(path, func(k registry.Key) error {
			info, err := k.Stat()
			if err != nil {
				return fmt.Errorf(`reading HKLM\%s: %w`, path, err)
			}
			empty = info.SubKeyCount == 0 && info.ValueCount == 0
			return nil
		})
		if errors.Is(err, registry.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !empty {
			break
		}
		if err := notMissing(registry.DeleteKey(registry.LOCAL_MACHINE, path)); err != nil {
			return fmt.Errorf(`removing HKLM\%s: %w`, path, err)
		}
	}
	return flushKey(above)
}

// The function of golang.org/x/sys takes a pointer as a number, and keeps nothing alive.
var procCertOpenStore = windows.NewLazySystemDLL("crypt32.dll").NewProc("CertOpenStore")

// withStore calls use with a certificate store of the machine.
func withStore(name string, use func(windows.Handle) error) error {
	n, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	r, _, err := procCertOpenStore.Call(windows.CERT_STORE_PROV_SYSTEM_W, 0, 0, windows.CERT_SYSTEM_STORE_LOCAL_MACHINE, uintptr(unsafe.Pointer(n)))
	if r == 0 {
		return fmt.Errorf("opening the certificate store %s: %w", name, err)
	}
	store := windows.Handle(r)
	return errors.Join(use(store), windows.CertCloseStore(store, 0))
}

var procCertControlStore = windows.NewLazySystemDLL("crypt32.dll").NewProc("CertControlStore")

// certStoreCommit is CERT_STORE_CTRL_COMMIT of wincrypt.h.
const certStoreCommit = 3

// commitStore writes what changed to the registry, where others find it.
func commitStore(store windows.Handle) error {
	if ok, _, err := procCertControlStore.Call(uintptr(store), 0, certStoreCommit, 0); ok == 0 {
		return fmt.Errorf("writing the certificate store: %w", err)
	}
	return nil
}

// eachCertificate calls use with each certificate of a store and its fingerprint, until it returns
// false. Then use frees the certificate.
func eachCertificate(store windows.Handle, use func(c *windows.CertContext, fingerprint string) bool) error {
	var c *windows.CertContext
	for {
		// Each call frees what the one before returned.
		next, err := windows.CertEnumCertificatesInStore(store, c)
		if next == nil {
			const notFound = windows.Errno(windows.CRYPT_E_NOT_FOUND)
			if err == nil || errors.Is(err, notFound) || errors.Is(err, windows.ERROR_NO_MORE_FILES) {
				return nil
			}
			return fmt.Errorf("listing the certificates: %w", err)
		}
		c = next
		sum := sha256.Sum256(unsafe.Slice(c.EncodedCert, c.Length))
		if !use(c, hex.EncodeToString(sum[:])) {
			return nil
		}
	}
}

// Certificates implements [engine.System].
func (s *windowsSystem) Certificates(store string) (fingerprints []string, err error) {
	err = withStore(store, func(h windows.Handle) error {
		return eachCertificate(h, func(_ *windows.CertContext, fingerprint string) bool {
			fingerprints = append(fingerprints, fingerprint)
			return true
		})
	})
	return fingerprints, err
}

// AddCertificate implements [engine.System].
func (s *windowsSystem) AddCertificate(store string, der []byte) error {
	return withStore(store, func(h windows.Handle) error {
		c, err := windows.CertCreateCertificateContext(windows.X509_ASN_ENCODING|windows.PKCS_7_ASN_ENCODING, &der[0], uint32(len(der)))
		if err != nil {
			return fmt.Errorf("reading the certificate: %w", err)
		}
		err = windows.CertAddCertificateContextToStore(h, c, windows.CERT_STORE_ADD_REPLACE_EXISTING, nil)
		if err = errors.Join(err, windows.CertFreeCertificateContext(c)); err != nil {
			return fmt.Errorf("adding the certificate: %w", err)
		}
		return commitStore(h)
	})
}

// RemoveCertificate implements [engine.System].
func (s *windowsSystem) RemoveCertificate(store, fingerprint string) error {
	return withStore(store, func(h windows.Handle) error {
		var there bool
		var removed error
		err := eachCertificate(h, func(c *windows.CertContext, found string) bool {
			if there = strings.EqualFold(found, fingerprint); there {
				removed = windows.CertDeleteCertificateFromStore(c) // frees it
			}
			return !there
		})
		if err = errors.Join(err, removed); err != nil {
			return fmt.Errorf("removing the certificate: %w", err)
		}
		if !there {
			return nil
		}
		return commitStore(h)
	})
}
