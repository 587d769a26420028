// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// replacedKeys is which key took the place of which former ones on a host. Something that runs at each boot may authorize
// a former key again in the place of all others, as the user data of WMCO does: then nobody could log in any more.
type replacedKeys struct {
	// Machine is the one that this is about: another one that was made from its disk has keys of its own. Empty: it cannot
	// be read.
	Machine string `json:"machine,omitempty"`
	// Key and Former are public keys as in [api.AuthorizeRequest], the former ones newest first.
	Key    string   `json:"key"`
	Former []string `json:"former,omitempty"`
	// Files are the paths of the files of authorized keys. The service runs as another user, who has others.
	Files []string `json:"files"`
}

// readReplacedKeys returns what was recorded, the zero value if nothing was, and an error also if that is no record.
func readReplacedKeys(s engine.FileSystem) (r replacedKeys, err error) {
	in, err := s.Open(api.ReplacedKeysPath)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("opening %s: %w", api.ReplacedKeysPath, err)
	}
	defer in.Close()
	if err := json.NewDecoder(io.LimitReader(in, maxKeyFile)).Decode(&r); err != nil {
		return replacedKeys{}, fmt.Errorf("reading %s: %w", api.ReplacedKeysPath, err)
	}
	return r, nil
}

// recordReplacedKeys records what a request changes, before it changes it. What cannot be read is replaced.
func recordReplacedKeys(host Host, a authorization, paths []string) error {
	system := host.System()
	before, err := readReplacedKeys(system)
	after := before.with(a, host.MachineID(), paths)
	if err == nil && before.same(after) {
		return nil
	}
	text, err := json.Marshal(after)
	if err != nil {
		return err
	}
	if err := system.WriteFile(api.ReplacedKeysPath, append(text, '\n'), config.AccessAdministrators); err != nil {
		return fmt.Errorf("writing %s: %w", api.ReplacedKeysPath, err)
	}
	return nil
}

// with returns the record after a request. A key that is added is no former one any more, and takes the place of others
// only when these are removed.
func (r replacedKeys) with(a authorization, machine string, paths []string) replacedKeys {
	key := a.key.String()
	if r.Machine != machine {
		r = replacedKeys{}
	}
	former := slices.DeleteFunc(slices.Clone(r.Former), func(k string) bool { return k == key })
	if !a.remove {
		r.Former = former
		return r
	}
	out := replacedKeys{Machine: machine, Key: key, Files: slices.Clone(paths)}
	for _, k := range a.former {
		out.Former = append(out.Former, k.String())
	}
	for _, k := range former {
		if !slices.Contains(out.Former, k) && len(out.Former) < maxFormerKeys {
			out.Former = append(out.Former, k)
		}
	}
	return out
}

func (r replacedKeys) same(other replacedKeys) bool {
	return r.Machine == other.Machine && r.Key == other.Key && slices.Equal(r.Former, other.Former) && slices.Equal(r.Files, other.Files)
}

// keepKeys replaces former keys once more in the files in which they are again in the place of the key, and returns what it
// changed. Where none is, nothing is done, also if the key is missing: somebody has removed it. Nor where the key is there,
// too: somebody has added a former one by hand, to a host that refused it. A request that changes a file at the same moment may
// be overwritten; it has recorded before what the next call makes of the file.
func keepKeys(host Host) (changed []api.Item, err error) {
	system := host.System()
	record, err := readReplacedKeys(system)
	if err != nil || len(record.Former) == 0 || record.Machine != host.MachineID() {
		return nil, err
	}
	a, err := readAuthorization(api.AuthorizeRequest{Key: record.Key, Former: record.Former})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", api.ReplacedKeysPath, err)
	}
	for _, path := range record.Files {
		replaced, failed := a.replaceAgain(system, path)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("replacing a former key in %s again: %w", path, failed))
		}
		if replaced {
			changed = append(changed, api.Item{
				Kind: api.KindFile, Name: path, Action: api.ActionUpdate, Impact: config.ImpactNone,
				Reason: "had a key again that another one had replaced; see what authorizes it, such as user data that runs at each boot",
			})
		}
	}
	return changed, err
}

// replaceAgain replaces former keys in one file that lacks the key, and says whether there were any.
func (a authorization) replaceAgain(system System, path string) (bool, error) {
	file, err := readKeyFile(system, path)
	if err != nil {
		return false, err
	}
	former := file.keys(a.former...)
	if len(former) == 0 || len(file.keys(a.key)) > 0 {
		return false, nil
	}
	if err := system.ReplaceKeeping(path, file.with(a.key, optionsOf(former)).without(a.former)); err != nil {
		return false, err
	}
	return true, nil
}
