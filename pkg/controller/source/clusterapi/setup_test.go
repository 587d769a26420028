// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package clusterapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/capi"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

var kinds = []string{capi.KindCluster, capi.KindMachineDeployment, capi.KindMachineSet, capi.KindMachine}

func mapperOf(kinds []string, versions ...string) *meta.DefaultRESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, version := range versions {
		for _, kind := range kinds {
			mapper.Add(schema.GroupVersionKind{Group: capi.Group, Version: version, Kind: kind}, meta.RESTScopeNamespace)
		}
	}
	return mapper
}

type failing struct{ meta.RESTMapper }

func (failing) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, errors.New("etcd is slow")
}

func TestServedVersion(t *testing.T) {
	for name, tt := range map[string]struct {
		mapper meta.RESTMapper
		want   string
	}{
		"both":       {mapperOf(kinds, "v1beta1", "v1beta2"), "v1beta2"},
		"the former": {mapperOf(kinds, "v1beta1"), "v1beta1"},
		"of another": {mapperOf(kinds, "v1alpha4"), ""},
		"half of it": {mapperOf(kinds[:2], "v1beta2"), ""},
		"none":       {mapperOf(nil), ""},
	} {
		if got, err := servedVersion(tt.mapper); got != tt.want || err != nil {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if got, err := servedVersion(failing{}); err == nil {
		t.Errorf("got %q", got)
	}
}

// asked is a manager whom the starter asks for what it needs to look.
type asked struct {
	ctrl.Manager
	reader client.Reader
	mapper meta.RESTMapper
	config *rest.Config
}

func (m asked) GetAPIReader() client.Reader    { return m.reader }
func (m asked) GetRESTMapper() meta.RESTMapper { return m.mapper }
func (m asked) GetConfig() *rest.Config        { return m.config }
func (m asked) GetHTTPClient() *http.Client    { return http.DefaultClient }

// TestFind: which Cluster is this one, and whether it may be read.
func TestFind(t *testing.T) {
	infrastructure := func(name string) *configv1.Infrastructure {
		i := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		i.Status.InfrastructureName = name
		return i
	}
	for _, tt := range []struct {
		name    string
		flag    client.ObjectKey
		objects []client.Object
		mapper  meta.RESTMapper
		refuse  string // what may not be listed
		want    found
	}{
		{name: "the flag", flag: theCluster, mapper: mapperOf(kinds, "v1beta2"), want: found{cluster: theCluster, version: "v1beta2"}},
		{name: "the flag, on OpenShift", flag: theCluster, objects: []client.Object{infrastructure("demo-7k2xq")}, mapper: mapperOf(kinds, "v1beta1"), want: found{cluster: theCluster, version: "v1beta1"}},
		{name: "OpenShift", objects: []client.Object{infrastructure("demo-7k2xq")}, mapper: mapperOf(kinds, "v1beta1"), want: found{cluster: client.ObjectKey{Namespace: wmco.ClusterAPINamespace, Name: "demo-7k2xq"}, version: "v1beta1"}},
		{name: "OpenShift without a name", objects: []client.Object{infrastructure("")}, mapper: mapperOf(kinds, "v1beta1"), want: found{missing: "--cluster-api-cluster"}},
		{name: "another cluster without the flag", mapper: mapperOf(kinds, "v1beta2"), want: found{missing: "--cluster-api-cluster"}},
		{name: "not installed", flag: theCluster, mapper: mapperOf(nil), want: found{missing: "is not served"}},
		{name: "Clusters may not be read", flag: theCluster, mapper: mapperOf(kinds, "v1beta2"), refuse: "clusters", want: found{cluster: theCluster, version: "v1beta2", missing: "in namespace clusters may not be read"}},
		{name: "MachineDeployments may not be read", flag: theCluster, mapper: mapperOf(kinds, "v1beta2"), refuse: "machinedeployments", want: found{cluster: theCluster, version: "v1beta2", missing: "may not be read"}},
		{name: "MachineSets may not be read", flag: theCluster, mapper: mapperOf(kinds, "v1beta2"), refuse: "machinesets", want: found{cluster: theCluster, version: "v1beta2", missing: "may not be read"}},
		{name: "Machines may not be read", flag: theCluster, mapper: mapperOf(kinds, "v1beta2"), refuse: "machines", want: found{cluster: theCluster, version: "v1beta2", missing: "may not be read"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var paths []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				paths = append(paths, r.URL.Path)
				w.Header().Set("Content-Type", "application/json")
				resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
				if resource == tt.refuse {
					w.WriteHeader(http.StatusForbidden)
					_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: resource + " is forbidden"})
					return
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"items": []any{}})
			}))
			defer server.Close()
			scheme := runtime.NewScheme()
			if err := configv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			mgr := asked{reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(tt.objects...).Build(), mapper: tt.mapper, config: &rest.Config{Host: server.URL}}
			s := &starter{mgr: mgr, options: Options{Cluster: tt.flag}}
			got, err := s.find(t.Context())
			if err != nil || (got.missing == "") != (tt.want.missing == "") || !strings.Contains(got.missing, tt.want.missing) {
				t.Errorf("got %+v, %v", got, err)
			}
			if tt.want.missing = got.missing; got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			for _, path := range paths {
				if !strings.Contains(path, "/namespaces/"+got.cluster.Namespace+"/") {
					t.Errorf("it has asked for %s, and may ask in one namespace only", path)
				}
			}
		})
	}
}

