// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package policies

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
)

const nodes = "windows-controller-nodes"

// others are the policies that refuse, unless a test says otherwise, by what they are tried on.
var others = map[string]string{"controllerrevisions": "windows-controller-revisions", "secrets": "windows-controller-secrets"}

// bench is a checker and a cluster, which refuses what answers say.
type bench struct {
	mu       sync.Mutex
	answers  map[string]error // by resource
	requests []string

	events   *record.FakeRecorder
	registry *prometheus.Registry
}

// start starts the checker in a bubble of synctest.
func start(t *testing.T, b *bench, list ...runtime.Object) {
	t.Helper()
	kube := fake.NewClientset()
	kube.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		var dryRun []string
		switch a := action.(type) {
		case clienttesting.PatchActionImpl:
			dryRun = a.PatchOptions.DryRun
		case clienttesting.CreateActionImpl:
			dryRun = a.CreateOptions.DryRun
		}
		if diff := cmp.Diff([]string{metav1.DryRunAll}, dryRun); diff != "" {
			t.Errorf("%s %s is no dry run", action.GetVerb(), action.GetResource().Resource)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		resource := action.GetResource().Resource
		b.requests = append(b.requests, action.GetVerb()+" "+resource)
		if err, said := b.answers[resource]; said || others[resource] == "" {
			return true, nil, err
		}
		return true, nil, refused(resource, others[resource])
	})
	b.events, b.registry = record.NewFakeRecorder(100), prometheus.NewRegistry()
	c := newChecker(clientfake.NewClientBuilder().WithRuntimeObjects(list...).Build(), Options{
		Kube: kube, Namespace: "ours", Recorder: b.events, Registerer: b.registry,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// answer has the cluster answer requests about a resource with an error, or none.
func (b *bench) answer(resource string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[resource] = err
}

func (b *bench) requested() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(b.requests)), ",")
}

// enforced is what the metric says about each policy.
func (b *bench) enforced(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			values[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
		}
	}
	return values
}

func (b *bench) told() []string {
	var events []string
	for len(b.events.Events) > 0 {
		events = append(events, <-b.events.Events)
	}
	return events
}

func node(name, system string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OperatingSystem: system}}}
}

func forbidden(resource string) error { return refused(resource, nodes) }

func refused(resource, policy string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "x", errors.New("ValidatingAdmissionPolicy '"+policy+"' with binding '"+policy+"' denied request"))
}

// TestEachPolicy: one that is gone is told of, and the others are not.
func TestEachPolicy(t *testing.T) {
	for resource, policy := range others {
		synctest.Test(t, func(t *testing.T) {
			b := &bench{answers: map[string]error{"nodes": forbidden("nodes"), resource: nil}}
			start(t, b, node("linux", "linux"))
			synctest.Wait()
			time.Sleep(secondTry) //nolint:forbidigo // the time of the bubble
			synctest.Wait()
			want := map[string]float64{nodes: 1, "windows-controller-revisions": 1, "windows-controller-secrets": 1}
			want[policy] = 0
			if diff := cmp.Diff(want, b.enforced(t)); diff != "" {
				t.Errorf("without %s (-want +got)\n%s", policy, diff)
			}
			if got := b.told(); len(got) != 1 || !strings.Contains(got[0], policy) {
				t.Errorf("events: %q", got)
			}
		})
	}
}

func TestEnforced(t *testing.T) {
	for _, test := range []struct {
		name     string
		nodes    []runtime.Object
		answers  map[string]error
		want     map[string]float64
		told     int
		requests string // those that are made once
	}{
		{"it refuses", []runtime.Object{node("win-1", "windows"), node("linux", "linux")}, map[string]error{"nodes": forbidden("nodes")}, map[string]float64{nodes: 1}, 0, "patch nodes"},
		{"it is gone", []runtime.Object{node("linux", "linux")}, map[string]error{}, map[string]float64{nodes: 0}, 1, "patch nodes"},
		{"something else refuses it", []runtime.Object{node("linux", "linux")}, map[string]error{"nodes": apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "x", errors.New("exceeded quota"))}, map[string]float64{}, 0, "patch nodes"},
		{"no Node can show it", []runtime.Object{node("win-1", "windows")}, map[string]error{}, map[string]float64{}, 0, ""},
		{"the API does not say", []runtime.Object{node("linux", "linux")}, map[string]error{"nodes": apierrors.NewServiceUnavailable("later")}, map[string]float64{}, 0, "patch nodes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{answers: test.answers}
				start(t, b, test.nodes...)
				synctest.Wait()
				if got, want := b.requested(), strings.TrimSuffix("create controllerrevisions,create secrets,"+test.requests, ","); got != want {
					t.Errorf("it asks for %s", got)
				}
				time.Sleep(secondTry) //nolint:forbidigo // the time of the bubble
				synctest.Wait()
				got := b.enforced(t)
				maps.DeleteFunc(got, func(policy string, value float64) bool { return policy != nodes && value == 1 })
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("the metric (-want +got)\n%s", diff)
				}
				if got := b.told(); len(got) != test.told || test.told > 0 && !strings.Contains(got[0], "Warning PolicyNotEnforced ") {
					t.Errorf("events: %q", got)
				}
			})
		})
	}
}

// TestNothingToTry: the other policies are not tried more often because there is no Node to try one on.
func TestNothingToTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{answers: map[string]error{}}
		start(t, b)
		time.Sleep(interval - time.Second) //nolint:forbidigo // the time of the bubble
		synctest.Wait()
		if got := b.requested(); got != "create controllerrevisions,create secrets" {
			t.Errorf("it asks for %s", got)
		}
	})
}

// A policy comes into force some seconds after it was made, and nobody is told of that; what goes
// later, and comes again, is told once.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{answers: map[string]error{}}
		start(t, b, node("linux", "linux"))
		synctest.Wait()
		b.answer("nodes", forbidden("nodes"))
		time.Sleep(secondTry) //nolint:forbidigo // the time of the bubble
		synctest.Wait()
		if got := b.told(); len(got) > 0 || b.enforced(t)[nodes] != 1 {
			t.Errorf("at the installation: %q, %v", got, b.enforced(t))
		}
		b.answer("nodes", nil)
		time.Sleep(3 * interval) //nolint:forbidigo // likewise
		synctest.Wait()
		if got := b.told(); len(got) != 1 || !strings.Contains(got[0], nodes) || b.enforced(t)[nodes] != 0 {
			t.Errorf("gone: %q, %v", got, b.enforced(t))
		}
		b.answer("nodes", apierrors.NewServiceUnavailable("later"))
		time.Sleep(interval) //nolint:forbidigo // likewise
		synctest.Wait()
		if b.enforced(t)[nodes] != 0 {
			t.Error("it counts as enforced because the API does not answer")
		}
		b.answer("nodes", forbidden("nodes"))
		time.Sleep(interval) //nolint:forbidigo // likewise
		synctest.Wait()
		if got := b.told(); len(got) > 0 || b.enforced(t)[nodes] != 1 {
			t.Errorf("back: %q, %v", got, b.enforced(t))
		}
		b.answer("nodes", apierrors.NewServiceUnavailable("later"))
		time.Sleep(interval) //nolint:forbidigo // likewise
		synctest.Wait()
		if value, known := b.enforced(t)[nodes]; known {
			t.Errorf("not known: %v", value)
		}
	})
}
