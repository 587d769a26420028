// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
)

// shipment is what is shipped to hosts, and how. Without a payload all of it is nil.
type shipment struct {
	payload *payload.Set
	// connections are apart from those for everything else, which must not wait behind a file.
	connections *ssh.Pool
	limits      agentclient.TransferLimits
}

// openPayload opens the payloads of the flags, if there are any.
func openPayload(ctx context.Context, connections ssh.Options, o *options) (*shipment, error) {
	perHost, total, err := o.uploadLimits()
	if err != nil {
		return nil, err
	}
	p, err := o.Desired.Open(ctx)
	if p == nil {
		return &shipment{}, err
	}
	for _, one := range p.Payloads() {
		klog.InfoS("Hosts are configured with a payload", "path", one.Path, "name", one.Manifest.Name, "version", one.Manifest.Version, "files", len(one.Manifest.Files))
	}
	return &shipment{
		payload:     p,
		connections: ssh.New(transfer.PoolOptions(connections)),
		limits:      agentclient.TransferLimits{HostBytesPerSecond: perHost, TotalBytesPerSecond: total},
	}, nil
}

// close ends the connections and removes what is temporary.
func (s *shipment) close() {
	if s.payload == nil {
		return
	}
	if err := errors.Join(s.connections.Close(), s.payload.Close()); err != nil {
		klog.ErrorS(err, "Closing the payload")
	}
}
