// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// wicd runs a file that is about the daemon of the peer on a host: one object, each
// member a list of cases about one of its jobs.
func wicd(file []byte) ([]result, error) {
	var members struct {
		Node                corev1.Node     `json:"node"`
		NodeVariables       json.RawMessage `json:"nodeVariables"`
		PowerShellVariables json.RawMessage `json:"powershellVariables"`
		ServiceReconcile    json.RawMessage `json:"serviceReconcile"`
		EnvReconcile        json.RawMessage `json:"envReconcile"`
		CertCleanup         json.RawMessage `json:"ovnkubeCertCleanup"`
		CleanupMerge        json.RawMessage `json:"cleanupMerge"`
		FindNode            json.RawMessage `json:"findNodeByLocalAddress"`
	}
	if err := json.Unmarshal(file, &members); err != nil {
		return nil, fmt.Errorf("the file is not as expected: %w", err)
	}
	var results []result
	for _, member := range []struct {
		name string
		list json.RawMessage
		run  func(name string, list json.RawMessage) ([]result, error)
	}{
		{"nodeVariables", members.NodeVariables, func(name string, list json.RawMessage) ([]result, error) {
			return eachOf(name, list, func(c nodeVariablesCase) result { return nodeVariables(c, members.Node) })
		}},
		{"powershellVariables", members.PowerShellVariables, func(name string, list json.RawMessage) ([]result, error) {
			return eachOf(name, list, func(c scriptsCase) result { return outcome(scriptVariables(c, members.Node)) })
		}},
		{"serviceReconcile", members.ServiceReconcile, func(name string, list json.RawMessage) ([]result, error) {
			return eachOf(name, list, serviceReconcile)
		}},
		{"envReconcile", members.EnvReconcile, func(name string, list json.RawMessage) ([]result, error) {
			return eachOf(name, list, envReconcile)
		}},
		{"ovnkubeCertCleanup", members.CertCleanup, certCleanup},
		{"cleanupMerge", members.CleanupMerge, func(name string, list json.RawMessage) ([]result, error) {
			return eachOf(name, list, cleanupMerge)
		}},
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

type nodeVariablesCase struct {
	Paths           map[string]string `json:"paths"`
	NodeName        string            `json:"nodeName"`
	NodeAnnotations map[string]string `json:"nodeAnnotations"`
	NodeLabels      map[string]string `json:"nodeLabels"`
}

func nodeVariables(c nodeVariablesCase, node corev1.Node) result {
	if c.NodeName != "" && c.NodeName != node.Name {
		return result{Error: "there is no node " + c.NodeName}
	}
	if c.NodeAnnotations != nil {
		node.Annotations = c.NodeAnnotations
	}
	if c.NodeLabels != nil {
		node.Labels = c.NodeLabels
	}
	var variables []document.NodeVariable
	for _, name := range slices.Sorted(maps.Keys(c.Paths)) {
		variables = append(variables, document.NodeVariable{Name: name, Path: c.Paths[name]})
	}
	return outcome(document.NodeValues(variables, &node))
}

type scriptsCase struct {
	Scripts []document.Script `json:"scripts"`
	Stdout  map[string]string `json:"stdout"` // by command
}

// scriptVariables says what the variables of scripts are when running them prints what
// the case says.
func scriptVariables(c scriptsCase, node corev1.Node) (map[string]string, error) {
	values := map[string]string{}
	for _, script := range c.Scripts {
		arguments, err := document.NodeValues(script.NodeVariables, &node)
		if err != nil {
			return nil, err
		}
		command, err := script.CommandWith(arguments)
		if err != nil {
			return nil, err
		}
		printed, ok := c.Stdout[command]
		if !ok {
			return nil, fmt.Errorf("command %s does not run", command)
		}
		if script.Variable != "" {
			values[script.Variable] = strings.TrimSpace(printed)
		}
	}
	return values, nil
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

type mergeCase struct {
	Latest      []string `json:"latest"`
	NodeVersion []string `json:"nodeVersion"`
}

func cleanupMerge(c mergeCase) result {
	return result{Output: wmco.ServicesToRemove(c.Latest, c.NodeVersion)}
}

// findNode is no job of the host here.
func findNode(struct{}) result {
	return result{Skipped: "the controller knows the Node of a host; the host does not look for it"}
}
