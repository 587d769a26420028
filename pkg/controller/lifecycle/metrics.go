// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// standing is where an instance stands, as far as it is counted.
type standing struct {
	// configurationWaits and removalWaits: that is to be done and has not begun.
	configurationWaits, removalWaits bool
	// configurationFailed and removalFailed: the last attempt failed.
	configurationFailed, removalFailed bool
}

// newStanding sums up what was decided about an instance.
func newStanding(w snapshot, a action) standing {
	failed := func(t v1alpha1.OperationType) bool { return w.instance.Status.NewestOperation(t).BrokenOff() }
	if !w.instance.DeletionTimestamp.IsZero() {
		return standing{removalWaits: a.pending, removalFailed: w.held() && failed(v1alpha1.OperationRemove)}
	}
	return standing{configurationWaits: a.pending, configurationFailed: w.managed && failed(v1alpha1.OperationReconfigure)}
}

// standings counts instances by where they stand. It is safe for concurrent use.
type standings struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]standing
}

func newStandings() *standings {
	return &standings{byName: map[types.NamespacedName]standing{}}
}

func (s *standings) set(key types.NamespacedName, to standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to == (standing{}) {
		delete(s.byName, key)
		return
	}
	s.byName[key] = to
}

func (s *standings) count(is func(standing) bool) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, each := range s.byName {
		if is(each) {
			n++
		}
	}
	return float64(n)
}

// register adds the metrics to a registry.
func (s *standings) register(r prometheus.Registerer) error {
	for _, gauge := range []struct {
		name, help string
		is         func(standing) bool
	}{
		{"windows_instance_configurations_waiting", "Hosts that are to be set up, or set up anew, and are not yet.", func(s standing) bool { return s.configurationWaits }},
		{"windows_instance_configurations_failed", "Hosts whose last operation to set them up failed or was canceled.", func(s standing) bool { return s.configurationFailed }},
		{"windows_instance_removals_waiting", "Hosts whose instance was deleted, and that are to be cleaned and are not yet.", func(s standing) bool { return s.removalWaits }},
		{"windows_instance_removals_failed", "Hosts whose instance was deleted, and whose last operation to clean them failed or was canceled.", func(s standing) bool { return s.removalFailed }},
	} {
		err := r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: gauge.name, Help: gauge.help},
			func() float64 { return s.count(gauge.is) }))
		if err != nil {
			return fmt.Errorf("registering the metrics of the configuration controller: %w", err)
		}
	}
	return nil
}
