// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/types"
)

// newMetric returns the metric of the controller, registered.
func newMetric(registerer prometheus.Registerer) *prometheus.GaugeVec {
	return promauto.With(registerer).NewGaugeVec(prometheus.GaugeOpts{
		Name: "windows_credentials_hosts",
		Help: "Hosts by the Secret with their credentials and the key that they accept: current is the one of the Secret, former another one, unknown those that were not logged in to so far.",
	}, []string{"namespace", "secret", "key"})
}

// measure sets the metric for a Secret; nil removes it.
func (r *Reconciler) measure(secret types.NamespacedName, p *progress) {
	if p == nil {
		r.hosts.DeletePartialMatch(prometheus.Labels{"namespace": secret.Namespace, "secret": secret.Name})
		return
	}
	for key, n := range map[string]int{"current": p.current, "former": p.former, "unknown": p.unknown} {
		r.hosts.WithLabelValues(secret.Namespace, secret.Name, key).Set(float64(n))
	}
}
