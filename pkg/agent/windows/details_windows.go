// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/facts"
)

// certificateFiles are where the programs of a node keep their certificates, except those that
// the kubelet and the overlay network rotated, which have a time in their names.
var certificateFiles = []string{
	`C:\var\lib\kubelet\pki\*-current.pem`,
	`C:\var\lib\kubelet\pki\*.crt`,
	`C:\k\*.crt`,
	`C:\k\tls\certs\*.crt`,
	`C:\k\cni\config\*-current.pem`,
}

// detailsOfNetworks is how long the networks are waited for: whoever inspects a host does so because something of it hangs, and gets
// the rest of the answer all the same.
const detailsOfNetworks = 5 * time.Second

// Details implements [agent.Host].
func (h *Host) Details(ctx context.Context, f *api.Facts) {
	facts.Certificates(f, certificateFiles)
	f.Collect("network/hns", func() error {
		// A request would start the service.
		if !slices.ContainsFunc(f.Services, func(s api.Service) bool { return s.Name == "hns" && s.State == "Running" }) {
			return errors.New("the Host Networking Service (hns) does not run")
		}
		ctx, cancel := context.WithTimeoutCause(ctx, detailsOfNetworks, hns.silent(detailsOfNetworks))
		defer cancel()
		networks, err := hnsRequest[[]hnsObject](ctx, "GET", "/networks/", nil)
		f.Network.HNSNetworks = networkFacts(networks)
		return err
	})
}
