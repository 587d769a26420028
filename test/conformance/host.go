// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Options say which host it is, and what with.
type Options struct {
	// Target is the host. Its keys must be known.
	Target ssh.Target
	// Programs for Windows: cmd/agent, test/winhost/winservice and slowservice.
	Agent, Service, SlowService []byte
	// Tests is a program with the tests of pkg/agent/windows.
	Tests []byte
	// AllowRestart lets the host be restarted.
	AllowRestart bool
	// InstallUpdates is which updates of Windows are installed. Empty: none.
	InstallUpdates api.UpdateScope
	// Clean takes off the host what a run that was interrupted has left.
	Clean bool
}

// Validate says what is wrong with the options about updates, which somebody may mistype.
func (o Options) Validate() error {
	switch {
	case o.InstallUpdates != "" && o.InstallUpdates != api.UpdatesSecurity && o.InstallUpdates != api.UpdatesAll:
		return fmt.Errorf("-install-updates: %q is neither %s nor %s", o.InstallUpdates, api.UpdatesSecurity, api.UpdatesAll)
	case o.InstallUpdates != "" && !o.AllowRestart:
		return errors.New("-install-updates: updates may need a restart (-allow-restart)")
	}
	return nil
}

// Host is a Windows host that is put to the test. Its methods are called one at a time.
type Host struct {
	Options

	pool *ssh.Pool
	// agent is where the agent is on the host.
	agent string
	// payload has files that hosts may ask for, by digest.
	payload map[string][]byte
	// bundle is what the host was configured with last.
	bundle config.Bundle
}

// Open puts the agent on the host. It refuses a host that is configured already. The
// caller closes the host, also if there is an error.
func Open(ctx context.Context, o Options) (*Host, error) {
	h := &Host{Options: o, pool: ssh.New(ssh.Options{}), payload: map[string][]byte{}}
	sum := sha256.Sum256(o.Agent)
	h.agent = api.Root + `\windows-node-agent-` + hex.EncodeToString(sum[:8]) + ".exe"
	// One that is there may run. Whether it is the right one is the first check.
	there, err := h.exists(ctx, h.agent)
	if err == nil && !there {
		err = h.upload(ctx, h.agent, o.Agent)
	}
	if err != nil {
		return h, fmt.Errorf("putting the agent on the host: %w", err)
	}
	facts, err := h.facts(ctx)
	if err != nil {
		return h, err
	}
	if c := facts.Configuration; c.AppliedRevision != "" || c.ApplyingRevision != "" {
		if !o.Clean {
			return h, errors.New("the host is configured: it is a node, or an earlier run was interrupted. " +
				"In the second case only, let what is on it be taken off (-clean)")
		}
		if _, err := h.change(ctx, api.CommandCleanup, nil, nil); err != nil {
			return h, err
		}
	}
	return h, nil
}

// Close takes the agent off the host, and what is left of the configuration.
func (h *Host) Close(ctx context.Context) error {
	defer h.pool.Close() //nolint:errcheck // it never fails
	facts, err := h.facts(ctx)
	if err == nil && (facts.Configuration.AppliedRevision != "" || facts.Configuration.ApplyingRevision != "") {
		_, err = h.change(ctx, api.CommandCleanup, nil, nil)
	}
	return errors.Join(err, h.withFiles(ctx, func(files *ssh.SFTP) error {
		// What services have logged is nothing of the configuration.
		logs, _ := files.ReadDir(slashes(logDirectory))
		for _, log := range logs {
			_ = files.Remove(path.Join(slashes(logDirectory), log.Name()))
		}
		var left error
		for _, name := range []string{h.agent, logDirectory, directory, api.Root} {
			// A directory stays that something of others is in.
			if err := files.Remove(slashes(name)); err != nil && name == h.agent {
				left = fmt.Errorf("removing %s: %w", name, err)
			}
		}
		return left
	}))
}

// run runs a command line, which must mean the same to cmd.exe and to PowerShell, and
// returns what it printed.
func (h *Host) run(ctx context.Context, line string, stdin []byte) (string, error) {
	var out bytes.Buffer
	if err := h.pool.Run(ctx, h.Target, line, stdin, &out); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s", line, err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

// powerShell runs a script of Windows PowerShell, whatever the login shell is.
func (h *Host) powerShell(ctx context.Context, script string) (string, error) {
	var encoded bytes.Buffer
	for _, unit := range utf16.Encode([]rune("$ProgressPreference='SilentlyContinue';" + script)) {
		encoded.Write([]byte{byte(unit), byte(unit >> 8)})
	}
	out, err := h.run(ctx, "powershell.exe -NoProfile -NonInteractive -EncodedCommand "+base64.StdEncoding.EncodeToString(encoded.Bytes()), nil)
	return strings.TrimSpace(out), err
}

// ask runs a sub-command of the agent that answers one document.
func (h *Host) ask(ctx context.Context, command string, request, answer any) error {
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	out, err := h.run(ctx, h.agent+" "+command, text)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), answer); err != nil {
		return fmt.Errorf("what the agent answers to %s: %w", command, err)
	}
	return nil
}

