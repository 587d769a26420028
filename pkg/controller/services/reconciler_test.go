// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

const testNamespace = "openshift-windows"

// published is a Source.
type published struct {
	services *document.PublishedServices
	err      error
}

func (p *published) Published(context.Context) (*document.PublishedServices, error) {
	return p.services, p.err
}

func kubelet(command string) *document.PublishedServices {
	return &document.PublishedServices{
		Services:           []document.PublishedService{{Name: "kubelet", Command: command, Bootstrap: true}},
		WatchedEnvironment: []string{"NO_PROXY"},
	}
}

// setup is a reconciler with what it sees.
type setup struct {
	*testing.T
	*Reconciler
	source   *published
	recorder *record.FakeRecorder
	// writes are what was created and deleted.
	writes []string
}

func newSetup(t *testing.T, objects ...client.Object) *setup {
	t.Helper()
	s := &setup{T: t, source: &published{services: kubelet("kubelet.exe")}, recorder: record.NewFakeRecorder(10)}
	c := ctrlfake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			s.writes = append(s.writes, "create "+o.GetName())
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			s.writes = append(s.writes, "delete "+o.GetName())
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	options := Options{Source: s.source, Namespace: testNamespace, Version: "v2", Recorder: s.recorder}
	s.Reconciler = &Reconciler{Options: options, live: c, client: c}
	return s
}

// reconcile makes one pass and returns what was written.
func (s *setup) reconcile() []string {
	s.Helper()
	s.writes = nil
	result, err := s.Reconcile(s.Context(), reconcile.Request{})
	if err != nil {
		s.Fatal(err)
	}
	if result.RequeueAfter != interval {
		s.Errorf("it is asked again after %s", result.RequeueAfter)
	}
	return s.writes
}

func (s *setup) events() []string {
	var out []string
	for len(s.recorder.Events) > 0 {
		out = append(out, <-s.recorder.Events)
	}
	return out
}

func configMap(version string, edit ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	c := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "windows-services-" + version, Labels: map[string]string{managedByLabel: managedBy}},
		Immutable:  new(true),
		Data: map[string]string{
			"files": "[]", "watchedEnvironmentVars": `["NO_PROXY"]`,
			"services": `[{"name":"kubelet","path":"kubelet.exe","bootstrap":true,"priority":0}]`,
		},
	}
	for _, e := range edit {
		e(c)
	}
	return c
}

func TestPublish(t *testing.T) {
	made, replaced := []string{"create windows-services-v2"}, []string{"delete windows-services-v2", "create windows-services-v2"}
	for _, tt := range []struct {
		name string
		have *corev1.ConfigMap
		want []string
	}{
		{name: "it is missing", want: made},
		{name: "it is there", have: configMap("v2", func(c *corev1.ConfigMap) { c.Annotations = map[string]string{"theirs": "stays"} })},
		{name: "other content", have: configMap("v2", func(c *corev1.ConfigMap) { c.Data["services"] = "[]" }), want: replaced},
		{name: "one key more", have: configMap("v2", func(c *corev1.ConfigMap) { c.Data["more"] = "" }), want: replaced},
		{name: "binary content", have: configMap("v2", func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"more": nil} }), want: replaced},
		{name: "it can be changed", have: configMap("v2", func(c *corev1.ConfigMap) { c.Immutable = nil }), want: replaced},
		{name: "nobody's", have: configMap("v2", func(c *corev1.ConfigMap) { c.Labels = nil }), want: replaced},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var objects []client.Object
			if tt.have != nil {
				objects = append(objects, tt.have)
			}
			s := newSetup(t, objects...)
			if diff := cmp.Diff(tt.want, s.reconcile()); diff != "" {
				t.Errorf("writes (-want +got)\n%s", diff)
			}
			var got corev1.ConfigMap
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(configMap("v2")), &got); err != nil {
				t.Fatal(err)
			}
			if !same(&got, configMap("v2")) {
				t.Errorf("got %+v", got)
			}
			var services []document.PublishedService
			if err := json.Unmarshal([]byte(got.Data["services"]), &services); err != nil {
				t.Errorf("whoever reads it: %v", err)
			}
			events := s.events()
			if told := len(events) == 1 && strings.HasPrefix(events[0], "Normal ServicesReplaced "); told != (len(tt.want) == 2) || len(events) > 1 {
				t.Errorf("events: %q", events)
			}
			if again := s.reconcile(); len(again) > 0 {
				t.Errorf("a second pass writes: %v", again)
			}
		})
	}
}

