// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rules

import (
	"regexp"
	"strings"
	"testing"
)

// sshServer is what a program needs of golang.org/x/crypto/ssh to be a server.
var sshServer = regexp.MustCompile(`\bssh\.(NewServerConn|ServerConfig|ServerConn|ServerAuthCallbacks)\b|\bPublicKeyCallback\b`)

// TestNoProgramIsAnSSHServer keeps out the class of CVE-2024-45337: a server that takes
// the last key that its callback was asked about for the one that a client has proven
// to own. Our programs are clients only; servers are under test.
func TestNoProgramIsAnSSHServer(t *testing.T) {
	read := 0
	for _, f := range readTree(t) {
		if !f.product() || !strings.HasSuffix(f.path, ".go") {
			continue
		}
		read++
		if found := sshServer.FindString(f.content); found != "" {
			t.Errorf("%s uses %s: programs of ours are no SSH servers", f.path, found)
		}
	}
	if read < 50 {
		t.Errorf("only %d files were read", read)
	}
}
