// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/validation"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// Bounds that the API declares on the fields of a WindowsInstance.
const (
	maxUsername = 104
	maxHostKeys = 16
)

// Entry is one entry of the ConfigMap that can be used.
type Entry struct {
	// Key is the key as it stands in the ConfigMap.
	Key string
	// Name is the name of the WindowsInstance.
	Name string
	// Address is the address in canonical form: IPv4, IPv6, or a DNS name in lower case.
	Address string
	// Port is the TCP port of the SSH server.
	Port int32
	// Username is the user to log in as.
	Username string
	// HostKeys are the host keys that may be presented. Empty: trust on first use.
	HostKeys []string
	// Resolution is what Address stands for.
	Resolution Resolution
}

// Problem says why an entry cannot be used.
type Problem struct {
	// Key is the key of the entry.
	Key string
	// Message says what is wrong. It does not name the entry.
	Message string
	// Passes means that it goes by itself.
	Passes bool
}

func (p Problem) String() string { return "entry " + p.Key + ": " + p.Message }

// Resolution is what is known of the IP addresses of a name.
type Resolution struct {
	// Addresses are the addresses. With Err set: those of the last time it worked.
	Addresses []netip.Addr
	// Err says why the last attempt to resolve the name failed.
	Err error
	// Pending means that the name has not been tried yet.
	Pending bool
}

// nowhere says whether the name of the entry was looked up and never found.
func (e *Entry) nowhere() bool { return e.Resolution.Err != nil && len(e.Resolution.Addresses) == 0 }

// whyNowhere says why, the same as long as DNS fails in the same way.
func (e *Entry) whyNowhere() string { return words.Steady(e.Resolution.Err.Error()) }

// parseEntry reads one entry on its own. The error says what is wrong with it.
func parseEntry(key, value string) (Entry, error) {
	entry := Entry{Key: key, Port: v1alpha1.DefaultPort}
	var err error
	if entry.Address, err = parseAddress(key); err != nil {
		return Entry{}, err
	}
	entry.Name = instanceName(entry.Address)

	seen := map[string]bool{}
	for line := range strings.Lines(value) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		field, content, found := strings.Cut(line, "=")
		field, content = strings.TrimSpace(field), strings.TrimSpace(content)
		if !found {
			return Entry{}, fmt.Errorf("line %q has no \"=\"; want username=<user>", line)
		}
		if seen[field] && field != "hostKey" {
			return Entry{}, fmt.Errorf("%s is given more than once", field)
		}
		seen[field] = true
		if content == "" {
			return Entry{}, fmt.Errorf("%s is empty", field)
		}
		if err := entry.set(field, content); err != nil {
			return Entry{}, err
		}
	}
	if !seen["username"] {
		return Entry{}, errors.New("username=<user> is missing")
	}
	return entry, entry.validate()
}

func (e *Entry) set(field, content string) error {
	switch field {
	case "username":
		e.Username = content
	case "port":
		port, err := strconv.ParseUint(content, 10, 16)
		if err != nil || port == 0 {
			return fmt.Errorf("port %q is not a number from 1 to 65535", content)
		}
		e.Port = int32(port)
	case "name":
		e.Name = content
	case "hostKey":
		e.HostKeys = append(e.HostKeys, content)
	default:
		return fmt.Errorf("%q is not known; known are username, port, name and hostKey", field)
	}
	return nil
}

// validate applies the rules of the API, so that what it accepts can be stored.
func (e *Entry) validate() error {
	if utf8.RuneCountInString(e.Username) > maxUsername {
		return fmt.Errorf("username is longer than %d characters", maxUsername)
	}
	if len(e.HostKeys) > maxHostKeys {
		return fmt.Errorf("hostKey is given more than %d times", maxHostKeys)
	}
	errs := validation.ValidateWindowsInstance(&windows.WindowsInstance{
		// The namespace is that of the ConfigMap, so any will do.
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: e.Name},
		Spec:       windows.WindowsInstanceSpec{Address: e.Address, Username: e.Username, HostKeys: e.HostKeys},
	})
	if len(errs) == 0 {
		return nil
	}
	first := errs[0]
	return fmt.Errorf("%s %q: %s", strings.TrimPrefix(strings.TrimPrefix(first.Field, "spec."), "metadata."), fmt.Sprint(first.BadValue), first.Detail)
}

// ip returns the address when it is an IP address, which needs no DNS.
func (e *Entry) ip() (netip.Addr, bool) {
	addr, err := netip.ParseAddr(e.Address)
	return addr, err == nil
}

// isOf says whether an instance is that of the host of the entry.
func (e *Entry) isOf(instance *v1alpha1.WindowsInstance) bool {
	return e.Name == instance.Name && e.Address == instance.Spec.Address && e.Port == instance.Spec.Port
}
