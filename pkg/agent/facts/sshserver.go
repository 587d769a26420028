// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package facts

import (
	"bytes"
	"slices"
	"strings"
)

// SSHProgram is the program that a service of the SSH server of Microsoft runs, from the command line of the service. Empty: it is another
// server's, such as that of Cygwin, which has its service run by a program of another name. plain: the server is told nothing, so that it
// reads the configuration and the keys that it reads by default.
func SSHProgram(commandLine string) (program string, plain bool) {
	const name = "sshd.exe"
	commandLine = strings.TrimSpace(commandLine)
	arguments := ""
	if quoted, isQuoted := strings.CutPrefix(commandLine, `"`); isQuoted {
		program, arguments, _ = strings.Cut(quoted, `"`)
	} else if end := strings.Index(strings.ToLower(commandLine), name) + len(name); end >= len(name) {
		// Before version 9.5 its installer did not quote the path, which may have spaces.
		program, arguments = commandLine[:end], commandLine[end:]
	}
	if !strings.EqualFold(program[strings.LastIndexByte(program, '\\')+1:], name) {
		return "", false
	}
	return program, strings.TrimSpace(arguments) == ""
}

// EndsOverFolders says whether a program sshd.exe of Win32-OpenSSH ends when it starts as a service while others than SYSTEM and the group
// Administrators own or may write %ProgramData%\ssh or its folder logs. It has done so since version 9.4
// (https://github.com/PowerShell/openssh-portable/pull/686, create_directory_withsddl of contrib/win32/win32compat/misc.c), which came with
// updates of Windows in October 2024 (https://github.com/PowerShell/Win32-OpenSSH/issues/2282), and until 9.8.1: since 9.8.2 it only logs that
// (https://github.com/PowerShell/openssh-portable/pull/761). Release notes of updates of Windows of March 2025 (build 25398.1486) call it fixed,
// and name no version of the file. So a program is known by the message that it has for its end.
func EndsOverFolders(program []byte) bool {
	return bytes.Contains(program, []byte("Directory already exists but folder permissions are invalid"))
}

// SSHHostKeys are the files in %ProgramData%\ssh that sshd of Win32-OpenSSH reads its host keys from, unless its configuration names others.
// It makes those that are missing.
func SSHHostKeys() []string {
	return []string{"ssh_host_rsa_key", "ssh_host_ecdsa_key", "ssh_host_ed25519_key"}
}

// NamesHostKeys says whether a configuration of sshd tells it where its host keys are, or may do so.
func NamesHostKeys(config string) bool {
	for line := range strings.Lines(config) {
		// A keyword ends with white space, an equals sign, or a quote; see strdelim of OpenSSH.
		word, _, _ := strings.Cut(strings.NewReplacer("\t", " ", "=", " ", `"`, " ", "\r", " ", "\n", " ").Replace(strings.TrimLeft(line, " \t\"\uFEFF")), " ")
		if slices.Contains([]string{"hostkey", "hostkeyagent", "include"}, strings.ToLower(word)) {
			return true
		}
	}
	return false
}
