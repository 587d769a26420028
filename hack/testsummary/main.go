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
// With a command, tests of whole systems (those below test/) that failed are run by it once more, alone, when there are at
// most maxAgain. Those that pass then are no failures: they are listed as flaky, with what they said the first time.
//
//	go test -json ./... | testsummary go test -json
//
// gotest.tools/gotestsum prints another last line and has no exit status of its own for a run without tests. Both would
// have to be computed from its JSON file by a program that reads most of what this one does.
//
// It exits with 1 when anything failed or when it could not read its input, with 2 when it was given no test at all, and with 3
// when all that failed passed when it was run again.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
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
	if len(os.Args) > 1 {
		s.again(func(pkg, run string) ([]byte, error) {
			cmd := exec.CommandContext(context.Background(), os.Args[1], append(slices.Clone(os.Args[2:]), "-run", run, pkg)...)
			cmd.Stderr = os.Stderr
			return cmd.Output()
		})
	}
	s.print()
	switch {
	case s.failed > 0:
		os.Exit(1)
	case s.passed == 0:
		os.Exit(2)
	case len(s.flaky) > 0:
		os.Exit(3)
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

// maxRaces is how many reports of the race detector are kept of a package: all others are often the same one.
const maxRaces = 5

// running is a package whose end has not come yet.
type running struct {
	output  map[string]*strings.Builder // by test; "" is the package itself
	race    *strings.Builder            // what the race detector is about to report
	races   int                         // how often it has reported something
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
	passes                  map[string]bool // by name of a test
	done                    int
	failures                []failure
	flaky                   []failure // those that passed when they were run again
	raced                   bool      // the race detector has found something
	races                   []string  // what that was, with the package
	skips                   []string  // package, test and why
	slow                    []timed
}

// timed is a test that is no subtest, and how many seconds it took. What it waited for others before it ran does not count.
type timed struct {
	test    string
	seconds float64
}

// failure is a test that failed, or a package (without test) that did.
type failure struct {
	pkg, test, messages string
}

func (f failure) String() string { return strings.TrimSpace(short(f.pkg)+" "+f.test) + f.messages }

// top is the test of which it is, if it is one.
func (f failure) top() string {
	top, _, _ := strings.Cut(f.test, "/")
	return top
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, passes: map[string]bool{}, packages: map[string]*running{}, builds: map[string]*strings.Builder{}}
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
		s.addRace(e)
		s.raced = s.raced || strings.Contains(e.Output, "DATA RACE") || strings.Contains(e.Output, "race detected")
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

// raceRule is the line before and after what the race detector reports.
const raceRule = "==================\n"

// addRace collects what the race detector reports, which go test takes for output of whichever test printed last: often of one that passes.
func (s *summary) addRace(e event) {
	p := s.running(e.Package)
	switch {
	case strings.HasPrefix(e.Output, "WARNING: DATA RACE"):
		p.race = &strings.Builder{}
	case p.race != nil && e.Output == raceRule:
		s.endRace(e.Package)
	}
	if p.race != nil {
		appendOutput(p.race, e.Output)
	}
}

// endRace prints and keeps the report that is complete, or was cut off.
func (s *summary) endRace(pkg string) {
	p := s.running(pkg)
	if p.races++; p.races <= maxRaces {
		race := short(pkg) + ":\n" + strings.TrimSuffix(p.race.String(), "\n")
		s.races = append(s.races, race)
		s.printf("%s\n%s", race, raceRule)
	}
	p.race = nil
}

// isRace is what go test says of each test that had not ended when there was a race, whichever test it was of.
const isRace = "race detected during execution of test"

// onlyRaced says whether a test failed for nothing else, and has printed nothing but reports of races.
func onlyRaced(output string) bool {
	raced, report := false, false
	for line := range strings.Lines(output) {
		text := strings.TrimSpace(line)
		switch {
		case line == raceRule:
			report = !report
		case report, text == "", strings.HasPrefix(text, "=== "), strings.HasPrefix(text, "--- "):
		case strings.HasSuffix(text, isRace):
			raced = true
		default:
			return false
		}
	}
	return raced
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
	if e.Elapsed >= slowFrom && !strings.Contains(e.Test, "/") {
		s.slow = append(s.slow, timed{name, e.Elapsed})
	}
	switch e.Action {
	case "pass":
		s.passed++
		s.passes[e.Test] = true
	case "skip":
		s.skipped++
		p.skipped++
		s.skips = append(s.skips, name+": "+reason(output))
	case "fail":
		s.failed++
		p.failed++
		s.failures = append(s.failures, failure{e.Package, e.Test, messages(output)})
		if !onlyRaced(output) || p.races == 0 {
			s.printf("--- FAIL %s (%.1f s)\n%s", name, e.Elapsed, output)
		}
	}
}

func (s *summary) endPackage(e event) {
	p := s.running(e.Package)
	if p.race != nil {
		s.endRace(e.Package)
	}
	if p.races > maxRaces {
		s.printf("%s: %d more data races\n", short(e.Package), p.races-maxRaces)
	}
	delete(s.packages, e.Package)
	if e.Action == "skip" || (e.Action == "pass" && p.tests == 0) {
		return // it has no tests
	}
	s.done++
	if e.Action == "pass" {
		s.printf("ok   %-60s %7.1f s  %s\n", short(e.Package), e.Elapsed, counts(p))
		return
	}
	// No test says why, so the package has to: a panic, a timeout, a build. A package of which a test failed says FAIL when all
	// of its tests have run; without that some have not.
	if p.failed == 0 || !strings.Contains("\n"+said(p.output[""]), "\nFAIL\n") {
		s.failed++
		s.failures = append(s.failures, failure{pkg: e.Package})
		s.printf("%s", said(s.builds[e.FailedBuild]))
		for _, output := range p.output {
			s.printf("%s", said(output))
		}
	}
	s.printf("FAIL %-60s %7.1f s  %s\n", short(e.Package), e.Elapsed, counts(p))
}

// Tests that took so many seconds or longer are listed, the slowest ones first, and at most so many: where to look
// when all of them together take too long.
const (
	slowFrom = 60
	maxSlow  = 15
)

// maxAgain is how many tests are run again. If more fail, it is not the machine.
const maxAgain = 3

// systems is where the tests are that start whole systems, and that a slow machine can fail.
const systems = module + "test/"

// again has tests of systems that failed run once more, by package and as a pattern for -run. Run returns what go test -json
// prints, whether or not they pass.
func (s *summary) again(run func(pkg, pattern string) ([]byte, error)) {
	if s.raced {
		return // it is a race also where it does not show
	}
	tests := map[string][]string{}
	n := 0
	for _, f := range s.failures {
		if f.test == "" || !strings.HasPrefix(f.pkg, systems) {
			return // another run does not turn this one into a success
		}
		if f.test == f.top() {
			tests[f.pkg] = append(tests[f.pkg], f.test)
			n++
		}
	}
	if n > maxAgain {
		return
	}
	for _, pkg := range slices.Sorted(maps.Keys(tests)) {
		s.printf("run again, alone: %s %s\n", short(pkg), strings.Join(tests[pkg], " "))
		out, err := run(pkg, "^("+strings.Join(tests[pkg], "|")+")$")
		if err != nil {
			s.printf("%v\n", err)
		}
		second := newSummary(s.out)
		if err := second.read(bytes.NewReader(out)); err != nil {
			s.printf("%v\n", err)
			continue
		}
		passed := func(f failure) bool {
			return f.pkg == pkg && second.passes[f.top()] && second.passes[f.test] && !slices.ContainsFunc(second.failures, func(g failure) bool { return g.test == "" })
		}
		for _, f := range s.failures {
			if passed(f) {
				s.flaky = append(s.flaky, f)
				s.failed--
				s.passed++
			}
		}
		s.failures = slices.DeleteFunc(s.failures, passed)
	}
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
	if len(s.slow) > 0 {
		slices.SortFunc(s.slow, func(a, b timed) int { return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.test, b.test)) })
		s.printf("\nslowest, in seconds:\n")
		for _, slow := range s.slow[:min(len(s.slow), maxSlow)] {
			s.printf("  %5.0f %s\n", slow.seconds, slow.test)
		}
	}
	section("skipped", s.skips)
	section("flaky, failed in the run of all tests and passed alone", texts(s.flaky))
	section("failed", texts(s.failures))
	section("data races, for which go test fails all tests that had not ended", s.races)
	failed := map[string]bool{}
	for _, f := range s.failures {
		failed[f.pkg] = true
	}
	s.printf("\n%d packages with tests, %d of them failed\n", s.done, len(failed))
	s.printf("%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
}

func (s *summary) printf(format string, args ...any) {
	// When nobody reads standard output the exit code still tells.
	_, _ = fmt.Fprintf(s.out, format, args...)
}

func texts(failures []failure) []string {
	var out []string
	for _, f := range failures {
		out = append(out, f.String())
	}
	return out
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

const module = "github.com/openshift/windows-instance-api/"

// short is a package without the path of its module, which is in all of them.
func short(pkg string) string {
	return strings.TrimPrefix(pkg, module)
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
