// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// anyDomain stands, in a command for people, for the name of a domain that they know and we do not.
const anyDomain = "DOMAIN"

// account is who is logged in as.
type account struct {
	// user is the name that sshd gets.
	user string
	// principal is the name that sshd makes of it, and which a certificate must have, letter by letter, unless the server has an
	// AuthorizedPrincipalsFile. With anyDomain in front it is known only what follows that.
	principal string
}

// onHost is an account of Windows. Win32-OpenSSH makes its name lower case, and that of a domain domain\user
// with the short name of the domain (contrib/win32/win32compat/pwd.c), before it compares it with those of a certificate.
func onHost(username string) account {
	name := strings.ToLower(username)
	if user, _, found := strings.Cut(name, "@"); found && !strings.Contains(name, `\`) {
		name = anyDomain + `\` + user
	}
	return account{user: username, principal: name}
}

// onBastion is an account of a server that takes names as they are.
func onBastion(username string) account { return account{user: username, principal: username} }

// isOf says whether a certificate for principals is for the account.
func (a account) isOf(principals []string) bool {
	user, found := strings.CutPrefix(a.principal, anyDomain+`\`)
	if !found {
		return slices.Contains(principals, a.principal)
	}
	return slices.ContainsFunc(principals, func(p string) bool {
		domain, name, found := strings.Cut(p, `\`)
		return found && name == user && domain == strings.ToLower(domain)
	})
}

// sign is the command that signs the private key in a key of a Secret for the account.
func (a account) sign(file string) string {
	command := fmt.Sprintf("ssh-keygen -s AUTHORITY -I windows-instance-api -n '%s' -V +52w %s.pub", strings.ReplaceAll(a.principal, "'", `'\''`), file)
	if strings.HasPrefix(a.principal, anyDomain+`\`) {
		command += " (" + anyDomain + " is the short name of the domain in lower case, as whoami prints it on the host)"
	}
	return command
}

// AddKeyByHand says how a person has the host of an instance accept a key as well. sshd before 8.6 reads no file that users can read, as one
// that did not exist would be (Win32-OpenSSH issue 1747).
func AddKeyByHand(instance *v1alpha1.WindowsInstance, key Key) string {
	const file = `C:\ProgramData\ssh\administrators_authorized_keys`
	return fmt.Sprintf("open a shell on the host (kubectl windows exec -it %s -n %s -- powershell) and add the key to the file that its sshd reads, by default: "+
		"Add-Content -Path %[3]s -Value '', '%[4]s'; icacls.exe %[3]s /inheritance:r /grant '*S-1-5-32-544:F' /grant '*S-1-5-18:F'", instance.Name, instance.Namespace, file, key)
}

// SignCommand is the command that signs private-key.pem for a user of hosts, as whom these compare the principals of certificates.
func SignCommand(username string) string { return onHost(username).sign(keyPrivateKey) }
