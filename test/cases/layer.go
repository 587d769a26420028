// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// windowsLayer runs a file that is one object, each member about the files and
// directories of a host.
func windowsLayer(file []byte) ([]result, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(file, &members); err != nil {
		return nil, fmt.Errorf("the file is no object: %w", err)
	}
	var results []result
	for _, name := range slices.Sorted(maps.Keys(members)) {
		found, err := layerMember(name, members[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, found...)
	}
	return results, nil
}

func layerMember(name string, value json.RawMessage) ([]result, error) {
	if r, isMissing := missingMember("windows-layer", name); isMissing {
		return []result{r}, nil
	}
	platform, isFiles := strings.CutPrefix(name, "files:")
	switch {
	case isFiles:
		var asked map[string]string
		if err := json.Unmarshal(value, &asked); err != nil {
			return nil, err
		}
		return []result{{ID: name, Output: payloadMap(configv1.PlatformType(platform), asked)}}, nil
	case name == "requiredDirectoriesInOrder":
		return []result{{ID: name, Output: wmco.Directories()}}, nil
	case name == "remoteCommands":
		return []result{{ID: name, Skipped: "the agent does it; no command is made for a shell"}}, nil
	case name == "splitPath":
		return eachOf(name, value, func(c struct {
			Path string `json:"path"`
		}) result {
			directory, file := wmco.SplitPath(c.Path)
			return result{Output: map[string]string{"dir": directory, "file": file}}
		})
	default:
		return []result{{ID: name, Skipped: "the member is not known"}}, nil
	}
}

// payloadMap returns where each file of the payload goes. The case writes the paths of
// some with two slashes; a path is written as the case does.
func payloadMap(platform configv1.PlatformType, asked map[string]string) map[string]string {
	spelled := map[string]string{}
	for archive := range asked {
		spelled[path.Clean(archive)] = archive
	}
	files := map[string]string{}
	for _, f := range wmco.PayloadFiles(platform) {
		archive := "/payload/" + f.Source + ".tar.gz"
		if asWritten, ok := spelled[archive]; ok {
			archive = asWritten
		}
		files[archive] = f.Directory
	}
	return files
}

// eachOf runs each case of a list that is the member of a file, and names the results
// after the member and where they stand in it, unless they have an id.
func eachOf[T any](member string, list json.RawMessage, runCase func(T) result) ([]result, error) {
	results, err := eachCase(runCase)(list)
	for i := range results {
		if results[i].ID == "" {
			results[i].ID = fmt.Sprintf("%s/%d", member, i)
		}
	}
	return results, err
}
