// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package preflight

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/words"
)

const (
	users  = "S-1-5-32-545"
	person = "S-1-5-21-1004336348-1177238915-682003330-1105"
)

// access is that of a file of Administrators, with entries for others.
func access(allowed ...api.AllowedAccess) *api.FileAccess {
	return &api.FileAccess{Owner: sidAdministrators, Allowed: allowed}
}

// sshFacts are those of a host with sshd of a version, and the rights with which that makes its files.
func sshFacts(version string, endsOverFolders bool) *api.Facts {
	facts := goodFacts()
	facts.Services = []api.Service{{Name: "sshd", State: "Running", StartType: "Automatic", Path: `C:\Windows\System32\OpenSSH\sshd.exe`, Account: "LocalSystem"}}
	facts.OpenSSH.Server = &api.SSHServer{
		Version: version, EndsOverFolders: endsOverFolders,
		Folder:   access(api.AllowedAccess{Account: "S-1-5-11", Rights: 0x1200a9}),
		Logs:     access(),
		HostKeys: map[string]api.FileAccess{"ssh_host_rsa_key": *access(), "ssh_host_ecdsa_key": *access(), "ssh_host_ed25519_key": {Owner: sidSystem}},
	}
	return facts
}

// TestSSHFolders: which rights to the folders of which sshd are in the way, and of what.
func TestSSHFolders(t *testing.T) {
	writable := func(rights uint32) func(*api.Facts) {
		return func(f *api.Facts) { f.OpenSSH.Server.Logs = access(api.AllowedAccess{Account: users, Rights: rights}) }
	}
	const modify = 0x1301bf
	for _, test := range []struct {
		name    string
		version string
		ends    bool
		change  func(*api.Facts)
		want    []string
		says    string
	}{
		{"as it makes them", "9.5.2.1", true, func(*api.Facts) {}, []string{}, ""},
		{"others may write logs", "9.5.2.1", true, writable(modify), []string{"SSHDoesNotStart!"}, `(C:\ProgramData\ssh\logs: Users (S-1-5-32-545))`},
		{"others may write data", "9.5.2.1", true, writable(0x2), []string{"SSHDoesNotStart!"}, ""},
		{"others may append", "9.5.2.1", true, writable(0x4), []string{"SSHDoesNotStart!"}, ""},
		{"others may write extended attributes", "9.5.2.1", true, writable(0x10), []string{"SSHDoesNotStart!"}, ""},
		{"others may write attributes", "9.5.2.1", true, writable(0x100), []string{"SSHDoesNotStart!"}, ""},
		// check_secure_folder_permission knows these four rights only.
		{"others may read and delete", "9.5.2.1", true, writable(0x1300a9), []string{}, ""},
		{"a generic right for what is made in it", "9.5.2.1", true, writable(0x10000000), []string{}, ""},
		{"others may write the folder", "9.5.0.0", true, func(f *api.Facts) {
			f.OpenSSH.Server.Folder = access(api.AllowedAccess{Account: users, Rights: modify}, api.AllowedAccess{Account: users, Rights: 0x116}, api.AllowedAccess{Account: "S-1-3-0", Rights: 0x1f01ff})
		}, []string{"SSHDoesNotStart!"}, `(C:\ProgramData\ssh: Users (S-1-5-32-545), CREATOR OWNER (S-1-3-0))`},
		{"somebody owns it", "9.5.2.1", true, func(f *api.Facts) { f.OpenSSH.Server.Logs.Owner = person }, []string{"SSHDoesNotStart!"}, person + " owns it"},
		{"what installs Windows owns it", "9.5.2.1", true, func(f *api.Facts) { f.OpenSSH.Server.Folder.Owner = sidTrustedInstaller }, []string{"SSHDoesNotStart!"}, ""},
		{"SYSTEM owns it", "9.5.2.1", true, func(f *api.Facts) { f.OpenSSH.Server.Folder.Owner = sidSystem }, []string{}, ""},
		{"it has no access list", "9.5.2.1", true, func(f *api.Facts) { f.OpenSSH.Server.Logs.Unrestricted = true }, []string{"SSHDoesNotStart!"}, "everybody"},
		{"both", "9.8.1.0", true, func(f *api.Facts) {
			writable(modify)(f)
			f.OpenSSH.Server.Folder.Owner = person
		}, []string{"SSHDoesNotStart!"}, person + ` owns it; C:\ProgramData\ssh\logs: `},
		{"many", "9.5.2.1", true, func(f *api.Facts) {
			for _, end := range []string{"1", "2", "3", "4", "5"} {
				f.OpenSSH.Server.Logs.Allowed = append(f.OpenSSH.Server.Logs.Allowed, api.AllowedAccess{Account: person + end, Rights: modify})
			}
		}, []string{"SSHDoesNotStart!"}, person + "3 and 2 more)"},
		{"there are none yet", "9.5.2.1", true, func(f *api.Facts) {
			f.OpenSSH.Server.Folder, f.OpenSSH.Server.Logs, f.OpenSSH.Server.HostKeys = nil, nil, nil
		}, []string{}, ""},
		{"of a node", "9.5.2.1", true, func(f *api.Facts) {
			writable(modify)(f)
			f.Services = append(f.Services, api.Service{Name: "kubelet", State: "Running", Description: "OpenShift managed kubelet"})
		}, []string{"SSHDoesNotStart"}, ""},
		{"its own installer's", "9.4.0.0", true, func(f *api.Facts) {
			writable(modify)(f)
			f.Services[0].Path = `"C:\Program Files\OpenSSH\sshd.exe"`
		}, []string{"SSHDoesNotStart!"}, ""},
		{"it only logs that", "9.5.5.1", false, writable(modify), []string{}, ""},
		{"a version before that", "8.1.0.1", false, writable(modify), []string{"SSHAtRisk"}, "it has 8.1.0.1"},
		{"the last version before that", "9.2.2.1", false, writable(modify), []string{"SSHAtRisk"}, ""},
		{"a version before that, its own installer's", "8.9.1.0", false, func(f *api.Facts) {
			writable(modify)(f)
			f.Services[0].Path = `C:\Program Files\OpenSSH-Win64\sshd.exe`
		}, []string{}, ""},
		{"a version before that, as it makes them", "8.1.0.1", false, func(*api.Facts) {}, []string{}, ""},
		{"a version that is not known", "", false, writable(modify), []string{}, ""},
		{"a version that cannot be read", "9", false, writable(modify), []string{}, ""},
		{"another SSH server lets us in", "9.5.2.1", true, func(f *api.Facts) {
			writable(modify)(f)
			f.Services[0].State = "Stopped"
		}, []string{}, ""},
		{"another SSH server has the name", "", true, func(f *api.Facts) {
			f.Services[0].Path, f.OpenSSH.Server = `C:\cygwin64\bin\cygrunsrv.exe`, nil
		}, []string{}, ""},
		{"there is no such service", "9.5.2.1", true, func(f *api.Facts) {
			writable(modify)(f)
			f.Services = nil
		}, []string{}, ""},
		{"an agent that does not say it", "9.5.2.1", true, func(f *api.Facts) { f.OpenSSH.Server = nil }, []string{}, ""},
		{"it starts by hand, too", "9.5.2.1", true, func(f *api.Facts) {
			writable(modify)(f)
			f.Services[0].StartType = "Manual"
		}, []string{"SSHDoesNotStart!"}, "Set-Service"},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := sshFacts(test.version, test.ends)
			test.change(facts)
			got := Evaluate(facts, testNow, testNow)
			if diff := cmp.Diff(test.want, codes(got)); diff != "" {
				t.Fatalf("(-want +got)\n%s", diff)
			}
			if len(got) > 0 && !strings.Contains(got[0].Message, test.says) {
				t.Errorf("the message is %q", got[0].Message)
			}
		})
	}
}

