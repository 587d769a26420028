// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

type queryKind int

const (
	serviceQuery queryKind = iota
	fileQuery
	channelQuery
)

// query is one parsed element of Request.Queries.
type query struct {
	kind queryKind
	// text is how the request spelled it; it names the source in the answer.
	text string
	// name is the service, the cleaned path, or the channel.
	name string
}

// channelPrefix marks the name of an event channel.
const channelPrefix = "eventlog/"

const (
	maxServiceName = 256
	// maxChannelName is the limit of the Windows event log.
	maxChannelName = 255
)

func parseQuery(text string) (query, *api.LogError) {
	switch {
	case text == "":
		return query{}, badRequest("", "a query must name a service, a file or an event channel")
	case strings.HasPrefix(text, channelPrefix) || strings.HasPrefix(text, `eventlog\`):
		name := text[len(channelPrefix):]
		if err := checkChannel(name); err != nil {
			return query{}, err
		}
		return query{kind: channelQuery, text: text, name: name}, nil
	case strings.ContainsAny(text, `/\`):
		name, err := cleanPath(text)
		if err != nil {
			return query{}, err
		}
		return query{kind: fileQuery, text: text, name: name}, nil
	}
	if len(text) > maxServiceName {
		return query{}, badRequest("", "a service name may have at most %d characters", maxServiceName)
	}
	if !serviceName.MatchString(text) {
		return query{}, badRequest("", "service name %q may contain only letters, digits and @ _ . -; a file needs a slash (./name), an event channel the prefix %s", text, channelPrefix)
	}
	return query{kind: serviceQuery, text: text, name: text}, nil
}

// serviceName matches the name of a service.
var serviceName = regexp.MustCompile(`^[a-zA-Z0-9@_.-]+$`)

// checkChannel refuses what cannot be a channel. A channel name goes to the event
// log as a parameter of a call and into no query text, but on the way it could
// be taken for a path of a file by EvtQuery, were a backslash allowed.
func checkChannel(name string) *api.LogError {
	switch {
	case name == "":
		return badRequest("", "an event channel needs a name, such as %sSystem", channelPrefix)
	case len(name) > maxChannelName:
		return badRequest("", "an event channel name may have at most %d characters", maxChannelName)
	case !utf8.ValidString(name):
		return badRequest("", "event channel %q is not valid UTF-8", name)
	}
	for _, r := range name {
		if r < 0x20 || strings.ContainsRune(`\<>&"|':*?`, r) {
			return badRequest("", "event channel %q contains a character that no channel name can have", name)
		}
	}
	return nil
}

// wellKnownService is a service whose log is known by name, also where the
// kubelet's fallbacks would not find it. Where the files are is fixed by how the services are
// installed: see the service definitions of this project and of the Windows
// Machine Config Operator.
type wellKnownService struct {
	name    string
	aliases []string
	// files are tried in order; the first is the one that a follow waits for.
	files []string
}

func wellKnownServices() []wellKnownService {
	return []wellKnownService{
		{name: "kubelet", files: []string{"kubelet/kubelet.log"}},
		{name: "kube-proxy", files: []string{"kube-proxy/kube-proxy.log"}},
		{name: "containerd", files: []string{"containerd/containerd.log"}},
		{name: "hybrid-overlay-node", aliases: []string{"hybrid-overlay"}, files: []string{"hybrid-overlay/hybrid-overlay.log"}},
		{name: "csi-proxy", files: []string{"csi-proxy/csi-proxy.log"}},
		{name: "windows_exporter", aliases: []string{"windows-exporter"}, files: []string{"windows_exporter/windows_exporter.log"}},
		// What operations did on the host; see the transcripts of package agent.
		{name: "agent", aliases: []string{"operation", api.ServiceName}, files: []string{api.ServiceName + "/" + api.TranscriptName}},
		// WICD logs with klog, which keeps a link <program>.INFO to the
		// file of the present process and severity.
		{name: "wicd", aliases: []string{"windows-instance-config-daemon"}, files: []string{
			"wicd/windows-instance-config-daemon.exe.INFO", "wicd/windows-instance-config-daemon.INFO",
		}},
	}
}

// serviceFiles are the files that a service's log may be in, in the order in which
// they are tried, and whether the service is a well-known one.
func serviceFiles(name string) (files []string, known bool) {
	for _, s := range wellKnownServices() {
		if s.name == name || slices.Contains(s.aliases, name) {
			files, known = append(files, s.files...), true
			break
		}
	}
	// The order of the kubelet's node log query.
	for _, candidate := range []string{name, name + ".log", path.Join(name, name+".log")} {
		// A name such as "con" or "a." is a fine service name and no file name.
		if clean, err := cleanPath(candidate); err == nil && !slices.Contains(files, clean) {
			files = append(files, clean)
		}
	}
	return files, known
}
