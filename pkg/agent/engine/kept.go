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

// Programs that an update replaces stay on the host, beside those that are sent: a host that goes back to the document
// before has them, also when nobody else has them any more. Those of one document are kept, so that they need as much of
// the disk as the programs themselves at most.

// keptName matches complete files among those that are sent. Their names are their digests.
var keptName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// payloadOf returns the digests of the programs of an encoded document. None of one that cannot be read.
func payloadOf(applied []byte) map[string]bool {
	programs := map[string]bool{}
	bundle, err := config.Decode(bytes.NewReader(applied))
	if err != nil {
		return programs
	}
	for _, f := range bundle.Document.Files {
		if f.Source.Payload != "" {
			programs[f.Digest] = true
		}
	}
	return programs
}

// keepProgram copies a program that is about to be replaced or removed to where it is found when it is wanted again. One
// that is not of the document applied last is not kept. Nor is one for which there is no room besides what the change
// writes: then it would have to be sent again.
func (a *application) keepProgram(path string) error {
	now, err := a.file(path)
	if err != nil || now.Kind != FileRegular || a.cleaningUp || a.repairing {
		return err
	}
	if a.programs == nil {
		applied, err := readFile(a.System, appliedPath)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read the applied document: %w", err)
		}
		a.programs = payloadOf(applied)
	}
	if !a.programs[now.digest] {
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

// sweepKept removes what was sent or kept and is not of the document that was applied before. While the programs stay the
// same, so do those that are kept.
func (a *application) sweepKept(before, now []byte) {
	worked := payloadOf(before)
	if len(worked) == 0 || maps.Equal(worked, payloadOf(now)) {
		return
	}
	list, err := a.System.Names(api.PayloadDirectory)
	if err != nil {
		return // it does not exist
	}
	for _, name := range list {
		if !keptName.MatchString(name) || worked["sha256:"+name] {
			continue
		}
		path := api.PayloadDirectory + `\` + name
		if err := a.System.Remove(path); err != nil {
			a.emit(api.Event{Item: path, State: api.EventNote, Message: "is removed later: " + err.Error()})
		}
	}
}