// TestSSHHostKeys: sshd does not start when others have any right to all of its host keys.
func TestSSHHostKeys(t *testing.T) {
	readable := *access(api.AllowedAccess{Account: "S-1-5-11", Rights: 0x1200a9})
	all := func(key api.FileAccess) func(*api.Facts) {
		return func(f *api.Facts) {
			for name := range f.OpenSSH.Server.HostKeys {
				f.OpenSSH.Server.HostKeys[name] = key
			}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*api.Facts)
		want   bool
	}{
		{"others may read them", all(readable), true},
		{"somebody owns them", all(api.FileAccess{Owner: person}), true},
		{"they have no access list", all(api.FileAccess{Owner: sidSystem, Unrestricted: true}), true},
		{"what installs Windows owns them, and may read them", all(api.FileAccess{Owner: sidTrustedInstaller, Allowed: []api.AllowedAccess{{Account: sidTrustedInstaller, Rights: 1}}}), false},
		{"one is left", func(f *api.Facts) {
			all(readable)(f)
			f.OpenSSH.Server.HostKeys["ssh_host_ed25519_key"] = *access()
		}, false},
		{"one is made when it starts", func(f *api.Facts) {
			all(readable)(f)
			delete(f.OpenSSH.Server.HostKeys, "ssh_host_rsa_key")
		}, false},
		{"it reads others", func(f *api.Facts) { f.OpenSSH.Server.HostKeys = nil }, false},
		{"it runs as somebody else", func(f *api.Facts) {
			all(api.FileAccess{Owner: person})(f)
			f.Services[0].Account = `.\sshd`
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, version := range []string{"7.7.2.1", "9.5.2.1"} {
				facts := sshFacts(version, version == "9.5.2.1")
				test.change(facts)
				if got := SSHDoesNotStart(facts); (got != "") != test.want || test.want && !strings.Contains(got, "ssh_host_ecdsa_key, ssh_host_ed25519_key, ssh_host_rsa_key") {
					t.Errorf("%s: got %q", version, got)
				}
			}
		})
	}
}

