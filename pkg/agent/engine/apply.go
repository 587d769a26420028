// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// Engine configures one host. Its methods may be called concurrently, also by several
// processes: the second one fails with a [*LockedError].
type Engine struct {
	System System
	// Events gets progress, in order. Nil: progress is dropped.
	Events func(api.Event)
	// Deadlines bound what the engine waits for. Zero: the defaults.
	Deadlines Deadlines
	// Now is the clock. Nil: [time.Now].
	Now func() time.Time
	// Executable is the name of the file of this program, in [api.Root]. [Engine.Apply] removes
	// those of other versions that no service runs. Empty: it removes none.
	Executable string
	// Sleep waits, and returns the error of ctx if that ends first. Nil: it waits by the clock.
	Sleep func(ctx context.Context, d time.Duration) error
}

func (e *Engine) now() time.Time {
	if e.Now == nil {
		return time.Now()
	}
	return e.Now()
}

func (e *Engine) sleep(ctx context.Context, d time.Duration) error {
	if e.Sleep != nil {
		return e.Sleep(ctx, d)
	}
	return Sleep(ctx, d)
}

// Sleep waits by the clock of the machine, and returns the error of ctx if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (e *Engine) emit(v api.Event) {
	if e.Events != nil {
		v.Time = e.now()
		e.Events(v)
	}
}

// Plan returns what [Engine.Apply] would do. It changes nothing. The bundle must be valid.
func (e *Engine) Plan(ctx context.Context, b *config.Bundle) (*api.Plan, error) {
	st, err := openStore(e.System)
	if err != nil {
		return nil, err
	}
	a := &application{Engine: e, store: st, observer: observer{system: e.System}}
	if err := a.prepare(ctx, b); err != nil {
		return nil, err
	}
	return &a.plan.Plan, nil
}

// Apply brings the host to the desired configuration in the bundle, which must be valid. It is
// complete with the outcome Unchanged or Applied. After any other outcome, and after a crash,
// the same bundle can be applied again.
func (e *Engine) Apply(ctx context.Context, r *api.ApplyRequest) *api.Result {
	return e.change(ctx, "apply", &api.Result{}, func(a *application) error { return a.apply(ctx, r) })
}

// Cleanup removes what the engine and the programs of the document created, and restores what
// existed before. Directories with files of others are kept, with these files. Features stay
// enabled, and the host keeps its name.
func (e *Engine) Cleanup(ctx context.Context) *api.Result {
	return e.change(ctx, "cleanup", &api.Result{}, func(a *application) error { return a.cleanup(ctx) })
}

// change runs do while it holds the lock of the host.
func (e *Engine) change(ctx context.Context, command string, result *api.Result, do func(*application) error) *api.Result {
	result.Changed = []api.Item{}
	release, err := e.lock(ctx, command)
	if err != nil {
		return failed(result, err)
	}
	a := &application{Engine: e, deadlines: e.Deadlines.withDefaults(), result: result, observer: observer{system: e.System}}
	if a.store, err = openStore(e.System); err == nil {
		err = do(a)
	}
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	}
	if err = errors.Join(err, release()); err != nil {
		return failed(result, err)
	}
	return result
}

// inspectionTakes is how long a change waits for the service that inspects the host.
const inspectionTakes = 30 * time.Second

// lock takes the lock of the host. It waits for the service, which inspects the host every
// minute, and for no other process.
func (e *Engine) lock(ctx context.Context, command string) (release func() error, err error) {
	deadline := e.now().Add(inspectionTakes)
	for {
		release, err = e.System.Lock(Owner{PID: os.Getpid(), Command: command, Since: e.now()})
		var locked *LockedError
		if !errors.As(err, &locked) || locked.Owner.Command != commandRun || !e.now().Before(deadline) {
			return release, err
		}
		if err := e.sleep(ctx, e.Deadlines.withDefaults().Poll); err != nil {
			return nil, errors.Join(locked, err)
		}
	}
}

