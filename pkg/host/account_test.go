// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import "testing"

// TestAccounts: sshd of Windows compares the principals of a certificate with a name that it has made lower case, and that of a
// bastion with the name as it is.
func TestAccounts(t *testing.T) {
	for _, test := range []struct {
		name      string
		account   account
		principal string
		want      bool
	}{
		{"a local account", onHost("Administrator"), "administrator", true},
		{"as it is written", onHost("Administrator"), "Administrator", false},
		{"of a domain", onHost(`CORP\Admin`), `corp\admin`, true},
		{"without its domain", onHost(`CORP\Admin`), "admin", false},
		{"of another domain", onHost(`CORP\Admin`), `lab\admin`, false},
		{"of a domain in capital letters", onHost(`CORP\Admin`), `CORP\admin`, false},
		{"user@domain", onHost("Admin@corp.example.com"), `corp\admin`, true},
		{"user@domain as it is", onHost("admin@corp.example.com"), "admin@corp.example.com", false},
		{"user@domain in capital letters", onHost("Admin@corp.example.com"), `CORP\Admin`, false},
		{"user@domain, the domain in capital letters", onHost("Admin@corp.example.com"), `CORP\admin`, false},
		{"user@domain, another user", onHost("admin@corp.example.com"), `corp\somebody`, false},
		{"on a bastion", onBastion("Jump"), "Jump", true},
		{"on a bastion, lower case", onBastion("Jump"), "jump", false},
		{"on a bastion, with a domain", onBastion("jump@example.com"), "jump@example.com", true},
	} {
		if got := test.account.isOf([]string{"another", test.principal}); got != test.want {
			t.Errorf("%s: a certificate for %s is for it: %v", test.name, test.principal, got)
		}
	}
	for username, want := range map[string]string{
		"Administrator":  "ssh-keygen -s AUTHORITY -I windows-instance-api -n 'administrator' -V +52w private-key.pem.pub",
		`CORP\O'Neil`:    `ssh-keygen -s AUTHORITY -I windows-instance-api -n 'corp\o'\''neil' -V +52w private-key.pem.pub`,
		"admin@corp.com": `ssh-keygen -s AUTHORITY -I windows-instance-api -n 'DOMAIN\admin' -V +52w private-key.pem.pub (DOMAIN is the short name of the domain in lower case, as whoami prints it on the host)`,
	} {
		if got := SignCommand(username); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
