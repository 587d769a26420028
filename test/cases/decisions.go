// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/controller/source/machine"
)

type decisionCases struct {
	AddressChoice []struct {
		Addresses []corev1.NodeAddress `json:"addresses"`
	} `json:"addressChoice"`
	MachineEventFilter []struct {
		Name      string               `json:"name"`
		Addresses []corev1.NodeAddress `json:"addresses"`
		Labels    map[string]string    `json:"labels"`
		Phase     *string              `json:"phase"`
	} `json:"machineEventFilter"`
	NodeEventFilters []struct {
		Name string `json:"name"`
	} `json:"nodeEventFilters"`
}

// controllerDecisions runs a file that has a list of cases for each decision.
func controllerDecisions(file []byte) ([]result, error) {
	var cases decisionCases
	if err := json.Unmarshal(file, &cases); err != nil {
		return nil, fmt.Errorf("the file is not as expected: %w", err)
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(file, &names); err != nil {
		return nil, fmt.Errorf("the file is not as expected: %w", err)
	}
	var results []result
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if r, isMissing := missingMember("controller-decisions", name); isMissing {
			results = append(results, r)
		}
	}
	add := func(decision string, id any, r result) {
		r.ID = fmt.Sprintf("%s/%v", decision, id)
		results = append(results, r)
	}
	for i, c := range cases.AddressChoice {
		r := result{Output: machine.Address(c.Addresses, "")}
		if r.Output == "" {
			r = result{Error: "no address to reach the host at"}
		}
		add("addressChoice", i, r)
	}
	for _, c := range cases.MachineEventFilter {
		action := machine.Decide(&machinev1beta1.Machine{
			ObjectMeta: metav1.ObjectMeta{Labels: c.Labels},
			Status:     machinev1beta1.MachineStatus{Phase: c.Phase, Addresses: c.Addresses},
		})
		add("machineEventFilter", c.Name, result{Output: action == machine.Apply})
	}
	for _, c := range cases.NodeEventFilters {
		add("nodeEventFilters", c.Name, result{Skipped: "no controller of a source watches Nodes"})
	}
	return results, nil
}
