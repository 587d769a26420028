// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"crypto/tls"
	"path/filepath"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// metricsCertificate is the certificate of /metrics, read again when its files change. Where they
// cannot be watched, as all inotify instances of the machine's user are taken (Linux has 128 unless
// told otherwise), they are read every minute: the watcher of controller-runtime would end the
// process, and with it the care for all hosts.
type metricsCertificate struct {
	files *dynamiccertificates.DynamicCertKeyPairContent
}

var (
	_ manager.Runnable               = &metricsCertificate{}
	_ manager.LeaderElectionRunnable = &metricsCertificate{}
)

// newMetricsCertificate reads tls.crt and tls.key of a directory.
func newMetricsCertificate(dir string) (*metricsCertificate, error) {
	files, err := dynamiccertificates.NewDynamicServingContentFromFiles("metrics", filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return nil, err
	}
	return &metricsCertificate{files: files}, nil
}

// configure has a server serve the certificate.
func (c *metricsCertificate) configure(config *tls.Config) {
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(c.files.CurrentCertKeyContent())
		if err != nil {
			return nil, err
		}
		return &pair, nil
	}
}

// Start follows the files until ctx is done.
func (c *metricsCertificate) Start(ctx context.Context) error {
	c.files.Run(ctx, 1)
	return nil
}

// NeedLeaderElection says that replicas which wait to lead serve metrics as well.
func (c *metricsCertificate) NeedLeaderElection() bool { return false }
