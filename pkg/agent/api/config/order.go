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

// Error tells the circle.
func (e *CycleError) Error() string {
	return "services depend on one another in a circle: " + strings.Join(e.Cycle, " → ")
}

// FindCycle returns a [CycleError] when some of the names depend on one another in a
// circle, else nil. Dependencies that are not among the names end there. What is found
// does not depend on the order of the names, except for which circle is told.
func FindCycle(names []string, dependencies func(name string) []string) error {
	known := make(map[string]bool, len(names))
	for _, name := range names {
		known[name] = true
	}
	finished := make(map[string]bool, len(names))
	var path []string
	var visit func(name string) *CycleError
	visit = func(name string) *CycleError {
		if !known[name] || finished[name] {
			return nil
		}
		if i := slices.Index(path, name); i >= 0 {
			return &CycleError{Cycle: append(slices.Clone(path[i:]), name)}
		}
		path = append(path, name)
		// Every dependency is looked at, whatever the ones before it were like.
		for _, dependency := range dependencies(name) {
			if cycle := visit(dependency); cycle != nil {
				return cycle
			}
		}
		path = path[:len(path)-1]
		finished[name] = true
		return nil
	}
	for _, name := range names {
		if cycle := visit(name); cycle != nil {
			return cycle
		}
	}
	return nil
}

// StartOrder returns the services in the order in which they are started: each after
// those it depends on, and otherwise by priority and then as they are given. The
// slice that is given stays as it is.
func StartOrder(services []Service) ([]Service, error) {
	byName := make(map[string]int, len(services))
	names := make([]string, len(services))
	for i, s := range services {
		if _, twice := byName[s.Name]; twice {
			return nil, fmt.Errorf("service %s is there twice", s.Name)
		}
		byName[s.Name], names[i] = i, s.Name
	}
	err := FindCycle(names, func(name string) []string { return services[byName[name]].Dependencies })
	if err != nil {
		return nil, err
	}
	preferred := slices.Clone(services)
	slices.SortStableFunc(preferred, func(a, b Service) int { return a.Priority - b.Priority })

	ordered := make([]Service, 0, len(services))
	placed := make(map[string]bool, len(services))
	var place func(s Service)
	place = func(s Service) {
		if placed[s.Name] {
			return
		}
		placed[s.Name] = true
		for _, dependency := range s.Dependencies {
			if i, ok := byName[dependency]; ok {
				place(services[i])
			}
		}
		ordered = append(ordered, s)
	}
	for _, s := range preferred {
		place(s)
	}
	return ordered, nil
}
