// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// protectFile makes a file in a directory as the layers of containers have: nobody but the installer
// of Windows has access to either. They go all the same when the host is cleaned.
func protectFile(ctx context.Context, h *Host) error {
	if err := h.upload(ctx, protectedPath, []byte("theirs")); err != nil {
		return err
	}
	const account = `"NT SERVICE\TrustedInstaller"`
	for _, path := range []string{protectedPath, protectedDirectory} {
		for _, line := range []string{
			`icacls.exe "` + path + `" /inheritance:r /grant:r ` + account + `:F`,
			`icacls.exe "` + path + `" /setowner ` + account,
		} {
			if out, err := h.run(ctx, line, nil); err != nil {
				return fmt.Errorf("%s: %w\n%s", line, err, out)
			}
		}
	}
	if _, ok, err := h.content(ctx, protectedPath); err == nil && ok {
		return errors.New("it can be read")
	}
	return nil
}

// cleanUp takes everything away, once. It has a variable that needs a restart, if that is allowed; the
// host knows that until it has restarted.
func cleanUp(ctx context.Context, h *Host) error {
	result, err := h.change(ctx, api.CommandCleanup, nil, nil)
	if err != nil {
		return err
	}
	if result.Outcome != api.OutcomeRemoved {
		return fmt.Errorf("got outcome %s", result.Outcome)
	}
	due := result.Reboot
	if result, err = h.change(ctx, api.CommandCleanup, nil, nil); err != nil || len(result.Changed) > 0 || !slices.Equal(result.Reboot, due) {
		return fmt.Errorf("the second time: %w", orElse(err, errors.New("something was left to do, or the restart is forgotten")))
	}
	if h.AllowRestart != (len(due) > 0) {
		return fmt.Errorf("it has to restart for %q", due)
	}
	if len(due) == 0 {
		return nil
	}
	if err := h.restart(ctx); err != nil {
		return err
	}
	if result, err = h.change(ctx, api.CommandCleanup, nil, nil); err != nil || len(result.Changed)+len(result.Reboot) > 0 {
		return fmt.Errorf("after the restart: %w", orElse(err, errors.New("something is left to do")))
	}
	return nil
}

// nothingIsLeft looks for everything that was there, by what else can find it.
func nothingIsLeft(ctx context.Context, h *Host) error {
	var errs []error
	for _, name := range []string{programPath, configPath, secrets, slowPath, generatedDirectory, api.Root + `\state`, api.PayloadDirectory} {
		if found, err := h.exists(ctx, name); found || err != nil {
			errs = append(errs, fmt.Errorf("%s is left: %w", name, orElse(err, errors.New("it exists"))))
		}
	}
	for _, line := range []string{
		"sc.exe query " + serviceBase, "sc.exe query " + serviceAbove, "sc.exe query " + serviceSlow, "sc.exe query " + api.ServiceName,
		`reg.exe query "HKLM\` + keyEnvironment + `" /v ` + variable,
		`reg.exe query "HKLM\` + keyCertificates + thumbprint(h.bundle.Document.Certificates[0]) + `"`,
		`reg.exe query "HKLM\` + keyExclusions + `" /v "` + programPath + `"`,
	} {
		out, err := h.run(ctx, line, nil)
		if _, ok := errors.AsType[*ssh.ExitError](err); !ok {
			errs = append(errs, fmt.Errorf("%s finds something: %w\n%s", line, orElse(err, errors.New("it succeeds")), out))
		}
	}
	// The agent finds that all of it is missing, what no tool here shows included.
	plan, err := h.plan(ctx, h.bundle)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	d := h.bundle.Document
	want := len(d.Files) + len(d.Environment) + len(d.Certificates) + len(d.Services) + len(d.AntivirusExclusions) + len(d.Firewall)
	missing := 0
	for _, i := range plan.Items {
		if i.Kind != api.KindDirectory {
			missing++
		}
	}
	if missing != want {
		errs = append(errs, fmt.Errorf("%d things are missing, want %d:%s", missing, want, describe(plan.Items)))
	}
	return errors.Join(errs...)
}

// restored: what was on the host before is as it was.
func restored(ctx context.Context, h *Host) error {
	return errors.Join(
		h.expect(ctx, theirsPath, "theirs"), h.expect(ctx, otherPath, "other"),
		h.remove(ctx, theirsPath), h.remove(ctx, otherPath),
	)
}
