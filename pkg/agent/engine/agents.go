// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// agentName matches the names of executables of the agent. Each version has its own name, so
// that a new one can be put beside one that runs.
var agentName = regexp.MustCompile(`(?i)^windows-node-agent-[0-9a-f]{16}\.exe$`)

// oldAgents returns those of the names in the directory of the agent that are executables of
// versions which are neither this one nor run by a service.
func oldAgents(names []string, own string, services []config.Service) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !agentName.MatchString(name) || strings.EqualFold(name, own) || slices.ContainsFunc(services, func(s config.Service) bool {
			return strings.EqualFold(s.BinaryPath, api.Root+`\`+name)
		})
	})
}

// sweepAgents removes executables of other versions of the agent. One that runs is kept until
// the next time. All are kept if the executable of this process is not known.
func (a *application) sweepAgents() {
	if a.Executable == "" {
		return
	}
	list, err := a.System.Names(api.Root)
	if err != nil {
		return // it does not exist
	}
	for _, name := range oldAgents(list, a.Executable, a.bundle.Document.Services) {
		path := api.Root + `\` + name
		if err := a.System.Remove(path); err != nil && !errors.Is(err, ErrInUse) {
			a.emit(api.Event{Item: path, State: api.EventNote, Message: "is removed later: " + err.Error()})
		}
	}
}
