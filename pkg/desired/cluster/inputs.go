// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// input is what a snapshot is made of: one object, or all of a kind, where name is empty.
type input struct {
	schema.GroupVersionResource

	namespace, name string
}

// String names it for people.
func (i input) String() string {
	if i.name == "" {
		return i.GroupResource().String()
	}
	return i.GroupResource().String() + " " + strings.TrimPrefix(i.namespace+"/"+i.name, "/")
}

// versions are the resource versions of the objects of an input, by name. Empty: there are none.
type versions map[string]string

// machineConfigs are not watched. The names of those that count have a digest of what is in them, so the pool names
// another one when there is something new; and a right to watch must be for one name that is known, or for all.
const machineConfigs = "machineconfigs"

// seen is what a snapshot was made of: what has to be watched, and what a watch says while nothing has changed.
type seen struct {
	inputs map[input]versions
	// awaits: the version of the API server decides, or an object is missing that nothing watches, or a right to read one, which nothing tells of.
	awaits bool
}

// current reports whether an input is still as it was seen. One that nobody looks at any more is.
func (s *seen) current(i input, now versions) bool {
	before, watched := s.inputs[i]
	return !watched || maps.Equal(before, now)
}

// recorder is a reader that records what it reads. It is used by one goroutine.
type recorder struct {
	client.Reader
	scheme *runtime.Scheme
	seen   seen
}

func newRecorder(r client.Reader, scheme *runtime.Scheme) *recorder {
	return &recorder{Reader: r, scheme: scheme, seen: seen{inputs: map[input]versions{}}}
}

// Get implements client.Reader.
func (r *recorder) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, obj, opts...)
	i, kindErr := r.inputOf(obj, key)
	if kindErr != nil {
		return kindErr
	}
	found := versions{}
	switch {
	case err == nil:
		found[key.Name] = obj.GetResourceVersion()
	case !isAbsent(err) && !apierrors.IsForbidden(err):
		return err // it may be there or not: the snapshot fails
	}
	watched := i.Resource != machineConfigs
	if watched {
		r.seen.inputs[i] = found
	}
	if apierrors.IsForbidden(err) || err != nil && !watched {
		r.seen.awaits = true
	}
	return err
}

// List implements client.Reader.
func (r *recorder) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := r.Reader.List(ctx, list, opts...)
	i, kindErr := r.inputOf(list, client.ObjectKey{})
	if kindErr != nil {
		return kindErr
	}
	if err != nil && !isAbsent(err) && !apierrors.IsForbidden(err) {
		return err // likewise
	}
	found := versions{}
	if err == nil {
		if each := meta.EachListItem(list, func(item runtime.Object) error {
			object, err := meta.Accessor(item)
			if err == nil {
				found[object.GetName()] = object.GetResourceVersion()
			}
			return err
		}); each != nil {
			return fmt.Errorf("reading a list of %s: %w", i, each)
		}
	}
	r.seen.inputs[i] = found
	r.seen.awaits = r.seen.awaits || apierrors.IsForbidden(err)
	return err
}

// isAbsent says that an object, or its kind, is not there.
func isAbsent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// inputOf says what an object is as an input. The resource is guessed from the kind, as a cluster that does not have
// it cannot say it, and would be asked each time; the guess is right for all kinds that this package reads.
func (r *recorder) inputOf(obj runtime.Object, key client.ObjectKey) (input, error) {
	kind, err := apiutil.GVKForObject(obj, r.scheme)
	if err != nil {
		return input{}, fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return input{GroupVersionResource: resource, namespace: key.Namespace, name: key.Name}, nil
}
