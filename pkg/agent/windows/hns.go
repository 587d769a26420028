// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// parseHNS reads an answer of the Host Networking Service, in its first schema, which all
// versions of Windows Server since 2019 speak.
func parseHNS[T any](answer []byte) (out T, err error) {
	var body struct {
		Success bool
		Error   string
		Output  T
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		return out, fmt.Errorf("reading the answer of HNS: %w", err)
	}
	if !body.Success {
		if body.Error == "" {
			body.Error = "it does not say why"
		}
		return out, errors.New("HNS refuses: " + body.Error)
	}
	return body.Output, nil
}

// hnsObject has the fields of networks and endpoints that are used.
type hnsObject struct {
	ID           string
	Name         string
	Type         string
	ManagementIP string
	IPAddress    string
	// State of an endpoint; not every version reports it.
	State   int
	Subnets []struct{ AddressPrefix string }
}

// networkFacts returns the facts about networks.
func networkFacts(networks []hnsObject) []api.HNSNetwork {
	var list []api.HNSNetwork
	for _, n := range networks {
		network := api.HNSNetwork{Name: n.Name, Type: n.Type}
		for _, s := range n.Subnets {
			network.Subnets = append(network.Subnets, s.AddressPrefix)
		}
		list = append(list, network)
	}
	return list
}
