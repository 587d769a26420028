// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package desired

import "github.com/openshift/windows-instance-api/pkg/hostconfig"

// Published returns the services of hosts as the peer operator publishes them, for tools
// that read that.
func (in *Inputs) Published() (*hostconfig.PublishedServices, error) {
	return hostconfig.Publish(in.common.Cluster.ServiceOptions, in.common.Cluster.Proxy)
}
