// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/legacy"
)

// notOurs are the members of the file that no source needs: they are about what is
// put on a host, and about the data a machine is started with.
var notOurs = map[string]string{
	"extraPayload":      "is about the content of hosts",
	"extraServices":     "is about the content of hosts",
	"extraKubeletFlags": "is about the content of hosts",
	"userDataTags":      "is about user data",
	"userDataExtra":     "is about user data",
}

// platformFacts runs a file that is one object, each member a fact by platform. The
// output of a member has the form of the member.
func platformFacts(file []byte) ([]result, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(file, &members); err != nil {
		return nil, fmt.Errorf("the file is no object: %w", err)
	}
	var results []result
	for _, name := range slices.Sorted(maps.Keys(members)) {
		r, err := platformFact(name, members[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r.ID = name
		results = append(results, r)
	}
	return results, nil
}

func platformFact(name string, value json.RawMessage) (result, error) {
	if reason, ok := notOurs[name]; ok {
		return result{Skipped: reason}, nil
	}
	if name == "gcpHostnameRule" {
		return gcpHostnames(value)
	}
	byKey := map[string]func(key string) (any, error){
		"sshUserForMachines": func(p string) (any, error) {
			return legacy.MachineUsername(configv1.PlatformType(p)), nil
		},
		"renameComputerToMachineName": func(p string) (any, error) {
			return legacy.RenamesComputer(configv1.PlatformType(p)), nil
		},
		"kubeletHostnameOverride": func(p string) (any, error) {
			if source := legacy.KubeletHostname(configv1.PlatformType(p)); source != legacy.HostnameOfWindows {
				return source, nil
			}
			return nil, nil //nolint:nilnil // null is how the file says that there is none
		},
		"machineNameLimit": func(p string) (any, error) {
			return legacy.MachineNameLimit(configv1.PlatformType(p)), nil
		},
		"runtimeClassBuilds": func(release string) (any, error) { return legacy.WindowsBuild(release) },
	}[name]
	if byKey == nil {
		return result{}, fmt.Errorf("the fact is not known")
	}
	var keys map[string]any
	if err := json.Unmarshal(value, &keys); err != nil {
		return result{}, fmt.Errorf("is no object: %w", err)
	}
	output := map[string]any{}
	for key := range keys {
		var err error
		if output[key], err = byKey(key); err != nil {
			return result{Error: err.Error()}, nil //nolint:nilerr // an error is what the case is about
		}
	}
	return result{Output: output}, nil
}

// gcpHostnames tries the function on a name that each rule is about, and says in
// the words of the rule what it did.
func gcpHostnames(value json.RawMessage) (result, error) {
	type rule struct {
		FQDNLen string `json:"fqdnLen"`
		Result  string `json:"result"`
	}
	var rules []rule
	if err := json.Unmarshal(value, &rules); err != nil {
		return result{}, fmt.Errorf("is no list: %w", err)
	}
	for i, r := range rules {
		fqdn := "winworker-x7k2p." + strings.Repeat("c", 60) + ".internal"
		if strings.HasPrefix(r.FQDNLen, "<=") {
			fqdn = ("winworker-x7k2p." + strings.Repeat("c", 63))[:63]
		}
		short, _, _ := strings.Cut(fqdn, ".")
		switch got := legacy.GCPHostname(fqdn); got {
		case fqdn:
			rules[i].Result = "whole FQDN"
		case short:
			rules[i].Result = "text before first dot"
		default:
			rules[i].Result = got
		}
	}
	return result{Output: rules}, nil
}
