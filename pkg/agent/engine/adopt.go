// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// maxAdopted bounds how many files and directories an adoption records. Each is an item of the plan of the next update, of which servers take
// twice as many: see OfPlan in pkg/host/agentclient/answer.
const maxAdopted = 4096

// Adopt makes what another program has configured ours as it is: nothing is restarted, and no file is changed. Only the
// service that manages the host for the other program is removed, before anything is recorded; before that Windows is told
// to start the other services, which that one may have done. From then on the
// host has the revision of the request, an update is what [Engine.Apply] does, and [Engine.Cleanup] removes what is
// there. It is complete with the outcome Applied, or Unchanged when it was done before. After a failure and
// after a crash the same can be requested again; until it is complete, nothing is ours.
func (e *Engine) Adopt(ctx context.Context, r *api.AdoptRequest) *api.Result {
	return e.change(ctx, "adopt", &api.Result{}, func(a *application) error { return a.adopt(ctx, r) })
}

// PlanAdoption returns what the first [Engine.Apply] would do after [Engine.Adopt], and fails where that would. It changes nothing.
func (e *Engine) PlanAdoption(ctx context.Context, r *api.AdoptRequest) (*api.Plan, error) {
	st, err := openStore(e.System)
	if err != nil {
		return nil, err
	}
	a := &application{Engine: e, store: st, observer: observer{system: e.System}}
	// Whoever asks may not know yet that the host was adopted, nor which version of the other program had configured it.
	if !strings.EqualFold(a.NodeName, r.Adoption.NodeName) || a.Applying != "" {
		manual, err := a.take(ctx, r)
		if err != nil {
			return nil, err
		}
		a.observer.system = startingWithHost{e.System, manual}
	}
	if err := a.prepare(ctx, &r.Bundle); err != nil {
		return nil, err
	}
	return &a.plan.Plan, nil
}

// startingWithHost is a host whose services Windows starts, as after [application.startWithHost].
type startingWithHost struct {
	System
	services []serviceRecord
}

// Service implements [ServiceManager].
func (h startingWithHost) Service(name string) (*Service, error) {
	s, err := h.System.Service(name)
	if err != nil || s == nil {
		return s, err
	}
	for _, r := range h.services {
		if strings.EqualFold(r.Name, name) {
			s.Settings.StartType, s.Recovery = config.StartAutomatic, r.Recovery
		}
	}
	return s, nil
}

// isAdopted says whether an adoption was completed before, and nothing was applied since.
func (a *application) isAdopted(r *api.Adoption) bool {
	return a.Applied == r.Revision && a.Applying == ""
}

// take puts into the inventory what an adoption makes ours, and returns the services that the other program starts itself. Nothing is
// written or changed.
func (a *application) take(ctx context.Context, r *api.AdoptRequest) (manual []serviceRecord, err error) {
	if a.written != nil {
		return nil, &Error{api.ReasonConflict, errors.New("this agent has configured the host before, so that there is nothing to adopt")}
	}
	a.bundle = &r.Bundle
	if a.seen, err = a.observe(ctx, &r.Bundle.Document, a.inventory); err != nil {
		return nil, err
	}
	if lacks := a.notEquivalent(&r.Adoption); len(lacks) > 0 {
		return nil, &Error{api.ReasonConflict, fmt.Errorf("the host is not as it has to be to be adopted: %w", errors.Join(lacks...))}
	}
	if manual, err = a.takeServices(&r.Adoption); err != nil {
		return nil, err
	}
	if err := a.takeLeft(ctx, &r.Adoption); err != nil {
		return nil, err
	}
	if err := a.takeSettings(&r.Adoption); err != nil {
		return nil, err
	}
	a.takeDocument()
	return manual, nil
}

