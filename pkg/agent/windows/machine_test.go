// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"bytes"
	"testing"
)

func TestSystemUUID(t *testing.T) {
	header := []byte{0, 3, 3, 0, 0, 0, 0, 0}
	bios := append([]byte{0, 6, 0, 0, 1, 2}, "Maker\x00Version\x00\x00"...)
	noStrings := []byte{126, 4, 7, 0, 0, 0}
	system := func(uuid ...byte) []byte {
		s := append([]byte{1, 0x1b, 1, 0, 1, 2, 0, 0}, uuid...)
		return append(append(s, 6, 0, 0), "Maker\x00Model\x00\x00"...)
	}
	// As dmidecode prints it: 33221100-5544-7766-8899-aabbccddeeff.
	uuid := []byte{0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	for _, test := range []struct {
		name string
		raw  []byte
		want string
	}{
		{"nothing", nil, ""},
		{"no structures", header, ""},
		{"after others", bytes.Join([][]byte{header, bios, noStrings, system(uuid...)}, nil), "33221100-5544-7766-8899-aabbccddeeff"},
		{"none", append(bytes.Clone(header), bios...), ""},
		{"all zero", append(bytes.Clone(header), system(make([]byte, 16)...)...), ""},
		{"all ones", append(bytes.Clone(header), system(bytes.Repeat([]byte{0xff}, 16)...)...), ""},
		{"of a maker who has one for all", append(bytes.Clone(header), system(0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9)...), ""},
		{"of SMBIOS 2.0, without one", append(bytes.Clone(header), 1, 8, 1, 0, 1, 2, 3, 4, 'x', 0, 0), ""},
		{"longer than what is there", append(bytes.Clone(header), 1, 0x1b, 1, 0), ""},
		{"shorter than a structure", append(bytes.Clone(header), 1, 0, 1, 0, 0, 0), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := systemUUID(test.raw); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