// application is one change of a host.
type application struct {
	*Engine
	observer
	*store
	deadlines Deadlines
	result    *api.Result
	// desired is the desired configuration, and bundle the part of it that is not waiting.
	desired, bundle *config.Bundle
	plan            *plan
	seen            *observation
	// except is a service that is not touched: the one that this process is.
	except string
	// cleaningUp: everything is removed, so nothing has to wait for a restart.
	cleaningUp bool
	// repairing: only steps with a low impact are done, and missing values are not waited for.
	repairing bool
	// leave says which items are left as they are while repairing, and completes their reason. Nil: none.
	leave   func(*api.Item) bool
	started int
	// stopped are the services that ran and were told to stop.
	stopped []string
	// discarded are the paths of files that were in use, by where they are in the trash.
	discarded map[string]string
	// staying are files that are in use where they are, and removed at the next boot.
	staying []string
	// mounted: a layer of containers may be, so that Windows is asked to remove none any more.
	mounted bool
	// keeps says which programs stay on the host when they are replaced. The zero value: none.
	keeps keptPrograms
}

func (a *application) apply(ctx context.Context, r *api.ApplyRequest) error {
	if err := a.prepare(ctx, &r.Bundle); err != nil {
		return err
	}
	var err error
	if a.keeps, err = a.programsToKeep(r.Keep); err != nil {
		return err
	}
	a.result.Revision = a.plan.Revision
	switch {
	case len(a.plan.Reboot) > 0:
		a.result.Outcome, a.result.Reboot = api.OutcomeRebootRequired, a.plan.Reboot
		return nil
	case costlier(a.plan.Impact, cmp.Or(r.Allow, config.ImpactNone)):
		a.result.Outcome, a.result.Plan = api.OutcomeImpactExceeded, &a.plan.Plan
		return nil
	case len(a.plan.Payload) > 0:
		return missingPayload(a.plan.Payload...)
	}
	if err := a.claim(); err != nil {
		return err
	}
	a.result.Outcome = api.OutcomeUnchanged
	if len(a.plan.steps) > 0 {
		a.result.Outcome = api.OutcomeApplied
		a.Applying = a.plan.Revision
		if err := a.execute(ctx); err != nil || a.result.Outcome == api.OutcomeRebootRequired {
			return err
		}
	}
	return a.finish()
}

// prepare inspects the host and makes the plan.
func (a *application) prepare(ctx context.Context, b *config.Bundle) (err error) {
	document, awaited, err := a.awaiting(ctx, &b.Document, a.repairing)
	if err != nil {
		return err
	}
	a.desired, a.bundle = b, &config.Bundle{Document: present(&document, a.inventory), Secrets: b.Secrets}
	b = a.bundle
	if a.seen, err = a.observe(ctx, &b.Document, a.inventory); err != nil {
		return err
	}
	a.seen.awaited = awaited
	if a.repairing {
		a.seen.awaited.unwritten = unwritten(&b.Document, a.seen.values)
	}
	a.claimAdoptedNetworks()
	a.remakeNetworks()
	if a.seen.credentials, err = credentials(a.System, &b.Document, a.seen.hostname, a.seen.values, a.now()); err != nil {
		return err
	}
	if a.Reboot != nil && a.Reboot.Boot != a.seen.boot {
		a.Reboot = nil
	}
	if a.plan, err = a.planner().diff(); err != nil {
		return err
	}
	a.plan.Waiting = awaited.services(&a.desired.Document)
	if a.plan.NodeName, err = a.nodeName(ctx, &b.Document, a.seen.values); err != nil {
		return err
	}
	a.plan.Revision, err = a.desired.Document.Revision()
	return err
}

func (a *application) planner() *planner {
	return &planner{bundle: a.bundle, seen: a.seen, inv: a.inventory, except: a.except, repairing: a.repairing, leave: a.leave}
}

