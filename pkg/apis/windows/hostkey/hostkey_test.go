// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hostkey_test

import (
	"slices"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/hostkey"
)

const (
	testKey  = "AAAAC3NzaC1lZDI1NTE5AAAAIIxY8OpLhd2xo8zmHknLAYqDzSTGtbqXqRhsmoiYPdDi"
	testLine = "ssh-ed25519 " + testKey
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       string // empty: it is none
	}{
		{"type and key", testLine, testKey},
		{"a comment after it", testLine + " root@win-1 # of the console", testKey},
		{"a line of comment before it", "# win-1, read on its console\n" + testLine, testKey},
		{"empty lines around it", "\n \t\n" + testLine + "\n", testKey},
		{"tabs and the ends of lines of Windows", "\r\nssh-ed25519\t" + testKey + "\r\n", testKey},
		{"options", `no-pty ` + testLine, ""},
		{"two keys", testLine + "\n" + testLine, ""},
		{"no type", testKey, ""},
		{"no key", "ssh-ed25519", ""},
		{"only a comment", "# " + testLine, ""},
		{"nothing", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key, err := hostkey.Parse(tt.text)
			if (err == nil) != (tt.want != "") || err == nil && (hostkey.Base64(key) != tt.want || key.Type() != "ssh-ed25519") {
				t.Errorf("got %v, %v", key, err)
			}
			if tt.want != "" {
				if key, err := hostkey.ParseBase64(tt.want); err != nil || hostkey.Base64(key) != tt.want {
					t.Errorf("got %v, %v", key, err)
				}
			}
			if got := hostkey.Base64Of([]string{"none", tt.text}); tt.want == "" && len(got) > 0 || tt.want != "" && !slices.Equal(got, []string{tt.want}) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestParseBase64Refuses(t *testing.T) {
	for _, text := range []string{"", "!", "AAAA", testLine, testKey[:40], testKey + "AAAA"} {
		if key, err := hostkey.ParseBase64(text); err == nil {
			t.Errorf("%q is %v", text, key)
		}
	}
}