// TestStartWithout: without Cluster API nobody waits for its Machines, and the controllers wait until the manager ends.
func TestStartWithout(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	machines := &Machines{}
	ctx, cancel := context.WithCancel(t.Context())
	s := &starter{mgr: asked{reader: fake.NewClientBuilder().WithScheme(scheme).Build(), mapper: mapperOf(nil)}, options: Options{Cluster: theCluster, Machines: machines}}
	if !s.NeedLeaderElection() {
		t.Error("every process starts them")
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	for {
		if _, err := machines.List(ctx); err == nil {
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestConcerned: what changes for all has all of them decided about again, also those whose Machine is gone.
func TestConcerned(t *testing.T) {
	f := newFixture(t, newCluster(), newMachine("m"), newMachine("other", func(m *capi.Machine) { m.Spec.ClusterName = "other" }), newDeployment("win", 1), newSet("alone", nil))
	f.settle("m")
	f.settle("win")
	f.drop(newMachine("m"))
	if err := f.Create(t.Context(), &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "by-hand"}}); err != nil {
		t.Fatal(err)
	}
	if err := f.Create(t.Context(), newMachine("new")); err != nil {
		t.Fatal(err)
	}
	names := func(requests []reconcile.Request) (names []string) {
		for _, request := range requests {
			names = append(names, request.Name)
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	if diff := cmp.Diff([]string{"m", "new"}, names(f.machines.all(t.Context(), newCluster()))); diff != "" {
		t.Errorf("Machines (-want +got):\n%s", diff)
	}
	if got := f.machines.all(t.Context(), &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere"}}); len(got) > 0 {
		t.Errorf("for a pool of another namespace: %v", got)
	}
	if diff := cmp.Diff([]string{"alone", "win"}, names(f.pools.all(t.Context(), newCluster()))); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}

func TestLeaving(t *testing.T) {
	f := newFixture(t, newCluster(), newMachine("m"), newMachine("going", deleting))
	machines := &Machines{}
	instance := func(name, uid string) *v1alpha1.WindowsInstance {
		return &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{
			v1alpha1.SourceAnnotation: "Machine.cluster.x-k8s.io clusters/" + name, v1alpha1.MachineUIDAnnotation: uid,
		}}}
	}
	if _, err := Leaving(t.Context(), machines, instance("going", "uid-of-going")); !errors.Is(err, capi.ErrNotKnown) {
		t.Errorf("before anybody knows: %v", err)
	}
	machines.Read(f, theCluster)
	for name, tt := range map[string]struct {
		instance *v1alpha1.WindowsInstance
		want     bool
	}{
		"going":         {instance("going", "uid-of-going"), true},
		"staying":       {instance("m", "uid-of-m"), false},
		"gone":          {instance("gone", "uid-of-gone"), false},
		"another one":   {instance("going", "former"), false},
		"of no Machine": {&v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "going"}}, false},
	} {
		if got, err := Leaving(t.Context(), machines, tt.instance); got != tt.want || err != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}
