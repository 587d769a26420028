// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	// VirtualNetwork is the ID of the network of an endpoint.
	VirtualNetwork string
	// State of an endpoint; not every version reports it.
	State   int
	Subnets []struct{ AddressPrefix string }
}

// hnsPolicyList is a load balancer of kube-proxy. References are paths of endpoints.
type hnsPolicyList struct {
	ID         string
	References []string
}

// policyListsOf returns the IDs of the lists that refer to endpoints of a network.
func policyListsOf(lists []hnsPolicyList, endpoints []hnsObject, network string) (ids []string) {
	ofNetwork := map[string]bool{}
	for _, e := range endpoints {
		if strings.EqualFold(e.VirtualNetwork, network) {
			ofNetwork["/endpoints/"+strings.ToLower(e.ID)] = true
		}
	}
	for _, l := range lists {
		if slices.ContainsFunc(l.References, func(r string) bool { return ofNetwork[strings.ToLower(r)] }) {
			ids = append(ids, l.ID)
		}
	}
	return ids
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
