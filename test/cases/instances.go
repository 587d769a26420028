// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/controller/source/configmap"
)

// resolve is the whole DNS of the cases.
func resolve(name string) configmap.Resolution {
	if name == "localhost" {
		return configmap.Resolution{Addresses: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}}
	}
	return configmap.Resolution{Err: fmt.Errorf("%s: no such host", name)}
}

// instance is one instance of a ConfigMap as the cases write it.
type instance struct {
	Address  string `json:"address"`
	IPv4     string `json:"ipv4"`
	Username string `json:"username"`
}

type parseCase struct {
	Data map[string]string `json:"data"`
}

// parseInstances reads the ConfigMap. A name that does not resolve counts as a bad
// entry here, as it does in the cases.
func parseInstances(c parseCase) result {
	entries, problems := configmap.Parse(c.Data, nil, resolve)
	bad := map[string]string{}
	for _, problem := range problems {
		bad[problem.Key] = problem.Message
	}
	instances := []instance{}
	for _, entry := range entries {
		if entry.Resolution.Err != nil {
			bad[entry.Key] = entry.Resolution.Err.Error()
			continue
		}
		found := instance{Address: entry.Address, Username: entry.Username}
		for _, addr := range entry.Resolution.Addresses {
			if addr.Is4() {
				found.IPv4 = addr.String()
				break
			}
		}
		instances = append(instances, found)
	}
	if len(instances) == 0 && len(bad) > 0 {
		var lines []string
		for _, key := range slices.Sorted(maps.Keys(bad)) {
			lines = append(lines, fmt.Sprintf("entry %s: %s", key, bad[key]))
		}
		return result{Error: strings.Join(lines, "\n")}
	}
	return result{Output: instances, Entries: bad}
}
