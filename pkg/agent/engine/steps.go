// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// perform does one step. It writes to the inventory what the step makes ours, then does it.
func (a *application) perform(ctx context.Context, s *step) error {
	if s.Impact == config.ImpactReboot {
		a.needReboot(s.Item.String())
	}
	switch s.Kind {
	case api.KindHostname:
		return a.recordThen(func() error { return a.System.SetHostname(s.Name) })
	case api.KindFeature:
		return a.recordThen(func() error {
			if err := a.System.EnableFeature(ctx, s.Name); err != nil {
				return ofServicing(s.Name, err)
			}
			return nil
		})
	case api.KindEnvironment:
		return a.environment(s)
	case api.KindCertificate:
		return a.certificate(s)
	case api.KindDirectory:
		if s.generated {
			return a.removeGenerated(ctx, s.Name)
		}
		return a.directory(s)
	case api.KindFile:
		if s.generated {
			return a.removeGenerated(ctx, s.Name)
		}
		switch {
		case s.Action == api.ActionDelete:
			return a.removeFile(ctx, s)
		case s.afterService != "":
			return a.writeLate(ctx, s)
		}
		return a.writeFile(ctx, s)
	case api.KindFirewall:
		return a.rule(s)
	case api.KindAntivirus:
		return a.exclusion(s)
	case api.KindService:
		if s.Action == api.ActionDelete {
			return a.removeService(ctx, s.Name)
		}
		return a.ensureService(ctx, s.service)
	case api.KindNetwork:
		a.removePolicyLists(ctx, s.Name)
		return a.System.RemoveHNSNetwork(ctx, s.Name)
	case api.KindEndpoint:
		if s.Action == api.ActionDelete {
			a.removePolicyLists(ctx, a.Endpoints[s.Name].Network)
			return a.System.RemoveHNSEndpoint(ctx, s.Name)
		}
		return a.makeEndpoint(ctx, *s.endpoint)
	}
	return fmt.Errorf("%s is not known", s.Kind)
}

// recordThen saves the inventory and then changes the host.
func (a *application) recordThen(change func() error) error {
	if err := a.save(); err != nil {
		return err
	}
	return change()
}

// needReboot records that something takes effect with the next boot.
func (a *application) needReboot(reason string) {
	if a.Reboot == nil {
		a.Reboot = &pendingReboot{Boot: a.seen.boot}
	}
	if !slices.Contains(a.Reboot.Reasons, reason) {
		a.Reboot.Reasons = append(slices.Clone(a.Reboot.Reasons), reason)
	}
}

func (a *application) environment(s *step) error {
	key := strings.ToUpper(s.Name)
	if s.Action != api.ActionDelete {
		var now *string
		if value, exists := a.seen.environment[key]; exists {
			now = &value
		}
		r, ours := a.Environment[key]
		if !ours {
			r.Before = now
		} else {
			// The value that the host has stays ours until it has the new one.
			previous := r.Value
			if now != nil && r.Previous != nil && *now == *r.Previous {
				previous = *now
			}
			if r.Previous = &previous; previous == *s.environment {
				r.Previous = nil
			}
		}
		r.Name, r.Value, r.OnChange = s.Name, *s.environment, s.onChange
		a.Environment[key] = r
	}
	return a.recordThen(func() error { return a.System.SetEnvironment(s.Name, s.environment) })
}

func (a *application) certificate(s *step) error {
	c := s.certificate
	if s.Action == api.ActionDelete {
		return a.recordThen(func() error { return a.System.RemoveCertificate(c.Store, c.Fingerprint) })
	}
	// All following ones are recorded at once: there may be hundreds.
	for i := range a.plan.steps {
		if other := &a.plan.steps[i]; other.Kind == api.KindCertificate && other.Action == api.ActionCreate {
			c := other.certificate
			a.Certs[certificateKey(c.Store, c.Fingerprint)] = certificateRecord{Store: c.Store, Fingerprint: c.Fingerprint, OnChange: other.onChange}
		}
	}
	return a.recordThen(func() error { return a.System.AddCertificate(c.Store, der(c)) })
}