func (a *application) adopt(ctx context.Context, r *api.AdoptRequest) error {
	a.result.Revision, a.result.Outcome = r.Adoption.Revision, api.OutcomeUnchanged
	if a.isAdopted(&r.Adoption) {
		return nil
	}
	manual, err := a.take(ctx, r)
	if err != nil {
		return err
	}
	if err := a.startWithHost(manual, "starts with the host from now on, as service "+r.Adoption.Manager+" does not start it any more"); err != nil {
		return err
	}
	if err := a.endManager(ctx, r.Adoption.Manager, "would undo what this agent does"); err != nil {
		return err
	}
	// It has written there until it ended.
	if err := a.takeTrees(ctx, &r.Adoption); err != nil {
		return err
	}
	a.result.Outcome = api.OutcomeApplied
	a.Applied, a.NodeName, a.Machine = r.Adoption.Revision, r.Adoption.NodeName, a.System.MachineID()
	return a.save()
}

// notEquivalent says what a host lacks whose services could not go on as nodes of the desired configuration.
func (a *application) notEquivalent(r *api.Adoption) (lacks []error) {
	for _, required := range r.Requires {
		s, err := a.System.Service(required.Name)
		switch {
		case err != nil:
			lacks = append(lacks, fmt.Errorf("inspect service %s: %w", required.Name, err))
		case s == nil:
			lacks = append(lacks, fmt.Errorf("there is no service %s", required.Name))
		case s.State != ServiceRunning:
			lacks = append(lacks, fmt.Errorf("service %s is %s", required.Name, s.State))
		default:
			for _, text := range required.Contains {
				if !strings.Contains(fold(s.Settings.CommandLine), fold(text)) {
					lacks = append(lacks, fmt.Errorf("service %s does not run with %s", required.Name, text))
				}
			}
		}
	}
	if err := a.losesNetwork(r); err != nil {
		return append(lacks, err)
	}
	if hns := a.bundle.Document.HNS; hns != nil && hns.Endpoint != nil {
		if exists := a.seen.networks[fold(hns.Endpoint.Network)]; !exists {
			lacks = append(lacks, fmt.Errorf("there is no network %s of the Host Networking Service", hns.Endpoint.Network))
		}
	}
	return lacks
}

// losesNetwork says that the first update would take from pods what connects them.
func (a *application) losesNetwork(r *api.Adoption) error {
	if r.NetworkService == "" || indexOfService(a.bundle.Document.Services, r.NetworkService) >= 0 {
		return nil
	}
	switch s, err := a.System.Service(r.NetworkService); {
	case err != nil:
		return fmt.Errorf("inspect service %s: %w", r.NetworkService, err)
	case s != nil:
		return fmt.Errorf("service %s connects the pods of the host, and the payload does not have its program: %s", r.NetworkService, addProgram)
	}
	return nil
}

// takeServices records the services that the other program has left, and returns those that it starts itself. Windows is to start
// these again when their programs end, with the recovery actions that the document has for them. One that it does not have, which the
// next update removes, gets those of its first service. The others keep what they have: somebody may have disabled one.
func (a *application) takeServices(r *api.Adoption) (manual []serviceRecord, err error) {
	of := a.bundle.Document.Services
	for _, name := range r.Services {
		s, err := a.System.Service(name)
		if err != nil {
			return nil, fmt.Errorf("inspect service %s: %w", name, err)
		}
		if s == nil {
			continue
		}
		record := serviceRecord{
			Name: name, Dependencies: s.Settings.Dependencies, Recovery: s.Recovery,
			OnChange: config.OnChange{Impact: config.ImpactRestart, Services: []string{name}},
		}
		i := indexOfService(of, name)
		if i >= 0 {
			record.OnChange = of[i].OnChange
		}
		if s.Settings.StartType == config.StartManual {
			record.Recovery = nil
			if len(of) > 0 {
				record.Recovery = of[max(i, 0)].Recovery
			}
			manual = append(manual, record)
		}
		a.Services = append(a.Services, record)
	}
	return manual, nil
}