// The services change while the release stays, as with a proxy of the cluster.
func TestSourceChanges(t *testing.T) {
	s := newSetup(t)
	s.reconcile()
	s.source.services = kubelet("kubelet.exe --v=4")
	if got, want := s.reconcile(), []string{"delete windows-services-v2", "create windows-services-v2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	s.source.err = errors.New("Infrastructure cluster is missing")
	s.writes = nil
	if _, err := s.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, s.source.err) || len(s.writes) > 0 {
		t.Errorf("got %v, and wrote %v", err, s.writes)
	}
}

// TestBesideWMCO: while WMCO runs, nothing is written, and it is no error. What is to be published is there soon after it has ended.
func TestBesideWMCO(t *testing.T) {
	runs := fmt.Errorf("the inputs: %w", document.ErrOtherOperator)
	for name, have := range map[string]*corev1.ConfigMap{
		"nothing":         configMap("v2", func(c *corev1.ConfigMap) { c.Name = "another" }),
		"other content":   configMap("v2", func(c *corev1.ConfigMap) { c.Data["services"] = "[]" }),
		"another version": configMap("v0"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, have)
			s.source.err = runs
			if got := s.reconcile(); len(got) > 0 {
				t.Errorf("it wrote %q", got)
			}
			s.source.err = nil
			if got := s.reconcile(); !slices.Contains(got, "create windows-services-v2") {
				t.Errorf("once WMCO has ended it wrote %q", got)
			}
		})
	}
}

func node(name, version, desired string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{wmco.VersionAnnotation: version, wmco.DesiredVersionAnnotation: desired}}}
}

// What other releases published goes when no Node is, or must be, configured by them.
func TestOtherVersions(t *testing.T) {
	theirs := func(c *corev1.ConfigMap) { c.Labels = nil }
	s := newSetup(t, configMap("v2"), configMap("v1"), configMap("v0"), configMap("v3"), configMap("v9", theirs),
		configMap("v0", func(c *corev1.ConfigMap) { c.Namespace = "elsewhere" }),
		configMap("", func(c *corev1.ConfigMap) { c.Name = "something-else" }),
		node("old", "v1", "v2"), node("new", "v2", "v2"), node("next", "", "v3"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux"}})
	if got, want := s.reconcile(), []string{"delete windows-services-v0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := s.client.Update(t.Context(), node("old", "v2", "v2")); err != nil {
		t.Fatal(err)
	}
	if got, want := s.reconcile(), []string{"delete windows-services-v1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Somebody else makes the ConfigMap at the same time: nothing of theirs is deleted, and the
// next pass looks again.
func TestPublishedBySomebodyElse(t *testing.T) {
	s := newSetup(t, configMap("v2", func(c *corev1.ConfigMap) { c.Immutable = nil }))
	changed := false
	s.client = interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // the fake is one
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if !changed {
				changed = true
				other := configMap("v2")
				if err := c.Update(ctx, other); err != nil {
					return err
				}
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	if _, err := s.Reconcile(t.Context(), reconcile.Request{}); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if got := s.reconcile(); len(got) > 0 {
		t.Errorf("what somebody else made is as it should be, and yet: %v", got)
	}
}

func TestVersionsChanged(t *testing.T) {
	heartbeat := node("a", "v1", "v2")
	heartbeat.Status.Phase = corev1.NodeRunning
	for _, tt := range []struct {
		name string
		to   *corev1.Node
		want bool
	}{
		{name: "a heartbeat", to: heartbeat},
		{name: "configured", to: node("a", "v2", "v2"), want: true},
		{name: "another one is wanted", to: node("a", "v1", "v3"), want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := versionsChanged.Update(event.UpdateEvent{ObjectOld: node("a", "v1", "v2"), ObjectNew: tt.to}); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
