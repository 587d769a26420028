// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// selection are the flags that select hosts instead of naming them.
type selection struct {
	selector, fieldSelector, pool string
	allNamespaces                 bool
	// all makes no selection at all mean all hosts.
	all bool
	// parallel is on how many hosts something is done at once.
	parallel int
	// confirm is asked before anything is done, nil: nobody is.
	confirm func(ctx context.Context, targets []target) error
	// goOn is the command for hosts that were not begun because one before them failed. Nil: a failure of one stops no other.
	goOn func(left []target) string
	// passesOver says whether a failure stops no other although goOn is set. Nil: each one stops.
	passesOver func(err error) bool
}

func (s *selection) addFlags(e *env, cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.selector, "selector", "l", "", "Label selector of the hosts, for example -l rack=r1.")
	cmd.Flags().StringVar(&s.fieldSelector, "field-selector", "", "Field selector of the hosts, for example --field-selector status.phase=Failed. Known fields: metadata.name, metadata.namespace, spec.address, spec.poolRef.name, status.node.name, status.phase.")
	cmd.Flags().StringVar(&s.pool, "pool", "", "The hosts of this WindowsNodePool.")
	cmd.Flags().BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "The hosts of all namespaces.")
	e.completeFlag(cmd, "pool", pools)
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = e.completeHosts
	}
}

// readersAtOnce is how many hosts are read at once by default.
const readersAtOnce = 10

// addParallel adds the flag that bounds on how many hosts something is done at once.
func (s *selection) addParallel(cmd *cobra.Command, value int) {
	cmd.Flags().IntVar(&s.parallel, "max-parallel", value, "With several hosts: on how many of them it is done at once.")
}

// selects says whether hosts are selected, not named.
func (s *selection) selects() bool {
	return s.selector != "" || s.fieldSelector != "" || s.pool != "" || s.allNamespaces
}

// listOptions are what the flags mean.
func (s *selection) listOptions() metav1.ListOptions {
	options := metav1.ListOptions{LabelSelector: s.selector, FieldSelector: s.fieldSelector}
	if s.pool != "" {
		pool := fields.OneTermEqualSelector("spec.poolRef.name", s.pool).String()
		options.FieldSelector = strings.TrimSuffix(pool+","+s.fieldSelector, ",")
	}
	return options
}

// namespace is where hosts are searched.
func (s *selection) namespace(c *client) string {
	if s.allNamespaces {
		return metav1.NamespaceAll
	}
	return c.namespace
}

// listChunk is how many instances one request asks for, as of kubectl.
const listChunk = 500

var errNamesAndSelection = errors.New("name hosts or select them with -l, --field-selector, --pool or -A, not both")

// targets returns the hosts that are named or selected, in the order of the command line
// or of their names, each once. It is an error when there are none.
func (c *client) targets(ctx context.Context, names []string, s *selection) ([]target, error) {
	switch {
	case len(names) > 0 && s.selects():
		return nil, errNamesAndSelection
	case len(names) == 0 && !s.selects() && !s.all:
		return nil, errors.New("name a host, or select some with -l, --field-selector, --pool or -A")
	}
	var found []target
	for _, name := range names {
		t, err := c.get(ctx, name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(found, func(other target) bool { return other.String() == t.String() }) {
			found = append(found, t)
		}
	}
	if len(names) > 0 {
		return found, nil
	}
	options := s.listOptions()
	options.Limit = listChunk
	for {
		list, err := c.windows.WindowsInstances(s.namespace(c)).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			found = append(found, target{&list.Items[i]})
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no host matches the selection")
	}
	slices.SortFunc(found, func(a, b target) int { return strings.Compare(a.String(), b.String()) })
	return found, nil
}

// label is how a target is called among others: by its name alone where that is enough.
func label(t target, all []target) string {
	if slices.ContainsFunc(all, func(other target) bool { return other.Namespace != t.Namespace }) {
		return t.String()
	}
	return t.Name
}
