// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func TestMachinesOfSet(t *testing.T) {
	f := newFixture(t, windowsMachine("a-1", "a"), windowsMachine("a-2", "a"), windowsMachine("b-1", "b"), windowsMachine("c", ""))
	var names []string
	for _, request := range f.machines.machinesOf(t.Context(), types.NamespacedName{Namespace: namespace, Name: "a"}) {
		names = append(names, request.Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"a-1", "a-2"}, names); diff != "" {
		t.Errorf("Machines (-want +got):\n%s", diff)
	}
}

func TestInstalled(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	if found, err := installed(mapper); found || err != nil {
		t.Errorf("without the API: got %v, %v", found, err)
	}
	mapper.Add(machinev1beta1.SchemeGroupVersion.WithKind("Machine"), meta.RESTScopeNamespace)
	if found, err := installed(mapper); found || err != nil {
		t.Errorf("with half of the API: got %v, %v", found, err)
	}
	mapper.Add(machinev1beta1.SchemeGroupVersion.WithKind("MachineSet"), meta.RESTScopeNamespace)
	if found, err := installed(mapper); !found || err != nil {
		t.Errorf("with the API: got %v, %v", found, err)
	}
}

// adding is a manager that is told what to run, and does not run it.
type adding struct {
	ctrl.Manager
	mapper meta.RESTMapper
	added  []manager.Runnable
}

func (a *adding) GetRESTMapper() meta.RESTMapper { return a.mapper }

func (a *adding) Add(runnable manager.Runnable) error {
	a.added = append(a.added, runnable)
	return nil
}

// mapping is what the API server says about the Machine API, each time when it is asked, in turn.
type mapping struct {
	meta.RESTMapper
	answers []error
}

func (m *mapping) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	answer := m.answers[0]
	if answer != nil { // both kinds are asked for otherwise
		m.answers = m.answers[1:]
	}
	return nil, answer
}

// The controllers begin on the leader when the Machine API is there, however long that takes and
// whatever the API server says until then, and their log is not full of it.
func TestStart(t *testing.T) {
	scheme := newFixture(t).Scheme()
	none := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: machinev1beta1.GroupName, Kind: kindMachine}}
	for _, tt := range []struct {
		name    string
		answers []error
		stop    bool // before it is there
		took    time.Duration
		added   int
		log     []string
	}{
		{name: "it is there", answers: []error{nil}, added: 2},
		{
			name: "it is installed later", answers: []error{none, errors.New("etcd is slow"), none, none, nil}, took: 4 * pollInterval, added: 2,
			log: []string{"The Machine API is not installed, waiting for it", "Cannot tell whether the Machine API is installed, trying again"},
		},
		{name: "it never is", answers: []error{none, nil}, stop: true, log: []string{"The Machine API is not installed, waiting for it"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:0"}, ctrl.Options{
				Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
				MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				var logged []string
				logger := funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{})
				ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), logger))
				defer cancel()
				a := &adding{Manager: mgr, mapper: &mapping{answers: tt.answers}}
				s := &starter{mgr: a, recorder: record.NewFakeRecorder(1)}
				if !s.NeedLeaderElection() {
					t.Error("every process starts them")
				}
				if tt.stop {
					time.AfterFunc(time.Second, cancel)
				}
				begun := time.Now()
				if err := s.Start(ctx); err != nil {
					t.Error(err)
				}
				if took := time.Since(begun); len(a.added) != tt.added || !tt.stop && took != tt.took {
					t.Errorf("it added %d controllers after %s", len(a.added), took)
				}
				if len(logged) != len(tt.log) {
					t.Errorf("logged %q", logged)
				}
				for i, line := range logged {
					if !strings.Contains(line, tt.log[i]) {
						t.Errorf("logged %q, want %q", line, tt.log[i])
					}
				}
			})
		})
	}
}
