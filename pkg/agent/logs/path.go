// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// maxPathBytes bounds a file query.
const maxPathBytes = 1024

// cleanPath turns the file of a query into a slash-separated path relative to the
// log root. It refuses every spelling that means, or could mean on Windows,
// something else than a file below the root. The rules of Windows apply on every
// system, so that a query means the same wherever the agent runs.
//
// This is the first of two barriers, and the one with precise messages. The second one
// is the [os.Root] through which files are opened.
func cleanPath(query string) (string, *api.LogError) {
	forbid := func(why string) (string, *api.LogError) {
		return "", &api.LogError{Code: 403, Reason: api.LogForbidden, Message: fmt.Sprintf("file %q: %s", query, why)}
	}
	refuse := func(why string) (string, *api.LogError) {
		return "", badRequest("", "file %q: %s", query, why)
	}
	switch {
	case len(query) > maxPathBytes:
		return "", badRequest("", "a file path may have at most %d bytes", maxPathBytes)
	case !utf8.ValidString(query):
		return refuse("the path is not valid UTF-8")
	}
	for _, r := range query {
		if r < 0x20 || r == 0x7f {
			return refuse("the path contains a control character")
		}
	}
	path := strings.ReplaceAll(query, `\`, "/")
	switch {
	case strings.HasPrefix(path, "//"):
		return forbid("network and device paths are not served, only paths relative to the log directory")
	case strings.HasPrefix(path, "/"):
		return forbid("absolute paths are not served, only paths relative to the log directory")
	case strings.Contains(path, ":"):
		return forbid("drive letters and alternate data streams are not served, only paths relative to the log directory")
	case strings.ContainsAny(path, `<>"|?*`):
		return refuse(`the path contains one of < > " | ? *, which no file name can have`)
	}
	var names []string
	for name := range strings.SplitSeq(path, "/") {
		switch {
		case name == "" || name == ".":
			continue
		case name == "..":
			return forbid(`".." is not allowed`)
		case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
			return refuse("a name ends in a dot or a space, which Windows would drop")
		case config.IsDeviceName(name):
			return forbid(fmt.Sprintf("%q is the name of a device", name))
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return refuse("the path has no file name")
	}
	return strings.Join(names, "/"), nil
}
