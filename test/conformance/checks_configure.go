// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package conformance

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// configure puts the first document on a host that has files of others.
func configure(ctx context.Context, h *Host) error {
	for name, content := range map[string]string{theirsPath: "theirs", otherPath: "other"} {
		if err := h.upload(ctx, name, []byte(content)); err != nil {
			return err
		}
	}
	b, err := h.document()
	if err != nil {
		return err
	}
	result, err := h.apply(ctx, b, nil)
	if err != nil {
		return err
	}
	if result.Outcome != api.OutcomeApplied {
		return fmt.Errorf("got outcome %s: %s", result.Outcome, strings.Join(result.Reboot, ", "))
	}
	return h.asDesired(ctx)
}

// configureAgain changes nothing.
func configureAgain(ctx context.Context, h *Host) error { return h.applied(ctx, h.bundle, 0) }

func filesAreThere(ctx context.Context, h *Host) error {
	return errors.Join(
		h.expect(ctx, programPath, string(h.Service)), h.expect(ctx, configPath, "one"),
		h.expect(ctx, theirsPath, "ours"), h.expect(ctx, otherPath, "other"), h.expect(ctx, secretPath, secretContent),
	)
}

// accessEntry matches an entry of an access control list as text (SDDL), and in it its
// type, its flags and whom it is about.
var accessEntry = regexp.MustCompile(`\(([A-Z]+);([A-Z]*);[^;]*;[^;]*;[^;]*;([^;)]+)[^)]*\)`)

// secretsAreProtected: only SYSTEM and Administrators get at a secret and its directory,
// and nothing is inherited.
func secretsAreProtected(ctx context.Context, h *Host) error {
	return errors.Join(h.isFor(ctx, secretPath, "BA", "SY"), h.isFor(ctx, secrets, "BA", "SY"))
}

// programsAreProtected: others read and run what is in a directory of programs, no more. It was
// there before, and had the rights that Windows gives to directories below C:\.
func programsAreProtected(ctx context.Context, h *Host) error {
	if err := h.isFor(ctx, directory, "BA", "BU", "SY"); err != nil {
		return err
	}
	for _, path := range []string{directory, programPath, otherPath} {
		// 0x50116: to write and append data and attributes, to delete, and to change these rights.
		out, err := h.powerShell(ctx, "$l = (Get-Acl -LiteralPath '"+path+"').GetAccessRules($true, $true, [Security.Principal.SecurityIdentifier]) | "+
			"Where-Object { $_.IdentityReference.Value -notin 'S-1-5-18', 'S-1-5-32-544' -and ([int]$_.FileSystemRights -band 0x50116) }; [Console]::Out.Write(@($l).Count)")
		if err != nil {
			return err
		}
		if strings.TrimSpace(out) != "0" {
			return fmt.Errorf("%s: %s entries let others than administrators change it", path, strings.TrimSpace(out))
		}
	}
	return nil
}

// isFor says whether these, sorted, have entries in the access list of the path, and nothing is inherited.
func (h *Host) isFor(ctx context.Context, path string, want ...string) error {
	sddl, err := h.powerShell(ctx, "[Console]::Out.Write((Get-Acl -LiteralPath '"+path+"').Sddl)")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(sddl, "O:BA") {
		return fmt.Errorf("%s does not belong to Administrators: %q", path, sddl)
	}
	_, list, ok := strings.Cut(sddl, "D:")
	flags, _, _ := strings.Cut(list, "(")
	if !ok || !strings.Contains(flags, "P") {
		return fmt.Errorf("%s inherits rights: %q", path, sddl)
	}
	var whom []string
	for _, entry := range accessEntry.FindAllStringSubmatch(list, -1) {
		if entry[1] != "A" || strings.Contains(entry[2], "ID") {
			return fmt.Errorf("%s has entry %s", path, entry[0])
		}
		whom = append(whom, entry[3])
	}
	slices.Sort(whom)
	if whom = slices.Compact(whom); !slices.Equal(whom, want) {
		return fmt.Errorf("%s is for %q, want %q: %s", path, whom, want, sddl)
	}
	return nil
}

