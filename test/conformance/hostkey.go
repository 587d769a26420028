// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package conformance

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// ParseHost reads user@address[:port]. An IPv6 address with a port has brackets.
func ParseHost(text string) (hostssh.Target, error) {
	user, address, ok := strings.Cut(text, "@")
	if !ok || user == "" || address == "" {
		return hostssh.Target{}, fmt.Errorf("%q is not user@address or user@address:port", text)
	}
	target := hostssh.Target{User: user, Address: strings.Trim(address, "[]"), Port: hostssh.DefaultPort}
	if host, port, err := net.SplitHostPort(address); err == nil {
		target.Address = host
		if target.Port, err = strconv.Atoi(port); err != nil || target.Port < 1 || target.Port > 65535 {
			return hostssh.Target{}, fmt.Errorf("%q is no port", port)
		}
	}
	return target, nil
}

// HostKeys returns the keys that the host may present: that one, as in a line of
// known_hosts or authorized_keys without the host, or else those of a file in the format
// of known_hosts; ~/.ssh/known_hosts if it is empty.
func HostKeys(target hostssh.Target, key, file string) ([]ssh.PublicKey, error) {
	if key != "" {
		parsed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key))
		if err != nil {
			return nil, fmt.Errorf("the host key: %w", err)
		}
		return []ssh.PublicKey{parsed}, nil
	}
	if file == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		file = filepath.Join(home, ".ssh", "known_hosts")
	}
	check, err := knownhosts.New(file)
	if err != nil {
		return nil, err
	}
	// The keys of a host are told only in the error about another one.
	other, err := ssh.NewPublicKey(make(ed25519.PublicKey, ed25519.PublicKeySize))
	if err != nil {
		return nil, err
	}
	at := net.JoinHostPort(target.Address, strconv.Itoa(target.Port))
	var wrong *knownhosts.KeyError
	if err := check(at, &net.TCPAddr{IP: net.IPv4zero, Port: target.Port}, other); !errors.As(err, &wrong) || len(wrong.Want) == 0 {
		return nil, fmt.Errorf("%s has no key of %s. Get it with ssh-keyscan, and compare it with what ssh-keygen -l says on the console of the host", file, at)
	}
	keys := make([]ssh.PublicKey, len(wrong.Want))
	for i, known := range wrong.Want {
		keys[i] = known.Key
	}
	return keys, nil
}