// finish records that the document was applied.
func (a *application) finish() error {
	a.prune()
	a.pruneGenerated()
	a.refresh()
	a.keepValues()
	content, err := a.desired.Encode()
	if err != nil {
		return err
	}
	before, err := readFile(a.System, appliedPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the applied document: %w", err)
	}
	if err != nil || !bytes.Equal(before, content) {
		a.Applying = a.plan.Revision
		if err := a.save(); err != nil {
			return err
		}
		if err := a.System.WriteFile(appliedPath, content, config.AccessAdministrators); err != nil {
			return fmt.Errorf("write the applied document: %w", err)
		}
	}
	a.Applying, a.Applied, a.NodeName = "", a.plan.Revision, ""
	if err := a.save(); err != nil {
		return err
	}
	a.sweep()
	a.sweepAgents()
	a.sweepKept()
	return a.forgetDrift()
}

// forgetDrift removes the recorded drift once it is repaired. It is kept if there was nothing
// to do: then it reports what the service has repaired.
func (a *application) forgetDrift() error {
	if a.result.Outcome != api.OutcomeApplied {
		return nil
	}
	return a.removeOwn(driftPath)
}

// removeOwn removes a file of the agent, if it exists: without a file it makes no call that
// changes the host.
func (a *application) removeOwn(path string) error {
	info, err := a.System.Stat(path)
	if err == nil && info.Kind != FileMissing {
		err = a.System.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// prune drops the records of what is not in the document: it was removed.
func (a *application) prune() {
	d := &a.bundle.Document
	keep(a.Files, names(d.Files, func(f config.File) string { return f.Path }))
	keep(a.Directories, wantedDirectories(d))
	keep(a.Firewall, names(d.Firewall, func(r config.FirewallRule) string { return r.Name }))
	keep(a.Exclusions, d.AntivirusExclusions)
	if !d.KeepCertificates {
		keep(a.Certs, names(d.Certificates, func(c config.Certificate) string { return certificateKey(c.Store, c.Fingerprint) }))
	}
	keep(a.Environment, names(d.Environment, func(v config.EnvironmentVariable) string { return v.Name }))
	services := names(d.Services, func(s config.Service) string { return s.Name })
	a.Services = slices.DeleteFunc(a.Services, func(r serviceRecord) bool {
		return !containsFold(services, r.Name) && !strings.EqualFold(r.Name, a.except)
	})
	networks, endpoints := hnsNames(d)
	a.Networks = slices.DeleteFunc(a.Networks, func(name string) bool { return !slices.Contains(networks, name) })
	keep(a.Endpoints, endpoints)
}

// refresh updates the records of what is ours from the document. After a crash they may still
// have earlier values, and a document may have other values for something that did not change.
func (a *application) refresh() {
	d := &a.bundle.Document
	for _, f := range d.Files {
		if r, ours := a.Files[fold(f.Path)]; ours {
			r.OnChange = lastingChange(f)
			if a.planner().joinsWith(f) {
				r.Done = f.Digest
			}
			a.Files[fold(f.Path)] = r
		}
	}
	for _, v := range d.Environment {
		if r, ours := a.Environment[strings.ToUpper(v.Name)]; ours {
			r.Name, r.Value, r.Previous, r.OnChange = v.Name, environmentValue(a.bundle, v), nil, v.OnChange
			a.Environment[strings.ToUpper(v.Name)] = r
		}
	}
	for _, c := range d.Certificates {
		if r, ours := a.Certs[certificateKey(c.Store, c.Fingerprint)]; ours {
			r.OnChange = c.OnChange
			a.Certs[certificateKey(c.Store, c.Fingerprint)] = r
		}
	}
	for _, r := range d.Firewall {
		if _, ours := a.Firewall[fold(r.Name)]; ours {
			a.Firewall[fold(r.Name)] = r
		}
	}
	for _, s := range d.Services {
		if a.hasService(s.Name) {
			a.recordService(&s)
		}
	}
}

// keep drops the entries of a map by name, in lower or upper case, that are not wanted.
func keep[T any](m map[string]T, wanted []string) {
	set := map[string]bool{}
	for _, name := range wanted {
		set[fold(name)] = true
	}
	maps.DeleteFunc(m, func(name string, _ T) bool { return !set[fold(name)] })
}

// containsFold reports whether a list has a name, whatever its case.
func containsFold(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, name) })
}

