// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// KeyFiles are those of an administrator.
func (h *fakeHost) KeyFiles() ([]string, error) { return []string{sharedKeys, ownKeys}, h.keysErr }

const (
	sharedKeys = `C:\ProgramData\ssh\administrators_authorized_keys`
	ownKeys    = `C:\Users\Administrator\.ssh\authorized_keys`
)

// ReplaceKeeping keeps the content, and fails where the disk is full.
func (s system) ReplaceKeeping(path string, content []byte) error {
	if s.full == path {
		return ErrDiskFull
	}
	s.files[path] = string(content)
	return nil
}

// WriteFile keeps the content, and fails where the disk is full.
func (s system) WriteFile(path string, content []byte, access config.Access) error {
	if access != config.AccessAdministrators {
		return fmt.Errorf("%s gets the access %s", path, access)
	}
	return s.ReplaceKeeping(path, content)
}

// keyText is a public key of a type whose content is a word.
func keyText(algorithm, content string) string {
	var blob []byte
	for _, part := range []string{algorithm, content} {
		blob = append(binary.BigEndian.AppendUint32(blob, uint32(len(part))), part...)
	}
	return algorithm + " " + base64.StdEncoding.EncodeToString(blob)
}

var (
	oldKey   = keyText("ssh-rsa", "old")
	olderKey = keyText("ssh-ed25519", "older")
	newKey   = keyText("ssh-ed25519", "new")
	theirs   = keyText("ecdsa-sha2-nistp256", "theirs")
)

