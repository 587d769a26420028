// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"encoding/json"
	"fmt"
	"net/netip"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/controller/source/configmap"
	"github.com/openshift/windows-instance-api/pkg/controller/source/machine"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

type decisionCases struct {
	AddressChoice []struct {
		Addresses []corev1.NodeAddress `json:"addresses"`
	} `json:"addressChoice"`
	BYOHNodeStillWanted []struct {
		Instances []struct {
			Address     string
			IPv4Address string
		} `json:"instances"`
		NodeAddresses []corev1.NodeAddress `json:"nodeAddresses"`
	} `json:"byohNodeStillWanted"`
	MachineEventFilter []struct {
		Name      string               `json:"name"`
		Addresses []corev1.NodeAddress `json:"addresses"`
		Labels    map[string]string    `json:"labels"`
		Phase     *string              `json:"phase"`
	} `json:"machineEventFilter"`
	UpgradeDecision []struct {
		NodeAnnotations map[string]string `json:"nodeAnnotations"`
		OperatorVersion string            `json:"operatorVersion"`
	} `json:"upgradeDecision"`
	NodeEventFilters []struct {
		Name string `json:"name"`
	} `json:"nodeEventFilters"`
}

// upgrade is the output of an upgradeDecision.
type upgrade struct {
	UpToDate        bool `json:"upToDate"`
	UpgradeRequired bool `json:"upgradeRequired"`
}

// controllerDecisions runs a file that has a list of cases for each decision.
func controllerDecisions(file []byte) ([]result, error) {
	var cases decisionCases
	if err := json.Unmarshal(file, &cases); err != nil {
		return nil, fmt.Errorf("the file is not as expected: %w", err)
	}
	var results []result
	add := func(decision string, id any, r result) {
		r.ID = fmt.Sprintf("%s/%v", decision, id)
		results = append(results, r)
	}
	for i, c := range cases.AddressChoice {
		r := result{Output: machine.Address(c.Addresses)}
		if r.Output == "" {
			r = result{Error: "no address to reach the host at"}
		}
		add("addressChoice", i, r)
	}
	for i, c := range cases.BYOHNodeStillWanted {
		var entries []configmap.Entry
		for _, instance := range c.Instances {
			entry := configmap.Entry{Address: instance.Address, Resolution: resolve(instance.Address)}
			if addr, err := netip.ParseAddr(instance.IPv4Address); err == nil {
				entry.Resolution = configmap.Resolution{Addresses: []netip.Addr{addr}}
			}
			entries = append(entries, entry)
		}
		_, wanted := configmap.EntryForNode(entries, c.NodeAddresses)
		add("byohNodeStillWanted", i, result{Output: wanted})
	}
	for _, c := range cases.MachineEventFilter {
		action := machine.Decide(&machinev1beta1.Machine{
			ObjectMeta: metav1.ObjectMeta{Labels: c.Labels},
			Status:     machinev1beta1.MachineStatus{Phase: c.Phase, Addresses: c.Addresses},
		})
		add("machineEventFilter", c.Name, result{Output: action == machine.Apply})
	}
	for i, c := range cases.UpgradeDecision {
		state := wmco.StateOfNode(c.NodeAnnotations, c.OperatorVersion)
		add("upgradeDecision", i, result{Output: upgrade{UpToDate: state == wmco.NodeUpToDate, UpgradeRequired: state == wmco.NodeOutdated}})
	}
	for _, c := range cases.NodeEventFilters {
		add("nodeEventFilters", c.Name, result{Skipped: "no controller of a source watches Nodes"})
	}
	return results, nil
}
