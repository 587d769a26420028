// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// hnsService is the name of the Host Networking Service.
const hnsService = "hns"

// networksLeft names what stays of the Host Networking Service when everything of ours is gone, and
// holds the address of an adapter: networks behind a translation of addresses (NAT, ICS) hold none.
func (a *application) networksLeft(ctx context.Context) []string {
	service, err := a.System.Service(hnsService)
	if err == nil && (service == nil || service.State != ServiceRunning) {
		return nil // the question would start it
	}
	var list []api.HNSNetwork
	if err == nil {
		list, err = a.System.HNSNetworks(ctx)
	}
	if err != nil {
		a.emit(api.Event{Item: string(api.KindNetwork), State: api.EventNote, Message: "it is not known which networks of others stay: " + err.Error()})
	}
	var left []string
	for _, n := range list {
		if !strings.EqualFold(n.Type, "NAT") && !strings.EqualFold(n.Type, "ICS") {
			left = append(left, n.Name)
		}
	}
	slices.Sort(left)
	return left
}