// rightsAreRepaired: what somebody lets others read or write who must not differs, and is put right.
func rightsAreRepaired(ctx context.Context, h *Host) error {
	// S-1-1-0 is everybody in every language.
	for path, right := range map[string]string{secretPath: "R", directory: "M"} {
		if _, err := h.run(ctx, "icacls.exe "+path+" /grant *S-1-1-0:"+right, nil); err != nil {
			return err
		}
		plan, err := h.plan(ctx, h.bundle)
		if err != nil {
			return err
		}
		if len(plan.Items) != 1 || plan.Items[0].Name != path {
			return fmt.Errorf("want one difference, got %d:%s", len(plan.Items), describe(plan.Items))
		}
		if err := h.applied(ctx, h.bundle, 1); err != nil {
			return err
		}
	}
	return nil
}

// servicesRun: both run, with their arguments as they were meant.
func servicesRun(ctx context.Context, h *Host) error {
	return errors.Join(
		h.serviceRuns(ctx, serviceBase), h.serviceRuns(ctx, serviceAbove),
		h.startedWith(ctx, startedBase, "first"), h.startedWith(ctx, startedAbove, `with "quotes" and \`),
	)
}

func (h *Host) serviceRuns(ctx context.Context, name string) error {
	out, err := h.run(ctx, "sc.exe query "+name, nil)
	if err == nil && !strings.Contains(out, "RUNNING") {
		err = fmt.Errorf("service %s does not run:\n%s", name, out)
	}
	return err
}

// startedWith says whether a service was started with the arguments. It also writes down a
// variable, which does not matter here.
func (h *Host) startedWith(ctx context.Context, file, arguments string) error {
	content, ok, err := h.content(ctx, file)
	if got, _, _ := strings.Cut(content, "\n"); err == nil && (!ok || got != arguments) {
		err = fmt.Errorf("the service was started with %q, want %q", got, arguments)
	}
	return err
}

// servicesAreTagged: tools find our services by their description.
func servicesAreTagged(ctx context.Context, h *Host) error {
	got, err := h.registry(ctx, keyServices+serviceBase, "Description")
	if err == nil && got != config.Description(serviceBase) {
		err = fmt.Errorf("got %q, want %q", got, config.Description(serviceBase))
	}
	return err
}

func dependenciesInRegistry(ctx context.Context, h *Host) error {
	got, err := h.registry(ctx, keyServices+serviceAbove, "DependOnService")
	// reg.exe shows the end of each of several texts as \0.
	if got = strings.TrimRight(got, `\0`); err == nil && got != serviceBase {
		err = fmt.Errorf("got %q, want %q", got, serviceBase)
	}
	return err
}

func dependenciesAreTold(ctx context.Context, h *Host) error {
	out, err := h.run(ctx, "sc.exe qc "+serviceAbove, nil)
	if err == nil && !strings.Contains(out, serviceBase) {
		err = fmt.Errorf("service %s depends on nothing:\n%s", serviceAbove, out)
	}
	return err
}

// recoveryIsSet reads SERVICE_FAILURE_ACTIONS as it is in the registry: the time to forget in
// seconds, two pointers, the number of actions, one more pointer; then for each action what,
// 1 being a restart, and after how many milliseconds.
func recoveryIsSet(ctx context.Context, h *Host) error {
	value, err := h.registry(ctx, keyServices+serviceBase, "FailureActions")
	if err != nil {
		return err
	}
	raw, err := hex.DecodeString(value)
	if err != nil || len(raw) < 20+8*len(recoveryDelays) {
		return fmt.Errorf("the value %q is too short: %w", value, orElse(err, errors.New("not all actions are there")))
	}
	number := func(at int) int64 { return int64(binary.LittleEndian.Uint32(raw[at:])) }
	if number(0) != resetAfter || number(12) != int64(len(recoveryDelays)) {
		return fmt.Errorf("failures are forgotten after %d s, want %d; %d actions, want %d", number(0), resetAfter, number(12), len(recoveryDelays))
	}
	for i, delay := range recoveryDelays {
		if at := 20 + 8*i; number(at) != 1 || number(at+4) != delay {
			return fmt.Errorf("action %d is %d after %d ms, want a restart after %d ms", i, number(at), number(at+4), delay)
		}
	}
	return nil
}

// servicesRecover: programs that are killed are started again, and soon.
func servicesRecover(ctx context.Context, h *Host) error {
	if err := recoveryIsSet(ctx, h); err != nil {
		return err // nobody would start them
	}
	if err := errors.Join(h.remove(ctx, startedBase), h.remove(ctx, startedAbove)); err != nil {
		return err
	}
	if _, err := h.run(ctx, `taskkill.exe /F /IM "`+programName+`"`, nil); err != nil {
		return err
	}
	// Windows restarts after one second. What takes a minute was set in another unit.
	within, cancel := context.WithTimeout(ctx, recoveryPatience)
	defer cancel()
	err := eventually(within, "both services are back", func() (bool, error) {
		base, err := h.exists(within, startedBase)
		if !base || err != nil {
			return false, err
		}
		return h.exists(within, startedAbove)
	})
	if err != nil {
		// What follows needs them.
		return errors.Join(err, h.repair(ctx))
	}
	return servicesRun(ctx, h)
}

// repair puts the host right after a check that failed.
func (h *Host) repair(ctx context.Context) error {
	_, err := h.apply(ctx, h.bundle, nil)
	return err
}

func environmentIsSet(ctx context.Context, h *Host) error {
	got, err := h.registry(ctx, keyEnvironment, variable)
	if err == nil && got != "one" {
		err = fmt.Errorf("got %q", got)
	}
	return err
}

func certificateIsTrusted(ctx context.Context, h *Host) error {
	_, err := h.registry(ctx, keyCertificates+thumbprint(h.bundle.Document.Certificates[0]), "Blob")
	return err
}

func exclusionIsSet(ctx context.Context, h *Host) error {
	out, err := h.run(ctx, `reg.exe query "HKLM\`+keyExclusions+`"`, nil)
	if err == nil && !strings.Contains(out, programPath) {
		err = fmt.Errorf("the program is not in the list:\n%s", out)
	}
	return err
}

// exclusionCounts: Microsoft Defender Antivirus follows the policy that the agent has set, beside the
// exclusions that administrators have added.
func exclusionCounts(ctx context.Context, h *Host) error {
	const theirs = directory + `\theirs.exe`
	const service = "'service: ' + (Get-Service -Name WinDefend -ErrorAction SilentlyContinue).Status"
	out, err := h.powerShell(ctx, service)
	switch {
	case err != nil:
		return err
	case !strings.Contains(out, "service:"):
		return fmt.Errorf("PowerShell does not say whether Defender runs: %q", out)
	case !strings.Contains(out, "Running"):
		return fmt.Errorf("Microsoft Defender Antivirus does not run: %w", ErrNotThere)
	}
	if _, err := h.powerShell(ctx, "Add-MpPreference -ExclusionProcess '"+theirs+"' -ErrorAction Stop"); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = eventually(within, "both exclusions count", func() (bool, error) {
		out, err := h.powerShell(within, "(Get-MpPreference).ExclusionProcess; 'tamper protection: ' + (Get-MpComputerStatus).IsTamperProtected")
		ok := strings.Contains(out, programPath) && strings.Contains(out, theirs)
		if err == nil && !ok {
			err = fmt.Errorf("want %s and %s, Defender says:\n%s", programPath, theirs, out)
		}
		return ok, err
	})
	_, removeErr := h.powerShell(ctx, "Remove-MpPreference -ExclusionProcess '"+theirs+"' -ErrorAction Stop")
	return errors.Join(err, removeErr)
}

// reconfigure: for a file and the arguments of a service, that service is restarted and
// what depends on it, and nothing else happens.
func reconfigure(ctx context.Context, h *Host) error {
	b := h.changed(func(d *config.Document) {
		setFile(d, text(configPath, "two", restarts(serviceBase)))
		d.Services[0] = service(serviceBase, programPath, []string{startedBase, "second and more"}, nil)
	})
	plan, err := h.plan(ctx, b)
	if err != nil {
		return err
	}
	if want := []string{serviceAbove, serviceBase}; plan.Impact != config.ImpactRestart || !slices.Equal(plan.Restarts, want) {
		return fmt.Errorf("impact %s, stops %q, want %q:%s", plan.Impact, plan.Restarts, want, describe(plan.Items))
	}
	if err := h.remove(ctx, startedAbove); err != nil {
		return err
	}
	if err := h.applied(ctx, b, 2); err != nil {
		return err
	}
	return errors.Join(
		h.serviceRuns(ctx, serviceBase), h.serviceRuns(ctx, serviceAbove), h.expect(ctx, configPath, "two"),
		h.startedWith(ctx, startedBase, "second and more"), h.startedWith(ctx, startedAbove, `with "quotes" and \`),
	)
}

// replaceProgram: a program gets another content while it runs, and goes on.
func replaceProgram(ctx context.Context, h *Host) error {
	if err := h.remove(ctx, startedBase); err != nil {
		return err
	}
	content := append(slices.Clone(h.Service), 0)
	if err := h.applied(ctx, h.changed(func(d *config.Document) { setFile(d, h.program(programPath, content, none())) }), 1); err != nil {
		return err
	}
	restarted, err := h.exists(ctx, startedBase)
	if err == nil && restarted {
		err = errors.New("the service was restarted")
	}
	return errors.Join(err, h.serviceRuns(ctx, serviceBase), h.expect(ctx, programPath, string(content)))
}

// replacedNeedsNoRestart: what the agent has Windows remove at the next boot is no reason to restart.
func replacedNeedsNoRestart(ctx context.Context, h *Host) error {
	facts, err := h.facts(ctx)
	if err != nil || !slices.Contains(facts.PendingReboot.Reasons, api.RebootFileRename) {
		return err
	}
	pending, err := h.registry(ctx, `SYSTEM\CurrentControlSet\Control\Session Manager`, "PendingFileRenameOperations")
	if err != nil {
		return err
	}
	for path := range strings.SplitSeq(pending, `\0`) {
		if path != "" && !strings.Contains(strings.ToLower(path), strings.ToLower(api.Root)) {
			return nil // somebody else has Windows do something
		}
	}
	return fmt.Errorf("the host waits for a restart because of %s", pending)
}

// removalIsKnown: what Windows removes at its next start is known in the form in which this Windows
// has it. Whoever puts something in its place is asked to restart the host first.
func removalIsKnown(ctx context.Context, h *Host) error {
	plan, err := h.plan(ctx, h.changed(func(d *config.Document) {
		d.Generated = append(slices.Clone(d.Generated), api.Root+`\state\trash`)
	}))
	if err == nil && len(plan.Reboot) == 0 {
		pending, readErr := h.registry(ctx, `SYSTEM\CurrentControlSet\Control\Session Manager`, "PendingFileRenameOperations")
		err = fmt.Errorf("the program that was replaced is not among what is removed, %q: %w", pending, orElse(readErr, errors.New("no restart is asked for")))
	}
	return err
}

// replaceWhatIsRead: a program that reads the inventory of the agent, without locking it, keeps
// nobody from writing it.
func replaceWhatIsRead(ctx context.Context, h *Host) error {
	const reading = directory + `\reading`
	if err := h.upload(ctx, reading, nil); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, patience)
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		_, err := h.powerShell(ctx, `$f = [IO.File]::Open('`+api.Root+`\state\inventory.json', 'Open', 'Read', 'ReadWrite, Delete')
			Remove-Item '`+reading+`'
			while (-not (Test-Path '`+reading+`')) { Start-Sleep -Milliseconds 100 }
			$f.Close()`)
		ended <- err
	}()
	err := eventually(within, "the file is read", func() (bool, error) {
		there, err := h.exists(within, reading)
		return err == nil && !there, err
	})
	if err == nil {
		err = h.applied(ctx, h.changed(func(d *config.Document) { setFile(d, text(configPath, "read", restarts(serviceBase))) }), 1)
	}
	return errors.Join(err, h.upload(ctx, reading, nil), <-ended, h.remove(ctx, reading))
}

func openFirewall(ctx context.Context, h *Host) error {
	return h.applied(ctx, h.changed(func(d *config.Document) {
		d.Firewall = []config.FirewallRule{{Name: firewallRule, Protocol: config.ProtocolTCP, Port: 10250}}
	}), 1)
}

func firewallIsOpen(ctx context.Context, h *Host) error {
	out, err := h.run(ctx, "netsh.exe advfirewall firewall show rule name="+firewallRule, nil)
	if err == nil && !strings.Contains(out, "10250") {
		err = fmt.Errorf("the rule has no port:\n%s", out)
	}
	return err
}

// driftIsSeen: a file that somebody changed is the one difference.
func driftIsSeen(ctx context.Context, h *Host) error {
	if err := h.upload(ctx, configPath, []byte("changed")); err != nil {
		return err
	}
	plan, err := h.plan(ctx, h.bundle)
	if err != nil {
		return err
	}
	if len(plan.Items) != 1 || plan.Items[0].Name != configPath {
		return fmt.Errorf("got %d differences:%s", len(plan.Items), describe(plan.Items))
	}
	return h.applied(ctx, h.bundle, 1)
}