// restart restarts the host, and waits until it is back.
func (h *Host) restart(ctx context.Context) error {
	var boot api.BootFacts
	if err := h.ask(ctx, api.CommandBoot, nil, &boot); err != nil {
		return err
	}
	var answer api.RestartAnswer
	asked := h.ask(ctx, api.CommandRestart, api.RestartRequest{BootID: boot.ID, Reason: "conformance"}, &answer)
	if answer.Refused != "" {
		return fmt.Errorf("the host does not restart: %s", answer.Refused)
	}
	if err := eventually(ctx, "the host is in another boot", func() (bool, error) {
		h.pool.Forget(h.Target.Owner)
		var now api.BootFacts
		err := h.ask(ctx, api.CommandBoot, nil, &now)
		return err == nil && now.ID != boot.ID, err
	}); err != nil {
		return errors.Join(err, asked) // a host that restarts may go down with its answer
	}
	return nil
}

func (h *Host) facts(ctx context.Context) (*api.Facts, error) {
	facts := &api.Facts{}
	return facts, h.ask(ctx, api.CommandFacts, nil, facts)
}

// plan asks what a bundle would change, and sends what the host needs for it.
func (h *Host) plan(ctx context.Context, b config.Bundle) (*api.Plan, error) {
	text, err := b.Encode()
	if err != nil {
		return nil, err
	}
	plan := &api.Plan{}
	if err := h.ask(ctx, api.CommandPlan, json.RawMessage(text), plan); err != nil {
		return nil, err
	}
	for _, f := range plan.Payload {
		if err := h.upload(ctx, f.Path, h.payload[f.Digest]); err != nil {
			return nil, fmt.Errorf("sending %s: %w", f.Name, err)
		}
	}
	return plan, nil
}

// change runs a sub-command of the agent that tells its progress, and returns the result.
// Saw is told of each event.
func (h *Host) change(ctx context.Context, command string, stdin []byte, saw func(api.Event)) (*api.Result, error) {
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := h.pool.Run(ctx, h.Target, h.agent+" "+command, stdin, write)
		ended <- err
		_ = write.Close() // never fails
	}()
	var result *api.Result
	decoder := json.NewDecoder(read)
	for {
		var p api.Progress
		err := decoder.Decode(&p)
		if err != nil {
			_ = read.CloseWithError(err) // lets the writer go, if it is not at its end
			break
		}
		if p.Event != nil && saw != nil {
			saw(*p.Event)
		}
		result = p.Result
	}
	err := <-ended
	switch {
	case result == nil:
		return nil, fmt.Errorf("%s has no result: %w", command, orElse(err, io.ErrUnexpectedEOF))
	case result.Outcome == api.OutcomeFailed:
		return result, fmt.Errorf("%s failed (%s): %s", command, result.Reason, result.Error)
	}
	return result, err
}

