// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestAddressPolicy(t *testing.T) {
	rules, err := ParseAddressRules(
		[]string{"127.0.2.0/24", "2002:7f00:2::/48", "169.254.7.7/32", "fe80::aaaa:0/112", "172.30.7.0/24", "198.51.100.7/32"},
		[]string{"172.30.0.0/16", "10.128.0.0/14", "fd02::/112", "::ffff:192.0.2.0/120"})
	if err != nil {
		t.Fatal(err)
	}
	ours := ourAddresses("198.51.100.1", []net.Addr{
		&net.IPNet{IP: net.ParseIP("203.0.113.9"), Mask: net.CIDRMask(24, 32)},
		&net.IPNet{IP: net.ParseIP("198.51.100.7"), Mask: net.CIDRMask(24, 32)},
		&net.IPNet{IP: net.ParseIP("2001:db8::9"), Mask: net.CIDRMask(64, 128)},
	})
	cluster := func(a netip.Addr) (string, error) {
		if a.String() == "192.0.9.9" {
			return "", errors.New("the nodes cannot be read")
		}
		return map[string]string{"10.96.0.1": "a Service's", "172.30.7.1": "a Service's", "198.51.100.7": "a Linux Node's", "127.9.0.1": "a pod's"}[a.String()], nil
	}
	const refused, byDefault = "--refused-host-cidrs", "--allowed-host-cidrs"
	for _, tt := range []struct {
		address string
		says    []string // parts of the error; none: may be dialed
	}{
		{"10.0.0.1", nil},
		{"192.168.1.1", nil},
		{"fd00::1", nil},
		{"2001:db8::1", nil},
		{"127.0.0.1", []string{"127.0.0.1 is a loopback address", byDefault}},
		{"::1", []string{"a loopback", byDefault}},
		{"::1%lo", []string{"a loopback", byDefault}},
		{"::ffff:127.0.0.1", []string{"a loopback", byDefault}},
		{"::ffff:127.0.0.1%eth0", []string{"a loopback", byDefault}},
		{"169.254.169.254", []string{"a link-local", byDefault}},
		{"::ffff:169.254.169.254", []string{"a link-local", byDefault}},
		{"fe80::1", []string{"a link-local", byDefault}},
		{"fe80::1%eth0", []string{"a link-local", byDefault}},
		{"224.0.0.1", []string{"a multicast", byDefault}},
		{"ff02::1", []string{"a multicast", byDefault}},
		{"0.0.0.0", []string{"the unspecified", byDefault}},
		{"0.1.2.3", []string{"the unspecified", byDefault}},
		{"::", []string{":: is the unspecified", byDefault}},
		{"255.255.255.255", []string{"the broadcast", byDefault}},
		{"fd00:ec2::254", []string{"a metadata service", byDefault}},
		{"fd20:ce::254", []string{"a metadata service", byDefault}},
		{"168.63.129.16", []string{"a metadata service", byDefault}},
		{"100.100.100.200", []string{"a metadata service", byDefault}},
		{"fd00:ec2::23", []string{"a metadata service", byDefault}},
		{"192.0.0.192", []string{"a metadata service", byDefault}},

		// Opened on purpose.
		{"127.0.2.5", nil},
		{"::ffff:127.0.2.5", nil},
		{"169.254.7.7", nil},
		{"169.254.7.8", []string{"a link-local", byDefault}},
		{"fe80::aaaa:1%eth0", nil},

		// IPv4 in another form.
		{"64:ff9b::127.0.0.1", []string{"127.0.0.1, in 64:ff9b::7f00:1,", "a loopback", byDefault}},
		{"64:ff9b:1::169.254.169.254", []string{"a link-local", byDefault}},
		{"2002:7f00:1::1", []string{"127.0.0.1, in 2002:7f00:1::1,", "a loopback", byDefault}},
		{"::127.0.0.1", []string{"a loopback", byDefault}},
		{"::ffff:0:127.0.0.1", []string{"a loopback", byDefault}},
		{"64:ff9b::172.30.0.1", []string{"172.30.0.0/16", refused}},
		{"64:ff9b::127.0.2.5", nil},
		{"64:ff9b::10.0.0.1", nil},
		{"2002:7f00:2::1", nil}, // opened in this form
		{"2002:7f00:3::1", []string{"a loopback", byDefault}},

		// The networks of the cluster.
		{"172.30.0.1", []string{"172.30.0.0/16", refused}},
		{"172.30.7.1", []string{"172.30.0.0/16", refused}}, // also where it is allowed
		{"10.131.255.255", []string{"10.128.0.0/14", refused}},
		{"10.132.0.0", nil},
		{"fd02::1%eth0", []string{"fd02::/112", refused}},
		{"192.0.2.1", []string{"192.0.2.0/24", refused}},
		{"192.0.3.1", nil},

		// What the cluster says.
		{"10.96.0.1", []string{"10.96.0.1 is a Service's address", byDefault}},
		{"::ffff:10.96.0.1", []string{"10.96.0.1 is a Service's address", byDefault}},
		{"64:ff9b::10.96.0.1", []string{"10.96.0.1, in 64:ff9b::a60:1, is a Service's address", byDefault}},
		{"127.9.0.1", []string{"a pod's", byDefault}}, // which says more than that it is a loopback address

		{"192.0.9.9", []string{"192.0.9.9 is not dialed: the nodes cannot be read"}},

		// Ourselves, and not our neighbors.
		{"198.51.100.1", []string{"the API server's", byDefault}},
		{"203.0.113.9", []string{"this process's own", byDefault}},
		{"203.0.113.10", nil},
		{"2001:db8::9%eth0", []string{"this process's own", byDefault}},
		{"198.51.100.7", nil}, // our own, a Node's, and opened on purpose
	} {
		t.Run(tt.address, func(t *testing.T) {
			err := rules.Policy(ours, cluster)(netip.MustParseAddr(tt.address))
			if (err == nil) != (len(tt.says) == 0) {
				t.Fatalf("got %v, want %q", err, tt.says)
			}
			for _, part := range tt.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want %q in it", err, part)
				}
			}
		})
	}
}