// startWithHost has Windows start services that it did not start so far, with each boot and when their programs end. They run on
// meanwhile.
func (a *application) startWithHost(manual []serviceRecord, reason string) error {
	for _, s := range manual {
		item := api.Item{Kind: api.KindService, Name: s.Name, Action: api.ActionUpdate, Impact: config.ImpactNone, Reason: reason}
		a.emit(api.Event{Step: 1, Steps: 1, Item: item.String(), State: api.EventStarted, Message: item.Reason})
		if err := a.System.SetAutomatic(s.Name, s.Recovery); err != nil {
			return fmt.Errorf("have service %s start with the host: %w", s.Name, err)
		}
		a.result.Changed = append(a.result.Changed, item)
		a.emit(api.Event{Step: 1, Steps: 1, Item: item.String(), State: api.EventDone})
	}
	return nil
}

// endManager removes the service of the program that has managed the host.
func (a *application) endManager(ctx context.Context, name, reason string) error {
	s, err := a.System.Service(name)
	if err != nil {
		return fmt.Errorf("inspect service %s: %w", name, err)
	}
	if s == nil {
		return nil
	}
	item := api.Item{Kind: api.KindService, Name: name, Action: api.ActionDelete, Impact: config.ImpactNone, Reason: reason}
	a.emit(api.Event{Step: 1, Steps: 1, Item: item.String(), State: api.EventStarted, Message: item.Reason})
	if err := a.stop(ctx, name); err != nil {
		if s.Recovery != nil { // it may go on, and is still whose it was
			err = errors.Join(err, a.System.SetRecovery(name, s.Recovery))
		}
		return err
	}
	if err := a.System.DeleteService(name); err != nil {
		return fmt.Errorf("delete service %s: %w", name, err)
	}
	a.result.Changed = append(a.result.Changed, item)
	a.emit(api.Event{Step: 1, Steps: 1, Item: item.String(), State: api.EventDone})
	return nil
}

// takeSettings records the variables of the machine and the certificates that the other program takes away itself once they are no
// longer wanted. The values are its own, and not what was there before.
func (a *application) takeSettings(r *api.Adoption) error {
	environment, err := a.System.Environment()
	if err != nil {
		return fmt.Errorf("inspect the variables of the machine: %w", err)
	}
	for name, value := range environment {
		if containsFold(r.Environment, name) {
			a.Environment[strings.ToUpper(name)] = environmentRecord{
				OwnedVariable: config.OwnedVariable{Value: value}, Name: name, OnChange: config.OnChange{Impact: config.ImpactReboot},
			}
		}
	}
	if r.Imported == "" {
		return nil
	}
	imported, err := readFile(a.System, r.Imported)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the certificates that were imported: %w", err)
	}
	trusted, err := a.System.Certificates(config.StoreRoot)
	if err != nil {
		return fmt.Errorf("inspect certificate store %s: %w", config.StoreRoot, err)
	}
	for block, rest := pem.Decode(imported); block != nil; block, rest = pem.Decode(rest) {
		if fingerprint := config.Fingerprint(block.Bytes); containsFold(trusted, fingerprint) {
			a.Certs[certificateKey(config.StoreRoot, fingerprint)] = certificateRecord{
				Store: config.StoreRoot, Fingerprint: fingerprint, OnChange: config.OnChange{Impact: config.ImpactNone},
			}
		}
	}
	return nil
}

// takeDocument records what the document has and the host has, too, as if an earlier document had made it. Nothing is
// put aside: it was made for the node that the host is. Of the certificates that are trusted only those are ours that the other program
// has on record as its own, see [application.takeSettings]: the others may have been trusted before.
func (a *application) takeDocument() {
	d := &a.bundle.Document
	for _, f := range d.Files {
		if a.seen.files[fold(f.Path)].Kind == FileRegular {
			a.Files[fold(f.Path)] = fileRecord{Path: f.Path, Saved: true, OnChange: lastingChange(f)}
		}
	}
	for _, path := range wantedDirectories(d) { // one with files of others stays
		if a.seen.directories[fold(path)].Kind == FileDirectory {
			a.Directories[fold(path)] = directoryRecord{Path: path}
		}
	}
	for _, path := range d.Generated {
		a.Generated[fold(path)] = path
	}
	for _, v := range d.Environment {
		if value := environmentValue(a.bundle, v); a.seen.environment[strings.ToUpper(v.Name)] == value {
			a.Environment[strings.ToUpper(v.Name)] = environmentRecord{OwnedVariable: config.OwnedVariable{Value: value}, Name: v.Name, OnChange: v.OnChange}
		}
	}
	for _, r := range d.Firewall {
		if a.seen.firewall[fold(r.Name)] != nil {
			a.Firewall[fold(r.Name)] = r
		}
	}
	for _, program := range d.AntivirusExclusions {
		if a.seen.exclusions[fold(program)] {
			a.Exclusions[fold(program)] = program
		}
	}
	if d.HNS == nil {
		return
	}
	for _, name := range d.HNS.Networks { // the other program has made them all; a foreign one comes from somebody else, see losesNetwork
		if a.seen.networks[fold(name)] {
			a.Networks = append(a.Networks, name)
		}
	}
	if e := d.HNS.Endpoint; e != nil && a.seen.endpoints[fold(e.Name)] {
		a.Endpoints[e.Name] = *e
	}
}

