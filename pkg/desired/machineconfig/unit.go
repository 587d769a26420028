// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machineconfig

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

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
	var err error // of the command that counts
	for _, s := range sources {
		section := ""
		for _, line := range linesOf(string(s.content)) {
			if strings.HasPrefix(line, "[") {
				section = line
			}
			name, value, _ := strings.Cut(line, "=")
			if section != "[Service]" || strings.TrimSpace(name) != "ExecStart" {
				continue
			}
			if command, err = wordsOf(value); err != nil {
				err = fmt.Errorf("ExecStart= in %s: %w", s.name, err)
			}
		}
	}
	switch {
	case err != nil:
		return nil, err
	case len(command) == 0:
		return nil, errors.New("it has no ExecStart=")
	case !slices.ContainsFunc(command, func(word string) bool { return path.Base(word) == "kubelet" }):
		return nil, errors.New("its ExecStart= does not run kubelet as a command of its own, so that the arguments are not known")
	}
	return command, nil
}

// linesOf returns the lines of a unit as systemd joins them (systemd.syntax(7)): a backslash at its end has a line go on in the next
// one, and comments are left out, also between two such lines. Ignition has checked units, but not files, which may be anything.
func linesOf(content string) []string {
	var lines []string
	begun := ""
	for line := range strings.SplitSeq(content, "\n") {
		line = strings.TrimLeft(strings.TrimSuffix(line, "\r"), " \t")
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		if backslashes := len(line) - len(strings.TrimRight(line, `\`)); backslashes%2 == 1 {
			begun += line[:len(line)-1] + " "
			continue
		}
		lines = append(lines, strings.TrimSpace(begun+line))
		begun = ""
	}
	return append(lines, strings.TrimSpace(begun))
}