func TestOurAddresses(t *testing.T) {
	ours, err := OurAddresses()
	if err != nil || ours[netip.MustParseAddr("127.0.0.1")] == "" {
		t.Errorf("got %v, %v", ours, err)
	}
	if got := ourAddresses("kubernetes.default.svc", []net.Addr{&net.UnixAddr{Name: "/run/socket"}}); len(got) != 0 {
		t.Errorf("names give %v", got)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "198.51.100.1") // as in every pod
	if ours, err := OurAddresses(); err != nil || ours[netip.MustParseAddr("198.51.100.1")] != "the API server's" {
		t.Errorf("in a pod: %v, %v", ours, err)
	}
}

func TestParseAddressRules(t *testing.T) {
	_, err := ParseAddressRules([]string{"10.0.0.0", "10.0.0.0/8"}, []string{"nonsense"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{`--allowed-host-cidrs: "10.0.0.0" is not an address range`, `--refused-host-cidrs: "nonsense" is not`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want %q in it", err, part)
		}
	}
}

// TestMappedRanges: addresses are compared in the form of IPv4, and so is a range that has only such.
func TestMappedRanges(t *testing.T) {
	for _, tt := range []struct {
		refused, address string
		want             bool // refused
	}{
		{"::ffff:0:0/96", "192.0.2.1", true},
		{"::ffff:192.0.2.0/120", "192.0.2.1", true},
		{"::ffff:192.0.2.0/120", "192.0.3.1", false},
		{"::ffff:0:0/95", "::fffe:1:1", true},
		{"::ffff:0:0/95", "192.0.2.1", false},
	} {
		rules, err := ParseAddressRules(nil, []string{tt.refused})
		if err != nil {
			t.Fatal(err)
		}
		if err := rules.Policy(nil, nil)(netip.MustParseAddr(tt.address)); (err != nil) != tt.want {
			t.Errorf("%s with %s refused: %v", tt.address, tt.refused, err)
		}
	}
}