// takeLeft records the files and directories that the other program has left besides.
func (a *application) takeLeft(ctx context.Context, r *api.Adoption) error {
	for _, path := range r.Files {
		if err := a.takePath(ctx, path, false); err != nil {
			return err
		}
	}
	for _, path := range r.Directories {
		for _, p := range append(ancestors(path), path) {
			if err := a.takePath(ctx, p, false); err != nil {
				return err
			}
		}
	}
	for _, path := range r.Whole {
		if err := a.takeWhole(path); err != nil {
			return err
		}
	}
	return a.takeTrees(ctx, r)
}

// takeWhole records a directory of the other program as one. What the programs of the document make is recorded as that.
func (a *application) takeWhole(path string) error {
	if a.isGenerated(path) {
		return nil
	}
	info, err := a.System.Stat(path)
	if err != nil {
		return fmt.Errorf("inspect %s: %w", path, err)
	}
	if info.Kind != FileMissing {
		delete(a.Directories, fold(path))
		a.Generated[fold(path)] = path
	}
	return nil
}

// isGenerated says whether the programs of the document make a path, or what it is in.
func (a *application) isGenerated(path string) bool {
	return slices.ContainsFunc(a.bundle.Document.Generated, func(generated string) bool { return config.Below(path, generated) })
}

// takeTrees records what the other program has in directories of its own.
func (a *application) takeTrees(ctx context.Context, r *api.Adoption) error {
	for _, path := range r.Trees {
		if err := a.takePath(ctx, path, true); err != nil {
			return err
		}
	}
	return nil
}

// takePath records a file or a directory, and all that is in it if that is asked for. What the programs of the document
// make is recorded as that. Links are left to others, but for those in a directory of the other program: it makes them to name its
// newest log, or certificate.
func (a *application) takePath(ctx context.Context, path string, whole bool) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stopped before %s was inspected: %w", path, err)
	}
	if a.isGenerated(path) {
		return nil
	}
	info, err := a.System.Stat(path)
	if err != nil {
		return fmt.Errorf("inspect %s: %w", path, err)
	}
	_, known := a.Files[fold(path)]
	switch {
	case info.Kind == FileRegular && !known:
		a.Files[fold(path)] = fileRecord{Path: path, Saved: true}
	case info.Kind == FileDirectory:
		a.Directories[fold(path)] = directoryRecord{Path: path}
	case info.Kind == FileOther && whole:
		a.Generated[fold(path)] = path
	}
	if len(a.Files)+len(a.Directories)+len(a.Generated) > maxAdopted {
		return &Error{api.ReasonConflict, fmt.Errorf("there are more than %d files and directories to adopt, the last one is %s: remove those that nobody needs", maxAdopted, path)}
	}
	if info.Kind != FileDirectory || !whole {
		return nil
	}
	inside, err := a.System.Names(path)
	if err != nil {
		return fmt.Errorf("list %s: %w", path, err)
	}
	for _, name := range inside {
		if err := a.takePath(ctx, path+`\`+name, true); err != nil {
			return err
		}
	}
	return nil
}
