// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package system

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/openshift"
)

// dnsNumber is which address of the service range the DNS of OpenShift would have.
const dnsNumber = 11

// installOpenShift makes the cluster one that OpenShift was installed on.
func (s *System) installOpenShift(ctx context.Context) error {
	if s.options.OpenShift == "" {
		return nil
	}
	kinds, err := controlplane.OpenShiftCRDs(ctx, openshift.Resources...)
	if err != nil {
		return err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	if err := s.InstallCRDs(ctx, append(kinds, filepath.Join(root, "test", "openshift", "crds"))...); err != nil {
		return err
	}
	ca, err := os.ReadFile(s.CAFile())
	if err != nil {
		return err
	}
	server, err := s.hostsURL()
	if err != nil {
		return err
	}
	c, err := openshift.NewClient(s.AdminConfig())
	if err != nil {
		return err
	}
	cluster := openshift.Cluster{
		Platform: s.options.OpenShift, APIServerURL: server, APIServerCA: ca, ClientCA: ca,
		ServiceNetwork: s.ServiceRange().String(), DNS: s.ServiceIP(dnsNumber).String(),
	}
	if err := cluster.Install(ctx, c); err != nil {
		return fmt.Errorf("creating what OpenShift has: %w", err)
	}
	s.Cloud = &openshift.Cloud{Platform: s.options.OpenShift}
	s.operators, err = openshift.StartOperators(s.AdminConfig(), openshift.OperatorOptions{
		ServiceCA:     openshift.ServiceCA{Bundle: s.ServingCABundle(), Issue: s.issueServing},
		Cloud:         s.Cloud,
		MaxMachineAge: s.options.MaxMachineAge,
	})
	return err
}

// issueServing issues what a Service is served with.
func (s *System) issueServing(namespace, service string) (cert, key []byte, err error) {
	files, err := s.ServingCert(service, namespace)
	if err != nil {
		return nil, nil, err
	}
	if cert, err = os.ReadFile(files.CertFile); err != nil {
		return nil, nil, err
	}
	key, err = os.ReadFile(files.KeyFile)
	return cert, key, err
}
