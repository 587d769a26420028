// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package conformance

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// sameAgent: the program on the host is the one that was sent, byte for byte.
func sameAgent(ctx context.Context, h *Host) error {
	var v api.Version
	if err := h.ask(ctx, api.CommandVersion, nil, &v); err != nil {
		return err
	}
	sum := sha256.Sum256(h.Agent)
	if v.SHA256 != hex.EncodeToString(sum[:]) || v.Protocol != api.ProtocolVersion || v.OS != "windows" {
		return fmt.Errorf("it says of itself %+v, want digest %x", v, sum)
	}
	return nil
}

// testsPass: the tests that can only run on Windows.
func testsPass(ctx context.Context, h *Host) error {
	const program = directory + `\tests.exe`
	if err := h.upload(ctx, program, h.Tests); err != nil {
		return err
	}
	_, err := h.run(ctx, program, nil)
	return errors.Join(err, h.remove(ctx, program))
}

// factsAreComplete: everything that preflight judges by is there.
func factsAreComplete(ctx context.Context, h *Host) error {
	f, err := h.facts(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range f.Errors {
		errs = append(errs, fmt.Errorf("%s: %s", e.Area, e.Message))
	}
	for what, ok := range map[string]bool{
		"product":                   f.System.Product != "",
		"Windows Server":            f.System.Server,
		"build":                     f.System.Build > 0 && strings.HasPrefix(f.System.Version, "10.0."),
		"host name":                 f.Name.Hostname != "" && f.Name.FQDN != "" && f.Name.NetBIOS != "",
		"processors":                f.CPUs > 0,
		"memory":                    f.Memory.TotalBytes > 0 && f.Memory.AvailableBytes > 0,
		"system drive":              len(f.Disks) > 0 && f.Disks[0].System && f.Disks[0].FreeBytes > 0,
		"boot":                      !f.Boot.Time.IsZero() && f.Boot.ID != "",
		"an administrator's rights": f.User.Administrator && f.User.Elevated && f.User.ID != "",
		"an adapter that is up": slices.ContainsFunc(f.Network.Interfaces, func(i api.Interface) bool {
			return i.Up && len(i.Addresses) > 0
		}),
		"the SSH server of Windows and its folders": knowsSSHServer(f),
	} {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: not found", what))
		}
	}
	return errors.Join(errs...)
}

