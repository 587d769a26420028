// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ipv6Suffix marks an IPv6 address that is written as a host name. Windows reserves
// this domain for it, see "IPv6 literal names" in the documentation of UNC paths.
const ipv6Suffix = ".ipv6-literal.net"

// parseAddress returns the address that the key of an entry stands for, in its one
// canonical spelling: an IP address, or a DNS name in lower case without final dot.
// Whether a name is well-formed is left to the validation of the API.
func parseAddress(key string) (string, error) {
	name := strings.TrimSuffix(strings.ToLower(key), ".")
	if name == "" {
		return "", errors.New("the key is no address")
	}
	if literal, ok := strings.CutSuffix(name, ipv6Suffix); ok {
		return parseIPv6Literal(literal)
	}
	addr, err := netip.ParseAddr(name)
	switch {
	case err != nil:
		return name, nil //nolint:nilerr // what is no IP address is a name
	case addr.Is6():
		return "", fmt.Errorf("an IPv6 address cannot be a key of a ConfigMap: write it as %s", ipv6Key(addr))
	default:
		return addr.String(), nil
	}
}

func parseIPv6Literal(literal string) (string, error) {
	if strings.Contains(literal, "s") { // stands for %, which is followed by a zone
		return "", errors.New("an address with a zone means something else on every host: use a routable address")
	}
	addr, _ := netip.ParseAddr(strings.ReplaceAll(literal, "-", ":"))
	if !addr.Is6() { // nor is the address of an error
		return "", fmt.Errorf("%q before %s is no IPv6 address with hyphens for colons", literal, ipv6Suffix)
	}
	return addr.Unmap().String(), nil
}

// ipv6Key returns the key for addr.
func ipv6Key(addr netip.Addr) string {
	return strings.ReplaceAll(addr.WithZone("").String(), ":", "-") + ipv6Suffix
}

// instanceName returns the default name of the instance for an address as
// parseAddress returns it: the address itself when it can be the name of an object,
// else a readable form of it, and a hash so that no two addresses share a name. An address that is
// none gets a name, too, so that the address is what is said to be wrong.
func instanceName(address string) string {
	if len(validation.IsDNS1123Subdomain(address)) == 0 {
		return address
	}
	readable := strings.NewReplacer(":", "-", ".", "-", "_", "-").Replace(address[:min(len(address), 200)])
	sum := sha256.Sum256([]byte(address))
	return strings.TrimLeft(strings.Trim(readable, "-")+"-"+hex.EncodeToString(sum[:4]), "-")
}
