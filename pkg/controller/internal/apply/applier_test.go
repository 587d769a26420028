// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
)

// The field manager under test, and the object that it writes.
const manager = "source"

var key = types.NamespacedName{Namespace: "ns", Name: "a"}

// request is an apply as it was sent.
type request struct {
	Sub, Namespace, Name, Manager string
	// UID is what the object must have: the API server makes none with a UID, and changes
	// none that has another.
	UID   types.UID
	Force bool
}

// server is a fake API that keeps the requests to apply.
type server struct {
	client.WithWatch
	requests []request
	// refuse and unreadable are what applies and reads end with.
	refuse, unreadable error
}

func newServer(t *testing.T, objects ...client.Object) (*server, *Applier) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &server{}
	sent := func(sub string, obj runtime.ApplyConfiguration, o client.ApplyOptions) error {
		r := request{Sub: sub, Manager: o.FieldManager, Force: ptr.Deref(o.Force, false)}
		text, err := json.Marshal(obj)
		if err != nil {
			return err
		}
		var got metav1.PartialObjectMetadata
		if err := json.Unmarshal(text, &got); err != nil {
			return err
		}
		r.Namespace, r.Name, r.UID = got.Namespace, got.Name, got.UID
		s.requests = append(s.requests, r)
		return s.refuse
	}
	s.WithWatch = fake.NewClientBuilder().
		WithScheme(scheme).
		WithTypeConverters(applyconfiguration.NewTypeConverter(scheme), managedfields.NewDeducedTypeConverter()).
		WithStatusSubresource(&v1alpha1.WindowsNodePool{}, &v1alpha1.WindowsInstance{}).
		WithReturnManagedFields().
		WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
				if s.unreadable != nil {
					return s.unreadable
				}
				return c.Get(ctx, key, obj, o...)
			},
			Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, options ...client.ApplyOption) error {
				var o client.ApplyOptions
				if err := sent("", obj, *o.ApplyOptions(options)); err != nil {
					return err
				}
				return c.Apply(ctx, obj, options...)
			},
			SubResourceApply: func(ctx context.Context, c client.Client, sub string, obj runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
				o := &client.SubResourceApplyOptions{}
				for _, option := range options {
					option.ApplyToSubResourceApply(o)
				}
				if err := sent(sub, obj, o.ApplyOptions); err != nil {
					return err
				}
				return c.SubResource(sub).Apply(ctx, obj, options...)
			},
		}).
		Build()
	return s, &Applier{Client: s, Live: s, FieldManager: manager}
}

// take returns the requests since it was last called.
func (s *server) take() []request {
	taken := s.requests
	s.requests = nil
	return taken
}

// kinds are what is applied alike. Each is applied with annotations, and the result is
// whether it was said to be written, where that is said.
var kinds = []struct {
	name  string
	empty func() client.Object
	apply func(ctx context.Context, a *Applier, current client.Object, annotations map[string]string) (written bool, err error)
}{
	{
		name:  "WindowsInstance",
		empty: func() client.Object { return &v1alpha1.WindowsInstance{} },
		apply: func(ctx context.Context, a *Applier, current client.Object, annotations map[string]string) (bool, error) {
			instance, _ := current.(*v1alpha1.WindowsInstance)
			return a.Instance(ctx, instance, acwindowsv1alpha1.WindowsInstance(key.Name, key.Namespace).WithAnnotations(annotations).
				WithSpec(acwindowsv1alpha1.WindowsInstanceSpec().WithAddress("10.1.42.1")))
		},
	},
	{
		name:  "WindowsNodePool",
		empty: func() client.Object { return &v1alpha1.WindowsNodePool{} },
		apply: func(ctx context.Context, a *Applier, current client.Object, annotations map[string]string) (bool, error) {
			pool, _ := current.(*v1alpha1.WindowsNodePool)
			sent := a.Client.(*server)
			before := len(sent.requests)
			_, err := a.Pool(ctx, pool, acwindowsv1alpha1.WindowsNodePool(key.Name, key.Namespace).WithAnnotations(annotations))
			return err == nil && len(sent.requests) > before, err
		},
	},
}

