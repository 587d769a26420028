// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// Programs that an update replaces stay on the host, beside those that are sent: a host that goes back to what it worked with
// has them, also when nobody else has them any more. Those of one configuration are kept, so that they need as much of
// the disk as the programs themselves at most.

// keptPrograms are the programs that stay on a host when they are replaced.
type keptPrograms struct {
	// digests are those of the programs.
	digests map[string]bool
	// applied says that they are of the document applied last, as nobody says which the host worked with.
	applied bool
}

// keptName matches complete files among those that are sent. Their names are their digests.
var keptName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// programsToKeep returns those with the digests; with none, those of the document that was applied last.
func (a *application) programsToKeep(digests []string) (kept keptPrograms, err error) {
	if len(digests) > 0 {
		kept.digests = map[string]bool{}
		for _, digest := range digests {
			kept.digests[digest] = true
		}
		return kept, nil
	}
	applied, err := readFile(a.System, appliedPath)
	if errors.Is(err, fs.ErrNotExist) {
		return kept, nil
	}
	if err != nil {
		return kept, fmt.Errorf("read the applied document: %w", err)
	}
	bundle, err := config.DecodeRecord(bytes.NewReader(applied))
	if err != nil {
		return kept, nil //nolint:nilerr // one that cannot be read has none, and is about to be replaced
	}
	return keptPrograms{digests: payloadOf(&bundle.Document), applied: true}, nil
}

// payloadOf returns the digests of the programs of a document.
func payloadOf(d *config.Document) map[string]bool {
	programs := map[string]bool{}
	for _, f := range d.Files {
		if f.Source.Payload != "" {
			programs[f.Digest] = true
		}
	}
	return programs
}

// keepProgram copies a program that is about to be replaced or removed to where it is found when it is wanted again. One
// to which the host does not go back is not kept. Nor is one for which there is no room besides what the change
// writes: then it would have to be sent again.
func (a *application) keepProgram(path string) error {
	now, err := a.file(path)
	if err != nil || now.Kind != FileRegular || a.cleaningUp || a.repairing {
		return err
	}
	if !a.keeps.digests[now.digest] {
		return nil
	}
	kept := api.PayloadPath(now.digest)
	there, err := a.System.Stat(kept)
	if err != nil || there.Kind != FileMissing {
		return err
	}
	_, free, err := a.System.Volume(api.Root)
	if err != nil {
		return fmt.Errorf("read the free space: %w", err)
	}
	if free-now.Size < neededBytes(a.plan.steps, nil, nil) {
		a.emit(api.Event{Item: path, State: api.EventNote, Message: "is not kept, as there is too little room: to go back to it, it has to be sent again"})
		return nil
	}
	if err := makeOwnDirectory(a.System, api.PayloadDirectory); err != nil {
		return err
	}
	if err := a.System.CopyFile(path, kept, config.AccessInherited); err != nil {
		return fmt.Errorf("keep the program: %w", err)
	}
	return nil
}

// sweepKept removes what was sent or kept and is not to be kept. Of a host of which nobody says what it worked with, what was
// kept stays while the programs stay the same.
func (a *application) sweepKept() {
	if len(a.keeps.digests) == 0 || a.keeps.applied && maps.Equal(a.keeps.digests, payloadOf(&a.desired.Document)) {
		return
	}
	list, err := a.System.Names(api.PayloadDirectory)
	if err != nil {
		return // it does not exist
	}
	for _, name := range list {
		if !keptName.MatchString(name) || a.keeps.digests["sha256:"+name] {
			continue
		}
		path := api.PayloadDirectory + `\` + name
		if err := a.System.Remove(path); err != nil {
			a.emit(api.Event{Item: path, State: api.EventNote, Message: "is removed later: " + err.Error()})
		}
	}
}
