// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
)

// AddressRules say where hosts may be. Whoever sets the address of an instance makes our
// key log in there, so what is never a Windows host is refused by default:
// loopback, link-local (which holds the metadata services of clouds), multicast and
// unspecified addresses, metadata services elsewhere, the addresses that the process itself
// has, and those of the cluster: of Services, pods, the API server and Linux Nodes.
type AddressRules struct {
	// Allowed opens ranges that would be refused.
	Allowed []netip.Prefix
	// Refused closes further ranges. It wins over Allowed.
	Refused []netip.Prefix
}

// ParseAddressRules reads the values of --allowed-host-cidrs and --refused-host-cidrs. The
// error says everything that is wrong with them.
func ParseAddressRules(allowed, refused []string) (AddressRules, error) {
	var rules AddressRules
	var errs []error
	for _, list := range []struct {
		flag  string
		cidrs []string
		out   *[]netip.Prefix
	}{
		{"--allowed-host-cidrs", allowed, &rules.Allowed},
		{"--refused-host-cidrs", refused, &rules.Refused},
	} {
		for _, cidr := range list.cidrs {
			prefix, err := netip.ParsePrefix(cidr)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %q is not an address range such as 10.0.0.0/8", list.flag, cidr))
			} else {
				*list.out = append(*list.out, unmapPrefix(prefix).Masked())
			}
		}
	}
	return rules, errors.Join(errs...)
}

// unmapPrefix is a range of IPv4 addresses in the form of IPv6 as one of IPv4, as addresses
// are compared in that form.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	const mapped = 96 // bits in front of the address of IPv4; RFC 4291, 2.5.5.2
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p
}

// Policy returns the rule on which addresses may be dialed. ours are addresses of the API server
// and of the process, with what they are; see [OurAddresses]. cluster says the same of addresses of
// the cluster as it knows them at that moment, or that it does not know them yet, when nothing is
// dialed but what Allowed opens, by an error with ssh.ErrUndecided; see package networks. Nil: nothing is
// known of these.
func (r AddressRules) Policy(ours map[netip.Addr]string, cluster func(netip.Addr) (string, error)) func(netip.Addr) error {
	if cluster == nil {
		cluster = func(netip.Addr) (string, error) { return "", nil }
	}
	return func(addr netip.Addr) error {
		// An address with a zone is in no prefix.
		addr = addr.WithZone("").Unmap()
		forms := []netip.Addr{addr, embedded(addr)} // an invalid one is in no prefix
		for _, form := range forms {
			if prefix, ok := within(form, r.Refused); ok {
				return fmt.Errorf("%s is in %s, which --refused-host-cidrs closes", describeForm(addr, form), prefix)
			}
		}
		if _, ok := within(addr, r.Allowed); ok {
			return nil
		}
		for _, form := range forms {
			if _, ok := within(form, r.Allowed); ok {
				continue
			}
			known, err := cluster(form)
			if err != nil {
				return fmt.Errorf("%s is not dialed: %w", describeForm(addr, form), err)
			}
			if kind := cmp.Or(known, neverHost(form), ours[form]); kind != "" {
				return fmt.Errorf("%s is %s address, where no Windows host is dialed; --allowed-host-cidrs opens a range on purpose", describeForm(addr, form), kind)
			}
		}
		return nil
	}
}

func within(addr netip.Addr, prefixes []netip.Prefix) (netip.Prefix, bool) {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

func describeForm(addr, form netip.Addr) string {
	if addr == form {
		return addr.String()
	}
	return fmt.Sprintf("%s, in %s,", form, addr)
}

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8") // RFC 1122, 3.2.1.3
	broadcast   = netip.AddrFrom4([4]byte{255, 255, 255, 255})
	// metadataServices are those of clouds that are not link-local: AWS and Google Cloud
	// over IPv6, the one for pods of AWS, Azure's host (WireServer), Oracle Cloud, Alibaba Cloud.
	metadataServices = map[netip.Addr]bool{
		netip.MustParseAddr("192.0.0.192"):     true,
		netip.MustParseAddr("fd00:ec2::23"):    true,
		netip.MustParseAddr("fd00:ec2::254"):   true,
		netip.MustParseAddr("fd20:ce::254"):    true,
		netip.MustParseAddr("168.63.129.16"):   true,
		netip.MustParseAddr("100.100.100.200"): true,
	}
)

// neverHost says what an address is that no Windows host has; empty: one may have it.
func neverHost(addr netip.Addr) string {
	switch {
	case addr.IsLoopback():
		return "a loopback"
	case addr.IsLinkLocalUnicast():
		return "a link-local"
	case addr.IsMulticast():
		return "a multicast"
	case addr.IsUnspecified() || thisNetwork.Contains(addr):
		return "the unspecified"
	case addr == broadcast:
		return "the broadcast"
	case metadataServices[addr]:
		return "a metadata service's"
	}
	return ""
}

// Prefixes of IPv6 addresses that stand for one of IPv4. A NAT64 prefix of the network's
// own cannot be distinguished from other addresses; --refused-host-cidrs closes it.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215; with the usual length of 96
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291, 2.5.5.1
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765, 2.1
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
)

// embedded is the IPv4 address that an IPv6 address reaches through a translator or a tunnel; invalid: none.
func embedded(addr netip.Addr) netip.Addr {
	b := addr.As16()
	switch {
	case nat64.Contains(addr), nat64Local.Contains(addr), compatible.Contains(addr), translated.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return netip.Addr{}
}

// apiServerVariable is set in every pod to the address of the API server of the cluster.
const apiServerVariable = "KUBERNETES_SERVICE_HOST"

// OurAddresses are the addresses of the API server of the cluster and of this process, with
// what they are, for [AddressRules.Policy]. Of the networks that the process is in only its
// own addresses are among them: hosts may be in the same.
func OurAddresses() (map[netip.Addr]string, error) {
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing the addresses of this process: %w", err)
	}
	return ourAddresses(os.Getenv(apiServerVariable), interfaces), nil
}

func ourAddresses(apiServer string, interfaces []net.Addr) map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, i := range interfaces {
		if prefix, err := netip.ParsePrefix(i.String()); err == nil {
			out[prefix.Addr().WithZone("").Unmap()] = "this process's own"
		}
	}
	// A name there is one of a load balancer in front of other things, too.
	if addr, err := netip.ParseAddr(apiServer); err == nil {
		out[addr.WithZone("").Unmap()] = "the API server's"
	}
	return out
}