// What is as it should be is not written. What is not is written for exactly the object that
// was seen, and takes back what is no longer wanted.
func TestApply(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			s, a := newServer(t)
			var current client.Object // nil: there is none yet
			for _, step := range []struct {
				name string
				want map[string]string
				uid  types.UID // of the request
				none bool      // no request is sent
			}{
				{name: "made", want: map[string]string{"a": "1", "b": "2"}},
				{name: "the same", want: map[string]string{"a": "1", "b": "2"}, none: true},
				{name: "another value", want: map[string]string{"a": "1", "b": "3"}, uid: "u"},
				{name: "less", want: map[string]string{"a": "1"}, uid: "u"},
				{name: "the same again", want: map[string]string{"a": "1"}, none: true},
			} {
				written, err := kind.apply(t.Context(), a, current, step.want)
				if written == step.none || err != nil {
					t.Errorf("%s: got %v, %v", step.name, written, err)
				}
				want := []request{{Namespace: key.Namespace, Name: key.Name, Manager: manager, Force: true, UID: step.uid}}
				if step.none {
					want = nil
				}
				if diff := cmp.Diff(want, s.take()); diff != "" {
					t.Errorf("%s: requests (-want +got):\n%s", step.name, diff)
				}
				current = kind.empty()
				if err := s.Get(t.Context(), key, current); err != nil {
					t.Fatal(err)
				}
				if current.GetUID() == "" { // the fake gives none
					current.SetUID("u")
					if err := s.Update(t.Context(), current); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(step.want, current.GetAnnotations()); diff != "" {
					t.Errorf("%s: (-want +got)\n%s", step.name, diff)
				}
			}
		})
	}
}

// What somebody else just made, and the cache does not know of yet, is not taken over; nor is
// anything made as long as that cannot be told.
func TestApplyTakesNothingOver(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			there := kind.empty()
			there.SetNamespace(key.Namespace)
			there.SetName(key.Name)
			s, a := newServer(t, there)
			written, err := kind.apply(t.Context(), a, nil, map[string]string{"a": "1"})
			exists, ok := errors.AsType[*ExistsError](err)
			if !ok || written || *exists != (ExistsError{Kind: kind.name, Name: "ns/a"}) {
				t.Errorf("got %v, %v", written, err)
			}
			if result, err := RetryStale(t.Context(), err); result.RequeueAfter <= 0 || err != nil {
				t.Errorf("it is not tried again: %v, %v", result, err)
			}

			s.unreadable = errors.New("the API does not answer")
			written, err = kind.apply(t.Context(), a, nil, map[string]string{"a": "1"})
			if !errors.Is(err, s.unreadable) || written {
				t.Errorf("got %v, %v", written, err)
			}
			if result, again := RetryStale(t.Context(), err); result.RequeueAfter != 0 || !errors.Is(again, err) {
				t.Errorf("the error is lost: %v, %v", result, again)
			}
			if got := s.take(); got != nil {
				t.Errorf("sent %v", got)
			}
		})
	}
	// So is a pass that has changed what somebody else had just changed.
	conflict := fmt.Errorf("update: %w", apierrors.NewConflict(schema.GroupResource{Resource: "windowsnodepools"}, key.Name, nil))
	if result, err := RetryStale(t.Context(), conflict); result.RequeueAfter <= 0 || err != nil {
		t.Errorf("a conflict is not tried again: %v, %v", result, err)
	}
	if result, err := RetryStale(t.Context(), nil); result.RequeueAfter != 0 || err != nil {
		t.Errorf("without an error: %v, %v", result, err)
	}
}