func (a *application) directory(s *step) error {
	switch s.Action {
	case api.ActionCreate:
		for i := range a.plan.steps {
			if other := &a.plan.steps[i]; other.Kind == api.KindDirectory && other.Action == api.ActionCreate {
				a.Directories[fold(other.Name)] = directoryRecord{Path: other.Name}
			}
		}
		return a.recordThen(func() error { return a.System.MakeDirectory(s.Name, s.directory) })
	case api.ActionUpdate:
		return a.System.SetAccess(s.Name, s.directory)
	default:
		return a.removeDirectory(s.Name)
	}
}

func (a *application) rule(s *step) error {
	if s.Action == api.ActionDelete {
		return a.System.RemoveFirewallRule(s.Name)
	}
	a.Firewall[fold(s.Name)] = *s.rule
	return a.recordThen(func() error { return a.System.SetFirewallRule(normalRule(*s.rule)) })
}

func (a *application) exclusion(s *step) error {
	if s.Action == api.ActionDelete {
		return a.System.SetAntivirusExclusion(s.Name, false)
	}
	a.Exclusions[fold(s.Name)] = s.Name
	return a.recordThen(func() error { return a.System.SetAntivirusExclusion(s.Name, true) })
}

// writeFile writes a file. One that existed before it became ours is put aside.
func (a *application) writeFile(ctx context.Context, s *step) error {
	w := s.file
	// Those that are already stopped cost nothing.
	if err := a.stopFor(ctx, w.OnChange.Services); err != nil {
		return err
	}
	if err := a.takeOwnership(w); err != nil {
		return err
	}
	if w.content != nil || w.Source.Payload == "" {
		return a.replace(w.Path, func() error { return a.System.WriteFile(w.Path, w.content, w.Access) })
	}
	now, err := a.file(w.Path)
	if err != nil {
		return err
	}
	if now.digest != w.digest {
		if err := a.verifyPayload(w); err != nil {
			return err
		}
		if err := a.keepProgram(w.Path); err != nil {
			return err
		}
		if err := a.replace(w.Path, func() error { return a.placePayload(s) }); err != nil {
			return err
		}
	}
	if w.Access == config.AccessInherited {
		return nil
	}
	return a.System.SetAccess(w.Path, w.Access)
}

// placePayload puts a file of the payload at its path. The last step that needs the file gets
// the file itself, so that a crash at any time leaves it for the others.
func (a *application) placePayload(s *step) error {
	from := api.PayloadPath(s.file.Digest)
	for i := range a.plan.steps {
		if other := &a.plan.steps[i]; other != s && !other.done && other.needs == s.file.Digest {
			return a.System.CopyFile(from, s.Name, s.file.Access)
		}
	}
	return a.System.Rename(from, s.Name)
}

// verifyPayload checks what was sent before it becomes a program of the host. A file with
// another content is removed, so that it is sent again.
func (a *application) verifyPayload(w *wantedFile) error {
	path := api.PayloadPath(w.Digest)
	digest, err := digestOf(a.System, path)
	if err != nil {
		return fmt.Errorf("read the file of the payload: %w", err)
	}
	if digest == w.digest {
		return nil
	}
	return errors.Join(fmt.Errorf("what was sent has digest %s: %w", digest, missingPayload(w.payload())), a.System.Remove(path))
}

