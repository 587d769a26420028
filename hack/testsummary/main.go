// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// testsummary reads the output of `go test -json`, reports at once how each package
// ended and what a failed test printed, and sums up at the end, with the first and
// the last messages of each failed test: whoever sees only the end of a log sees why. Its last line always is
//
//	N passed, N failed, N skipped
//
// where each test and each subtest counts as one, and so does a package that fails
// without a test that does (it does not compile, or it ran out of time).
//
//	set -o pipefail; go test -json ./... | testsummary
//
// gotest.tools/gotestsum prints another last line and has no exit status of its own for a run without tests. Both would
// have to be computed from its JSON file by a program that reads most of what this one does.
//
// It exits with 1 when anything failed or when it could not read its input, and
// with 2 when it was given no test at all.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	s := newSummary(os.Stdout)
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(1)
	}
	s.print()
	switch {
	case s.failed > 0:
		os.Exit(1)
	case s.passed == 0:
		os.Exit(2)
	}
}

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a build, instead of Package
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string // the ImportPath of the build because of which a package failed
}

// maxOutput bounds what is kept of one test, so that one that prints without end
// does not take all memory.
const maxOutput = 256 << 10

// How many messages of a failed test the summary repeats, and how many bytes of each. The
// first often name the cause, and the last are what ended it, after whatever it logged before.
const firstMessages, lastMessages, maxMessage = 2, 6, 1200

// running is a package whose end has not come yet.
type running struct {
	output  map[string]*strings.Builder // by test; "" is the package itself
	tests   int
	failed  int
	skipped int
}

// summary is what was seen so far.
type summary struct {
	out                     io.Writer
	packages                map[string]*running
	builds                  map[string]*strings.Builder
	passed, failed, skipped int
	done, failedPackages    int
	failures                []string // package and test
	skips                   []string // package, test and why
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, packages: map[string]*running{}, builds: map[string]*strings.Builder{}}
}

// read takes in everything up to the end of r.
func (s *summary) read(r io.Reader) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		line := scanner.Bytes()
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			// What the go tool itself has to say is no JSON.
			s.printf("%s\n", line)
			continue
		}
		s.add(e)
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("reading the output of go test: %w", err)
	}
	// Packages that were not brought to an end, because go test was killed.
	for name := range s.packages {
		s.endPackage(event{Action: "fail", Package: name})
	}
	return nil
}

func (s *summary) add(e event) {
	switch e.Action {
	case "build-output":
		if s.builds[e.ImportPath] == nil {
			s.builds[e.ImportPath] = &strings.Builder{}
		}
		appendOutput(s.builds[e.ImportPath], e.Output)
	case "output":
		p := s.running(e.Package)
		if p.output[e.Test] == nil {
			p.output[e.Test] = &strings.Builder{}
		}
		appendOutput(p.output[e.Test], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endPackage(e)
		} else {
			s.endTest(e)
		}
	}
}

func appendOutput(b *strings.Builder, text string) {
	if b.Len() < maxOutput {
		b.WriteString(text)
	}
}

func (s *summary) running(name string) *running {
	p := s.packages[name]
	if p == nil {
		p = &running{output: map[string]*strings.Builder{}}
		s.packages[name] = p
	}
	return p
}

func (s *summary) endTest(e event) {
	p := s.running(e.Package)
	p.tests++
	output := said(p.output[e.Test])
	delete(p.output, e.Test)
	name := short(e.Package) + " " + e.Test
	switch e.Action {
	case "pass":
		s.passed++
	case "skip":
		s.skipped++
		p.skipped++
		s.skips = append(s.skips, name+": "+reason(output))
	case "fail":
		s.failed++
		p.failed++
		s.failures = append(s.failures, name+messages(output))
		s.printf("--- FAIL %s (%.1f s)\n%s", name, e.Elapsed, output)
	}
}

func (s *summary) endPackage(e event) {
	p := s.running(e.Package)
	delete(s.packages, e.Package)
	if e.Action == "skip" || (e.Action == "pass" && p.tests == 0) {
		return // it has no tests
	}
	s.done++
	if e.Action == "pass" {
		s.printf("ok   %-60s %7.1f s  %s\n", short(e.Package), e.Elapsed, counts(p))
		return
	}
	s.failedPackages++
	if p.failed == 0 {
		// No test says why, so the package has to: a panic, a timeout, a build.
		s.failed++
		s.failures = append(s.failures, short(e.Package))
		s.printf("%s", said(s.builds[e.FailedBuild]))
		for _, output := range p.output {
			s.printf("%s", said(output))
		}
	}
	s.printf("FAIL %-60s %7.1f s  %s\n", short(e.Package), e.Elapsed, counts(p))
}

// print writes the summary.
func (s *summary) print() {
	section := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		slices.Sort(lines)
		s.printf("\n%s:\n", title)
		for _, line := range lines {
			s.printf("  %s\n", line)
		}
	}
	section("skipped", s.skips)
	section("failed", s.failures)
	s.printf("\n%d packages with tests, %d of them failed\n", s.done, s.failedPackages)
	s.printf("%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
}

func (s *summary) printf(format string, args ...any) {
	// When nobody reads standard output the exit code still tells.
	_, _ = fmt.Fprintf(s.out, format, args...)
}

func counts(p *running) string {
	text := fmt.Sprintf("%d tests", p.tests)
	if p.failed > 0 {
		text += fmt.Sprintf(", %d failed", p.failed)
	}
	if p.skipped > 0 {
		text += fmt.Sprintf(", %d skipped", p.skipped)
	}
	return text
}

// short is a package without the path of its module, which is in all of them.
func short(pkg string) string {
	return strings.TrimPrefix(pkg, "github.com/openshift/windows-instance-api/")
}

func said(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return b.String()
}

// messageLine is the beginning of what a test reports: its file and line.
var messageLine = regexp.MustCompile(`^\s+\S+_test\.go:\d+: `)

// furtherLine is how a further line of a message begins.
const furtherLine = "        "

// messages returns the first and the last messages of a test, without what programs and others
// printed between them.
func messages(output string) string {
	var all []string
	inside := false
	for line := range strings.Lines(output) {
		switch {
		case messageLine.MatchString(line):
			all = append(all, "\n    "+strings.TrimSpace(line))
			inside = true
		case inside && strings.HasPrefix(line, furtherLine):
			all[len(all)-1] += "\n    " + strings.TrimRight(line, "\n")[len(furtherLine)-4:]
		default:
			inside = false
		}
	}
	if left := len(all) - firstMessages - lastMessages; left > 0 {
		all = slices.Replace(all, firstMessages, firstMessages+left, fmt.Sprintf("\n    (%d more)", left))
	}
	for i, text := range all {
		if len(text) > maxMessage {
			all[i] = strings.ToValidUTF8(text[:maxMessage], "") + "..."
		}
	}
	return strings.Join(all, "")
}

// reason is the line with which a test was skipped.
func reason(output string) string {
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		// file_test.go:12: why
		if _, why, ok := strings.Cut(line, ": "); ok {
			return why
		}
		return line
	}
	return "it does not say why"
}
