// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// wicd runs a file that is about the daemon of WMCO on a host: one object, each
// member a list of cases about one of its jobs.
func wicd(file []byte) ([]result, error) {
	var members struct {
		ServiceReconcile json.RawMessage `json:"serviceReconcile"`
		EnvReconcile     json.RawMessage `json:"envReconcile"`
		CertCleanup      json.RawMessage `json:"ovnkubeCertCleanup"`
		FindNode         json.RawMessage `json:"findNodeByLocalAddress"`
	}
	if err := json.Unmarshal(file, &members); err != nil {
		return nil, fmt.Errorf("the file is not as expected: %w", err)
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(file, &names); err != nil {
		return nil, fmt.Errorf("the file is not as expected: %w", err)
	}
	var results []result
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if r, isMissing := missingMember("wicd-variable-substitution", name); isMissing {
			results = append(results, r)
		}
	}
	for _, member := range []struct {
		name string
		list json.RawMessage
		run  func(name string, list json.RawMessage) ([]result, error)
	}{
		{"serviceReconcile", members.ServiceReconcile, func(name string, list json.RawMessage) ([]result, error) {
			return eachOf(name, list, serviceReconcile)
		}},
		{"envReconcile", members.EnvReconcile, func(name string, list json.RawMessage) ([]result, error) {
			return eachOf(name, list, envReconcile)
		}},
		{"ovnkubeCertCleanup", members.CertCleanup, certCleanup},
		{"findNodeByLocalAddress", members.FindNode, func(name string, list json.RawMessage) ([]result, error) {
			return eachOf(name, list, findNode)
		}},
	} {
		if member.list == nil {
			continue
		}
		found, err := member.run(member.name, member.list)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", member.name, err)
		}
		results = append(results, found...)
	}
	return results, nil
}

type serviceCase struct {
	Command      string   `json:"command"`
	Dependencies []string `json:"dependencies"`
}

// serviceState is the output of a serviceReconcile case.
type serviceState struct {
	BinPath      string   `json:"binPath"`
	Description  string   `json:"description"`
	Dependencies []string `json:"dependencies"`
	State        string   `json:"state"`
}

// serviceReconcile says what a service is made, whatever it was. All services of the
// cases are called fakeservice.
func serviceReconcile(c serviceCase) result {
	const name = "fakeservice"
	words := strings.Fields(c.Command)
	if len(words) == 0 {
		return result{Error: "there is no command"}
	}
	s := config.Service{
		Name: name, Description: config.Description(name), BinaryPath: words[0], Arguments: words[1:],
		Dependencies: c.Dependencies, StartType: config.StartAutomatic,
	}
	settings, err := s.Settings(nil)
	return outcome(serviceState{
		BinPath: settings.CommandLine, Description: settings.Description, Dependencies: settings.Dependencies, State: "Running",
	}, err)
}

type envCase struct {
	Existing map[string]string `json:"existing"`
	Desired  map[string]string `json:"desired"`
	Watched  []string          `json:"watched"`
}

// envResult is the output of an envReconcile case.
type envResult struct {
	Environment      map[string]string `json:"environment"`
	RebootAnnotation bool              `json:"rebootAnnotation"`
}

// envReconcile takes those of the existing variables that are watched for set by the
// peer, as they are on a host that it configured.
func envReconcile(c envCase) result {
	owned := map[string]config.OwnedVariable{}
	watched := c.Watched
	if watched == nil {
		watched = document.ProxyVariables()
	}
	for _, name := range watched {
		if value, ok := c.Existing[name]; ok {
			owned[name] = config.OwnedVariable{Value: value}
		}
	}
	environment := maps.Clone(c.Existing)
	if environment == nil {
		environment = map[string]string{}
	}
	changes, _ := config.EnvironmentChanges(c.Desired, c.Existing, owned)
	for _, change := range changes {
		if change.Value == nil {
			delete(environment, change.Name)
		} else {
			environment[change.Name] = *change.Value
		}
	}
	return result{Output: envResult{Environment: environment, RebootAnnotation: len(changes) > 0}}
}

// certCleanup says how many of so many certificates are deleted.
func certCleanup(name string, member json.RawMessage) ([]result, error) {
	var c struct {
		Glob       string          `json:"glob"`
		KeepNewest int             `json:"keepNewest"`
		Cases      json.RawMessage `json:"cases"`
	}
	if err := json.Unmarshal(member, &c); err != nil {
		return nil, err
	}
	retention := config.Retention{Pattern: c.Glob, Keep: c.KeepNewest}
	return eachOf(name, c.Cases, func(c struct {
		Files int `json:"files"`
	}) result {
		var names []string
		for i := range c.Files {
			names = append(names, strings.Replace(retention.Pattern, "*", fmt.Sprintf("2026-01-01-00-%04d", i), 1))
		}
		return result{Output: len(retention.Excess(names))}
	})
}

// findNode is no job of the host here.
func findNode(struct{}) result {
	return result{Skipped: "the controller knows the Node of a host; the host does not look for it"}
}