func TestAuthorize(t *testing.T) {
	add := api.AuthorizeRequest{Key: newKey, Former: []string{oldKey, olderKey}}
	remove := api.AuthorizeRequest{Key: newKey, Former: []string{oldKey, olderKey}, Remove: true}
	password := api.AuthorizeRequest{Key: newKey, Former: []string{oldKey}, Password: true}
	certified := api.AuthorizeRequest{Key: newKey, Former: []string{oldKey}, Certified: true}
	both := []string{sharedKeys, ownKeys}
	shared := both[:1]
	tests := []struct {
		name    string
		request api.AuthorizeRequest
		files   stateFiles
		full    string
		err     error
		want    stateFiles // nil: as before
		answer  api.AuthorizeAnswer
	}{
		{
			name: "beside the old one", request: add,
			files: stateFiles{sharedKeys: theirs + " them\n" + oldKey + " core@bastion\n# the end\n"},
			want:  stateFiles{sharedKeys: theirs + " them\n" + oldKey + " core@bastion\n# the end\n" + newKey + "\n"}, answer: api.AuthorizeAnswer{Changed: shared},
		},
		{
			name: "in each file that has an old one", request: add,
			files: stateFiles{sharedKeys: oldKey + "\n", ownKeys: olderKey + "\n"},
			want:  stateFiles{sharedKeys: oldKey + "\n" + newKey + "\n", ownKeys: olderKey + "\n" + newKey + "\n"}, answer: api.AuthorizeAnswer{Changed: both},
		},
		{
			name: "lines of Windows, a byte order mark and no end of line", request: add,
			files: stateFiles{ownKeys: "\ufeff" + oldKey + "\r\n\r\n" + theirs},
			want:  stateFiles{ownKeys: "\ufeff" + oldKey + "\r\n\r\n" + theirs + "\r\n" + newKey + "\r\n"}, answer: api.AuthorizeAnswer{Changed: both[1:]},
		},
		{
			name: "with the options of each old line", request: add,
			files: stateFiles{sharedKeys: `from="10.0.0.0/8",command="echo \"a b\"" ` + oldKey + "\n  restrict " + oldKey + "\nrestrict " + oldKey + " again\n"},
			want: stateFiles{sharedKeys: `from="10.0.0.0/8",command="echo \"a b\"" ` + oldKey + "\n  restrict " + oldKey + "\nrestrict " + oldKey + " again\n" +
				`from="10.0.0.0/8",command="echo \"a b\"" ` + newKey + "\nrestrict " + newKey + "\n"}, answer: api.AuthorizeAnswer{Changed: shared},
		},
		{name: "it is there already", request: add, files: stateFiles{sharedKeys: "restrict " + newKey + " by hand\n" + oldKey}},
		{name: "it is there alone", request: add, files: stateFiles{ownKeys: newKey}},
		{
			name: "the key in use is elsewhere", request: add, files: stateFiles{sharedKeys: theirs + "\n#" + oldKey + "\n"},
			answer: api.AuthorizeAnswer{Elsewhere: true, Refused: "the key that logs in is not in " + sharedKeys + ", nor in " + ownKeys + ": sshd takes it from elsewhere, see AuthorizedKeysFile and AuthorizedKeysCommand in its sshd_config"},
		},
		{
			name: "who signs keys is no key", request: add, files: stateFiles{sharedKeys: "cert-authority " + oldKey + "\n" + `principals="a,b",CERT-authority ` + oldKey},
			answer: api.AuthorizeAnswer{Elsewhere: true, Refused: "the key that logs in is not in " + sharedKeys + ", nor in " + ownKeys + ": sshd takes it from elsewhere, see AuthorizedKeysFile and AuthorizedKeysCommand in its sshd_config"},
		},
		{
			name: "a command that is called like an option", request: add, files: stateFiles{sharedKeys: `command="a,cert-authority,b" ` + oldKey + "\n"},
			want:   stateFiles{sharedKeys: `command="a,cert-authority,b" ` + oldKey + "\n" + `command="a,cert-authority,b" ` + newKey + "\n"},
			answer: api.AuthorizeAnswer{Changed: shared},
		},
		{name: "with a password", request: password, files: stateFiles{}, want: stateFiles{sharedKeys: newKey + "\n"}, answer: api.AuthorizeAnswer{Changed: shared}},
		{
			name: "with a password, beside others", request: password, files: stateFiles{sharedKeys: theirs}, want: stateFiles{sharedKeys: theirs + "\n" + newKey + "\n"},
			answer: api.AuthorizeAnswer{Changed: shared},
		},
		{name: "with a password, again", request: password, files: stateFiles{sharedKeys: newKey}},
		{
			name: "with a password, where a key was too", request: password, files: stateFiles{ownKeys: oldKey + "\n"},
			want: stateFiles{ownKeys: oldKey + "\n" + newKey + "\n"}, answer: api.AuthorizeAnswer{Changed: both[1:]},
		},
		{name: "with a certificate", request: certified, files: stateFiles{sharedKeys: theirs + "\n"}, answer: api.AuthorizeAnswer{Elsewhere: true}},
		{
			name: "with a certificate, where a former key is too", request: certified, files: stateFiles{sharedKeys: oldKey + "\n"},
			want: stateFiles{sharedKeys: oldKey + "\n" + newKey + "\n"}, answer: api.AuthorizeAnswer{Changed: shared},
		},
		{
			name: "a full disk", request: add, full: ownKeys, files: stateFiles{sharedKeys: oldKey + "\n", ownKeys: oldKey + "\n"},
			want:   stateFiles{sharedKeys: oldKey + "\n" + newKey + "\n", ownKeys: oldKey + "\n"},
			answer: api.AuthorizeAnswer{Changed: shared, Refused: "writing " + ownKeys + ": the disk is full"},
		},
		{
			name: "the old ones go, all of them and nothing else", request: remove,
			files:  stateFiles{sharedKeys: "\ufeff" + oldKey + " core\r\n# " + oldKey + "\r\nrestrict " + olderKey + "\r\ncert-authority " + oldKey + "\r\n\r\n" + newKey + "\r\n" + oldKey},
			want:   stateFiles{sharedKeys: "\ufeff# " + oldKey + "\r\ncert-authority " + oldKey + "\r\n\r\n" + newKey + "\r\n"},
			answer: api.AuthorizeAnswer{Changed: shared},
		},
		{name: "they are elsewhere", request: remove, files: stateFiles{sharedKeys: theirs}, answer: api.AuthorizeAnswer{Elsewhere: true}},
		{name: "they are gone already", request: remove, files: stateFiles{sharedKeys: newKey}},
		{
			name: "no file loses the old key before it has the new one", request: remove,
			files:  stateFiles{sharedKeys: oldKey + "\n" + newKey, ownKeys: oldKey},
			answer: api.AuthorizeAnswer{Refused: ownKeys + " has a former key and not the one that takes its place: nothing was removed"},
		},
		{name: "not a key", request: api.AuthorizeRequest{Key: "ssh-ed25519"}, answer: api.AuthorizeAnswer{Refused: `"ssh-ed25519" is not a public key: it has no base64`}},
		{
			name: "not the key that it says", request: api.AuthorizeRequest{Key: newKey, Former: []string{"ssh-rsa " + strings.Fields(newKey)[1]}},
			answer: api.AuthorizeAnswer{Refused: `a key of type "ssh-rsa" has another type in it`},
		},
		{
			name: "both old and new", request: api.AuthorizeRequest{Key: newKey, Former: []string{newKey + " comment"}},
			answer: api.AuthorizeAnswer{Refused: "the key is one of those that it takes the place of"},
		},
		{
			name: "too many", request: api.AuthorizeRequest{Key: newKey, Former: make([]string, 65)},
			answer: api.AuthorizeAnswer{Refused: "65 former keys are more than the 64 of one request"},
		},
		{
			name: "a file without end", request: add, files: stateFiles{sharedKeys: oldKey + "\n" + strings.Repeat("#", maxKeyFile)},
			answer: api.AuthorizeAnswer{Refused: sharedKeys + ": it has more than 1048576 bytes"},
		},
		{name: "no profile", request: add, err: errors.New("access is denied"), answer: api.AuthorizeAnswer{Refused: "finding the files of authorized keys: access is denied"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newFakeHost(t)
			h.files, h.full, h.keysErr = stateFiles{}, tt.full, tt.err
			want := stateFiles{}
			for path, text := range tt.files {
				h.files[path], want[path] = text, text
			}
			maps.Copy(want, tt.want)
			stdin, err := json.Marshal(tt.request)
			if err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			code := Main(t.Context(), h, []string{api.CommandAuthorize}, bytes.NewReader(stdin), &stdout, &stderr)
			var got api.AuthorizeAnswer
			if err := json.Unmarshal(stdout.Bytes(), &got); code != api.ExitOK || err != nil {
				t.Fatalf("got code %d, %v, %s", code, err, stderr.String())
			}
			if diff := cmp.Diff(tt.answer, got); diff != "" {
				t.Errorf("answer (-want +got)\n%s", diff)
			}
			delete(h.files, api.ReplacedKeysPath)
			if diff := cmp.Diff(want, h.files); diff != "" {
				t.Errorf("files (-want +got)\n%s", diff)
			}
		})
	}
}

