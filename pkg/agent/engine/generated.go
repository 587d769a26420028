// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// claim records which of the paths that programs of the document will create do not exist
// before they run for the first time. Only these are removed later.
func (a *application) claim() error {
	for _, path := range a.bundle.Document.Generated {
		if _, ours := a.Generated[fold(path)]; ours || a.seen.generated[fold(path)].Kind != FileMissing {
			continue
		}
		a.Generated[fold(path)] = path
	}
	return a.save()
}

// claimAdoptedNetworks records, before it is planned what becomes of them, all networks of the document that a host has which was adopted with
// one of them, and not updated since: earlier releases have recorded only that which pods are connected to. The same program has made them all.
func (a *application) claimAdoptedNetworks() {
	if a.NodeName == "" || len(a.Networks) == 0 {
		return
	}
	networks, _ := hnsNames(&a.bundle.Document)
	recorded := slices.DeleteFunc(slices.Clone(a.Networks), func(name string) bool { return containsFold(networks, name) })
	networks = slices.DeleteFunc(networks, func(name string) bool { return !containsFold(a.Networks, name) && !a.seen.networks[fold(name)] })
	a.Networks = slices.Concat(recorded, networks) // in the order in which they are removed
}

// wantsGenerated reports whether a document uses a path that programs created, or something
// below it.
func wantsGenerated(d *config.Document, path string) bool {
	within := func(p string) bool { return config.Below(p, path) }
	return slices.ContainsFunc(d.Generated, within) || slices.ContainsFunc(wantedDirectories(d), within) ||
		slices.ContainsFunc(d.Files, func(f config.File) bool { return within(f.Path) })
}

// removedGenerated plans to remove what programs created that are no longer wanted.
func (p *planner) removedGenerated() {
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(p.inv.Generated))) {
		path, kind := p.inv.Generated[key], api.KindFile
		switch p.seen.generated[key].Kind {
		case FileMissing:
			continue
		case FileDirectory:
			kind = api.KindDirectory
		case FileRegular, FileOther:
		}
		if !wantsGenerated(&p.bundle.Document, path) {
			p.add(step{generated: true}, api.ActionDelete, kind, path, "was made by programs that are no longer wanted", config.OnChange{})
		}
	}
}

// pruneGenerated drops the records of what was removed.
func (a *application) pruneGenerated() {
	maps.DeleteFunc(a.Generated, func(_, path string) bool { return !wantsGenerated(&a.bundle.Document, path) })
}

// removalTold is how often it is told how far a removal is. To remove the images of a node takes a slow disk many minutes.
const removalTold = 30 * time.Second

// removeGenerated removes what programs created. What cannot be removed is reported and no
// failure: the host can be used all the same.
func (a *application) removeGenerated(ctx context.Context, path string) error {
	before := len(a.staying)
	removed, told := 0, a.now()
	left, err := a.removeTree(ctx, path, func() {
		removed++
		if now := a.now(); now.Sub(told) >= removalTold {
			told = now
			a.emit(api.Event{Item: path, State: api.EventNote, Message: fmt.Sprintf("is being removed: %d files and directories so far", removed)})
		}
	})
	if ctx.Err() != nil {
		return err
	}
	if n := len(a.staying) - before; n > 0 {
		a.result.AtBoot = append(a.result.AtBoot, fmt.Sprintf("%s (%d files)", path, n))
	}
	if left > 0 {
		a.emit(api.Event{Item: path, State: api.EventNote, Message: fmt.Sprintf("is kept: %d files or directories in it could not be removed, first %v", left, err)})
	}
	return nil
}

// removeTree removes a file or a directory with all that is in it. Links are removed and
// not followed. It returns how much is left for good, and the first reason. done is called after each of them, removed or not.
func (a *application) removeTree(ctx context.Context, path string, done func()) (left int, err error) {
	if err := ctx.Err(); err != nil {
		return 1, fmt.Errorf("stopped before removing %s: %w", path, err)
	}
	defer done()
	info, err := a.System.Stat(path)
	if err != nil {
		// Whoever may not inspect it may often remove it.
		switch removed := a.System.Remove(path); {
		case removed == nil:
			return 0, nil
		case errors.Is(removed, ErrNotEmpty):
			info.Kind = FileDirectory
		default:
			return 1, err
		}
	}
	if info.Kind == FileDirectory {
		if isLayer(path) && !a.mounted {
			if a.System.RemoveLayer(path) == nil {
				return 0, nil
			}
			a.mounted = true // whatever the reason is: to try it with one that it is based on may end this process
		}
		var names []string
		if names, err = a.System.Names(path); err != nil {
			return 1, err
		}
		if isLayer(path + `\0`) {
			newestFirst(names)
			a.unmountLayers(ctx, path, names)
		}
		var first error
		for _, name := range names {
			n, err := a.removeTree(ctx, path+`\`+name, done)
			left += n
			if first == nil {
				first = err
			}
		}
		if left > 0 {
			return left, first
		}
		if slices.ContainsFunc(a.staying, func(p string) bool { return config.Below(p, path) }) {
			err = a.System.RemoveAtBoot(path)
		} else {
			err = a.System.Remove(path)
		}
	} else if err = a.System.Remove(path); errors.Is(err, ErrInUse) && info.Kind == FileRegular {
		err = a.discard(path)
	}
	if err != nil {
		return 1, fmt.Errorf("remove %s: %w", path, err)
	}
	return 0, nil
}

// unmountLayers unmounts all layers in a directory, before the first one is removed. If one stays mounted, their files are removed one by one, and
// those in use at the next boot.
func (a *application) unmountLayers(ctx context.Context, directory string, names []string) {
	for _, name := range names {
		if ctx.Err() != nil {
			a.mounted = true // nobody knows
			return
		}
		if err := a.System.UnmountLayer(directory + `\` + name); err != nil && !a.mounted {
			a.mounted = true
			a.emit(api.Event{Item: directory, State: api.EventNote, Message: "its files are removed one by one: " + err.Error()})
		}
	}
}

// layerPath matches the directories in which the snapshotter of containerd keeps the layers of
// containers; see github.com/containerd/containerd, plugins/snapshots/windows. Windows mounts
// them, and their files have the owners and rights that they have in images.
var layerPath = regexp.MustCompile(`(?i)\\io\.containerd\.snapshotter\.v1\.windows\\snapshots\\[^\\]+$`)

func isLayer(path string) bool { return layerPath.MatchString(path) }

// newestFirst sorts layers, which are numbered, so that each is before those that it is based on.
func newestFirst(names []string) {
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(b, a)) })
}
