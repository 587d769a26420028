// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package config

import (
	"fmt"
	"slices"
	"strings"
)

// DescriptionTag is what the description of every service of ours begins with. Tools
// and earlier software find the services of a host by it.
const DescriptionTag = "OpenShift managed"

// Description returns the description of the service that is called name.
func Description(name string) string { return DescriptionTag + " " + name }

// StartType is when Windows starts a service.
type StartType string

const (
	// StartAutomatic services are started with the host.
	StartAutomatic StartType = "Automatic"
	// StartManual services are started by the agent only.
	StartManual StartType = "Manual"
)

// Service is a service of Windows.
type Service struct {
	// Name of the service, which never changes.
	Name string `json:"name"`
	// Description is [Description] of Name.
	Description string `json:"description"`
	// BinaryPath is the program that the service control manager starts.
	BinaryPath string `json:"binaryPath"`
	// Arguments of the program. $(NAME) stands for the value of a variable.
	Arguments []string `json:"arguments,omitempty"`
	// Dependencies are services that Windows starts first. They may be services that
	// are not in the document.
	Dependencies []string  `json:"dependencies,omitempty"`
	StartType    StartType `json:"startType"`
	// Recovery is what Windows does when the program ends by itself. Nil: nothing.
	Recovery *Recovery `json:"recovery,omitempty"`
	// Bootstrap services make a host a node; all others need the Node to exist.
	Bootstrap bool `json:"bootstrap"`
	// Priority orders services that do not depend on one another: low before high.
	Priority int `json:"priority"`
	// Health is how the health of the service is checked. Nil: it is enough that it runs.
	Health *Health `json:"health,omitempty"`
	// OnChange is what follows when the service itself changes.
	OnChange OnChange `json:"onChange"`
	// Waiting: what the service needs is not known at present, its Node for example. A host that
	// has the service keeps it, with the values that it had; another does not get it yet.
	Waiting bool `json:"waiting,omitempty"`
	// Network is a foreign one of [HNS] that the service needs. A host without it does not get the service yet, and does not start
	// one that it has. Empty: it needs none.
	Network string `json:"network,omitempty"`
}

// MinRestartDelay is the shortest delay before a restart, in milliseconds. A shorter
// one is a mistake of units: the service control manager counts milliseconds, and a
// service that cannot start would keep a processor busy.
const MinRestartDelay = 1000

// Recovery is what the service control manager does when a service fails.
type Recovery struct {
	// ResetAfterSeconds is how long a service has to run for its failures to be
	// forgotten. The service control manager counts these in seconds.
	ResetAfterSeconds int64 `json:"resetAfterSeconds"`
	// RestartDelaysMilliseconds are the delays before the restarts that follow the
	// first, the second… failure; the last one holds for all that come after.
	RestartDelaysMilliseconds []int64 `json:"restartDelaysMilliseconds"`
}

// Health is how the health of a service is checked. Exactly one of URL and Pipe is set.
type Health struct {
	// URL on the host itself that answers with 200.
	URL string `json:"url,omitempty"`
	// Pipe is a named pipe that can be connected to.
	Pipe string `json:"pipe,omitempty"`
	// WithinSeconds is how long the service may take for it after its start.
	WithinSeconds int64 `json:"withinSeconds"`
}

// CommandLine returns what the service control manager gets: the program and its
// arguments, with the variables replaced by their values.
func (s *Service) CommandLine(values map[string]string) (string, error) {
	words := make([]string, 0, 1+len(s.Arguments))
	words = append(words, quote(s.BinaryPath))
	for _, argument := range s.Arguments {
		expanded, err := Expand(argument, values)
		if err != nil {
			return "", fmt.Errorf("service %s: %w", s.Name, err)
		}
		words = append(words, quote(expanded))
	}
	return strings.Join(words, " "), nil
}

// quote makes text one argument of a command line of Windows, by the rules by which
// programs split it (CommandLineToArgvW). What needs no quotes stays as it is.
func quote(text string) string {
	if text != "" && !strings.ContainsAny(text, " \t\n\v\"") {
		return text
	}
	var out strings.Builder
	out.WriteByte('"')
	backslashes := 0
	for _, c := range []byte(text) {
		switch c {
		case '\\':
			backslashes++
		case '"':
			// Backslashes count only before a quote: they are doubled, and one more
			// makes the quote a character.
			out.WriteString(strings.Repeat(`\`, backslashes+1))
			backslashes = 0
		default:
			backslashes = 0
		}
		out.WriteByte(c)
	}
	out.WriteString(strings.Repeat(`\`, backslashes))
	out.WriteByte('"')
	return out.String()
}

// ServiceSettings are those of a service that its document decides, as the service
// control manager has them.
type ServiceSettings struct {
	CommandLine  string
	Description  string
	Dependencies []string
	StartType    StartType
}

// Settings returns what the service control manager must have.
func (s *Service) Settings(values map[string]string) (ServiceSettings, error) {
	commandLine, err := s.CommandLine(values)
	if err != nil {
		return ServiceSettings{}, err
	}
	return ServiceSettings{
		CommandLine:  commandLine,
		Description:  s.Description,
		Dependencies: slices.Clone(s.Dependencies),
		StartType:    s.StartType,
	}, nil
}

// Equal says whether two settings mean the same to the service control manager, which
// keeps dependencies in no order and takes names in any case.
func (s ServiceSettings) Equal(other ServiceSettings) bool {
	return s.CommandLine == other.CommandLine && s.Description == other.Description &&
		s.StartType == other.StartType &&
		slices.Equal(sortedFold(s.Dependencies), sortedFold(other.Dependencies))
}

func sortedFold(names []string) []string {
	folded := make([]string, 0, len(names))
	for _, name := range names {
		folded = append(folded, strings.ToLower(name))
	}
	slices.Sort(folded)
	return slices.Compact(folded)
}
