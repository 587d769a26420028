// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// neededBytes returns what the steps write, and what has still to be sent of the payload. Files
// are replaced when their new content is on the disk, so the old one gives no room. A file that
// was sent is moved and needs no room, but is copied to each path after the first.
func neededBytes(steps []step, payload []api.PayloadFile, arrived map[string]int64) int64 {
	var needed int64
	placed := map[string]bool{}
	for _, s := range steps {
		if s.Kind == api.KindFile && s.file != nil && s.Action != api.ActionDelete {
			needed += int64(len(s.file.content))
		}
		if s.needs != "" {
			if placed[s.needs] {
				needed += s.file.Source.Size
			}
			placed[s.needs] = true
		}
	}
	sent := map[string]bool{}
	for _, f := range payload {
		if !sent[f.Digest] {
			sent[f.Digest] = true
			needed += max(0, f.Size-arrived[f.Digest])
		}
	}
	return needed
}

// space checks whether there is room for the plan. Repairs are not checked: they are small, and
// one that fails reports it.
func (p *planner) space() error {
	if p.repairing || p.seen.volume == "" {
		return nil
	}
	needed, free := neededBytes(p.plan.steps, p.plan.Payload, p.seen.arrived), p.seen.freeBytes
	if needed <= free {
		return nil
	}
	const mib = 1 << 20
	up := func(n int64) int64 { return (n + mib - 1) / mib }
	return &Error{api.ReasonSpace, fmt.Errorf("volume %s has too little room: %d MiB are needed, %d MiB are free, %d MiB are missing",
		p.seen.volume, up(needed), free/mib, up(needed-free))}
}

// space reads the free space for files: all paths of a document are on one volume, see
// [config.Roots].
func (o *observer) space(seen *observation, d *config.Document) error {
	if len(d.Files) == 0 {
		return nil
	}
	var err error
	if seen.volume, seen.freeBytes, err = o.system.Volume(api.Root); err != nil {
		return fmt.Errorf("read the free space: %w", err)
	}
	list, err := o.system.Names(api.PayloadDirectory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the payload: %w", err)
	}
	for _, name := range list {
		digest, ok := arriving(name)
		if !ok {
			continue
		}
		info, err := o.system.Stat(api.PayloadDirectory + `\` + name)
		if err != nil {
			return fmt.Errorf("inspect the payload: %w", err)
		}
		seen.arrived[digest] = info.Size
	}
	return nil
}

// arriving returns the digest of a file of the payload that is not complete yet, by its name.
// Package transfer, which continues such a file, gives the names. A compressed file does not
// count: unpacking it needs the room of the whole file.
func arriving(name string) (digest string, ok bool) {
	name, ok = strings.CutSuffix(name, ".part")
	if !ok || strings.HasSuffix(name, ".gz") {
		return "", false
	}
	digest, _, ok = strings.Cut(name, ".")
	return "sha256:" + digest, ok
}
