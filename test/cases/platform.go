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

	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

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
	if r, isMissing := missingMember("platform-facts", name); isMissing {
		return r, nil
	}
	byKey := map[string]func(key string) (any, error){
		"sshUserForMachines": func(p string) (any, error) {
			return wmco.MachineUsername(configv1.PlatformType(p)), nil
		},
		"kubeletHostnameOverride": func(p string) (any, error) {
			if source := wmco.KubeletHostname(configv1.PlatformType(p)); source != wmco.HostnameOfWindows {
				return source, nil
			}
			return nil, nil //nolint:nilnil // null is how the file says that there is none
		},
		"renameComputerToMachineName": func(p string) (any, error) {
			return wmco.RenamesComputer(configv1.PlatformType(p)), nil
		},
		"extraPayload":      func(p string) (any, error) { return extraPayload(configv1.PlatformType(p)), nil },
		"extraServices":     func(p string) (any, error) { return extraServices(configv1.PlatformType(p)) },
		"extraKubeletFlags": func(p string) (any, error) { return extraKubeletFlags(configv1.PlatformType(p)) },
		"userDataTags":      func(p string) (any, error) { return userDataTags(p) },
		"userDataExtra":     func(p string) (any, error) { return extraUserData(p) },
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

// extraPayload lists what only hosts of the platform get, and where.
func extraPayload(platform configv1.PlatformType) string {
	everywhere := wmco.PayloadFiles(configv1.NonePlatformType)
	var extra []string
	for _, f := range wmco.PayloadFiles(platform) {
		if !slices.Contains(everywhere, f) {
			extra = append(extra, f.Source+" -> "+f.Directory)
		}
	}
	return strings.Join(extra, ", ")
}

// publishedOn returns the services of hosts of the platform by name.
func publishedOn(platform configv1.PlatformType) (map[string]document.PublishedService, error) {
	published, err := document.Publish(document.ServiceOptions{
		Platform: platform, APIServerURL: "https://api-int.c.example.com:6443", CredentialProvider: platform == configv1.AWSPlatformType,
	}, document.Proxy{})
	if err != nil {
		return nil, err
	}
	byName := map[string]document.PublishedService{}
	for _, s := range published.Services {
		byName[s.Name] = s
	}
	return byName, nil
}

// extraServices lists the services that only hosts of the platform have.
func extraServices(platform configv1.PlatformType) (string, error) {
	everywhere, err := publishedOn(configv1.NonePlatformType)
	if err != nil {
		return "", err
	}
	here, err := publishedOn(platform)
	if err != nil {
		return "", err
	}
	var extra []string
	for _, name := range slices.Sorted(maps.Keys(here)) {
		if _, ok := everywhere[name]; !ok {
			extra = append(extra, fmt.Sprintf("%s (priority %d)", name, here[name].Priority))
		}
	}
	return strings.Join(extra, ", "), nil
}

// extraKubeletFlags lists the flags that only kubelets of the platform have, but for
// the name of the Node, which is another fact.
func extraKubeletFlags(platform configv1.PlatformType) (string, error) {
	everywhere, err := publishedOn(configv1.NonePlatformType)
	if err != nil {
		return "", err
	}
	here, err := publishedOn(platform)
	if err != nil {
		return "", err
	}
	common := strings.Fields(everywhere[wmco.KubeletService].Command)
	var extra []string
	for flag := range strings.FieldsSeq(here[wmco.KubeletService].Command) {
		if !slices.Contains(common, flag) && !strings.HasPrefix(flag, "--hostname-override=") {
			extra = append(extra, flag)
		}
	}
	return strings.Join(extra, " "), nil
}
