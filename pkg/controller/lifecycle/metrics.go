// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
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
func newStanding(decided snapshot, a action) standing {
	failed := func(t v1alpha1.OperationType) bool { return decided.instance.Status.NewestAttempt(t).BrokenOff() }
	if !decided.instance.DeletionTimestamp.IsZero() {
		return standing{removalWaits: a.pending, removalFailed: decided.held() && failed(v1alpha1.OperationRemove)}
	}
	return standing{configurationWaits: a.pending, configurationFailed: decided.managed && failed(v1alpha1.OperationReconfigure)}
}

// standings counts instances by where they stand. It is safe for concurrent use.
type standings struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]standing
}

// newStandings returns standings that nothing is known of, and registers their metrics.
func newStandings(registerer prometheus.Registerer) *standings {
	s := &standings{byName: map[types.NamespacedName]standing{}}
	gauge := func(name, help string, is func(standing) bool) {
		promauto.With(registerer).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return s.count(is) })
	}
	gauge("windows_instance_configurations_waiting", "Hosts that are to be configured, for the first time or again, and are not yet.", func(s standing) bool { return s.configurationWaits })
	gauge("windows_instance_configurations_failed", "Hosts whose last operation to configure them failed, or was canceled by somebody.", func(s standing) bool { return s.configurationFailed })
	gauge("windows_instance_removals_waiting", "Hosts whose instance was deleted, and that are to be cleaned and are not yet.", func(s standing) bool { return s.removalWaits })
	gauge("windows_instance_removals_failed", "Hosts whose instance was deleted, and whose last operation to clean them failed, or was canceled by somebody.", func(s standing) bool { return s.removalFailed })
	return s
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
