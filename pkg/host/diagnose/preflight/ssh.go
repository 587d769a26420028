// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// Codes of the findings about the SSH server, through which everything on a host is done.
const (
	codeSSHDoesNotStart = "SSHDoesNotStart"
	codeSSHAtRisk       = "SSHAtRisk"
)

// Well-known SIDs.
const (
	sidSystem           = "S-1-5-18"
	sidAdministrators   = "S-1-5-32-544"
	sidTrustedInstaller = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"
)

// knownAccounts are names for SIDs of accounts that every Windows has.
var knownAccounts = map[string]string{
	"S-1-1-0":      "Everyone",
	"S-1-3-0":      "CREATOR OWNER",
	"S-1-5-4":      "INTERACTIVE",
	"S-1-5-11":     "Authenticated Users",
	"S-1-5-32-545": "Users",
}

// The folders of sshd, and the commands with which only SYSTEM and Administrators may write to them, others read the first, and nobody else
// has the keys: the rights with which sshd makes them itself. /reset goes before, because /inheritance:r leaves what was allowed explicitly.
const (
	sshFolder = `C:\ProgramData\ssh`
	sshLogs   = sshFolder + `\logs`
	sshKeys   = sshFolder + `\ssh_host_*_key`

	repairFolder = `icacls %[1]s /setowner '*S-1-5-32-544'; icacls %[1]s /reset; icacls %[1]s /inheritance:r /grant '*S-1-5-32-544:(OI)(CI)F' /grant '*S-1-5-18:(OI)(CI)F'`
	alsoRead     = ` /grant '*S-1-5-11:(CI)RX'` // not its files, which may have the rights of the folder: others must not read keys
	repairKeys   = `icacls ` + sshKeys + ` /setowner '*S-1-5-32-544'; icacls ` + sshKeys + ` /reset; icacls ` + sshKeys + ` /inheritance:r /grant '*S-1-5-32-544:F' /grant '*S-1-5-18:F'`
)

// maxAccounts is how many accounts a message names.
const maxAccounts = 3

// SSHDoesNotStart says that the SSH server of a host will not be there after a restart, so that nobody could log in: it does not start with
// Windows, as it is after its installation, or it ends when it starts because of rights to its files. Empty: it will, it is not known, or it
// does not run, so that another one lets us in.
func SSHDoesNotStart(facts *api.Facts) string {
	s := runningSSH(facts)
	if s == nil {
		return ""
	}
	if s.StartType != "" && !strings.HasPrefix(s.StartType, "Automatic") {
		return fmt.Sprintf("its service sshd does not start with Windows (%s), so that nobody could log in after a restart; run in PowerShell: Set-Service sshd -StartupType Automatic", s.StartType)
	}
	server := facts.OpenSSH.Server
	if server == nil {
		return ""
	}
	if who, commands := openFolders(server); who != "" && server.EndsOverFolders {
		return fmt.Sprintf("its service sshd (%s) ends when it starts, because others than SYSTEM and the group Administrators own or may write its folders (%s), so that nobody could log in after a restart. Run in PowerShell as an administrator: %s",
			orUnknown(server.Version), who, commands)
	}
	// Keys that are missing are made when it starts, and with one key it starts.
	if refused := refusedKeys(s, server); len(refused) == defaultHostKeys {
		return fmt.Sprintf("its service sshd refuses all its host keys and ends when it starts, because others than SYSTEM and the group Administrators own them or have rights to them (%s in %s), so that nobody could log in after a restart. Run in PowerShell as an administrator: %s",
			strings.Join(refused, ", "), sshFolder, repairKeys)
	}
	return ""
}