// takeOwnership makes a path ours and puts aside what is there.
func (a *application) takeOwnership(w *wantedFile) error {
	key := fold(w.Path)
	r, ours := a.Files[key]
	if !ours {
		info, err := a.System.Stat(w.Path)
		if err != nil {
			return err
		}
		r = fileRecord{Path: w.Path, Saved: info.Kind == FileMissing}
		if !r.Saved {
			r.Aside = asideDirectory + `\` + strconv.Itoa(a.NextAside)
			a.NextAside++
		}
	}
	r.OnChange = lastingChange(w.File)
	a.Files[key] = r
	if err := a.save(); err != nil || r.Saved {
		return err
	}
	// A crash may have happened after it was put aside.
	aside, err := a.System.Stat(r.Aside)
	if err != nil {
		return err
	}
	if aside.Kind == FileMissing {
		there, err := a.System.Stat(w.Path)
		switch {
		case err != nil:
			return err
		case there.Kind == FileMissing: // its owner has removed it
			r.Aside = ""
		default:
			if err := makeOwnDirectory(a.System, asideDirectory); err != nil {
				return err
			}
			if err := a.System.Rename(w.Path, r.Aside); err != nil {
				return fmt.Errorf("put aside the existing file: %w", err)
			}
		}
	}
	r.Saved = true
	a.Files[key] = r
	return a.save()
}

// lastingChange is what the removal of a file costs. What is there for a while is missed by nobody.
func lastingChange(f config.File) config.OnChange {
	if f.UntilFile != "" {
		return config.OnChange{Impact: config.ImpactNone}
	}
	return f.OnChange
}

// replace writes a file, also over a running program: that can be renamed.
func (a *application) replace(path string, write func() error) error {
	err := write()
	if !errors.Is(err, ErrInUse) {
		return err
	}
	if err := a.moveAway(path); err != nil {
		return err
	}
	return write()
}

// discard moves a file in use, which is removed, away from its path. When everything is removed,
// one that cannot be moved either stays until the next boot.
func (a *application) discard(path string) error {
	err := a.moveAway(path)
	if errors.Is(err, ErrInUse) && a.cleaningUp {
		a.staying = append(a.staying, path)
		return a.System.RemoveAtBoot(path)
	}
	return err
}

// moveAway moves a file in use away from its path.
func (a *application) moveAway(path string) error {
	if err := makeOwnDirectory(a.System, trashDirectory); err != nil {
		return err
	}
	// The clock of Windows ticks each 16 ms only, so that several files get away at the same moment.
	trash := fmt.Sprintf(`%s\%s-%d`, trashDirectory, strconv.FormatInt(a.now().UnixNano(), 36), len(a.discarded))
	if err := a.System.Rename(path, trash); err != nil {
		return fmt.Errorf("move it away: %w", err)
	}
	makeMap(&a.discarded)
	a.discarded[trash] = path
	return a.System.RemoveAtBoot(trash)
}

// removePolicyLists removes what kube-proxy has made for Services and leaves behind, before an endpoint or the network goes that it refers to. It
// goes with the next boot at the latest.
func (a *application) removePolicyLists(ctx context.Context, network string) {
	if !containsFold(a.Networks, network) {
		return // others have made it, and may have another kube-proxy
	}
	if err := a.System.RemoveHNSPolicyLists(ctx, network); err != nil {
		a.emit(api.Event{Item: string(api.KindNetwork) + " " + network, State: api.EventNote, Message: "its load balancers stay until the next boot: " + err.Error()})
	}
}

func (a *application) removeFile(ctx context.Context, s *step) error {
	if err := a.stopFor(ctx, s.onChange.Services); err != nil {
		return err
	}
	r := a.Files[fold(s.Name)]
	if r.Aside != "" && s.file == nil {
		for _, before := range []string{r.Aside, r.Released} {
			if before == "" {
				continue
			}
			aside, err := a.System.Stat(before)
			if err != nil {
				return err
			}
			if aside.Kind != FileMissing {
				return a.replace(s.Name, func() error { return a.System.Rename(before, s.Name) })
			}
		}
		return nil // what is at the path is what existed before
	}
	if err := a.keepProgram(s.Name); err != nil {
		return err
	}
	err := a.System.Remove(s.Name)
	if errors.Is(err, ErrInUse) {
		before := len(a.staying)
		err = a.discard(s.Name)
		a.result.AtBoot = append(a.result.AtBoot, a.staying[before:]...)
	}
	return err
}
