// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// FuzzProtocol sends anything to each sub-command that reads a request, and proves that
// the agent answers in its protocol, tells nothing that it was not asked for, and
// restarts a host only in the boot that the request names.
func FuzzProtocol(f *testing.F) {
	dir := f.TempDir()
	root := filepath.Join(dir, "log")
	if err := os.Mkdir(root, 0o700); err != nil {
		f.Fatal(err)
	}
	for path, content := range map[string]string{
		filepath.Join(root, "kubelet.log"): "one\r\ntwo\r\n",
		filepath.Join(dir, "secret.log"):   "s3cret\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	commands := []string{api.CommandLogs, api.CommandRestart, api.CommandRoutes}
	for _, seed := range []struct {
		command uint8
		stdin   string
	}{
		{0, "{}\n"},
		{0, `{"queries":["kubelet"],"tailLines":1,"emitCursor":true}` + "\n"},
		{0, `{"queries":["kubelet"],"follow":true,"output":"json"}` + "\nstop\n"},
		{0, `{"queries":["..\\secret.log","../secret","C:\\Windows\\win.ini","eventlog/System"]}` + "\n"},
		{0, `{"queries":["kubelet"],"pattern":"(","sinceTime":"x","boot":-1,"cursor":"e30"}`},
		{0, `{"queries":["kubelet"],"unknown":1}` + "\n"},
		{1, `{"bootID":"this","reason":"x","force":true}`},
		{1, `{"bootID":"another"}`},
		{1, `{}`},
		{2, `[{"destination":"169.254.169.254/32"}]`},
		{2, `{"routes":[{}]}`},
		{2, ""},
	} {
		f.Add(seed.command, []byte(seed.stdin))
	}
	f.Fuzz(func(t *testing.T, which uint8, stdin []byte) {
		host := &fakeHost{root: root}
		host.facts.Boot.ID = "this"
		command := commands[int(which)%len(commands)]
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), host, []string{command}, bytes.NewReader(stdin), &stdout, &stderr)
		if code != api.ExitOK && code != api.ExitFailed {
			t.Errorf("%s: exit code %d", command, code)
		}
		if code == api.ExitFailed && stderr.Len() == 0 {
			t.Errorf("%s failed without a reason", command)
		}
		if strings.Contains(stdout.String(), "s3cret") {
			t.Errorf("%s tells what is outside of the logs: %s", command, stdout.String())
		}
		if len(host.restarts) > 0 {
			var request api.RestartRequest
			if command != api.CommandRestart || json.NewDecoder(bytes.NewReader(stdin)).Decode(&request) != nil || request.BootID != "this" {
				t.Errorf("%s restarted the host for %q", command, stdin)
			}
		}
		if code != api.ExitOK {
			return
		}
		line, rest, found := bytes.Cut(stdout.Bytes(), []byte("\n"))
		if !found || !json.Valid(line) {
			t.Fatalf("%s: the first line is %q", command, line)
		}
		if command != api.CommandLogs {
			return
		}
		var header api.LogHeader
		if err := json.Unmarshal(line, &header); err != nil || header.Protocol != api.ProtocolVersion {
			t.Errorf("the header is %s: %v", line, err)
		}
		if header.Error != nil && (len(rest) > 0 || header.Error.Code < 400 || header.Error.Code > 599 || header.Error.Message == "") {
			t.Errorf("refused by %s, followed by %q", line, rest)
		}
	})
}
