// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/facts"
)

// TestOthersIn: who may do what is read as Windows has it, and SYSTEM and Administrators are left out.
func TestOthersIn(t *testing.T) {
	const admins = "S-1-5-32-544"
	for _, test := range []struct {
		name string
		list sddl
		want api.FileAccess
	}{
		{"the folder as sshd makes it", "O:BAD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;AU)", api.FileAccess{
			Owner: admins, Allowed: []api.AllowedAccess{{Account: "S-1-5-11", Rights: 0x1200a9}},
		}},
		{"its logs as sshd makes them", "O:BAD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)", api.FileAccess{Owner: admins}},
		{"what ProgramData has made of it", "O:S-1-5-21-1-2-3-1105D:AI(A;OICIID;FA;;;SY)(A;OICIID;FA;;;BA)(A;OICIIOID;GA;;;CO)(A;OICIID;0x1200a9;;;BU)(A;CIID;DCLCRPCR;;;BU)", api.FileAccess{
			Owner: "S-1-5-21-1-2-3-1105",
			Allowed: []api.AllowedAccess{
				{Account: "S-1-3-0", Rights: 0x10000000}, {Account: "S-1-5-32-545", Rights: 0x1200a9}, {Account: "S-1-5-32-545", Rights: 0x116},
			},
		}},
		{"what is denied allows nothing", "O:SYD:(D;;FA;;;WD)(A;;FA;;;BA)", api.FileAccess{Owner: "S-1-5-18"}},
		{"nobody", "O:BAD:", api.FileAccess{Owner: admins}},
		{"no list", "O:BA", api.FileAccess{Owner: admins, Unrestricted: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			descriptor, err := test.list.descriptor()
			if err != nil {
				t.Fatal(err)
			}
			got, err := othersIn(descriptor)
			if err != nil || !reflect.DeepEqual(*got, test.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, test.want)
			}
		})
	}
	if got, err := othersIn(unrestricted(t)); err != nil || !reflect.DeepEqual(*got, api.FileAccess{Owner: admins, Unrestricted: true}) {
		t.Errorf("of a list that is none: got %+v, %v", got, err)
	}
}

// TestSSHServer reads a program that says what sshd says, and the folders beside it. It runs on whatever Windows the tests run on, Wine included,
// whose access lists have owners and little more.
func TestSSHServer(t *testing.T) {
	directory, err := os.MkdirTemp("", "") //nolint:usetesting // see twoFiles
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	t.Cleanup(func() {
		for _, path := range slices.Backward(append([]string{directory}, made...)) {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
	})
	system, err := windows.GetSystemDirectory()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(system, "kernel32.dll")) // with a version, also in Wine
	if err != nil {
		t.Fatal(err)
	}
	program, folder := filepath.Join(directory, "sshd.exe"), filepath.Join(directory, "ssh")
	write := func(path string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		made = append(made, path)
	}
	read := func(plain bool) *api.SSHServer {
		t.Helper()
		s, err := readSSHServer(program, folder, plain)
		if err != nil {
			t.Error(err)
		}
		return s
	}

	if s := read(true); s.Version != "" || s.EndsOverFolders || s.Folder != nil || s.Logs != nil || s.HostKeys != nil {
		t.Errorf("of a server that is gone it says %+v", s)
	}
	write(program, content)
	for _, path := range []string{folder, filepath.Join(folder, "logs")} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		made = append(made, path)
	}
	s := read(true)
	if !regexp.MustCompile(`^\d+\.\d+\.\d+\.\d+$`).MatchString(s.Version) || s.EndsOverFolders || s.Folder == nil || s.Folder.Owner == "" || s.Logs == nil || s.HostKeys != nil {
		t.Errorf("it says %+v", s)
	}

	write(program, append(content, "\x00Directory already exists but folder permissions are invalid\x00"...))
	for _, name := range append(facts.SSHHostKeys(), "ssh_host_dsa_key") {
		write(filepath.Join(folder, name), nil)
	}
	if s := read(true); !s.EndsOverFolders || !slices.Equal(slices.Sorted(maps.Keys(s.HostKeys)), slices.Sorted(slices.Values(facts.SSHHostKeys()))) {
		t.Errorf("it says %+v", s)
	}
	if s := read(false); !s.EndsOverFolders || s.HostKeys != nil {
		t.Errorf("of a server that may read other keys it says %+v", s)
	}
	write(filepath.Join(folder, "sshd_config"), []byte("#HostKey x\r\n"))
	if s := read(true); len(s.HostKeys) != len(facts.SSHHostKeys()) {
		t.Errorf("it says %+v", s)
	}
	write(filepath.Join(folder, "sshd_config"), []byte("HostKey D:/key\r\n"))
	if s := read(true); s.HostKeys != nil {
		t.Errorf("of a server that reads other keys it says %+v", s)
	}

	if s, err := sshServer(nil); s != nil || err != nil {
		t.Errorf("of no service it says %+v, %v", s, err)
	}
	if s, err := sshServer(&api.Service{Name: "sshd", Path: `C:\cygwin64\bin\cygrunsrv.exe`}); s != nil || err != nil {
		t.Errorf("of another SSH server it says %+v, %v", s, err)
	}
	if s, err := sshServer(&api.Service{Name: "sshd", Path: `"` + program + `"`}); err != nil || s == nil || !s.EndsOverFolders {
		t.Errorf("of the service it says %+v, %v", s, err)
	}
}
