// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/jsonpath"
)

// NodeValues returns the values that variables have in a Node. Each must be one text.
func NodeValues(variables []NodeVariable, node *corev1.Node) (map[string]string, error) {
	values := map[string]string{}
	for _, v := range variables {
		value, err := nodeValue(v.Path, node)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", v.Name, err)
		}
		values[v.Name] = value
	}
	return values, nil
}

// nodeValue returns the one text that a JSONPath leads to. A path without braces is the text.
func nodeValue(path string, node *corev1.Node) (string, error) {
	parser := jsonpath.New("node")
	if err := parser.Parse(path); err != nil {
		return "", fmt.Errorf("path %q: %w", path, err)
	}
	found, err := parser.FindResults(node)
	if err != nil {
		return "", fmt.Errorf("path %q: %w", path, err)
	}
	if len(found) != 1 || len(found[0]) != 1 || found[0][0].Kind() != reflect.String {
		return "", fmt.Errorf("path %q does not lead to one text", path)
	}
	return found[0][0].String(), nil
}

// CommandWith returns the command of a published service with the values of its
// variables: those of the Node, and what its scripts printed.
//
// It reads the published form as the peer does, which replaces bare names wherever
// they stand. Longer names go first, so that a name which another one begins with is
// safe; values are not looked at again.
func (s PublishedService) CommandWith(values map[string]string) (string, error) {
	var names []string
	for _, v := range s.NodeVariables {
		names = append(names, v.Name)
	}
	for _, script := range s.Scripts {
		if script.Variable != "" {
			names = append(names, script.Variable)
		}
	}
	return replaceNames(s.Command, names, values)
}

// CommandWith returns the command of a script with the values of its variables.
func (s Script) CommandWith(values map[string]string) (string, error) {
	names := make([]string, 0, len(s.NodeVariables))
	for _, v := range s.NodeVariables {
		names = append(names, v.Name)
	}
	return replaceNames(s.Command, names, values)
}

// replaceNames replaces names in text by their values, in one pass.
func replaceNames(text string, names []string, values map[string]string) (string, error) {
	pairs := make([]string, 0, 2*len(names))
	for _, name := range longestFirst(names) {
		value, ok := values[name]
		if !ok {
			return "", fmt.Errorf("variable %s has no value", name)
		}
		// What a script prints ends with the end of a line.
		pairs = append(pairs, name, strings.TrimSpace(value))
	}
	// A replacer takes the first of its pairs that matches at a place.
	return strings.NewReplacer(pairs...).Replace(text), nil
}

// longestFirst returns the names that are not empty, longer ones before shorter ones.
func longestFirst(names []string) []string {
	sorted := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })
	slices.SortStableFunc(sorted, func(a, b string) int { return len(b) - len(a) })
	return sorted
}
