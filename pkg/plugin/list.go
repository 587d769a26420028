// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned/scheme"
)

// eachSelected is [env.eachSelected] for a command that prints an object of each host. With -o
// they are one document, as of kubectl get: the object of one host that is named, otherwise a
// List, sorted by the names of the hosts and without those that failed.
func (o *outputFlags) eachSelected(ctx context.Context, e *env, args []string, s *selection, do func(ctx context.Context, e *env, c *client, t target) error) error {
	if o.asTable() {
		return e.eachSelected(ctx, args, s, do)
	}
	printer, err := o.printer()
	if err != nil {
		return err
	}
	if len(args) == 1 {
		return e.eachSelected(ctx, args, s, do)
	}
	printed := newPrinted()
	err = e.eachSelected(ctx, args, s, func(ctx context.Context, e *env, c *client, t target) error {
		own := *e
		own.collect = func(obj runtime.Object) error { return printed.add(t, obj) }
		return do(ctx, &own, c, t)
	})
	if list := printed.list(); len(list.Items) > 0 {
		if err := printer.PrintObj(list, e.Out); err != nil {
			return err
		}
	}
	return err
}

// printed are the objects that are to be printed of several hosts.
type printed struct {
	mu      sync.Mutex
	objects map[string]unstructured.Unstructured
}

func newPrinted() *printed { return &printed{objects: make(map[string]unstructured.Unstructured)} }

func (p *printed) add(t target, obj runtime.Object) error {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		kinds, _, err := scheme.Scheme.ObjectKinds(obj)
		if err != nil {
			return fmt.Errorf("printing the answer: %w", err)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return fmt.Errorf("printing the answer: %w", err)
		}
		object = &unstructured.Unstructured{Object: content}
		object.SetGroupVersionKind(kinds[0])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.objects[t.String()] = *object
	return nil
}

// list is sorted by the names of the hosts.
func (p *printed) list() *unstructured.UnstructuredList {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := newList()
	for _, name := range slices.Sorted(maps.Keys(p.objects)) {
		list.Items = append(list.Items, p.objects[name])
	}
	return list
}

// newList is what kubectl prints several objects as.
func newList() *unstructured.UnstructuredList {
	return &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
}

// merge returns one list, or one table, of several objects or of the chunks of a list.
func merge(objects []runtime.Object) runtime.Object {
	switch first := objects[0].(type) {
	case *metav1.Table:
		for _, next := range objects[1:] {
			first.Rows = append(first.Rows, next.(*metav1.Table).Rows...)
		}
		first.Continue, first.RemainingItemCount = "", nil // it is whole
		return first
	case *unstructured.UnstructuredList:
		for _, next := range objects[1:] {
			first.Items = append(first.Items, next.(*unstructured.UnstructuredList).Items...)
		}
		for _, field := range []string{"continue", "remainingItemCount"} {
			unstructured.RemoveNestedField(first.Object, "metadata", field)
		}
		return first
	}
	list := newList()
	for _, obj := range objects {
		list.Items = append(list.Items, *obj.(*unstructured.Unstructured))
	}
	return list
}