func TestApplyFails(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			s, a := newServer(t)
			s.refuse = errors.New("refused")
			if written, err := kind.apply(t.Context(), a, nil, nil); !errors.Is(err, s.refuse) || written {
				t.Errorf("got %v, %v", written, err)
			}
			s.take()
			// What was written before cannot be read: nothing is guessed.
			current := kind.empty()
			current.SetManagedFields([]metav1.ManagedFieldsEntry{{
				Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"unknown":{}}`),
			}})
			if written, err := kind.apply(t.Context(), a, current, nil); err == nil || written || s.take() != nil {
				t.Errorf("got %v, %v", written, err)
			}
		})
	}
}

// A pass goes on with the pool that it has made: conditions are about its generation, and
// instances are owned by its UID.
func TestPoolAsMade(t *testing.T) {
	s, a := newServer(t)
	s.WithWatch = interceptor.NewClient(s.WithWatch, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, o ...client.ApplyOption) error {
			if err := c.Apply(ctx, obj, o...); err != nil {
				return err
			}
			obj.(*acwindowsv1alpha1.WindowsNodePoolApplyConfiguration).WithUID("u").WithGeneration(1) // the fake gives none
			return nil
		},
	})
	want := func() *acwindowsv1alpha1.WindowsNodePoolApplyConfiguration {
		return acwindowsv1alpha1.WindowsNodePool(key.Name, key.Namespace)
	}
	pool, err := a.Pool(t.Context(), nil, want())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "u", Generation: 1}, pool.ObjectMeta); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// The pool that was seen stays the one that is worked with, with its status.
	pool.Status.Replicas = 3
	for _, annotations := range []map[string]string{nil, {"a": "1"}} {
		if got, err := a.Pool(t.Context(), pool, want().WithAnnotations(annotations)); got != pool || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

func TestPoolStatus(t *testing.T) {
	removal := func(name string) *acwindowsv1alpha1.PoolRemovalApplyConfiguration {
		return acwindowsv1alpha1.PoolRemoval().WithName(name).WithTime(metav1.NewTime(time.Unix(1000, 0)))
	}
	status := acwindowsv1alpha1.WindowsNodePoolStatus
	none := status()
	none.RecentRemovals = []acwindowsv1alpha1.PoolRemovalApplyConfiguration{}
	tests := []struct {
		name    string
		want    *acwindowsv1alpha1.WindowsNodePoolStatusApplyConfiguration
		written bool
	}{
		{name: "the same", want: status().WithReplicas(2).WithRecentRemovals(removal("a"), removal("b"))},
		{name: "another value", want: status().WithReplicas(3), written: true},
		{name: "nothing about removals", want: status().WithReplicas(2)},
		{name: "a removal less", want: status().WithReplicas(2).WithRecentRemovals(removal("a")), written: true},
		{name: "no removal any more", want: none, written: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			current := &v1alpha1.WindowsNodePool{
				ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "u"},
				Status: v1alpha1.WindowsNodePoolStatus{Replicas: 2, RecentRemovals: []v1alpha1.PoolRemoval{
					{Name: "a", Time: metav1.NewTime(time.Unix(1000, 0))}, {Name: "b", Time: metav1.NewTime(time.Unix(1000, 0))},
				}},
			}
			s, a := newServer(t, current)
			written, err := a.PoolStatus(t.Context(), current, tt.want)
			if written != tt.written || err != nil {
				t.Errorf("got %v, %v", written, err)
			}
			var want []request
			if tt.written {
				want = []request{{Sub: "status", Namespace: key.Namespace, Name: key.Name, Manager: manager, Force: true, UID: "u"}}
			}
			if diff := cmp.Diff(want, s.take()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if s.refuse = errors.New("refused"); tt.written {
				if written, err := a.PoolStatus(t.Context(), current, tt.want); !errors.Is(err, s.refuse) || written {
					t.Errorf("refused: got %v, %v", written, err)
				}
			}
		})
	}
}
