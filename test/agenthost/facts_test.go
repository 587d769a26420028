// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

func TestOSRelease(t *testing.T) {
	product, id, release := osRelease("PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=x\nVERSION_ID='12'\nID=debian\n")
	if product != "Debian GNU/Linux 12 (bookworm)" || id != "debian" || release != "12" {
		t.Errorf("got %q, %q, %q", product, id, release)
	}
}

func TestListeners(t *testing.T) {
	table := filepath.Join(t.TempDir(), "tcp")
	text := "  sl  local_address rem_address   st tx_queue\n" +
		"   0: 0100007F:0016 00000000:0000 0A 0\n" + // 127.0.0.1:22 listening
		"   1: 0100007F:280A 0100007F:1F90 01 0\n" + // 10250, connected
		"   2: 00000000:1F90 00000000:0000 0A 0\n" + // 8080, of no interest
		"   3: 00000000000000000000000001000000:280A 0:0 0A 0\n" + // [::1]:10250
		"   4: broken\n"
	if err := os.WriteFile(table, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := listeners(table)
	if err != nil {
		t.Fatal(err)
	}
	want := []api.Listener{{Port: 22, Address: "127.0.0.1"}, {Port: 10250, Address: "::1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listeners (-want +got):\n%s", diff)
	}
	if _, err := listeners(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a missing table is no error")
	}
}

func TestParseListener(t *testing.T) {
	for _, s := range []string{"", ":", "0100007F", "0100007F:1F90F", "0100:1F90", "0100007G:0016"} {
		if l, ok := parseListener(s); ok {
			t.Errorf("parseListener(%q) = %+v", s, l)
		}
	}
	l, ok := parseListener("0100007F:2328")
	if !ok || !slices.Equal(net.ParseIP(l.Address), net.IPv4(127, 0, 0, 1)) || l.Port != 9000 {
		t.Errorf("got %+v, %v", l, ok)
	}
}