// FuzzKeyFile: what is not one of the keys stays, byte by byte, and what was done is not done again.
func FuzzKeyFile(f *testing.F) {
	for _, seed := range []string{"", oldKey, "\ufeff" + oldKey + "\r\n" + theirs, `from="a b" ` + oldKey + "\n\n#", "\xff\xfe" + oldKey} {
		f.Add([]byte(seed))
	}
	was, err := parsePublicKey(oldKey)
	if err != nil {
		f.Fatal(err)
	}
	is, err := parsePublicKey(newKey)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		a := authorization{key: is, former: []publicKey{was}}
		changes, _, err := a.changes([]string{"a"}, []keyFile{content})
		if err != nil {
			return
		}
		file := keyFile(content)
		if changes[0] != nil {
			file = changes[0]
		}
		if !bytes.HasPrefix(file, content) || len(file.keys(is)) == 0 {
			t.Fatalf("%q became %q", content, file)
		}
		again, _, err := a.changes([]string{"a"}, []keyFile{file})
		if err != nil || again[0] != nil {
			t.Fatalf("%q is changed again, to %q, %v", file, again[0], err)
		}
		a.remove = true
		removed, _, err := a.changes([]string{"a"}, []keyFile{file})
		if err != nil {
			t.Fatal(err)
		}
		if rest := removed[0]; rest != nil && (len(rest.keys(was)) > 0 || len(rest.keys(is)) != len(file.keys(is))) {
			t.Fatalf("%q became %q", file, rest)
		}
	})
}
