// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package config

import (
	"fmt"
	"slices"
	"strings"
)

// CycleError says that services depend on one another in a circle.
type CycleError struct {
	// Cycle are the services, each depending on the next; the last is the first again.
	Cycle []string
}

// Error names the services of the circle.
func (e *CycleError) Error() string {
	return "services depend on one another in a circle: " + strings.Join(e.Cycle, " → ")
}

// FindCycle returns a [CycleError] when some of the names depend on one another in a
// circle, else nil. Dependencies that are not among the names end there. What is found
// does not depend on the order of the names, except for which circle is reported.
func FindCycle(names []string, dependencies func(name string) []string) error {
	_, err := order(names, dependencies)
	return err
}

// order returns the names, each after those it depends on and otherwise as they are given.
func order(names []string, dependencies func(name string) []string) ([]string, error) {
	pending := make(map[string]bool, len(names))
	for _, name := range names {
		pending[name] = true
	}
	ordered := make([]string, 0, len(names))
	var path []string
	var visit func(name string) error
	visit = func(name string) error {
		if i := slices.Index(path, name); i >= 0 {
			return &CycleError{Cycle: append(slices.Clone(path[i:]), name)}
		}
		if !pending[name] {
			return nil
		}
		path = append(path, name)
		for _, dependency := range dependencies(name) {
			if err := visit(dependency); err != nil {
				return err
			}
		}
		path = path[:len(path)-1]
		delete(pending, name)
		ordered = append(ordered, name)
		return nil
	}
	for _, name := range names {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return ordered, nil
}

// StartOrder returns the services in the order in which they are started: each after
// those it depends on, and otherwise by priority and then as they are given. The
// slice that is given stays as it is.
func StartOrder(services []Service) ([]Service, error) {
	preferred := slices.Clone(services)
	slices.SortStableFunc(preferred, func(a, b Service) int { return a.Priority - b.Priority })
	byName := make(map[string]Service, len(services))
	var names []string
	for _, s := range preferred {
		if _, twice := byName[s.Name]; twice {
			return nil, fmt.Errorf("service %s is listed twice", s.Name)
		}
		byName[s.Name] = s
		names = append(names, s.Name)
	}
	names, err := order(names, func(name string) []string { return byName[name].Dependencies })
	if err != nil {
		return nil, err
	}
	ordered := make([]Service, 0, len(names))
	for _, name := range names {
		ordered = append(ordered, byName[name])
	}
	return ordered, nil
}
