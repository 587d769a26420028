// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package opensshd_test

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

func TestServerRunsCommandsOfItsUser(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{HostKeyTypes: []string{opensshd.RSA, opensshd.Ed25519}})
	client, err := ssh.Dial("tcp", s.Addr(), &ssh.ClientConfig{
		User:              s.User,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(s.Signer)},
		HostKeyAlgorithms: []string{ssh.KeyAlgoRSASHA512},
		HostKeyCallback:   ssh.FixedHostKey(s.HostKey()),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := session.Output("id -un")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(bytes.TrimSpace(out)); got != s.User {
		t.Errorf("the command ran as %q, want %q", got, s.User)
	}
	if n := len(s.Connections()); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	// The shell reads no start-up files of whoever runs the tests.
	if session, err = client.NewSession(); err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	if out, err = session.Output("echo ~"); err != nil || string(bytes.TrimSpace(out)) == home {
		t.Errorf("the home directory is %q, %v", out, err)
	}
}
