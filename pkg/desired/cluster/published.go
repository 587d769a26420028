// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import "github.com/openshift/windows-instance-api/pkg/desired/document"

// Published returns the services of hosts as the peer operator publishes them, for tools
// that read that.
func (in *Inputs) Published() (*document.PublishedServices, error) {
	return document.Publish(in.common.Cluster.ServiceOptions, in.common.Cluster.Proxy)
}
