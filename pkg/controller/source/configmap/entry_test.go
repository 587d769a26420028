// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
)

const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE4qJS2mKXYrE7qkYBHcGu2D0pVxLeHg8Gc8dOQ5vGvN"

func TestParseEntry(t *testing.T) {
	tests := []struct {
		name  string
		key   string
		value string
		want  Entry
	}{
		{
			name: "IPv4", key: "10.1.42.1", value: "username=Administrator",
			want: Entry{Name: "10.1.42.1", Address: "10.1.42.1", Port: 22, Username: "Administrator"},
		},
		{
			name: "DNS name", key: "instance.example.com", value: "username=core",
			want: Entry{Name: "instance.example.com", Address: "instance.example.com", Port: 22, Username: "core"},
		},
		{
			name: "DNS name in capitals with a final dot", key: "WIN-1.Example.COM.", value: "username=core",
			want: Entry{Name: "win-1.example.com", Address: "win-1.example.com", Port: 22, Username: "core"},
		},
		{
			name: "IPv6", key: "fd00--5.ipv6-literal.net", value: "username=core",
			want: Entry{Name: "fd00--5-67cc136b", Address: "fd00::5", Port: 22, Username: "core"},
		},
		{
			name: "IPv6 that begins and ends with a letter", key: "a00--a.ipv6-literal.net", value: "username=core",
			want: Entry{Name: "a00--a-b750e572", Address: "a00::a", Port: 22, Username: "core"},
		},
		{
			name: "IPv6 that begins with colons, not in its shortest form", key: "0-0--0001.IPv6-Literal.net", value: "username=core",
			want: Entry{Name: "1-eff8e7ca", Address: "::1", Port: 22, Username: "core"},
		},
		{
			name: "IPv4 in IPv6", key: "--ffff-a01-2a01.ipv6-literal.net", value: "username=core",
			want: Entry{Name: "10.1.42.1", Address: "10.1.42.1", Port: 22, Username: "core"},
		},
		{
			name: "final newline", key: "10.1.42.1", value: "username=core\n",
			want: Entry{Name: "10.1.42.1", Address: "10.1.42.1", Port: 22, Username: "core"},
		},
		{
			name: "spaces, blank lines and CRLF", key: "10.1.42.1", value: "\r\n  username = core user \r\n\r\n\tport=2222\r\n",
			want: Entry{Name: "10.1.42.1", Address: "10.1.42.1", Port: 2222, Username: "core user"},
		},
		{
			name: "domain account", key: "10.1.42.1", value: `username=EXAMPLE\svc-win`,
			want: Entry{Name: "10.1.42.1", Address: "10.1.42.1", Port: 22, Username: `EXAMPLE\svc-win`},
		},
		{
			name: "as long as can be", key: "10.1.42.1", value: "username=" + strings.Repeat("x", 104) + "\n" + strings.Repeat("hostKey="+hostKey+"\n", 16),
			want: Entry{Name: "10.1.42.1", Address: "10.1.42.1", Port: 22, Username: strings.Repeat("x", 104), HostKeys: slices.Repeat([]string{hostKey}, 16)},
		},
		{
			name: "everything", key: "10.1.42.1", value: "username=core\nport=65535\nname=rack-1\nhostKey=" + hostKey + "\nhostKey=" + hostKey + " win-1\n",
			want: Entry{Name: "rack-1", Address: "10.1.42.1", Port: 65535, Username: "core", HostKeys: []string{hostKey, hostKey + " win-1"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseEntry(tt.key, tt.value)
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Key = tt.key
			if diff := cmp.Diff(tt.want, got, compareAddrs); diff != "" {
				t.Errorf("entry (-want +got):\n%s", diff)
			}
			if problems := validation.IsDNS1123Subdomain(got.Name); len(problems) > 0 {
				t.Errorf("%q is not the name of an object: %v", got.Name, problems)
			}
		})
	}
}

func TestParseEntryErrors(t *testing.T) {
	tests := []struct {
		name  string
		key   string
		value string
		want  string // part of the message
	}{
		{name: "empty value", key: "10.1.42.1", value: "", want: "username=<user> is missing"},
		{name: "no user", key: "10.1.42.1", value: "port=22", want: "username=<user> is missing"},
		{name: "user without =", key: "10.1.42.1", value: "username", want: `line "username" has no "="`},
		{name: "empty user", key: "10.1.42.1", value: "username=", want: "username is empty"},
		{name: "user of spaces", key: "10.1.42.1", value: "username=   ", want: "username is empty"},
		{name: "user twice", key: "10.1.42.1", value: "username=a\nusername=a", want: "username is given more than once"},
		{name: "misspelled", key: "10.1.42.1", value: "notusername=core", want: `"notusername" is not known`},
		{name: "capitals", key: "10.1.42.1", value: "Username=core", want: `"Username" is not known`},
		{name: "unknown line besides the user", key: "10.1.42.1", value: "username=core\nlabels=a", want: `"labels" is not known`},
		{name: "second = goes to the user", key: "10.1.42.1", value: "username=a=b", want: `username "a=b"`},
		{name: "user that Windows has not", key: "10.1.42.1", value: "username=a*b", want: `username "a*b"`},
		{name: "long user", key: "10.1.42.1", value: "username=" + strings.Repeat("x", 105), want: "username is longer than 104"},
		{name: "port 0", key: "10.1.42.1", value: "username=a\nport=0", want: `port "0"`},
		{name: "port too high", key: "10.1.42.1", value: "username=a\nport=65536", want: `port "65536"`},
		{name: "port of letters", key: "10.1.42.1", value: "username=a\nport=ssh", want: `port "ssh"`},
		{name: "name of no object", key: "10.1.42.1", value: "username=a\nname=Rack_1", want: `name "Rack_1"`},
		{name: "no host key", key: "10.1.42.1", value: "username=a\nhostKey=SHA256:abc", want: "hostKeys[0]"},
		{name: "many host keys", key: "10.1.42.1", value: "username=a\n" + strings.Repeat("hostKey="+hostKey+"\n", 17), want: "more than 16"},
		{name: "bare IPv6", key: "::1", value: "username=core", want: "write it as --1.ipv6-literal.net"},
		{name: "IPv6 with zone", key: "fe80--1s4.ipv6-literal.net", value: "username=core", want: "zone"},
		{name: "no IPv6", key: "win-1.ipv6-literal.net", value: "username=core", want: "no IPv6 address"},
		{name: "IPv4 in the form of IPv6", key: "10.1.42.1.ipv6-literal.net", value: "username=core", want: "no IPv6 address"},
		{name: "IPv4 out of range", key: "10.1.42.256", value: "username=core", want: `address "10.1.42.256": is not a valid IPv4 address`},
		{name: "IPv4 with leading zero", key: "010.1.42.1", value: "username=core", want: "is not a valid IPv4 address"},
		{name: "three numbers", key: "10.1.42", value: "username=core", want: "is not a valid IPv4 address"},
		{name: "unspecified", key: "0.0.0.0", value: "username=core", want: "one host"},
		{name: "multicast", key: "224.0.0.1", value: "username=core", want: "one host"},
		{name: "underscore", key: "win_1", value: "username=core", want: `address "win_1"`},
		{name: "hyphen first", key: "-win", value: "username=core", want: `address "-win"`},
		{name: "only a dot", key: ".", value: "username=core", want: "no address"},
		{name: "long and none", key: strings.Repeat("win_1-", 40), value: "username=core", want: `address "win_1-win_1-`},
		{name: "two dots", key: "win..example.com", value: "username=core", want: `address "win..example.com"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseEntry(tt.key, tt.value)
			if err == nil {
				t.Fatalf("got %+v, want an error with %q", got, tt.want)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %q, want one with %q", err, tt.want)
			}
		})
	}
}

// What parseEntry accepts, the API accepts, and whatever it reads, it does not panic.
func FuzzParseEntry(f *testing.F) {
	f.Add("10.1.42.1", "username=core")
	f.Add("--1.ipv6-literal.net", "username")
	f.Add("a.b", "=\n=")
	f.Fuzz(func(t *testing.T, key, value string) {
		entry, err := parseEntry(key, value)
		if err != nil {
			return
		}
		if entry.Username == "" || entry.Address == "" || entry.Port < 1 || len(validation.IsDNS1123Subdomain(entry.Name)) > 0 {
			t.Errorf("parseEntry(%q, %q) = %+v", key, value, entry)
		}
	})
}
