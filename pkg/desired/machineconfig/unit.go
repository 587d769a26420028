// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machineconfig

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/coreos/ignition/v2/config/v3_5/types"
)

// source is a file that systemd reads of a unit.
type source struct {
	name    string
	content []byte
}

// unitSources returns the unit of the kubelet and its drop-ins, in the order in which systemd
// reads them. Drop-ins are parts of the unit, or files: the Machine Config Operator writes both.
func unitSources(config types.Config, all files) ([]source, error) {
	var sources, dropins []source
	for i := range config.Systemd.Units {
		u := &config.Systemd.Units[i]
		if u.Name != kubeletUnit {
			continue
		}
		if u.Contents != nil {
			sources = append(sources, source{u.Name, []byte(*u.Contents)})
		}
		for _, d := range u.Dropins {
			if d.Contents != nil {
				dropins = append(dropins, source{d.Name, []byte(*d.Contents)})
			}
		}
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("there is no unit %s", kubeletUnit)
	}
	for file := range all {
		if dir, name := path.Split(file); dir == kubeletDropins && strings.HasSuffix(name, ".conf") {
			content, err := all.read(file)
			if err != nil {
				return nil, err
			}
			dropins = append(dropins, source{name, content})
		}
	}
	slices.SortFunc(dropins, func(a, b source) int { return cmp.Compare(a.name, b.name) })
	return append(sources, dropins...), nil
}

// commandOf returns the words of the command that a unit runs. Later files win, and an empty
// ExecStart= takes back those before it (systemd.service(5)).
func commandOf(sources []source) ([]string, error) {
	var command []string
	for _, s := range sources {
		options, err := unit.DeserializeOptions(bytes.NewReader(s.content))
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w", s.name, err)
		}
		for _, o := range options {
			if o.Section == "Service" && o.Name == "ExecStart" {
				command = words(o.Value)
			}
		}
	}
	if len(command) == 0 {
		return nil, errors.New("it has no ExecStart=")
	}
	return command, nil
}

// words splits a command. The parser of units leaves a backslash and a line break where a
// line goes on.
func words(command string) []string {
	return strings.Fields(strings.ReplaceAll(command, "\\\n", " "))
}

// argumentsOf returns the arguments of a command that are written --name=value, or --name for an
// empty value. Of several of a name the last one counts, as for the kubelet.
func argumentsOf(command []string) map[string]string {
	arguments := map[string]string{}
	for _, word := range command {
		if argument, ok := strings.CutPrefix(word, "--"); ok {
			name, value, _ := strings.Cut(argument, "=")
			arguments[name] = value
		}
	}
	return arguments
}
