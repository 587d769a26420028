// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package platform

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/hostagent"
)

// parseHNSNetworks reads the answer of the Host Networking Service to GET /networks/, in its
// first schema, which all versions of Windows Server since 2019 speak.
func parseHNSNetworks(answer []byte) ([]hostagent.HNSNetwork, error) {
	var body struct {
		Success bool
		Error   string
		Output  []struct {
			Name    string
			Type    string
			Subnets []struct{ AddressPrefix string }
		}
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		return nil, fmt.Errorf("reading the answer of HNS: %w", err)
	}
	if !body.Success {
		if body.Error == "" {
			body.Error = "it does not say why"
		}
		return nil, errors.New("HNS refuses: " + body.Error)
	}
	var list []hostagent.HNSNetwork
	for _, n := range body.Output {
		network := hostagent.HNSNetwork{Name: n.Name, Type: n.Type}
		for _, s := range n.Subnets {
			network.Subnets = append(network.Subnets, s.AddressPrefix)
		}
		list = append(list, network)
	}
	return list, nil
}
