// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// ServicesConfigMapPrefix and a version are the name of the ConfigMap in which the
// services of hosts are published.
const ServicesConfigMapPrefix = "windows-services-"

// Keys of that ConfigMap.
const (
	servicesKey    = "services"
	filesKey       = "files"
	environmentKey = "environmentVars"
	watchedKey     = "watchedEnvironmentVars"
)

// PublishedServices is the content of the ConfigMap windows-services-<version> in the
// schema of WMCO. Tools read it; our own agent does not.
type PublishedServices struct {
	// Services by priority.
	Services []PublishedService
	// Files that are verified. WMCO leaves it empty.
	Files []PublishedFile
	// Environment are variables of the machine that are set.
	Environment map[string]string
	// WatchedEnvironment are the variables of the machine that are watched.
	WatchedEnvironment []string
}

// PublishedService is a service as it is published. The JSON is that of WMCO.
type PublishedService struct {
	Name string `json:"name"`
	// Command with variables by their bare names.
	Command string `json:"path"`
	// NodeVariables of the command.
	NodeVariables []NodeVariable `json:"nodeVariablesInCommand,omitempty"`
	// Scripts that are run before the service is started.
	Scripts []Script `json:"powershellPreScripts,omitempty"`
	// Dependencies are services that are started first.
	Dependencies []string `json:"dependencies,omitempty"`
	// Bootstrap services make the host a node.
	Bootstrap bool `json:"bootstrap"`
	// Priority orders the services, 0 first.
	Priority uint `json:"priority"`
}

// NodeVariable is a variable whose value is in the Node of the host.
type NodeVariable struct {
	Name string `json:"name"`
	// Path is the JSONPath of a text in the Node. Text without braces is the value itself.
	Path string `json:"nodeObjectJsonPath"`
}

// Script is a command of PowerShell that is run before a service is started.
type Script struct {
	// Variable of the command of the service whose value the script prints. Empty: none.
	Variable string `json:"variableName,omitempty"`
	// Command with variables by their bare names.
	Command string `json:"path"`
	// NodeVariables of the command. WMCO writes the member in capitals, and null.
	NodeVariables []NodeVariable `json:"NodeArgs"`
}

// PublishedFile is a file of a host and its digest.
type PublishedFile struct {
	Path     string `json:"path"`
	Checksum string `json:"checksum"`
}

// validate returns why a reader could not run the services, and
// sorts them by priority.
func (p *PublishedServices) validate() error {
	slices.SortStableFunc(p.Services, func(a, b PublishedService) int { return cmp.Compare(a.Priority, b.Priority) })
	byName := make(map[string]PublishedService, len(p.Services))
	var names []string
	for _, s := range p.Services {
		if _, twice := byName[s.Name]; twice {
			return fmt.Errorf("service %s exists twice", s.Name)
		}
		byName[s.Name] = s
		names = append(names, s.Name)
	}
	var other *PublishedService // the first that needs a Node
	for i, s := range p.Services {
		if !s.Bootstrap {
			if other == nil {
				other = &p.Services[i]
			}
			continue
		}
		if other != nil {
			return fmt.Errorf("priority %d of service %s, which makes the host a node, is not below that of %s, which needs one", s.Priority, s.Name, other.Name)
		}
		if i+1 < len(p.Services) && !p.Services[i+1].Bootstrap && p.Services[i+1].Priority == s.Priority {
			return fmt.Errorf("services %s, which makes the host a node, and %s, which needs one, have the same priority", s.Name, p.Services[i+1].Name)
		}
		if len(s.NodeVariables) > 0 {
			return fmt.Errorf("service %s makes the host a node and cannot need variables of the Node", s.Name)
		}
		for _, dependency := range s.Dependencies {
			if needed, ours := byName[dependency]; ours && !needed.Bootstrap {
				return fmt.Errorf("service %s makes the host a node and cannot depend on %s, which needs one", s.Name, dependency)
			}
		}
	}
	return config.FindCycle(names, func(name string) []string { return byName[name].Dependencies })
}

// Data returns the data of the ConfigMap. It is byte for byte what WMCO writes.
func (p *PublishedServices) Data() (map[string]string, error) {
	data := map[string]string{}
	add := func(key string, value any) error {
		encoded, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("key %s: %w", key, err)
		}
		data[key] = string(encoded)
		return nil
	}
	errs := []error{
		add(servicesKey, p.Services),
		add(filesKey, append([]PublishedFile{}, p.Files...)), // never null
		add(watchedKey, p.WatchedEnvironment),
	}
	if len(p.Environment) > 0 {
		errs = append(errs, add(environmentKey, p.Environment))
	}
	return data, errors.Join(errs...)
}

// ConfigMap returns the ConfigMap that publishes the services under a version. It is
// immutable: other content needs another version, or that it is deleted first.
func (p *PublishedServices) ConfigMap(namespace, version string) (*corev1.ConfigMap, error) {
	data, err := p.Data()
	if err != nil {
		return nil, fmt.Errorf("encode the services: %w", err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ServicesConfigMapPrefix + version},
		Immutable:  new(true),
		Data:       data,
	}, nil
}

// PublishedVersion returns the version in the name of such a ConfigMap, and whether it
// is one.
func PublishedVersion(name string) (version string, ok bool) {
	version, ok = strings.CutPrefix(name, ServicesConfigMapPrefix)
	return version, ok && version != ""
}
