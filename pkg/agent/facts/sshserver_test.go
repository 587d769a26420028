// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package facts

import "testing"

func TestSSHProgram(t *testing.T) {
	for _, test := range []struct {
		commandLine string
		want        string
		plain       bool
	}{
		{`C:\WINDOWS\System32\OpenSSH\sshd.exe`, `C:\WINDOWS\System32\OpenSSH\sshd.exe`, true},
		{`%SystemRoot%\System32\OpenSSH\SSHD.EXE `, `%SystemRoot%\System32\OpenSSH\SSHD.EXE`, true},
		{`"C:\Program Files\OpenSSH\sshd.exe"`, `C:\Program Files\OpenSSH\sshd.exe`, true},
		{`C:\Program Files\OpenSSH-Win64\sshd.exe`, `C:\Program Files\OpenSSH-Win64\sshd.exe`, true},
		{`"C:\Program Files\OpenSSH\sshd.exe" -f D:\sshd_config`, `C:\Program Files\OpenSSH\sshd.exe`, false},
		{`C:\Program Files\OpenSSH\sshd.exe -f D:\sshd_config`, `C:\Program Files\OpenSSH\sshd.exe`, false},
		{`sshd.exe`, `sshd.exe`, true},
		{`C:\cygwin64\bin\cygrunsrv.exe`, "", false},
		{`"C:\cygwin64\bin\cygrunsrv.exe" sshd.exe`, "", false},
		{`C:\Program Files\Other\mysshd.exe`, "", false},
		{`"C:\unfinished`, "", false},
		{"", "", false},
	} {
		if got, plain := SSHProgram(test.commandLine); got != test.want || plain != test.plain {
			t.Errorf("SSHProgram(%s) = %q, %t; want %q, %t", test.commandLine, got, plain, test.want, test.plain)
		}
	}
}

func TestEndsOverFolders(t *testing.T) {
	for program, want := range map[string]bool{
		"MZ\x00failed to create %S\x00Directory already exists but folder permissions are invalid\x00":     true,
		"MZ\x00failed to create %S\x00for '%S' folder, consider downgrading permissions for any users\x00": false,
		"": false,
	} {
		if got := EndsOverFolders([]byte(program)); got != want {
			t.Errorf("EndsOverFolders(%q) = %t", program, got)
		}
	}
}

func TestNamesHostKeys(t *testing.T) {
	for config, want := range map[string]bool{
		"": false,
		"#HostKey __PROGRAMDATA__/ssh/ssh_host_rsa_key\r\n# HostKey x\r\nPort 22\r\n":         false,
		"HostKeyAlgorithms ssh-ed25519\nHostCertificate C:/x\nSubsystem sftp sftp-server.exe": false,
		"Port 22\r\n\tHOSTKEY\tC:\\keys\\ssh_host_rsa_key\r\n":                                true,
		"HostKey=C:/keys/ssh_host_rsa_key":                                                    true,
		`"HostKey" C:/keys/ssh_host_rsa_key`:                                                  true,
		"\uFEFFHostKey C:/keys/ssh_host_rsa_key":                                              true,
		"HostKeyAgent \\\\.\\pipe\\openssh-ssh-agent":                                         true,
		"Include sshd_config.d/*.conf":                                                        true,
	} {
		if got := NamesHostKeys(config); got != want {
			t.Errorf("NamesHostKeys(%q) = %t", config, got)
		}
	}
}
