// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// Release gives the host up, so that another program can take it over: nothing is restarted, and what makes the host a node stays as it
// is. The service of the agent goes, and all that the agent has recorded, the inventory last. Before that, unless the other program is
// there, Windows is told to start the services that the agent has started, and the expired certificates of that program go. It is complete with the outcome Released, or Unchanged when there was nothing to give
// up. After a failure and after a crash the same can be requested again; until it is complete, the inventory has the host.
func (e *Engine) Release(ctx context.Context, r *api.ReleaseRequest) *api.Result {
	return e.change(ctx, "release", &api.Result{}, func(a *application) error { return a.release(ctx, r) })
}

func (a *application) release(ctx context.Context, r *api.ReleaseRequest) error {
	bundle, err := readApplied(a.System)
	if err != nil {
		return err
	}
	if bundle == nil { // it was adopted, and got no document since
		bundle = &config.Bundle{}
	}
	a.bundle, a.seen, a.result.Outcome = bundle, &observation{}, api.OutcomeUnchanged
	if a.written != nil {
		a.result.Outcome = api.OutcomeReleased
	}
	if a.result.Left, err = a.leaves(ctx); err != nil {
		return err
	}
	managed, err := a.isManagedBy(r.Manager)
	if err != nil {
		return err
	}
	if !managed {
		if err := a.leaveToWindows(ctx, r); err != nil {
			return err
		}
	}
	if err := a.endManager(ctx, api.ServiceName, "gives the host up"); err != nil {
		return err
	}
	if err := a.recordImported(r.Imported); err != nil {
		return err
	}
	if a.result.Left.Aside, err = a.keepAside(); err != nil {
		return err
	}
	if len(a.result.Changed) > 0 {
		a.result.Outcome = api.OutcomeReleased
	}
	a.Reboot = nil // whoever has the host next does not ask this inventory
	return a.removeState()
}

// leaves returns what whoever has the host next has to know of it, and what Windows has to be restarted for.
func (a *application) leaves(ctx context.Context) (*api.Left, error) {
	left := &api.Left{Incomplete: a.Applying != ""}
	for _, destination := range a.bundle.Document.Routes {
		left.Routes = append(left.Routes, destination.String())
	}
	keys, err := a.System.Stat(api.ReplacedKeysPath)
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", api.ReplacedKeysPath, err)
	}
	left.KeysReplaced = keys.Kind != FileMissing
	boot, err := a.System.Boot(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the identity of the boot: %w", err)
	}
	if a.Reboot != nil && a.Reboot.Boot == boot {
		a.result.Reboot = a.Reboot.Reasons
	}
	return left, nil
}

// isManagedBy says whether the service of the program that has the host next is there already. It starts the other services, and renews
// its certificates.
func (a *application) isManagedBy(manager string) (bool, error) {
	if manager == "" {
		return false, nil
	}
	s, err := a.System.Service(manager)
	if err != nil {
		return false, fmt.Errorf("inspect service %s: %w", manager, err)
	}
	return s != nil, nil
}

// leaveToWindows has the host run on without a manager, and be one that a manager can be put on.
func (a *application) leaveToWindows(ctx context.Context, r *api.ReleaseRequest) error {
	manual, err := a.startedByUs()
	if err != nil {
		return err
	}
	if err := a.startWithHost(manual, "starts with the host from now on, as this agent does not start it any more"); err != nil {
		return err
	}
	return a.removeUnrenewed(ctx, r.ManagerCertificates)
}

// removeUnrenewed removes the directory with the certificates that nobody renews. WMCO logs in with them if they are there, and has no
// other way if the cluster refuses them: see generateWICDKubeconfig of openshift/windows-machine-config-operator.
func (a *application) removeUnrenewed(ctx context.Context, directory string) error {
	if directory == "" {
		return nil
	}
	info, err := a.System.Stat(directory)
	if err != nil {
		return fmt.Errorf("inspect %s: %w", directory, err)
	}
	if info.Kind == FileMissing {
		return nil
	}
	item := api.Item{Kind: api.KindDirectory, Name: directory, Action: api.ActionDelete, Impact: config.ImpactNone, Reason: "has certificates that nobody renews"}
	a.emit(api.Event{Step: 1, Steps: 1, Item: item.String(), State: api.EventStarted, Message: item.Reason})
	if _, err := a.removeTree(ctx, directory, func() {}); err != nil {
		return fmt.Errorf("remove the certificates that nobody renews: %w", err)
	}
	a.result.Changed = append(a.result.Changed, item)
	a.emit(api.Event{Step: 1, Steps: 1, Item: item.String(), State: api.EventDone})
	return nil
}

