// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco_test

import (
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// FuzzDecryptUsername reads anything as the annotation of a Node, which whoever may
// change Nodes writes: it is refused, or it is a name of a bounded length.
func FuzzDecryptUsername(f *testing.F) {
	for _, value := range []string{
		"", "wcwEBA==", "<wmcoMarker>", "-----BEGIN ENCRYPTED DATA-----\n\n=twTO\n-----END ENCRYPTED DATA-----",
		"wx4EBwMIzWcb8yDDWLlgLYhMoh5ZvlC9jzWzC9kX7+bS4AHk<wmcoMarker>=1MQB",
		"-----BEGIN PGP MESSAGE-----\n\nwx4=\n-----END PGP MESSAGE-----", strings.Repeat("A", 4096),
	} {
		f.Add(value, "key")
	}
	f.Add(writtenByPeer, passphrase)
	f.Fuzz(func(t *testing.T, value, key string) {
		name, err := wmco.DecryptUsername(value, []byte(key))
		if err == nil && len(name) > 1024 {
			t.Errorf("a name of %d bytes", len(name))
		}
		if err != nil && name != "" {
			t.Errorf("refused, and told %q", name)
		}
		if err != nil && len(key) > 16 && !strings.Contains(value, key) && strings.Contains(err.Error(), key) {
			t.Errorf("the error %q tells the key", err)
		}
	})
}

// FuzzGCPHostname holds the name that a host shall have to what a Node may be named.
func FuzzGCPHostname(f *testing.F) {
	for _, name := range []string{"", "w", "w.c.project.internal", strings.Repeat("a", 64), strings.Repeat("a", 63) + ".b", "." + strings.Repeat("b", 80), strings.Repeat("ä", 40)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, fqdn string) {
		got := wmco.GCPHostname(fqdn)
		if len(got) > 63 || !strings.HasPrefix(fqdn, got) || fqdn != "" && got == "" {
			t.Errorf("GCPHostname(%q) = %q", fqdn, got)
		}
	})
}
