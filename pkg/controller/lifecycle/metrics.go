// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// standing is where an instance stands, as far as it is counted.
type standing struct {
	// configurationWaits and removalWaits: that is to be done and has not begun.
	configurationWaits, removalWaits bool
	// configurationFailed and removalFailed: the last attempt that has ended failed.
	configurationFailed, removalFailed bool
	// removalAsks: the removal waits until somebody confirms it.
	removalAsks bool
}

// newStanding sums up what was decided about an instance. Nothing failed on a host that somebody has paused, on one that another
// instance has, nor on one that has what it is to have, although an attempt at something else did.
func newStanding(decided snapshot, a action) standing {
	failed := func(t v1alpha1.OperationType) bool {
		return decided.paused == "" && lastEnded(&decided.instance.Status, t).BrokenOff()
	}
	if !decided.instance.DeletionTimestamp.IsZero() {
		return standing{
			removalWaits: a.pending, removalFailed: decided.held() && failed(v1alpha1.OperationRemove),
			removalAsks: a.removed != nil && a.removed.Reason == v1alpha1.ReasonConfirmationNeeded,
		}
	}
	counts := decided.managed && decided.instance.Status.KeptOff() == nil && !decided.satisfied()
	return standing{configurationWaits: a.pending, configurationFailed: counts && failed(v1alpha1.OperationReconfigure)}
}

// lastEnded is the newest attempt of a type that has ended: while it is tried again nothing has become better. Nil: none is known since the host
// was released.
func lastEnded(status *v1alpha1.WindowsInstanceStatus, t v1alpha1.OperationType) *v1alpha1.Operation {
	ended := *status
	if ended.Operation.Active() {
		ended.Operation = nil
	}
	return ended.NewestAttempt(t)
}

// satisfied says whether the host is a node with what it is to have. While an operation works on it, that is not known.
func (s snapshot) satisfied() bool {
	status, c := &s.instance.Status, s.configured()
	return !status.Operation.Active() && c != nil && c.Status == metav1.ConditionTrue && status.Node != nil &&
		status.CurrentRevision != "" && status.CurrentRevision == status.DesiredRevision
}

// standingMetric counts the instances of each namespace that stand somewhere.
type standingMetric struct {
	desc *prometheus.Desc
	is   func(standing) bool
}

func newStandingMetric(name, help string, is func(standing) bool) standingMetric {
	return standingMetric{prometheus.NewDesc(name, help+" A namespace without such hosts is not there.", []string{"namespace"}, nil), is}
}

var standingMetrics = []standingMetric{
	newStandingMetric("windows_instance_configurations_waiting", "Hosts that are to be configured, for the first time or again, and are not yet.", func(s standing) bool { return s.configurationWaits }),
	newStandingMetric("windows_instance_configurations_failed", "Hosts whose last operation to configure them that has ended failed, or was canceled by somebody, without those that are paused or that another instance has.", func(s standing) bool { return s.configurationFailed }),
	newStandingMetric("windows_instance_removals_waiting", "Hosts whose instance was deleted, and that are to be cleaned and are not yet.", func(s standing) bool { return s.removalWaits }),
	newStandingMetric("windows_instance_removals_failed", "Hosts whose instance was deleted, and whose last operation to clean them that has ended failed, or was canceled by somebody, without those that are paused.", func(s standing) bool { return s.removalFailed }),
	newStandingMetric("windows_instance_removals_unconfirmed", "Hosts whose instance was deleted, and whose removal waits until somebody confirms it.", func(s standing) bool { return s.removalAsks }),
}

// standings counts instances by where they stand, when it is asked. It is safe for concurrent use.
type standings struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]standing
}

var _ prometheus.Collector = (*standings)(nil)

// newStandings returns standings that nothing is known of, and registers them, unless registerer is nil.
func newStandings(registerer prometheus.Registerer) *standings {
	s := &standings{byName: map[types.NamespacedName]standing{}}
	if registerer != nil {
		registerer.MustRegister(s)
	}
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

// Describe implements prometheus.Collector.
func (s *standings) Describe(to chan<- *prometheus.Desc) {
	for _, m := range standingMetrics {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (s *standings) Collect(to chan<- prometheus.Metric) {
	for _, m := range standingMetrics {
		for namespace, n := range s.count(m.is) {
			to <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, n, namespace)
		}
	}
}

// count counts the instances that stand somewhere, by their namespaces.
func (s *standings) count(is func(standing) bool) map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[string]float64{}
	for name, each := range s.byName {
		if is(each) {
			n[name.Namespace]++
		}
	}
	return n
}