// sweep removes files that were in use when they were replaced. Those that still are wait for
// the next time or the next boot.
func (a *application) sweep() {
	list, err := a.System.Names(trashDirectory)
	if err != nil {
		return // it does not exist
	}
	for _, name := range list {
		if err := a.System.Remove(trashDirectory + `\` + name); err != nil {
			a.emit(api.Event{Item: trashDirectory + `\` + name, State: api.EventNote, Message: "is removed later: " + err.Error()})
		}
	}
}

// phase is when a step is done.
type phase int

const (
	phasePrerequisites phase = iota // what may need a restart of the host
	phaseFiles                      // while services are stopped
	phaseServices                   // from the first to the last
	phaseLast
)

func (s *step) phase() phase {
	switch s.Kind {
	case api.KindHostname, api.KindFeature, api.KindEnvironment, api.KindCertificate:
		return phasePrerequisites
	case api.KindService, api.KindEndpoint:
		if s.Action != api.ActionDelete {
			return phaseServices
		}
	case api.KindFile:
		if s.Action != api.ActionDelete && s.afterService != "" {
			return phaseServices
		}
	case api.KindDirectory:
		if s.Action == api.ActionDelete {
			return phaseLast
		}
	case api.KindFirewall, api.KindAntivirus, api.KindNetwork:
	}
	return phaseFiles
}

// execute does the steps of the plan.
func (a *application) execute(ctx context.Context) error {
	err := a.doPhase(ctx, phasePrerequisites)
	if err != nil && !a.repairing {
		return err
	}
	if a.Reboot != nil && !a.cleaningUp {
		a.result.Outcome, a.result.Reboot = api.OutcomeRebootRequired, a.Reboot.Reasons
		return errors.Join(err, a.save())
	}
	if err == nil {
		err = a.changeFiles(ctx)
	}
	if err != nil && !a.repairing {
		return err
	}
	// A repair that fails leaves no service stopped: nobody is told to try again.
	err = errors.Join(err, a.runServices(ctx))
	if err != nil {
		return err
	}
	return a.doPhase(ctx, phaseLast)
}

// inVain returns the items for which services were stopped in vain. If the services did not stop,
// these are all.
func (a *application) inVain() []api.Item {
	if len(a.stopped) == 0 {
		return nil
	}
	var failed, all []api.Item
	for _, s := range a.plan.steps {
		if s.failed {
			failed = append(failed, s.Item)
		}
		if !s.done {
			all = append(all, s.Item)
		}
	}
	if len(failed) > 0 {
		return failed
	}
	return all
}

// changeFiles stops services and does what needs them stopped.
func (a *application) changeFiles(ctx context.Context) error {
	for _, name := range a.plan.Restarts {
		if err := a.stop(ctx, name); err != nil {
			return err
		}
	}
	if a.cleaningUp || a.seen.remade {
		if err := a.endPrograms(ctx); err != nil {
			return err
		}
	}
	if err := a.doPhase(ctx, phaseFiles); err != nil {
		return err
	}
	return a.lateNetworks(ctx)
}

// lateNetworks removes networks that a service created after the host was inspected and before
// the service was stopped.
func (a *application) lateNetworks(ctx context.Context) error {
	if len(a.Networks) == 0 {
		return nil
	}
	if err := a.hns(ctx, a.seen, &a.bundle.Document, a.inventory); err != nil {
		return err
	}
	p := a.planner()
	p.removedNetworks()
	return a.doEach(ctx, p.plan.steps, func(*step) bool { return true })
}

// doEach does the selected steps.
func (a *application) doEach(ctx context.Context, steps []step, selected func(*step) bool) error {
	for i := range steps {
		if s := &steps[i]; selected(s) {
			if err := a.do(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// doPhase does the steps of a phase.
func (a *application) doPhase(ctx context.Context, p phase) error {
	return a.doEach(ctx, a.plan.steps, func(s *step) bool { return s.phase() == p })
}

// do does one step and reports it.
func (a *application) do(ctx context.Context, s *step) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stopped before %s: %w", s.Item, err)
	}
	a.started++
	e := api.Event{Step: a.started, Steps: len(a.plan.steps), Item: s.Item.String(), State: api.EventStarted, Message: s.Reason}
	a.emit(e)
	if err := a.perform(ctx, s); err != nil {
		s.failed = true
		err = fmt.Errorf("%s: %w", s.Item, err)
		e.State, e.Message = api.EventFailed, err.Error()
		a.emit(e)
		return err
	}
	s.done = true
	e.State, e.Message = api.EventDone, ""
	a.emit(e)
	a.result.Changed = append(a.result.Changed, s.Item)
	return nil
}

// cleanup applies a document without content.
func (a *application) cleanup(ctx context.Context) error {
	if err := a.prepare(ctx, &config.Bundle{Document: config.Document{Version: config.SchemaVersion}}); err != nil {
		return err
	}
	a.result.Outcome, a.cleaningUp = api.OutcomeRemoved, true
	a.keepRemovals()
	if err := a.execute(ctx); err != nil {
		return err
	}
	if a.Reboot != nil {
		a.result.Reboot = a.Reboot.Reasons
	}
	a.result.Networks = a.networksLeft(ctx)
	return a.removeState()
}

// keepRemovals drops what an apply has the host restarted for, except what it removed: a feature or
// a name, which stay, need no restart to be cleaned.
func (a *application) keepRemovals() {
	if a.Reboot == nil {
		return
	}
	a.Reboot.Reasons = slices.DeleteFunc(a.Reboot.Reasons, func(reason string) bool { return !strings.HasPrefix(reason, string(api.ActionDelete)+" ") })
	if len(a.Reboot.Reasons) == 0 {
		a.Reboot = nil
	}
}

// removeState removes the state of the agent, the inventory last. What is in the trash and in use
// is left for the next boot. While the host has to restart, the inventory says so, and nothing else:
// whoever cleans it again before that must know.
func (a *application) removeState() error {
	s := a.System
	a.sweep()
	if err := a.leaveTrash(); err != nil {
		return err
	}
	for _, directory := range []string{trashDirectory, asideDirectory, api.PayloadDirectory} {
		list, err := s.Names(directory)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", directory, err)
		}
		if directory == api.PayloadDirectory {
			for _, name := range list {
				if err := s.Remove(directory + `\` + name); err != nil {
					return fmt.Errorf("remove the payload: %w", err)
				}
			}
		}
		if err := a.removeDirectory(directory); err != nil {
			return err
		}
	}
	for _, path := range []string{appliedPath, driftPath, api.UpdatesPath, api.UpdatesRequestPath, api.ReplacedKeysPath} {
		if err := a.removeOwn(path); err != nil {
			return err
		}
	}
	if due := a.Reboot; due != nil {
		a.inventory = newInventory()
		a.Reboot = due
		return a.save()
	}
	if err := a.removeOwn(inventoryPath); err != nil {
		return err
	}
	a.written = nil
	if _, err := s.Names(stateDirectory); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := a.removeDirectory(stateDirectory); err != nil || len(a.staying) == 0 {
		return err
	}
	return a.removeDirectory(api.Root)
}

// leaveTrash records what is in the trash after it was swept.
func (a *application) leaveTrash() error {
	list, err := a.System.Names(trashDirectory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", trashDirectory, err)
	}
	for _, name := range list {
		trash := trashDirectory + `\` + name
		path, known := a.discarded[trash]
		if !known { // it is from an earlier change
			path = trash
			if err := a.System.RemoveAtBoot(trash); err != nil {
				return err
			}
		}
		a.staying = append(a.staying, trash)
		a.result.AtBoot = append(a.result.AtBoot, path)
	}
	return nil
}

// removeDirectory removes a directory unless others have something in it. One with files of ours
// that are in use follows them at the next boot.
func (a *application) removeDirectory(path string) error {
	err := a.System.Remove(path)
	if errors.Is(err, ErrNotEmpty) && slices.ContainsFunc(a.staying, func(p string) bool { return config.Below(p, path) }) {
		return a.System.RemoveAtBoot(path)
	}
	if errors.Is(err, ErrNotEmpty) {
		a.emit(api.Event{Item: path, State: api.EventNote, Message: "is kept: it contains something that is not ours"})
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}