// TestSSHCommands: what the findings say to run is what the documents say to run, on the folders that are wrong.
func TestSSHCommands(t *testing.T) {
	const (
		folder = `icacls C:\ProgramData\ssh /setowner '*S-1-5-32-544'; icacls C:\ProgramData\ssh /reset; icacls C:\ProgramData\ssh /inheritance:r /grant '*S-1-5-32-544:(OI)(CI)F' /grant '*S-1-5-18:(OI)(CI)F' /grant '*S-1-5-11:(CI)RX'`
		logs   = `icacls C:\ProgramData\ssh\logs /setowner '*S-1-5-32-544'; icacls C:\ProgramData\ssh\logs /reset; icacls C:\ProgramData\ssh\logs /inheritance:r /grant '*S-1-5-32-544:(OI)(CI)F' /grant '*S-1-5-18:(OI)(CI)F'`
		keys   = `icacls C:\ProgramData\ssh\ssh_host_*_key /setowner '*S-1-5-32-544'; icacls C:\ProgramData\ssh\ssh_host_*_key /reset; icacls C:\ProgramData\ssh\ssh_host_*_key /inheritance:r /grant '*S-1-5-32-544:F' /grant '*S-1-5-18:F'`
	)
	document, err := os.ReadFile("../../../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{folder, logs, keys} {
		if !strings.Contains(string(document), "\n"+command+"\n") {
			t.Errorf("docs/troubleshooting.md does not have %s", command)
		}
	}
	facts := sshFacts("9.5.2.1", true)
	server := facts.OpenSSH.Server
	server.Logs.Owner = person
	const run = "Run in PowerShell as an administrator: "
	if got := SSHDoesNotStart(facts); !strings.HasSuffix(got, run+logs) || strings.Contains(words.FirstSentence(got), "icacls") { // half of the commands would be worse than none
		t.Errorf("got %q", got)
	}
	server.Folder.Owner = person
	if got := SSHDoesNotStart(facts); !strings.HasSuffix(got, run+folder+"; "+logs) {
		t.Errorf("got %q", got)
	}
	server.Version, server.EndsOverFolders = "8.1.0.1", false
	if got := UpdateEndsSSH(facts); !strings.HasSuffix(got, run+folder+"; "+logs) || SSHDoesNotStart(facts) != "" {
		t.Errorf("got %q, and %q", got, SSHDoesNotStart(facts))
	}
	for name := range server.HostKeys {
		server.HostKeys[name] = api.FileAccess{Owner: person}
	}
	if got := SSHDoesNotStart(facts); !strings.HasSuffix(got, run+keys) {
		t.Errorf("got %q", got)
	}
}