// startedByUs returns the services that Windows does not start with the host, as the agent does, with the recovery actions of the
// document.
func (a *application) startedByUs() (manual []serviceRecord, err error) {
	for _, r := range a.Services {
		s, err := a.System.Service(r.Name)
		if err != nil {
			return nil, fmt.Errorf("inspect service %s: %w", r.Name, err)
		}
		if s == nil || s.Settings.StartType != config.StartManual || strings.EqualFold(r.Name, api.ServiceName) {
			continue
		}
		if i := indexOfService(a.bundle.Document.Services, r.Name); i >= 0 {
			r.Recovery = a.bundle.Document.Services[i].Recovery
		}
		manual = append(manual, r)
	}
	return manual, nil
}

// recordImported writes the certificates that are ours to where the next program looks up what was imported. What it
// has recorded there itself stays.
func (a *application) recordImported(path string) error {
	var text strings.Builder
	for _, c := range a.bundle.Document.Certificates {
		if _, ours := a.Certs[certificateKey(c.Store, c.Fingerprint)]; ours {
			text.WriteString(strings.TrimSpace(c.PEM) + "\n")
		}
	}
	if path == "" || text.Len() == 0 {
		return nil
	}
	info, err := a.System.Stat(path)
	if err != nil {
		return fmt.Errorf("inspect %s: %w", path, err)
	}
	if info.Kind != FileMissing {
		return nil
	}
	if err := a.System.WriteFile(path, []byte(text.String()), config.AccessInherited); err != nil {
		return fmt.Errorf("record the certificates that were imported: %w", err)
	}
	a.result.Changed = append(a.result.Changed, api.Item{Kind: api.KindFile, Name: path, Action: api.ActionCreate, Impact: config.ImpactNone, Reason: "names the certificates that were imported"})
	return nil
}

// keepAside moves the files that existed before to where they stay, and returns whether there are any. A name tells which file it was. Where they
// go is recorded before: a release that does not complete may not be the end of it, and whoever keeps the host and removes it later gets them back.
func (a *application) keepAside() (kept bool, err error) {
	for key, r := range a.Files {
		if r.Aside == "" {
			continue
		}
		info, err := a.System.Stat(r.Aside)
		if err != nil {
			return kept, fmt.Errorf("inspect %s: %w", r.Aside, err)
		}
		if info.Kind == FileMissing { // it was moved, or never was
			continue
		}
		if err := makeOwnDirectory(a.System, api.ReleasedDirectory); err != nil {
			return kept, err
		}
		to, err := a.freeName(api.ReleasedDirectory + `\` + baseName(r.Aside) + "-" + baseName(r.Path))
		if err != nil {
			return kept, err
		}
		r.Released = to
		a.Files[key] = r
		if err := a.save(); err != nil {
			return kept, err
		}
		if err := a.System.Rename(r.Aside, to); err != nil {
			return kept, fmt.Errorf("keep the file that was at %s before: %w", r.Path, err)
		}
	}
	info, err := a.System.Stat(api.ReleasedDirectory)
	if err != nil {
		return false, fmt.Errorf("inspect %s: %w", api.ReleasedDirectory, err)
	}
	return info.Kind == FileDirectory, nil
}

// freeName returns a path, or one like it if something is there, from an earlier time.
func (a *application) freeName(path string) (string, error) {
	for name, i := path, 2; ; name, i = path+"-"+strconv.Itoa(i), i+1 {
		info, err := a.System.Stat(name)
		if err != nil {
			return "", fmt.Errorf("inspect %s: %w", name, err)
		}
		if info.Kind == FileMissing {
			return name, nil
		}
	}
}

// baseName is what follows the last backslash of a path.
func baseName(path string) string { return path[strings.LastIndexByte(path, '\\')+1:] }