// UpdateEndsSSH says that the SSH server of a host may end when it starts after an update of Windows, because that brings a version that looks
// at rights which the present one does not look at. Empty: it will not, or it is not known.
func UpdateEndsSSH(facts *api.Facts) string {
	s := runningSSH(facts)
	if s == nil || facts.OpenSSH.Server == nil || !strings.Contains(strings.ToLower(s.Path), `\system32\openssh\`) || !beforeFolders(facts.OpenSSH.Server) {
		return "" // updates of Windows replace no other
	}
	who, commands := openFolders(facts.OpenSSH.Server)
	if who == "" {
		return ""
	}
	return fmt.Sprintf("others than SYSTEM and the group Administrators own or may write the folders of its service sshd (%s), with which OpenSSH 9.4 to 9.8.1 does not start, as updates of Windows have it from October 2024 on, so that nobody could log in after an update; it has %s. Run in PowerShell as an administrator: %s",
		who, facts.OpenSSH.Server.Version, commands)
}

func checkSSH(facts *api.Facts) (findings []Finding) {
	switch why := SSHDoesNotStart(facts); {
	case why == "":
	case isNode(facts): // changes that need no restart are not in danger
		findings = note(codeSSHDoesNotStart, "%s", why)
	default:
		findings = problem(codeSSHDoesNotStart, "%s", why)
	}
	if why := UpdateEndsSSH(facts); why != "" {
		findings = append(findings, note(codeSSHAtRisk, "%s", why)...)
	}
	return findings
}

// runningSSH is the service of the SSH server that lets us in. Nil: another one does, or it is not known.
func runningSSH(facts *api.Facts) *api.Service {
	s := facts.Service("sshd")
	if s == nil || s.State != "Running" || facts.Unread("services/sshd") {
		return nil
	}
	return s
}

// beforeFolders says whether this is a version from before sshd looked at the rights to its folders, which is 9.4; see EndsOverFolders of package
// facts of the agent. Of a version that is not known it is not.
func beforeFolders(server *api.SSHServer) bool {
	var major, minor int
	if n, err := fmt.Sscanf(server.Version, "%d.%d", &major, &minor); n < 2 || err != nil {
		return false
	}
	return !server.EndsOverFolders && (major < 9 || major == 9 && minor < 4)
}

// openFolders names who may write the folders of sshd, and the commands after which nobody of them may. Empty: nobody.
func openFolders(server *api.SSHServer) (who, commands string) {
	var folders, repairs []string
	for _, folder := range []struct {
		path   string
		access *api.FileAccess
		repair string
	}{
		{sshFolder, server.Folder, fmt.Sprintf(repairFolder+alsoRead, sshFolder)},
		{sshLogs, server.Logs, fmt.Sprintf(repairFolder, sshLogs)},
	} {
		if accounts := writers(folder.access); len(accounts) > 0 {
			folders = append(folders, folder.path+": "+words.Enumerate(accounts, maxAccounts))
			repairs = append(repairs, folder.repair)
		}
	}
	return strings.Join(folders, "; "), strings.Join(repairs, "; ")
}

// fileWrite are the rights to a folder that sshd leaves to administrators: FILE_WRITE_DATA, FILE_APPEND_DATA, FILE_WRITE_EA and
// FILE_WRITE_ATTRIBUTES of Windows.
const fileWrite = 0x2 | 0x4 | 0x10 | 0x100

// writers are those because of whom sshd does not like a folder: check_secure_folder_permission of contrib/win32/win32compat/w32-sshfileperm.c
// in PowerShell/openssh-portable, v9.4.0.0 to v9.8.1.0. It knows no other owner than SYSTEM and Administrators, and looks at no flag of an entry.
func writers(folder *api.FileAccess) (accounts []string) {
	switch {
	case folder == nil:
		return nil
	case folder.Unrestricted:
		return []string{"everybody, as it has no access list"}
	}
	if folder.Owner != sidSystem && folder.Owner != sidAdministrators {
		accounts = append(accounts, accountName(folder.Owner)+" owns it")
	}
	for _, entry := range folder.Allowed {
		if name := accountName(entry.Account); entry.Rights&fileWrite != 0 && !slices.Contains(accounts, name) {
			accounts = append(accounts, name)
		}
	}
	return accounts
}

// defaultHostKeys is how many host keys sshd makes and reads, unless its configuration says otherwise.
const defaultHostKeys = 3

// refusedKeys are the host keys that sshd would not load, by their file names: check_secure_file_permission in the same file, without read_ok, as
// sshkey_perm_ok of authfile.c calls it in all versions. A service with an account of its own trusts that as well.
func refusedKeys(service *api.Service, server *api.SSHServer) (names []string) {
	if !strings.EqualFold(service.Account, "LocalSystem") {
		return nil
	}
	trusted := []string{sidSystem, sidAdministrators, sidTrustedInstaller}
	for _, name := range slices.Sorted(maps.Keys(server.HostKeys)) {
		key := server.HostKeys[name]
		if key.Unrestricted || !slices.Contains(trusted, key.Owner) ||
			slices.ContainsFunc(key.Allowed, func(a api.AllowedAccess) bool { return !slices.Contains(trusted, a.Account) }) {
			names = append(names, name)
		}
	}
	return names
}

// accountName is an account for people: its name where every Windows has it.
func accountName(sid string) string {
	if name := knownAccounts[sid]; name != "" {
		return name + " (" + sid + ")"
	}
	return orUnknown(sid)
}
