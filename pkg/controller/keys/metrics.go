// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// metrics are those of the controller, by Secret.
type metrics struct {
	hosts, expires *prometheus.GaugeVec
}

// newMetrics returns metrics that are registered.
func newMetrics(registerer prometheus.Registerer) metrics {
	with := promauto.With(registerer)
	return metrics{
		hosts: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "windows_credentials_hosts",
			Help: "Hosts by the Secret with their credentials and the key that they accept: current is the one of the Secret, former another one, unknown those that were not logged in to so far.",
		}, []string{"namespace", "secret", "key"}),
		expires: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "windows_credentials_certificate_expiration_timestamp_seconds",
			Help: "When the first SSH certificate expires that is needed of a Secret with the credentials of hosts or of their bastions, in seconds since 1970. Secrets without one that expires are not there.",
		}, []string{"namespace", "secret"}),
	}
}

// measure sets the metric of hosts for a Secret; nil removes what there is of it.
func (r *Reconciler) measure(secret types.NamespacedName, p *progress) {
	if p == nil {
		r.metrics.hosts.DeletePartialMatch(prometheus.Labels{"namespace": secret.Namespace, "secret": secret.Name})
		r.metrics.expires.DeleteLabelValues(secret.Namespace, secret.Name)
		return
	}
	for key, n := range map[string]int{"current": p.current, "former": p.former, "unknown": p.unknown} {
		r.metrics.hosts.WithLabelValues(secret.Namespace, secret.Name, key).Set(float64(n))
	}
}

// measureCertificates sets the metric of certificates for a Secret of hosts; nil: it is gone, or nobody can log in with it.
func (r *Reconciler) measureCertificates(secret types.NamespacedName, s *secretState) {
	if s == nil {
		r.setExpiry(secret, time.Time{})
		return
	}
	r.setExpiry(secret, r.expiryOf(s.secret, s.needed))
}

// expiryOf is when the first certificate of some keys of a Secret expires. Zero: none does.
func (r *Reconciler) expiryOf(secret *corev1.Secret, keys []string) time.Time {
	return r.credentials.Expires(secret.Data, func(key string) bool { return slices.Contains(keys, key) })
}

// setExpiry sets the metric of certificates for a Secret. Zero: it has none that expires.
func (r *Reconciler) setExpiry(secret types.NamespacedName, expires time.Time) {
	if expires.IsZero() {
		r.metrics.expires.DeleteLabelValues(secret.Namespace, secret.Name)
		return
	}
	r.metrics.expires.WithLabelValues(secret.Namespace, secret.Name).Set(float64(expires.Unix()))
}