// orElse returns err, or another error if it is nil.
func orElse(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// apply configures the host with a bundle.
func (h *Host) apply(ctx context.Context, b config.Bundle, saw func(api.Event)) (*api.Result, error) {
	if _, err := h.plan(ctx, b); err != nil {
		return nil, err
	}
	request, err := (&api.ApplyRequest{Allow: config.ImpactReboot, Bundle: b}).Encode()
	if err != nil {
		return nil, err
	}
	result, err := h.change(ctx, api.CommandApply, request, saw)
	if err == nil {
		h.bundle = b
	}
	return result, err
}

// applied configures the host with a bundle, which must change so many things, and must
// make it as desired without a restart.
func (h *Host) applied(ctx context.Context, b config.Bundle, changes int) error {
	result, err := h.apply(ctx, b, nil)
	if err != nil {
		return err
	}
	want := api.OutcomeApplied
	if changes == 0 {
		want = api.OutcomeUnchanged
	}
	if result.Outcome != want || len(result.Changed) != changes {
		return fmt.Errorf("got outcome %s, want %s with %d changes: %s%s", result.Outcome, want, changes, strings.Join(result.Reboot, ", "), describe(result.Changed))
	}
	return h.asDesired(ctx)
}

// asDesired says whether nothing is left to do.
func (h *Host) asDesired(ctx context.Context) error {
	plan, err := h.plan(ctx, h.bundle)
	if err == nil && len(plan.Items) > 0 {
		err = fmt.Errorf("the host still differs:%s", describe(plan.Items))
	}
	return err
}

func describe(items []api.Item) string {
	var out strings.Builder
	for _, i := range items[:min(len(items), 20)] {
		fmt.Fprintf(&out, "\n  %s: %s", i, i.Reason)
	}
	return out.String()
}

// slashes is where SFTP has a path of the host.
func slashes(windowsPath string) string { return "/" + strings.ReplaceAll(windowsPath, `\`, "/") }

// withFiles calls use with the files of the host.
func (h *Host) withFiles(ctx context.Context, use func(*ssh.SFTP) error) error {
	files, err := h.pool.SFTP(ctx, h.Target)
	if err != nil {
		return err
	}
	return errors.Join(use(files), files.Close())
}

func (h *Host) upload(ctx context.Context, windowsPath string, content []byte) error {
	return h.withFiles(ctx, func(files *ssh.SFTP) error {
		name := slashes(windowsPath)
		if err := files.MkdirAll(path.Dir(name)); err != nil {
			return err
		}
		f, err := files.Create(name)
		if err != nil {
			return fmt.Errorf("making %s: %w", windowsPath, err)
		}
		_, err = f.ReadFrom(bytes.NewReader(content))
		return errors.Join(err, f.Close())
	})
}

// content reads a file of the host; ok says whether there is one.
func (h *Host) content(ctx context.Context, windowsPath string) (content string, ok bool, err error) {
	err = h.withFiles(ctx, func(files *ssh.SFTP) error {
		f, err := files.Open(slashes(windowsPath))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("opening %s: %w", windowsPath, err)
		}
		text, err := io.ReadAll(f)
		content, ok = string(text), true
		return errors.Join(err, f.Close())
	})
	return content, ok, err
}

// expect says whether a file has the content.
func (h *Host) expect(ctx context.Context, windowsPath, want string) error {
	got, ok, err := h.content(ctx, windowsPath)
	if err != nil {
		return err
	}
	if !ok || got != want {
		return fmt.Errorf("%s has %.80q, want %.80q (it exists: %t)", windowsPath, got, want, ok)
	}
	return nil
}

func (h *Host) exists(ctx context.Context, windowsPath string) (exists bool, err error) {
	err = h.withFiles(ctx, func(files *ssh.SFTP) error {
		_, err := files.Stat(slashes(windowsPath))
		exists = err == nil
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return exists, err
}

func (h *Host) remove(ctx context.Context, windowsPath string) error {
	return h.withFiles(ctx, func(files *ssh.SFTP) error {
		if err := files.Remove(slashes(windowsPath)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing %s: %w", windowsPath, err)
		}
		return nil
	})
}

// names lists a directory of the host.
func (h *Host) names(ctx context.Context, windowsPath string) (names []string, err error) {
	err = h.withFiles(ctx, func(files *ssh.SFTP) error {
		list, err := files.ReadDir(slashes(windowsPath))
		if err != nil {
			return fmt.Errorf("listing %s: %w", windowsPath, err)
		}
		for _, f := range list {
			names = append(names, f.Name())
		}
		return nil
	})
	return names, err
}

// registryValue matches a line of what reg.exe prints: name, type and value.
var registryValue = regexp.MustCompile(`(?m)^\s+(\S+)\s+(REG_[A-Z_]+)[ \t]*(.*?)\r?$`)

// registry reads a value of the registry as reg.exe prints it. The error wraps
// [ssh.ExitError] when there is none.
func (h *Host) registry(ctx context.Context, key, name string) (string, error) {
	out, err := h.run(ctx, fmt.Sprintf(`reg.exe query "HKLM\%s" /v %s`, key, name), nil)
	if err != nil {
		return "", err
	}
	for _, m := range registryValue.FindAllStringSubmatch(out, -1) {
		if strings.EqualFold(m[1], name) {
			return m[3], nil
		}
	}
	return "", fmt.Errorf("reg.exe prints no value %s:\n%s", name, out)
}

// eventually polls a condition until it holds, for as long as ctx lasts.
func eventually(ctx context.Context, what string, condition func() (bool, error)) error {
	return every(ctx, 250*time.Millisecond, what, condition)
}

// every is eventually with the pause between two looks.
func every(ctx context.Context, interval time.Duration, what string, condition func() (bool, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last error
	for {
		ok, err := condition()
		if ok {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("gave up waiting until %s", what), last)
		}
	}
}