// knowsSSHServer: of the SSH server that comes with Windows it is known whether it will start.
func knowsSSHServer(f *api.Facts) bool {
	s := f.Service("sshd")
	if s == nil || s.State != "Running" || !strings.Contains(strings.ToLower(s.Path), `\system32\openssh\`) {
		return true // another one lets us in
	}
	server := f.OpenSSH.Server
	return server != nil && strings.Count(server.Version, ".") == 3 && server.Folder != nil && server.Folder.Owner != "" && server.Logs != nil && server.Logs.Owner != ""
}

// hnsAnswers: the Host Networking Service tells its networks, also if there are none. It
// comes with the feature Containers.
func hnsAnswers(ctx context.Context, h *Host) error {
	plan, err := h.planFeature(ctx, containers)
	if err != nil {
		return err
	}
	if len(plan.Items) > 0 {
		return fmt.Errorf("feature %s is not on: %w", containers, ErrNotThere)
	}
	f := &api.Facts{}
	if err := h.ask(ctx, api.CommandInspect, nil, f); err != nil {
		return err
	}
	for _, e := range f.Errors {
		if e.Area == "network/hns" {
			return errors.New(e.Message)
		}
	}
	return nil
}

// logs reads logs as lines, the header taken off.
func (h *Host) logs(ctx context.Context, request api.LogRequest) ([]string, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	out, err := h.run(ctx, h.agent+" "+api.CommandLogs, append(text, '\n'))
	if err != nil {
		return nil, err
	}
	scanner := bufio.NewScanner(strings.NewReader(out))
	scanner.Buffer(nil, 1<<20)
	if !scanner.Scan() {
		return nil, errors.New("there is no header")
	}
	var header api.LogHeader
	if err := json.Unmarshal(scanner.Bytes(), &header); err != nil {
		return nil, fmt.Errorf("the header %q: %w", scanner.Text(), err)
	}
	if header.Error != nil {
		return nil, fmt.Errorf("%s: %s", header.Error.Reason, header.Error.Message)
	}
	var lines []string
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	return lines, scanner.Err()
}

// logsOfFiles: a log that another program writes is read, from its end.
func logsOfFiles(ctx context.Context, h *Host) error {
	const name = logDirectory + `\some.log`
	if err := h.upload(ctx, name, []byte("one\r\ntwo\r\nthree\r\n")); err != nil {
		return err
	}
	lines, err := h.logs(ctx, api.LogRequest{Queries: []string{`conformance\some.log`}, TailLines: new(int64(2))})
	if err != nil {
		return err
	}
	if want := []string{"two", "three"}; !slices.Equal(lines, want) {
		return fmt.Errorf("got %q, want %q", lines, want)
	}
	return h.remove(ctx, name)
}

// logsOfEvents: every Windows has events of its own start.
func logsOfEvents(ctx context.Context, h *Host) error {
	lines, err := h.logs(ctx, api.LogRequest{Queries: []string{"eventlog/System"}, TailLines: new(int64(5)), Output: "json"})
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return errors.New("the channel System is empty")
	}
	for _, line := range lines {
		var record struct {
			Time, Message, Provider string
			EventID                 int
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" || record.Provider == "" {
			return fmt.Errorf("record %q: %w", line, orElse(err, errors.New("time or provider is missing")))
		}
	}
	return nil
}

// bootIsStable: two looks in one boot have one answer.
func bootIsStable(ctx context.Context, h *Host) error {
	var first, second api.BootFacts
	if err := h.ask(ctx, api.CommandBoot, nil, &first); err != nil {
		return err
	}
	if err := h.ask(ctx, api.CommandBoot, nil, &second); err != nil {
		return err
	}
	if first.ID == "" || first.ID != second.ID {
		return fmt.Errorf("one boot is called %q and %q", first.ID, second.ID)
	}
	return nil
}

// hostnameIsCompared: the name that the host has is nothing to do, and another one is a
// restart. Nothing is renamed.
func hostnameIsCompared(ctx context.Context, h *Host) error {
	f, err := h.facts(ctx)
	if err != nil {
		return err
	}
	for name, items := range map[string]int{f.Name.NetBIOS: 0, "not-its-name-1": 1} {
		plan, err := h.plan(ctx, config.Bundle{Document: config.Document{Version: config.SchemaVersion, Hostname: name}})
		if err != nil {
			return err
		}
		if len(plan.Items) != items || items > 0 && plan.Impact != config.ImpactReboot {
			return fmt.Errorf("for name %s, impact %s:%s", name, plan.Impact, describe(plan.Items))
		}
	}
	return nil
}

// containers is the feature of Windows that hosts of pods have.
const containers = "Containers"

// planFeature asks what a document that has a feature on would change. Nothing is turned on.
func (h *Host) planFeature(ctx context.Context, name string) (*api.Plan, error) {
	return h.plan(ctx, config.Bundle{Document: config.Document{
		Version:  config.SchemaVersion,
		Features: []config.Feature{{Name: name, OnChange: config.OnChange{Impact: config.ImpactReboot}}},
	}})
}

// featureIsKnown: Windows tells whether the feature is on that containers need, and that
// there is none of another name.
func featureIsKnown(ctx context.Context, h *Host) error {
	plan, err := h.planFeature(ctx, containers)
	if err != nil {
		return err
	}
	if len(plan.Items) > 1 || len(plan.Items) == 1 && plan.Items[0].Kind != api.KindFeature {
		return fmt.Errorf("feature %s:%s", containers, describe(plan.Items))
	}
	if plan, err := h.planFeature(ctx, "NoSuchFeature"); err == nil {
		return fmt.Errorf("a feature that does not exist:%s", describe(plan.Items))
	}
	return nil
}
